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
from kontobahn.db.migrate import migrate
from kontobahn.errors import OutOfCredits
from kontobahn.settings import load
from tests.harness import ACTOR, START

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
    """What the grants say is left, less what was used since they were last settled."""
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
        db = open_database(load({}, data=str(Path(folder)), database_url=url, database_connections=2), clock)
        migrate(db)
        yield db, clock
        db.close()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
