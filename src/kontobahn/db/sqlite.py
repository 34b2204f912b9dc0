"""The embedded engine: one writer thread with group commit, a few reader threads on write-ahead-log snapshots.

Units that are waiting at the same time share one durable commit, each in its own savepoint: a unit that fails does not
affect the others, and only its own caller gets the error. Writers of several processes take turns (`Turns`), and the log is
copied into the database by a thread of its own (`Checkpoints`). What short reads were answered is kept until the next commit
(`KnownAnswers`).
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from kontobahn.clock import Clock
from kontobahn.db.database import (
    Outcome,
    Question,
    Rounds,
    Row,
    Schema,
    Tx,
    Unit,
    UnitSet,
    answer_in,
    fair_queue,
    finish_short,
    joint_sets,
    nobody_listens,
    notify_listeners,
    one_by_one,
    settle_all,
)
from kontobahn.errors import DatabaseUnavailable
from kontobahn.threads import FairQueue

MAX_UNITS_PER_COMMIT = 256
READER_THREADS = 3
PAGE_BYTES = 8192
BUSY_TIMEOUT_MS = 30_000
# The log is copied with a pause between two times, so that a page that is changed again and again is copied once.
PAUSE_SECONDS = 0.25
# Pages written while the log was copied are copied at once, for only a log that is copied to its end is begun anew.
MAX_PASSES = 4
# 128 MiB: if the thread does not keep up, a commit does it after all.
FALLBACK_PAGES = 16_384
# Answers to short reads that are kept: how many, of how many rows, and of how much text in each.
MAX_KNOWN_ANSWERS, MAX_KNOWN_ROWS, MAX_KNOWN_TEXT = 512, 32, 8192
_ASK_AGAIN_SECONDS = 0.002
_PRIMARY_CODE = 0xFF
_CANNOT_BE_BOUND = object()
_UNKNOWN = object()
_TRANSIENT = ("full", "i/o error", "locked", "busy", "unable to open", "readonly")


_SCHEMA = Schema(
    columns="SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c WHERE t.type = 'table'",
    references="""SELECT t.name, f."table" FROM sqlite_schema t JOIN pragma_foreign_key_list(t.name) f WHERE t.type = 'table'""",
    triggers="SELECT DISTINCT tbl_name FROM sqlite_schema WHERE type = 'trigger'",
)


class SqliteTx:
    __slots__ = ("_execute", "_executemany", "notify", "now")
    schema = _SCHEMA

    def __init__(self, connection: sqlite3.Connection, now: int, notify: Callable[[str], None]) -> None:
        self._execute: Callable[[str, Sequence[Any]], sqlite3.Cursor] = connection.execute
        self._executemany: Callable[[str, Iterable[Sequence[Any]]], object] = connection.executemany
        self.now = now
        self.notify = notify

    def one(self, sql: str, *params: Any) -> Row | None:
        cursor = self._execute(sql, params)
        row: Row | None = cursor.fetchone()
        cursor.close()  # an unfinished SELECT would keep the savepoint from being released
        return row

    def all(self, sql: str, *params: Any) -> list[Row]:
        return self._execute(sql, params).fetchall()

    def texts(self, sql: str, *params: Any) -> list[bytes]:
        return [text.encode() for (text,) in self._execute(sql, params)]

    def run(self, sql: str, *params: Any) -> int:
        return self._execute(sql, params).rowcount

    def put(self, sql: str, *params: Any) -> None:
        self._execute(sql, params)

    def put_large(self, sql: str, *params: Any) -> None:
        self._execute(sql, params)
        # SQLite keeps a copy of what is bound to a statement until something else is bound, and the statement is kept for the
        # next time. This binds NULL to all but the last, and fails there: it is never run.
        with suppress(sqlite3.Error):
            self._execute(sql, (*[None] * (len(params) - 1), _CANNOT_BE_BOUND))

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        left = list(rows)
        for count in ROWS_INSERTED_AT_ONCE:
            whole = len(left) - len(left) % count
            if whole and (several := _inserting_several(sql, count)):
                for first in range(0, whole, count):
                    self._execute(several, [*chain.from_iterable(left[first : first + count])])
                left = left[whole:]
        self._executemany(sql, left)

    def each(self, sql: str, rows: Iterable[Sequence[Any]]) -> list[list[Row]]:
        return [self.all(sql, *row) for row in rows]

    def lock(self, *names: str) -> None:
        """The one writer is the lock."""

    def unless_locked(self, alias: str) -> str:
        return ""


# A statement that inserts several rows costs a third less than one for each. And after each the thread waits for its turn, if others
# compute: a millisecond or two, in which a hundred rows are inserted.
ROWS_INSERTED_AT_ONCE = (1_000, 250, 50, 10)
_MAX_VARIABLES = 32_766


@lru_cache(maxsize=512)
def _inserting_several(sql: str, count: int) -> str | None:
    """Returns the statement that inserts so many rows as this one does a row, or None if there is no such statement."""
    head, _, rest = sql.partition(" VALUES (")
    holes, _, tail = rest.partition(")")
    is_plain = sql.startswith("INSERT INTO ") and set(holes.split(", ")) == {"?"} and "?" not in head + tail
    if not is_plain or holes.count("?") * count > _MAX_VARIABLES:
        return None
    return f"{head} VALUES {', '.join([f'({holes})'] * count)}{tail}"


# --- Sizes

# Rows that every table is planned for. Those with one value of what tables are led by (an organisation, or what implies it) are a fifth
# of them; each further column leaves one of two thousand.
PLANNED_ROWS = 100_000
_OF_A_LEADER, _LEFT_BY_NEXT = 20_000, 2_000
_LEADERS = {"organization_id", "mandant", "edition", "account_id", "connection_id", "scope", "provider", "account_ref"}
_INDEXES = """
SELECT t.name, CASE i.origin WHEN 'pk' THEN t.name ELSE i.name END, i."unique", i.partial,
  MAX(CASE c.seqno WHEN 0 THEN c.name END), COUNT(*)
