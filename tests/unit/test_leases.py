"""A lease is held by one at a time, renewed while it is held, and given up or expired after that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kontobahn.clock import ManualClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.db.leases import Lease, renewing
from kontobahn.errors import Unavailable
from kontobahn.settings import load
from tests.harness import START
from tests.waiting import PAUSE_SECONDS, take_time_async

LEASE = Lease("work", key=("name",), seconds=10, while_open="state = 'open'")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def db(database_url: str, tmp_path: Path, clock: ManualClock) -> Iterator[Database]:
    database = open_database(load({}, data=str(tmp_path), database_url=database_url, database_connections=4), clock)
    database.write_now(
        lambda tx: tx.run("CREATE TABLE work (name TEXT PRIMARY KEY, state TEXT, tries BIGINT, lease_until BIGINT)")
    )
    database.write_now(lambda tx: tx.run("INSERT INTO work VALUES ('a', 'open', 0, NULL), ('b', 'open', 0, 0)"))
    yield database
    database.close()


def claim(tx: Tx, name: str) -> int | None:
    row = LEASE.claim(tx, name, setting="tries = tries + 1", only_if="tries < ?", params=(3,), returning="tries")
    return None if row is None else int(row[0])


def test_a_row_is_claimed_by_one_until_its_lease_has_expired(db: Database, clock: ManualClock) -> None:
    assert db.write_now(claim, "a") == 1
    assert db.write_now(claim, "a") is None
    assert db.write_now(claim, "b") == 1, "each has its own"
    clock.advance(seconds=9.999)
    assert db.write_now(claim, "a") is None
    clock.advance(seconds=0.001)
    assert db.write_now(claim, "a") == 2


def test_what_is_renewed_is_held_for_longer_and_what_was_given_up_is_not(db: Database, clock: ManualClock) -> None:
    assert not db.write_now(LEASE.renew, "a"), "nobody holds it"
    db.write_now(claim, "a")
    clock.advance(seconds=9)
    assert db.write_now(LEASE.renew, "a")
    clock.advance(seconds=9)
    assert db.write_now(claim, "a") is None
    assert db.write_now(LEASE.give_up, "a")
    assert not db.write_now(LEASE.renew, "a")
    assert db.write_now(claim, "a") == 2


def test_what_is_over_is_neither_claimed_nor_renewed_nor_given_up_again(db: Database) -> None:
    db.write_now(claim, "a")
    assert db.write_now(lambda tx: LEASE.give_up(tx, "a", state="done"))
    assert not db.write_now(lambda tx: LEASE.give_up(tx, "a", state="open"))
    assert not db.write_now(LEASE.renew, "a")
    assert db.write_now(claim, "a") is None


def test_a_further_condition_is_a_part_of_claiming(db: Database) -> None:
    for tries in (1, 2, 3):
        assert db.write_now(claim, "a") == tries
        db.write_now(LEASE.give_up, "a")
    assert db.write_now(claim, "a") is None


@pytest.mark.either_engine
def test_it_is_renewed_again_after_a_failure_and_until_its_work_is_over(db: Database) -> None:
    renewals: list[str] = []

    def renew(tx: Tx, name: str) -> None:
        renewals.append(name)
        if len(renewals) == 1:
            raise Unavailable("not now")

    async def main() -> None:
        task = renewing(db, 0, renew, "a")
        while len(renewals) < 3:
            await take_time_async(PAUSE_SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    asyncio.run(main())


def test_between_two_renewals_it_waits_for_as_long_as_it_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []

    async def note(what: object, *args: object) -> None:
        done.append(what)
        if len(done) == 5:
            raise asyncio.CancelledError

    async def main() -> None:
        noting: Any = SimpleNamespace(write=note)
        await asyncio.gather(renewing(noting, 4, LEASE.renew, "a"), return_exceptions=True)

    monkeypatch.setattr("kontobahn.db.leases.asyncio.sleep", note)
    asyncio.run(main())
    assert done == [4, LEASE.renew, 4, LEASE.renew, 4]
