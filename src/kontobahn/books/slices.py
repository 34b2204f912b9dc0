"""Slices of a large batch: a file is written into the books, or undone, in transactions so short that nobody waits long for one.

Nothing of it is seen until `appear`: its bookings have numbers above the last one that counts, its read models are an edition
that nobody reads. Others may post meanwhile: they are left the numbers up to the claim's ceiling, and as many of the first rows
are held back and written last, below and after the others, so that numbers have no gap and rise in the order of appearing.
"""

from __future__ import annotations

import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from kontobahn.books import claims, duplicates, posting, read_models
from kontobahn.books.batches import Batch
from kontobahn.books.cash_days import ADD_DAY, Days
from kontobahn.books.claims import ROWS_AT_ONCE, Claim, Place
from kontobahn.books.posting import Poster
from kontobahn.books.read_models import TABLES, Block, Change
from kontobahn.books.satz import Satz, discount_accounts, legs_of, merge_taxes
from kontobahn.books.store import Client
from kontobahn.db import Database, Row, Tx, chunked, fitting_length
from kontobahn.errors import Conflict
from kontobahn.ledger.konto import is_personenkonto

T = TypeVar("T")
# A slice changes some pages of every index however short it is: on a busy machine, shorter ones would make it busier.
FIRST_ROWS, MIN_ROWS, MAX_ROWS = 5_000, 2_000, 20_000
FIRST_PLACES, MIN_PLACES, MAX_PLACES = 20_000, 10_000, 100_000
# 32 MB of places on sheets wait until they are written.
PLACES_GATHERED = 4_000_000
# Sums of accounts by period, some 300 bytes each.
SUMS_GATHERED = 100_000
# Rows are gathered, and what they change is written in the order of its keys: a slice in the order of the file would change a page
# of the database for every row or two.
ROWS_GATHERED = 50_000
# While they are, the claim is renewed after this many: reading 50,000 may take longer than its lease on a machine that stalls at times.
RENEWED_EVERY = 5_000
FIRST_KONTEN, MIN_KONTEN, MAX_KONTEN = 100, 10, 2_000
_NO_CEILING = 1 << 62


class Slices:
    """Claimed books. A statement that reads sees what is committed; one that writes is a slice of its own."""

    def __init__(self, db: Database, claimed: Claim) -> None:
        self._db = db
        self.claim = claimed
        # The time that the last slice took.
        self.seconds = 0.0
        # Statement → the number of rows that fit into a slice.
        self._lengths: dict[str, int] = {}

    def write(self, fn: Callable[[Tx], T]) -> T:
        started = time.monotonic()
        result = self._db.write_now(self._slice, fn)
        # Including the commit, because others wait for that too.
        self.seconds = time.monotonic() - started
        return result

    def _slice(self, tx: Tx, fn: Callable[[Tx], T]) -> T:
        claims.renew(tx, self.claim)
        return fn(tx)

    def apart(self) -> Slices:
        """Returns slices for another thread, of lengths of their own."""
        return Slices(self._db, self.claim)

    def renew(self) -> None:
        """Renews the claim."""
        self.write(lambda tx: None)

    def fitting(self, length: int, minimum: int, maximum: int) -> int:
        """Returns how long the next slice should be after one of this length."""
        return fitting_length(length, self.seconds, minimum, maximum)

    def in_slices(self, konten: set[str], fn: Callable[[Tx, set[str]], None]) -> None:
        """Calls the function with some of the accounts at a time, each time in a slice."""
        ordered, start, length = sorted(konten), 0, FIRST_KONTEN
        while start < len(ordered):
            some = set(ordered[start : start + length])
            self.write(lambda tx, some=some: fn(tx, some))  # type: ignore[misc]
            start += length
            length = self.fitting(length, MIN_KONTEN, MAX_KONTEN)

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

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self.in_rows(sql, list(rows), lambda tx, some: tx.many(sql, some))

    def in_rows(self, name: str, rows: list[T], fn: Callable[[Tx, list[T]], None]) -> None:
        """Calls the function with some of the rows at a time, each time in a slice. Slices of one name grow to the length that fits."""
        start = 0
        while start < len(rows):
            length = self._lengths.get(name, FIRST_ROWS)
            some = rows[start : start + length]
            self.write(lambda tx, some=some: fn(tx, some))  # type: ignore[misc]
            start += length
            if len(some) == length:
                self._lengths[name] = self.fitting(length, MIN_ROWS, MAX_ROWS)

    def run_between(self, sql: str, numbers: tuple[int, int], *params: Any) -> None:
        """Runs the statement for some of the numbers at a time; the first and the last of these are its last parameters."""
        start, last = numbers
        while start <= last:
            length = self._lengths.get(sql, FIRST_ROWS)
            self.run(sql, *params, start, min(start + length - 1, last))
            start += length
            self._lengths[sql] = self.fitting(length, MIN_ROWS, MAX_ROWS)

    def add_places(self, mandant: int, jahr: str, places: Iterator[posting.OnSheet]) -> None:
        # The next ones are put in order while some are written.
        with ThreadPoolExecutor(1, "books-places") as ahead:
            length = FIRST_PLACES
            coming = ahead.submit(_first_of, places, length)
            while some := coming.result():
                coming = ahead.submit(_first_of, places, length)
                self.write(lambda tx, some=some: posting.add_places(tx, mandant, jahr, some))  # type: ignore[misc]
                length = self.fitting(length, MIN_PLACES, MAX_PLACES)

    def each(self, sql: str, rows: Iterable[Sequence[Any]]) -> list[list[Row]]:
        kept = list(rows)
        return self._db.read_now(lambda tx: tx.each(sql, kept))


