"""Short writes on PostgreSQL share their commits: all of a group or none, except for what fails or would wait by itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from kontobahn.clock import ManualClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.errors import DatabaseUnavailable
from kontobahn.settings import load
from tests.harness import START


@pytest.fixture
def engine() -> str:
    return "postgres"


@pytest.fixture
def db(database_url: str, tmp_path: Path) -> Iterator[Database]:
    database = open_database(load({}, data=str(tmp_path), database_url=database_url), ManualClock(START))
    database.write_now(
        lambda tx: tx.run("CREATE TABLE counter (name TEXT PRIMARY KEY, value BIGINT CHECK (value < 100))")
    )
    database.write_now(lambda tx: tx.run("INSERT INTO counter VALUES ('a', 0), ('b', 0)"))
    yield database
    database.close()


def add(tx: Tx, name: str, amount: int = 1) -> str:
    """Returns the transaction in which it was done."""
    tx.run("UPDATE counter SET value = value + ? WHERE name = ?", amount, name)
    tx.notify("added")
    row = tx.one("SELECT pg_current_xact_id()::text WHERE ? = ?", 1, 1)
    assert row is not None
    return str(row[0])


def insert(tx: Tx, name: str) -> str:
    """Does not wait for what it sends: that it cannot be done shows when a later unit waits, or at the commit."""
    tx.put("INSERT INTO counter VALUES (?, 1)", name)
    return name


def fail(tx: Tx, name: str) -> None:
    add(tx, name)
    raise LookupError(name)


def lose_connection(tx: Tx, name: str) -> None:
    add(tx, name)
    tx.one("SELECT pg_terminate_backend(pg_backend_pid()) WHERE ? = ?", 1, 1)


def values(db: Database) -> dict[str, int]:
    return dict(db.read_now(lambda tx: tx.all("SELECT name, value FROM counter ORDER BY name")))


def waiting_together(db: Database, units: Callable[[], list[Awaitable[object]]]) -> list[object]:
    """Makes the units while another one occupies the thread, so that they are in one group."""
    occupied, go_on = threading.Event(), threading.Event()

    def occupy(_: Tx) -> None:
        occupied.set()
        go_on.wait()

    async def main() -> list[object]:
        first = asyncio.ensure_future(db.write_together("", occupy))
        await asyncio.to_thread(occupied.wait)
        others = [asyncio.ensure_future(unit) for unit in units()]
        await asyncio.sleep(0)
        go_on.set()
        await first
        return await asyncio.gather(*others, return_exceptions=True)

    return asyncio.run(main())


def test_units_that_wait_share_one_commit_and_one_that_fails_does_not_disturb_the_others(db: Database) -> None:
    heard: list[str] = []
    db.listen("added", lambda: heard.append("added"))
    outcomes = waiting_together(
        db,
        lambda: [
            db.write_together("a", add, "a"),
            db.write_together("a", fail, "a"),
            db.write_together("a", add, "a", 1000),
            db.write_together("a", add, "a", 2),
            db.write_together("b", add, "b", 3),
        ],
    )
    assert isinstance(outcomes[1], LookupError)
    assert isinstance(outcomes[2], psycopg.errors.CheckViolation)
    assert len({outcomes[0], outcomes[3], outcomes[4]}) == 1
    assert values(db) == {"a": 3, "b": 3}
    assert len(heard) == 3


def test_what_fails_late_is_told_to_its_own_caller_and_the_units_after_it_are_done_once(db: Database) -> None:
    outcomes = waiting_together(
        db,
        lambda: [
            db.write_together("a", add, "a"),
            db.write_together("a", insert, "a"),
            db.write_together("a1", insert, "a1"),
            db.write_together("a2", fail, "a2"),
            db.write_together("b", add, "b"),
            db.write_together("b", insert, "b"),
            db.write_together("c", insert, "c"),
        ],
    )
    kinds = [type(outcome) for outcome in outcomes]
    twice = psycopg.errors.UniqueViolation
    assert kinds == [str, twice, str, LookupError, str, twice, str]
    assert values(db) == {"a": 1, "a1": 1, "b": 1, "c": 1}


def test_more_units_than_a_group_holds_are_all_done_once(db: Database) -> None:
    outcomes = waiting_together(
        db, lambda: [db.write_together("a", fail if number % 5 == 0 else add, "a") for number in range(120)]
    )
    assert sum(isinstance(outcome, LookupError) for outcome in outcomes) == 24
    assert values(db)["a"] == 96


def test_a_unit_that_has_to_wait_for_a_lock_holds_nobody_up(db: Database, database_url: str) -> None:
    with psycopg.connect(database_url) as other:
        other.execute("UPDATE counter SET value = 50 WHERE name = 'b'")
        blocked: list[asyncio.Future[str]] = []

        def units() -> list[Awaitable[object]]:
            blocked.append(asyncio.ensure_future(db.write_together("b", add, "b")))
            blocked.append(asyncio.ensure_future(db.write_together("b", add, "b", 2)))
            done = [
                db.write_together("a", add, "a"),
                db.write_together("c", add, "c"),
                db.write_together("a", add, "a"),
            ]

            async def then_unblock() -> list[str]:
                found = await asyncio.gather(*done)
                assert not any(future.done() for future in blocked)
                other.commit()
                await asyncio.gather(*blocked)
                return list(found)

            return [then_unblock()]

        (found,) = waiting_together(db, units)
        assert isinstance(found, list), found
    assert values(db) == {"a": 2, "b": 53}


def test_a_connection_lost_in_a_group_is_503_for_all_of_it_and_nothing_is_written(db: Database) -> None:
    outcomes = waiting_together(
        db,
        lambda: [
            db.write_together("a", add, "a"),
            db.write_together("a", fail, "a"),
            db.write_together("a", lose_connection, "a"),
            db.write_together("b", add, "b"),
        ],
    )
    assert [type(outcome) for outcome in outcomes] == [
        DatabaseUnavailable, LookupError, DatabaseUnavailable, DatabaseUnavailable,
    ]  # fmt: skip
    assert values(db) == {"a": 0, "b": 0}
    assert isinstance(asyncio.run(db.write_together("a", add, "a")), str)
    assert values(db)["a"] == 1


def test_what_is_queued_is_done_before_the_database_closes(db: Database, database_url: str) -> None:
    async def main() -> list[object]:
        units = [asyncio.ensure_future(db.write_together("a", add, "a")) for _ in range(20)]
        await asyncio.sleep(0)
        await asyncio.to_thread(db.close)
        return await asyncio.gather(*units, db.write_together("b", add, "b"), return_exceptions=True)

    outcomes = asyncio.run(main())
    assert isinstance(outcomes.pop(), DatabaseUnavailable)
    assert all(isinstance(outcome, str) for outcome in outcomes)
    with psycopg.connect(database_url) as other:
        assert other.execute("SELECT value FROM counter ORDER BY name").fetchall() == [(20,), (0,)]
