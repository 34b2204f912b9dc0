"""Copies SQLite's write-ahead log into its database, in a thread of its own.

By itself SQLite does that at the end of whichever commit finds the log long enough: a call with one small row would wait for
the megabytes that others have written.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress

# Between two times, so that a page that is changed again and again is copied once.
PAUSE_SECONDS = 0.25
# What was written while the log was copied is copied at once, for only a log that is copied to its end is begun anew.
MOST_PASSES = 4
# 128 MiB: if the thread does not keep up, a commit does it after all.
FALLBACK_PAGES = 16_384


class Checkpoints:
    """`committed` is told of every commit."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._wanted, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._copy_when_wanted, name="sqlite-checkpoints", daemon=True)
        self._thread.start()

    def committed(self) -> None:
        if not self._wanted.is_set():
            self._wanted.set()

    def close(self) -> None:
        self._closed.set()
        self._wanted.set()
        self._thread.join()
        self._connection.close()

    def _copy_when_wanted(self) -> None:
        while self._wanted.wait() and not self._closed.is_set():
            self._wanted.clear()
            # What cannot be copied now stays in the log, and is copied the next time.
            with suppress(sqlite3.Error):
                self._copy()
            self._closed.wait(PAUSE_SECONDS)

    def _copy(self) -> None:
        for _ in range(MOST_PASSES):
            [(_, pages, copied)] = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            if copied == pages:
                return
