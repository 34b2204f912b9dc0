"""A connection to PostgreSQL at the level of libpq: its statements one by one or in a pipeline, and the transaction that a unit sees."""

from __future__ import annotations

import hashlib
import re
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from functools import lru_cache
from itertools import chain, islice
from operator import itemgetter
from typing import Any, NamedTuple, cast

import psycopg
from psycopg import errors as pg
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.pq.abc import PGresult

from kontobahn.db.database import Question, Row, Schema, Unit
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
        # The statement for many rows, by that for one.
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

    @property
    def is_closed(self) -> bool:
        return self.connection.closed and self._line.is_closed

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


def take_answer(question: Question, result: PGresult) -> Any:
    """The result as the question wants it."""
    if question.wants == "one":
        return first_row(result)
    return all_rows(result, result.ntuples) if question.wants == "all" else all_texts(result)


def translate_error(error: BaseException) -> BaseException:
    """A transient failure becomes 503; any other error stays what it is."""
    if isinstance(error, (*CONFLICTS, *_UNAVAILABLE, psycopg.InterfaceError)):
        return DatabaseUnavailable(f"PostgreSQL: {type(error).__name__}: {error}")
    if isinstance(error, psycopg.OperationalError) and not isinstance(error, pg.QueryCanceled):
        return DatabaseUnavailable(f"PostgreSQL: {error}")
    return error


