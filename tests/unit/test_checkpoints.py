"""SQLite's log is copied into the database beside the commits, not by them, and does not grow for ever."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from kontobahn.clock import ManualClock
from kontobahn.db import Database, Tx
from kontobahn.db import sqlite as sqlite_engine
from kontobahn.db.sqlite import PAGE_BYTES, Checkpoints, SqliteEngine
from tests.harness import START
from tests.waiting import eventually

# SQLite by itself copies a log of a thousand.
MANY_PAGES = 1_500
ON_DISK = MANY_PAGES * PAGE_BYTES


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "x.sqlite3"


@pytest.fixture
def db(file: Path) -> Iterator[Database]:
    """Opened when a test asks for it, after what it has changed."""
    made = Database(SqliteEngine(file, ManualClock(START)))
    made.write_now(lambda tx: tx.run("CREATE TABLE pages (content BLOB)"))
    yield made
    made.close()


@pytest.fixture
def never_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Checkpoints, "committed", lambda _: None)


@pytest.fixture
def copying(db: Database, file: Path) -> Iterator[Checkpoints]:
    """Copies when a test says so. Of two at the same time one does nothing, so the database must not copy by itself."""
    made = Checkpoints(sqlite3.connect(file, check_same_thread=False))
    yield made
    made.close()


def write_pages(tx: Tx, count: int) -> None:
    tx.many("INSERT INTO pages VALUES (?)", [(bytes(PAGE_BYTES - 200),)] * count)


def log_size(file: Path) -> int:
    return Path(f"{file}-wal").stat().st_size


def test_what_was_committed_reaches_the_database_without_another_commit(db: Database, file: Path) -> None:
    db.write_now(write_pages, 20)
    eventually(lambda: file.stat().st_size >= 20 * PAGE_BYTES, "nothing was copied")


@pytest.mark.usefixtures("never_copies")
def test_a_commit_does_not_copy_what_others_have_written(db: Database, file: Path) -> None:
    for _ in range(3):
        db.write_now(write_pages, MANY_PAGES // 3)
    db.write_now(write_pages, 1)
    assert log_size(file) > ON_DISK
    assert file.stat().st_size < ON_DISK


@pytest.mark.usefixtures("never_copies")
def test_a_commit_does_it_if_nobody_else_does(
    file: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(sqlite_engine, "FALLBACK_PAGES", 100)
    db: Database = request.getfixturevalue("db")
    db.write_now(write_pages, MANY_PAGES)
    assert file.stat().st_size > ON_DISK


@pytest.mark.usefixtures("never_copies")
def test_a_log_that_was_copied_is_begun_anew(db: Database, file: Path, copying: Checkpoints) -> None:
    for number in range(1, 11):
        db.write_now(write_pages, 100)
        copying._copy()
        assert file.stat().st_size >= number * 100 * PAGE_BYTES
    assert log_size(file) < 200 * PAGE_BYTES


def test_what_a_reader_holds_back_is_copied_when_it_has_ended(
    db: Database, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has to stay as the reader found it: it is tried some times, and again after the next commit."""
    monkeypatch.setattr(sqlite_engine, "PAUSE_SECONDS", 0)
    reader = sqlite3.connect(file, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT COUNT(*) FROM pages").fetchone() == (0,)
    db.write_now(write_pages, 50)
    assert reader.execute("SELECT COUNT(*) FROM pages").fetchone() == (0,)
    assert file.stat().st_size < 50 * PAGE_BYTES
    reader.close()
    db.write_now(write_pages, 1)
    eventually(lambda: file.stat().st_size >= 50 * PAGE_BYTES, "what the reader held back was never copied")


def test_a_failure_of_copying_is_no_failure_of_writing(
    db: Database, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_engine, "PAUSE_SECONDS", 0)
    failures: list[None] = []

    def fails(_: Checkpoints) -> None:
        failures.append(None)
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as broken:
        broken.setattr(Checkpoints, "_copy", fails)
        db.write_now(write_pages, 20)
        eventually(lambda: failures)
    db.write_now(write_pages, 1)
    eventually(lambda: file.stat().st_size >= 20 * PAGE_BYTES, "it was not tried again")


@pytest.mark.usefixtures("never_copies")
def test_what_is_written_meanwhile_is_copied_at_once_but_not_without_end(
    db: Database, file: Path, copying: Checkpoints
) -> None:
    asked: list[str] = []
    copying._connection.set_trace_callback(asked.append)
    db.write_now(write_pages, 5)
    copying._copy()
    assert len(asked) == 1, "it was copied to its end"
    reader = sqlite3.connect(file, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT COUNT(*) FROM pages").fetchone()
    db.write_now(write_pages, 5)
    copying._copy()
    assert len(asked) == 1 + sqlite_engine.MAX_PASSES
    reader.close()
