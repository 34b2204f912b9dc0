"""The PostgreSQL engine: a fixed set of threads, each with its own connection, serving one queue of units.

Writes run at READ COMMITTED (units lock what they decide on, see Tx.lock) and are re-run on a deadlock or conflict;
reads run on a REPEATABLE READ snapshot. Short writes share their commits (`postgres_group.py`), short reads a connection
(`postgres_short_reads.py`). A lost connection is reopened for the next unit, so the service recovers without a restart; a server
that no longer answers is noticed by the `Watch`.
"""

from __future__ import annotations

import random
import select
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue
from typing import Any, Protocol

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from kontobahn import log
from kontobahn.clock import Clock
from kontobahn.db.database import Rounds, Row, Unit, fair_queue, notify_listeners
from kontobahn.db.postgres_group import GroupWriter
from kontobahn.db.postgres_session import CONFLICTS, PostgresSession, PostgresTx, translate_error
from kontobahn.db.postgres_short_reads import ShortReads
from kontobahn.errors import DatabaseUnavailable
from kontobahn.threads import FairQueue

MAX_ATTEMPTS = 10
# Seconds after which a machine or a network that is gone is noticed; an address in the setting database_url may say otherwise.
_CONNECTION = {
    "connect_timeout": 4,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "application_name": "kontobahn",
}
# The watch: a statement this old makes it ask; an answer may take this long.
CHECK_SECONDS = 0.5
ASK_AFTER_SECONDS = 1.0
ANSWER_SECONDS = 4.0
# PostgreSQL itself ends a statement after 120 seconds: if only this one connection is silent, it is cut off then.
LONGEST_STATEMENT_SECONDS = 135.0
_ISOLATION = {False: "REPEATABLE READ READ ONLY", True: "READ COMMITTED"}


class PostgresEngine:
    name = "postgres"
    reads_here = False
    has_one_process = False
    # It takes PostgreSQL longer to join texts than to send them.
    joins_texts = False

    def __init__(self, url: str, clock: Clock, *, connections: int, prepare: str = "auto") -> None:
        given = conninfo_to_dict(url)
        self._connection_options: dict[str, Any] = {
            **given,
            **{name: value for name, value in _CONNECTION.items() if name not in given},
        }
        self._clock = clock
        self._prepare = prepare
        self._sessions: dict[str, PostgresSession] = {}
        self._units: SimpleQueue[tuple[Unit, bool] | None] = SimpleQueue()
        self._waiting: FairQueue[tuple[Unit, bool]] = fair_queue(connections, self._units.put)
        self._closed = False
        self.listeners: dict[str, list[Callable[[], None]]] = {}
        self._group = GroupWriter(self._begun, lambda unit: self._wait(unit, write=True), self.listeners, clock)
        self._short_reads = ShortReads(self._open_session, lambda unit: self._wait(unit, write=False))
        self._threads = [
            threading.Thread(target=self._serve, name=f"postgres-{number}", daemon=True)
            for number in range(connections)
        ]
        for thread in self._threads:
            thread.start()
        self._watch = Watch(self._connect, lambda: list(self._sessions.values()), self._refuse_waiting)

    def submit(self, unit: Unit, *, write: bool, together: bool = False) -> None:
        if self._closed:
            unit.promise.settle(None, DatabaseUnavailable("the database is closed"))
        elif self._watch.is_silent:
            unit.promise.settle(None, DatabaseUnavailable("PostgreSQL does not answer"))
        elif together:
            (self._group if write else self._short_reads).submit(unit)
        else:
            self._wait(unit, write=write)

    def _wait(self, unit: Unit, *, write: bool) -> None:
        self._waiting.put(unit.share, (unit, write))

    def _refuse_waiting(self) -> None:
        """Refuses the units that no thread has begun."""
        self._group.refuse_waiting(DatabaseUnavailable("PostgreSQL does not answer"))
        for unit, _ in self._waiting.clear():
            unit.promise.settle(None, DatabaseUnavailable("PostgreSQL does not answer"))
        with suppress(Empty):
            while True:
                work = self._units.get_nowait()
                if work is None:
                    # The end of a thread: back to its place, which is the last.
                    self._units.put(None)
                    return
                self._waiting.done(work[0].share)
                work[0].promise.settle(None, DatabaseUnavailable("PostgreSQL does not answer"))

    def read_here(self, rounds: Rounds[Any]) -> Any:
        raise AssertionError("the loop would wait for the network")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # First: they may leave units to the others.
        self._group.close()
        self._short_reads.close()
        self._waiting.start_all()
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
                session = self._begun(session, _ISOLATION[write])
                result = self._run(session, unit, write=write)
            except BaseException as error:
                if session is not None and session.connection.info.transaction_status != TransactionStatus.IDLE:
                    session.close()
                self._waiting.done(unit.share)
                unit.promise.settle(None, translate_error(error))
            else:
                self._waiting.done(unit.share)
                unit.promise.settle(result, None)
        if session is not None:
            session.close()

    def _connect(self) -> psycopg.Connection[Row]:
        return psycopg.connect(**self._connection_options, autocommit=True)

    def _begun(self, session: PostgresSession | None, isolation: str, then: str = "") -> PostgresSession:
        """Returns a connection with the transaction begun; a new one if the old one was lost while idle."""
        if session is not None and not session.connection.closed:
            try:
                session.begin(isolation, then)
                return session
            except psycopg.OperationalError:
                session.close()
        session = self._open_session()
        with ExitStack() as on_failure:
            on_failure.callback(session.close)
            session.begin(isolation, then)
            on_failure.pop_all()
        return session

    def _open_session(self) -> PostgresSession:
        """A connection of the current thread, or that it opens for others."""
        if self._watch.is_silent:
            raise DatabaseUnavailable("PostgreSQL does not answer")
        with ExitStack() as on_failure:
            connection = self._connect()
            on_failure.callback(connection.close)
            session = self._sessions[threading.current_thread().name] = PostgresSession(connection)
            on_failure.callback(session.close)
            session.set_up(self._prepare)
            on_failure.pop_all()
        return session

    def _run(self, session: PostgresSession, unit: Unit, *, write: bool) -> Any:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                result = unit.fn(PostgresTx(session, self._clock.now(), unit), *unit.args, **unit.kwargs)
                session.commit()
                notify_listeners(self.listeners, unit)
                return result
            except BaseException as error:
                with suppress(psycopg.Error):  # a lost connection has nothing left to roll back
                    session.command("ROLLBACK")
                if not isinstance(error, CONFLICTS) or attempt == MAX_ATTEMPTS:
                    raise
                time.sleep(random.uniform(0, 0.002 * 2**attempt))
                session.begin(_ISOLATION[write])
        raise AssertionError("the last attempt returns or raises")