def _first_of(items: Iterator[T], count: int) -> list[T]:
    return list(islice(items, count))


def begin(db: Database, client: Client, batch: str, source: str, undoes: str = "") -> Slices:
    """Claims the client's books for a batch, and makes an edition for it. Raises StillRunning if another one has."""
    claimed = db.write_now(claims.claim, client, batch, source, undoes)
    while claimed is None:
        claims.sweep(db)
        claimed = db.write_now(claims.claim, client, batch, source, undoes)
    copy_edition(db, client, claimed)
    return Slices(db, claimed)


class _Waiting(NamedTuple):
    """Documents of two blocks, of which the older one is being written. Taxes may be merged with themselves, if it is written already."""

    newer: dict[tuple[str, str], list[Any]]
    older: dict[tuple[str, str], list[Any]]

    def get(self, key: tuple[str, str], /) -> Sequence[Any] | None:
        newer, older = self.newer.get(key), self.older.get(key)
        if newer is None or older is None:
            return newer or older
        return (merge_taxes(newer[-1], older[-1]),)


class _Ready(NamedTuple):
    """A block that only has to be written."""

    # The first and the last of the bookings that it reverses.
    originals: tuple[int, int] | None
    changes: list[Change]
    places: posting.Places | None


class SlicedPoster(Poster):
    """Posts a large batch: `finish` writes all but the rows held back, `appear` makes them count, and `close` ends its thread.

    A thread writes what was gathered while the next rows are. It has slices of its own, and what it writes is read only after it.
    """

    def __init__(self, slices: Slices, client: Client, batch: Batch, *, watch_others: bool) -> None:
        self._slices, claimed = slices, slices.claim
        place = Place(claimed.mandant, claimed.before, _NO_CEILING, (claimed.edition,))
        super().__init__(slices, client, batch, place)
        self._pause_at = self._next_pause()
        self._behind = slices.apart()
        self._thread = ThreadPoolExecutor(1, "books-slices")
        self._writing: Future[None] | None = None
        self._last_rows = Block()
        self._is_finishing = False
        self._places = posting.Places(self.before)
        self._cash: Days = {}
        # The looks of the rows, to find those that others book meanwhile.
        self._looks: array[int] | None = array("q") if watch_others else None

    def _next_pause(self) -> int:
        return min(self._last + RENEWED_EVERY, self._flushed + ROWS_GATHERED)

    def _pause(self) -> None:
        if self._last - self._flushed >= ROWS_GATHERED:
            self._flush()
        elif self._writing is None or self._writing.done():
            # Each slice that the thread writes renews it too, and would be waited for.
            self._slices.renew()
        self._pause_at = self._next_pause()

    def _flush(self) -> None:
        gathered = self._block
        super()._flush()
        self._documents = _Waiting(self._block.items, gathered.items)

    def _wait(self) -> None:
        """Waits until everything is written that was flushed. Raises what went wrong."""
        if self._writing is not None:
            self._writing.result()

    def close(self) -> None:
        self._thread.shutdown()

    def _write(self, block: Block) -> None:
        if self._looks is not None:
            self._looks.extend(duplicates.looks_of_rows(block.bookings))
        held, ceiling = self._last_rows, self._slices.claim.ceiling
        bookings, own_bookings = _split(block.bookings, 1, ceiling)
        moves, own_moves = _split(block.moves, 2, ceiling)
        cash_rows, own_cash_rows = _split(block.cash_rows, 3, ceiling)
        block.openings, own_openings = _split(block.openings, 2, ceiling)
        block.discounts, own_discounts = _split(block.discounts, 2, ceiling)
        held.bookings += own_bookings
        held.moves += own_moves
        held.cash_rows += own_cash_rows
        held.openings += own_openings
        held.discounts += own_discounts
        for key, bewegung in block.cash_days.items():
            self._cash[key] = self._cash.get(key, 0) + bewegung
        block.bookings, block.moves, block.cash_rows = bookings, moves, cash_rows
        if len(block.periods) < SUMS_GATHERED and not self._is_finishing:
            # They go on with the next block: their rows would only be changed again.
            self._block.periods, self._block.years = block.periods, block.years
            block.periods, block.years = {}, {}
        ready = self._made_ready(block)
        self._wait()
        self._writing = self._thread.submit(copy_context().run, self._write_behind, ready)

    def _made_ready(self, block: Block) -> _Ready:
        self._places.add(map(posting.PLACED, block.bookings))
        self._places.add(block.reversals)
        places = None
        if self._places.count >= PLACES_GATHERED:
            places, self._places = self._places, posting.Places(self.before)
        journal = posting.journal_of(block.bookings, block.moves, block.cash_rows)
        changes = block.changes(self._behind.claim.edition, self.batch.jahr.start)
        return _Ready(self._originals(block) if block.reversals else None, [*journal, *changes], places)

    def _write_behind(self, ready: _Ready) -> None:
        if ready.originals is not None:
            self._behind.run_between(posting.INSERT_REVERSALS, ready.originals, *self._of_reversals())
        read_models.write(self._behind, ready.changes)
        if ready.places is not None:
            self._behind.add_places(self._client.mandant, self.batch.jahr.start, ready.places.take())

    def finish(self) -> int:
        """Writes what is left and settles what follows from it, in slices. Returns the number of bookings."""
        self._is_finishing = True
        self._flush()
        self._wait()
        jahr, edition = self.batch.jahr.start, self._slices.claim.edition
        self._slices.add_places(self._client.mandant, jahr, self._places.take())
        if self._carries_persons:
            self._carry(jahr)
        self._slices.in_slices(
            self._touched,
            lambda tx, some: read_models.settle(tx, self._client, edition, jahr, some, set(), self._carried_years(tx)),
        )
        self._slices.in_slices(self._moved, lambda tx, some: read_models.settle_balances(tx, edition, jahr, some))
        return self._last - self.before

    def _carry(self, jahr: str) -> None:
        """Tells others that post to the edition from here on that the file carries the year over."""
        edition = self._slices.claim.edition
        self._slices.claim = self._slices.claim._replace(carried=jahr)
        if jahr in self._slices.write(lambda tx: read_models.carried_years(tx, self._client.mandant)):
            return
        self._slices.run("UPDATE books_preparing SET carried = ? WHERE mandant = ?", jahr, self._client.mandant)
        others = self._slices.all("SELECT DISTINCT konto FROM books_item_years WHERE edition = ?", edition)
        self._slices.in_slices(
            {konto for (konto,) in others} - self._touched,
            lambda tx, some: read_models.settle_rests(tx, edition, self._carried_years(tx), some),
        )

    def _carried_years(self, tx: Tx) -> list[str]:
        carried = {*read_models.carried_years(tx, self._client.mandant), self._slices.claim.carried}
        return sorted(carried - {""})

    # --- The last transaction

    def appear(self, tx: Tx) -> None:
        """Writes the rows held back, and makes the file count: one short transaction, with the batch's row in it."""
        claimed, count, jahr = self._slices.claim, self._last - self.before, self.batch.jahr.start
        last, left = claims.renew(tx, claimed)
        self._refuse_lookalikes(tx, last)
        number_of = self._numbers(last, count)
        mandant, held = claimed.mandant, self._last_rows
        bookings = _renumbered(held.bookings, 1, number_of)
        journal = posting.journal_of(
            bookings, _renumbered(held.moves, 2, number_of), _renumbered(held.cash_rows, 3, number_of)
        )
        read_models.write(tx, journal)
        for span in posting.spans(bookings):
            tx.run(posting.ADD_TO_SHEETS, *(mandant, *span) * 3)
        if self._carries_persons:
            read_models.set_carried(tx, mandant, jahr)
        if held.openings or held.discounts:
            openings = read_models.added_openings(claimed.edition, _renumbered(held.openings, 2, number_of))
            discounts = read_models.added_discounts(claimed.edition, _renumbered(held.discounts, 2, number_of))
            read_models.write(tx, [openings, discounts])
            persons = {row[0] for row in (*held.openings, *held.discounts)}
            read_models.settle(tx, self._client, claimed.edition, jahr, persons, set(), self._carried_years(tx))
        tx.many(ADD_DAY, [(mandant, *key, bewegung) for key, bewegung in self._cash.items()])
        tx.run(
            "UPDATE books_clients SET last_buchung = ?, edition = ? WHERE mandant = ?",
            last + count, claimed.edition, mandant,
        )  # fmt: skip
        tx.run(
            "UPDATE books_batches SET records = ?, first_booking = ?, last_booking = ? WHERE mandant = ? AND id = ?",
            count, last + 1 if count else 0, last + count if count else 0, mandant, self.batch.id,
        )  # fmt: skip
        claims.release(tx, claimed, left)

    def _numbers(self, last: int, count: int) -> dict[int, int]:
        """Returns number → number for the rows held back: those that are free among the next ones after the last."""
        written = range(self._slices.claim.ceiling + 1, self.before + count + 1)
        free = (number for number in range(last + 1, last + count + 1) if number not in written)
        return dict(zip((row[1] for row in self._last_rows.bookings), free, strict=True))

    def _refuse_lookalikes(self, tx: Tx, last: int) -> None:
        if self._looks is None or last == self.before:
            return
        others = duplicates.looks_between(tx, self._client, self.before, last)
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


