"""Work that would hold up the event loop, done in a few threads. What finds no place in the queue is refused at once.

Threads are shared fairly: an organisation holds at most half of a pool's threads and half of its places, and whose turn it is goes round
among those that wait. So the work of one, however long, is never all that is done.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from kontobahn.errors import Unavailable

P = ParamSpec("P")
T = TypeVar("T")
RETRY_AFTER_SECONDS = 2
# The organisation that this task works for; empty for the service itself.
_share: ContextVar[str] = ContextVar("share", default="")


def work_for(organization_id: str) -> None:
    """From here on the work of this task counts as the organisation's."""
    _share.set(organization_id)


def worked_for() -> str:
    return _share.get()


class FairQueue(Generic[T]):
    """Work that waits until it may start: turns go round among the organisations, and each has so many running at most.

    The service's own work waits for its turn like that of others, but its number is not bounded.
    """

    def __init__(self, start: Callable[[str, T], object], *, running: int, running_each: int) -> None:
        self._start = start
        self._max, self._max_each = running, running_each
        self._running: Counter[str] = Counter()
        # In the order of their turns: those whose work waits.
        self._waiting: dict[str, deque[T]] = {}
        self._lock = threading.Lock()

    def put(self, share: str, work: T) -> None:
        with self._lock:
            self._waiting.setdefault(share, deque()).append(work)
            self._start_waiting()

    def done(self, share: str) -> None:
        """Gives back the place of something that was started."""
        with self._lock:
            _subtract(self._running, share)
            self._start_waiting()

    def remove(self, share: str, work: T) -> None:
        """Takes back something that waits; what was started stays."""
        with self._lock:
            left = deque(other for other in self._waiting.get(share, ()) if other is not work)
            if left:
                self._waiting[share] = left
            else:
                self._waiting.pop(share, None)

    def clear(self) -> list[T]:
        """Returns what waits, and forgets it."""
        with self._lock:
            left = [work for queue in self._waiting.values() for work in queue]
            self._waiting.clear()
        return left

    def start_all(self) -> None:
        """Starts whatever waits, in turn, however many that are."""
        with self._lock:
            self._max = self._max_each = sys.maxsize
            self._start_waiting()

    def _start_waiting(self) -> None:
        """Starts the work of those whose turn it is. The lock is held."""
        while self._waiting and self._running.total() < self._max:
            share = next((name for name in self._waiting if not name or self._running[name] < self._max_each), None)
            if share is None:
                return
            queue = self._waiting.pop(share)
            work = queue.popleft()
            if queue:
                # Behind all others.
                self._waiting[share] = queue
            self._running[share] += 1
            self._start(share, work)


class _Work(NamedTuple):
    fn: Callable[[], Any]
    future: Future[Any]


class Pool:
    """A number of threads, and a number of places to wait for one."""

    def __init__(self, name: str, *, threads: int, waiting: int) -> None:
        self.name = name
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._places, self._places_each = threads + waiting, max(1, (threads + waiting) // 2)
        self._taken: Counter[str] = Counter()
        self._queue: FairQueue[_Work] = FairQueue(
            lambda share, work: self._executor.submit(self._do, share, work),
            running=threads,
            running_each=max(1, threads // 2),
        )
        self._lock = threading.Lock()

    async def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Returns what the function returns. Raises Unavailable if too much is waiting already."""
        with self._lock:
            share = worked_for()
            if self._taken.total() >= self._places or self._taken[share] >= self._places_each:
                raise Unavailable(
                    "The service is too busy at the moment. Nothing was written.",
                    retry_after_seconds=RETRY_AFTER_SECONDS,
                    operator=f"all {self._places} places of the threads “{self.name}” are taken, or half of them by one",
                )
            future = self._enter(share, partial(copy_context().run, fn, *args, **kwargs))
        return await self._result(future)

    async def run_anyway(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for work that cannot be refused any more, and of which there is no more than there are calls."""
        with self._lock:
            future = self._enter(worked_for(), partial(copy_context().run, fn, *args, **kwargs))
        return await self._result(future)

    def close(self) -> None:
        """Lets what is running end; what is waiting is cancelled."""
        for work in self._queue.clear():
            work.future.cancel()
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _result(self, future: Future[T]) -> T:
        try:
            return await asyncio.wrap_future(future)
        finally:
            # A failure refers to this frame, and this frame to the failure: together they would keep a large body alive.
            del future

    def _enter(self, share: str, fn: Callable[[], T]) -> Future[T]:
        work = _Work(fn, Future())
        self._taken[share] += 1
        # When the work is over, not when its caller stops waiting: one that gave up has not given back the thread.
        work.future.add_done_callback(partial(self._leave, share, work))
        self._queue.put(share, work)
        return work.future

    def _leave(self, share: str, work: _Work, future: Future[Any]) -> None:
        with self._lock:
            _subtract(self._taken, share)
        if future.cancelled():
            self._queue.remove(share, work)

    def _do(self, share: str, work: _Work) -> None:
        try:
            if work.future.set_running_or_notify_cancel():
                try:
                    result = work.fn()
                except BaseException as error:
                    work.future.set_exception(error)
                    # As above: the failure refers to this frame.
                    del error
                else:
                    work.future.set_result(result)
        finally:
            del work
            self._queue.done(share)


def _subtract(counted: Counter[str], share: str) -> None:
    counted[share] -= 1
    if not counted[share]:
        del counted[share]
