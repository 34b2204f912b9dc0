"""The embedded engine: one writer thread with group commit, a few reader threads on write-ahead-log snapshots.

Units that are waiting at the same time share one durable commit, each in its own savepoint: a unit that fails does not
affect the others, and only its own caller gets the error.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NoReturn

from kontobahn.clock import Clock
from kontobahn.db.checkpoints import FALLBACK_PAGES, Checkpoints
from kontobahn.db.database import Outcome, Row, Unit, notify_listeners, settle_all
from kontobahn.db.joint import UnitSet, joint_sets, one_by_one
from kontobahn.db.one_statement import AsksAgain, SeveralStatements, nobody_listens
from kontobahn.db.turns import Turns
from kontobahn.errors import DatabaseUnavailable

MAX_UNITS_PER_COMMIT = 256
READER_THREADS = 2
PAGE_BYTES = 8192
BUSY_TIMEOUT_MS = 30_000
_CANNOT_BE_BOUND = object()
_TRANSIENT = ("full", "i/o error", "locked", "busy", "unable to open", "readonly")


class SqliteTx:
    __slots__ = ("_execute", "_executemany", "notify", "now")

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
        self._executemany(sql, rows)

    def each(self, sql: str, rows: Iterable[Sequence[Any]]) -> list[list[Row]]:
        return [self.all(sql, *row) for row in rows]

    def lock(self, *names: str) -> None:
        """The one writer is the lock."""


class _OneStatementTx(SqliteTx):
    """For a unit with one statement. The second raises AsksAgain."""

    __slots__ = ("_first",)

    def __init__(self, connection: sqlite3.Connection, now: int) -> None:
        super().__init__(connection, now, nobody_listens)
        self._first = self._execute
        self._execute, self._executemany = self._execute_first, self._again

    def _execute_first(self, sql: str, params: Sequence[Any]) -> sqlite3.Cursor:
        self._execute = self._again
        return self._first(sql, params)

    def _again(self, *_arguments: Any) -> NoReturn:
        raise AsksAgain


class SqliteEngine:
    name = "sqlite"
    reads_here = True

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._writes: SimpleQueue[Unit | None] = SimpleQueue()
        self._reads: SimpleQueue[Unit | None] = SimpleQueue()
        self._closed = False
        self.listeners: dict[str, list[Callable[[], None]]] = {}
        _create_private(path)
        writer = self._connect()
        writer.execute("PRAGMA busy_timeout = 0")
        writer.execute(f"PRAGMA wal_autocheckpoint = {FALLBACK_PAGES}")
        self._turns = Turns(path.parent, BUSY_TIMEOUT_MS / 1000)
        self._inline_reader = self._connect(read_only=True)
        self._inline_lock = threading.Lock()
        self._several_statements = SeveralStatements()
        self._checkpoints = Checkpoints(self._connect())
        threads = [threading.Thread(target=self._write_loop, args=(writer,), name="sqlite-writer", daemon=True)]
        threads += [
            threading.Thread(
                target=self._read_loop, args=(self._connect(read_only=True),), name="sqlite-reader", daemon=True
            )
            for _ in range(READER_THREADS)
        ]
        self._threads = threads
        for thread in threads:
            thread.start()

    def submit(self, unit: Unit, *, write: bool, together: bool = True) -> None:
        if self._closed:
            unit.promise.settle(None, DatabaseUnavailable("the database is closed"))
            return
        (self._writes if write else self._reads).put(unit)

    def read_here(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Reads on the caller's own thread: two thread switches cost several times what reading a few rows does."""
        if self._closed:
            raise DatabaseUnavailable("the database is closed")
        with self._inline_lock:
            if fn not in self._several_statements:
                try:
                    return fn(_OneStatementTx(self._inline_reader, self._clock.now()), *args, **kwargs)
                except AsksAgain:
                    self._several_statements.add(fn)
                except sqlite3.Error as error:
                    raise _translate_error(error) from error
            result, failure = self._read_snapshot(self._inline_reader, fn, args, kwargs)
        if failure is not None:
            raise failure
        return result

    def close(self) -> None:
        """Finishes what is queued, then closes."""
        if self._closed:
            return
        self._closed = True
        self._writes.put(None)
        for _ in range(READER_THREADS):
            self._reads.put(None)
        for thread in self._threads:
            thread.join()
        self._turns.close()
        self._checkpoints.close()
        with self._inline_lock:
            self._inline_reader.close()

    def _connect(self, *, read_only: bool = False) -> sqlite3.Connection:
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

    def _read_loop(self, connection: sqlite3.Connection) -> None:
        while (unit := self._reads.get()) is not None:
            unit.promise.settle(*self._read_snapshot(connection, unit.fn, unit.args, unit.kwargs))
            del unit
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
