"""Reads with one statement, which is a snapshot by itself: no transaction is begun for it.

No unit says how many statements it has. It is run as if it had one; if it asks again, it is run anew in a transaction, and the next
time it is in one from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# More functions than there are in the program: so many are seen only if they are made anew for each call.
MAX_REMEMBERED = 1_000


class AsksAgain(BaseException):
    """A unit that was thought to have one statement has another. No Exception: no unit may catch it."""


class SeveralStatements:
    """The functions that read with more than one statement, as far as they have been seen."""

    def __init__(self) -> None:
        self._seen: set[Callable[..., Any]] = set()

    def __contains__(self, fn: Callable[..., Any]) -> bool:
        return fn in self._seen

    def add(self, fn: Callable[..., Any]) -> None:
        if len(self._seen) < MAX_REMEMBERED:
            self._seen.add(fn)


def nobody_listens(channel: str) -> None:
    """What a unit that only reads notifies."""
