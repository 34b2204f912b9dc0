"""Writers of several processes on one SQLite file take turns.

SQLite gives its write lock to whoever asks first once it is free, and lets the others ask again up to a tenth of a second later.
A process that writes one transaction after the other would have it again each time, and the others would wait for its last one.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_ASK_AGAIN_SECONDS = 0.002
_PRIMARY_CODE = 0xFF


class Turns:
    """Whoever wants to write takes the turn first, and keeps it until its transaction has begun: so the one that has just
    written waits for the one that was waiting."""

    def __init__(self, folder: Path, most_seconds: float) -> None:
        self._most_seconds = most_seconds
        # The lock is on the folder: closing another descriptor of the database's own file would drop the locks that SQLite holds.
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def begin(self, connection: sqlite3.Connection) -> None:
        """Begins to write. The connection itself must not wait for the lock: it would do so with long pauses."""
        until = time.monotonic() + self._most_seconds
        _wait_for(self._take, until)
        try:
            _wait_for(lambda: _begins(connection), until)
        finally:
            with suppress(OSError):
                fcntl.flock(self._folder, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._folder)

    def _take(self) -> bool:
        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # A file system that has no such locks: SQLite's own has to do.
            return True
        return True


def _begins(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & _PRIMARY_CODE != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True


def _wait_for(attempt: Callable[[], bool], until: float) -> None:
    while not attempt():
        if time.monotonic() >= until:
            raise sqlite3.OperationalError("the database is locked by another process")
        time.sleep(_ASK_AGAIN_SECONDS)