# --- The edition that a large batch is written to


def copy_edition(db: Database, client: Client, claimed: Claim) -> None:
    carried = db.read_now(read_models.carried_years, client.mandant)
    for table in TABLES:
        after: tuple[Any, ...] | None = ()
        while after is not None:
            after = db.write_now(_copy_some, claimed, table, after)
    db.write_now(_finish, client, claimed, carried)


def _copy_some(tx: Tx, claimed: Claim, table: str, after: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Copies some rows, and returns the key of the last; None if there are no more."""
    _, edition = claims.renew(tx, claimed)
    keys, values = TABLES[table]
    marks = ", ".join("?" * (keys.count(",") + 1))
    beyond = f" AND ({keys}) > ({marks})" if after else ""
    last = tx.one(
        f"SELECT {keys} FROM {table} WHERE edition = ?{beyond} ORDER BY {keys} LIMIT 1 OFFSET ?",
        edition, *after, ROWS_AT_ONCE - 1,
    )  # fmt: skip
    up_to = f" AND ({keys}) <= ({marks})" if last else ""
    tx.run(
        f"INSERT INTO {table} (edition, {keys}, {values}) SELECT CAST(? AS BIGINT), {keys}, {values} FROM {table}"
        f" WHERE edition = ?{beyond}{up_to} ORDER BY {keys}",
        claimed.edition, edition, *after, *(last or ()),
    )  # fmt: skip
    return last


def _finish(tx: Tx, client: Client, claimed: Claim, carried: list[str]) -> None:
    last, edition = claims.renew(tx, claimed, is_copied=1)
    konten, items = _touched_since(tx, client, claimed.before, last)
    if not konten:
        return
    for some, is_one in chunked(sorted(filter(is_personenkonto, konten.copy()))):
        # A pair that was decided about again changed the other account of the opening too.
        for (gegenkonto,) in tx.all(
            f"SELECT DISTINCT gegenkonto FROM books_openings WHERE edition = ? AND konto {is_one}", edition, *some
        ):
            konten.add(gegenkonto)
    touched: list[tuple[str, ...]]
    for table in TABLES:
        condition, touched = "konto = ?", [(konto,) for konto in sorted(konten)]
        if table == "books_items":
            condition, touched = "konto = ? AND beleg = ?", sorted(items)
        columns = ", ".join(TABLES[table])
        tx.many(f"DELETE FROM {table} WHERE edition = ? AND {condition}", [(claimed.edition, *key) for key in touched])
        tx.many(
            f"INSERT INTO {table} (edition, {columns}) SELECT CAST(? AS BIGINT), {columns} FROM {table}"
            f" WHERE edition = ? AND {condition}",
            [(claimed.edition, edition, *key) for key in touched],
        )
    now_carried = read_models.carried_years(tx, client.mandant)
    if now_carried != carried:
        read_models.settle_rests(tx, claimed.edition, now_carried, None)


def _touched_since(tx: Tx, client: Client, before: int, last: int) -> tuple[set[str], set[tuple[str, str]]]:
    """Returns the accounts and the documents that bookings after this one touched."""
    konten, items = set[str](), set[tuple[str, str]]()
    for aufteilung, *values in tx.all(
        f"SELECT aufteilung, {', '.join(Satz._fields)} FROM books_bookings WHERE mandant = ? AND id > ? AND id <= ?",
        client.mandant, before, last,
    ):  # fmt: skip
        satz = Satz._make(values)
        for konto, _ in legs_of(client.rahmen, satz, aufteilung):
            konten.add(konto)
            if is_personenkonto(konto):
                items.add((konto, satz.belegfeld1))
    # An invoice may have changed how earlier discounts of its document are split.
    return konten | (discount_accounts(client.rahmen) if items else set()), items
