"""Posting: the only way for bookings into the books. It also updates the read models, in the same transaction.

Bookings are never changed. `verify.py` recomputes the read models from them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from kontobahn.db import Tx
from kontobahn.ledger.books import answers, batches
from kontobahn.ledger.books.answers import EB_PERIOD
from kontobahn.ledger.books.batches import CASH, NewBatch
from kontobahn.ledger.books.cash_days import ADD_DAY, Days, cash_book_of_account
from kontobahn.ledger.books.openings import ADD_OPENING, ADD_PERIOD, may_be_paired, settle_twins
from kontobahn.ledger.books.splitting import MIXED, Splitter, legs_of, merge_taxes, tax_for_item
from kontobahn.ledger.books.store import Client, FiscalYear
from kontobahn.ledger.kontenrahmen import SALDENVORTRAEGE
from kontobahn.ledger.kontierung import Hint, full
from kontobahn.ledger.konto import PERSONENKONTO_DIGITS

FLUSH_EVERY = 20_000
LAST_MONTH, CLOSING_PERIOD = 12, 13
EB_BELEG, EB_TEXT = "0", "Saldovortrag"
_CARRY_OVER_ACCOUNTS = frozenset(full(nummer) for nummer in SALDENVORTRAEGE)

# An item has the date and text of its earliest leg, in whatever order the legs arrive.
_EARLIER = "(excluded.belegdatum, excluded.buchungstext) < (books_items.belegdatum, books_items.buchungstext)"
_ADD_ITEM = (
    "INSERT INTO books_items (mandant, konto, beleg, soll, haben, is_open, belegdatum, buchungstext, steuer)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (mandant, konto, beleg) DO UPDATE SET"
    " soll = books_items.soll + excluded.soll, haben = books_items.haben + excluded.haben,"
    " is_open = CASE WHEN books_items.soll + excluded.soll = books_items.haben + excluded.haben THEN 0 ELSE 1 END,"
    f" belegdatum = CASE WHEN {_EARLIER} THEN excluded.belegdatum ELSE books_items.belegdatum END,"
    f" buchungstext = CASE WHEN {_EARLIER} THEN excluded.buchungstext ELSE books_items.buchungstext END,"
    " steuer = CASE WHEN books_items.steuer = '' THEN excluded.steuer"
    f" WHEN excluded.steuer = '' OR excluded.steuer = books_items.steuer THEN books_items.steuer ELSE '{MIXED}' END"
)
_ADD_MOVE = (
    "INSERT INTO books_item_moves (mandant, belegdatum, booking, konto, beleg, betrag) VALUES (?, ?, ?, ?, ?, ?)"
)
_ADD_ITEM_YEAR = (
    "INSERT INTO books_item_years (mandant, konto, jahr, eb, eb_text, bewegung) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (mandant, konto, jahr) DO UPDATE SET eb = books_item_years.eb + excluded.eb,"
    " eb_text = CASE WHEN books_item_years.eb_text = ''"
    " OR (excluded.eb_text <> '' AND excluded.eb_text < books_item_years.eb_text)"
    " THEN excluded.eb_text ELSE books_item_years.eb_text END,"
    " bewegung = books_item_years.bewegung + excluded.bewegung"
)
_RESTS = (
    "INSERT INTO books_carry_rests (mandant, jahr, konto, rest)"
    " SELECT c.mandant, c.jahr, i.konto,"
    " SUM(CASE WHEN i.jahr = c.jahr THEN i.eb ELSE 0 END) - SUM(CASE WHEN i.jahr < c.jahr THEN i.bewegung ELSE 0 END)"
    " FROM books_years c JOIN books_item_years i ON i.mandant = c.mandant WHERE c.mandant = ? AND c.has_eb = 1{narrowed}"
    " GROUP BY c.mandant, c.jahr, i.konto HAVING"
    " SUM(CASE WHEN i.jahr = c.jahr THEN i.eb ELSE 0 END) <> SUM(CASE WHEN i.jahr < c.jahr THEN i.bewegung ELSE 0 END)"
)


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
        """In euro cents, whatever the currency of the document."""
        return self.umsatz if self.basis_umsatz is None else self.basis_umsatz


_BOOKING_COLUMNS = ("mandant", "id", "jahr", "periode", "batch", *Satz._fields, "aufteilung")
_INSERT_BOOKING = (
    f"INSERT INTO books_bookings ({', '.join(_BOOKING_COLUMNS)}) VALUES ({', '.join('?' * len(_BOOKING_COLUMNS))})"
)
_SOLL, _GENERALUMKEHR = _BOOKING_COLUMNS.index("soll"), _BOOKING_COLUMNS.index("generalumkehr")


class Batch(NamedTuple):
    id: str
    jahr: FiscalYear
    is_closing: bool
    # A cash book has movements only: the document number 0 is a number like any other in it.
    is_cash: bool
    # Takes back another batch, whose effect on open items `undo.py` removes; here it has none.
    is_undo: bool


def open_batch(
    tx: Tx,
    client: Client,
    jahr: FiscalYear,
    *,
    kind: str,
    source: str,
    author: str = "",
    sha256: str = "",
    bezeichnung: str = "",
    undoes: str = "",
    batch_id: str = "",
    is_closing: bool = False,
) -> Batch:
    new = NewBatch(kind, source, author, sha256, bezeichnung, undoes, batch_id)
    row = batches.create(tx, client, jahr, new)
    return Batch(row.id, jahr, is_closing, kind == CASH, bool(undoes))


def is_opening_balance(satz: Satz, jahr_start: str, *, is_cash: bool = False) -> bool:
    """Whether it is on the first day against a carry-over account or, for a person account, under document number 0."""
    if satz.belegdatum != jahr_start:
        return False
    if satz.gegenkonto in _CARRY_OVER_ACCOUNTS or satz.konto in _CARRY_OVER_ACCOUNTS:
        return True
    has_person = PERSONENKONTO_DIGITS in (len(satz.konto), len(satz.gegenkonto))
    return has_person and satz.belegfeld1 == EB_BELEG and not is_cash


@lru_cache(maxsize=4096)
def period_of(belegdatum: str, jahr_start: str) -> int:
    """The calendar month of the fiscal year, 1 to 12."""
    months = (int(belegdatum[:4]) - int(jahr_start[:4])) * 12 + int(belegdatum[5:7]) - int(jahr_start[5:7])
    # A full year that begins within a month ends in a thirteenth one, and 13 is the period of closing entries.
    return min(months + 1, LAST_MONTH)


class Poster:
    """Adds bookings to one batch and writes them in blocks; `finish` writes the last one and what follows from the batch."""

    def __init__(self, tx: Tx, client: Client, batch: Batch, *, cash_book: tuple[str, str] | None = None) -> None:
        """`cash_book` is account and name of the one whose entries are posted."""
        self._tx = tx
        self._client = client
        self._batch = batch
        self._rahmen = client.rahmen
        self._splitter = Splitter(tx, client.mandant, client.rahmen)
        # Warnings about the booking that was added last.
        self.hint: Hint | None = None
        # Also locks the client's row on PostgreSQL: batches of one client are posted one after the other.
        row = tx.one(
            "UPDATE books_clients SET last_buchung = last_buchung WHERE mandant = ? RETURNING last_buchung",
            client.mandant,
        )
        assert row is not None
        self._last: int = row[0]
        # The last booking before the batch.
        self.before: int = row[0]
        self._touched: set[str] = set()
        self._moved: set[str] = set()
        self._carries_persons = False
        # Account → cash book, and the cash books that were touched.
        self._cash_books = cash_book_of_account(tx, client) | dict([cash_book] if cash_book else [])
        self.moved_cash_books: set[str] = set()
        self._clear()

    def add(self, satz: Satz, *, aufteilung: str = "", periode: int | None = None) -> int:
        """Posts a booking and returns its id. Raises KontierungError, before anything is kept, if it cannot be booked.

        `aufteilung` and `periode` are for a booking that takes another one back: it is split as that one was, not by the rule of
        today, and goes where that one is.
        """
        jahr = self._batch.jahr.start
        self.hint = None
        if not aufteilung:
            aufteilung, self.hint = self._splitter.split(satz, self._items)
        parts = legs_of(self._rahmen, satz, aufteilung)
        if periode is None:
            periode = self._period(satz)
        self._last = booking = self._last + 1
        row: list[Any] = [self._client.mandant, booking, jahr, periode, self._batch.id, *satz, aufteilung]
        row[_SOLL], row[_GENERALUMKEHR] = int(satz.soll), int(satz.generalumkehr)
        self._bookings.append(tuple(row))
        periods, reversed_side, cash_books = self._periods, satz.generalumkehr, self._cash_books
        is_undo, eb = self._batch.is_undo, periode == EB_PERIOD
        for konto, betrag in parts:
            sums = periods.get((konto, periode))
            if sums is None:
                sums = periods[konto, periode] = [0, 0]
            # A Generalumkehr reduces turnover on its side instead of adding to the other one.
            if (betrag > 0) != reversed_side:
                sums[0] += betrag
            else:
                sums[1] -= betrag
            if konto in cash_books:
                self._add_to_cash(cash_books[konto], betrag, satz, eb=eb)
            if len(konto) == PERSONENKONTO_DIGITS and not is_undo:
                self._add_to_item(booking, konto, betrag, satz, tax_for_item(aufteilung), eb=eb)
                if eb and len(parts) == 2:
                    self._add_opening(booking, konto, betrag, satz)
        if len(self._bookings) >= FLUSH_EVERY:
            self._flush()
        return booking

    def _period(self, satz: Satz) -> int:
        jahr = self._batch.jahr.start
        if is_opening_balance(satz, jahr, is_cash=self._batch.is_cash):
            return EB_PERIOD
        return CLOSING_PERIOD if self._batch.is_closing else period_of(satz.belegdatum, jahr)

    def finish(self) -> int:
        """Writes what is left, settles the carry-overs and returns the number of bookings."""
        self._flush()
        mandant, jahr, count = self._client.mandant, self._batch.jahr, self._last - self.before
        self._tx.run("UPDATE books_clients SET last_buchung = ? WHERE mandant = ?", self._last, mandant)
        self._tx.run(
            "UPDATE books_batches SET records = ?, first_booking = ?, last_booking = ? WHERE mandant = ? AND id = ?",
            count, self.before + 1 if count else 0, self._last if count else 0, mandant, self._batch.id,
        )  # fmt: skip
        newly_carried = self._carries_persons and bool(
            self._tx.run(
                "UPDATE books_years SET has_eb = 1 WHERE mandant = ? AND jahr = ? AND has_eb = 0", mandant, jahr.start
            )
        )
        paired = settle_twins(self._tx, mandant, self._touched)
        settle_rests(self._tx, mandant, None if newly_carried else self._touched)
        answers.settle_open_accounts(self._tx, mandant, self._touched)
        paired.setdefault(jahr.start, set()).update(self._moved)
        for start, konten in paired.items():
            answers.settle_balances(self._tx, mandant, start, konten)
        return count

    def _add_to_item(self, booking: int, konto: str, betrag: int, satz: Satz, steuer: str, *, eb: bool) -> None:
        year = self._years.get(konto)
        if year is None:
            year = self._years[konto] = [0, "", 0]
        if eb:
            # Ledger accounts are carried over in a step of their own, which says nothing about person accounts.
            self._carries_persons = True
            year[0] += betrag
            text = satz.buchungstext or EB_TEXT
            year[1] = min(year[1], text) if year[1] else text
            return
        year[2] += betrag
        self._moves.append((self._client.mandant, satz.belegdatum, booking, konto, satz.belegfeld1, betrag))
        item = self._items.get((konto, satz.belegfeld1))
        first = (satz.belegdatum, satz.buchungstext)
        if item is None:
            item = self._items[konto, satz.belegfeld1] = [0, 0, first, steuer]
        elif first < item[2]:
            item[2] = first
        if steuer != item[3]:
            item[3] = merge_taxes(item[3], steuer)
        if betrag > 0:
            item[0] += betrag
        else:
            item[1] -= betrag

    def _add_to_cash(self, kassenname: str, betrag: int, satz: Satz, *, eb: bool) -> None:
        self.moved_cash_books.add(kassenname)
        if not eb:
            key = kassenname, satz.belegdatum
            self._cash_days[key] = self._cash_days.get(key, 0) + betrag

    def _add_opening(self, booking: int, konto: str, betrag: int, satz: Satz) -> None:
        """Keeps a leg that may turn out to be half of a pair."""
        gegenkonto = satz.gegenkonto if konto == satz.konto else satz.konto
        if may_be_paired(gegenkonto):
            self._openings.append((
                self._client.mandant, konto, self._batch.jahr.start, booking, betrag, gegenkonto, satz.belegfeld1,
                int(satz.generalumkehr),
            ))  # fmt: skip

    def _clear(self) -> None:
        self._cash_days: Days = {}
        self._openings: list[tuple[object, ...]] = []
        self._bookings: list[tuple[Any, ...]] = []
        self._moves: list[tuple[object, ...]] = []
        self._periods: dict[tuple[str, int], list[int]] = {}
        self._items: dict[tuple[str, str], list[Any]] = {}
        self._years: dict[str, list[Any]] = {}

    def _flush(self) -> None:
        tx, mandant, jahr = self._tx, self._client.mandant, self._batch.jahr.start
        tx.many(_INSERT_BOOKING, self._bookings)
        tx.many(_ADD_MOVE, self._moves)
        tx.many(ADD_OPENING, self._openings)
        tx.many(ADD_DAY, [(mandant, *key, bewegung) for key, bewegung in self._cash_days.items()])
        tx.many(ADD_PERIOD, [(mandant, jahr, *key, *sums) for key, sums in self._periods.items()])
        tx.many(
            _ADD_ITEM,
            [
                (mandant, *key, soll, haben, int(soll != haben), *first, steuer)
                for key, (soll, haben, first, steuer) in self._items.items()
            ],
        )
        tx.many(_ADD_ITEM_YEAR, [(mandant, konto, jahr, *sums) for konto, sums in self._years.items()])
        self._touched.update(self._years)
        self._moved.update([konto for konto, _ in self._periods])
        self._clear()


def settle_rests(tx: Tx, mandant: int, konten: set[str] | None) -> None:
    """Recomputes what carried years hold beyond the documents before them, for these accounts or for all."""
    if konten is None:
        tx.run("DELETE FROM books_carry_rests WHERE mandant = ?", mandant)
        tx.run(_RESTS.format(narrowed=""), mandant)
        return
    ordered = sorted(konten)
    tx.many("DELETE FROM books_carry_rests WHERE mandant = ? AND konto = ?", [(mandant, konto) for konto in ordered])
    tx.many(_RESTS.format(narrowed=" AND i.konto = ?"), [(mandant, konto) for konto in ordered])
