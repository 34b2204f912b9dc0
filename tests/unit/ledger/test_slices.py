"""Files that are written in slices: nobody sees them before they are whole, whoever posts meanwhile, and whatever breaks off."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from datetime import date
from typing import Any, NamedTuple, cast

import pytest

from kontobahn.books import batches, claims, posting, read_models, slices, store, verification
from kontobahn.books.batches import Batch
from kontobahn.books.satz import MIXED, Satz
from kontobahn.books.slices import SlicedPoster
from kontobahn.books.store import Client
from kontobahn.clock import ManualClock
from kontobahn.db import Database, Tx
from kontobahn.db.database import Engine
from kontobahn.errors import StillRunning, Unavailable
from kontobahn.ids import new_id
from kontobahn.ledger.kontierung import PLAIN
from tests.unit.ledger.random_ledgers import Ledger, Year, any_ledger, opening
from tests.unit.ledger.recalculation import PERSONS, Booking
from tests.unit.ledger.test_random_ledgers import FIRST_SEED, Books, add, books, check_ledger, create
from tests.waiting import PATIENCE_SECONDS

__all__ = ["books"]
LEDGERS = {"sqlite": 34, "postgres": 8}
OF_EDITIONS = tuple(read_models.TABLES)
TABLES = (
    *OF_EDITIONS,
    "books_bookings",
    "books_sheets",
    "books_item_moves",
    "books_batches",
    "books_partial_rows",
    "books_years",
)


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "FIRST_ROWS", "MIN_ROWS", "MAX_ROWS", "FIRST_PLACES", "MIN_PLACES", "MAX_PLACES", "FIRST_KONTEN", "MIN_KONTEN", "MAX_KONTEN",
    ):  # fmt: skip
        monkeypatch.setattr(slices, name, 3)
    monkeypatch.setattr(slices, "ROWS_GATHERED", 7)
    monkeypatch.setattr(slices, "PLACES_GATHERED", 30)
    monkeypatch.setattr(slices, "SUMS_GATHERED", 8)
    monkeypatch.setattr(claims, "ROWS_AT_ONCE", 4)
    monkeypatch.setattr("kontobahn.books.slices.ROWS_AT_ONCE", 4)


class Posted(NamedTuple):
    """A ledger in the order in which its bookings have their numbers."""

    years: list[Year]
    posted: list[Booking]
    order: int


def as_posted(tx: Tx, client: Client, years: list[Year], order: int) -> Posted:
    rows = tx.all(
        "SELECT belegdatum, jahr, konto, gegenkonto, soll, umsatz, belegfeld1, buchungstext, skonto, generalumkehr, id"
        " FROM books_bookings WHERE mandant = ? ORDER BY id",
        client.mandant,
    )
    assert [row[-1] for row in rows] == list(range(1, len(rows) + 1)), "numbers rise without gaps"
    posted = [Booking._make((*row[:4], bool(row[4]), *row[5:9], bool(row[9]))) for row in rows]
    return Posted(years, posted, order)


class Interrupted(Database):
    """Calls `between` before every transaction that writes."""

    def __init__(self, engine: Engine, between: Callable[[], None]) -> None:
        super().__init__(engine)
        self._between = between
        self.next: Any = None

    def write_now(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        self.next = fn
        self._between()
        return super().write_now(fn, *args, **kwargs)


class Writing:
    """Writes one batch in slices; `between` is called wherever others may come in."""

    def __init__(self, books: Books, client: Client, rows: list[Booking], between: Callable[[], None]) -> None:
        self.db, self._client, self._rows = Interrupted(books.db.engine, between), client, rows
        self.id = new_id()

    def run(self) -> None:
        self.write()
        self.db.write_now(self.appear)
        claims.sweep(self.db)

    def write(self) -> None:
        client = self._client
        jahr = self.db.read_now(store.year_of_start, client, date.fromisoformat(self._rows[0].jahr))
        begun = slices.begin(self.db, client, self.id, "test")
        self._poster = SlicedPoster(begun, client, Batch(self.id, jahr, False, False, False), watch_others=False)
        for row in self._rows:
            self._poster.add(
                Satz(
                    umsatz=row.betrag, soll=row.soll, konto=row.konto, gegenkonto=row.gegenkonto, belegdatum=row.tag,
                    belegfeld1=row.beleg, buchungstext=row.text, skonto=row.skonto, generalumkehr=row.reversal,
                )
            )  # fmt: skip
        assert self._poster.finish() == len(self._rows)

    def appear(self, tx: Tx) -> None:
        batches.open_batch(tx, self._client, self._poster.batch.jahr, kind="test", source="test", batch_id=self.id)
        self._poster.appear(tx)


def test_a_ledger_written_in_slices_while_others_post_is_that_of_a_plain_recalculation(
    books: Books, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + LEDGERS[engine]):
        ledger, chance = any_ledger(seed), random.Random(seed)
        # As large as the others can need, or larger than the file, or next to nothing.
        monkeypatch.setattr(claims, "HEADROOM", chance.choice((len(ledger.bookings), 40, 1_000)))
        client = books.db.write_now(create, books.connection_id, ledger)
        batches = ledger.batches
        while batches:
            rows, batches = batches[0], batches[1:]
            if chance.random() < 0.5 or len(rows) > 40:
                books.db.write_now(add, client, [rows])
                continue
            others = batches[: chance.randint(0, 3)]
            room = 40
            while others and sum(map(len, others)) > room:
                others = others[:-1]
            batches = batches[len(others) :]

            def between(client: Client = client, others: list[Any] = others, chance: random.Random = chance) -> None:
                if others and chance.random() < 0.4:
                    books.db.write_now(add, client, [others.pop()])
                    assert books.db.read_now(verification.find_differences, client.mandant) == []

            Writing(books, client, rows, between).run()
            assert books.db.read_now(verification.find_differences, client.mandant) == [], f"seed {seed}"
            books.db.write_now(add, client, others)
        posted = books.db.read_now(as_posted, client, ledger.years, ledger.order)
        assert sorted(posted.posted) == sorted(ledger.bookings)
        books.db.read_now(check_ledger, client, cast(Ledger, posted))
    assert books.db.read_now(lambda tx: tx.all("SELECT * FROM books_left_editions")) == []


def test_a_year_carried_over_at_the_last_moment_of_copying_counts_for_every_account(books: Books) -> None:
    years = [("2024-01-01", "2024-12-31"), ("2025-01-01", "2025-12-31")]
    open_before = [Booking("2024-05-02", "2024-01-01", konto, "84000000", True, 100, "R1", "x") for konto in PERSONS]
    rows = [row._replace(tag="2025-06-01", jahr="2025-01-01", beleg="R2") for row in open_before[:4]]
    client = books.db.write_now(create, books.connection_id, Ledger(years, [], 1))
    books.db.write_now(add, client, [open_before])

    def between() -> None:
        if writing.db.next is slices._finish:
            books.db.write_now(add, client, [[opening("2025-01-01", PERSONS[0], 500)]])

    writing = Writing(books, client, rows, between)
    writing.run()
    assert len(books.db.read_now(as_posted, client, years, 1).posted) == len(PERSONS) + 5
    assert books.db.read_now(verification.find_differences, client.mandant) == []


# --- What breaks off


class Killed(BaseException):
    """The process ends here."""


def killed_at(step: int) -> Callable[[], None]:
    """Goes between slices, and returns from none of them from this number on: a process dies with all of its threads."""
    numbers = itertools.count(1)

    def between() -> None:
        if next(numbers) >= step:
            raise Killed

    return between


def contents(tx: Tx) -> dict[str, list[Any]]:
    return {table: sorted(tx.all(f"SELECT * FROM {table}")) for table in TABLES}


def test_a_file_that_breaks_off_anywhere_leaves_nothing(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either the process tidies up, or it dies and a job does when its lease has expired."""
    monkeypatch.setattr(claims, "HEADROOM", 5)
    ledger = any_ledger(14)
    client = books.db.write_now(create, books.connection_id, ledger)
    *earlier, last = sorted(ledger.batches, key=len)
    books.db.write_now(add, client, earlier)
    before = books.db.read_now(contents)
    reached = 0
    while True:
        reached += 1
        writing = Writing(books, client, last, killed_at(reached))
        try:
            writing.write()
            break
        except Killed:
            pass
        assert books.db.read_now(verification.find_differences, client.mandant) == []
        if reached % 2:
            claims.give_up(books.db, client.mandant, writing.id)
        else:
            clock = books.db.engine._clock  # type: ignore[attr-defined]
            assert isinstance(clock, ManualClock)
            claims.sweep(books.db)
            if reached > 2:
                with pytest.raises(StillRunning):
                    Writing(books, client, last, lambda: None).write()
            clock.advance(seconds=claims.LEASE_SECONDS)
            claims.sweep(books.db)
        assert books.db.read_now(contents) == before, f"broken off before transaction {reached}"
    assert reached > 20
    claims.give_up(books.db, client.mandant, writing.id)
    assert books.db.read_now(contents) == before