FROM sqlite_schema t JOIN pragma_index_list(t.name) i JOIN pragma_index_info(i.name) c
WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' GROUP BY 1, 2, 3, 4 ORDER BY 1, 2
"""


def assume_sizes(tx: Tx) -> None:
    """Tells the planner that every table is large. By itself it takes the rows of an organisation for ten, and reads them all where
    an index of more columns would have found the one that is wanted."""
    wanted = [(table, index, _statistics(*more)) for table, index, *more in tx.all(_INDEXES)]
    if tx.one("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'"):
        if tx.all("SELECT tbl, idx, stat FROM sqlite_stat1 ORDER BY tbl, idx") == wanted:
            return
        # Made anew, so that other connections notice.
        tx.run("DROP TABLE sqlite_stat1")
    tx.run("ANALYZE sqlite_schema")
    tx.many("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (?, ?, ?)", wanted)
    tx.run("ANALYZE sqlite_schema")


def _statistics(is_unique: int, is_partial: int, first: str, columns: int) -> str:
    """The number of rows in an index, and how many of them each further column leaves."""
    # Some hold all but a few rows, others only a few: enough less to be preferred, too much to be read as a whole.
    smaller = 2 if is_partial else 1
    most = _OF_A_LEADER if first in _LEADERS else _OF_A_LEADER // _LEFT_BY_NEXT
    left = [max(2, most // _LEFT_BY_NEXT**place // smaller) for place in range(columns)]
    if is_unique:
        left[-1] = 1
    # Without skipping: there are more organisations than so few rows would make it think.
    return " ".join(map(str, (PLANNED_ROWS // smaller, *left))) + " noskipscan"


class SqliteEngine:
    name = "sqlite"
    reads_here = True
    has_one_process = True
    joins_texts = True

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._writes: SimpleQueue[Unit | None] = SimpleQueue()
        self._reads: SimpleQueue[Unit | None] = SimpleQueue()
        self._waiting_reads: FairQueue[Unit] = fair_queue(READER_THREADS, self._reads.put)
        self._closed = False
        self.listeners: dict[str, list[Callable[[], None]]] = {}
        _create_private(path)
        self._turns = Turns(path.parent, BUSY_TIMEOUT_MS / 1000)
        writer = self._first_connection()
        writer.execute("PRAGMA busy_timeout = 0")
        writer.execute(f"PRAGMA wal_autocheckpoint = {FALLBACK_PAGES}")
        self._inline_reader = self._connect(read_only=True)
        self._known_answers = KnownAnswers(self._inline_reader)
        self._inline_lock = threading.Lock()
        self._checkpoints = Checkpoints(self._connect())
        threads = [threading.Thread(target=self._write_loop, args=(writer,), name="sqlite-writer", daemon=True)]
        threads += [
            threading.Thread(target=self._read_loop, name="sqlite-reader", daemon=True) for _ in range(READER_THREADS)
        ]
        self._threads = threads
        for thread in threads:
            thread.start()

    def submit(self, unit: Unit, *, write: bool, together: bool = True) -> None:
        if self._closed:
            unit.promise.settle(None, DatabaseUnavailable("the database is closed"))
            return
        if write:
            self._writes.put(unit)
        else:
            self._waiting_reads.put(unit.share, unit)

    def read_here(self, rounds: Rounds[Any]) -> Any:
        """Reads on the caller's own thread: two thread switches cost several times what reading a few rows does."""
        if self._closed:
            raise DatabaseUnavailable("the database is closed")
        try:
            [question] = next(rounds)
        except StopIteration as end:
            return end.value
        with self._inline_lock:
            try:
                answer = self._known_answers.answer_to(question)
            except sqlite3.Error as error:
                raise _translate_error(error) from error
        return finish_short(rounds, answer)

    def close(self) -> None:
        """Finishes what is queued, then closes."""
        if self._closed:
            return
        self._closed = True
        self._writes.put(None)
        self._waiting_reads.start_all()
        for _ in range(READER_THREADS):
            self._reads.put(None)
        for thread in self._threads:
            thread.join()
        self._turns.close()
        self._checkpoints.close()
        with self._inline_lock:
            self._inline_reader.close()

    def _first_connection(self) -> sqlite3.Connection:
        """Of several processes that open a new file at once, one gives it its log: SQLite waits for no other that does."""
        try:
            with self._turns.taken():
                return self._connect()
        except BaseException:
            self._turns.close()
            raise

    def _connect(self, *, read_only: bool = False) -> sqlite3.Connection:
        connection = None
        try:
            connection = sqlite3.connect(
                self._path,
                timeout=BUSY_TIMEOUT_MS / 1000,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=512,
            )
            # For a new file only. With pages of 4 KiB a row of more than 1,000 bytes spills over, and a transaction has as many.
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA cache_size = -32000")
            if read_only:
                connection.execute("PRAGMA query_only = ON")
        except sqlite3.Error as error:
            if connection is not None:
                connection.close()
            raise DatabaseUnavailable(f"{self._path}: {error}") from error
        return connection

    def _write_loop(self, connection: sqlite3.Connection) -> None:
        batch: list[Unit] = []
        last = False
        while not last:
            unit = self._writes.get()
            while unit is not None:
                batch.append(unit)
                if len(batch) == MAX_UNITS_PER_COMMIT:
                    break
                try:
                    unit = self._writes.get_nowait()
                except Empty:
                    break
            last = unit is None
            # While nothing else is to be written, the arguments of the last one, perhaps megabytes, are not kept.
            del unit
            while batch:
                batch = self._commit_together(connection, batch)
        connection.close()

    def _commit_together(self, connection: sqlite3.Connection, batch: list[Unit]) -> list[Unit]:
        """Runs the units in one transaction, and returns those that still have to be run."""
        outcomes: list[Outcome] = []
        try:
            self._turns.begin(connection)
            done: dict[int, Any] = {}
            for found in joint_sets(batch):
                done |= self._run_set(connection, found, batch)
            for position, unit in enumerate(batch):
                if position in done:
                    outcomes.append((unit, done[position], None))
                    continue
                outcomes.append((unit, *self._run_in_savepoint(connection, unit)))
                if not connection.in_transaction:
                    # A full disk or an I/O error ends the whole transaction: nothing of this batch was written.
                    raise outcomes[-1][2] or sqlite3.OperationalError("the transaction was rolled back")
            connection.execute("COMMIT")
        except Exception as failure:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            begun = outcomes or [(unit, None, None) for unit in batch]
            settle_all([(unit, None, own_error or _translate_error(failure)) for unit, _, own_error in begun])
            return batch[len(begun) :]
        for unit, _, error in outcomes:
            if unit.notices and error is None:
                notify_listeners(self.listeners, unit)
        self._known_answers.committed()
        settle_all(outcomes)
        self._checkpoints.committed()
        return []

    def _run_set(self, connection: sqlite3.Connection, found: UnitSet, batch: list[Unit]) -> dict[int, Any]:
        """Returns the results of those units that were done as a set, by position: none of them, if anything failed."""
        whole = Unit(lambda tx: found.run(tx, one_by_one(tx)), (), {}, batch[found.positions[0]].promise)
        done, failure = self._run_in_savepoint(connection, whole)
        if failure is not None and not connection.in_transaction:
            raise failure
        return done or {}

    def _run_in_savepoint(self, connection: sqlite3.Connection, unit: Unit) -> tuple[Any, BaseException | None]:
        connection.execute("SAVEPOINT unit")
        try:
            result = unit.fn(SqliteTx(connection, self._clock.now(), unit.notify), *unit.args, **unit.kwargs)
            connection.execute("RELEASE unit")
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK TO unit")
                connection.execute("RELEASE unit")
            return None, _translate_error(error)
        return result, None

    def _read_loop(self) -> None:
        """Opens its connection for the first unit: reading the schema takes longer than most commands do, and few need them all."""
        connection: sqlite3.Connection | None = None
        while (unit := self._reads.get()) is not None:
            try:
                connection = connection or self._connect(read_only=True)
                outcome = self._read_snapshot(connection, unit.fn, unit.args, unit.kwargs)
            except DatabaseUnavailable as error:
                outcome = None, error
            self._waiting_reads.done(unit.share)
            unit.promise.settle(*outcome)
            # Rows are not kept while nothing else is to be read.
            del outcome
            del unit
        if connection is not None:
            connection.close()

    def _read_snapshot(
        self, connection: sqlite3.Connection, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, BaseException | None]:
        result, failure = None, None
        try:
            connection.execute("BEGIN")
            result = fn(SqliteTx(connection, self._clock.now(), nobody_listens), *args, **kwargs)
        except BaseException as error:
            failure = _translate_error(error)
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        return result, failure


