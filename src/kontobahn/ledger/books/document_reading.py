"""What moved the documents of person accounts, settled or not, read from the built-in books."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import NamedTuple

from kontobahn.db import Tx
from kontobahn.ledger.books.store import LAST_BOOKING, UNDONE, Client, edition_of
from kontobahn.ledger.konto import is_debitor
from kontobahn.ledger.opos import Belegbewegung
from kontobahn.ledger.steuerschluessel import STEUERFREI, UMSATZSTEUER, VORSTEUER

# By day, so that the cost follows the days asked for.
_MOVES = (
    "SELECT m.konto, m.beleg, m.belegdatum, m.betrag, b.skonto, b.konto, b.gegenkonto, b.generalumkehr,"
    " b.belegfeld2, i.belegdatum, i.buchungstext, i.is_open, i.steuer"
    " FROM books_item_moves m"
    " JOIN books_bookings b ON b.mandant = m.mandant AND b.id = m.booking"
    " JOIN books_items i ON i.edition = ? AND i.konto = m.konto AND i.beleg = m.beleg"
    f" WHERE m.mandant = ? AND m.belegdatum >= ? AND m.booking <= {LAST_BOOKING} AND m.booking NOT {UNDONE}"
    " ORDER BY m.belegdatum DESC, m.booking DESC LIMIT ?"
)


class _Row(NamedTuple):
    konto: str
    beleg: str
    day: str
    betrag: int
    skonto: int
    one: str
    other: str
    generalumkehr: int
    belegfeld2: str
    beginn: str
    text: str
    is_open: int
    steuer: str


def belegbewegungen(tx: Tx, client: Client, seit: date, limit: int) -> list[Belegbewegung]:
    (first, last), cash = client.rahmen.geld, client.rahmen.bargeld
    taken_back: Counter[tuple[str, str, int]] = Counter()
    found = []
    given = (edition_of(tx, client), client.mandant, seit.isoformat(), *[client.mandant] * 3)
    for row in map(_Row._make, tx.all(_MOVES, *given, limit)):
        if row.generalumkehr:
            taken_back[row.konto, row.beleg, -row.betrag] += 1
        elif taken_back[row.konto, row.beleg, row.betrag]:
            taken_back[row.konto, row.beleg, row.betrag] -= 1
        elif row.beleg:
            contra = row.other if row.one == row.konto else row.one
            is_money = len(contra) < len(row.konto) and first <= contra[:4] <= last
            found.append(
                Belegbewegung(
                    row.konto, row.beleg, date.fromisoformat(row.day), row.betrag, row.skonto, is_money,
                    date.fromisoformat(row.beginn), row.text, not row.is_open, _rate(row.konto, row.steuer),
                    contra, is_money and cash[0] <= contra[:4] <= cash[1], row.belegfeld2,
                )
            )  # fmt: skip
    return found


def _rate(konto: str, steuer: str) -> int | None:
    """The rate that a discount on the document is split by: of output tax for a debtor, of input tax for a creditor, or none."""
    usual = UMSATZSTEUER if is_debitor(konto) else VORSTEUER
    return int(steuer[1:]) if steuer[:1] in (usual, STEUERFREI) and steuer[1:].isdigit() else None
