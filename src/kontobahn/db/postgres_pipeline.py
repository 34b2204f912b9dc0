"""A transaction on PostgreSQL in which statements that nobody waits for travel along with the next one that is waited for.

Each statement belongs to an owner (the position of a unit in its group). When one fails, the server ignores those sent after it,
whoever owns them: `settle` says whose it was.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import psycopg
from psycopg import errors as pg
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGresult

from kontobahn.db.database import Row
from kontobahn.db.postgres_arrays import ForManyRows, as_arrays, for_many_rows, takes_one_row
from kontobahn.db.postgres_session import PostgresSession, dump_params, first_row, to_numbered
from kontobahn.errors import OutcomeUnknown

# So many rows, or their results, may be on their way at once.
_AT_ONCE = 256


class Failed(NamedTuple):
    owner: int
    error: BaseException


class Pipeline:
    """Until `commit` or `leave`. It can do for a transaction what a session can."""

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

    def answers(self) -> list[Row | None]:
        """Waits for all that was sent. Returns the first row of each wanted statement. Raises the first error."""
        return [first_row(result) for result in self._collect()]

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
        return self._collect()

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

    def _collect(self) -> list[PGresult]:
        if self._sent:
            self._wait()
        found, self._answers = self._answers, []
        return found

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