class Watched(Protocol):
    """A connection in use. `busy_since` (monotonic) is None between statements."""

    busy_since: float | None

    def cut(self) -> None: ...


class Watch:
    """Notices when PostgreSQL is silent: it neither answers nor closes its connections (frozen, or lost in the network).

    While a statement takes long, the server is asked something trivial over a connection of the watch's own. As long as it answers,
    the statement is only slow. If it does not, nobody waits any longer: what has not begun is refused, running statements are cut off,
    and new units are refused until the server answers again.
    """

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        watched: Callable[[], Iterable[Watched]],
        refuse_waiting: Callable[[], None],
    ) -> None:
        self._connect = connect
        self._watched = watched
        self._refuse_waiting = refuse_waiting
        self._connection: psycopg.Connection[Any] | None = None
        self._ended = threading.Event()
        self.is_silent = False
        self._thread = threading.Thread(target=self._run, name="postgres-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(CHECK_SECONDS):
            asked_at = time.monotonic()
            busy = self._busy_before(asked_at - ASK_AFTER_SECONDS)
            if not busy and not self.is_silent:
                continue
            answered = self._ask()
            if answered and self.is_silent:
                log.info("database_answers_again")
            if not answered and not self.is_silent:
                log.error("database_silent", consequence="calls are refused until it answers")
            self.is_silent = not answered
            if self.is_silent:
                self._refuse_waiting()
                self._cut(self._busy_before(asked_at))
            else:
                self._cut(self._busy_before(asked_at - LONGEST_STATEMENT_SECONDS))
        if self._connection is not None:
            self._connection.close()

    def _busy_before(self, instant: float) -> list[Watched]:
        return [item for item in self._watched() if item.busy_since is not None and item.busy_since <= instant]

    @staticmethod
    def _cut(connections: list[Watched]) -> None:
        for connection in connections:
            connection.cut()

    def _ask(self) -> bool:
        """Returns False only if the server is silent. One that refuses connections is down, and says so to everybody."""
        try:
            if self._connection is None or self._connection.closed:
                self._connection = self._connect()
            pgconn = self._connection.pgconn
            pgconn.send_query(b"SELECT 1")
            ends_at = time.monotonic() + ANSWER_SECONDS
            while pgconn.is_busy():
                left = ends_at - time.monotonic()
                if left <= 0 or not _is_readable(pgconn.socket, left):
                    self._connection.close()
                    return False
                pgconn.consume_input()
            while pgconn.get_result() is not None:
                pass
            return True
        except psycopg.errors.ConnectionTimeout:
            return False
        except (psycopg.Error, OSError):
            if self._connection is not None:
                self._connection.close()
            return True


def _is_readable(descriptor: int, seconds: float) -> bool:
    # Not `select`, which fails for a process with more than a thousand open files.
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))