def test_whoever_gathers_slowly_is_not_given_up_for_dead(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "ROWS_GATHERED", 1_000)
    monkeypatch.setattr(slices, "RENEWED_EVERY", 2)
    ledger, plain_add = any_ledger(14), SlicedPoster.add
    client = books.db.write_now(create, books.connection_id, ledger)
    clock = books.db.engine._clock  # type: ignore[attr-defined]
    assert isinstance(clock, ManualClock)

    def adds_slowly(poster: SlicedPoster, satz: Satz) -> int:
        booking = plain_add(poster, satz)
        clock.advance(seconds=claims.LEASE_SECONDS * 0.4)
        claims.sweep(books.db)
        return booking

    monkeypatch.setattr(SlicedPoster, "add", adds_slowly)
    rows = max(ledger.batches, key=len)
    Writing(books, client, rows, lambda: None).run()
    assert len(books.db.read_now(as_posted, client, ledger.years, ledger.order).posted) == len(rows) > 3


def test_whoever_gathers_does_not_wait_for_what_is_being_written(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "RENEWED_EVERY", 1)
    monkeypatch.setattr(slices, "ROWS_GATHERED", 2)
    ledger, plain_add, plain_write = any_ledger(14), SlicedPoster.add, SlicedPoster._write_behind
    client = books.db.write_now(create, books.connection_id, ledger)
    # Two are written while the third is gathered.
    rows = max(ledger.batches, key=len)[:3]
    assert len(rows) == 3
    all_are_gathered, gathered_meanwhile = threading.Event(), []

    def add_and_tell(poster: SlicedPoster, satz: Satz) -> int:
        booking = plain_add(poster, satz)
        if poster.count == len(rows):
            all_are_gathered.set()
        return booking

    def write_slowly(poster: SlicedPoster, ready: slices._Ready) -> None:
        poster._behind.write(lambda tx: gathered_meanwhile.append(all_are_gathered.wait(PATIENCE_SECONDS)))
        plain_write(poster, ready)

    monkeypatch.setattr(SlicedPoster, "add", add_and_tell)
    monkeypatch.setattr(SlicedPoster, "_write_behind", write_slowly)
    Writing(books, client, rows, lambda: None).run()
    assert gathered_meanwhile[0]
    assert len(books.db.read_now(as_posted, client, ledger.years, ledger.order).posted) == len(rows)


