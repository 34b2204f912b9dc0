"""The events that a deliverer may claim, and what becomes of an attempt: every edge, without a network."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kontobahn.clock import DAY, HOUR, MINUTE, SECOND
from kontobahn.outbound import Reply
from kontobahn.webhooks import claims, deliverer, outbox, receiver
from kontobahn.webhooks.claims import Capacity, Claimed, Cycle, Outcome
from kontobahn.webhooks.deliverer import Deliverer
from tests.harness import Organization, Service

# What both engines do alike is tried on one; tests/api/webhooks has both.
pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
PLENTY = Capacity(100, 100, 100, 100, {}, (), frozenset())
URL = "https://receiver.example/hook"


class Sender:
    """Runs cycles as one process would, and ends attempts as the test says."""

    def __init__(self, service: Service, owner: str = "one") -> None:
        self.service, self.owner = service, owner

    def customer(self, name: str = "Muster GmbH", *subjects: str) -> Organization:
        made = self.service.organization(name)
        answer = self.service.request("PUT", "/v2/banking/webhook-url", made.key, json={"webhook_url": URL})
        assert answer.status_code == 200, answer.text
        self.emit(made, *subjects)
        return made

    def emit(self, owner: Organization, *subjects: str) -> None:
        for subject in subjects:
            self.service.db.write_now(outbox.emit, owner.id, "payment_update", subject, {})

    def cycle(self, *outcomes: Outcome, capacity: Capacity = PLENTY, seconds: float = 60) -> Cycle:
        return self.service.db.write_now(
            claims.run_cycle, self.owner, list(outcomes), capacity, claim_seconds=seconds, pause_days=5
        )

    def claim(self, **more: Any) -> list[Claimed]:
        return sorted(self.cycle(**more).claimed)

    def ended(self, claimed: Claimed, status: int | None = 200, **more: Any) -> Outcome:
        return Outcome(claimed, self.service.clock.now(), 5, status, None, **more)

    def rows(self, columns: str, table: str, owner: Organization) -> list[Any]:
        sql = f"SELECT {columns} FROM {table} WHERE organization_id = ? ORDER BY {columns}"
        return self.service.db.read_now(lambda tx: tx.all(sql, owner.id))


@pytest.fixture
def sender(service: Service) -> Sender:
    return Sender(service)


# --- Claiming


def test_what_is_claimed_is_nobody_else_s_until_the_claim_ends(service: Service, sender: Sender) -> None:
    sender.customer("Eine GmbH", "a", "b")
    other = Sender(service, "two")
    assert [item.subject for item in sender.claim(capacity=PLENTY._replace(per_receiver=1))] == ["a"]
    assert [item.subject for item in other.claim()] == ["b"]
    service.clock.advance(seconds=59)
    assert sender.claim() == other.claim() == []
    service.clock.advance(seconds=1)
    assert [item.subject for item in sender.claim()] == ["a", "b"]


def test_only_what_may_be_is_claimed(sender: Sender) -> None:
    first = sender.customer("Eine GmbH", *"abcdef")
    second = sender.customer("Andere GmbH", *"abcdef")

    def counts(capacity: Capacity) -> list[int]:
        """Returns what is claimed for each, and given back at once."""
        found = [item.organization_id for item in sender.cycle(capacity=capacity).claimed]
        sender.service.db.write_now(claims.release, sender.owner)
        return [found.count(owner.id) for owner in (first, second)]

    assert counts(PLENTY) == [6, 6]
    assert counts(PLENTY._replace(quick=0)) == [0, 0]
    assert counts(PLENTY._replace(quick=-1, failing_or_slow=0)) == [0, 0]
    assert counts(PLENTY._replace(quick=0, failing_or_slow=0)) == [0, 0]
    assert sorted(counts(PLENTY._replace(quick=1))) == [0, 1]
    assert counts(PLENTY._replace(quick=6)) == [3, 3]
    assert sorted(counts(PLENTY._replace(quick=9))) == [4, 5]
    assert counts(PLENTY._replace(per_receiver=2)) == [2, 2]
    keys = [receiver.ReceiverKey(owner.id, outbox_receiver(sender, owner)) for owner in (first, second)]
    assert counts(PLENTY._replace(per_receiver=3, in_flight={keys[0]: 2, keys[1]: 3})) == [1, 0]
    slow = frozenset({keys[0]})
    assert counts(PLENTY._replace(slow=slow, failing_or_slow=1)) == [1, 6]
    assert counts(PLENTY._replace(slow=slow, quick=2, failing_or_slow=0)) == [0, 2]
    lane = outbox.Lane(first.id, keys[0].id, "a")
    assert counts(PLENTY._replace(lanes={lane})) == [5, 6]


def outbox_receiver(sender: Sender, owner: Organization) -> str:
    [(found,)] = sender.rows("id", "webhook_receivers", owner)
    return str(found)


def test_a_failing_receiver_has_places_of_its_own(sender: Sender) -> None:
    failing, fine = sender.customer("Eine GmbH", *"abc"), sender.customer("Andere GmbH", *"abc")
    [claimed] = [item for item in sender.claim() if item.organization_id == failing.id and item.subject == "a"]
    sender.cycle(sender.ended(claimed, 500))
    sender.service.db.write_now(claims.release_all)
    capacity = PLENTY._replace(quick=3, failing_or_slow=2, per_failing_receiver=1)
    found = [item.organization_id for item in sender.claim(capacity=capacity)]
    assert (found.count(failing.id), found.count(fine.id)) == (1, 3)


def test_only_one_s_own_claims_are_given_back(service: Service, sender: Sender) -> None:
    sender.customer("Eine GmbH", "a", "b")
    other = Sender(service, "two")
    sender.claim(capacity=PLENTY._replace(per_receiver=1))
    other.claim()
    service.db.write_now(claims.release, "two")
    assert [item.subject for item in sender.claim()] == ["b"]
    service.db.write_now(claims.release_all)
    assert [item.subject for item in other.claim()] == ["a", "b"]


# --- Settling


def test_an_outcome_is_recorded_for_its_own_event_alone(sender: Sender) -> None:
    first, second = sender.customer("Eine GmbH", "a", "b"), sender.customer("Andere GmbH", "a", "b")
    claimed = {(item.organization_id, item.subject): item for item in sender.claim()}
    done = sender.cycle(sender.ended(claimed[first.id, "a"]), sender.ended(claimed[second.id, "b"], 500))
    assert (done.postponed, done.stopped, done.claimed) == ([], [], [])
    now = sender.service.clock.now()
    deliveries = "subject, state, attempts, tries, settled_at"
    assert sender.rows(deliveries, "webhook_deliveries", first) == [
        ("a", "delivered", 1, 1, now), ("b", "pending", 0, 0, None),
    ]  # fmt: skip
    assert sender.rows(deliveries, "webhook_deliveries", second) == [
        ("a", "pending", 0, 0, None), ("b", "pending", 1, 1, None),
    ]  # fmt: skip
    assert sender.rows("number, status, milliseconds", "webhook_attempts", first) == [(1, 200, 5)]
    assert sender.rows("number, status, milliseconds", "webhook_attempts", second) == [(1, 500, 5)]
    assert sender.rows("subject", "webhook_lanes", first) == [("b",)]


def test_an_outcome_that_comes_after_its_claim_changes_nothing(service: Service, sender: Sender) -> None:
    owner = sender.customer("Eine GmbH", "a", "a")
    [late] = sender.claim()
    other = Sender(service, "two")
    service.clock.advance(seconds=60)
    [again] = other.claim()
    assert sender.cycle(sender.ended(late)).postponed == [sender.ended(late)], "the lane is another's"
    other.cycle(other.ended(again, 500))
    service.clock.advance(seconds=60)
    [third] = sender.claim()
    assert (third.sequence, third.attempts, third.tries) == (1, 1, 1)
    assert sender.cycle(sender.ended(late)).postponed == [], "recorded before"
    assert sender.rows("state, attempts", "webhook_deliveries", owner) == [("pending", 0), ("pending", 1)]
    assert [item.sequence for item in sender.cycle(sender.ended(third)).claimed] == [2], "the next of the subject"


# --- What becomes of an attempt


def verdict(tries: int, status: int | None, now: int = 0, **more: Any) -> tuple[str, int]:
    claimed = Claimed("o", "r", 1, "s", 0, tries, "e", "payment_update", "{}", URL, None, None)  # type: ignore[arg-type]
    return claims._verdict(Outcome(claimed, 0, 0, status, None, **more), tries + 1, now)


def test_the_pauses_are_those_of_the_contract(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def uniform(low: float, high: float) -> float:
        drawn.append((round(low, 3), round(high, 3)))
        return 1.0

    monkeypatch.setattr("kontobahn.webhooks.claims.random.uniform", uniform)
    pauses = [5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR]
    assert [verdict(tries, 500, 7) for tries in range(8)] == [
        *(("pending", 7 + pause) for pause in pauses), ("failed", 7),
    ]  # fmt: skip
    assert set(drawn) == {(0.9, 1.1)}
    for asked, pause in ((0, 5), (4, 5), (60, 60), (36_000, 36_000), (36_001, 36_000)):
        assert verdict(0, 503, retry_after=asked) == ("pending", pause * SECOND)
    for status, state in ((None, "pending"), (199, "pending"), (200, "delivered"), (299, "delivered"), (300, "pending"),
                          (409, "pending"), (410, "failed"), (411, "pending")):  # fmt: skip
        assert verdict(0, status)[0] == state, status


def test_five_days_without_a_success_pause_a_receiver(service: Service, sender: Sender) -> None:
    owner = sender.customer("Eine GmbH", "a")
    other = sender.customer("Andere GmbH", "a")

    def attempt(status: int) -> list[str]:
        """Tries what is due, with this answer for the one and none for the other; returns who was stopped and how."""
        claimed = sender.claim()
        outcomes = [sender.ended(item, status if item.organization_id == owner.id else 500) for item in claimed]
        return [stopped.state for stopped in sender.cycle(*outcomes).stopped if stopped.receiver[0] == owner.id]

    def since() -> Any:
        return sender.rows("failing_since, state", "webhook_receivers", owner)[0]

    began = service.clock.now()
    assert attempt(500) == []
    assert since() == (began, "active")
    service.clock.advance(seconds=12 * 3600)
    assert attempt(200) == []
    assert since() == (None, "active")
    sender.emit(owner, "b")
    began = service.clock.now()
    assert attempt(500) == []
    service.clock.advance(seconds=5 * DAY // SECOND - 1)
    sender.emit(owner, "c")
    assert attempt(500) == []
    assert since() == (began, "active")
    service.clock.advance(seconds=1)
    sender.emit(owner, "d")
    assert attempt(500) == ["paused"]
    assert since() == (began, "paused")
    assert [item for item in sender.claim() if item.organization_id == owner.id] == []
    assert other.id != owner.id


def test_one_answer_of_several_says_that_it_is_alive(sender: Sender) -> None:
    owner = sender.customer("Eine GmbH", "a", "b")
    one, two = sender.claim()
    assert sender.cycle(sender.ended(one), sender.ended(two, 500)).stopped == []
    assert sender.rows("failing_since", "webhook_receivers", owner) == [(None,)]
    sender.emit(owner, "c")
    [gone] = sender.claim()
    assert [stopped.state for stopped in sender.cycle(sender.ended(gone, 410)).stopped] == ["gone"]


# --- What the deliverer reads from an answer, and how much it takes at once


@pytest.mark.parametrize(
    ("status", "value", "expected"),
    [
        (429, "60", 60), (503, " 7 ", 7), (503, "0", 0), (500, "60", None), (200, "60", None), (429, "", None),
        (429, "-1", None), (429, "soon", None), (429, "999999999", 999_999_999), (429, "1000000000", None),
    ],
)  # fmt: skip
def test_only_a_busy_receiver_may_ask_for_seconds(engine: str, status: int, value: str, expected: int | None) -> None:
    assert deliverer._retry_after(Reply(status, {"retry-after": value}, b"")) == expected
    assert deliverer._retry_after(Reply(status, {}, b"")) is None


def test_the_reason_of_a_failure_is_in_our_words(engine: str) -> None:
    reasons = {status: deliverer._reason(Reply(status, {}, b"")) for status in (199, 200, 299, 300, 399, 400, 410)}
    assert reasons[200] is None
    assert reasons[299] is None
    assert "redirects" in str(reasons[300])
    assert reasons[300] == reasons[399]
    assert "no more events" in str(reasons[410])
    assert [reasons[status] for status in (199, 400)] == [f"The receiver answered {status}." for status in (199, 400)]


def test_a_quarter_of_the_places_is_for_those_that_fail_or_are_slow(engine: str) -> None:
    class Settings:
        webhook_concurrency = 40
        webhook_concurrency_per_organization = 8

    made: Any = Deliverer.__new__(Deliverer)
    one, two = receiver.ReceiverKey("o", "1"), receiver.ReceiverKey("o", "2")
    made._settings, made._lanes, made._slow = Settings(), {"lane"}, {two}
    made._in_flight, made._failing_or_slow_in_flight = Counter({one: 5, two: 2}), 2
    capacity = made._capacity()
    assert (capacity.quick, capacity.failing_or_slow) == (25, 8)
    assert (capacity.per_receiver, capacity.per_failing_receiver) == (8, 2)
    assert (capacity.in_flight, capacity.lanes, capacity.slow) == ({one: 5, two: 2}, {"lane"}, {two})
    Settings.webhook_concurrency_per_organization = 1
    assert made._capacity().per_failing_receiver == 1
