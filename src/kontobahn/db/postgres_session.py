"""A connection to PostgreSQL at the level of libpq."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, cast

import psycopg
from psycopg import errors as pg
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.pq.abc import PGresult

from kontobahn.db.database import Row
from kontobahn.db.postgres_arrays import ForManyRows
from kontobahn.db.postgres_watch import Line
from kontobahn.errors import DatabaseUnavailable, OutcomeUnknown

CONFLICTS = (pg.SerializationFailure, pg.DeadlockDetected)
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

# For every transaction. PostgreSQL ends by itself what takes longer.
_SETTINGS = {
    "statement_timeout": "120s",
    "lock_timeout": "30s",
    "idle_in_transaction_session_timeout": "150s",
}
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
def to_numbered(sql: str) -> bytes:
    """libpq wants $1, $2, ..."""
    first, *rest = sql.split("?")
    return (first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))).encode()


class PostgresSession:
    """A connection used at the level of libpq: each statement is prepared once, and values travel as text.

    psycopg's cursors need two thirds more processor time, and all threads share one interpreter.

    A pooler such as PgBouncer lends a server for one transaction. What is set or prepared there would be missing in the next one,
    and be met by strangers: behind one, settings are made anew in every transaction, and statements are not prepared.
    """

    __slots__ = ("_line", "_pgconn", "_preamble", "busy_since", "connection", "for_many_rows", "prepared", "prepares")

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self.connection = connection
        self.busy_since: float | None = None
        self._pgconn = connection.pgconn
        self.prepared: dict[str, bytes] = {}
        # The statement for many rows, by that for one; see `postgres_arrays`.
        self.for_many_rows: dict[str, ForManyRows | None] = {}
        self.prepares = True
        self._preamble = ""
        self._line = Line(connection)

    def set_up(self, prepare: str) -> None:
        """Before the first transaction; `prepare` as in the setting `database_prepare`."""
        # A pooler gives out numbers of its own.
        direct = f"(pg_backend_pid() = {self._pgconn.backend_pid})"
        made = ", ".join(f"set_config('{name}', '{value}', NOT {direct})" for name, value in _SETTINGS.items())
        if self.command(f"SELECT {direct}, {made}").get_value(0, 0) != b"t":
            self._preamble = "".join(f"; SET LOCAL {name} = '{value}'" for name, value in _SETTINGS.items())
        self.prepares = prepare == "always" or (prepare == "auto" and not self._preamble)
        if not self.prepares:
            self.connection.prepare_threshold = None

    @property
    def is_pooled(self) -> bool:
        return bool(self._preamble)

    def begin(self, isolation: str, then: str = "") -> None:
        """Begins a transaction; `then` are further statements, to be sent along."""
        self.command(f"BEGIN ISOLATION LEVEL {isolation}{self._preamble}{then}")

    def command(self, sql: str) -> PGresult:
        """One or several statements without parameters. Returns the result of the last."""
        self.busy_since = time.monotonic()
        result = self._pgconn.exec_(sql.encode())
        self.busy_since = None
        return self._check(result)

    def execute(self, sql: str, params: tuple[Any, ...]) -> PGresult:
        self.busy_since = time.monotonic()
        if not self.prepares:
            values, formats = dump_params(params)
            result = self._pgconn.exec_params(to_numbered(sql), values, None, formats)
            self.busy_since = None
            return self._check(result)
        name = self.prepared.get(sql)
        if name is None:
            name = b"k%d" % len(self.prepared)
            self._check(self._pgconn.prepare(name, to_numbered(sql)))
            self.prepared[sql] = name
        result = self._pgconn.exec_prepared(name, *dump_params(params))
        self.busy_since = None
        return self._check(result)

    put = execute

    def commit(self) -> None:
        try:
            self.command("COMMIT")
        except psycopg.OperationalError as error:
            if self._pgconn.status == ConnStatus.OK:
                raise
            # It was sent, and nobody will ever say what became of it.
            raise OutcomeUnknown(f"PostgreSQL: the answer to COMMIT was lost: {error}") from error

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


def dump_params(params: tuple[Any, ...]) -> tuple[list[Any], list[Format]]:
    """The values as libpq takes them, and their formats."""
    return (
        [_dump(value) for value in params],
        [Format.BINARY if type(value) is bytes else Format.TEXT for value in params],
    )


def _dump(value: Any) -> bytes | None:
    if type(value) is str:
        return value.encode()
    if type(value) is int:
        return b"%d" % value
    if value is None or type(value) is bytes:
        return value
    return str(value).encode()


def all_rows(result: PGresult, count: int) -> list[Row]:
    # Column by column, which takes half the time of row by row.
    get, columns = result.get_value, []
    for column in range(result.nfields):
        load = _LOADERS.get(result.ftype(column), bytes.decode)
        columns.append([None if (text := get(row, column)) is None else load(text) for row in range(count)])
    return list(zip(*columns, strict=True))


def all_texts(result: PGresult) -> list[bytes]:
    get = result.get_value
    return cast(list[bytes], [get(row, 0) for row in range(result.ntuples)])


def first_row(result: PGresult) -> Row | None:
    return all_rows(result, 1)[0] if result.ntuples else None


def translate_error(error: BaseException) -> BaseException:
    """A transient failure becomes 503; any other error stays what it is."""
    if isinstance(error, (*CONFLICTS, *_UNAVAILABLE, psycopg.InterfaceError)):
        return DatabaseUnavailable(f"PostgreSQL: {type(error).__name__}: {error}")
    if isinstance(error, psycopg.OperationalError) and not isinstance(error, pg.QueryCanceled):
        return DatabaseUnavailable(f"PostgreSQL: {error}")
    return error
