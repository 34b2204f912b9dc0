"""Order within a subject, and nobody waiting for somebody else's receiver."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kontobahn.webhooks import claims
from kontobahn.webhooks.claims import Capacity
from tests.api.webhooks.conftest import Customer, Delivering
from tests.receiver import Answer, Receiver
from tests.waiting import eventually, stays, take_time

Start = Callable[..., Delivering]
MakeReceiver = Callable[..., Receiver]


def test_a_failed_event_holds_back_its_own_subject_only(start_delivering: Start, make_receiver: MakeReceiver) -> None:
    failing = {"a1"}
    receiver = make_receiver(lambda delivered: 500 if delivered.data["n"] in failing else 204)
    world = start_delivering(receiver)
    customer = world.customer(receiver)
    first = customer.emit("payment:1", n="a1")
    customer.wait_for(first, "pending", attempts=1)
    second, other = customer.emit("payment:1", n="a2"), customer.emit("payment:2", n="b1")
    customer.wait_for(other)
    assert customer.delivery(second) == {
        "state": "pending", "attempts": [], "settled_at": None, "next_attempt_at": "2026-03-02T09:00:00Z",
    }  # fmt: skip
    failing.clear()
    world.advance(seconds=6)
    customer.wait_for(second)
    assert [delivered.data["n"] for delivered in receiver.deliveries] == ["a1", "b1", "a1", "a2"]


def test_one_that_is_given_up_lets_the_next_pass(start_delivering: Start, make_receiver: MakeReceiver) -> None:
    receiver = make_receiver(lambda delivered: 500 if delivered.data["n"] == 1 else 204)
    world = start_delivering(receiver)
    customer = world.customer(receiver)
    first, second = customer.emit(n=1), customer.emit(n=2)
    for number in range(1, 8):
        customer.wait_for(first, "pending", attempts=number)
        assert customer.delivery(second)["attempts"] == []
        world.advance(hours=11)
    customer.wait_for(first, "failed", attempts=8)
    customer.wait_for(second)


def test_order_holds_when_anything_may_fail(start_delivering: Start, make_receiver: MakeReceiver) -> None:
    """Whatever fails and however often: seen once each, in the order of their emission, for every subject."""
    chance = random.Random(17)
    receiver = make_receiver(lambda _: 500 if chance.random() < 0.3 else 204)
    world = start_delivering(receiver)
    customers = [world.customer(receiver, f"Kunde {number}") for number in range(3)]
    emitted: dict[tuple[str, str], list[str]] = {}
    for number in range(90):
        customer, subject = customers[number % 3], f"payment:{chance.randrange(4)}"
        emitted.setdefault((customer.owner.id, subject), []).append(customer.emit(subject, n=number))
        if not number % 10:
            world.advance(minutes=6)
    everything = {event_id for ids in emitted.values() for event_id in ids}
    taken: list[str] = []

    def all_taken() -> bool:
        world.advance(minutes=40)
        states = [entry["delivery"]["state"] for customer in customers for entry in _log(customer)]
        return states == ["delivered"] * len(everything)

    eventually(all_taken)
    for delivered in receiver.deliveries:
        if delivered.id not in taken:
            taken.append(delivered.id)
    for ids in emitted.values():
        assert [event_id for event_id in taken if event_id in ids] == ids
    # A later event of a subject never arrived before an earlier one had been taken.
    last = {event_id: position for position, event_id in enumerate(receiver.ids())}
    for ids in emitted.values():
        assert [last[event_id] for event_id in ids] == sorted(last[event_id] for event_id in ids)


def _have_arrived(ids: list[str], receiver: Receiver) -> bool:
    return set(ids) <= set(receiver.ids())


def _log(customer: Customer) -> Any:
    return customer.service.get("/v2/banking/events", customer.key, params={"limit": 1000}).json()["data"]


def test_a_silent_receiver_delays_nobody_else(start_delivering: Start, make_receiver: MakeReceiver) -> None:
    """With hardly any places: the silent ones may have the one for failing_or_slow receivers, and a few at the very first."""
    end = threading.Event()

    dead, well = make_receiver(lambda _: Answer(204, held_until=end)), make_receiver()
    world = start_delivering(
        dead, well, webhook_concurrency=8, webhook_concurrency_per_organization=2, webhook_timeout_seconds=5
    )
    try:
        hopeless = [world.customer(dead, f"Tot {number}") for number in range(2)]
        healthy = world.customer(well, "Gesund")
        silenced = [customer.emit(f"payment:{number}") for number in range(30) for customer in hopeless]
        eventually(lambda: len(dead.deliveries) >= 4)

        def is_on_its_way_at_once() -> None:
            ids = [healthy.emit(f"payment:{number}") for number in range(20)]
            eventually(partial(_have_arrived, ids, well))
            assert len(dead.deliveries) < len(silenced), "it came behind all that the silent ones are sent"

        # Of six places, four are taken until the first attempts have failed; from then on, one or two.
        is_on_its_way_at_once()
        hopeless[0].wait_for(silenced[0], "pending", attempts=1)
        hopeless[1].wait_for(silenced[1], "pending", attempts=1)
        is_on_its_way_at_once()
    finally:
        end.set()


def test_an_organisation_has_no_more_on_its_way_than_it_may(
    start_delivering: Start, make_receiver: MakeReceiver
) -> None:
    running = most = 0
    lock = threading.Lock()

    class Counting(Receiver):
        def answer(self, handler, delivered):  # type: ignore[no-untyped-def]
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            take_time(0.03)
            with lock:
                running -= 1
            super().answer(handler, delivered)

    receiver = Counting()
    try:
        customer = start_delivering(receiver, webhook_concurrency_per_organization=3).customer(receiver)
        ids = [customer.emit(f"payment:{number}") for number in range(25)]
        eventually(lambda: set(ids) <= set(receiver.ids()))
        assert 1 < most <= 3
    finally:
        receiver.stop()


@pytest.mark.parametrize("engine", ["postgres"])
def test_two_deliverers_deliver_each_event_once_and_in_order(
    start_delivering: Start, make_receiver: MakeReceiver
) -> None:
    receiver = make_receiver()
    one = start_delivering(receiver)
    start_delivering(receiver)
    customers = [one.customer(receiver, f"Kunde {number}") for number in range(5)]
    emitted = [customers[number % 5].emit(f"payment:{number % 7}", n=number) for number in range(200)]
    eventually(lambda: len(receiver.deliveries) >= 200)
    stays(lambda: len(receiver.deliveries) == 200)
    assert sorted(receiver.ids()) == sorted(emitted)
    for customer in customers:
        for subject in range(7):
            ids = [entry["id"] for entry in _log(customer) if entry["subject"] == f"payment:{subject}"]
            assert [event_id for event_id in receiver.ids() if event_id in ids] == ids


def test_what_a_dead_process_had_in_flight_is_taken_over(start_delivering: Start, make_receiver: MakeReceiver) -> None:
    receiver = make_receiver()
    world = start_delivering(receiver)
    db = world.service.db
    world.service.run(world.service.application.deliverer.stop())
    customer = world.customer(receiver)
    event_id = customer.emit()
    capacity = Capacity(9, 9, 9, 9, {}, (), frozenset())
    cycle = db.write_now(claims.run_cycle, "dead", [], capacity, claim_seconds=45, pause_days=5)
    assert [item.id for item in cycle.claimed] == [event_id]

    def claim_as(owner: str) -> list[str]:
        again = db.write_now(claims.run_cycle, owner, [], capacity, claim_seconds=45, pause_days=5)
        return [item.id for item in again.claimed]

    assert claim_as("alive") == [], "it is in the hand of another"
    world.service.clock.advance(seconds=45)
    assert claim_as("alive") == [event_id]
    # The dead one was only slow: what it says now of a claim that is no longer its own changes nothing.
    late = [claims.Outcome(cycle.claimed[0], world.service.clock.now(), 1, 204, None)]
    written = db.write_now(claims.run_cycle, "dead", late, capacity, claim_seconds=45, pause_days=5)
    assert written.postponed == late
    assert customer.delivery(event_id)["state"] == "pending"


def test_stopping_lets_what_is_on_its_way_end_and_gives_the_rest_back(
    start_delivering: Start, make_receiver: MakeReceiver
) -> None:
    receiver = make_receiver(lambda _: Answer(204, seconds=0.4))
    world = start_delivering(receiver, webhook_concurrency_per_organization=2)
    customer = world.customer(receiver)
    ids = [customer.emit(f"payment:{number}") for number in range(6)]
    eventually(lambda: len(receiver.deliveries) >= 2)
    world.service.run(world.service.application.deliverer.stop())
    states = [customer.delivery(event_id)["state"] for event_id in ids]
    assert states.count("delivered") == len(receiver.deliveries) >= 2
    assert world.service.db.read_now(lambda tx: tx.all("SELECT 1 FROM webhook_lanes WHERE owner IS NOT NULL")) == []
