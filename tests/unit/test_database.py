"""The storage seam: units of work on both engines, alone, together and under fault."""

from __future__ import annotations

import _sqlite3
import asyncio
import ctypes
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kontobahn.clock import ManualClock
from kontobahn.db import Database, Question, Rounds, ShortRead, Tx, ask, ask_one, open_database, short_read
from kontobahn.db.sqlite import (
    PAGE_BYTES,
    READER_THREADS,
    ROWS_INSERTED_AT_ONCE,
    Checkpoints,
    SqliteEngine,
    _statistics,
)
from kontobahn.errors import DatabaseUnavailable
from kontobahn.settings import load
from kontobahn.threads import work_for
from tests.harness import START
from tests.services import PostgresServer
from tests.waiting import PATIENCE_SECONDS, PAUSE_SECONDS, take_time, take_time_async

SHORT_TIMEOUT = "250ms"


@pytest.fixture
def db(database_url: str, tmp_path: Path) -> Iterator[Database]:
    settings = load({}, data=str(tmp_path), database_url=database_url, database_connections=8)
    database = open_database(settings, ManualClock(START))
    database.write_now(
        lambda tx: tx.run("CREATE TABLE counter (name TEXT PRIMARY KEY, value BIGINT NOT NULL CHECK (value < 1000000))")
    )
    database.write_now(lambda tx: tx.run("INSERT INTO counter VALUES ('a', 0)"))
    yield database
    database.close()


def value(db: Database, name: str = "a") -> int:
    row = db.read_now(lambda tx: tx.one("SELECT value FROM counter WHERE name = ?", name))
    return -1 if row is None else int(row[0])


def add(tx: Tx, amount: int) -> int:
    row = tx.one("UPDATE counter SET value = value + ? WHERE name = 'a' RETURNING value", amount)
    assert row is not None
    return int(row[0])


@short_read
def look() -> Rounds[int]:
    row = yield from ask_one("SELECT value FROM counter WHERE name = 'a'")
    assert row is not None
    return int(row[0])


async def once_shared(db: Database, read: ShortRead[[], Any]) -> Any:
    """Asks it on the event loop; PostgreSQL first needs a connection there."""
    while db.engine.name == "postgres" and (await db.read_inline(timeout)) != SHORT_TIMEOUT:
        await take_time_async(PAUSE_SECONDS)
    return await db.read_inline(read)


@short_read
def timeout() -> Rounds[str]:
    row = yield from ask_one("SELECT current_setting('statement_timeout')")
    assert row is not None
    return str(row[0])


def add_and_fail(tx: Tx, amount: int) -> None:
    add(tx, amount)
    raise LookupError(f"unit {amount}")


@pytest.mark.parametrize(
    "count", [1, min(ROWS_INSERTED_AT_ONCE) - 1, *ROWS_INSERTED_AT_ONCE, 2 * sum(ROWS_INSERTED_AT_ONCE) + 1]
)
def test_many_rows_are_written_as_one_after_the_other_would_be(db: Database, count: int) -> None:
    put = (
        "INSERT INTO counter (name, value) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET value = counter.value * 2 + excluded.value"
    )
    names = [f"{number:04}" for number in range(count)]
    # The last comes twice, and the second time it finds what the first wrote.
    db.write_now(lambda tx: tx.many(put, [*((name, 1) for name in names), (names[-1], 3)]))
    found = db.read_now(lambda tx: tx.all("SELECT name, value FROM counter WHERE name <> 'a' ORDER BY name"))
    assert found == [*((name, 1) for name in names[:-1]), (names[-1], 5)]
    db.write_now(lambda tx: tx.many("DELETE FROM counter WHERE name = ?", [(name,) for name in names]))
    assert db.read_now(lambda tx: tx.all("SELECT name FROM counter")) == [("a",)]


def test_of_many_rows_none_is_written_if_one_is_refused(db: Database) -> None:
    rows = [(f"{number:04}", number) for number in range(max(ROWS_INSERTED_AT_ONCE))]
    with pytest.raises((sqlite3.IntegrityError, psycopg.errors.CheckViolation)):
        db.write_now(lambda tx: tx.many("INSERT INTO counter (name, value) VALUES (?, ?)", [*rows, ("b", 1_000_000)]))
    assert db.read_now(lambda tx: tx.all("SELECT name FROM counter")) == [("a",)]


def test_a_unit_is_all_or_nothing(db: Database) -> None:
    with pytest.raises(LookupError):
        db.write_now(add_and_fail, 5)
    assert value(db) == 0
    assert db.write_now(add, 7) == 7


