"""The PostgreSQL engine: a fixed set of threads, each with its own connection, serving one queue of units.

Writes run at READ COMMITTED (units lock what they decide on, see Tx.lock) and are re-run on a deadlock or conflict;
reads run on a REPEATABLE READ snapshot. Short writes share their commits, short reads a connection (`postgres_short_reads.py`).
A lost connection is reopened for the next unit, so the service recovers without a restart; a server that no longer answers is
noticed by the `Watch`.
"""

from __future__ import annotations

import random
import select
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue
from typing import Any, Protocol

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from kontobahn import log
from kontobahn.clock import Clock
from kontobahn.db.database import (
    Outcome,
    Question,
    Rounds,
    Row,
    Unit,
    fair_queue,
    joint_sets,
    notify_listeners,
    settle_all,
)
from kontobahn.db.postgres_session import (
    CONFLICTS,
    Failed,
    Pipeline,
    PostgresSession,
    PostgresTx,
    take_answer,
    translate_error,
)
from kontobahn.db.postgres_short_reads import ShortReads
from kontobahn.errors import DatabaseUnavailable
from kontobahn.threads import FairQueue

# Short writes that wait at the same moment share one commit on PostgreSQL too, each in its own savepoint.
#
# A commit waits for the disk, and whoever holds a busy row makes the others wait as long: committed one by one, the
# writes of one organisation cannot be quicker than the disk, however many processes serve it. One thread runs them
# together instead. A unit that fails does not affect the others. Only the first unit of a group may wait for a lock: a
# later one that would wait is left to the next group, so no group waits for another while that one waits for it, and
# nobody waits behind a stranger's lock.


MAX_UNITS_PER_COMMIT = 64
# Whoever waits longer as the first goes on alone, where waiting holds up nobody; a later one hardly waits at all.
_THEN = "; SET LOCAL lock_timeout = '250ms'; SAVEPOINT unit"
_HARDLY_WAIT = "SET LOCAL lock_timeout = '5ms'"
# The owner of what was sent for the units that are done as sets.
_SETS = -1
_WOULD_WAIT = (pg.LockNotAvailable, *CONFLICTS)


class GroupWriter:
    """`begin` returns a session with a transaction begun; `run_alone` takes a unit that cannot be run in a group."""

    def __init__(
        self,
        begin: Callable[[PostgresSession | None, str, str], PostgresSession],
        run_alone: Callable[[Unit], None],
        listeners: dict[str, list[Callable[[], None]]],
        clock: Clock,
    ) -> None:
        self._begin = begin
        self._run_alone = run_alone
        self._listeners = listeners
        self._clock = clock
        self._units: SimpleQueue[Unit | None] = SimpleQueue()
        self._session: PostgresSession | None = None
        self._thread = threading.Thread(target=self._serve, name="postgres-group", daemon=True)
        self._thread.start()

    def submit(self, unit: Unit) -> None:
        self._units.put(unit)

    def refuse_waiting(self, refusal: Exception) -> None:
        """Refuses the units that have not begun."""
        with suppress(Empty):
            while (unit := self._units.get_nowait()) is not None:
                unit.promise.settle(None, refusal)
            self._units.put(None)

    def close(self) -> None:
        """Finishes what is queued, then closes."""
        self._units.put(None)
        self._thread.join()

    def _serve(self) -> None:
        batch: list[Unit] = []
        last = False
        while not last or batch:
            last = self._fill(batch) or last
            if batch:
                batch = self._commit_together(batch)
        if self._session is not None:
            self._session.close()

    def _fill(self, batch: list[Unit]) -> bool:
        """Adds what is waiting; waits only for a first unit. Returns whether it was the end."""
        left_over = len(batch)
        with suppress(Empty):
            while len(batch) < MAX_UNITS_PER_COMMIT:
                unit = self._units.get_nowait() if batch else self._units.get()
                if unit is None:
                    return True
                batch.append(unit)
        # Groups of several processes that take their locks in the same order seldom wait for each other.
        batch[left_over:] = sorted(batch[left_over:], key=lambda unit: unit.organization_id)
        return False

    def _commit_together(self, batch: list[Unit]) -> list[Unit]:
        """Runs the units in one transaction, and returns those that still have to be run."""
        group, failure = _Group(batch), None
        try:
            self._session = self._begin(self._session, "READ COMMITTED", _THEN)
            group.run(Pipeline(self._session), self._clock)
        except BaseException as error:
            # Nothing of this group was written, or (OutcomeUnknown) nobody knows. Its connection is closed: what is still on its
            # way cannot be told apart any more.
            failure = translate_error(error)
            if self._session is not None:
                self._session.close()
        outcomes = group.outcomes(failure)
        for unit, _, own_error in outcomes:
            if unit.notices and own_error is None:
                notify_listeners(self._listeners, unit)
        settle_all(outcomes)
        for unit in group.alone:
            self._run_alone(unit)
        return group.left


