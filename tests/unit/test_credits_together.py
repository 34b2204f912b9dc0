"""Credits of calls that wait at the same moment: each account is changed once, and everything is as if one had come after another."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from kontobahn import credits
from kontobahn.access import organizations
from kontobahn.clock import DAY, SECOND, ManualClock
from kontobahn.credits import Hold, HoldLapsed
from kontobahn.db import Database, open_database
from kontobahn.errors import OutOfCredits
from kontobahn.settings import load
from tests.harness import ACTOR, START, place_migrated_sqlite
from tests.unit.test_group_commit import waiting_together

CAUSE = credits.Cause("req", "GET /x", None, 'API "quoted" \\ {a,b}')


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def db(database_url: str, tmp_path: Path, clock: ManualClock) -> Iterator[Database]:
    settings = load({}, data=str(tmp_path), database_url=database_url)
    place_migrated_sqlite(settings)
    database = open_database(settings, clock)
    yield database
    database.close()


def organization(db: Database, granted: int) -> str:
    made = db.write_now(organizations.create, "Muster GmbH", ACTOR).id
    db.write_now(credits.grant, made, granted)
    return made


def reserving(db: Database, organization_id: str, amount: int) -> Awaitable[Hold]:
    return db.write_together(organization_id, credits.reserve, organization_id, amount, hold_seconds=60, cause=CAUSE)


def reserved(db: Database, organization_id: str, *amounts: int) -> list[Hold]:
    found = waiting_together(db, lambda: [reserving(db, organization_id, amount) for amount in amounts])
    assert all(isinstance(hold, Hold) for hold in found), found
    return found  # type: ignore[return-value]


def test_the_statement_reads_as_if_each_had_come_alone(db: Database) -> None:
    one, other = organization(db, 100), organization(db, 10)
    first = reserved(db, one, 5, 7)
    outcomes = waiting_together(
        db,
        lambda: [
            reserving(db, one, 20),
            db.write_together(one, credits.confirm, one, first[0].id),
            reserving(db, other, 3),
            db.write_together(one, credits.expire, one, first[1].id),
            reserving(db, one, 1),
        ],
    )
    held = [outcome for outcome in outcomes if isinstance(outcome, Hold)]
    assert [outcome.available if isinstance(outcome, Hold) else outcome for outcome in outcomes] == [
        68,
        68,
        7,
        True,
        74,
    ]
    lines = db.read_now(credits.statement, one)
    assert [(line.line, line.kind, line.amount, line.available_after, line.reserved_after) for line in lines] == [
        (1, "grant", 100, 100, 0),
        (2, "reserve", 5, 95, 5),
        (3, "reserve", 7, 88, 12),
        (4, "reserve", 20, 68, 32),
        (5, "confirm", 5, 68, 27),
        (6, "expire", 7, 75, 20),
        (7, "reserve", 1, 74, 21),
    ]
    assert [line.reference for line in lines[3:]] == [held[0].id, first[0].id, first[1].id, held[2].id]
    assert {line.quelle for line in lines[1:]} == {CAUSE.quelle}
    assert db.read_now(credits.find_discrepancies) == []


def test_of_too_many_reservations_as_many_succeed_as_there_are_credits_and_what_is_settled_stays_so(
    db: Database,
) -> None:
    one = organization(db, 10)
    (first,) = reserved(db, one, 4)
    outcomes = waiting_together(
        db,
        lambda: [
            *(reserving(db, one, 2) for _ in range(5)), db.write_together(one, credits.confirm, one, first.id),
        ],
    )  # fmt: skip
    assert [type(outcome) for outcome in outcomes] == [Hold, Hold, Hold, OutOfCredits, OutOfCredits, int]
    assert tuple(db.read_now(credits.balance, one)) == (0, 6, 4, 0, 10)
    assert db.read_now(credits.find_discrepancies) == []


def test_a_hold_is_settled_once_however_often_it_is_asked_at_the_same_moment(db: Database) -> None:
    one = organization(db, 10)
    (hold,) = reserved(db, one, 4)
    outcomes = waiting_together(db, lambda: [db.write_together(one, credits.confirm, one, hold.id) for _ in range(3)])
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["HoldLapsed", "HoldLapsed", "int"]
    assert tuple(db.read_now(credits.balance, one)) == (6, 0, 4, 0, 10)


def test_what_has_expired_lapses_before_anything_is_reserved(db: Database, clock: ManualClock) -> None:
    one = organization(db, 3)
    db.write_now(credits.grant, one, 50, expires_at=clock.now() + DAY)
    clock.advance(seconds=2 * DAY / SECOND)
    outcomes = waiting_together(db, lambda: [reserving(db, one, 2), reserving(db, one, 2)])
    assert [type(outcome) for outcome in outcomes] == [Hold, OutOfCredits]
    assert db.read_now(credits.balance, one).lapsed == 50
    assert db.read_now(credits.find_discrepancies) == []


def at_once(
    db: Database, settled: list[tuple[str, Hold, Callable[..., object]]], wanted: list[tuple[str, int]]
) -> list[object]:
    return waiting_together(
        db,
        lambda: [
            *(db.write_together(id, settle, id, hold.id) for id, hold, settle in settled),
            *(reserving(db, id, amount) for id, amount in wanted),
        ],
    )


def test_random_groups_never_lose_or_invent_a_credit(db: Database) -> None:
    chance = random.Random(20)
    accounts = {organization(db, 60): 60 for _ in range(3)}
    holds: list[tuple[str, Hold]] = []
    spent = dict.fromkeys(accounts, 0)
    for _ in range(25):
        settled = [holds.pop(chance.randrange(len(holds))) for _ in range(min(len(holds), chance.randint(0, 5)))]
        plan: list[tuple[str, Hold, Callable[..., object]]] = [
            (id, hold, chance.choice([credits.confirm, credits.expire])) for id, hold in settled
        ]
        wanted = [(chance.choice(list(accounts)), chance.randint(1, 9)) for _ in range(chance.randint(1, 6))]
        outcomes = at_once(db, plan, wanted)
        assert not any(isinstance(outcome, HoldLapsed) for outcome in outcomes)
        for id, hold, settle in plan:
            spent[id] += hold.amount if settle is credits.confirm else 0
        for (id, amount), outcome in zip(wanted, outcomes[len(plan) :], strict=True):
            assert isinstance(outcome, Hold | OutOfCredits)
            if isinstance(outcome, Hold):
                assert outcome.amount == amount
                holds.append((id, outcome))
    assert db.read_now(credits.find_discrepancies) == []
    for id, granted in accounts.items():
        balance = db.read_now(credits.balance, id)
        open_holds = sum(hold.amount for of, hold in holds if of == id)
        assert (balance.spent, balance.reserved) == (spent[id], open_holds)
        assert balance.available == granted - spent[id] - open_holds
