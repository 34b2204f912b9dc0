"""Notices when PostgreSQL is silent: it neither answers nor closes its connections (frozen, or lost in the network).

While a statement takes long, the server is asked something trivial over a connection of the watch's own. As long as it answers,
the statement is only slow. If it does not, nobody waits any longer: what has not begun is refused, running statements are cut off,
and new units are refused until the server answers again.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol

import psycopg

from kontobahn import log

CHECK_SECONDS = 0.5
# A statement this old makes the watch ask; an answer may take this long.
ASK_AFTER_SECONDS = 1.0
ANSWER_SECONDS = 4.0
# PostgreSQL itself ends a statement after 120 seconds: if only this one connection is silent, it is cut off then.
LONGEST_STATEMENT_SECONDS = 135.0

Connect = Callable[[], "psycopg.Connection[Any]"]


class Watched(Protocol):
    """A connection in use. `busy_since` (monotonic) is None between statements."""

    busy_since: float | None

    def cut(self) -> None: ...


class Watch:
    def __init__(
        self, connect: Connect, watched: Callable[[], Iterable[Watched]], refuse_waiting: Callable[[], None]
    ) -> None:
        self._connect = connect
        self._watched = watched
        self._refuse_waiting = refuse_waiting
        self._connection: psycopg.Connection[Any] | None = None
        self._ended = threading.Event()
        self.is_silent = False
        self._thread = threading.Thread(target=self._run, name="postgres-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(CHECK_SECONDS):
            asked_at = time.monotonic()
            busy = self._busy_before(asked_at - ASK_AFTER_SECONDS)
            if not busy and not self.is_silent:
                continue
            answered = self._ask()
            if answered and self.is_silent:
                log.info("database_answers_again")
            if not answered and not self.is_silent:
                log.error("database_silent", consequence="calls are refused until it answers")
            self.is_silent = not answered
            if self.is_silent:
                self._refuse_waiting()
                self._cut(self._busy_before(asked_at))
            else:
                self._cut(self._busy_before(asked_at - LONGEST_STATEMENT_SECONDS))
        if self._connection is not None:
            self._connection.close()

    def _busy_before(self, instant: float) -> list[Watched]:
        return [item for item in self._watched() if item.busy_since is not None and item.busy_since <= instant]

    @staticmethod
    def _cut(connections: list[Watched]) -> None:
        for connection in connections:
            connection.cut()

    def _ask(self) -> bool:
        """Returns False only if the server is silent. One that refuses connections is down, and says so to everybody."""
        try:
            if self._connection is None or self._connection.closed:
                self._connection = self._connect()
            pgconn = self._connection.pgconn
            pgconn.send_query(b"SELECT 1")
            ends_at = time.monotonic() + ANSWER_SECONDS
            while pgconn.is_busy():
                left = ends_at - time.monotonic()
                if left <= 0 or not _is_readable(pgconn.socket, left):
                    self._connection.close()
                    return False
                pgconn.consume_input()
            while pgconn.get_result() is not None:
                pass
            return True
        except psycopg.errors.ConnectionTimeout:
            return False
        except (psycopg.Error, OSError):
            if self._connection is not None:
                self._connection.close()
            return True


def _is_readable(descriptor: int, seconds: float) -> bool:
    # Not `select`, which fails for a process with more than a thousand open files.
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


class Line:
    """A second handle on a connection's socket, by which another thread can cut it off while libpq waits for an answer."""

    __slots__ = ("_socket",)

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        # A duplicate: the number of the original may be another connection's by the time it is used.
        self._socket = socket.socket(fileno=socket.dup(connection.pgconn.socket))

    def cut(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()
