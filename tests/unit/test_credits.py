"""A random walk of grants, reservations, confirmations, expiries and dead processes never loses or invents a credit."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kontobahn import credits
from kontobahn.access import organizations
from kontobahn.clock import DAY, SECOND, ManualClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.errors import Conflict, NotFound, OutOfCredits
from kontobahn.settings import load
from tests.harness import ACTOR, START, place_migrated_sqlite

CAUSE = credits.Cause("req", "GET /x", None, "API")
STEPS = st.one_of(
    st.tuples(st.just("grant"), st.integers(1, 50), st.one_of(st.none(), st.integers(1, 40))),
    st.tuples(st.just("reserve"), st.integers(1, 9), st.integers(1, 60)),
    st.tuples(st.just("confirm"), st.integers(0, 9), st.just(0)),
    st.tuples(st.just("expire"), st.integers(0, 9), st.just(0)),
    st.tuples(st.just("die"), st.integers(0, 9), st.just(0)),
    st.tuples(st.just("wait"), st.integers(1, 30), st.just(0)),
    st.tuples(st.just("jobs"), st.just(0), st.just(0)),
)


class Walk:
    """The model: credits as single coins, each knowing when it lapses."""

    def __init__(self, db: Database, clock: ManualClock) -> None:
        self.db, self.clock = db, clock
        self.organization = db.write_now(organizations.create, "Wanderer", ACTOR).id
        self.granted = 0
        self.holds: dict[str, tuple[int, int]] = {}
        self.spent = 0

    def step(self, action: str, number: int, extra: int | None) -> None:
        getattr(self, action)(number, extra)
        self.check()

    def grant(self, amount: int, days: int | None) -> None:
        expires_at = None if days is None else self.clock.now() + days * DAY
        self.db.write_now(credits.grant, self.organization, amount, expires_at=expires_at)
        self.granted += amount

    def reserve(self, amount: int, days: int | None) -> None:
        before = self.balance()
        seconds = (days or 1) * 86400
        hold = self.db.write_now(_try_to_reserve, self.organization, amount, seconds)
        if isinstance(hold, int):
            assert hold < amount
            return
        assert before.available >= amount
        self.holds[hold.id] = (amount, self.clock.now() + seconds * SECOND)

    def confirm(self, number: int, _: int | None) -> None:
        if chosen := self.choose(number):
            self.db.write_now(credits.confirm, self.organization, chosen)
            self.spent += self.holds.pop(chosen)[0]

    def expire(self, number: int, _: int | None) -> None:
        if chosen := self.choose(number):
            assert self.db.write_now(credits.expire, self.organization, chosen)
            del self.holds[chosen]
            assert self.db.write_now(credits.expire, self.organization, chosen) is False

    def die(self, number: int, _: int | None) -> None:
        """A process goes without a word: nobody confirms or expires its hold any more."""
        if chosen := self.choose(number):
            amount, _until = self.holds[chosen]
            self.holds[chosen] = (amount, self.clock.now())
            self.db.write_now(
                lambda tx: tx.run("UPDATE credit_holds SET expires_at = ? WHERE id = ?", self.clock.now(), chosen)
            )

    def wait(self, days: int, _: int | None) -> None:
        self.clock.advance(seconds=days * 86400)

    def jobs(self, *_: Any) -> None:
        self.db.write_now(credits.expire_stale_holds)
        self.db.write_now(credits.lapse_due_grants)
        self.holds = {hold: item for hold, item in self.holds.items() if item[1] > self.clock.now()}
        due = self.db.read_now(lambda tx: tx.all(
            "SELECT id FROM credit_grants WHERE organization_id = ? AND expires_at <= ? AND remaining > 0",
            self.organization, self.clock.now(),
        ))  # fmt: skip
        assert due == []

    def choose(self, number: int) -> str | None:
        alive = sorted(self.holds)
        return alive[number % len(alive)] if alive else None

    def balance(self) -> credits.Balance:
        return self.db.read_now(credits.balance, self.organization)

    def check(self) -> None:
        balance = self.balance()
        assert balance.granted == self.granted
        assert balance.spent == self.spent
        assert balance.reserved == sum(amount for amount, _ in self.holds.values())
        assert balance.available == self.granted - self.spent - balance.reserved - balance.lapsed
        assert balance.available >= 0
        assert self.db.read_now(_unlapsed, self.organization) == balance.available
        assert [text for text in self.db.read_now(credits.find_discrepancies) if self.organization in text] == []


def _try_to_reserve(tx: Tx, organization_id: str, amount: int, seconds: int) -> credits.Hold | int:
    """The hold, or what was available when it was refused."""
    try:
        return credits.reserve(tx, organization_id, amount, hold_seconds=seconds, cause=CAUSE)
    except OutOfCredits as refusal:
        return int(refusal.extra["verfuegbar"])


def _unlapsed(tx: Tx, organization_id: str) -> int:
    """The credits that the grants say are left, less what was used since they were last settled."""
    row = tx.one(
        "SELECT (SELECT COALESCE(SUM(remaining), 0) FROM credit_grants WHERE organization_id = ?)"
        " - (SELECT reserved + spent - allocated FROM credit_accounts WHERE organization_id = ?)",
        organization_id, organization_id,
    )  # fmt: skip
    assert row is not None
    return int(row[0])


@pytest.fixture
def database(engine: str, request: pytest.FixtureRequest) -> Iterator[tuple[Database, ManualClock]]:
    url: str = request.getfixturevalue("database_url")
    clock = ManualClock(START)
    with tempfile.TemporaryDirectory() as folder:
        loaded = load({}, data=str(Path(folder)), database_url=url, database_connections=2)
        place_migrated_sqlite(loaded)
        db = open_database(loaded, clock)
        yield db, clock
        db.close()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=5, max_size=40))
def test_no_walk_loses_or_invents_a_credit(
    database: tuple[Database, ManualClock], steps: list[tuple[str, int, int | None]]
) -> None:
    walk = Walk(*database)
    walk.step("grant", 20, None)
    for action, number, extra in steps:
        walk.step(action, number, extra)
    # In the end every process is gone and every job has run: nothing stays reserved.
    walk.step("wait", 61, None)
    walk.step("jobs", 0, None)
    assert walk.balance().reserved == 0


def test_the_grant_that_expires_first_is_used_first(database: tuple[Database, ManualClock]) -> None:
    db, clock = database
    walk = Walk(db, clock)
    for amount, days in ((10, None), (10, 20), (10, 5)):
        walk.step("grant", amount, days)
    for _ in itertools.repeat(None, 3):
        walk.step("reserve", 4, 60)
    for _ in range(3):
        walk.step("confirm", 0, None)
    walk.step("wait", 6, None)
    walk.step("jobs", 0, None)
    assert walk.balance().lapsed == 0  # twelve were used: all ten of the first, two of the second
    walk.step("wait", 20, None)
    walk.step("jobs", 0, None)
    assert walk.balance().lapsed == 8


def test_credits_reserved_from_a_grant_that_lapses_meanwhile_come_back(database: tuple[Database, ManualClock]) -> None:
    db, clock = database
    walk = Walk(db, clock)
    walk.step("grant", 10, 5)
    walk.step("reserve", 6, 60)
    walk.step("wait", 6, None)
    walk.step("jobs", 0, None)
    assert walk.balance() == credits.Balance(available=0, reserved=6, spent=0, lapsed=4, granted=10)
    walk.step("expire", 0, None)
    walk.step("grant", 1, None)
    assert walk.balance() == credits.Balance(available=7, reserved=0, spent=0, lapsed=4, granted=11)


# --- Edges


def test_what_may_be_granted_and_to_whom(database: tuple[Database, ManualClock]) -> None:
    db, clock = database
    walk = Walk(db, clock)
    for amount, expires_at in ((0, None), (-1, None), (1, clock.now()), (1, clock.now() - 1)):
        with pytest.raises(Conflict):
            db.write_now(credits.grant, walk.organization, amount, expires_at=expires_at)
    db.write_now(credits.grant, walk.organization, 1, expires_at=clock.now() + 1)
    assert walk.balance().granted == 1
    for call in (credits.balance, lambda tx, who: credits.grant(tx, who, 1)):
        with pytest.raises(NotFound):
            db.write_now(call, "nobody")


def test_the_last_credit_can_be_set_aside_and_not_one_more_nor_after_its_end(
    database: tuple[Database, ManualClock],
) -> None:
    db, clock = database
    walk, other = Walk(db, clock), Walk(db, clock)
    walk.step("grant", 3, 1)
    other.step("grant", 50, None)
    assert db.write_now(_try_to_reserve, walk.organization, 4, 60) == 3
    hold = db.write_now(credits.reserve, walk.organization, 2, hold_seconds=60, cause=CAUSE)
    assert (hold.amount, hold.available) == (2, 1)
    clock.advance(seconds=86_399)
    assert isinstance(db.write_now(_try_to_reserve, walk.organization, 1, 60), credits.Hold)
    db.write_now(credits.expire_stale_holds)
    assert walk.balance().available == 2
    clock.advance(seconds=1)
    assert db.write_now(_try_to_reserve, walk.organization, 1, 60) == 0, "the grant ends at this instant"
    assert db.write_now(credits.lapse_due_grants) == 0, "a call that is refused for it has lapsed it"


def test_a_reservation_ends_at_its_instant_and_is_settled_once_by_its_owner(
    database: tuple[Database, ManualClock],
) -> None:
    db, clock = database
    walk, other = Walk(db, clock), Walk(db, clock)
    walk.step("grant", 9, None)
    holds = [
        db.write_now(credits.reserve, walk.organization, amount, hold_seconds=60, cause=CAUSE).id
        for amount in (1, 2, 3)
    ]
    assert db.write_now(credits.expire, other.organization, holds[0]) is False, "somebody else's"
    assert db.write_now(credits.confirm, walk.organization, holds[0]) == 3
    with pytest.raises(credits.HoldLapsed):
        db.write_now(credits.confirm, walk.organization, holds[0])
    assert db.write_now(credits.expire, walk.organization, holds[0]) is False
    clock.advance(seconds=59)
    assert db.write_now(credits.expire_stale_holds) == 0
    clock.advance(seconds=1)
    assert [db.write_now(credits.expire_stale_holds, limit=1) for _ in range(3)] == [1, 1, 0]
    assert walk.balance() == credits.Balance(available=8, reserved=0, spent=1, lapsed=0, granted=9)
    lines = db.read_now(credits.statement, walk.organization)
    assert [(line.kind, line.amount, line.available_after, line.reserved_after) for line in lines[-2:]] == [
        ("expire", 2, 5, 3), ("expire", 3, 8, 0),
    ]  # fmt: skip
    assert [line.line for line in lines] == list(range(1, 8))
    assert db.read_now(credits.statement, walk.organization, after_line=2, limit=3) == lines[2:5]
    assert {(line.request_id, line.endpoint, line.quelle) for line in lines[1:]} == {("req", "GET /x", "API")}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            "UPDATE credit_accounts SET spent = spent + 1, available = available - 1 WHERE organization_id = ?",
            "the account says",
        ),
        ("UPDATE credit_accounts SET last_line = last_line + 1 WHERE organization_id = ?", "the account says"),
        ("UPDATE credit_holds SET amount = amount + 1 WHERE organization_id = ?", "open reservations"),
        ("DELETE FROM credit_holds WHERE organization_id = ?", "open reservations"),
    ],
)
def test_a_difference_is_found(database: tuple[Database, ManualClock], change: str, expected: str) -> None:
    db, clock = database
    walk, other = Walk(db, clock), Walk(db, clock)
    for one in (walk, other):
        one.step("grant", 9, None)
        one.step("reserve", 4, 60)
    assert db.read_now(credits.find_discrepancies) == []
    db.write_now(lambda tx: tx.run(change, walk.organization))
    [found] = db.read_now(credits.find_discrepancies)
    assert walk.organization in found
    assert expected in found


def test_what_is_given_back_returns_to_the_grant_that_expires_last(database: tuple[Database, ManualClock]) -> None:
    db, clock = database
    walk = Walk(db, clock)
    walk.step("grant", 10, 5)
    walk.step("grant", 10, 20)
    holds = [
        db.write_now(credits.reserve, walk.organization, amount, hold_seconds=10**7, cause=CAUSE).id
        for amount in (8, 4)
    ]
    db.write_now(
        credits.grant, walk.organization, 1
    )  # books what was set aside: ten to the first grant, two to the second
    db.write_now(credits.expire, walk.organization, holds[1])
    clock.advance(seconds=6 * 86_400)
    db.write_now(credits.lapse_due_grants)
    assert walk.balance().lapsed == 2


def test_the_end_of_another_organisation_s_grant_stops_nobody(database: tuple[Database, ManualClock]) -> None:
    db, clock = database
    walk, other = Walk(db, clock), Walk(db, clock)
    other.step("grant", 5, 1)
    walk.step("grant", 5, 30)
    clock.advance(seconds=2 * 86_400)
    walk.step("grant", 1, None)
    assert isinstance(db.write_now(_try_to_reserve, walk.organization, 6, 60), credits.Hold)


def test_what_nobody_uses_lapses_at_its_instant(database: tuple[Database, ManualClock]) -> None:
    db, clock = database
    walk = Walk(db, clock)
    walk.step("grant", 3, 1)
    clock.advance(seconds=86_399)
    assert (db.write_now(credits.lapse_due_grants), walk.balance().lapsed) == (0, 0)
    clock.advance(seconds=1)
    assert (db.write_now(credits.lapse_due_grants), walk.balance().lapsed) == (1, 3)
    assert db.write_now(credits.lapse_due_grants) == 0
