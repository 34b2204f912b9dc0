"""Several processes write to one SQLite file: whoever waits is next, and nobody waits for ever."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kontobahn.clock import ManualClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.db import sqlite as sqlite_engine
from kontobahn.errors import DatabaseUnavailable
from kontobahn.settings import load
from tests.harness import START
from tests.waiting import eventually

Opener = Callable[[], Database]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """Opens the file of this test as another process would: with an engine of its own."""
    made: list[Database] = []

    def open_again() -> Database:
        made.append(open_database(load({}, data=str(tmp_path)), ManualClock(START)))
        return made[-1]

    yield open_again
    for db in made:
        db.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    found = os.open(tmp_path, os.O_RDONLY)
    yield found
    os.close(found)


def is_taken(folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(folder, fcntl.LOCK_UN)
    return False


def in_background(fn: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=fn, daemon=True)
    thread.start()
    return thread


class Held:
    """A transaction that goes on until it is let go."""

    def __init__(self) -> None:
        self._begun, self._may_end = threading.Event(), threading.Event()

    def unit(self, _tx: Tx) -> None:
        self._begun.set()
        self._may_end.wait()

    def wait_until_begun(self) -> None:
        self._begun.wait()

    def let_go(self) -> None:
        self._may_end.set()


def test_a_writer_that_goes_on_and_on_lets_the_waiting_one_in(opened: Opener, folder: int) -> None:
    busy, other = opened(), opened()
    order: list[str] = []
    for _ in range(20):
        held = Held()

        def write_twice(held: Held = held) -> None:
            busy.write_now(held.unit)
            busy.write_now(lambda _: order.append("again"))

        writing = in_background(write_twice)
        held.wait_until_begun()
        waiting = in_background(lambda: other.write_now(lambda _: order.append("other")))
        eventually(lambda: is_taken(folder), "nobody waits for the turn")
        held.let_go()
        writing.join()
        waiting.join()
    assert order == ["other", "again"] * 20


def test_a_turn_ends_when_the_transaction_has_begun(opened: Opener, folder: int) -> None:
    db, held = opened(), Held()
    writing = in_background(lambda: db.write_now(held.unit))
    held.wait_until_begun()
    assert not is_taken(folder)
    held.let_go()
    writing.join()


@pytest.mark.parametrize("what_is_held", ["the turn", "the file"])
def test_a_process_that_stands_still_makes_others_give_up_and_say_so(
    opened: Opener, folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what_is_held: str
) -> None:
    monkeypatch.setattr(sqlite_engine, "BUSY_TIMEOUT_MS", 1)
    db = opened()
    other = sqlite3.connect(load({}, data=str(tmp_path)).sqlite_path, isolation_level=None)
    if what_is_held == "the turn":
        fcntl.flock(folder, fcntl.LOCK_EX)
    else:
        other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseUnavailable):
        db.write_now(lambda _: None)
    assert what_is_held == "the turn" or not is_taken(folder)
    fcntl.flock(folder, fcntl.LOCK_UN)
    other.close()
    assert db.write_now(lambda _: "written") == "written"


def test_another_program_that_holds_the_file_is_waited_for(opened: Opener, folder: int, tmp_path: Path) -> None:
    db = opened()
    other = sqlite3.connect(load({}, data=str(tmp_path)).sqlite_path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    answers: list[str] = []
    waiting = in_background(lambda: answers.append(db.write_now(lambda _: "written")))
    eventually(lambda: is_taken(folder), "it does not wait")
    assert not answers
    other.execute("ROLLBACK")
    waiting.join()
    assert answers == ["written"]
    other.close()


def test_a_folder_that_cannot_be_locked_does_not_stop_anybody(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    db = opened()
    monkeypatch.setattr(fcntl, "flock", refuse)
    assert db.write_now(lambda _: "written") == "written"


def test_a_new_file_gets_its_log_in_a_turn(opened: Opener, folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite refuses at once where two connections would do so at the same time."""
    connect, in_turn = sqlite_engine.SqliteEngine._connect, []

    def noted(engine: sqlite_engine.SqliteEngine, *, read_only: bool = False) -> sqlite3.Connection:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            in_turn.append(True)
        else:
            in_turn.append(False)
            fcntl.flock(folder, fcntl.LOCK_UN)
        return connect(engine, read_only=read_only)

    monkeypatch.setattr(sqlite_engine.SqliteEngine, "_connect", noted)
    opened()
    assert in_turn[0]
    assert not any(in_turn[1:])
