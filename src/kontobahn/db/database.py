"""The database as the rest of the program sees it: units of work, the transaction that one sees, its rows by name, and `Database`.

A plain unit is a function that takes the transaction first. One that yields its questions leaves it to the engine where, and together
with what else, they are asked; it is never run twice. A short read (`short_read`) asks once, on the event loop itself. A joint unit
(`done_by`) is only a request: those that wait at the same moment are done as a set, which changes each row once and writes what it
adds in one statement.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import update_wrapper
from typing import Any, Concatenate, Final, Generic, Literal, NamedTuple, ParamSpec, Protocol, TypeVar, cast

import msgspec

from kontobahn.threads import FairQueue, worked_for

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Row = tuple[Any, ...]
R = TypeVar("R", bound=tuple[Any, ...])

CHUNK = 100
IS_ONE_OF_A_CHUNK = f"IN ({', '.join('?' * CHUNK)})"


class Schema(NamedTuple):
    """Statements that read a database's catalogue: table and column, table and the table it refers to, tables with triggers."""

    columns: str
    references: str
    triggers: str


class Statements(Protocol):
    """Statements on the database: of one transaction (Tx), or each of its own."""

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

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Executes the statement once for each row of parameters."""

    def each(self, sql: str, rows: Iterable[Sequence[Any]]) -> list[list[Row]]:
        """Asks once for each row of parameters, without waiting in between. Returns the rows found for each."""


class Tx(Statements, Protocol):
    """A running transaction. ``now`` is one instant for the whole unit."""

    @property
    def now(self) -> int: ...

    def put_large(self, sql: str, *params: Any) -> None:
        """`put` for megabytes, which are not kept when it is done. The last parameter is a small one."""

    def lock(self, *names: str) -> None:
        """Takes the lock of this name until the end of the transaction; waits while another transaction holds it.

        PostgreSQL runs units at READ COMMITTED, so a unit that decides by what it has read takes the lock first. SQLite has
        one writer and needs none.
        """

    @property
    def schema(self) -> Schema:
        """The statements that read the database's own catalogue."""

    def unless_locked(self, alias: str) -> str:
        """The end of a SELECT that leaves out the rows of this table that another transaction is changing, instead of waiting."""

    def notify(self, channel: str) -> None:
        """Calls the listeners of this process (`Database.listen`) once this transaction has committed."""


class Unit:
    """A queued function, and the promise of its result."""

    __slots__ = ("args", "fn", "kwargs", "notices", "organization_id", "promise", "share")

    def __init__(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        promise: Promise,
        organization_id: str = "",
    ) -> None:
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.promise = promise
        # The organisation whose rows it changes, if it shares its commit with others.
        self.organization_id = organization_id
        # The one whose turn it takes when it waits for a thread.
        self.share = worked_for()
        # The channels to notify once it has committed.
        self.notices: set[str] | None = None

    def notify(self, channel: str) -> None:
        if self.notices is None:
            self.notices = set()
        self.notices.add(channel)


