"""Short reads on PostgreSQL share a connection on the event loop; whatever does not fit there is read as any other, unnoticed."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from kontobahn.clock import ManualClock
from kontobahn.db import Database, Rounds, Tx, ask_one, open_database, short_read
from kontobahn.db.postgres_short_reads import MAX_WAITING
from kontobahn.errors import DatabaseUnavailable
from kontobahn.settings import load
from tests.harness import START
from tests.pooler import Pooler
from tests.tidy_rules import parse, walk
from tests.waiting import PAUSE_SECONDS, eventually, take_time_async

SHARED_TIMEOUT = "250ms"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def engine() -> str:
    return "postgres"


def opened(url: str, place: Path) -> Database:
    return open_database(load({}, data=str(place), database_url=url, database_connections=4), ManualClock(START))


@pytest.fixture
def db(database_url: str, tmp_path: Path) -> Iterator[Database]:
    database = opened(database_url, tmp_path)
    database.write_now(lambda tx: tx.run("CREATE TABLE counter (name TEXT PRIMARY KEY, value BIGINT)"))
    database.write_now(lambda tx: tx.run("INSERT INTO counter VALUES ('a', 0), ('b', 100)"))
    yield database
    database.close()


class Where(NamedTuple):
    backend: int
    timeout: str

    @property
    def is_shared(self) -> bool:
        return self.timeout == SHARED_TIMEOUT


@short_read
def where() -> Rounds[Where]:
    """The connection that the unit is run on."""
    row = yield from ask_one("SELECT pg_backend_pid(), current_setting('statement_timeout')")
    assert row is not None
    return Where(*row)


@short_read
def wait_a_while(seconds: float) -> Rounds[Where]:
    row = yield from ask_one(
        "SELECT pg_backend_pid(), current_setting('statement_timeout'), pg_sleep(?)::text", seconds
    )
    assert row is not None
    return Where(*row[:2])


@short_read
def value(name: str) -> Rounds[int]:
    row = yield from ask_one("SELECT value FROM counter WHERE name = ?", name)
    if row is None:
        raise LookupError(name)
    return int(row[0])


async def shared(db: Database) -> Where:
    """Waits until short reads are on their own connection."""
    while not (found := await db.read_inline(where)).is_shared:
        await take_time_async(PAUSE_SECONDS)
    return found


def on_loop(db: Database, main: Callable[[Where], Awaitable[None]]) -> None:
    async def run() -> None:
        await main(await shared(db))

    asyncio.run(run())


def test_short_reads_share_a_connection_and_each_gets_its_own_answer(db: Database) -> None:
    async def main(connection: Where) -> None:
        names = ["a", "b"] * (MAX_WAITING // 4)
        found = await asyncio.gather(*(db.read_inline(value, name) for name in names))
        assert found == [0, 100] * (MAX_WAITING // 4)
        assert set(await asyncio.gather(*(db.read_inline(where) for _ in names))) == {connection}
        assert not (await db.read(where)).is_shared, "other reads have threads"

    on_loop(db, main)


def test_a_short_read_sees_what_was_committed_before_it(db: Database) -> None:
    def write(tx: Tx, number: int) -> None:
        tx.run("UPDATE counter SET value = ? WHERE name = 'a'", number)

    async def main(_: Where) -> None:
        for number in range(20):
            await db.write(write, number)
            assert await db.read_inline(value, "a") == number

    on_loop(db, main)


def test_more_than_can_wait_there_are_read_by_threads(db: Database) -> None:
    async def main(connection: Where) -> None:
        found = await asyncio.gather(*(db.read_inline(where) for _ in range(3 * MAX_WAITING)))
        assert sum(one == connection for one in found) >= MAX_WAITING
        assert any(not one.is_shared for one in found)

    on_loop(db, main)


def test_a_unit_gets_its_own_error_and_its_neighbours_their_answers(db: Database) -> None:
    @short_read
    def fail_first() -> Rounds[object]:
        raise LookupError("before it asked")

    @short_read
    def wrong() -> Rounds[object]:
        return ask_one("SELECT nothing FROM nowhere")

    @short_read
    def divide(by: int) -> Rounds[object]:
        return ask_one("SELECT 1 / ?::int", by)

    async def main(connection: Where) -> None:
        for _ in range(3):
            found = await asyncio.gather(
                db.read_inline(value, "a"), db.read_inline(value, "nobody"), db.read_inline(fail_first),
                db.read_inline(wrong), db.read_inline(divide, 0), db.read_inline(divide, 1), db.read_inline(value, "b"),
                return_exceptions=True,
            )  # fmt: skip
            assert found[0] == 0
            assert [str(one) for one in found[1:3]] == ["nobody", "before it asked"]
            assert [type(one) for one in found[3:5]] == [psycopg.errors.UndefinedTable, psycopg.errors.DivisionByZero]
            assert found[5:] == [(1,), 100]
        assert await db.read_inline(where) == connection

    on_loop(db, main)


def test_a_statement_that_was_refused_once_is_asked_there_again_when_it_can_be(db: Database) -> None:
    @short_read
    def look() -> Rounds[object]:
        return ask_one("SELECT current_setting('statement_timeout') FROM later")

    async def main(_: Where) -> None:
        with pytest.raises(psycopg.errors.UndefinedTable):
            await db.read_inline(look)
        await db.write(lambda tx: tx.run("CREATE TABLE later AS SELECT 1 AS one"))
        assert await db.read_inline(look) == (SHARED_TIMEOUT,)

    on_loop(db, main)


# Answered once nobody else holds the lock.
WHEN_UNLOCKED = "pg_advisory_xact_lock_shared(1)::text"


def waiting(connection: psycopg.Connection[Any]) -> set[int]:
    """Returns the backends that wait for the lock."""
    return {
        pid for (pid,) in connection.execute("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    }


def test_no_unit_is_begun_twice_whatever_becomes_of_its_question(db: Database, database_url: str) -> None:
    begun: list[str] = []

    @short_read
    def note(sql: str) -> Rounds[Where]:
        begun.append(sql)
        row = yield from ask_one(f"SELECT pg_backend_pid(), current_setting('statement_timeout'), {sql}")
        assert row is not None
        return Where(*row[:2])

    async def main(connection: Where) -> None:
        assert await db.read_inline(note, "1") == connection
        with psycopg.connect(database_url, autocommit=True) as other:
            other.execute("SELECT pg_advisory_lock(1)")
            long = asyncio.ensure_future(db.read_inline(note, WHEN_UNLOCKED))
            await asyncio.to_thread(
                eventually, lambda: waiting(other) - {connection.backend}, "it was never asked again"
            )
            other.execute("SELECT pg_advisory_unlock(1)")
            assert not (await long).is_shared, "it was not short"
            other.execute("SELECT pg_advisory_lock(1)")
            lost = asyncio.gather(*(db.read_inline(note, f"{WHEN_UNLOCKED} || '{number}'") for number in range(3)))
            await asyncio.to_thread(eventually, lambda: waiting(other), "nothing was asked")
            other.execute("SELECT pg_terminate_backend(%s)", [connection.backend])
            other.execute("SELECT pg_advisory_unlock(1)")
            assert connection not in await lost
        with pytest.raises(psycopg.errors.DivisionByZero):
            await db.read_inline(note, "1 / 0")
        assert len(begun) == len(set(begun)) == 6

    on_loop(db, main)


def test_a_short_read_cannot_write(db: Database) -> None:
    @short_read
    def write() -> Rounds[object]:
        return ask_one("UPDATE counter SET value = 7 WHERE name = 'a' RETURNING value")

    async def main(_: Where) -> None:
        with pytest.raises(DatabaseUnavailable):
            await db.read_inline(write)
        assert await db.read_inline(value, "a") == 0

    on_loop(db, main)


def test_who_is_not_short_does_not_keep_the_others_waiting(db: Database) -> None:
    async def main(connection: Where) -> None:
        long, short = await asyncio.gather(db.read_inline(wait_a_while, 1.0), db.read_inline(where))
        assert not long.is_shared
        assert short == connection

    on_loop(db, main)


def test_nothing_is_lost_with_the_connection(db: Database, database_url: str) -> None:
    async def main(connection: Where) -> None:
        reads = [db.read_inline(wait_a_while, 0.1), *(db.read_inline(value, name) for name in ("a", "b"))]
        waiting = asyncio.gather(*reads)
        await take_time_async(0)
        with psycopg.connect(database_url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [connection.backend])
        found = await waiting
        assert found[1:] == [0, 100]
        assert (await shared(db)).backend != connection.backend, "there is another one soon"

    on_loop(db, main)


def test_a_database_that_is_closed_refuses_what_still_waits(database_url: str, tmp_path: Path) -> None:
    async def main() -> None:
        database = opened(database_url, tmp_path)
        await shared(database)
        waiting = asyncio.ensure_future(database.read_inline(wait_a_while, 0.2))
        await take_time_async(0)
        database.close()
        for refused in (waiting, database.read_inline(where)):
            with pytest.raises(DatabaseUnavailable):
                await refused

    asyncio.run(main())


def test_it_can_be_closed_from_another_thread_and_after_its_loop(database_url: str, tmp_path: Path) -> None:
    def connections() -> int:
        with psycopg.connect(database_url) as other:
            row = other.execute(
                "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'kontobahn'"
            ).fetchone()
        assert row is not None
        return int(row[0])

    async def close_beside(database: Database) -> None:
        await shared(database)
        await asyncio.to_thread(database.close)

    asyncio.run(close_beside(opened(database_url, tmp_path)))
    database = opened(database_url, tmp_path)
    first = asyncio.run(shared(database))
    second = asyncio.run(shared(database))
    assert first.backend != second.backend, "a loop has its own"
    database.close()
    while connections():
        asyncio.run(take_time_async(PAUSE_SECONDS))


def test_behind_a_pooler_every_read_is_a_transaction(db: Database, database_url: str, tmp_path: Path) -> None:
    with Pooler(database_url) as pooler:
        pooled = opened(pooler.url, tmp_path)

        async def main() -> None:
            for _ in range(20):
                assert await pooled.read_inline(value, "b") == 100
                assert not (await pooled.read_inline(where)).is_shared
                await pooled.write(lambda tx: tx.run("UPDATE counter SET value = 100"))
                await take_time_async(PAUSE_SECONDS)

        asyncio.run(main())
        pooled.close()


# --- Every short read of the program


def short_reads() -> Iterator[tuple[str, ast.FunctionDef]]:
    for file in sorted((ROOT / "src/kontobahn").rglob("*.py")):
        for node in walk(parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and any(
                isinstance(one, ast.Name) and one.id == "short_read" for one in node.decorator_list
            ):
                yield f"{file.relative_to(ROOT)}: {node.name}", node


def questions(body: Sequence[ast.stmt]) -> tuple[int, bool]:
    """Returns how often the statements ask at most, and whether they end what follows them."""
    asked = 0
    for statement in body:
        match statement:
            case ast.If():
                branches = [questions(statement.body), questions(statement.orelse)]
                asked += yields(statement.test)
                going_on = [count for count, ends in branches if not ends]
                if not going_on:
                    return asked + max(count for count, _ in branches), True
                rest, ends = questions(body[body.index(statement) + 1 :])
                return asked + max(max(going_on) + rest, *(count for count, _ in branches)), ends
            case ast.For() | ast.While():
                head = statement.iter if isinstance(statement, ast.For) else statement.test
                # Whatever is asked in a loop may be asked again and again.
                asked += yields(head) + 2 * questions(statement.body)[0]
            case ast.Try():
                asked += questions([*statement.body, *(s for one in statement.handlers for s in one.body)])[0]
            case ast.Return() | ast.Raise():
                return asked + yields(statement), True
            case _:
                asked += yields(statement)
    return asked, False


def yields(node: ast.AST) -> int:
    return sum(isinstance(one, ast.Yield | ast.YieldFrom) for one in ast.walk(node))


def test_every_short_read_asks_at_most_once() -> None:
    found = {name: questions(node.body)[0] for name, node in short_reads()}
    assert len(found) > 15
    assert not [name for name, count in found.items() if count > 1]


def test_what_asks_again_would_be_noticed() -> None:
    twice = "def f():\n  a = yield from one()\n  if a:\n    return (yield from one())\n  return a\n"
    either = "def f():\n  if x:\n    return (yield from one())\n  return (yield from one())\n"
    loop = "def f():\n  for x in y:\n    yield from one()\n"
    counts = [questions(ast.parse(text).body[0].body)[0] for text in (twice, either, loop)]  # type: ignore[attr-defined]
    assert counts == [2, 1, 2]
