"""The only place where tests pause. A test waits for a fact, never for a time: a busy machine must not make one fail.

Whatever waits in vain gives up after minutes, so that a fault ends in a failure and not in silence.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 180
PAUSE_SECONDS = 0.01
# Whoever has waited for long looks less often: to look may cost a call, and others need the processor.
_PAUSE_SHARE, _LONGEST_PAUSE_SECONDS = 0.1, 0.25
_LOOKS = 20


def eventually(condition: Callable[[], T], what: str = "it did not come about") -> T:
    """Waits until the condition holds, and returns what it returned."""
    began = time.monotonic()
    while not (found := condition()):
        waited = time.monotonic() - began
        assert waited < PATIENCE_SECONDS, what
        time.sleep(min(max(PAUSE_SECONDS, waited * _PAUSE_SHARE), _LONGEST_PAUSE_SECONDS))
    return found


def stays(condition: Callable[[], object], what: str = "it did not stay so") -> None:
    """Looks for a little while whether the condition holds. That nothing happens is no fact to wait for; on a busy machine this
    sees less, and never what is not there."""
    for _ in range(_LOOKS):
        assert condition(), what
        time.sleep(PAUSE_SECONDS)


def take_time(seconds: float) -> None:
    """For a part in a test that is slow on purpose: a receiver, a bank, a transaction that others must wait for."""
    time.sleep(seconds)


async def take_time_async(seconds: float) -> None:
    await asyncio.sleep(seconds)
