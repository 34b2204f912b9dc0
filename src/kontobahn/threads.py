"""Work that would hold up the event loop, done in a few threads. What finds no place in the queue is refused at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from kontobahn.errors import Unavailable

P = ParamSpec("P")
T = TypeVar("T")
RETRY_AFTER_SECONDS = 2


class Pool:
    """A number of threads, and a number of places to wait for one."""

    def __init__(self, name: str, *, threads: int, waiting: int) -> None:
        self.name = name
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._places = threads + waiting
        self._taken = 0
        self._lock = threading.Lock()

    @property
    def is_full(self) -> bool:
        return self._taken >= self._places

    async def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Returns what the function returns. Raises Unavailable if too much is waiting already."""
        with self._lock:
            if self._taken >= self._places:
                raise Unavailable(
                    "The service is too busy at the moment. Nothing was written.",
                    retry_after_seconds=RETRY_AFTER_SECONDS,
                    operator=f"all {self._places} places of the threads “{self.name}” are taken",
                )
            self._taken += 1
        future = self._executor.submit(fn, *args, **kwargs)
        # When the work is over, not when its caller stops waiting: a caller that gave up has not given back the thread.
        future.add_done_callback(self._leave)
        try:
            return await asyncio.wrap_future(future)
        finally:
            # A failure refers to this frame, and this frame to the failure: together they would keep a large body alive.
            del future

    def close(self) -> None:
        """Lets what is running end; what is waiting is cancelled."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _leave(self, future: Future[Any]) -> None:
        with self._lock:
            self._taken -= 1
