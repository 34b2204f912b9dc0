"""Behind a pooler that lends connections by transaction, units do as they do without one, and leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from kontobahn.clock import ManualClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.errors import OutcomeUnknown
from kontobahn.settings import load
from tests.harness import START
from tests.pooler import Pooler


@pytest.fixture
def engine() -> str:
    return "postgres"


@pytest.fixture
def pooler(database_url: str) -> Iterator[Pooler]:
    with Pooler(database_url) as between:
        yield between


@pytest.fixture
def db(pooler: Pooler, database_url: str, tmp_path: Path) -> Iterator[Database]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE counter (name TEXT PRIMARY KEY, value BIGINT NOT NULL)")
        connection.execute("INSERT INTO counter VALUES ('a', 0)")
    database = open_database(load({}, data=str(tmp_path), database_url=pooler.url), ManualClock(START))
    yield database
    database.close()


def add(tx: Tx, amount: int) -> tuple[str, str, str]:
    """Returns what holds during the transaction."""
    tx.lock("counter", "a")
    tx.run("UPDATE counter SET value = value + ? WHERE name = 'a'", amount)
    row = tx.one(
        "SELECT current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout'),"
        " current_setting('lock_timeout') WHERE ? = ?", 1, 1,
    )  # fmt: skip
    assert row is not None
    return row[0], row[1], row[2]


def add_many(tx: Tx, rows: list[tuple[str, int]]) -> None:
    tx.many("INSERT INTO counter VALUES (?, ?)", rows)


def total(tx: Tx) -> tuple[int, int]:
    row = tx.one("SELECT COUNT(*), COALESCE(SUM(value), 0)::bigint FROM counter WHERE value < ?", 10**6)
    assert row is not None
    return row[0], row[1]


def left_behind(tx: Tx) -> tuple[int, str, str]:
    tx.run("SET LOCAL statement_timeout TO DEFAULT")
    row = tx.one("SELECT (SELECT COUNT(*) FROM pg_prepared_statements), pg_backend_pid()::text, reset_val FROM pg_settings WHERE name = ?",
                 "statement_timeout")  # fmt: skip
    assert row is not None
    return row[0], row[1], row[2]


def test_units_alone_and_together_hold_their_bounds_and_leave_nothing(db: Database) -> None:
    async def main() -> list[tuple[str, str, str]]:
        together = [db.write_together("", add, 1) for _ in range(60)]
        return await asyncio.gather(*together, *(db.write(add, 1) for _ in range(20)))

    held = asyncio.run(main())
    assert {(statement, idle) for statement, idle, _ in held} == {("2min", "150s")}
    assert {lock for *_, lock in held[60:]} == {"30s"}
    # Often enough for psycopg to prepare by itself.
    for start in range(0, 40, 4):
        db.write_now(add_many, [(f"n{number}", 1) for number in range(start, start + 4)])
    assert db.read_now(total) == (41, 120)
    seen = [db.write_now(left_behind) for _ in range(6)]
    assert {prepared for prepared, _, _ in seen} == {0}
    assert len({server for _, server, _ in seen}) == 3
    assert {value for *_, value in seen} == {"0"}


def test_a_commit_whose_server_is_lost_is_unknown_not_refused(db: Database, pooler: Pooler) -> None:
    assert db.read_now(total) == (1, 0)
    pooler.loses_commits = True
    with pytest.raises(OutcomeUnknown):
        db.write_now(add, 1)
    with pytest.raises(OutcomeUnknown):
        asyncio.run(db.write_together("", add, 1))
    pooler.loses_commits = False
    assert db.read_now(total) == (1, 2)


@pytest.mark.parametrize("prepare", ["auto", "always", "never"])
def test_without_a_pooler_statements_are_prepared_unless_told(database_url: str, tmp_path: Path, prepare: str) -> None:
    settings = load({}, data=str(tmp_path), database_url=database_url, database_connections=1, database_prepare=prepare)
    database = open_database(settings, ManualClock(START))
    try:
        prepared = [
            database.read_now(lambda tx: tx.one("SELECT COUNT(*) FROM pg_prepared_statements WHERE ? = ?", 1, 1))
            for _ in range(2)
        ]
    finally:
        database.close()
    assert prepared[1] == ((0,) if prepare == "never" else (1,))
