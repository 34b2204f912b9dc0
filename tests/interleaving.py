"""Two real transactions at once on PostgreSQL: the second begins when the first has written and not committed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from kontobahn.db import Database, Tx

on_postgres = pytest.mark.parametrize("engine", ["postgres"], indirect=True)
Unit = Callable[[Tx], Any]


class Overlap(NamedTuple):
    """The result of each; an exception if it raised one."""

    first: Any
    second: Any
    # Whether the second waited for the first to commit, and for which lock of ours; None if for a row that both wrote.
    waited: bool
    lock: str | None


class _Watched:
    """A transaction that tells which lock it is about to take."""

    def __init__(self) -> None:
        self.lock_asked: str | None = None

    def watch(self, tx: Tx) -> Tx:
        self._tx = tx
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    def lock(self, *names: str) -> None:
        self.lock_asked = names[0]
        self._tx.lock(*names)
        self.lock_asked = None


def overlap(db: Database, first: Unit, second: Unit) -> Overlap:
    """Runs `first` up to its commit, then `second` until it ends or waits for a lock, then both to their ends."""
    written, commit = threading.Event(), threading.Event()

    def held(tx: Tx) -> Any:
        result = first(tx)
        written.set()
        commit.wait()
        return result

    with ThreadPoolExecutor(2) as threads:
        try:
            one = threads.submit(db.write_now, held)
            one.add_done_callback(lambda _: written.set())
            written.wait()
            watched = _Watched()
            two = threads.submit(db.write_now, lambda tx: second(watched.watch(tx)))
            waited, lock = False, None
            while not waited and not two.done():
                waited, lock = db.read_now(_somebody_waits), watched.lock_asked
        finally:
            commit.set()
        return Overlap(_outcome(one), _outcome(two), waited, lock if waited else None)


def _outcome(future: Future[Any]) -> Any:
    return future.exception() or future.result()


def _somebody_waits(tx: Tx) -> bool:
    return bool(
        tx.one("SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
    )
