"""Posting: the only way for bookings into the books. It also updates the read models, in the same transaction.

Bookings are never changed. `verify.py` recomputes the read models from them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from kontobahn.db import Tx
from kontobahn.ledger.books import batches, models, preparing
from kontobahn.ledger.books.answers import EB_PERIOD
from kontobahn.ledger.books.batches import CASH, NewBatch
from kontobahn.ledger.books.cash_days import ADD_DAY, cash_book_of_account
from kontobahn.ledger.books.models import Block
from kontobahn.ledger.books.openings import may_be_paired
from kontobahn.ledger.books.splitting import Splitter, legs_of, merge_taxes, tax_for_item
from kontobahn.ledger.books.store import Client, FiscalYear
from kontobahn.ledger.kontenrahmen import SALDENVORTRAEGE
from kontobahn.ledger.kontierung import Hint, full
from kontobahn.ledger.konto import PERSONENKONTO_DIGITS

FLUSH_EVERY = 20_000
LAST_MONTH, CLOSING_PERIOD = 12, 13
EB_BELEG, EB_TEXT = "0", "Saldovortrag"
_CARRY_OVER_ACCOUNTS = frozenset(full(nummer) for nummer in SALDENVORTRAEGE)

_ADD_MOVE = (
    "INSERT INTO books_item_moves (mandant, belegdatum, booking, konto, beleg, betrag) VALUES (?, ?, ?, ?, ?, ?)"
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

    _flush_every = FLUSH_EVERY

    def __init__(
        self,
        tx: Tx,
        client: Client,
        batch: Batch,
        *,
        cash_book: tuple[str, str] | None = None,
        alone: bool = False,
    ) -> None:
        """`cash_book` is account and name of the one whose entries are posted.

        Raises StillRunning if the batch can be posted `alone` only and a large file is being written.
        """
        self._tx = tx
        self._client = client
        self.batch = batch
        self._rahmen = client.rahmen
        # Warnings about the booking that was added last.
        self.hint: Hint | None = None
        self._place = self._take_place(alone=alone)
        self._splitter = Splitter(tx, self._place.editions[0], client.rahmen)
        # The last booking before the batch, and the last one of it so far.
        self.before = self._last = self._place.last
        self._touched: set[str] = set()
        self._moved: set[str] = set()
        self._carries_persons = False
        # Account → cash book, and the cash books that were touched.
        self._cash_books = cash_book_of_account(tx, client) | dict([cash_book] if cash_book else [])
        self.moved_cash_books: set[str] = set()
        self._block = Block()

    def _take_place(self, *, alone: bool) -> preparing.Place:
        return preparing.take_place(self._tx, self._client, alone=alone)

    def add(self, satz: Satz, *, aufteilung: str = "", periode: int | None = None) -> int:
        """Posts a booking and returns its id. Raises KontierungError, before anything is kept, if it cannot be booked.

        `aufteilung` and `periode` are for a booking that takes another one back: it is split as that one was, not by the rule of
        today, and goes where that one is.
        """
        jahr = self.batch.jahr.start
        self.hint = None
        if not aufteilung:
            aufteilung, self.hint = self._splitter.split(satz, self._block.items)
        parts = legs_of(self._rahmen, satz, aufteilung)
        if periode is None:
            periode = self._period(satz)
        booking = self._last + 1
        if booking > self._place.ceiling:
            raise preparing.no_numbers_left()
        self._last = booking
        row: list[Any] = [self._client.mandant, booking, jahr, periode, self.batch.id, *satz, aufteilung]
        row[_SOLL], row[_GENERALUMKEHR] = int(satz.soll), int(satz.generalumkehr)
        self._block.bookings.append(tuple(row))
        periods, reversed_side, cash_books = self._block.periods, satz.generalumkehr, self._cash_books
        is_undo, eb = self.batch.is_undo, periode == EB_PERIOD
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
        if len(self._block.bookings) >= self._flush_every:
            self._flush()
        return booking

    def _period(self, satz: Satz) -> int:
        jahr = self.batch.jahr.start
        if is_opening_balance(satz, jahr, is_cash=self.batch.is_cash):
            return EB_PERIOD
        return CLOSING_PERIOD if self.batch.is_closing else period_of(satz.belegdatum, jahr)

    def finish(self) -> int:
        """Writes what is left, settles what follows and returns the number of bookings."""
        self._flush()
        tx, mandant, jahr, count = self._tx, self._client.mandant, self.batch.jahr.start, self._last - self.before
        tx.run("UPDATE books_clients SET last_buchung = ? WHERE mandant = ?", self._last, mandant)
        tx.run(
            "UPDATE books_batches SET records = ?, first_booking = ?, last_booking = ? WHERE mandant = ? AND id = ?",
            count, self.before + 1 if count else 0, self._last if count else 0, mandant, self.batch.id,
        )  # fmt: skip
        newly_carried: tuple[int, ...] = ()
        if self._carries_persons:
            self._place, newly_carried = self._place.carry(tx, jahr)
        for edition in self._place.editions:
            carried = self._place.carried_years(tx, edition)
            if edition in newly_carried:
                models.settle_rests(tx, edition, carried, None)
            models.settle(tx, edition, jahr, self._touched, self._moved, carried)
        return count

    def _add_to_item(self, booking: int, konto: str, betrag: int, satz: Satz, steuer: str, *, eb: bool) -> None:
        year = self._block.years.get(konto)
        if year is None:
            year = self._block.years[konto] = [0, "", 0]
        if eb:
            # Ledger accounts are carried over in a step of their own, which says nothing about person accounts.
            self._carries_persons = True
            year[0] += betrag
            text = satz.buchungstext or EB_TEXT
            year[1] = min(year[1], text) if year[1] else text
            return
        year[2] += betrag
        self._block.moves.append((self._client.mandant, satz.belegdatum, booking, konto, satz.belegfeld1, betrag))
        item = self._block.items.get((konto, satz.belegfeld1))
        first = (satz.belegdatum, satz.buchungstext)
        if item is None:
            item = self._block.items[konto, satz.belegfeld1] = [0, 0, first, steuer]
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
            self._block.cash_days[key] = self._block.cash_days.get(key, 0) + betrag

    def _add_opening(self, booking: int, konto: str, betrag: int, satz: Satz) -> None:
        """Keeps a leg that may turn out to be half of a pair."""
        gegenkonto = satz.gegenkonto if konto == satz.konto else satz.konto
        if may_be_paired(gegenkonto):
            self._block.openings.append((
                konto, self.batch.jahr.start, booking, betrag, gegenkonto, satz.belegfeld1, int(satz.generalumkehr)
            ))  # fmt: skip

    def _flush(self) -> None:
        block, self._block = self._block, Block()
        self._touched.update(block.years)
        self._moved.update([konto for konto, _ in block.periods])
        self._write(block)

    def _write(self, block: Block) -> None:
        tx, mandant = self._tx, self._client.mandant
        write_journal(tx, block.bookings, block.moves)
        tx.many(ADD_DAY, [(mandant, *key, bewegung) for key, bewegung in block.cash_days.items()])
        for edition in self._place.editions:
            block.add_to(tx, edition, self.batch.jahr.start)


def write_journal(tx: Tx, bookings: list[tuple[Any, ...]], moves: list[tuple[Any, ...]]) -> None:
    tx.many(_INSERT_BOOKING, bookings)
    # After them: whoever sweeps away what broke off finds movements by their bookings.
    tx.many(_ADD_MOVE, sorted(moves))
