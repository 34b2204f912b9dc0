"""All events since a moment that a receiver did not take, sent once more: by call and in the dashboard."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from kontobahn.clock import berlin_datetime, to_datetime
from kontobahn.events import event_log
from tests.api.webhooks.conftest import Customer, Delivering
from tests.dashboard.browsing import Browser
from tests.receiver import Receiver
from tests.waiting import eventually

Start = Callable[..., Delivering]
MakeReceiver = Callable[..., Receiver]
EVENTS = "/v2/banking/events/resend-failed"
ENDPOINTS = "/v2/banking/webhook-endpoints"
EMAIL = "erika@muster.example"


def _fail(world: Delivering, customer: Customer, *subjects: str) -> list[str]:
    """Emits events, and lets the last attempt fail at every receiver."""
    db, owner = world.service.db, customer.owner.id
    pending = "FROM webhook_deliveries WHERE organization_id = ? AND state = 'pending'"

    def none(condition: str) -> bool:
        return db.read_now(lambda tx: tx.one(f"SELECT 1 {pending} AND {condition} LIMIT 1", owner)) is None

    made = [customer.emit(subject) for subject in subjects]
    eventually(lambda: none("attempts = 0"))
    last = "UPDATE webhook_deliveries SET tries = 7 WHERE organization_id = ? AND state = 'pending'"
    db.write_now(lambda tx: tx.run(last, owner))
    world.advance(seconds=10)
    eventually(lambda: none("attempts > 0"))
    return made


def _call(customer: Customer, since: int, path: str = EVENTS) -> httpx.Response:
    return customer.service.post(path, customer.key, json={"since": to_datetime(since).isoformat()})


def test_failed_events_since_a_moment_are_sent_again(
    start_delivering: Start, make_receiver: MakeReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = make_receiver(lambda _: 500)
    world = start_delivering(receiver)
    customer, other = world.customer(receiver), world.customer(receiver, "Andere GmbH")
    [old] = _fail(world, customer, "payment:1")
    world.advance(seconds=60)
    moment = world.service.clock.now()
    [foreign] = _fail(world, other, "payment:1")
    first, second = _fail(world, customer, "payment:2", "payment:3")
    receiver.script = None
    delivered = customer.emit("payment:4")
    customer.wait_for(delivered)

    monkeypatch.setattr(event_log, "MAX_RESENT", 1)
    answer = _call(customer, moment)
    assert (answer.status_code, answer.json()) == (202, {"data": {"resent": 1, "has_more": True}})
    customer.wait_for(first, attempts=3)
    assert customer.delivery(second)["state"] == "failed"
    assert _call(customer, moment).json()["data"] == {"resent": 1, "has_more": False}
    customer.wait_for(second, attempts=3)
    assert _call(customer, moment).json()["data"] == {"resent": 0, "has_more": False}
    assert receiver.ids()[-3:] == [delivered, first, second]
    assert customer.delivery(old)["state"] == "failed"
    assert other.delivery(foreign)["state"] == "failed"

    assert customer.service.post(EVENTS, customer.key, json={}).status_code == 400
    assert customer.service.post(EVENTS, customer.key, json={"since": "2026-03-02T08:00:00"}).status_code == 400
    customer.put(None)
    assert _call(customer, 0).status_code == 409
    assert customer.delivery(old)["state"] == "failed"


def test_the_same_for_an_endpoint_and_from_the_page(start_delivering: Start, make_receiver: MakeReceiver) -> None:
    receiver = make_receiver(lambda _: 500)
    world = start_delivering(receiver)
    customer = world.customer(receiver)
    made = world.service.post(ENDPOINTS, customer.key, json={"url": receiver.url}).json()["data"]
    [event_id] = _fail(world, customer, "payment:1")
    deliveries = f"{ENDPOINTS}/{made['id']}/deliveries"

    def there() -> str:
        [found] = world.service.get(deliveries, customer.key).json()["data"]
        return str(found["delivery"]["state"])

    assert there() == "failed"
    world.service.user(customer.owner, EMAIL, "member")
    browser = Browser(world.service)
    browser.sign_in(EMAIL)
    now = berlin_datetime(world.service.clock.now())
    assert "One event from this period was not received." in browser.get("/dashboard/webhooks/resend").text
    later = {"since": f"{now:%Y}-12-31T00:00"}
    assert "All events from this period" in browser.send("GET", "/dashboard/webhooks/resend", params=later).text
    assert (
        "day and a time" in browser.send("GET", "/dashboard/webhooks/resend", params={"since": "2026-99-01T00:00"}).text
    )
    assert browser.post("/dashboard/webhooks/resend", {"since": "yesterday at noon"}).status_code == 422
    receiver.script = None
    since = {"since": f"{now:%Y-%m-%dT00:00}"}
    assert browser.post("/dashboard/webhooks/resend", since).status_code == 303
    assert "One event is sent again." in browser.get("/dashboard/webhooks").text
    customer.wait_for(event_id)
    assert there() == "failed"  # The other receiver's delivery is its own.
    page = f"/dashboard/webhooks/endpoints/{made['id']}/resend"
    assert "One event from this period was not received." in browser.get(page).text
    assert browser.post(page, since).status_code == 303
    eventually(lambda: there() == "delivered")
    assert world.service.post(f"{ENDPOINTS}/{made['id']}/pause", customer.key).status_code == 200
    assert "resume it" in browser.post(page, since).text
    assert _call(customer, 0, f"{deliveries}/resend-failed").status_code == 409