def test_a_unit_that_fails_leaves_its_neighbours_untouched_and_its_caller_with_its_own_error(db: Database) -> None:
    async def main() -> list[object]:
        units = [db.write(add_and_fail if number % 3 == 0 else add, number) for number in range(300)]
        return await asyncio.gather(*units, return_exceptions=True)

    outcomes = asyncio.run(main())
    for number, outcome in enumerate(outcomes):
        if number % 3 == 0:
            assert isinstance(outcome, LookupError)
            assert str(outcome) == f"unit {number}"
        else:
            assert isinstance(outcome, int)
    assert value(db) == sum(number for number in range(300) if number % 3)


def test_a_broken_rule_of_the_database_fails_its_unit_alone(db: Database) -> None:
    async def main() -> list[object]:
        units = [db.write(add, 2_000_000 if number == 5 else 1) for number in range(10)]
        return await asyncio.gather(*units, return_exceptions=True)

    outcomes = asyncio.run(main())
    assert [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Exception)] == [5]
    assert value(db) == 9


def test_many_rows_are_written_as_one_and_found_one_by_one(db: Database) -> None:
    def write(tx: Tx, rows: Iterable[tuple[str, int]]) -> None:
        tx.many("INSERT INTO counter VALUES (?, ?)", rows)

    def until(last: int, end: Exception) -> Iterator[tuple[str, int]]:
        yield from ((f"n{number}", number) for number in range(last))
        raise end

    names = [f"n{number}" for number in range(1000)]
    with pytest.raises((sqlite3.IntegrityError, psycopg.errors.UniqueViolation)):
        db.write_now(write, [(name, 1) for name in [*names[:700], "n300", *names[700:]]])
    with pytest.raises(LookupError):
        db.write_now(write, until(600, LookupError()))
    assert db.read_now(lambda tx: tx.all("SELECT name FROM counter")) == [("a",)]
    db.write_now(write, ((name, number) for number, name in enumerate(names)))
    found = db.read_now(
        lambda tx: tx.each("SELECT value FROM counter WHERE name = ?", [("n0",), ("nobody",), ("n999",)] * 300)
    )
    assert found == [[(0,)], [], [(999,)]] * 300
    assert db.read_now(lambda tx: tx.each("SELECT value FROM counter WHERE name = ?", [])) == []


def test_a_read_sees_one_snapshot(db: Database) -> None:
    begun, changed = threading.Event(), threading.Event()

    def read_twice(tx: Tx) -> tuple[int, int]:
        first = tx.one("SELECT value FROM counter")
        begun.set()
        changed.wait(PATIENCE_SECONDS)
        second = tx.one("SELECT value FROM counter")
        assert first
        assert second
        return first[0], second[0]

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(db.read_now, read_twice)
        begun.wait(PATIENCE_SECONDS)
        db.write_now(add, 1)
        changed.set()
        assert reading.result(PATIENCE_SECONDS) == (0, 0)


def test_a_short_read_leaves_no_snapshot_behind(db: Database) -> None:
    async def main() -> None:
        for number in range(3):
            assert await db.read_inline(look) == number, "no snapshot is left behind"
            await db.write(add, 1)

    asyncio.run(main())


def test_a_short_read_asks_once_or_not_at_all_and_is_a_part_of_any_transaction(db: Database) -> None:
    @short_read
    def nothing(*questions: Question) -> Rounds[str]:
        if questions:
            yield questions
        return "nothing"

    @short_read
    def look_twice() -> Rounds[int]:
        return (yield from look.rounds()) + (yield from look.rounds())

    @short_read
    def look_at_both() -> Rounds[object]:
        return (yield [ask("SELECT 1"), ask("SELECT 2")])

    def add_and_look(tx: Tx) -> int:
        add(tx, 5)
        return look_twice(tx)

    async def main() -> None:
        assert await db.read_inline(nothing) == "nothing"
        for many in (look_twice, look_at_both):
            with pytest.raises((AssertionError, ValueError)):
                await once_shared(db, many)
        assert await db.write(add_and_look) == 10

    asyncio.run(main())


def test_a_read_cannot_write(db: Database) -> None:
    with pytest.raises((sqlite3.OperationalError, DatabaseUnavailable)):
        db.read_now(add, 1)
    assert value(db) == 0


