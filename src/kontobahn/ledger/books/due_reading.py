"""Open items with their due dates, read from the built-in books."""

from __future__ import annotations

from datetime import date
from typing import cast

import msgspec

from kontobahn.db import Tx
from kontobahn.formats import extf
from kontobahn.ledger import faelligkeit
from kontobahn.ledger.accounting import Zahlungsbedingung
from kontobahn.ledger.books import reading
from kontobahn.ledger.books.answers import each_portion
from kontobahn.ledger.books.store import LAST_BOOKING, UNDONE, Client, edition_of
from kontobahn.ledger.faelligkeit import FaelligesKonto, Faelligkeiten
from kontobahn.ledger.opos import OposKonto, OposSelection

FAELLIGKEIT_COLUMN = "117"
# The bookings that a document began with, where they name a due date. The last condition is word for word that of the index
# books_bookings_due; with `mandant = ?` SQLite would read all bookings of the client instead, taking them for ten.
ROWS = (
    "SELECT m.konto, m.beleg, b.weitere FROM books_bookings b"
    " JOIN books_item_moves m ON m.mandant = b.mandant AND m.belegdatum = b.belegdatum AND m.booking = b.id"
    " JOIN books_items i ON i.edition = ? AND i.konto = m.konto AND i.beleg = m.beleg AND i.belegdatum = m.belegdatum"
    f" WHERE b.belegfeld1 {{any}} AND b.mandant BETWEEN ? AND ? AND b.weitere LIKE '%\"{FAELLIGKEIT_COLUMN}\":%'"
    f" AND +b.id <= {LAST_BOOKING} AND +b.id NOT {UNDONE} ORDER BY b.id DESC"
)


def faelligkeiten(tx: Tx, client: Client, selection: OposSelection) -> Faelligkeiten:
    answer = reading.offene_posten(tx, client, selection)
    konten = msgspec.json.decode(bytes(cast(msgspec.Raw, answer.konten)), type=list[OposKonto])
    numbers = [konto.kontonummer for konto in konten]
    of_rows = _days_of_rows(tx, client, {posten.beleg for konto in konten for posten in konto.posten})
    of_partners = _terms_of_partners(tx, client, numbers)
    found = [
        _with_due_dates(konto, selection.stichtag, of_rows, of_partners.get(konto.kontonummer)) for konto in konten
    ]
    return Faelligkeiten(
        stichtag=answer.stichtag,
        konten=found,
        debitoren=faelligkeit.classes(posten for konto in found if konto.isDebitor for posten in konto.posten),
        kreditoren=faelligkeit.classes(posten for konto in found if not konto.isDebitor for posten in konto.posten),
    )


def _with_due_dates(
    konto: OposKonto, stichtag: date, of_rows: dict[tuple[str, str], date], terms: Zahlungsbedingung | None
) -> FaelligesKonto:
    posten = [
        faelligkeit.item(
            item, stichtag, of_rows.get((konto.kontonummer, item.beleg)), terms, is_debitor=konto.isDebitor
        )
        for item in konto.posten
    ]
    return FaelligesKonto(
        kontonummer=konto.kontonummer,
        bezeichnung=konto.bezeichnung,
        isDebitor=konto.isDebitor,
        totalSaldo=konto.totalSaldo,
        altersklassen=faelligkeit.classes(posten),
        posten=posten,
    )


def _days_of_rows(tx: Tx, client: Client, belege: set[str]) -> dict[tuple[str, str], date]:
    found: dict[tuple[str, str], date] = {}
    edition, mandant = edition_of(tx, client), client.mandant
    for some, placeholders in each_portion(belege):
        for konto, beleg, weitere in tx.all(ROWS.format(any=placeholders), edition, *some, *[mandant] * 5):
            day = faelligkeit.day_of_column(msgspec.json.decode(weitere)[FAELLIGKEIT_COLUMN])
            if day is not None:
                found[konto, beleg] = day
    return found


def _terms_of_partners(tx: Tx, client: Client, konten: list[str]) -> dict[str, Zahlungsbedingung]:
    """Returns the terms of those partners whose row of a file names some that are known."""
    known = {
        nummer: msgspec.json.decode(wire, type=Zahlungsbedingung)
        for nummer, wire in tx.all("SELECT nummer, wire FROM books_payment_terms WHERE mandant = ?", client.mandant)
    }
    found = {}
    for some, placeholders in each_portion(konten if known else []):
        for konto, row in tx.all(
            f"SELECT konto, extf FROM books_persons WHERE mandant = ? AND extf <> '' AND konto {placeholders}",
            client.mandant, *some,
        ):  # fmt: skip
            terms = known.get(msgspec.json.decode(row, type=extf.Personenkonto).zahlungsbedingung)
            if terms is not None:
                found[konto] = terms
    return found
