"""The read models of a client: what a block of bookings adds to them, and what follows for the accounts that it touched.

They are an edition, which has a number of its own (books_clients.edition): a large file makes a new one beside that which
everybody reads. Bookings are added in any order with the same result, so two that post at once may take turns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kontobahn.db import Tx
from kontobahn.ledger.books import answers
from kontobahn.ledger.books.cash_days import Days
from kontobahn.ledger.books.openings import ADD_OPENING, ADD_PERIOD, settle_twins
from kontobahn.ledger.books.splitting import MIXED

# An item has the date and text of its earliest leg, in whatever order the legs arrive.
_EARLIER = "(excluded.belegdatum, excluded.buchungstext) < (books_items.belegdatum, books_items.buchungstext)"
_ADD_ITEM = (
    "INSERT INTO books_items (edition, konto, beleg, soll, haben, is_open, belegdatum, buchungstext, steuer)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (edition, konto, beleg) DO UPDATE SET"
    " soll = books_items.soll + excluded.soll, haben = books_items.haben + excluded.haben,"
    " is_open = CASE WHEN books_items.soll + excluded.soll = books_items.haben + excluded.haben THEN 0 ELSE 1 END,"
    f" belegdatum = CASE WHEN {_EARLIER} THEN excluded.belegdatum ELSE books_items.belegdatum END,"
    f" buchungstext = CASE WHEN {_EARLIER} THEN excluded.buchungstext ELSE books_items.buchungstext END,"
    " steuer = CASE WHEN books_items.steuer = '' THEN excluded.steuer"
    f" WHEN excluded.steuer = '' OR excluded.steuer = books_items.steuer THEN books_items.steuer ELSE '{MIXED}' END"
)
_ADD_ITEM_YEAR = (
    "INSERT INTO books_item_years (edition, konto, jahr, eb, eb_text, bewegung) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (edition, konto, jahr) DO UPDATE SET eb = books_item_years.eb + excluded.eb,"
    " eb_text = CASE WHEN books_item_years.eb_text = ''"
    " OR (excluded.eb_text <> '' AND excluded.eb_text < books_item_years.eb_text)"
    " THEN excluded.eb_text ELSE books_item_years.eb_text END,"
    " bewegung = books_item_years.bewegung + excluded.bewegung"
)
_REST = "SUM(CASE WHEN jahr = ? THEN eb ELSE 0 END) {0} SUM(CASE WHEN jahr < ? THEN bewegung ELSE 0 END)"
_RESTS = (
    f"INSERT INTO books_carry_rests (edition, jahr, konto, rest) SELECT edition, ?, konto, {_REST.format('-')}"
    f" FROM books_item_years WHERE edition = ?{{narrowed}} GROUP BY edition, konto HAVING {_REST.format('<>')}"
)


class Block:
    """Bookings that are not written yet, and what they add to the read models."""

    def __init__(self) -> None:
        # Rows of books_bookings and books_item_moves; of books_openings without the edition.
        self.bookings: list[tuple[Any, ...]] = []
        self.moves: list[tuple[Any, ...]] = []
        self.openings: list[tuple[Any, ...]] = []
        self.cash_days: Days = {}
        # (account, period) → debit and credit; (account, document) → debit, credit, (date, text), tax.
        self.periods: dict[tuple[str, int], list[int]] = {}
        self.items: dict[tuple[str, str], list[Any]] = {}
        # Person account → opening balance, its text and movements.
        self.years: dict[str, list[Any]] = {}

    def add_to(self, tx: Tx, edition: int, jahr: str) -> None:
        """In the order of the keys, so that neighbours are changed together."""
        add_openings(tx, edition, self.openings)
        tx.many(ADD_PERIOD, [(edition, jahr, *key, *sums) for key, sums in sorted(self.periods.items())])
        tx.many(
            _ADD_ITEM,
            [
                (edition, *key, soll, haben, int(soll != haben), *first, steuer)
                for key, (soll, haben, first, steuer) in sorted(self.items.items())
            ],
        )
        tx.many(_ADD_ITEM_YEAR, [(edition, konto, jahr, *sums) for konto, sums in sorted(self.years.items())])


def add_openings(tx: Tx, edition: int, openings: Iterable[tuple[Any, ...]]) -> None:
    tx.many(ADD_OPENING, [(edition, *opening) for opening in sorted(openings)])


def settle(tx: Tx, edition: int, jahr: str, persons: set[str], moved: set[str], carried: list[str]) -> None:
    """Brings up to date what follows: for person accounts all of it, for accounts that moved their line of a trial balance."""
    paired = settle_twins(tx, edition, persons)
    settle_rests(tx, edition, carried, persons)
    answers.settle_open_accounts(tx, edition, persons)
    paired.setdefault(jahr, set()).update(moved)
    for start, konten in paired.items():
        answers.settle_balances(tx, edition, start, konten)


def settle_rests(tx: Tx, edition: int, carried: list[str], konten: set[str] | None) -> None:
    """Recomputes what carried years hold beyond the documents before them, for these accounts or for all."""
    if konten is None:
        tx.run("DELETE FROM books_carry_rests WHERE edition = ?", edition)
        for jahr in carried:
            tx.run(_RESTS.format(narrowed=""), jahr, jahr, jahr, edition, jahr, jahr)
        return
    ordered = sorted(konten)
    tx.many("DELETE FROM books_carry_rests WHERE edition = ? AND konto = ?", [(edition, konto) for konto in ordered])
    for jahr in carried:
        given = [(jahr, jahr, jahr, edition, konto, jahr, jahr) for konto in ordered]
        tx.many(_RESTS.format(narrowed=" AND konto = ?"), given)


def set_carried(tx: Tx, mandant: int, jahr: str) -> bool:
    """Returns whether the year is a carried one only now."""
    return bool(
        tx.run("UPDATE books_years SET has_eb = 1 WHERE mandant = ? AND jahr = ? AND has_eb = 0", mandant, jahr)
    )


def carried_years(tx: Tx, mandant: int) -> list[str]:
    return [
        jahr
        for (jahr,) in tx.all("SELECT jahr FROM books_years WHERE mandant = ? AND has_eb = 1 ORDER BY jahr", mandant)
    ]
