"""What a unit of work sees (Tx), what the rest of the program sees (Database), and rows by name (Table), whatever the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound=tuple[Any, ...])
Row = tuple[Any, ...]


class Tx(Protocol):
    """A running transaction. ``now`` is one instant for the whole unit."""

    @property
    def now(self) -> int: ...

    def one(self, sql: str, *params: Any) -> Row | None:
        """Returns the first row, or None."""

    def all(self, sql: str, *params: Any) -> list[Row]:
        """All rows."""

    def texts(self, sql: str, *params: Any) -> list[bytes]:
        """The only column of all rows, a text, in UTF-8."""

    def run(self, sql: str, *params: Any) -> int:
        """Executes the statement, and returns how many rows it touched."""

    def put(self, sql: str, *params: Any) -> None:
        """Executes the statement. It may travel along with the next one, which then raises what went wrong with this one."""

    def put_large(self, sql: str, *params: Any) -> None:
        """`put` for megabytes, which are not kept when it is done. The last parameter is a small one."""

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Executes the statement once for each row of parameters."""

    def each(self, sql: str, rows: Iterable[Sequence[Any]]) -> list[list[Row]]:
        """Asks once for each row of parameters, without waiting in between. Returns the rows found for each."""

    def lock(self, *names: str) -> None:
        """Takes the lock of this name until the end of the transaction; waits while another transaction holds it.

        PostgreSQL runs units at READ COMMITTED, so a unit that decides by what it has read takes the lock first. SQLite has
        one writer and needs none.
        """

    def notify(self, channel: str) -> None:
        """Calls the listeners of this process (`Database.listen`) once this transaction has committed."""


class Unit:
    """A queued function, and the promise of its result."""

    __slots__ = ("args", "fn", "kwargs", "notices", "promise")

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], promise: Promise) -> None:
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.promise = promise
        # The channels to notify once it has committed.
        self.notices: set[str] | None = None

    def notify(self, channel: str) -> None:
        if self.notices is None:
            self.notices = set()
        self.notices.add(channel)


class Promise(Protocol):
    def settle(self, result: Any, error: BaseException | None) -> None: ...

    def settle_here(self, result: Any, error: BaseException | None) -> None:
        """The same, from the waiting thread itself."""


