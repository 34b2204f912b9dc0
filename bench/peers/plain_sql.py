"""Reserve and confirm as plain statements, with a commit each: the baseline for `Database.write`.

The statements are those that a program would write which does one thing after another, into the same tables; the service sums up what
waits at the same moment. The parameters are put together here by hand, with nothing in between.
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

from kontobahn.credits import Cause

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


_CAUSE_COLUMNS = "request_id, endpoint, api_key_id, quelle"
_ACCOUNT_AFTER = "RETURNING last_line, available, reserved"
STATEMENTS = Statements(
    take="UPDATE credit_accounts SET available = available - ?, reserved = reserved + ?, last_line = last_line + 1"
    " WHERE organization_id = ? AND available >= ? AND (next_lapse_at IS NULL OR next_lapse_at > ?)"
    f" {_ACCOUNT_AFTER}",
    insert_hold="INSERT INTO credit_holds (organization_id, id, amount, created_at, expires_at,"
    f" {_CAUSE_COLUMNS}) VALUES ({', '.join('?' * 9)})",
    write_line="INSERT INTO credit_movements (organization_id, line, at, kind, from_pot, to_pot, amount, available_after,"
    f" reserved_after, reference, {_CAUSE_COLUMNS}) VALUES ({', '.join('?' * 14)})",
    settle_hold=f"DELETE FROM credit_holds WHERE organization_id = ? AND id = ? RETURNING amount, {_CAUSE_COLUMNS}",
    spend="UPDATE credit_accounts SET reserved = reserved - ?, spent = spent + ?, last_line = last_line + 1"
    f" WHERE organization_id = ? {_ACCOUNT_AFTER}",
)


class PlainSqlite:
    """One connection with a lock, for any number of threads; durable as the service itself."""

    def __init__(self, path: Path) -> None:
        self._sql = STATEMENTS
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
        execute(sql.insert_hold, (organization_id, hold_id, 1, now, now + _HOLD_MICROSECONDS, *CAUSE))
        execute(sql.write_line, (
            organization_id, line, now, "reserve", "available", "reserved", 1, available, reserved, hold_id, *CAUSE,
        ))  # fmt: skip
        execute("COMMIT")
        return hold_id

    def _confirm(self, organization_id: str, hold_id: str) -> None:
        sql, execute, now = self._sql, self._connection.execute, time.time_ns() // 1000
        execute("BEGIN IMMEDIATE")
        amount, *cause = execute(sql.settle_hold, (organization_id, hold_id)).fetchall()[0]
        line, available, reserved = execute(sql.spend, (amount, amount, organization_id)).fetchall()[0]
        execute(sql.write_line, (
            organization_id, line, now, "confirm", "reserved", "spent", amount, available, reserved, hold_id, *cause,
        ))  # fmt: skip
        execute("COMMIT")


class PlainPostgres:
    """A connection for each thread, BEGIN ... COMMIT around each operation."""

    def __init__(self, url: str, threads: int) -> None:
        self._sql = STATEMENTS.for_psycopg()
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
            cursor.execute(sql.insert_hold, (organization_id, hold_id, 1, now, now + _HOLD_MICROSECONDS, *CAUSE))
            cursor.execute(sql.write_line, (
                organization_id, line, now, "reserve", "available", "reserved", 1, available, reserved, hold_id, *CAUSE,
            ))  # fmt: skip
            cursor.execute("COMMIT")
        return hold_id

    def _confirm(self, connection: psycopg.Connection[Any], organization_id: str, hold_id: str) -> None:
        sql, now = self._sql, time.time_ns() // 1000
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(sql.settle_hold, (organization_id, hold_id))
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