def _create_private(path: Path) -> None:
    """Creates the file before SQLite does, so that nobody else can read it."""
    # Never opened if it exists: closing a file drops the locks that SQLite holds on it in the same process.
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise DatabaseUnavailable(f"{path}: {error}") from error


def _translate_error(error: BaseException) -> BaseException:
    """A transient failure becomes 503; any other error stays what it is."""
    if isinstance(error, sqlite3.OperationalError):
        text = str(error).lower()
        if any(word in text for word in _TRANSIENT):
            return DatabaseUnavailable(f"SQLite: {error}")
    return error


class KnownAnswers:
    """Answers to short reads, each repeated until any process commits something.

    SQLite tells whether anything was (`PRAGMA data_version`), and is asked once for all that the event loop has ready at that moment.
    What the loop was given before can depend only on commits that the answer counts; what it is given afterwards comes behind
    `_end_check`, and so asks again. Python gives its lock away ten times while it reads three rows, and under load another thread waits
    for it each time: that costs several times what the reading does.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._tx = SqliteTx(connection, 0, nobody_listens)
        # Each was read after the version: while that stays the same, nothing has been committed since.
        self._answers: dict[Question, Any] = {}
        self._version = 0
        self._checked_by: asyncio.AbstractEventLoop | None = None
        self._is_outdated = False

    def answer_to(self, question: Question) -> Any:
        """Called by a task of the running event loop."""
        if self._is_outdated:
            self._is_outdated = False
            self._answers.clear()
        answer = self._answers.get(question, _UNKNOWN)
        if answer is _UNKNOWN or not self._is_unchanged():
            answer = answer_in(self._tx, question)
            # This may be a later state than the one that was checked, and nobody may see an earlier one after it.
            self._checked_by = None
            if _is_small(answer):
                if len(self._answers) >= MAX_KNOWN_ANSWERS:
                    self._answers.clear()
                self._answers[question] = answer
        # Whoever asked may change the list.
        return answer.copy() if isinstance(answer, list) else answer

    def committed(self) -> None:
        """Called after every commit of this process, so that a process that writes all the time is spared checks that are bound to fail."""
        self._is_outdated = True

    def _is_unchanged(self) -> bool:
        """Returns whether nothing was committed since the last version; if something was, the answers are forgotten."""
        loop = asyncio.get_running_loop()
        if self._checked_by is loop:
            return True
        [(version,)] = self._connection.execute("PRAGMA data_version").fetchall()
        if version != self._version:
            self._answers.clear()
            self._version = version
            return False
        self._checked_by = loop
        loop.call_soon(self._end_check)
        return True

    def _end_check(self) -> None:
        self._checked_by = None


def _is_small(answer: Row | list[Row] | list[bytes] | None) -> bool:
    rows = answer if isinstance(answer, list) else [answer or ()]
    if len(rows) > MAX_KNOWN_ROWS:
        return False
    values = (value for row in rows for value in (row if isinstance(row, tuple) else (row,)))
    return sum(len(value) for value in values if isinstance(value, str | bytes)) <= MAX_KNOWN_TEXT


class Turns:
    """The order in which processes write to one file.

    SQLite gives its write lock to whoever asks first once it is free, and lets the others ask again up to a tenth of a second later.
    A process that writes one transaction after the other would have it again each time, and the others would wait for its last one.
    So whoever wants to write takes the turn first, and keeps it until its transaction has begun: the one that has just written
    waits for the one that was waiting.
    """

    def __init__(self, folder: Path, max_seconds: float) -> None:
        self._max_seconds = max_seconds
        # The lock is on the folder: closing another descriptor of the database's own file would drop the locks that SQLite holds.
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def begin(self, connection: sqlite3.Connection) -> None:
        """Begins to write. The connection itself must not wait for the lock: it would do so with long pauses."""
        with self.taken() as until:
            _wait_for(lambda: _begins(connection), until)

    @contextmanager
    def taken(self) -> Iterator[float]:
        """Yields the instant (monotonic) up to which whoever has the turn may wait for SQLite's own lock."""
        until = time.monotonic() + self._max_seconds
        _wait_for(self._take, until)
        try:
            yield until
        finally:
            with suppress(OSError):
                fcntl.flock(self._folder, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._folder)

    def _take(self) -> bool:
        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # A file system that has no such locks: SQLite's own has to do.
            return True
        return True