class Line:
    """A second handle on a connection's socket, by which another thread can cut it off while libpq waits for an answer."""

    __slots__ = ("_socket",)

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        # A duplicate: the number of the original may be another connection's by the time it is used.
        self._socket = socket.socket(fileno=socket.dup(connection.pgconn.socket))

    def cut(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    @property
    def is_closed(self) -> bool:
        return self._socket.fileno() == -1


# --- Statements in a pipeline

# At most this many rows, or their results, are on their way at once.
_AT_ONCE = 256


class Failed(NamedTuple):
    owner: int
    error: BaseException


class Pipeline:
    """A transaction in which statements that nobody waits for travel along with the next one that is waited for.

    It lasts until `commit` or `leave`, and can do for a transaction what a session can. Each statement belongs to an owner (the
    position of a unit in its group). When one fails, the server ignores those sent after it, whoever owns them: `settle` says whose
    it was.
    """

    __slots__ = ("_answers", "_failed", "_pgconn", "_readable", "_sent", "_session", "_writable", "owner")

    def __init__(self, session: PostgresSession) -> None:
        """The session has a transaction begun."""
        self._session = session
        self._pgconn = session.connection.pgconn
        # The statements whose results have not been read: whose each is, and whether its answer is wanted.
        self._sent: deque[tuple[int, bool]] = deque()
        self._answers: list[PGresult] = []
        self._failed: Failed | None = None
        self.owner = 0
        # Not `select`, which fails for a process with more than a thousand open files.
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(self._pgconn.socket, select.POLLIN)
        self._writable.register(self._pgconn.socket, select.POLLIN | select.POLLOUT)
        self._pgconn.enter_pipeline_mode()

    def execute(self, sql: str, params: tuple[Any, ...]) -> PGresult:
        """Sends the statement and waits for its result. Raises the first error among it and what was sent before."""
        self.put(sql, params)
        return self._wait()

    def put(self, sql: str, params: tuple[Any, ...], *, wanted: bool = False) -> None:
        """Sends the statement, and does not wait. Its answer, if wanted, is among the next `answers`."""
        if not self._session.prepares:
            values, formats = dump_params(params)
            self._pgconn.send_query_params(to_numbered(sql), values, None, formats)
            self._sent.append((self.owner, wanted))
            return
        name = self._session.prepared.get(sql)
        if name is None:
            name = b"k%d" % len(self._session.prepared)
            self._pgconn.send_prepare(name, to_numbered(sql))
            self._sent.append((self.owner, False))
            self._wait()
            self._session.prepared[sql] = name
        self._pgconn.send_query_prepared(name, *dump_params(params))
        self._sent.append((self.owner, wanted))

    def answers(self) -> list[PGresult]:
        """Waits for all that was sent. Returns the answers to the wanted statements. Raises the first error."""
        if self._sent:
            self._wait()
        found, self._answers = self._answers, []
        return found

    def command(self, sql: str) -> None:
        self.execute(sql, ())

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        left = iter(rows)
        while some := list(islice(left, _AT_ONCE)):
            for_many = self._for_many_rows(sql) if len(some) > 1 else None
            if for_many is not None and for_many.takes(some):
                self.put(for_many.sql, as_arrays(some))
            else:
                for row in some:
                    self.put(sql, tuple(row))
            if len(some) == _AT_ONCE:
                self._wait()

    def _for_many_rows(self, sql: str) -> ForManyRows | None:
        if sql not in self._session.for_many_rows:
            types: list[int] = []
            if takes_one_row(sql):
                self._pgconn.send_prepare(b"", to_numbered(sql))
                self._sent.append((self.owner, False))
                self._pgconn.send_describe_prepared(b"")
                self._sent.append((self.owner, False))
                described = self._wait()
                types = [described.param_type(number) for number in range(described.nparams)]
            self._session.for_many_rows[sql] = for_many_rows(sql, types)
        return self._session.for_many_rows[sql]

    def ask_each(self, sql: str, rows: Iterable[Sequence[Any]]) -> list[PGresult]:
        """Sends the statement for each row of parameters, and waits for all results."""
        for row in rows:
            self.put(sql, tuple(row), wanted=True)
        return self.answers()

    def leave(self) -> None:
        """Ends the pipeline and leaves the transaction open. Raises the first error of what was sent and not waited for."""
        failed = self.settle()
        self._pgconn.exit_pipeline_mode()
        if failed is not None:
            raise failed.error

    def settle(self) -> Failed | None:
        """Reads all results. Returns the first failure since the last time, after which the transaction can go on at a savepoint."""
        self._pgconn.pipeline_sync()
        self._session.busy_since = time.monotonic()
        self._send()
        while self._sent:
            self._read()
        self._answers.clear()
        synced = self._next_result()
        self._session.busy_since = None
        if synced is None or synced.status != ExecStatus.PIPELINE_SYNC:
            raise psycopg.OperationalError(self._pgconn.get_error_message())
        failed, self._failed = self._failed, None
        return failed

    def commit(self) -> Failed | None:
        """Commits, unless something failed before."""
        try:
            self.put("COMMIT", ())
        except psycopg.Error:
            return self.settle()
        try:
            failed = self.settle()
        except psycopg.OperationalError as error:
            # It was sent, and nobody will ever say what became of it.
            raise OutcomeUnknown(f"PostgreSQL: the answer to COMMIT was lost: {error}") from error
        if failed is None:
            self._pgconn.exit_pipeline_mode()
        return failed

    def _wait(self) -> PGresult:
        self._pgconn.send_flush_request()
        self._session.busy_since = time.monotonic()
        self._send()
        while True:
            result = self._read()
            if self._failed is not None:
                self._session.busy_since = None
                raise self._failed.error
            if not self._sent:
                self._session.busy_since = None
                return result

    def _send(self) -> None:
        """Hands over all that was put. libpq keeps it to itself for as long as it hopes for more."""
        while self._pgconn.flush():
            self._writable.poll()
            self._pgconn.consume_input()

    def _next_result(self) -> PGresult | None:
        # Not `get_result` alone: it waits without letting the other threads of this process run.
        while self._pgconn.is_busy():
            self._readable.poll()
            self._pgconn.consume_input()
        return self._pgconn.get_result()

    def _read(self) -> PGresult:
        """The result of the first statement that has none."""
        result = self._next_result()
        if self._pgconn.status != ConnStatus.OK or result is None:
            raise psycopg.OperationalError(self._pgconn.get_error_message())
        self._next_result()  # None, the end of this statement
        owner, wanted = self._sent.popleft()
        if wanted:
            self._answers.append(result)
        if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK) and self._failed is None:
            self._failed = Failed(owner, pg.error_from_result(result))
        return result


# --- Many rows for one INSERT: each column travels as an array, so the server plans and runs one statement, not one a row

_ONE_ROW = re.compile(
    r"(?P<into>INSERT INTO \w+ \((?P<columns>[\w, ]+)\)) VALUES \(\?(?:, \?)*\)"
    r"(?P<or_else> ON CONFLICT(?: \((?P<key>[\w, ]+)\))? DO (?:NOTHING|UPDATE SET [^?]+))?"
)
# Types of the parameters of our statements, by the number of their type.
_TYPES = {
    16: "boolean", 17: "bytea", 20: "bigint", 21: "smallint", 23: "integer", 25: "text", 701: "float8", 1700: "numeric",
}  # fmt: skip


