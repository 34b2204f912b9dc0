"""Deliveries: signed, retried by the schedule, stopped where the receiver says so."""

from __future__ import annotations

import io
import itertools
import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial
from types import SimpleNamespace

import msgspec
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from kontobahn import log
from kontobahn.clock import SECOND
from kontobahn.webhooks import deliverer
from kontobahn.webhooks.claims import JITTER, RETRY_AFTER
from tests.api.webhooks.conftest import Delivering
from tests.receiver import Answer, Receiver
from tests.waiting import PATIENCE_SECONDS, eventually, stays

Start = Callable[..., Delivering]
MakeReceiver = Callable[..., Receiver]


def test_an_event_arrives_signed_by_standard_webhooks(start_delivering: Start, make_receiver: MakeReceiver) -> None:
    receiver = make_receiver()
    world = start_delivering(receiver)
    world.settle_clock()
    customer = world.customer(receiver)
    event_id = customer.emit("payment:17", payment_id="17", status="settled")
    customer.wait_for(event_id)
    (delivered,) = receiver.deliveries
    assert Webhook(customer.secret).verify(delivered.body, delivered.headers) == {
        "event": "payment_update",
        "data": {"payment_id": "17", "status": "settled"},
        "received_at": customer.event(event_id)["received_at"],
    }
    assert delivered.id == event_id
    assert delivered.headers["content-type"] == "application/json"
    assert delivered.headers["user-agent"].startswith("Kontobahn/")
    assert delivered.path == "/events"


def _has(receiver: Receiver, event_id: str) -> bool:
    return event_id in receiver.ids()