def test_a_lock_makes_decisions_on_what_was_read_safe(db: Database) -> None:
    def read_then_write(tx: Tx) -> None:
        tx.lock("counter", "a")
        row = tx.one("SELECT value FROM counter WHERE name = 'a'")
        assert row is not None
        take_time(0.002)
        tx.run("UPDATE counter SET value = ? WHERE name = 'a'", row[0] + 1)

    async def main() -> None:
        await asyncio.gather(*(db.write(read_then_write) for _ in range(40)))

    asyncio.run(main())
    assert value(db) == 40


def test_a_cancelled_caller_disturbs_nobody(db: Database) -> None:
    async def main() -> int:
        task = asyncio.create_task(db.write(add, 1))
        await asyncio.sleep(0)
        task.cancel()
        return await db.write(add, 10)

    assert asyncio.run(main()) in (10, 11)


def test_a_closed_database_answers_that_it_is(db: Database) -> None:
    db.close()
    with pytest.raises(DatabaseUnavailable):
        db.write_now(add, 1)


def test_deadlocked_units_are_run_again(db: Database) -> None:
    db.write_now(lambda tx: tx.run("INSERT INTO counter VALUES ('b', 0)"))

    def touch(tx: Tx, first: str, second: str) -> None:
        for name in (first, second):
            tx.run("UPDATE counter SET value = value + 1 WHERE name = ?", name)
            take_time(0.02)

    async def main() -> None:
        await asyncio.gather(*(db.write(touch, *(("a", "b") if number % 2 else ("b", "a"))) for number in range(4)))

    asyncio.run(main())
    assert (value(db, "a"), value(db, "b")) == (4, 4)


def test_waiting_units_share_a_commit_on_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The log would be begun anew, and say nothing of what was written.
    monkeypatch.setattr(Checkpoints, "_copy", lambda _: None)
    engine = SqliteEngine(tmp_path / "x.sqlite3", ManualClock(START))
    db = Database(engine)
    db.write_now(lambda tx: tx.run("CREATE TABLE counter (name TEXT, value INTEGER)"))
    db.write_now(lambda tx: tx.run("INSERT INTO counter VALUES ('a', 0)"))
    log_size = (tmp_path / "x.sqlite3-wal").stat().st_size

    async def main() -> None:
        await asyncio.gather(*(db.write(add, 1) for _ in range(500)))

    asyncio.run(main())
    grown = ((tmp_path / "x.sqlite3-wal").stat().st_size - log_size) / (PAGE_BYTES + 24)
    assert value(db) == 500
    assert grown < 100, "each commit writes at least one page to the log"
    db.close()


def test_a_full_disk_is_503_for_every_unit_of_the_batch_and_passes(tmp_path: Path) -> None:
    clock = ManualClock(START)
    db = Database(SqliteEngine(tmp_path / "x.sqlite3", clock))
    db.write_now(lambda tx: tx.run("CREATE TABLE counter (name TEXT, value INTEGER)"))
    db.write_now(lambda tx: tx.run("INSERT INTO counter VALUES ('a', 0)"))
    pages = db.write_now(lambda tx: tx.one("PRAGMA page_count"))
    assert pages is not None
    db.write_now(lambda tx: tx.one(f"PRAGMA max_page_count = {pages[0] + 2}"))

    def fill(tx: Tx) -> None:
        tx.run("INSERT INTO counter VALUES (?, 1)", "x" * 100_000)

    async def main() -> tuple[object, ...]:
        return await asyncio.gather(db.write(add, 1), db.write(fill), db.write(add, 1), return_exceptions=True)

    outcomes = asyncio.run(main())
    assert isinstance(outcomes[1], DatabaseUnavailable)
    lost = sum(isinstance(outcome, DatabaseUnavailable) for outcome in (outcomes[0], outcomes[2]))
    assert value(db) == 2 - lost
    db.write_now(lambda tx: tx.one("PRAGMA max_page_count = 100000"))
    db.write_now(fill)
    db.close()


def test_a_lost_postgres_is_503_and_comes_back_without_a_restart(tmp_path: Path) -> None:
    with PostgresServer() as server:
        url = server.create_database("lost")
        settings = load({}, data=str(tmp_path), database_url=url, database_connections=4)
        db = open_database(settings, ManualClock(START))
        db.write_now(lambda tx: tx.run("CREATE TABLE counter (name TEXT PRIMARY KEY, value BIGINT)"))
        db.write_now(lambda tx: tx.run("INSERT INTO counter VALUES ('a', 0)"))
        server.stop()
        for _ in range(8):
            with pytest.raises(DatabaseUnavailable):
                db.write_now(add, 1)
        server.start()
        assert db.write_now(add, 1) == 1
        assert value(db) == 1
        db.close()


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_file_that_no_reader_can_open_is_503_and_comes_back_without_a_restart(db: Database, tmp_path: Path) -> None:
    """A reader opens it for the first unit that it reads."""
    file, away = tmp_path / "kontobahn.sqlite3", tmp_path / "away"
    file.rename(away)
    file.mkdir()
    for _ in range(READER_THREADS + 1):
        with pytest.raises(DatabaseUnavailable):
            value(db)
    file.rmdir()
    away.rename(file)
    assert value(db) == 0


