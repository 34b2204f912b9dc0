"""Writes a large file into the books in slices, or undoes one, so that nobody waits longer than for one of them.

Nothing of it is seen until `appear`: its bookings have numbers above the last one that counts, its read models are an edition
that nobody reads. Others may post meanwhile: they are left the numbers up to the claim's ceiling, and as many of the first rows
are held back and written last, below and after the others, so that numbers have no gap and rise in the order of appearing.
"""

from __future__ import annotations

import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar

from kontobahn.db import Database, Row, Tx
from kontobahn.errors import Conflict
from kontobahn.ledger.books import answers, booked, copying, models, posting, preparing
from kontobahn.ledger.books.cash_days import ADD_DAY, Days
from kontobahn.ledger.books.models import Block
from kontobahn.ledger.books.posting import Batch, Poster, Satz
from kontobahn.ledger.books.preparing import Claim, Place
from kontobahn.ledger.books.store import Client

T = TypeVar("T")
# A slice is made longer or shorter until it takes about so long.
SLICE_SECONDS = 0.1
FIRST_ROWS, LEAST_ROWS, MOST_ROWS = 2_000, 250, 20_000
# Rows are gathered, and what they change is written in the order of its keys: a slice in the order of the file would change a page
# of the database for every row or two.
ROWS_GATHERED = 50_000
# While they are, the claim is renewed every so many: reading 50,000 may take longer than its lease on a machine that stands still at times.
RENEWED_EVERY = 5_000
FIRST_KONTEN, LEAST_KONTEN, MOST_KONTEN = 100, 10, 2_000
_NO_CEILING = 1 << 62


class Slices:
    """Claimed books. As a transaction (Tx) it reads what is committed, and each statement that writes is a slice of its own."""

    def __init__(self, db: Database, claimed: Claim) -> None:
        self._db = db
        self.claim = claimed
        # How long the last slice took.
        self.seconds = 0.0
        # By statement, how many rows fit into a slice.
        self._lengths: dict[str, int] = {}

    def write(self, fn: Callable[[Tx], T]) -> T:
        started = time.monotonic()
        result = self._db.write_now(self._slice, fn)
        # With the commit, for others wait for that too.
        self.seconds = time.monotonic() - started
        return result

    def _slice(self, tx: Tx, fn: Callable[[Tx], T]) -> T:
        preparing.renew(tx, self.claim)
        return fn(tx)

    def renew(self) -> None:
        """Shows that somebody is still at work."""
        self.write(lambda tx: None)

    def fitting(self, length: int, least: int, most: int) -> int:
        """Returns how long the next slice should be after one of this length."""
        factor = min(2.0, max(0.25, SLICE_SECONDS / max(self.seconds, 0.001)))
        return int(min(most, max(least, length * factor)))

    def in_portions(self, konten: set[str], fn: Callable[[Tx, set[str]], None]) -> None:
        """Does something to some accounts at a time, each time in a slice."""
        ordered, start, length = sorted(konten), 0, FIRST_KONTEN
        while start < len(ordered):
            some = set(ordered[start : start + length])
            self.write(lambda tx, some=some: fn(tx, some))  # type: ignore[misc]
            start += length
            length = self.fitting(length, LEAST_KONTEN, MOST_KONTEN)

    @property
    def now(self) -> int:
        return self._db.read_now(lambda tx: tx.now)

    def one(self, sql: str, *params: Any) -> Row | None:
        return self._db.read_now(lambda tx: tx.one(sql, *params))

    def all(self, sql: str, *params: Any) -> list[Row]:
        return self._db.read_now(lambda tx: tx.all(sql, *params))

    def texts(self, sql: str, *params: Any) -> list[bytes]:
        return self._db.read_now(lambda tx: tx.texts(sql, *params))

    def run(self, sql: str, *params: Any) -> int:
        return self.write(lambda tx: tx.run(sql, *params))

    def put(self, sql: str, *params: Any) -> None:
        self.write(lambda tx: tx.put(sql, *params))

    def put_large(self, sql: str, *params: Any) -> None:
        self.write(lambda tx: tx.put_large(sql, *params))

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        kept, start = list(rows), 0
        while start < len(kept):
            length = self._lengths.get(sql, FIRST_ROWS)
            some = kept[start : start + length]
            self.write(lambda tx, some=some: tx.many(sql, some))  # type: ignore[misc]
            start += length
            if len(some) == length:
                self._lengths[sql] = self.fitting(length, LEAST_ROWS, MOST_ROWS)

    def each(self, sql: str, rows: Iterable[Sequence[Any]]) -> list[list[Row]]:
        kept = list(rows)
        return self._db.read_now(lambda tx: tx.each(sql, kept))

    def lock(self, *names: str) -> NoReturn:
        raise AssertionError("a lock would end with its slice")

    def notify(self, channel: str) -> None:
        self.write(lambda tx: tx.notify(channel))


def begin(db: Database, client: Client, batch: str, source: str, undoes: str = "") -> Slices:
    """Claims the client's books for a batch, and makes an edition for it. Raises StillRunning if another one has."""
    claimed = db.write_now(preparing.claim, client, batch, source, undoes)
    while claimed is None:
        preparing.sweep(db)
        claimed = db.write_now(preparing.claim, client, batch, source, undoes)
    copying.copy_edition(db, client, claimed)
    return Slices(db, claimed)


