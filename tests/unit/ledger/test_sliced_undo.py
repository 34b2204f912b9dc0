"""Batches that are undone in slices: all or nothing to every reader, whoever posts meanwhile, and whatever breaks off."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from kontobahn.books import claims, slices, store, undo, verification
from kontobahn.books.store import Client
from kontobahn.books.undo import Undo
from kontobahn.clock import ManualClock
from kontobahn.db import Database, Tx
from kontobahn.errors import Conflict, StillRunning, Unavailable
from kontobahn.ids import new_id
from tests.unit.ledger.random_ledgers import Ledger, any_ledger, cut_offs, opening
from tests.unit.ledger.recalculation import PERSONS, Booking
from tests.unit.ledger.test_random_ledgers import FIRST_SEED, MODES, Books, add, ask_all, books, create, stored_models
from tests.unit.ledger.test_slices import TABLES, Interrupted, Killed, contents, killed_at, short_slices
from tests.unit.ledger.test_undo import balances

__all__ = ["books", "short_slices"]
LEDGERS = {"sqlite": 34, "postgres": 8}
# With a trace of what was undone: turnover went to and fro.
OF_TURNOVER = ("books_periods", "books_balances")
YEARS = [("2024-01-01", "2024-12-31"), ("2025-01-01", "2025-12-31")]


@pytest.fixture(autouse=True)
def every_batch_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "SLICED_FROM_ROWS", 1)
    monkeypatch.setattr(undo, "PAGE", 5)
    monkeypatch.setattr(undo, "ROWS_OF_KONTO", 2)
    monkeypatch.setattr(undo, "DOCUMENTS_AT_ONCE", 2)


class Taking:
    """Undoes one batch in slices; `between` is called wherever others may come in."""

    def __init__(self, db: Database, client: Client, batch: str, between: Callable[[], None] = lambda: None) -> None:
        self.db, self.id = Interrupted(db.engine, between), new_id()
        self.work = Undo(self.db, lambda tx: client, batch, "test")
        self.is_committed = False

    def prepare(self) -> None:
        self.work.prepare(self.id)

    def commit(self) -> None:
        self.db.write_now(self.work.commit, self.id)
        self.is_committed = True

    def run(self) -> None:
        self.prepare()
        self.commit()
        self.work.tidy(self.id)


def last_batch(books: Books, client: Client) -> str:
    sql = "SELECT id FROM books_batches WHERE mandant = ? ORDER BY id DESC LIMIT 1"
    return str(books.db.read_now(lambda tx: tx.all(sql, client.mandant))[0][0])


def differences(books: Books, client: Client) -> list[str]:
    return books.db.read_now(verification.find_differences, client.mandant)


def everything(tx: Tx, client: Client) -> dict[str, list[Any]]:
    """The read models, with the numbers of bookings and the taxes of documents."""
    edition = store.edition_of(tx, client)
    return stored_models(tx, client) | {
        "taxes": sorted(tx.all("SELECT konto, beleg, steuer FROM books_items WHERE edition = ?", edition)),
        "openings": sorted(tx.all("SELECT booking, konto, is_twin FROM books_openings WHERE edition = ?", edition)),
        "moves": sorted(tx.all("SELECT booking, konto FROM books_item_moves WHERE mandant = ?", client.mandant)),
        "bookings": tx.all(
            "SELECT id, jahr, periode, konto, gegenkonto, soll, umsatz, aufteilung, generalumkehr FROM books_bookings"
            " WHERE mandant = ? ORDER BY id",
            client.mandant,
        ),
    }


def test_what_is_undone_in_slices_while_others_post_is_undone_as_in_one_transaction(books: Books, engine: str) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + LEDGERS[engine]):
        ledger, chance = any_ledger(seed), random.Random(seed)
        if not ledger.batches:
            continue
        sliced, at_once, without = (books.db.write_now(create, books.connection_id, ledger) for _ in range(3))
        batches = ledger.batches
        first = chance.randrange(len(batches))
        victim = chance.randint(0, first)
        others = batches[first + 1 :][: chance.randint(0, 4)]
        ids = []
        for client in (sliced, at_once):
            for number, rows in enumerate(batches[: first + 1]):
                books.db.write_now(add, client, [rows])
                if number == victim:
                    ids.append(last_batch(books, client))
        # Before the undoing appears, and after.
        posted = list[list[Booking]](), list[list[Booking]]()

        def between(sliced: Client = sliced, others: Any = others, posted: Any = posted, chance: Any = chance) -> None:
            if others and chance.random() < 0.2:
                rows = others.pop()
                posted[taking.is_committed].append(rows)  # noqa: B023
                books.db.write_now(add, sliced, [rows])
                assert differences(books, sliced) == []

        taking = Taking(books.db, sliced, ids[0], between)
        taking.run()
        assert differences(books, sliced) == [], f"seed {seed}"
        books.db.write_now(add, at_once, posted[0])
        books.db.write_now(undo.undo_batch, at_once, ids[1], "test")
        books.db.write_now(add, at_once, posted[1])
        books.db.write_now(add, without, [*batches[:victim], *batches[victim + 1 : first + 1], *posted[0], *posted[1]])
        found = [books.db.read_now(everything, client) for client in (sliced, at_once)]
        assert found[0] == found[1], f"seed {seed}"
        _compare_with_never(books, ledger, sliced, without)
    assert books.db.read_now(lambda tx: tx.all("SELECT * FROM books_left_editions")) == []
    assert books.db.read_now(lambda tx: tx.all("SELECT * FROM books_clients WHERE undone_to <> 0")) == []


def _compare_with_never(books: Books, ledger: Ledger, undone: Client, without: Client) -> None:
    """Every read is that of books in which the batch never was."""
    questions = [(stichtag, mode) for stichtag in cut_offs(ledger, 3) for mode in MODES]
    asked, models = (
        [books.db.read_now(fn, client) for client in (undone, without)] for fn in (_asked(questions), stored_models)
    )
    assert asked[0] == asked[1], ledger
    for table, rows in models[0].items():
        assert table in OF_TURNOVER or rows == models[1][table], (ledger, table)
    for start, _ in ledger.years:
        one, other = (books.db.read_now(balances, client, start) for client in (undone, without))
        assert one == other


def _asked(questions: list[tuple[str, str]]) -> Callable[[Tx, Client], Any]:
    return lambda tx, client: ask_all(tx, client, questions)


# --- Years that are carried over


def invoice(konto: str, jahr: str = "2024-01-01", beleg: str = "R1") -> Booking:
    return Booking(f"{jahr[:4]}-05-02", jahr, konto, "84000000", True, 100, beleg, "x")


def carried(books: Books) -> tuple[Client, str]:
    """A year that one batch alone has carried over."""
    client = books.db.write_now(create, books.connection_id, Ledger(YEARS, [], 1))
    books.db.write_now(add, client, [[invoice(konto) for konto in PERSONS]])
    books.db.write_now(add, client, [[opening("2025-01-01", konto, 500) for konto in PERSONS[:2]]])
    return client, last_batch(books, client)


def years_carried(books: Books, client: Client) -> list[str]:
    return [year.start for year in books.db.read_now(store.years, client) if year.has_eb]


def test_a_year_that_only_the_batch_carried_over_is_not_carried_without_it(books: Books) -> None:
    client, batch = carried(books)
    Taking(books.db, client, batch).run()
    assert years_carried(books, client) == []
    assert differences(books, client) == []


def test_a_year_that_others_carry_over_meanwhile_stays_carried(books: Books) -> None:
    """Wherever they come in, also when the edition has forgotten already that it was carried."""
    reached = 0
    while True:
        client, batch = carried(books)
        left = reached = reached + 1
        is_posted = False

        def between() -> None:
            nonlocal left, is_posted
            left -= 1
            if left == 0:
                is_posted = True
                books.db.write_now(add, client, [[opening("2025-01-01", PERSONS[3], 700)]])  # noqa: B023
                assert differences(books, client) == []  # noqa: B023

        taking = Taking(books.db, client, batch, between)
        taking.prepare()
        taking.commit()
        assert differences(books, client) == [], reached
        if not is_posted:
            break
        taking.work.tidy(taking.id)
        assert years_carried(books, client) == ["2025-01-01"]
        assert differences(books, client) == [], reached
    assert reached > 20


def test_who_posts_to_a_document_of_the_batch_wherever_it_is_finds_it_again(books: Books) -> None:
    reached = 0
    while True:
        client = books.db.write_now(create, books.connection_id, Ledger(YEARS, [], 1))
        shared = [invoice(PERSONS[0], beleg="R1"), invoice(PERSONS[1], beleg="R2")._replace(text="a")]
        books.db.write_now(add, client, [[shared[1]._replace(tag="2024-04-01")]])
        books.db.write_now(add, client, [[*shared, *(invoice(PERSONS[2], beleg=f"R{number}") for number in range(9))]])
        batch = last_batch(books, client)
        left = reached = reached + 1

        def between() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                more = [row._replace(tag="2024-06-01", soll=False) for row in shared]  # noqa: B023
                books.db.write_now(add, client, [more])  # noqa: B023

        taking = Taking(books.db, client, batch, between)
        taking.run()
        assert differences(books, client) == [], reached
        if left > 0:
            break
        rows = books.db.read_now(
            lambda tx, client=client: tx.all(  # type: ignore[misc]
                "SELECT konto, belegdatum, soll, haben FROM books_items WHERE edition = ? ORDER BY konto",
                store.edition_of(tx, client),
            )
        )
        assert rows == [(PERSONS[0], "2024-06-01", 0, 100), (PERSONS[1], "2024-04-01", 100, 100)]
    assert reached > 20


# --- What breaks off


def test_an_undoing_that_breaks_off_anywhere_leaves_nothing(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either the process tidies up, or it dies and a job does when its lease has expired."""
    monkeypatch.setattr(claims, "HEADROOM", 5)
    client, batch = _with_a_large_batch(books)
    clock = books.db.engine._clock  # type: ignore[attr-defined]
    assert isinstance(clock, ManualClock)
    before = books.db.read_now(contents)
    reached = 0
    while True:
        reached += 1
        taking = Taking(books.db, client, batch, killed_at(reached))
        try:
            taking.prepare()
            break
        except Killed:
            pass
        assert differences(books, client) == []
        if reached % 2:
            claims.give_up(books.db, client.mandant, taking.id)
        else:
            claims.sweep(books.db)
            with pytest.raises(StillRunning, match=batch):
                Taking(books.db, client, batch).prepare()
            clock.advance(seconds=claims.LEASE_SECONDS)
            claims.sweep(books.db)
        assert books.db.read_now(contents) == before, f"broken off before transaction {reached}"
    assert reached > 20
    claims.give_up(books.db, client.mandant, taking.id)
    assert books.db.read_now(contents) == before
    with pytest.raises(Unavailable, match="given up"):
        books.db.write_now(taking.work.commit, taking.id)
    assert books.db.read_now(contents) == before


