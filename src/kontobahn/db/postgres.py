"""The PostgreSQL engine: a fixed set of threads, each with its own connection, serving one queue of units.

Writes run at READ COMMITTED (units lock what they decide on, see Tx.lock) and are re-run on a deadlock or conflict;
reads run on a REPEATABLE READ snapshot. A lost connection is opened anew for the next unit, so the service recovers without
a restart.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from queue import SimpleQueue
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.pq import TransactionStatus

from kontobahn.clock import Clock
from kontobahn.db.database import Row, Unit
from kontobahn.errors import DatabaseUnavailable

MOST_RUNS = 10
CONNECT_TIMEOUT_SECONDS = 5
_BEGIN = {False: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", True: "BEGIN ISOLATION LEVEL READ COMMITTED"}
_SESSION = "SET statement_timeout = '120s'; SET lock_timeout = '30s'; SET idle_in_transaction_session_timeout = '150s'"
_CONFLICTS = (pg.SerializationFailure, pg.DeadlockDetected)
_OUT_OF_REACH = (
    pg.DiskFull,
    pg.OutOfMemory,
    pg.TooManyConnections,
    pg.InsufficientResources,
    pg.OperatorIntervention,
    pg.ReadOnlySqlTransaction,
    pg.LockNotAvailable,
    pg.IoError,
)


@lru_cache(maxsize=4096)
def to_psycopg(sql: str) -> str:
    """``?`` is our parameter mark on both engines; psycopg wants %s."""
    return sql.replace("%", "%%").replace("?", "%s")


class PostgresTx:
    __slots__ = ("_cursor", "now")

    def __init__(self, cursor: psycopg.Cursor[Row], now: int) -> None:
        self._cursor = cursor
        self.now = now

    def one(self, sql: str, *params: Any) -> Row | None:
        self._execute(sql, params)
        return self._cursor.fetchone()

    def all(self, sql: str, *params: Any) -> list[Row]:
        self._execute(sql, params)
        return self._cursor.fetchall()

    def run(self, sql: str, *params: Any) -> int:
        self._execute(sql, params)
        return self._cursor.rowcount

    def _execute(self, sql: str, params: tuple[Any, ...]) -> None:
        if params:
            self._cursor.execute(to_psycopg(sql), params)
        else:
            self._cursor.execute(sql)

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self._cursor.executemany(to_psycopg(sql), rows)

    def lock(self, *names: str) -> None:
        digest = hashlib.blake2b("\0".join(names).encode(), digest_size=8).digest()
        self._cursor.execute("SELECT pg_advisory_xact_lock(%s)", (int.from_bytes(digest, "big", signed=True),))


class PostgresEngine:
    name = "postgres"

    def __init__(self, url: str, clock: Clock, *, connections: int) -> None:
        self._url = url
        self._clock = clock
        self._units: SimpleQueue[tuple[Unit, bool] | None] = SimpleQueue()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._serve, name=f"postgres-{number}", daemon=True)
            for number in range(connections)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, unit: Unit, *, write: bool) -> None:
        if self._closed:
            unit.promise.settle(None, DatabaseUnavailable("the database is closed"))
            return
        self._units.put((unit, write))

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for _ in self._threads:
            self._units.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        connection: psycopg.Connection[Row] | None = None
        while (work := self._units.get()) is not None:
            unit, write = work
            try:
                connection = self._ready_connection(connection, write=write)
                result = self._run(connection, unit, write=write)
            except BaseException as error:
                if connection is not None and connection.info.transaction_status != TransactionStatus.IDLE:
                    connection.close()
                unit.promise.settle(None, translate(error))
            else:
                unit.promise.settle(result, None)
        if connection is not None:
            connection.close()

    def _ready_connection(self, connection: psycopg.Connection[Row] | None, *, write: bool) -> psycopg.Connection[Row]:
        """A connection with the transaction begun; opened anew where the old one was lost while nobody used it."""
        if connection is not None and not connection.closed:
            try:
                connection.execute(_BEGIN[write])
                return connection
            except psycopg.OperationalError:
                connection.close()
        connection = psycopg.connect(
            self._url, autocommit=True, connect_timeout=CONNECT_TIMEOUT_SECONDS, application_name="kontobahn"
        )
        connection.execute(_SESSION)
        connection.execute(_BEGIN[write])
        return connection

    def _run(self, connection: psycopg.Connection[Row], unit: Unit, *, write: bool) -> Any:
        cursor = connection.cursor()
        for attempt in range(1, MOST_RUNS + 1):
            try:
                result = unit.fn(PostgresTx(cursor, self._clock.now()), *unit.args, **unit.kwargs)
                cursor.execute("COMMIT")
                return result
            except BaseException as error:
                with suppress(psycopg.Error):  # a lost connection has nothing left to roll back
                    cursor.execute("ROLLBACK")
                if not isinstance(error, _CONFLICTS) or attempt == MOST_RUNS:
                    raise
                time.sleep(random.uniform(0, 0.002 * 2**attempt))
                cursor.execute(_BEGIN[write])
        raise AssertionError("the last attempt returns or raises")


def translate(error: BaseException) -> BaseException:
    """Trouble that passes by itself becomes 503; everything else stays what it is."""
    if isinstance(error, (*_CONFLICTS, *_OUT_OF_REACH, psycopg.InterfaceError)):
        return DatabaseUnavailable(f"PostgreSQL: {type(error).__name__}: {error}")
    if isinstance(error, psycopg.OperationalError) and not isinstance(error, pg.QueryCanceled):
        return DatabaseUnavailable(f"PostgreSQL: {error}")
    return error
