"""Answers to short reads on SQLite are kept until something is committed, and never a moment longer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kontobahn.clock import ManualClock
from kontobahn.db import Database, Rounds, Row, Tx, ask_all, ask_one, ask_texts, open_database, short_read
from kontobahn.db.sqlite import MAX_KNOWN_ANSWERS, MAX_KNOWN_ROWS, MAX_KNOWN_TEXT, SqliteEngine
from kontobahn.settings import load
from tests.harness import START
from tests.waiting import PATIENCE_SECONDS

# Another process that writes: a connection of its own, which changes the counter whenever it is told to.
WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for line in sys.stdin:
    connection.execute("UPDATE counter SET value = value + 1")
    print("done", flush=True)
"""


@pytest.fixture
def engine() -> str:
    return "sqlite"


def opened(place: Path) -> Database:
    return open_database(load({}, data=str(place)), ManualClock(START))


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = opened(tmp_path)
    database.write_now(lambda tx: tx.run("CREATE TABLE counter (name TEXT PRIMARY KEY, value BIGINT NOT NULL)"))
    database.write_now(lambda tx: tx.run("INSERT INTO counter VALUES ('a', 0)"))
    yield database
    database.close()


@short_read
def look() -> Rounds[int]:
    row = yield from ask_one("SELECT value FROM counter")
    assert row is not None
    return int(row[0])


@short_read
def numbers(count: int) -> Rounds[list[Row]]:
    rows = yield from ask_all(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i FROM n", count
    )
    return rows


@short_read
def text_of(length: int) -> Rounds[list[bytes]]:
    return ask_texts("SELECT printf('%.*c', ?, 'x')", length)


@short_read
def echo(value: int) -> Rounds[Row | None]:
    return ask_one("SELECT ?", value)


def add(tx: Tx) -> int:
    row = tx.one("UPDATE counter SET value = value + 1 RETURNING value")
    assert row is not None
    return int(row[0])


async def statements(db: Database, work: Callable[[], Awaitable[object]]) -> list[str]:
    """The statements that SQLite is given for short reads meanwhile."""
    assert isinstance(db.engine, SqliteEngine)
    seen: list[str] = []
    reader = db.engine._inline_reader
    reader.set_trace_callback(seen.append)
    try:
        await work()
    finally:
        reader.set_trace_callback(None)
    return seen


def test_what_was_asked_is_not_asked_again_until_something_is_committed(db: Database, tmp_path: Path) -> None:
    check, question = "PRAGMA data_version", "SELECT value FROM counter"
    other = opened(tmp_path)

    async def look_twice() -> None:
        assert await db.read_inline(look) == await db.read_inline(look)

    async def main() -> None:
        await db.write(add)
        await db.read_inline(look)
        await look_twice()
        await asyncio.sleep(0)
        assert await statements(db, look_twice) == [check], "one check for both"
        await db.write(add)
        assert (await statements(db, look_twice))[0] == question, "a commit of our own needs no check"
        await look_twice()
        await other.write(add)
        assert await statements(db, look_twice) == [check, question, check]

    try:
        asyncio.run(main())
    finally:
        other.close()


def test_a_task_never_sees_an_earlier_state_after_a_later_one(db: Database, tmp_path: Path) -> None:
    other = opened(tmp_path)

    @short_read
    def look_otherwise() -> Rounds[int]:
        row = yield from ask_one("SELECT value + 0 FROM counter")
        assert row is not None
        return int(row[0])

    async def main() -> None:
        for _ in range(3):
            assert await db.read_inline(look) == 0
        # While this task goes on, somebody else commits: what it asks anew is later than what it has checked.
        other.write_now(add)
        assert await db.read_inline(look_otherwise) == 1
        assert await db.read_inline(look) == 1

    try:
        asyncio.run(main())
    finally:
        other.close()


def test_each_caller_sees_what_was_committed_before_it_asked_by_whichever_connection(
    db: Database, tmp_path: Path
) -> None:
    """Tasks that write, and at once read: they share their checks with those that only read in between."""
    other = opened(tmp_path)

    async def write_and_look(writer: Database) -> None:
        for _ in range(25):
            written = await writer.write(add)
            assert await db.read_inline(look) >= written

    async def keep_looking(done: asyncio.Event) -> None:
        seen = 0
        while not done.is_set():
            found = await db.read_inline(look)
            assert found >= seen, "nobody sees an earlier state after a later one"
            seen = found
            await asyncio.sleep(0)

    async def main() -> None:
        done = asyncio.Event()
        looking = [asyncio.create_task(keep_looking(done)) for _ in range(3)]
        await asyncio.gather(*(write_and_look(writer) for writer in (db, other) for _ in range(4)))
        done.set()
        await asyncio.gather(*looking)
        assert await db.read_inline(look) == 200

    try:
        asyncio.run(main())
    finally:
        other.close()


def test_a_commit_of_another_process_is_seen_by_the_next_call(db: Database, tmp_path: Path) -> None:
    path = load({}, data=str(tmp_path)).sqlite_path

    async def main() -> None:
        writer = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITER, str(path), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert writer.stdin
        assert writer.stdout
        try:
            for number in range(50):
                assert await db.read_inline(look) == number
                assert await db.read_inline(look) == number
                writer.stdin.write(b"\n")
                assert await writer.stdout.readline() == b"done\n"
        finally:
            writer.stdin.close()
            await writer.wait()

    asyncio.run(main())


def test_an_event_loop_that_goes_on_later_checks_anew(db: Database) -> None:
    with asyncio.Runner() as runner:
        for number in range(3):
            assert runner.run(db.read_inline(look)) == number
            db.write_now(add)


def test_the_check_of_one_event_loop_says_nothing_to_another(db: Database, tmp_path: Path) -> None:
    other = opened(tmp_path)

    def write_and_look() -> int:
        other.write_now(add)
        return asyncio.run(db.read_inline(look))

    async def main() -> None:
        for _ in range(3):
            assert await db.read_inline(look) == 0
        # This loop waits, and what it has checked still holds for it.
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(write_and_look).result(PATIENCE_SECONDS) == 1

    try:
        asyncio.run(main())
    finally:
        other.close()


def test_only_a_few_small_answers_are_kept(db: Database) -> None:
    async def asked_again(read: Callable[[], Awaitable[Any]]) -> bool:
        await read()
        await read()
        return any("SELECT" in statement for statement in await statements(db, read))

    async def main() -> None:
        assert not await asked_again(lambda: db.read_inline(numbers, MAX_KNOWN_ROWS))
        assert await asked_again(lambda: db.read_inline(numbers, MAX_KNOWN_ROWS + 1))
        assert not await asked_again(lambda: db.read_inline(text_of, MAX_KNOWN_TEXT))
        assert await asked_again(lambda: db.read_inline(text_of, MAX_KNOWN_TEXT + 1))
        for value in range(MAX_KNOWN_ANSWERS):
            assert await db.read_inline(echo, value) == (value,)
        assert isinstance(db.engine, SqliteEngine)
        assert len(db.engine._known_answers._answers) <= MAX_KNOWN_ANSWERS

    asyncio.run(main())


def test_whoever_asked_may_change_the_rows(db: Database) -> None:
    async def main() -> None:
        for _ in range(4):
            found = await db.read_inline(numbers, 3)
            assert found == [(1,), (2,), (3,)]
            found.clear()

    asyncio.run(main())