def _begins(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & _PRIMARY_CODE != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True


def _wait_for(attempt: Callable[[], bool], until: float) -> None:
    while not attempt():
        if time.monotonic() >= until:
            raise sqlite3.OperationalError("the database is locked by another process")
        time.sleep(_ASK_AGAIN_SECONDS)


class Checkpoints:
    """Copies the write-ahead log into the database, in a thread of its own; `committed` is called after every commit.

    By itself SQLite does that at the end of whichever commit finds the log long enough: a call with one small row would wait for
    the megabytes that others have written.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._wanted, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._copy_when_wanted, name="sqlite-checkpoints", daemon=True)
        self._thread.start()

    def committed(self) -> None:
        if not self._wanted.is_set():
            self._wanted.set()

    def close(self) -> None:
        self._closed.set()
        self._wanted.set()
        self._thread.join()
        self._connection.close()

    def _copy_when_wanted(self) -> None:
        while self._wanted.wait() and not self._closed.is_set():
            self._wanted.clear()
            # Pages that cannot be copied now stay in the log, and are copied the next time.
            with suppress(sqlite3.Error):
                self._copy()
            self._closed.wait(PAUSE_SECONDS)

    def _copy(self) -> None:
        for _ in range(MAX_PASSES):
            [(_, pages, copied)] = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            if copied == pages:
                return
