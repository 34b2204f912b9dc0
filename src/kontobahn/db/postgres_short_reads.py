"""Short reads are asked and answered on the event loop itself, many at a time over one connection to PostgreSQL.

Two thread switches, and a transaction begun and ended, cost several times what reading a few rows by their key does. A short read
yields its question and goes on when the rows are there. What does not fit is left to the threads, which know how to wait, to reconnect
and to say what is wrong: a question that fails or is not short, what exceeds the places to wait, and all reads while there is no
connection.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from kontobahn.db.database import Question, Rounds, Tx, Unit, answer_in, finish_short
from kontobahn.db.postgres_session import PostgresSession, dump_params, take_answer, to_numbered
from kontobahn.errors import DatabaseUnavailable

# At most this many wait for one connection; the threads have more of them.
MAX_WAITING = 64
OPEN_AGAIN_SECONDS = 1.0
# Those behind it wait for a statement: one that takes longer is not short.
_SETTINGS = "SET default_transaction_read_only = on; SET statement_timeout = '250ms'"


class _Waiting(NamedTuple):
    """A short read that has asked."""

    unit: Unit
    rounds: Rounds[Any]
    question: Question

    def finish_in(self, tx: Tx) -> Any:
        """Asks the same again in a transaction, and goes on with its answer."""
        return finish_short(self.rounds, answer_in(tx, self.question))


class ShortReads:
    """`open_session` returns a new connection; `run_in_thread` takes the units that are not read here."""

    def __init__(self, open_session: Callable[[], PostgresSession], run_in_thread: Callable[[Unit], None]) -> None:
        self._open_session = open_session
        self._run_in_thread = run_in_thread
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: PostgresSession | None = None
        # The session in use; not yet, while the loop has not heard that it is open.
        self._connection: _Connection | None = None
        self._opening: threading.Thread | None = None
        self._open_again_at = 0.0
        self._closed = False

    def submit(self, unit: Unit) -> None:
        """Takes a `ShortRead` for which somebody waits on the running event loop."""
        connection = self._usable_connection()
        if connection is None or connection.is_full:
            self._run_in_thread(unit)
            return
        read: Any = unit.fn
        try:
            rounds = read.rounds(*unit.args, **unit.kwargs)
            [question] = next(rounds)
        except StopIteration as end:
            unit.promise.settle_here(end.value, None)
        except BaseException as error:
            unit.promise.settle_here(None, error)
        else:
            connection.ask(_Waiting(unit, rounds, question))

    def close(self) -> None:
        """Once no unit waits any more, or to refuse those that do."""
        self._closed = True
        if (opening := self._opening) is not None:
            opening.join()
        loop = self._loop
        if loop is None:
            return
        if loop.is_running() and loop is not _running_loop():
            asyncio.run_coroutine_threadsafe(self._close_here(), loop).result()
        else:
            self._close_connection()

    async def _close_here(self) -> None:
        self._close_connection()

    def _close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
        elif self._session is not None:
            self._session.close()

    def _answer(self, waiting: _Waiting, answer: PGresult | None) -> None:
        promise = waiting.unit.promise
        if self._closed:
            promise.settle_here(None, DatabaseUnavailable("the database is closed"))
        elif answer is None:
            # It is not begun anew: only its question is asked again.
            self._run_in_thread(Unit(waiting.finish_in, (), {}, promise))
        else:
            try:
                result = finish_short(waiting.rounds, take_answer(waiting.question, answer))
            except BaseException as error:
                promise.settle_here(None, error)
            else:
                promise.settle_here(result, None)

    def _usable_connection(self) -> _Connection | None:
        loop = asyncio.get_running_loop()
        if self._connection is not None and self._loop is loop and not self._connection.is_closed:
            return self._connection
        is_free = self._loop is None or self._loop is loop or self._loop.is_closed()
        if is_free and not self._is_opening(loop) and not self._closed and time.monotonic() >= self._open_again_at:
            self._close_connection()
            self._loop, self._connection, self._session = loop, None, None
            self._opening = threading.Thread(target=self._open, args=(loop,), name="postgres-short-reads", daemon=True)
            self._opening.start()
        return None

    def _is_opening(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Returns whether a connection is on its way: it is until the loop that it was opened for has heard of it."""
        return self._opening is not None and (self._opening.is_alive() or self._loop is loop)

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            session = self._session = self._open_session()
            # Behind a pooler nothing that is set here would hold, and nothing that is prepared be found.
            if session.is_pooled or not session.prepares:
                self._open_again_at = float("inf")
                session.close()
                self._opening = None
                return
            session.command(_SETTINGS)
            loop.call_soon_threadsafe(self._use, session)
        except (psycopg.Error, DatabaseUnavailable, RuntimeError):
            # RuntimeError: the loop has ended.
            self._open_again_at = time.monotonic() + OPEN_AGAIN_SECONDS
            self._opening = None

    def _use(self, session: PostgresSession) -> None:
        self._opening = None
        if not self._closed and self._loop is not None:
            self._connection = _Connection(session, self._loop, self._answer)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _Connection:
    """Statements on their way, each a transaction of its own. `answered` is called on the loop with None for one that failed."""

    def __init__(
        self,
        session: PostgresSession,
        loop: asyncio.AbstractEventLoop,
        answered: Callable[[_Waiting, PGresult | None], None],
    ) -> None:
        self._session = session
        self._pgconn = session.connection.pgconn
        self._socket = self._pgconn.socket
        self._loop = loop
        self._answered = answered
        self._waiting: deque[_Waiting] = deque()
        # Rows of the first of them, as far as they have come.
        self._results: list[PGresult] = []
        self._to_be_prepared_again: set[str] = set()
        self.is_closed = False
        self._pgconn.enter_pipeline_mode()
        loop.add_reader(self._socket, self._read)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= MAX_WAITING

    def ask(self, waiting: _Waiting) -> None:
        sql, params = waiting.question.sql, waiting.question.params
        self._waiting.append(waiting)
        if self._session.busy_since is None:
            self._session.busy_since = time.monotonic()
        try:
            name = self._session.prepared.get(sql)
            if name is None or sql in self._to_be_prepared_again:
                name = name or b"k%d" % len(self._session.prepared)
                self._session.prepared[sql] = name
                self._to_be_prepared_again.discard(sql)
                self._pgconn.send_prepare(name, to_numbered(sql))
            self._pgconn.send_query_prepared(name, *dump_params(params))
            self._pgconn.pipeline_sync()
            self._send()
        except psycopg.Error:
            self.close()

    def close(self) -> None:
        """The answers that have not come will not come any more."""
        if self.is_closed:
            return
        self.is_closed = True
        if not self._loop.is_closed():
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
        self._session.close()
        while self._waiting:
            self._answered(self._waiting.popleft(), None)

    def _send(self) -> None:
        if self._pgconn.flush():
            self._loop.add_writer(self._socket, self._send_rest)

    def _send_rest(self) -> None:
        try:
            if not self._pgconn.flush():
                self._loop.remove_writer(self._socket)
        except psycopg.Error:
            self.close()

    def _read(self) -> None:
        try:
            self._pgconn.consume_input()
            while self._waiting and not self._pgconn.is_busy():
                self._take(self._pgconn.get_result())
                if self.is_closed:
                    return
        except psycopg.Error:
            self.close()

    def _take(self, result: PGresult | None) -> None:
        """Takes a result of the first that waits: of preparing its statement, of the statement itself, or the end of both."""
        if result is None:
            return
        if result.status != ExecStatus.PIPELINE_SYNC:
            self._results.append(result)
            return
        results, self._results = self._results, []
        waiting = self._waiting.popleft()
        self._session.busy_since = time.monotonic() if self._waiting else None
        if results[-1].status == ExecStatus.TUPLES_OK:
            self._answered(waiting, results[-1])
            return
        if results[0].status != ExecStatus.COMMAND_OK:
            self._to_be_prepared_again.add(waiting.question.sql)
        self._answered(waiting, None)