class _Group:
    """The units of one transaction, and what becomes of them."""

    def __init__(self, batch: list[Unit]) -> None:
        self._batch = batch
        # By the position in the batch.
        self._done: dict[int, Any] = {}
        self._errors: dict[int, BaseException] = {}
        self._alone: set[int] = set()
        self._left: set[int] = set()
        # Those of `_done` that were done as sets: they are undone together, or not at all.
        self._joint: set[int] = set()

    def run(self, pipeline: Pipeline, clock: Clock) -> None:
        """Runs the units and commits. What a unit has sent may fail while later ones run: these are then run again."""
        self._run_joint(pipeline, clock)
        position = 0
        while True:
            while position < len(self._batch):
                position = position + 1 if self._is_over(position) else self._run_one(pipeline, position, clock)
            failed = pipeline.commit()
            if failed is None:
                return
            position = self._go_back(pipeline, failed)

    def _is_over(self, position: int) -> bool:
        return position in self._joint or position in self._left

    def _run_joint(self, pipeline: Pipeline, clock: Clock) -> None:
        """Runs the units that are done as sets. If anything fails, all of it is undone: they are run one after another then."""
        sets = joint_sets(self._batch)
        if not sets:
            return
        pipeline.owner = _SETS
        try:
            for found in sets:
                tx = PostgresTx(pipeline, clock.now(), self._batch[found.positions[0]])
                self._done |= found.run(tx, _Asker(pipeline))
        except BaseException:
            pipeline.settle()
            pipeline.put("ROLLBACK TO unit", ())
            self._done.clear()
            return
        self._joint = set(self._done)
        self._begin_next(pipeline)

    def _run_one(self, pipeline: Pipeline, position: int, clock: Clock) -> int:
        """Returns the position to go on at."""
        pipeline.owner = position
        unit = self._batch[position]
        try:
            self._done[position] = unit.fn(PostgresTx(pipeline, clock.now(), unit), *unit.args, **unit.kwargs)
            self._begin_next(pipeline)
            return position + 1
        except BaseException as error:
            return self._go_back(pipeline, pipeline.settle() or Failed(position, error))

    def _begin_next(self, pipeline: Pipeline) -> None:
        pipeline.put("RELEASE unit", ())
        if len(self._done) == 1:
            pipeline.put(_HARDLY_WAIT, ())
        pipeline.put("SAVEPOINT unit", ())

    def _go_back(self, pipeline: Pipeline, failed: Failed) -> int:
        """To where the unit that failed began. Returns the position to go on at."""
        pipeline.put("ROLLBACK TO unit", ())
        position, error = failed
        if position == _SETS:
            # The statements of the sets failed: none of them is done now, nor anything after them.
            self._joint.clear()
            self._done.clear()
            self._errors.clear()
            self._alone.clear()
            self._left.clear()
            return 0
        self._done = {done: result for done, result in self._done.items() if done < position or done in self._joint}
        if not isinstance(error, _WOULD_WAIT):
            self._errors[position] = translate_error(error)
        elif self._done:
            self._left = set(range(position, len(self._batch))) - self._joint
        else:
            self._alone.add(position)
        return position + 1

    def outcomes(self, failure: BaseException | None) -> list[Outcome]:
        """Returns what to tell the callers of the units that were run; `failure` is that of the whole transaction."""
        return [
            (unit, None, error)
            if (error := self._errors.get(position, failure))
            else (unit, self._done[position], None)
            for position, unit in enumerate(self._batch)
            if position not in self._alone and position not in self._left
        ]

    @property
    def alone(self) -> list[Unit]:
        """Those that cannot be run in a group, because they wait for somebody's lock."""
        return [self._batch[position] for position in self._alone]

    @property
    def left(self) -> list[Unit]:
        """Those for the next group."""
        return [self._batch[position] for position in sorted(self._left)]


class _Asker:
    """Puts the questions of a set, a round at a time."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._is_first_round = True

    def __call__(self, questions: Sequence[Question]) -> list[Any]:
        for number, question in enumerate(questions):
            self._pipeline.put(question.sql, question.params, wanted=True)
            if number == 0 and not self._is_first_round:
                self._pipeline.put(_HARDLY_WAIT, ())
        self._is_first_round = False
        answers = self._pipeline.answers() if questions else []
        return [take_answer(question, result) for question, result in zip(questions, answers, strict=True)]


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
