"""Migrations: applied once, in order, under a lock; strange databases are refused with a clear sentence."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kontobahn.clock import SystemClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.db.migrate import known_migrations, migrate, pending
from kontobahn.errors import SetupError
from kontobahn.settings import load
from tests.services import PostgresServer


@pytest.fixture
def url(engine: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty database."""
    if engine == "sqlite":
        yield ""
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    yield server.create_database("migrate_empty")
    server.drop_database("migrate_empty")


@pytest.fixture
def db(url: str, tmp_path: Path) -> Iterator[Database]:
    database = open_database(load({}, data=str(tmp_path), database_url=url), SystemClock())
    yield database
    database.close()


def test_every_step_is_applied_once(db: Database) -> None:
    names = [step.name for step in known_migrations(db.engine.name)]
    assert pending(db) == names
    assert migrate(db) == names
    assert migrate(db) == []
    assert pending(db) == []


def test_both_engines_know_the_same_steps() -> None:
    assert [(step.version, step.name) for step in known_migrations("sqlite")] == [
        (step.version, step.name) for step in known_migrations("postgres")
    ]


def test_processes_starting_at_once_apply_each_step_once(url: str, tmp_path: Path) -> None:
    def start(_: int) -> list[str]:
        database = open_database(load({}, data=str(tmp_path), database_url=url), SystemClock())
        try:
            return migrate(database)
        finally:
            database.close()

    with ThreadPoolExecutor(4) as pool:
        applied = list(pool.map(start, range(4)))
    assert sorted(map(len, applied)) == [0, 0, 0, len(known_migrations("sqlite"))]


def test_a_database_of_a_newer_version_is_refused(db: Database) -> None:
    migrate(db)
    db.write_now(lambda tx: tx.run("INSERT INTO schema_migrations VALUES (9999, 'from the future', 'x', 0)"))
    with pytest.raises(SetupError, match=r"newer version of Kontobahn.*9999.*from the future"):
        migrate(db)


def test_a_step_changed_after_it_was_applied_is_refused(db: Database) -> None:
    migrate(db)
    db.write_now(lambda tx: tx.run("UPDATE schema_migrations SET checksum = 'x' WHERE version = 1"))
    with pytest.raises(SetupError, match=r"0001.*changed after"):
        migrate(db)


def test_a_step_that_fails_leaves_nothing_behind(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = known_migrations(db.engine.name)
    broken = steps[-1]._replace(
        version=9000, name="broken", sql="CREATE TABLE half (a BIGINT);\nCREATE TABLE half (a BIGINT);\n"
    )
    monkeypatch.setattr("kontobahn.db.migrate.known_migrations", lambda _: [*steps, broken])
    with pytest.raises(Exception, match="half"):
        migrate(db)

    def tables(tx: Tx) -> list[tuple[int]]:
        return tx.all("SELECT version FROM schema_migrations")

    monkeypatch.undo()
    assert len(migrate(db)) == len(steps)
    assert (9000,) not in db.read_now(tables)


def test_sqlite_tables_are_strict(tmp_path: Path) -> None:
    db = open_database(load({}, data=str(tmp_path)), SystemClock())
    migrate(db)
    loose = db.read_now(lambda tx: tx.all("SELECT name FROM pragma_table_list WHERE schema = 'main' AND strict = 0"))
    assert [name for (name,) in loose if not name.startswith("sqlite_") and name != "schema_migrations"] == []
    db.close()
