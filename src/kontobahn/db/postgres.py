"""The PostgreSQL engine: a fixed set of threads, each with its own connection, serving one queue of units.

Writes run at READ COMMITTED (units lock what they decide on, see Tx.lock) and are re-run on a deadlock or conflict;
reads run on a REPEATABLE READ snapshot. Short writes share their commits (`postgres_group.py`), short reads a connection
(`postgres_short_reads.py`). A lost connection is reopened for
the next unit, so the service recovers without a restart; a server that does not answer any more is noticed by `postgres_watch.py`.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from kontobahn.clock import Clock
from kontobahn.db.database import Row, Unit, notify_listeners
from kontobahn.db.postgres_group import GroupWriter
from kontobahn.db.postgres_session import CONFLICTS, PostgresSession, translate_error
from kontobahn.db.postgres_short_reads import ShortReads
from kontobahn.db.postgres_tx import PostgresTx
from kontobahn.db.postgres_watch import Watch
from kontobahn.errors import DatabaseUnavailable

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
_ISOLATION = {False: "REPEATABLE READ READ ONLY", True: "READ COMMITTED"}


class PostgresEngine:
    name = "postgres"
    reads_here = False

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
        self._closed = False
        self.listeners: dict[str, list[Callable[[], None]]] = {}
        self._group = GroupWriter(self._begun, lambda unit: self._units.put((unit, True)), self.listeners, clock)
        self._short_reads = ShortReads(self._open_session, lambda unit: self._units.put((unit, False)), clock)
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
            self._units.put((unit, write))

    def _refuse_waiting(self) -> None:
        """Refuses the units that no thread has begun."""
        self._group.refuse_waiting(DatabaseUnavailable("PostgreSQL does not answer"))
        with suppress(Empty):
            while True:
                work = self._units.get_nowait()
                if work is None:
                    # The end of a thread: back to its place, which is the last.
                    self._units.put(None)
                    return
                work[0].promise.settle(None, DatabaseUnavailable("PostgreSQL does not answer"))

    def read_here(self, fn: Any, args: Any, kwargs: Any) -> Any:
        raise AssertionError("the loop would wait for the network")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # First: they may leave units to the others.
        self._group.close()
        self._short_reads.close()
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
                unit.promise.settle(None, translate_error(error))
            else:
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
        session.begin(isolation, then)
        return session

    def _open_session(self) -> PostgresSession:
        """A connection of the current thread, or that it opens for others."""
        if self._watch.is_silent:
            raise DatabaseUnavailable("PostgreSQL does not answer")
        session = self._sessions[threading.current_thread().name] = PostgresSession(self._connect())
        session.set_up(self._prepare)
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
