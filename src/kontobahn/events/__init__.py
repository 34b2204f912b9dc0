"""The event log and the receiver's settings over HTTP: what is about to be delivered, what was, and where to.

Writing and delivering events is `webhooks/`, below. Nothing here knows what an event is about.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NamedTuple

from kontobahn.db import Database
from kontobahn.outbound import OutboundClient
from kontobahn.webhooks.outbox import CHANNEL

# Lets those who follow the event log wait for the next event instead of polling.


class Watch:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._next = asyncio.Event()
        self._is_open = False

    def start(self) -> None:
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has gone
                loop.call_soon_threadsafe(self._release_waiting)

        self._end_listening = self._db.listen(CHANNEL, wake)
        self._is_open = True

    def close(self) -> None:
        """Releases all waiting calls: the process is about to stop."""
        if self._is_open:
            self._is_open = False
            self._end_listening()
            self._release_waiting()

    @property
    def is_open(self) -> bool:
        return self._is_open

    def ticket(self) -> asyncio.Event:
        """Returns what is set when this process writes its next event. Take it before reading the log."""
        return self._next

    def _release_waiting(self) -> None:
        passed, self._next = self._next, asyncio.Event()
        passed.set()


class Events(NamedTuple):
    """The event log's part of the application."""

    outbound: OutboundClient
    watch: Watch