class Engine(Protocol):
    """SQLite or PostgreSQL."""

    name: str
    # Called after a commit that notified the channel.
    listeners: dict[str, list[Callable[[], None]]]
    # Whether it can read on the caller's own thread, which is for what takes less than handing it to another.
    reads_here: bool

    def submit(self, unit: Unit, *, write: bool, together: bool = False) -> None:
        """`together`: it is short, and shares what it costs with others that wait at the same moment."""

    def read_here(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns what the function returns on a consistent snapshot; it may be run twice."""

    def close(self) -> None: ...


def notify_listeners(listeners: dict[str, list[Callable[[], None]]], unit: Unit) -> None:
    for channel in unit.notices or ():
        for listener in tuple(listeners.get(channel, ())):
            listener()


class _LoopPromise:
    """Settles an event loop's future from another thread."""

    __slots__ = ("future", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()

    def settle(self, result: Any, error: BaseException | None) -> None:
        try:
            self.loop.call_soon_threadsafe(self.settle_here, result, error)
        except RuntimeError:
            pass  # the loop is closed, so nobody waits any more

    def settle_here(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


Outcome = tuple[Unit, Any, BaseException | None]


def settle_all(outcomes: list[Outcome]) -> None:
    """Settles the units of one commit, waking each event loop once."""
    of_loop: dict[asyncio.AbstractEventLoop, list[tuple[_LoopPromise, Any, BaseException | None]]] = {}
    for unit, result, error in outcomes:
        promise = unit.promise
        if isinstance(promise, _LoopPromise):
            of_loop.setdefault(promise.loop, []).append((promise, result, error))
        else:
            promise.settle(result, error)
    for loop, settled in of_loop.items():
        try:
            loop.call_soon_threadsafe(_settle_promises, settled)
        except RuntimeError:
            pass  # the loop is closed, so nobody waits any more


def _settle_promises(settled: list[tuple[_LoopPromise, Any, BaseException | None]]) -> None:
    for promise, result, error in settled:
        promise.settle_here(result, error)


class _ThreadPromise:
    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: Future[Any] = Future()

    def settle(self, result: Any, error: BaseException | None) -> None:
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)

    settle_here = settle


class Database:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def read(self, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._on_loop(fn, args, kwargs, write=False)  # type: ignore[no-any-return]

    async def write(self, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._on_loop(fn, args, kwargs, write=True)  # type: ignore[no-any-return]

    async def write_together(self, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`write` for a unit that touches a few rows by their key and takes milliseconds: it shares its commit with others.

        On SQLite every write does. On PostgreSQL its neighbours wait until it is done, so it must be short.
        """
        return await self._on_loop(fn, args, kwargs, write=True, together=True)  # type: ignore[no-any-return]

    async def read_inline(self, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Reads a few rows by their key, preferably with one statement. It may be run on this thread, and more than once."""
        if self.engine.reads_here:
            return self.engine.read_here(fn, args, kwargs)  # type: ignore[no-any-return]
        return await self._on_loop(fn, args, kwargs, write=False, together=True)  # type: ignore[no-any-return]

    def read_now(self, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`read` for callers without an event loop: commands and tests."""
        return self._in_thread(fn, args, kwargs, write=False)  # type: ignore[no-any-return]

    def write_now(self, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._in_thread(fn, args, kwargs, write=True)  # type: ignore[no-any-return]

    def listen(self, channel: str, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls the listener, from another thread, after each commit that notified the channel. Returns what ends it.

        It hears of commits of this process only; those of other processes must be polled for.
        """
        heard = self.engine.listeners.setdefault(channel, [])
        heard.append(listener)
        return lambda: heard.remove(listener)

    def close(self) -> None:
        self.engine.close()

    async def _on_loop(self, fn: Any, args: Any, kwargs: Any, *, write: bool, together: bool = False) -> Any:
        promise = _LoopPromise(asyncio.get_running_loop())
        self.engine.submit(Unit(fn, args, kwargs, promise), write=write, together=together)
        return await promise.future

    def _in_thread(self, fn: Any, args: Any, kwargs: Any, *, write: bool) -> Any:
        promise = _ThreadPromise()
        self.engine.submit(Unit(fn, args, kwargs, promise), write=write)
        return promise.future.result()


PORTION = 100
IS_ONE_OF_A_PORTION = f"IN ({', '.join('?' * PORTION)})"


def in_portions(values: Iterable[T]) -> Iterator[tuple[list[T], str]]:
    """Yields some values at a time, with the SQL that says `is one of them`.

    Portions have one length, the last filled up by repetition: so a statement is prepared once, and not once for each length.
    """
    listed = list(values)
    for start in range(0, len(listed), PORTION):
        some = listed[start : start + PORTION]
        yield some + some[-1:] * (PORTION - len(some)), IS_ONE_OF_A_PORTION


class Table(Generic[R]):
    """``ACCOUNTS = Table("banking_accounts", AccountRow)``. `key` names the columns that identify a row."""

    def __init__(self, name: str, row: type[R], *, key: tuple[str, ...] = ("organization_id", "id")) -> None:
        fields: tuple[str, ...] = cast(Any, row)._fields
        self.name = name
        self.columns = ", ".join(fields)
        self.make = cast(Any, row)._make
        self._key = key
        self._select = f"SELECT {self.columns} FROM {name} WHERE "
        self._insert = f"INSERT INTO {name} ({self.columns}) VALUES ({', '.join('?' * len(fields))})"

    def one(self, tx: Tx, condition: str, *params: Any) -> R | None:
        """Returns the row that meets the condition (everything after WHERE), if there is one."""
        found = tx.one(self._select + condition, *params)
        return None if found is None else self.make(found)

    def all(self, tx: Tx, condition: str, *params: Any) -> list[R]:
        return [self.make(found) for found in tx.all(self._select + condition, *params)]

    def columns_of(self, alias: str) -> str:
        """The column list for a join in which the table has this alias."""
        return ", ".join(f"{alias}.{name}" for name in self.columns.split(", "))

    def insert(self, tx: Tx, row: R, **more: Any) -> None:
        """Writes the row, with values for columns that are never read back into one (the hash of a token)."""
        if not more:
            tx.put(self._insert, *row)
            return
        marks = ", ".join("?" * (len(row) + len(more)))
        tx.put(f"INSERT INTO {self.name} ({self.columns}, {', '.join(more)}) VALUES ({marks})", *row, *more.values())

    def insert_many(self, tx: Tx, rows: Iterable[R]) -> None:
        tx.many(self._insert, rows)

    def update(self, tx: Tx, row: R, **values: Any) -> R:
        """Writes these columns of the row, and returns it as it is now."""
        assignments = ", ".join(f"{name} = ?" for name in values)
        condition = " AND ".join(f"{name} = ?" for name in self._key)
        key = (getattr(row, name) for name in self._key)
        tx.run(f"UPDATE {self.name} SET {assignments} WHERE {condition}", *values.values(), *key)
        return cast(Any, row)._replace(**values)  # type: ignore[no-any-return]
