"""A booking as it is entered (Satz), and how it is split into legs.

The split is decided once, when a booking is posted, stored with it, and read from there ever after.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from kontobahn.books.store import Client
from kontobahn.db import Statements, Tx
from kontobahn.formats.extf import decode_weitere
from kontobahn.ledger import kontierung
from kontobahn.ledger.faelligkeiten import NOT_NAMED, day_of_column, invoice_text
from kontobahn.ledger.kontierung import Leg, Split, full
from kontobahn.ledger.konto import PERSONENKONTO_DIGITS, SALDENVORTRAEGE, Kontenrahmen, is_personenkonto
from kontobahn.ledger.steuer import era_of, without_reversal

EB_PERIOD = 0
LAST_MONTH, CLOSING_PERIOD = 12, 13
EB_BELEG, EB_TEXT = "0", "Saldovortrag"
_CARRY_OVER_ACCOUNTS = frozenset(full(nummer) for nummer in SALDENVORTRAEGE)


# The column of the due date as it is in `weitere`.
FAELLIGKEIT = '"117":'


class Satz(NamedTuple):
    """A booking as entered (Buchungssatz), with technical account numbers. `soll` is the side of `konto`.

    Its fields are columns of books_bookings.
    """

    umsatz: int
    soll: bool
    konto: str
    gegenkonto: str
    belegdatum: str
    bu_schluessel: str = ""
    belegfeld1: str = ""
    buchungstext: str = ""
    waehrung: str = "EUR"
    kurs: str = ""
    basis_umsatz: int | None = None
    belegfeld2: str = ""
    skonto: int = 0
    kost1: str = ""
    kost2: str = ""
    generalumkehr: bool = False
    weitere: str = ""

    @property
    def betrag(self) -> int:
        """The amount in euro cents, whatever the currency of the document."""
        return self.umsatz if self.basis_umsatz is None else self.basis_umsatz


_SOLL, _GENERALUMKEHR, _KEY = map(Satz._fields.index, ("soll", "generalumkehr", "bu_schluessel"))


def is_opening_balance(satz: Satz, jahr_start: str, *, is_cash: bool = False) -> bool:
    """Returns whether it is on the first day, against a carry-over account or, for a person account, with document number 0."""
    if satz.belegdatum != jahr_start:
        return False
    if satz.gegenkonto in _CARRY_OVER_ACCOUNTS or satz.konto in _CARRY_OVER_ACCOUNTS:
        return True
    has_person = PERSONENKONTO_DIGITS in (len(satz.konto), len(satz.gegenkonto))
    return has_person and satz.belegfeld1 == EB_BELEG and not is_cash


@lru_cache(maxsize=4096)
def period_of(belegdatum: str, jahr_start: str) -> int:
    """Returns the calendar month of the fiscal year, 1 to 12."""
    months = (int(belegdatum[:4]) - int(jahr_start[:4])) * 12 + int(belegdatum[5:7]) - int(jahr_start[5:7])
    # A full year that begins within a month ends in a thirteenth one, and 13 is the period of closing entries.
    return min(months + 1, LAST_MONTH)


# --- Splits


# The tax of a document with invoices of several rates.
MIXED = "*"
_MAX_REMEMBERED = 100_000


def legs_of(rahmen: Kontenrahmen, satz: Satz, stored: str) -> list[Leg]:
    """Returns the legs of a booking by the split that was stored with it."""
    return kontierung.legs(
        rahmen, stored, konto=satz.konto, gegenkonto=satz.gegenkonto, soll=bool(satz.soll),
        betrag=satz.betrag, skonto=satz.skonto,
    )  # fmt: skip


def split_of_booking(tx: Tx, client: Client, booking: int) -> str:
    """Returns how a booking was split, for the one that reverses it: a reversal must be split the same way."""
    row = tx.one(
        "SELECT aufteilung FROM books_bookings WHERE mandant = ? AND id = ?",
        client.mandant, booking,
    )  # fmt: skip
    assert row is not None
    return str(row[0])


def reversal_of(satz: Satz) -> Satz:
    """Returns the opposite of a booking; that of a Generalumkehr is an ordinary booking, by its key too."""
    values: list[Any] = [*satz]
    values[_SOLL], values[_GENERALUMKEHR] = not satz.soll, not satz.generalumkehr
    if satz.generalumkehr:
        values[_KEY] = without_reversal(satz.bu_schluessel)
    # As satz._replace(…), in a third of the time.
    return tuple.__new__(Satz, values)


def first_invoice(
    rahmen: Kontenrahmen, konto: str, other: str, *, soll: bool, belegdatum: str, reversal: bool, weitere: str
) -> str:
    """Returns the day of an invoice and its due date, as `books_items.rechnung` has them; "" if the leg of `konto` is none."""
    due = _due_of(weitere) if FAELLIGKEIT in weitere else NOT_NAMED
    return invoice_text(rahmen, konto, other, soll=soll, belegdatum=belegdatum, reversal=reversal, due=due)


@lru_cache(maxsize=4096)
def _due_of(weitere: str) -> str:
    return _day_in(weitere, "117") or NOT_NAMED


def tax_day(weitere: str) -> str:
    """Returns the day whose period the tax of a booking is declared in, if its row names one: the period (116), or the supply (115)."""
    return _tax_day(weitere) if '"115":' in weitere or '"116":' in weitere else ""


@lru_cache(maxsize=4096)
def _tax_day(weitere: str) -> str:
    return _day_in(weitere, "116") or _day_in(weitere, "115")


def _day_in(weitere: str, column: str) -> str:
    day = day_of_column(decode_weitere(weitere).get(column, ""))
    return day.isoformat() if day else ""


def tax_for_item(stored: str) -> str:
    """Returns the tax that a booking gives its document: a later discount is split by it."""
    return stored[:-1] if stored[-1:] in ("k", "g") else ""


def merge_taxes(first: str, second: str) -> str:
    """Returns the tax of a document that has both."""
    if not first or not second or first == second:
        return first or second
    return MIXED


def discount_split(rahmen: Kontenrahmen, satz: Satz, steuer: str) -> Split:
    """Returns the split of a booking with a discount on a document of this tax."""
    return kontierung.split(
        rahmen, konto=satz.konto, gegenkonto=satz.gegenkonto, schluessel=satz.bu_schluessel, era=era_of(satz.belegdatum),
        skonto=satz.skonto, invoice=steuer,
    )  # fmt: skip


def discount_accounts(rahmen: Kontenrahmen) -> set[str]:
    """Returns the accounts that discounts and the tax in them are booked on."""
    found = set()
    for debitor, accounts in ((True, rahmen.gewaehrte_skonti), (False, rahmen.erhaltene_skonti)):
        for prozent, konto in accounts.items():
            found.add(full(konto))
            if prozent:
                found.add(full(kontierung.discount_tax_account(rahmen, prozent, is_debitor=debitor)))
    return found


class Documents(Protocol):
    """Documents by account and number, each with its tax last."""

    def get(self, key: tuple[str, str], /) -> Sequence[Any] | None: ...


class Splitter:
    """Decides by today's rule; once for the same accounts, key and rates."""

    def __init__(self, tx: Statements, edition: int, rahmen: Kontenrahmen) -> None:
        self._tx = tx
        self._edition = edition
        self._rahmen = rahmen
        self._decided: dict[tuple[str, str, str, int], Split] = {}

    def split(self, satz: Satz, pending: Documents) -> Split:
        """Returns the split of a booking. `pending` are documents that are not written yet, with their tax last."""
        if satz.skonto:
            return discount_split(self._rahmen, satz, self.tax_of_document(satz, pending))
        era = era_of(satz.belegdatum)
        konto, gegenkonto = satz.konto, satz.gegenkonto
        # All person accounts are the same here, so a client's many of them need no decision each.
        key = (
            "" if len(konto) == PERSONENKONTO_DIGITS else konto,
            "" if len(gegenkonto) == PERSONENKONTO_DIGITS else gegenkonto,
            satz.bu_schluessel,
            era,
        )
        found = self._decided.get(key)
        if found is None or konto == gegenkonto:
            found = kontierung.split(
                self._rahmen, konto=konto, gegenkonto=gegenkonto, schluessel=satz.bu_schluessel, era=era
            )
            if len(self._decided) >= _MAX_REMEMBERED:
                self._decided.clear()
            self._decided[key] = found
        return found

    def tax_of_document(self, satz: Satz, pending: Documents) -> str:
        """Returns the tax of the invoice that a discount belongs to: same person account, same document number."""
        person = satz.konto if is_personenkonto(satz.konto) else satz.gegenkonto
        if not satz.belegfeld1 or not is_personenkonto(person):
            return ""
        waiting = pending.get((person, satz.belegfeld1))
        stored = self._tx.one(
            "SELECT steuer FROM books_items WHERE edition = ? AND konto = ? AND beleg = ?",
            self._edition, person, satz.belegfeld1,
        )  # fmt: skip
        return merge_taxes(str(waiting[-1]) if waiting else "", stored[0] if stored else "")