class ForManyRows(NamedTuple):
    sql: str
    # The place of the key that an UPDATE instead goes by: one statement updates no row twice.
    key: tuple[int, ...]

    def takes(self, rows: Sequence[Sequence[Any]]) -> bool:
        if not self.key:
            return True
        return len(set(map(itemgetter(*self.key), rows))) == len(rows)


def takes_one_row(sql: str) -> bool:
    """Returns whether the statement inserts its parameters, and nothing else, as one row."""
    return _ONE_ROW.fullmatch(sql) is not None


def for_many_rows(sql: str, types: Sequence[int]) -> ForManyRows | None:
    """The statement that inserts the rows of arrays of these types; None if there is none."""
    match = _ONE_ROW.fullmatch(sql)
    if match is None or not all(number in _TYPES for number in types):
        return None
    arrays = ", ".join(f"?::{_TYPES[number]}[]" for number in types)
    or_else, columns = match["or_else"] or "", match["columns"].split(", ")
    key = match["key"].split(", ") if "DO UPDATE" in or_else else []
    return ForManyRows(
        f"{match['into']} SELECT * FROM unnest({arrays}){or_else}", tuple(columns.index(name) for name in key)
    )


def as_arrays(rows: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    """The columns of the rows, as PostgreSQL writes arrays."""
    return tuple(f"{{{','.join(_elements(column))}}}" for column in zip(*rows, strict=True))


def _elements(column: Sequence[Any]) -> list[str]:
    return [str(value) if type(value) is int else "NULL" if value is None else _quoted(value) for value in column]


def _quoted(value: Any) -> str:
    text = f"\\x{value.hex()}" if type(value) is bytes else str(value)
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


# --- The transaction that a unit sees

_SCHEMA = Schema(
    columns="SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()",
    references="SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint WHERE contype = 'f'",
    triggers="SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal",
)


class PostgresTx:
    """On a session of its own, or in the pipeline of a group."""

    __slots__ = ("_statements", "notify", "now")
    schema = _SCHEMA

    def __init__(self, statements: PostgresSession | Pipeline, now: int, unit: Unit) -> None:
        self._statements = statements
        self.now = now
        self.notify = unit.notify

    def one(self, sql: str, *params: Any) -> Row | None:
        return first_row(self._statements.execute(sql, params))

    def all(self, sql: str, *params: Any) -> list[Row]:
        result = self._statements.execute(sql, params)
        return all_rows(result, result.ntuples)

    def texts(self, sql: str, *params: Any) -> list[bytes]:
        return all_texts(self._statements.execute(sql, params))

    def run(self, sql: str, *params: Any) -> int:
        if not params:
            self._statements.command(sql)  # migrations hold several statements
            return -1
        return self._statements.execute(sql, params).command_tuples or 0

    def put(self, sql: str, *params: Any) -> None:
        self._statements.put(sql, params)

    put_large = put

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        some = list(islice(rows := iter(rows), 2))
        if len(some) < 2:
            for row in some:
                self.put(sql, *row)
            return
        with self._pipeline() as pipeline:
            pipeline.execute_many(sql, chain(some, rows))

    def each(self, sql: str, rows: Iterable[Sequence[Any]]) -> list[list[Row]]:
        with self._pipeline() as pipeline:
            return [all_rows(result, result.ntuples) for result in pipeline.ask_each(sql, rows)]

    @contextmanager
    def _pipeline(self) -> Iterator[Pipeline]:
        if isinstance(self._statements, Pipeline):
            yield self._statements
            return
        pipeline = Pipeline(self._statements)
        try:
            yield pipeline
        finally:
            pipeline.leave()

    def lock(self, *names: str) -> None:
        digest = hashlib.blake2b("\0".join(names).encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "big", signed=True)
        self._statements.put("SELECT pg_advisory_xact_lock(?)", (number,))

    def unless_locked(self, alias: str) -> str:
        return f" FOR UPDATE OF {alias} SKIP LOCKED"