def test_who_was_given_up_for_dead_writes_nothing_more(books: Books) -> None:
    ledger = any_ledger(3)
    client = books.db.write_now(create, books.connection_id, ledger)
    writing = Writing(books, client, ledger.batches[0], lambda: None)
    writing.write()
    # While its rows are removed, and after.
    books.db.write_now(claims._end_lease, client.mandant, writing.id)
    with pytest.raises(Unavailable):
        books.db.write_now(writing.appear)
    claims.give_up(books.db, client.mandant, writing.id)
    with pytest.raises(Unavailable):
        books.db.write_now(writing.appear)
    assert not any(books.db.read_now(contents)[table] for table in TABLES if table != "books_years")


def test_every_edition_that_nobody_reads_is_swept(books: Books) -> None:
    ledger = any_ledger(14)
    client, other = (books.db.write_now(create, books.connection_id, ledger) for _ in range(2))
    books.db.write_now(add, other, ledger.batches)
    for rows in ledger.batches[:2]:
        writing = Writing(books, client, rows, lambda: None)
        writing.write()
        writing.db.write_now(writing.appear)
    assert len(books.db.read_now(lambda tx: tx.all("SELECT edition FROM books_left_editions"))) == 2
    claims.sweep(books.db)
    assert books.db.read_now(lambda tx: tx.all("SELECT edition FROM books_left_editions")) == []
    read = {books.db.read_now(store.edition_of, one) for one in (client, other)}
    for table in OF_EDITIONS:
        found = books.db.read_now(lambda tx, table=table: tx.all(f"SELECT DISTINCT edition FROM {table}"))  # type: ignore[misc]
        assert {edition for (edition,) in found} <= read, table
    for one in (client, other):
        assert books.db.read_now(verification.find_differences, one.mandant) == []


