"""Lets those who follow the log of events wait for the next one instead of asking again and again."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kontobahn.db import Database
from kontobahn.webhooks.outbox import CHANNEL


class Watch:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._next = asyncio.Event()
        self._is_open = False

    def start(self) -> None:
        loop = asyncio.get_running_loop()

        def heard() -> None:
            with suppress(RuntimeError):  # the loop has gone
                loop.call_soon_threadsafe(self._turn)

        self._end_listening = self._db.listen(CHANNEL, heard)
        self._is_open = True

    def close(self) -> None:
        """Send everybody who waits home: the process is about to stop."""
        if self._is_open:
            self._is_open = False
            self._end_listening()
            self._turn()

    @property
    def is_open(self) -> bool:
        return self._is_open

    def ticket(self) -> asyncio.Event:
        """Set when the next event is written in this process; take it before looking into the log."""
        return self._next

    def _turn(self) -> None:
        passed, self._next = self._next, asyncio.Event()
        passed.set()
