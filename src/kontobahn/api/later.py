"""What a call that failed leaves to tidy up: written at once, or as soon as the database is back.

A key or a reservation that nobody frees is free again when its lease ends, minutes later; until then the caller's repeats are refused.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from kontobahn import log
from kontobahn.db import Database
from kontobahn.errors import KontobahnError, Unavailable

PAUSE_SECONDS = 1.0
# Of a process. More calls than these can hardly have been running when the database went away.
MAX_WAITING = 2000


class Later:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: set[asyncio.Task[None]] = set()

    async def write(self, fn: Callable[..., object], *args: Any, seconds: float, event: str, **fields: Any) -> None:
        """Runs the unit now, otherwise within so many seconds, after which it is pointless. The event is logged if it gives up."""
        try:
            await self._db.write_together(fn, *args)
        except Unavailable as error:
            if len(self._waiting) >= MAX_WAITING:
                log.warning(event, detail=error.operator or str(error), **fields)
                return
            task = asyncio.create_task(self._repeat(fn, args, time.monotonic() + seconds, event, fields))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
        except KontobahnError as error:
            log.warning(event, detail=str(error), **fields)

    async def _repeat(
        self, fn: Callable[..., object], args: tuple[Any, ...], ends_at: float, event: str, fields: dict[str, Any]
    ) -> None:
        failure: KontobahnError | None = None
        while time.monotonic() < ends_at:
            await asyncio.sleep(PAUSE_SECONDS)
            try:
                await self._db.write_together(fn, *args)
                return
            except Unavailable as error:
                failure = error
            except KontobahnError as error:
                failure = error
                break
        log.warning(event, detail=str(failure), **fields)

    async def close(self) -> None:
        """What still waits is left to expire."""
        for task in tuple(self._waiting):
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)