def test_what_is_left_after_it_counts_for_nobody_and_is_swept_wherever_that_breaks_off(books: Books) -> None:
    client, batch = _with_a_large_batch(books)
    partial = [(client.mandant, batch, f"{number:03}", "", 1) for number in range(9)]
    books.db.write_now(lambda tx: tx.many("INSERT INTO books_partial_rows VALUES (?, ?, ?, ?, ?)", partial))
    taking = Taking(books.db, client, batch)
    taking.prepare()
    taking.commit()
    for reached in range(1, 1_000):
        assert differences(books, client) == []
        try:
            claims.sweep(Interrupted(books.db.engine, killed_at(reached)))
            break
        except Killed:
            pass
    assert reached > 4
    left_over = books.db.read_now(contents)
    assert (left_over["books_item_moves"], left_over["books_partial_rows"], left_over["books_items"]) == ([], [], [])
    (row,) = books.db.read_now(lambda tx: tx.all("SELECT undone_from, undone_to FROM books_clients"))
    assert row == (0, 0)
    assert differences(books, client) == []


def _with_a_large_batch(books: Books) -> tuple[Client, str]:
    client = books.db.write_now(create, books.connection_id, Ledger(YEARS, [], 1))
    rows = [invoice(konto, jahr="2025-01-01", beleg=f"R{number}") for number in range(4) for konto in PERSONS]
    books.db.write_now(add, client, [[*rows, opening("2025-01-01", PERSONS[0], 500)]])
    return client, last_batch(books, client)