def test_a_new_file_has_pages_that_hold_a_transaction_whole(tmp_path: Path) -> None:
    db = open_database(load({}, data=str(tmp_path)), ManualClock(START))
    assert db.read_now(lambda tx: tx.one("PRAGMA page_size")) == (8192,)
    db.close()


def test_what_is_committed_to_a_file_is_on_disk(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path / "x.sqlite3", ManualClock(START))
    # As outside of tests, which wait for no disk.
    connection = SqliteEngine._connect.__wrapped__(engine)  # type: ignore[attr-defined]
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    full = 2
    assert connection.execute("PRAGMA synchronous").fetchone() == (full,)
    connection.close()
    engine.close()


def test_megabytes_are_stored_and_not_kept_by_the_statement_that_stored_them(db: Database) -> None:
    content = bytes(range(256)) * 40_000
    db.write_now(lambda tx: tx.run("CREATE TABLE large (content BYTEA NOT NULL, name TEXT PRIMARY KEY)"))
    db.write_now(lambda tx: tx.put_large("INSERT INTO large VALUES (?, ?)", content, "a"))
    found = db.read_now(lambda tx: tx.one("SELECT content FROM large WHERE name = ?", "a"))
    assert found is not None
    assert bytes(found[0]) == content
    before = bytes_of_sqlite()
    # It finds no row, so that the cache of pages does not grow.
    db.write_now(lambda tx: tx.put_large("UPDATE large SET content = ? WHERE name = ?", content, "nobody"))
    assert bytes_of_sqlite() - before < len(content) / 2


def bytes_of_sqlite() -> int:
    """Bytes that SQLite has allocated in this process."""
    used = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
    used.restype = ctypes.c_int64
    return int(used())


def test_a_file_that_is_no_database_is_not_held_open(tmp_path: Path) -> None:
    file = tmp_path / "kontobahn.sqlite3"
    file.write_bytes(b"no database" * 1000)
    with pytest.raises(DatabaseUnavailable) as held:
        open_database(load({}, data=str(tmp_path)), ManualClock(START))
    descriptors = [Path(entry).resolve() for entry in Path("/proc/self/fd").iterdir()]
    assert file.resolve() not in descriptors, held


def test_another_organisation_reads_while_one_holds_every_thread_that_it_may(db: Database) -> None:
    """And what waits is done when it is closed."""
    begun, end = threading.Event(), threading.Event()

    def hold(_: Tx) -> None:
        begun.set()
        end.wait()

    async def read_for(share: str, fn: Callable[[Tx], Any]) -> Any:
        work_for(share)
        return await db.read(fn)

    async def try_it() -> None:
        mine = [asyncio.create_task(read_for("a", hold)) for _ in range(12)]
        await asyncio.to_thread(begun.wait)
        assert await read_for("b", lambda tx: tx.one("SELECT 1")) == (1,)
        assert not any(task.done() for task in mine)
        closing = asyncio.create_task(asyncio.to_thread(db.close))
        end.set()
        await asyncio.gather(closing, *mine)

    asyncio.run(try_it())


@pytest.mark.parametrize(
    ("is_unique", "is_partial", "first", "columns", "told"),
    [
        (0, 0, "organization_id", 1, "100000 20000"),
        (0, 0, "organization_id", 3, "100000 20000 10 2"),
        (0, 0, "email", 2, "100000 10 2"),
        (1, 0, "organization_id", 2, "100000 20000 1"),
        (1, 0, "email", 1, "100000 1"),
        (0, 1, "organization_id", 2, "50000 10000 5"),
        (1, 1, "email", 2, "50000 5 1"),
    ],
)
def test_sqlite_plans_for_large_tables_that_organisations_share(
    is_unique: int, is_partial: int, first: str, columns: int, told: str
) -> None:
    assert _statistics(is_unique, is_partial, first, columns) == f"{told} noskipscan"