def fair_queue(threads: int, put: Callable[[T], object]) -> FairQueue[T]:
    """Units that wait for one of the engine's threads: no organisation holds all of them, and one alone still has most."""
    return FairQueue(lambda _, work: put(work), running=threads, running_each=max(1, threads * 3 // 4))


class Promise(Protocol):
    """The result of a unit, for whoever waits for it."""

    def settle(self, result: Any, error: BaseException | None) -> None: ...

    def settle_here(self, result: Any, error: BaseException | None) -> None:
        """The same, from the waiting thread itself."""


# --- Questions and rounds


class Question(msgspec.Struct, frozen=True, gc=False):
    """A statement whose answer is wanted as the method of this name of a transaction returns it."""

    sql: str
    params: tuple[Any, ...]
    wants: Literal["one", "all", "texts"] = "one"


# Yields the questions of a round, is sent their answers, and returns the result.
Rounds = Generator[Sequence[Question], Sequence[Any], T]


def ask(sql: str, *params: Any) -> Question:
    """The question for the first row."""
    return Question(sql, params)


def ask_one(sql: str, *params: Any) -> Rounds[Row | None]:
    """A round with one question, for `yield from`. Returns the first row, or None."""
    row: Row | None
    [row] = yield [Question(sql, params)]
    return row


def ask_all(sql: str, *params: Any) -> Rounds[list[Row]]:
    rows: list[Row]
    [rows] = yield [Question(sql, params, "all")]
    return rows


def ask_texts(sql: str, *params: Any) -> Rounds[list[bytes]]:
    """The only column of all rows, a text, in UTF-8."""
    texts: list[bytes]
    [texts] = yield [Question(sql, params, "texts")]
    return texts


def run_rounds(rounds: Rounds[T], answer: Callable[[Sequence[Question]], Sequence[Any]]) -> T:
    answers: Sequence[Any] | None = None
    try:
        while True:
            # The first `send` begins it.
            answers = answer(rounds.send(cast(Any, answers)))
    except StopIteration as end:
        return cast(T, end.value)


def answer_in(tx: Tx, question: Question) -> Any:
    return getattr(tx, question.wants)(question.sql, *question.params)


def one_by_one(tx: Tx) -> Callable[[Sequence[Question]], Sequence[Any]]:
    return lambda questions: [answer_in(tx, question) for question in questions]


def run_in(tx: Tx, rounds: Rounds[T]) -> T:
    """Runs what asks in rounds as a part of this transaction."""
    return run_rounds(rounds, one_by_one(tx))


# --- Short reads


class ShortRead(Generic[P, T_co]):
    """A unit that reads a few rows by their key with one statement, which is a snapshot by itself; see `Database.read_inline`.

    Called with a transaction it is a part of that one, like any function.
    """

    def __init__(self, rounds: Callable[P, Rounds[T_co]]) -> None:
        self.rounds = rounds
        update_wrapper(self, rounds)

    def __call__(self, tx: Tx, *args: P.args, **kwargs: P.kwargs) -> T_co:
        return run_in(tx, self.rounds(*args, **kwargs))


def short_read(rounds: Callable[P, Rounds[T]]) -> ShortRead[P, T]:
    """Makes a unit of a function that asks once, which a test holds it to (tests/unit/test_short_reads.py)."""
    return ShortRead(rounds)


def nobody_listens(channel: str) -> None:
    """Takes the notices of a unit that only reads."""


def finish_short(rounds: Rounds[T], answer: Any) -> T:
    """Runs the rest of a short read, and returns its result."""
    try:
        rounds.send((answer,))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("a short read asks once: what asks again is a plain unit for Database.read")


# --- Units that are done as a set

# The result of a request for which nothing was changed, because it takes more than a few plain statements.
LEFT_OUT: Final = object()

# Does all requests of a group, and returns what becomes of each; it must be right whatever other units do between its rounds. The
# first round may only touch what is its own; from the second on, all but the first question hardly wait for somebody else's lock. It
# notifies nobody.
Joint = Callable[[Tx, Sequence[Any]], Rounds[Sequence[Any]]]


class JointUnit(Protocol[P, T_co]):
    joint: Joint
    request: Callable[P, Any]

    def __call__(self, tx: Tx, *args: P.args, **kwargs: P.kwargs) -> T_co: ...


def done_by(
    joint: Joint, *, otherwise: Callable[Concatenate[Tx, P], T]
) -> Callable[[Callable[P, Any]], JointUnit[P, T]]:
    """Makes a unit of a function that says what is requested. `otherwise` does the whole of it, if it is LEFT_OUT."""

    def decorate(request: Callable[P, Any]) -> JointUnit[P, T]:
        def unit(tx: Tx, *args: P.args, **kwargs: P.kwargs) -> T:
            result = do_alone(tx, joint, request(*args, **kwargs))
            return otherwise(tx, *args, **kwargs) if result is LEFT_OUT else cast(T, result)

        unit.__name__, unit.__doc__ = request.__name__, request.__doc__
        made = cast(JointUnit[P, T], unit)
        made.joint, made.request = joint, request
        return made

    return decorate


def do_alone(tx: Tx, joint: Joint, request: Any) -> Any:
    """Meets one request; or returns LEFT_OUT."""
    (result,) = run_in(tx, joint(tx, [request]))
    return result


class UnitSet(NamedTuple):
    """Units that one function does as a set: where they stand in their group, and what they request."""

    joint: Joint
    positions: list[int]
    requests: list[Any]

    def run(self, tx: Tx, answer: Callable[[Sequence[Question]], Sequence[Any]]) -> dict[int, Any]:
        """Returns the results of those that were not left out, by position."""
        results = zip(self.positions, run_rounds(self.joint(tx, self.requests), answer), strict=True)
        return {position: result for position, result in results if result is not LEFT_OUT}


def joint_sets(units: Sequence[Unit]) -> list[UnitSet]:
    """The sets of two or more among these units."""
    sets: dict[Joint, UnitSet] = {}
    for position, unit in enumerate(units):
        fn: Any = unit.fn
        if hasattr(fn, "joint"):
            found = sets.setdefault(fn.joint, UnitSet(fn.joint, [], []))
            found.positions.append(position)
            found.requests.append(fn.request(*unit.args, **unit.kwargs))
    return [found for found in sets.values() if len(found.positions) > 1]


# --- Rows by name, and values some at a time


def chunked(values: Iterable[T]) -> Iterator[tuple[list[T], str]]:
    """Yields some values at a time, with the SQL that says `is one of them`.

    Chunks have one length, the last filled up by repetition: so a statement is prepared once, and not once for each length.
    """
    listed = list(values)
    for start in range(0, len(listed), CHUNK):
        some = listed[start : start + CHUNK]
        yield some + some[-1:] * (CHUNK - len(some)), IS_ONE_OF_A_CHUNK


# Slices of large work are made longer or shorter until one takes about this long: others wait for it.
SLICE_SECONDS = 0.25


def fitting_length(length: int, seconds: float, minimum: int, maximum: int) -> int:
    """Returns how long the next slice should be, after one of this length that took this long."""
    factor = min(2.0, max(0.25, SLICE_SECONDS / max(seconds, 0.001)))
    return int(min(maximum, max(minimum, length * factor)))


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

    def one(self, tx: Statements, condition: str, *params: Any) -> R | None:
        """Returns the row that meets the condition (everything after WHERE), if there is one."""
        found = tx.one(self._select + condition, *params)
        return None if found is None else self.make(found)

    def all(self, tx: Statements, condition: str, *params: Any) -> list[R]:
        return [self.make(found) for found in tx.all(self._select + condition, *params)]

    def ask_one(self, condition: str, *params: Any) -> Rounds[R | None]:
        """`one` for a unit that yields its questions: ``row = yield from TABLE.ask_one("id = ?", id)``."""
        found = yield from ask_one(self._select + condition, *params)
        return None if found is None else self.make(found)

    def ask_all(self, condition: str, *params: Any) -> Rounds[list[R]]:
        return [self.make(found) for found in (yield from ask_all(self._select + condition, *params))]

    def columns_of(self, alias: str) -> str:
        """The column list for a join in which the table has this alias."""
        return ", ".join(f"{alias}.{name}" for name in self.columns.split(", "))

    def insert(self, tx: Statements, row: R, **more: Any) -> None:
        """Writes the row, with values for columns that are never read back into one (the hash of a token)."""
        if not more:
            tx.put(self._insert, *row)
            return
        marks = ", ".join("?" * (len(row) + len(more)))
        tx.put(f"INSERT INTO {self.name} ({self.columns}, {', '.join(more)}) VALUES ({marks})", *row, *more.values())

    def insert_many(self, tx: Statements, rows: Iterable[R]) -> None:
        tx.many(self._insert, rows)

    def update(self, tx: Statements, row: R, **values: Any) -> R:
        """Writes these columns of the row, and returns it as it is now."""
        assignments = ", ".join(f"{name} = ?" for name in values)
        condition = " AND ".join(f"{name} = ?" for name in self._key)
        key = (getattr(row, name) for name in self._key)
        tx.run(f"UPDATE {self.name} SET {assignments} WHERE {condition}", *values.values(), *key)
        return cast(Any, row)._replace(**values)  # type: ignore[no-any-return]


# --- The database, and what every engine offers for it


class Engine(Protocol):
    """SQLite or PostgreSQL."""

    name: str
    # Called after a commit that notified the channel.
    listeners: dict[str, list[Callable[[], None]]]
    # True if it can read on the caller's own thread, which is for what takes less than handing it to another.
    reads_here: bool
    # True if no other process serves from the same database.
    has_one_process: bool
    # True if many texts are joined sooner by the database than read one by one.
    joins_texts: bool

    def submit(self, unit: Unit, *, write: bool, together: bool = False) -> None:
        """`together`: it is short (of those that read, a `ShortRead`), and shares what it costs with others that wait as well."""

    def read_here(self, rounds: Rounds[Any]) -> Any:
        """Returns the result of a short read, if it `reads_here`."""

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


# After a statement its thread waits for Python's lock; what computes meanwhile lets go of it after this long.
_TURN_SECONDS = 0.001


class Database:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        sys.setswitchinterval(_TURN_SECONDS)

    async def read(self, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._on_loop(fn, args, kwargs, write=False)  # type: ignore[no-any-return]

    async def write(self, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._on_loop(fn, args, kwargs, write=True)  # type: ignore[no-any-return]

    async def write_together(
        self, organization_id: str, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """`write` for a unit that touches a few rows by their key and takes milliseconds: it shares its commit with others.

        On SQLite every write does. On PostgreSQL its neighbours wait until it is done, so it must be short; those of a group are run
        in the order of the organisations whose rows they change, so that groups of two processes seldom wait for each other.
        """
        promise = _LoopPromise(asyncio.get_running_loop())
        self.engine.submit(Unit(fn, args, kwargs, promise, organization_id), write=True, together=True)
        return await promise.future  # type: ignore[no-any-return]

    async def read_inline(self, read: ShortRead[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Reads a few rows by their key with one statement, without the detour over a thread."""
        if self.engine.reads_here:
            return self.engine.read_here(read.rounds(*args, **kwargs))  # type: ignore[no-any-return]
        return await self._on_loop(read, args, kwargs, write=False, together=True)  # type: ignore[no-any-return]

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

    @property
    def has_one_process(self) -> bool:
        """True if no other process serves from the same database: what somebody has claimed at the start belongs to one that died."""
        return self.engine.has_one_process

    @property
    def joins_texts(self) -> bool:
        """True if many texts are joined sooner by the database (`group_concat`) than read one by one."""
        return self.engine.joins_texts

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