def test_no_more_is_gathered_than_its_bound(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    client, batch = _with_a_large_batch(books)
    gathered, subtract = [], undo._Sliced._subtract

    def note(work: undo._Sliced) -> None:
        gathered.append(work._removal.count)
        subtract(work)

    monkeypatch.setattr(undo._Sliced, "_subtract", note)
    Taking(books.db, client, batch).run()
    assert sum(gathered) == 4 * len(PERSONS) + 1
    assert max(gathered) < slices.ROWS_GATHERED + undo.PAGE


def test_the_next_undoing_waits_until_the_movements_of_the_last_one_are_deleted(books: Books) -> None:
    client, first = _with_a_large_batch(books)
    books.db.write_now(add, client, [[invoice(konto, beleg="R7") for konto in PERSONS]])
    second = last_batch(books, client)
    taking = Taking(books.db, client, first)
    taking.prepare()
    taking.commit()
    Taking(books.db, client, second).run()
    assert differences(books, client) == []
    assert books.db.read_now(contents)["books_item_moves"] == []


def test_what_undoing_is_refused_for_is_looked_at_again_at_its_end(books: Books) -> None:
    client, batch = _with_a_large_batch(books)
    taking = Taking(books.db, client, batch)
    taking.prepare()
    row = (client.mandant, 1, "another")
    books.db.write_now(lambda tx: tx.run("INSERT INTO books_retaxed (mandant, booking, batch) VALUES (?, ?, ?)", *row))
    with pytest.raises(Conflict, match="booked again by batch another"):
        taking.commit()
    taking.work.tidy(taking.id)
    assert differences(books, client) == []


def test_others_that_post_while_the_edition_is_copied_are_in_it(books: Books) -> None:
    client, batch = _with_a_large_batch(books)

    def between() -> None:
        if taking.db.next is slices._finish:
            books.db.write_now(add, client, [[invoice(PERSONS[0], jahr="2025-01-01", beleg="R1")]])

    taking = Taking(books.db, client, batch, between)
    taking.run()
    assert differences(books, client) == []
    assert len(books.db.read_now(contents)["books_item_moves"]) == 1
    assert set(TABLES) == set(books.db.read_now(contents))


@pytest.mark.parametrize("engine", ["sqlite"])
def test_what_is_left_to_an_account_is_found_by_the_account_whatever_the_books_hold(books: Books) -> None:
    """Reading every booking between two numbers for each of some thousand accounts took minutes."""
    for naming in undo.NAMING:
        sql = f"EXPLAIN QUERY PLAN {naming}"
        given = (1, "2024-01-01", PERSONS[0], *undo.FIRST_PLACE, 1, 9, 9)
        plan = books.db.read_now(lambda tx, sql=sql, given=given: tx.all(sql, *given))  # type: ignore[misc]
        assert plan[0][-1].startswith("SEARCH s USING PRIMARY KEY (mandant=? AND jahr=? AND blatt=? AND (periode,")