class SlicedPoster(Poster):
    """Posts a large batch: `finish` writes all but the rows held back, `appear` makes them count."""

    def __init__(self, slices: Slices, client: Client, batch: Batch, *, watch_others: bool) -> None:
        self._slices = slices
        super().__init__(slices, client, batch)
        self._flush_every = ROWS_GATHERED
        self._last_rows = Block()
        self._cash: Days = {}
        # What the rows look like, to find those that others book meanwhile.
        self._looks: array[int] | None = array("q") if watch_others else None

    def _take_place(self, *, alone: bool) -> Place:
        claimed = self._slices.claim
        return Place(claimed.mandant, claimed.before, _NO_CEILING, (claimed.edition,))

    def add(self, satz: Satz, *, aufteilung: str = "", periode: int | None = None) -> int:
        booking = super().add(satz, aufteilung=aufteilung, periode=periode)
        if self._looks is not None:
            self._looks.append(booked.look_with_day(satz))
        if (booking - self.before) % RENEWED_EVERY == 0:
            self._slices.renew()
        return booking

    def _write(self, block: Block) -> None:
        held, ceiling = self._last_rows, self._slices.claim.ceiling
        bookings, own_bookings = _split(block.bookings, 1, ceiling)
        moves, own_moves = _split(block.moves, 2, ceiling)
        block.openings, own_openings = _split(block.openings, 2, ceiling)
        held.bookings += own_bookings
        held.moves += own_moves
        held.openings += own_openings
        for key, bewegung in block.cash_days.items():
            self._cash[key] = self._cash.get(key, 0) + bewegung
        posting.write_journal(self._slices, bookings, moves)
        block.add_to(self._slices, self._slices.claim.edition, self.batch.jahr.start)

    def finish(self) -> int:
        """Writes what is left and settles what follows from it, in slices. Returns the number of bookings."""
        self._flush()
        jahr, edition = self.batch.jahr.start, self._slices.claim.edition
        if self._carries_persons:
            self._carry(jahr)
        self._slices.in_portions(
            self._touched,
            lambda tx, some: models.settle(tx, edition, jahr, some, set(), self._carried_years(tx)),
        )
        self._slices.in_portions(self._moved, lambda tx, some: answers.settle_balances(tx, edition, jahr, some))
        return self._last - self.before

    def _carry(self, jahr: str) -> None:
        """Others that post to the edition from here on know that the file carries the year over."""
        edition = self._slices.claim.edition
        self._slices.claim = self._slices.claim._replace(carried=jahr)
        if jahr in self._slices.write(lambda tx: models.carried_years(tx, self._client.mandant)):
            return
        self._slices.run("UPDATE books_preparing SET carried = ? WHERE mandant = ?", jahr, self._client.mandant)
        others = self._slices.all("SELECT DISTINCT konto FROM books_item_years WHERE edition = ?", edition)
        self._slices.in_portions(
            {konto for (konto,) in others} - self._touched,
            lambda tx, some: models.settle_rests(tx, edition, self._carried_years(tx), some),
        )

    def _carried_years(self, tx: Tx) -> list[str]:
        carried = {*models.carried_years(tx, self._client.mandant), self._slices.claim.carried}
        return sorted(carried - {""})

    # --- Appearing

    def appear(self, tx: Tx) -> None:
        """Writes the rows held back, and makes the file count: one short transaction, with the batch's row in it."""
        claimed, count, jahr = self._slices.claim, self._last - self.before, self.batch.jahr.start
        last, left = preparing.renew(tx, claimed)
        self._refuse_lookalikes(tx, last)
        number_of = self._numbers(last, count)
        mandant, held = claimed.mandant, self._last_rows
        posting.write_journal(tx, _renumbered(held.bookings, 1, number_of), _renumbered(held.moves, 2, number_of))
        if self._carries_persons:
            models.set_carried(tx, mandant, jahr)
        if held.openings:
            models.add_openings(tx, claimed.edition, _renumbered(held.openings, 2, number_of))
            persons = {opening[0] for opening in held.openings}
            models.settle(tx, claimed.edition, jahr, persons, set(), self._carried_years(tx))
        tx.many(ADD_DAY, [(mandant, *key, bewegung) for key, bewegung in self._cash.items()])
        tx.run(
            "UPDATE books_clients SET last_buchung = ?, edition = ? WHERE mandant = ?",
            last + count, claimed.edition, mandant,
        )  # fmt: skip
        tx.run(
            "UPDATE books_batches SET records = ?, first_booking = ?, last_booking = ? WHERE mandant = ? AND id = ?",
            count, last + 1 if count else 0, last + count if count else 0, mandant, self.batch.id,
        )  # fmt: skip
        preparing.release(tx, claimed, left)

    def _numbers(self, last: int, count: int) -> dict[int, int]:
        """Returns number → number for the rows held back: those that are free among the next ones after the last."""
        written = range(self._slices.claim.ceiling + 1, self.before + count + 1)
        free = (number for number in range(last + 1, last + count + 1) if number not in written)
        return dict(zip((row[1] for row in self._last_rows.bookings), free, strict=True))

    def _refuse_lookalikes(self, tx: Tx, last: int) -> None:
        if self._looks is None or last == self.before:
            return
        others = booked.looks_between(tx, self._client, self.before, last)
        if not others.isdisjoint(self._looks):
            raise Conflict(
                "Bookings that look like rows of this file were made while it was read. Nothing was imported: send it again."
            ).retryable()


def _split(rows: list[tuple[Any, ...]], column: int, ceiling: int) -> tuple[list[Any], list[Any]]:
    """Returns the rows of bookings above this number, and the others; they are in the order of these numbers."""
    first_above = bisect_right(rows, ceiling, key=lambda row: row[column])
    return rows[first_above:], rows[:first_above]


def _renumbered(rows: list[tuple[Any, ...]], column: int, number_of: dict[int, int]) -> list[tuple[Any, ...]]:
    return [(*row[:column], number_of[row[column]], *row[column + 1 :]) for row in rows]
