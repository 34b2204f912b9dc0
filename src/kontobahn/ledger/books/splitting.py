"""How bookings are split: decided once, when a booking is posted, stored with it, and read from there ever after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kontobahn.db import Tx
from kontobahn.ledger import kontierung
from kontobahn.ledger.books.store import Client
from kontobahn.ledger.kontenrahmen import Kontenrahmen
from kontobahn.ledger.kontierung import Leg, Split
from kontobahn.ledger.kontierung_1 import split_by_first_rule
from kontobahn.ledger.konto import is_personenkonto
from kontobahn.ledger.steuerschluessel import era_of, without_reversal

if TYPE_CHECKING:
    from kontobahn.ledger.books.posting import Satz

# Of a document with invoices of several rates.
MIXED = "*"
_MOST_REMEMBERED = 100_000


def legs_of(rahmen: Kontenrahmen, satz: Satz, stored: str) -> list[Leg]:
    """Returns the legs of a booking by the split that was stored with it."""
    return kontierung.legs(
        rahmen, stored or first_rule(rahmen, satz), konto=satz.konto, gegenkonto=satz.gegenkonto, soll=bool(satz.soll),
        betrag=satz.betrag, skonto=satz.skonto,
    )  # fmt: skip


def first_rule(rahmen: Kontenrahmen, satz: Satz) -> str:
    """Returns the split of a booking from before splits were stored."""
    return split_by_first_rule(rahmen, satz.konto, satz.gegenkonto, satz.bu_schluessel, satz.skonto)


def split_of_booking(tx: Tx, client: Client, booking: int) -> str:
    """Returns how a booking was split, for the one that reverses it: a reversal must be split the same way."""
    row = tx.one(
        "SELECT aufteilung, konto, gegenkonto, bu_schluessel, skonto FROM books_bookings WHERE mandant = ? AND id = ?",
        client.mandant, booking,
    )  # fmt: skip
    assert row is not None
    return row[0] or split_by_first_rule(client.rahmen, *row[1:])


def reversal_of(satz: Satz) -> Satz:
    """Returns the opposite of a booking; that of a Generalumkehr is an ordinary booking, by its key too."""
    key = without_reversal(satz.bu_schluessel) if satz.generalumkehr else satz.bu_schluessel
    return satz._replace(soll=not satz.soll, generalumkehr=not satz.generalumkehr, bu_schluessel=key)


def tax_for_item(stored: str) -> str:
    """Returns the tax that a booking gives its document: a later discount is split by it."""
    return stored[:-1] if stored[-1:] in ("k", "g") else ""


def merge_taxes(first: str, second: str) -> str:
    """Returns the tax of a document that has both."""
    if not first or not second or first == second:
        return first or second
    return MIXED


class Splitter:
    """Decides by today's rule; once for the same accounts, key and rates."""

    def __init__(self, tx: Tx, edition: int, rahmen: Kontenrahmen) -> None:
        self._tx = tx
        self._edition = edition
        self._rahmen = rahmen
        self._decided: dict[tuple[str, str, str, int], Split] = {}

    def split(self, satz: Satz, pending: dict[tuple[str, str], list[object]]) -> Split:
        """`pending` are documents that are not written yet, with their tax last."""
        era = era_of(satz.belegdatum)
        if satz.skonto:
            return kontierung.split(
                self._rahmen, konto=satz.konto, gegenkonto=satz.gegenkonto, schluessel=satz.bu_schluessel, era=era,
                skonto=satz.skonto, invoice=self._tax_of_document(satz, pending),
            )  # fmt: skip
        konto, gegenkonto = satz.konto, satz.gegenkonto
        # Which person account it is makes no difference, so a client's many of them need no decision each.
        key = (
            "" if is_personenkonto(konto) else konto,
            "" if is_personenkonto(gegenkonto) else gegenkonto,
            satz.bu_schluessel,
            era,
        )
        found = self._decided.get(key)
        if found is None or konto == gegenkonto:
            found = kontierung.split(
                self._rahmen, konto=konto, gegenkonto=gegenkonto, schluessel=satz.bu_schluessel, era=era
            )
            if len(self._decided) >= _MOST_REMEMBERED:
                self._decided.clear()
            self._decided[key] = found
        return found

    def _tax_of_document(self, satz: Satz, pending: dict[tuple[str, str], list[object]]) -> str:
        """The tax of the invoice that a discount belongs to: same person account, same document number."""
        person = satz.konto if is_personenkonto(satz.konto) else satz.gegenkonto
        if not satz.belegfeld1 or not is_personenkonto(person):
            return ""
        waiting = pending.get((person, satz.belegfeld1))
        stored = self._tx.one(
            "SELECT steuer FROM books_items WHERE edition = ? AND konto = ? AND beleg = ?",
            self._edition, person, satz.belegfeld1,
        )  # fmt: skip
        return merge_taxes(str(waiting[-1]) if waiting else "", stored[0] if stored else "")