def test_an_event_arrives_at_once(
    start_delivering: Start, make_receiver: MakeReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Woken by the commit: the next look by itself would come when the test has given up."""
    monkeypatch.setattr(deliverer, "POLL_SECONDS", 2 * PATIENCE_SECONDS)
    receiver = make_receiver()
    customer = start_delivering(receiver).customer(receiver)
    customer.wait_for(customer.emit("payment:0"))
    for number in range(1, 6):
        event_id = customer.emit(f"payment:{number}")
        eventually(partial(_has, receiver, event_id))


def test_a_failed_delivery_is_tried_again_by_the_schedule_and_given_up_after_it(
    start_delivering: Start, make_receiver: MakeReceiver
) -> None:
    receiver = make_receiver(lambda _: 500)
    world = start_delivering(receiver)
    customer = world.customer(receiver)
    event_id = customer.emit()
    for number, wait in enumerate(RETRY_AFTER, 1):
        delivery = customer.wait_for(event_id, "pending", attempts=number)
        due = datetime.fromisoformat(delivery["next_attempt_at"]).timestamp() * 1_000_000 - world.service.clock.now()
        assert wait * (1 - JITTER) <= due <= wait * (1 + JITTER)
        world.advance(seconds=due / 1_000_000 + 0.001)
    delivery = customer.wait_for(event_id, "failed", attempts=8)
    assert delivery["next_attempt_at"] is None
    assert {attempt["status"] for attempt in delivery["attempts"]} == {500}
    assert set(receiver.ids()) == {event_id}, "the id stays, so that a receiver can drop repeats"
    stamps = [int(delivered.headers["webhook-timestamp"]) for delivered in receiver.deliveries]
    assert stamps == sorted(stamps)
    assert stamps[-1] - stamps[0] > 25 * 3600, "the time is the attempt's own"
    assert len({delivered.headers["webhook-signature"] for delivered in receiver.deliveries}) == 8
    assert len({delivered.body for delivered in receiver.deliveries}) == 1
    world.advance(days=2)
    stays(lambda: len(receiver.deliveries) == 8)


@pytest.mark.parametrize(("status", "header", "least", "most"), [
    (503, "120", 120, 120), (429, "3600", 3600, 3600), (503, "99999999", 36_000, 36_000), (503, "1", 4.5, 5.5),
    (500, "3600", 4.5, 5.5), (503, "Wed, 21 Oct 2026 07:28:00 GMT", 4.5, 5.5), (503, "-5", 4.5, 5.5),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_busy_receiver_may_ask_for_time(
    start_delivering: Start, make_receiver: MakeReceiver, status: int, header: str, least: float, most: float
) -> None:
    receiver = make_receiver(lambda _: Answer(status, {"retry-after": header}))
    world = start_delivering(receiver)
    customer = world.customer(receiver)
    delivery = customer.wait_for(customer.emit(), "pending", attempts=1)
    due = datetime.fromisoformat(delivery["next_attempt_at"]).timestamp() - world.service.clock.now() / 1_000_000
    assert least <= round(due, 3) <= most


def test_a_receiver_that_is_gone_gets_no_more_until_it_is_set_again(
    start_delivering: Start, make_receiver: MakeReceiver
) -> None:
    statuses = iter([410])
    receiver = make_receiver(lambda _: next(statuses, 204))
    world = start_delivering(receiver)
    customer = world.customer(receiver)
    first = customer.emit()
    customer.wait_for(first, "failed")
    assert customer.url()["status"] == "gone"
    later = customer.emit()
    assert customer.delivery(later)["state"] == "none"
    assert world.service.post(f"/v2/banking/events/{later}/resend", customer.key).status_code == 409
    assert world.service.post("/v2/banking/webhook-url/test", customer.key).status_code == 409
    assert "status" not in customer.put(receiver.url)
    customer.wait_for(customer.emit())
    assert first not in receiver.ids()[1:]


@pytest.mark.parametrize("status", [301, 302, 307, 308, 304])
@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_redirect_is_a_failure_and_is_not_followed(
    start_delivering: Start, make_receiver: MakeReceiver, status: int
) -> None:
    inside = make_receiver()
    receiver = make_receiver(lambda _: Answer(status, {"location": inside.url}))
    customer = start_delivering(receiver, inside).customer(receiver)
    delivery = customer.wait_for(customer.emit(), "pending", attempts=1)
    assert delivery["attempts"][0]["status"] == status
    assert inside.connections == 0


@pytest.mark.parametrize("engine", ["sqlite"])
def test_what_a_receiver_answers_is_shown_to_nobody(start_delivering: Start, make_receiver: MakeReceiver) -> None:
    receiver = make_receiver(lambda _: Answer(500, {"x-inside": "top-secret-header"}, b"top-secret-body" * 10_000))
    customer = start_delivering(receiver).customer(receiver)
    event_id = customer.emit()
    customer.wait_for(event_id, "pending", attempts=1)
    shown = customer.service.get(f"/v2/banking/events/{event_id}", customer.key).text
    assert "top-secret" not in shown
    assert customer.delivery(event_id)["attempts"][0]["reason"] == "The receiver answered 500."


@pytest.mark.parametrize("engine", ["sqlite"])
def test_an_attempt_is_counted_and_logged_without_what_it_carried(
    start_delivering: Start, make_receiver: MakeReceiver
) -> None:
    receiver = make_receiver(lambda delivered: 500 if delivered.data["name"] == "Erika" else 204)
    lines = io.StringIO()
    log.configure("info", lines)
    try:
        customer = start_delivering(receiver).customer(receiver)
        customer.wait_for(customer.emit("payment:1", name="Erika"), "pending", attempts=1)
        customer.wait_for(customer.emit("payment:2", name="Max"))
    finally:
        log.configure("info")
    metrics = customer.service.get("/metrics").text
    assert 'kontobahn_webhook_attempts_total{outcome="delivered"} 1.0' in metrics
    assert 'kontobahn_webhook_attempts_total{outcome="failed"} 1.0' in metrics
    found = [msgspec.json.decode(line) for line in lines.getvalue().splitlines() if "webhook_attempt" in line]
    assert [(line["status"], line["attempt"]) for line in found] == [(500, 1), (204, 1)]
    assert not any(word in lines.getvalue() for word in ("Erika", "whsec_", "v1,", customer.secret))


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_receiver_that_takes_too_long_has_failed(start_delivering: Start, make_receiver: MakeReceiver) -> None:
    receiver = make_receiver(lambda _: Answer(200, seconds=1.6))
    customer = start_delivering(receiver, webhook_timeout_seconds=1).customer(receiver)
    delivery = customer.wait_for(customer.emit(), "pending", attempts=1)
    assert delivery["attempts"][0]["status"] is None
    assert "1 seconds" in delivery["attempts"][0]["reason"]


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_claim_outlasts_the_attempt(start_delivering: Start, make_receiver: MakeReceiver) -> None:
    """Nobody else sends an event while somebody may still be sending it."""
    begun, go_on = threading.Event(), threading.Event()

    def answer(_: object) -> int:
        begun.set()
        go_on.wait()
        return 204

    receiver = make_receiver(answer)
    world = start_delivering(receiver, webhook_timeout_seconds=60)
    customer = world.customer(receiver)
    event_id = customer.emit()
    begun.wait()
    [(owner, until)] = world.service.db.read_now(lambda tx: tx.all("SELECT owner, next_at FROM webhook_lanes"))
    go_on.set()
    assert owner
    assert until >= world.service.clock.now() + 60 * SECOND
    customer.wait_for(event_id)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_how_long_a_receiver_took_is_told_in_milliseconds(
    start_delivering: Start, make_receiver: MakeReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = make_receiver()
    customer = start_delivering(receiver).customer(receiver)
    ticks = itertools.count(0, 1.5)
    monkeypatch.setattr(deliverer, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    delivery = customer.wait_for(customer.emit())
    assert delivery["attempts"][0]["milliseconds"] == 1500


def test_both_secrets_sign_for_a_day_after_a_rotation(start_delivering: Start, make_receiver: MakeReceiver) -> None:
    receiver = make_receiver()
    world = start_delivering(receiver)
    customer = world.customer(receiver)
    answer = world.service.post("/v2/banking/webhook-url/secret", customer.key)
    assert answer.status_code == 201
    fresh = answer.json()["data"]["secret"]
    assert fresh != customer.secret
    until = datetime.fromisoformat(answer.json()["data"]["previous_valid_until"]).timestamp()
    assert until == world.service.clock.now() / 1_000_000 + 24 * 3600

    def proves(secret: str, number: int) -> bool:
        delivered = receiver.deliveries[number]
        try:
            # The independent verifier looks at the real time; the signature is over the service's.
            webhook = Webhook(secret)
            webhook._Webhook__verify_timestamp = lambda text: datetime.fromtimestamp(int(text)).astimezone()  # type: ignore[attr-defined]
            webhook.verify(delivered.body, delivered.headers)
        except WebhookVerificationError:
            return False
        return True

    customer.wait_for(customer.emit("payment:1"))
    assert receiver.deliveries[0].headers["webhook-signature"].count("v1,") == 2
    world.advance(hours=24)
    customer.wait_for(customer.emit("payment:2"))
    assert receiver.deliveries[1].headers["webhook-signature"].count("v1,") == 1
    assert [proves(customer.secret, 0), proves(fresh, 0)] == [True, True]
    assert [proves(customer.secret, 1), proves(fresh, 1)] == [False, True]


def test_five_days_of_failure_pause_the_url_and_setting_it_sends_what_waited(
    start_delivering: Start, make_receiver: MakeReceiver
) -> None:
    is_well = False
    receiver = make_receiver(lambda _: 204 if is_well else 500)
    world = start_delivering(receiver)
    customer = world.customer(receiver)
    given_up = customer.emit("payment:1", n=0)
    for number in range(1, 8):
        customer.wait_for(given_up, "pending", attempts=number)
        world.advance(hours=11)
    customer.wait_for(given_up, "failed")
    assert "status" not in customer.url()
    world.advance(hours=5 * 24 - 7 * 11 - 1)
    early = customer.emit("payment:2", n=1)
    customer.wait_for(early, "pending", attempts=1)
    assert "status" not in customer.url(), "not five days yet"
    world.advance(hours=2)
    customer.wait_for(early, "pending", attempts=2)
    assert customer.url()["status"] == "paused"
    assert customer.url()["stopped_at"]
    during = customer.emit("payment:2", n=2)
    attempts = len(receiver.deliveries)
    world.advance(days=1)
    stays(lambda: len(receiver.deliveries) == attempts, "nothing is sent while it is paused")
    is_well = True
    customer.put(receiver.url)
    customer.wait_for(during)
    assert [delivered.data["n"] for delivered in receiver.deliveries[attempts:]] == [1, 2], "in order, none lost"
    assert customer.delivery(given_up)["state"] == "failed"


def test_a_success_in_between_starts_the_five_days_anew(start_delivering: Start, make_receiver: MakeReceiver) -> None:
    statuses = iter([500, 204, 500])
    receiver = make_receiver(lambda _: next(statuses))
    world = start_delivering(receiver)
    customer = world.customer(receiver)
    first = customer.emit("payment:1")
    customer.wait_for(first, "pending", attempts=1)
    world.advance(days=4)
    customer.wait_for(first)
    world.advance(days=4)
    customer.wait_for(customer.emit("payment:2"), "pending", attempts=1)
    assert "status" not in customer.url()


def test_what_was_delivered_can_be_sent_again_under_the_same_id(
    start_delivering: Start, make_receiver: MakeReceiver
) -> None:
    receiver = make_receiver()
    customer = start_delivering(receiver).customer(receiver)
    event_id = customer.emit()
    customer.wait_for(event_id)
    answer = customer.service.post(f"/v2/banking/events/{event_id}/resend", customer.key)
    assert answer.status_code == 202
    assert answer.json()["data"]["delivery"]["state"] == "pending"
    customer.wait_for(event_id, attempts=2)
    assert receiver.ids() == [event_id, event_id]
    assert receiver.deliveries[0].body == receiver.deliveries[1].body


def test_clearing_the_url_ends_what_waits_and_a_new_one_gets_a_new_secret(
    start_delivering: Start, make_receiver: MakeReceiver
) -> None:
    receiver = make_receiver(lambda _: 500)
    world = start_delivering(receiver)
    customer = world.customer(receiver)
    event_id = customer.emit()
    customer.wait_for(event_id, "pending", attempts=1)
    assert customer.put(None)["webhook_url"] is None
    assert customer.delivery(event_id)["state"] == "cancelled"
    world.advance(hours=1)
    stays(lambda: len(receiver.deliveries) == 1)
    receiver.script = None
    assert customer.put(receiver.url)["secret"] != customer.secret
    assert customer.service.post(f"/v2/banking/events/{event_id}/resend", customer.key).status_code == 202
    customer.wait_for(event_id)
