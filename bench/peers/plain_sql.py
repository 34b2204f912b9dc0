"""Reserve and confirm as plain statements, with a commit each: the baseline for `Database.write`.

The SQL is taken from kontobahn.credits by recording one run of it, so both sides always run the same statements. The
parameters are put together here by hand, with nothing in between.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from kontobahn import credits
from kontobahn.credits import Cause
from kontobahn.db import Database, Tx

HOLD_SECONDS = 300
CAUSE = Cause("req_0123456789abcdef0123", "GET /v2/ledger-rewe-read/opos", str(uuid.UUID(int=1)), "API")
_HOLD_MICROSECONDS = HOLD_SECONDS * 1_000_000


class Statements(NamedTuple):
    take: str
    insert_hold: str
    write_line: str
    settle_hold: str
    spend: str

    def for_psycopg(self) -> Statements:
        return Statements(*(sql.replace("?", "%s") for sql in self))


class _Listener:
    """Passes everything on to a transaction, and records the SQL."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self.heard: list[str] = []
        self.now = tx.now

    def one(self, sql: str, *params: Any) -> Any:
        self.heard.append(sql)
        return self._tx.one(sql, *params)

    def run(self, sql: str, *params: Any) -> int:
        self.heard.append(sql)
        return self._tx.run(sql, *params)

    put = run


def listen(db: Database, organization_id: str) -> Statements:
    """Returns the statements of one reserve and one confirm. Raises ValueError if their number has changed."""

    def reserve_and_confirm(tx: Tx) -> list[str]:
        listener: Any = _Listener(tx)
        hold = credits.reserve(listener, organization_id, 1, hold_seconds=HOLD_SECONDS, cause=CAUSE)
        credits.confirm(listener, organization_id, hold.id)
        return list(listener.heard)

    take, insert_hold, write_line, settle_hold, spend, write_second_line = db.write_now(reserve_and_confirm)
    if write_second_line != write_line:
        raise ValueError("Reserve and confirm no longer write their lines by the same statement.")
    return Statements(take, insert_hold, write_line, settle_hold, spend)


class PlainSqlite:
    """One connection with a lock, for any number of threads; durable as the service itself."""

    def __init__(self, path: Path, statements: Statements) -> None:
        self._sql = statements
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=512)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "cache_size = -32000"):
            self._connection.execute(f"PRAGMA {pragma}")

    def close(self) -> None:
        self._connection.close()

    def reserve_and_confirm(self, organization_id: str) -> None:
        with self._lock:
            hold_id = self._reserve(organization_id)
        with self._lock:
            self._confirm(organization_id, hold_id)

    def _reserve(self, organization_id: str) -> str:
        sql, execute, now, hold_id = self._sql, self._connection.execute, time.time_ns() // 1000, str(uuid.uuid4())
        execute("BEGIN IMMEDIATE")
        line, available, reserved = execute(sql.take, (1, 1, organization_id, 1, now)).fetchall()[0]
        execute(sql.insert_hold, (organization_id, hold_id, 1, "reserved", now, now + _HOLD_MICROSECONDS, *CAUSE))
        execute(sql.write_line, (
            organization_id, line, now, "reserve", "available", "reserved", 1, available, reserved, hold_id, *CAUSE,
        ))  # fmt: skip
        execute("COMMIT")
        return hold_id

    def _confirm(self, organization_id: str, hold_id: str) -> None:
        sql, execute, now = self._sql, self._connection.execute, time.time_ns() // 1000
        execute("BEGIN IMMEDIATE")
        amount, *cause = execute(sql.settle_hold, ("confirmed", organization_id, hold_id)).fetchall()[0]
        line, available, reserved = execute(sql.spend, (amount, amount, organization_id)).fetchall()[0]
        execute(sql.write_line, (
            organization_id, line, now, "confirm", "reserved", "spent", amount, available, reserved, hold_id, *cause,
        ))  # fmt: skip
        execute("COMMIT")


class PlainPostgres:
    """A connection for each thread, BEGIN ... COMMIT around each operation."""

    def __init__(self, url: str, statements: Statements, threads: int) -> None:
        self._sql = statements.for_psycopg()
        self._connections = [psycopg.connect(url, autocommit=True) for _ in range(threads)]

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def reserve_and_confirm(self, thread: int, organization_id: str) -> None:
        connection = self._connections[thread]
        hold_id = self._reserve(connection, organization_id)
        self._confirm(connection, organization_id, hold_id)

    def _reserve(self, connection: psycopg.Connection[Any], organization_id: str) -> str:
        sql, now, hold_id = self._sql, time.time_ns() // 1000, str(uuid.uuid4())
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(sql.take, (1, 1, organization_id, 1, now))
            line, available, reserved = _row(cursor)
            cursor.execute(
                sql.insert_hold, (organization_id, hold_id, 1, "reserved", now, now + _HOLD_MICROSECONDS, *CAUSE)
            )
            cursor.execute(sql.write_line, (
                organization_id, line, now, "reserve", "available", "reserved", 1, available, reserved, hold_id, *CAUSE,
            ))  # fmt: skip
            cursor.execute("COMMIT")
        return hold_id

    def _confirm(self, connection: psycopg.Connection[Any], organization_id: str, hold_id: str) -> None:
        sql, now = self._sql, time.time_ns() // 1000
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(sql.settle_hold, ("confirmed", organization_id, hold_id))
            amount, *cause = _row(cursor)
            cursor.execute(sql.spend, (amount, amount, organization_id))
            line, available, reserved = _row(cursor)
            cursor.execute(sql.write_line, (
                organization_id, line, now, "confirm", "reserved", "spent", amount, available, reserved, hold_id, *cause,
            ))  # fmt: skip
            cursor.execute("COMMIT")


def _row(cursor: psycopg.Cursor[Any]) -> Sequence[Any]:
    row: Sequence[Any] | None = cursor.fetchone()
    if row is None:
        raise AssertionError("the statement touched no row")
    return row
