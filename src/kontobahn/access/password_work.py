"""Work on passwords, slow on purpose: on few threads of their own, with few waiting for them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from typing import ParamSpec, TypeVar

from kontobahn.errors import Unavailable

P = ParamSpec("P")
T = TypeVar("T")

# One check takes about 60 ms and 64 MiB.
THREADS = max(1, min(4, (os.cpu_count() or 1) // 2))
# Running and waiting; whoever comes last waits about two seconds on one thread.
ROOM = 32
# Of these for addresses nobody has signed in from since the start, and for one address.
ROOM_FOR_STRANGERS = 24
ROOM_FOR_ADDRESS = 4
RETRY_AFTER_SECONDS = 2
_NICENESS = 10


class PasswordWork:
    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()

    @contextmanager
    def room_for(self, address: str, *, is_familiar: bool) -> Iterator[None]:
        """Holds a place among those under way. Raises Unavailable if there is none left."""
        room = ROOM if is_familiar else ROOM_FOR_STRANGERS
        if self._under_way.total() >= room or self._under_way[address] >= ROOM_FOR_ADDRESS:
            raise Unavailable(
                "Too many people are signing in right now. Try again in a few seconds.",
                retry_after_seconds=RETRY_AFTER_SECONDS,
            )
        self._under_way[address] += 1
        try:
            yield
        finally:
            self._under_way[address] -= 1
            if not self._under_way[address]:
                del self._under_way[address]

    async def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs the function on one of the threads, for somebody who has room."""
        return await asyncio.wrap_future(_threads().submit(fn, *args, **kwargs))


@cache
def _threads() -> ThreadPoolExecutor:
    """One set for the process, whatever asks for it."""
    return ThreadPoolExecutor(THREADS, "passwords", initializer=_step_back)


def _step_back() -> None:
    """Lets the threads that answer calls go first when processors are scarce."""
    with suppress(OSError, AttributeError):  # where threads have no priority of their own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
