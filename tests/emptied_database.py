"""Databases that are emptied after each test: making one takes ten times as long. One of PostgreSQL serves all tests of a process."""

from __future__ import annotations

import functools
import itertools
import os
import sqlite3
import tempfile
from pathlib import Path

import psycopg
from psycopg import sql

from kontobahn.clock import SystemClock
from kontobahn.db import open_database
from kontobahn.db.migrate import migrate
from kontobahn.settings import load
from tests.harness import migrated_sqlite_in_memory
from tests.services import PostgresServer
from tests.waiting import PATIENCE_SECONDS, take_time

# After so many tests that have left rows.
SWEPT_EVERY = 40
_numbers = itertools.count(1)
_END_OTHER_SESSIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
# Whatever a test may have changed of the schema: a row of the catalogue that is written again has another xmin.
# What comes with PostgreSQL has lower numbers.
_SCHEMA = """
SELECT COUNT(*), SUM(hashtextextended(line, 0)) FROM (
    SELECT concat('c', oid, relkind, relhastriggers) AS line FROM pg_class
    UNION ALL SELECT concat('a', attrelid, attname, xmin) FROM pg_attribute WHERE attrelid >= 16384
    UNION ALL SELECT concat('t', oid, xmin) FROM pg_trigger
    UNION ALL SELECT concat('k', oid, xmin) FROM pg_constraint
    UNION ALL SELECT concat('p', oid, xmin) FROM pg_proc WHERE oid >= 16384
    UNION ALL SELECT concat('s', setdatabase, setrole, setconfig) FROM pg_db_role_setting
    UNION ALL SELECT concat('m', row_to_json(schema_migrations)) FROM schema_migrations
) AS lines
"""
# A table of which PostgreSQL knows that it is empty is read from end to end, also when a test has filled it.
_FORGET_HOW_MANY_ROWS = """
UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE oid >= 16384 AND relkind IN ('r', 't') AND reltuples >= 0
"""


@functools.cache
def migrated_template(server: PostgresServer) -> str:
    """A database brought up to date once; those of the tests are copies of it."""
    url = server.create_database("kontobahn_template")
    with tempfile.TemporaryDirectory(prefix="kontobahn-template-") as folder:
        db = open_database(load({}, data=folder, database_url=url), SystemClock())
        migrate(db)
        db.close()
    return "kontobahn_template"


class EmptiedDatabase:
    def __init__(self, server: PostgresServer, template: str) -> None:
        self._server = server
        self._template = template
        self._make()

    def _make(self) -> None:
        self._name = f"test_{os.getpid()}_{next(_numbers)}"
        self.url = self._server.create_database(self._name, template=self._template)
        # Kept for as long as the database is: a session that has not met the tables before takes ten times as long to empty them.
        self._connection = psycopg.connect(self.url, autocommit=True)
        self._connection.execute("SET session_replication_role = replica")  # without foreign keys and append-only rules
        self._tables = tables_of(self._connection)
        self._schema = self._connection.execute(_SCHEMA).fetchone()
        # Written once: composing them anew for every test takes longer than running them.
        names = [sql.Identifier(name) for name in self._tables]
        exists = sql.SQL(", ").join(sql.SQL("EXISTS (SELECT FROM {})").format(name) for name in names)
        self._which_have_rows = sql.SQL("SELECT {}").format(exists).as_bytes(self._connection)
        self._deletions = [sql.SQL("DELETE FROM {}").format(name).as_bytes(self._connection) for name in names]
        self._times_emptied, self._emptied_tables = 0, set[str]()

    def empty(self) -> None:
        """Ends the sessions in it, drops what tables a test made and deletes every row; makes another database if it changed more."""
        try:
            self._end_other_sessions()
            self._drop_further_tables()
            if self._connection.execute(_SCHEMA).fetchone() == self._schema:
                self.delete_rows()
                return
        except psycopg.Error:
            pass  # whatever a test did to it, the next one gets another
        self.drop()
        self._make()

    def _end_other_sessions(self) -> None:
        """Asked to wait for them itself, PostgreSQL looks every tenth of a second."""
        while self._connection.execute(_END_OTHER_SESSIONS).fetchone():
            take_time(0.001)

    def _drop_further_tables(self) -> None:
        for name in set(tables_of(self._connection)) - set(self._tables):
            self._connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))

    def delete_rows(self) -> None:
        """Deletes every row, while others have the database open."""
        used = self._connection.execute(self._which_have_rows, prepare=True).fetchone() or ()
        if deletions := list(itertools.compress(self._deletions, used)):
            self._connection.execute(b"; ".join(deletions))
            self._times_emptied += 1
            self._emptied_tables.update(itertools.compress(self._tables, used))
            if self._times_emptied % SWEPT_EVERY == 0:
                self._sweep()

    def _sweep(self) -> None:
        """Rows that were deleted are still in the way of whoever reads their table, until it is swept."""
        tables = sql.SQL(", ").join(map(sql.Identifier, sorted(self._emptied_tables)))
        self._connection.execute(sql.SQL("VACUUM {}").format(tables))
        self._connection.execute(_FORGET_HOW_MANY_ROWS)
        self._emptied_tables.clear()

    def drop(self) -> None:
        self._connection.close()
        self._server.drop_database(self._name)


def tables_of(connection: psycopg.Connection) -> list[str]:
    """All that tests may write to."""
    rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    return [name for (name,) in rows if name != "schema_migrations"]


class EmptiedSqlite:
    """A file that a service has open. Rows are deleted: after a copy of an empty database, every connection of the service would read
    the schema again, which takes longer than most tests."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(
            path, timeout=PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.set_authorizer(_without_append_only_rules)
        self._schema = self._schema_version()
        self._tables = [
            name
            for (name,) in self._connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            if name != "schema_migrations" and not name.startswith("sqlite_")
        ]
        self._which_have_rows = "SELECT " + ", ".join(f"EXISTS (SELECT 1 FROM {name})" for name in self._tables)

    def empty(self) -> None:
        if self._schema_version() != self._schema:  # whatever a test did to it, the next one gets it as it was
            _empty_sqlite().backup(self._connection)
            self._schema = self._schema_version()
            return
        self._connection.execute("BEGIN IMMEDIATE")
        for name in itertools.compress(self._tables, self._connection.execute(self._which_have_rows).fetchone()):
            self._connection.execute(f"DELETE FROM {name}")
        self._connection.execute("COMMIT")

    def _schema_version(self) -> int:
        return int(self._connection.execute("PRAGMA schema_version").fetchone()[0])

    def close(self) -> None:
        self._connection.close()


@functools.cache
def _empty_sqlite() -> sqlite3.Connection:
    return migrated_sqlite_in_memory()


def _without_append_only_rules(
    action: int, _what: str | None, _more: str | None, _database: str | None, trigger: str | None
) -> int:
    """Any column that a trigger selects, which is an error, is passed over."""
    return sqlite3.SQLITE_IGNORE if trigger and action == sqlite3.SQLITE_SELECT else sqlite3.SQLITE_OK
