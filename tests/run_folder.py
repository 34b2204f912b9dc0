"""A folder of all processes of a run of tests, and what one of them makes there for all."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

# Named by the processes of a run to those that they start.
FOLDER = "TESTS_RUN_FOLDER"


@cache
def _own_folder() -> str:
    """For a process that belongs to no run."""
    folder = tempfile.mkdtemp(prefix="kontobahn-run-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """Returns a folder that the first to ask has made; whoever asks meanwhile waits."""
    parent = Path(os.environ.get(FOLDER) or _own_folder())
    with open(parent / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        place = parent / name
        if not place.exists():
            being_made = parent / f"{name}.new"
            shutil.rmtree(being_made, ignore_errors=True)
            being_made.mkdir()
            make(being_made)
            being_made.rename(place)
    return place
