"""The PostgreSQL engine: a fixed set of threads, each with its own connection, serving one queue of units.

Writes run at READ COMMITTED (units lock what they decide on, see Tx.lock) and are re-run on a deadlock or conflict;
reads run on a REPEATABLE READ snapshot. A lost connection is reopened for the next unit, so the service recovers without
a restart; a server that does not answer any more is noticed by `postgres_watch.py`.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from queue import Empty, SimpleQueue
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import ConnStatus, ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult

from kontobahn.clock import Clock
from kontobahn.db.database import Row, Unit, notify_listeners
from kontobahn.db.postgres_watch import Line, Watch
from kontobahn.errors import DatabaseUnavailable, OutcomeUnknown

MAX_ATTEMPTS = 10
# How soon a machine or a network that is gone is noticed; an address in the setting database_url may say otherwise.
_CONNECTION = {
    "connect_timeout": 4,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "application_name": "kontobahn",
}
_BEGIN = {False: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", True: "BEGIN ISOLATION LEVEL READ COMMITTED"}
_SESSION = "SET statement_timeout = '120s'; SET lock_timeout = '30s'; SET idle_in_transaction_session_timeout = '150s'"
_CONFLICTS = (pg.SerializationFailure, pg.DeadlockDetected)
_UNAVAILABLE = (
    pg.DiskFull,
    pg.OutOfMemory,
    pg.TooManyConnections,
    pg.InsufficientResources,
    pg.OperatorIntervention,
    pg.ReadOnlySqlTransaction,
    pg.LockNotAvailable,
    pg.IoError,
)


_BYTEA = 17
_LOADERS: dict[int, Callable[[bytes], Any]] = {
    16: b"t".__eq__,
    20: int,
    21: int,
    23: int,
    700: float,
    701: float,
    1700: lambda text: Decimal(text.decode()),
    _BYTEA: lambda text: bytes.fromhex(text[2:].decode()),
}


@lru_cache(maxsize=4096)
def to_psycopg(sql: str) -> str:
    """``?`` marks a parameter on both engines; psycopg wants %s."""
    return sql.replace("%", "%%").replace("?", "%s")


@lru_cache(maxsize=4096)
def to_numbered(sql: str) -> bytes:
    """libpq wants $1, $2, ..."""
    first, *rest = sql.split("?")
    return (first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))).encode()


class PostgresSession:
    """A connection used at the level of libpq: each statement is prepared once, and values travel as text.

    psycopg's cursors need two thirds more processor time, and all threads share one interpreter.
    """

    __slots__ = ("_line", "_pgconn", "_prepared", "busy_since", "connection")

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self.connection = connection
        self.busy_since: float | None = None
        self._pgconn = connection.pgconn
        self._prepared: dict[str, bytes] = {}
        self._line = Line(connection)

    def command(self, sql: str) -> None:
        """One or several statements without parameters."""
        self.busy_since = time.monotonic()
        result = self._pgconn.exec_(sql.encode())
        self.busy_since = None
        self._check(result)

    def execute(self, sql: str, params: tuple[Any, ...]) -> PGresult:
        self.busy_since = time.monotonic()
        name = self._prepared.get(sql)
        if name is None:
            name = b"k%d" % len(self._prepared)
            self._check(self._pgconn.prepare(name, to_numbered(sql)))
            self._prepared[sql] = name
        values = [_dump(value) for value in params]
        formats = [Format.BINARY if type(value) is bytes else Format.TEXT for value in params]
        result = self._pgconn.exec_prepared(name, values, formats)  # type: ignore[arg-type]
        self.busy_since = None
        return self._check(result)

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self.busy_since = time.monotonic()
        self.connection.cursor().executemany(to_psycopg(sql), rows)
        self.busy_since = None

    def cut(self) -> None:
        """Ends the connection from another thread; whoever waits for an answer gets an error."""
        self._line.cut()

    def close(self) -> None:
        self.busy_since = None
        self._line.close()
        self.connection.close()

    def _check(self, result: PGresult) -> PGresult:
        if result.status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
            return result
        if self._pgconn.status != ConnStatus.OK:
            raise psycopg.OperationalError(self._pgconn.get_error_message())
        raise pg.error_from_result(result)


def _dump(value: Any) -> bytes | None:
    if type(value) is str:
        return value.encode()
    if type(value) is int:
        return b"%d" % value
    if value is None or type(value) is bytes:
        return value
    return str(value).encode()


def _rows(result: PGresult, count: int) -> list[Row]:
    loaders = [_LOADERS.get(result.ftype(column), bytes.decode) for column in range(result.nfields)]
    get = result.get_value
    return [
        tuple(None if (text := get(row, column)) is None else load(text) for column, load in enumerate(loaders))
        for row in range(count)
    ]


class PostgresTx:
    __slots__ = ("_session", "notify", "now")

    def __init__(self, session: PostgresSession, now: int, unit: Unit) -> None:
        self._session = session
        self.now = now
        self.notify = unit.notify

    def one(self, sql: str, *params: Any) -> Row | None:
        result = self._session.execute(sql, params)
        return _rows(result, 1)[0] if result.ntuples else None

    def all(self, sql: str, *params: Any) -> list[Row]:
        result = self._session.execute(sql, params)
        return _rows(result, result.ntuples)

    def run(self, sql: str, *params: Any) -> int:
        if not params:
            self._session.command(sql)  # migrations hold several statements
            return -1
        return self._session.execute(sql, params).command_tuples or 0

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self._session.execute_many(sql, rows)

    def lock(self, *names: str) -> None:
        digest = hashlib.blake2b("\0".join(names).encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "big", signed=True)
        self._session.execute("SELECT pg_advisory_xact_lock(?)", (number,))


class PostgresEngine:
    name = "postgres"

    def __init__(self, url: str, clock: Clock, *, connections: int) -> None:
        given = conninfo_to_dict(url)
        self._connection_options: dict[str, Any] = {
            **given,
            **{name: value for name, value in _CONNECTION.items() if name not in given},
        }
        self._clock = clock
        self._sessions: dict[str, PostgresSession] = {}
        self._units: SimpleQueue[tuple[Unit, bool] | None] = SimpleQueue()
        self._closed = False
        self.listeners: dict[str, list[Callable[[], None]]] = {}
        self._threads = [
            threading.Thread(target=self._serve, name=f"postgres-{number}", daemon=True)
            for number in range(connections)
        ]
        for thread in self._threads:
            thread.start()
        self._watch = Watch(self._connect, lambda: list(self._sessions.values()), self._refuse_waiting)

    def submit(self, unit: Unit, *, write: bool) -> None:
        if self._closed:
            unit.promise.settle(None, DatabaseUnavailable("the database is closed"))
        elif self._watch.is_silent:
            unit.promise.settle(None, DatabaseUnavailable("PostgreSQL does not answer"))
        else:
            self._units.put((unit, write))

    def _refuse_waiting(self) -> None:
        """Refuses the units that no thread has begun."""
        with suppress(Empty):
            while True:
                work = self._units.get_nowait()
                if work is None:
                    # The end of a thread: back to its place, which is the last.
                    self._units.put(None)
                    return
                work[0].promise.settle(None, DatabaseUnavailable("PostgreSQL does not answer"))

    def read_inline(self, unit: Unit) -> None:
        self.submit(unit, write=False)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for _ in self._threads:
            self._units.put(None)
        for thread in self._threads:
            thread.join()
        self._watch.close()

    def _serve(self) -> None:
        session: PostgresSession | None = None
        while (work := self._units.get()) is not None:
            unit, write = work
            try:
                session = self._ready_session(session, write=write)
                result = self._run(session, unit, write=write)
            except BaseException as error:
                if session is not None and session.connection.info.transaction_status != TransactionStatus.IDLE:
                    session.close()
                unit.promise.settle(None, translate_error(error))
            else:
                unit.promise.settle(result, None)
        if session is not None:
            session.close()

    def _connect(self) -> psycopg.Connection[Row]:
        return psycopg.connect(**self._connection_options, autocommit=True)

    def _ready_session(self, session: PostgresSession | None, *, write: bool) -> PostgresSession:
        """Returns a connection with the transaction begun; a new one if the old one was lost while idle."""
        if session is not None and not session.connection.closed:
            try:
                session.command(_BEGIN[write])
                return session
            except psycopg.OperationalError:
                session.close()
        if self._watch.is_silent:
            raise DatabaseUnavailable("PostgreSQL does not answer")
        session = self._sessions[threading.current_thread().name] = PostgresSession(self._connect())
        session.command(_SESSION)
        session.command(_BEGIN[write])
        return session

    def _run(self, session: PostgresSession, unit: Unit, *, write: bool) -> Any:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                result = unit.fn(PostgresTx(session, self._clock.now(), unit), *unit.args, **unit.kwargs)
                self._commit(session)
                notify_listeners(self.listeners, unit)
                return result
            except BaseException as error:
                with suppress(psycopg.Error):  # a lost connection has nothing left to roll back
                    session.command("ROLLBACK")
                if not isinstance(error, _CONFLICTS) or attempt == MAX_ATTEMPTS:
                    raise
                time.sleep(random.uniform(0, 0.002 * 2**attempt))
                session.command(_BEGIN[write])
        raise AssertionError("the last attempt returns or raises")

    @staticmethod
    def _commit(session: PostgresSession) -> None:
        try:
            session.command("COMMIT")
        except psycopg.OperationalError as error:
            if session.connection.pgconn.status == ConnStatus.OK:
                raise
            # It was sent, and nobody will ever say what became of it.
            raise OutcomeUnknown(f"PostgreSQL: the answer to COMMIT was lost: {error}") from error


def translate_error(error: BaseException) -> BaseException:
    """A transient failure becomes 503; any other error stays what it is."""
    if isinstance(error, (*_CONFLICTS, *_UNAVAILABLE, psycopg.InterfaceError)):
        return DatabaseUnavailable(f"PostgreSQL: {type(error).__name__}: {error}")
    if isinstance(error, psycopg.OperationalError) and not isinstance(error, pg.QueryCanceled):
        return DatabaseUnavailable(f"PostgreSQL: {error}")
    return error