def test_a_discount_follows_its_invoice_that_is_still_being_written(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger([("2024-01-01", "2024-12-31")], [], 1)
    client = books.db.write_now(create, books.connection_id, ledger)
    invoice = Booking("2024-02-01", "2024-01-01", PERSONS[0], "83000000", True, 10700, "R1", "Rechnung")
    others = [invoice._replace(beleg=f"R{number}") for number in range(2, 2 + slices.ROWS_GATHERED)]
    paid = Booking("2024-02-09", "2024-01-01", "12000000", PERSONS[0], True, 10486, "R1", "Zahlung", skonto=214)
    is_split = threading.Event()
    write, split = SlicedPoster._write_behind, SlicedPoster._add_discount

    def write_later(poster: SlicedPoster, block: Any) -> None:
        assert is_split.wait(PATIENCE_SECONDS)
        write(poster, block)

    def then_write(poster: SlicedPoster, *given: Any) -> None:
        split(poster, *given)
        is_split.set()

    monkeypatch.setattr(SlicedPoster, "_write_behind", write_later)
    monkeypatch.setattr(SlicedPoster, "_add_discount", then_write)
    Writing(books, client, [invoice, *others[1:], paid], lambda: None).run()
    assert books.db.read_now(lambda tx: tx.all("SELECT aufteilung FROM books_bookings WHERE skonto > 0")) == [("S7",)]
    assert books.db.read_now(verification.find_differences, client.mandant) == []


def test_the_tax_of_a_document_is_that_of_all_its_rows_that_wait_to_be_written() -> None:
    """Each of two blocks may have rows of it."""
    at_7, at_19, key = [0, "S7"], [0, "S19"], (PERSONS[0], "R1")
    for newer, older, tax in (
        ({key: at_7}, {key: at_7}, "S7"),
        ({key: at_7}, {key: at_19}, MIXED),
        ({key: at_7}, {}, "S7"),
        ({}, {key: at_19}, "S19"),
    ):
        found = slices._Waiting(newer, older).get(key)
        assert found is not None
        assert found[-1] == tax
    assert slices._Waiting({}, {}).get(key) is None


def test_places_come_back_by_sheet_period_and_day_with_their_numbers() -> None:
    places, before, last = posting.Places(1_000), 1_000, 1_000 + 2**20 - 1
    rows = [
        (last, 12, "2026-12-31", "A", "B"),
        (before + 1, 12, "2026-12-30", "B", "A"),
        (before + 2, 0, "2026-01-01", "B", "B"),
        (before + 3, 12, "2026-12-30", "A", "C"),
    ]
    places.add((*row, PLAIN) for row in rows)
    expected = [(blatt, periode, day, number) for number, periode, day, *both in rows for blatt in dict.fromkeys(both)]
    assert list(places.take()) == sorted(expected)
    assert list(places.take()) == []


def test_every_place_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Written:
        def __init__(self) -> None:
            self.params: list[Any] = []

        def put(self, sql: str, *params: Any) -> None:
            assert sql.count("?") == len(params)
            self.params += params

    monkeypatch.setattr(posting, "_PLACES_AT_ONCE", 2)
    places = [("A", 1, "2026-01-05", number) for number in range(1, 6)]
    for count in range(6):
        written = Written()
        posting.add_places(cast(Tx, written), 7, "2026-01-01", places[:count])
        assert written.params == [value for place in places[:count] for value in (7, "2026-01-01", *place)]
