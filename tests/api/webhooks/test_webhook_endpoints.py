"""Further endpoints beside the contract's one URL: their own filter, secret, order, log and health."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from kontobahn.access import audit
from kontobahn.webhooks import endpoints
from tests.api.webhooks.conftest import Customer, Delivering
from tests.harness import Service
from tests.receiver import Receiver
from tests.spec_pages import on_sqlite
from tests.waiting import eventually

Start = Callable[..., Delivering]
MakeReceiver = Callable[..., Receiver]
PATH = "/v2/banking/webhook-endpoints"
PUBLIC = "https://93.184.216.34/events"
UNKNOWN = "0193b2a0-0000-7000-8000-00000000abcd"


class Endpoint:
    """A further endpoint of a customer."""

    def __init__(self, customer: Customer, url: str, **more: Any) -> None:
        self.service, self.key = customer.service, customer.key
        made = self.service.post(PATH, self.key, json={"url": url, **more})
        assert made.status_code == 201, made.text
        self.id: str = made.json()["data"]["id"]
        self.secret: str = made.json()["data"]["secret"]

    def get(self) -> Any:
        return self.service.get(f"{PATH}/{self.id}", self.key).json()["data"]

    def do(self, what: str) -> httpx.Response:
        return self.service.post(f"{PATH}/{self.id}/{what}", self.key)

    def states(self, **query: str) -> list[tuple[str, str]]:
        answer = self.service.get(f"{PATH}/{self.id}/deliveries", self.key, params={"sort": "id", **query})
        return [(entry["id"], entry["delivery"]["state"]) for entry in answer.json()["data"]]


def test_each_receiver_gets_what_it_asked_for_signed_with_its_own_secret(
    start_delivering: Start, make_receiver: MakeReceiver
) -> None:
    one, books, everything = make_receiver(), make_receiver(), make_receiver()
    world = start_delivering(one, books, everything)
    world.settle_clock()
    customer = world.customer(one)
    filtered = Endpoint(customer, books.url, events=["payment_update"], description="Buchhaltung")
    unfiltered = Endpoint(customer, everything.url)
    progress, update = customer.emit(event="payment_progress"), customer.emit(event="payment_update")
    eventually(lambda: len(one.ids()) == len(everything.ids()) == 2 and len(books.ids()) == 1)
    assert one.ids() == everything.ids() == [progress, update]
    assert books.ids() == [update]
    for receiver, secret in ((one, customer.secret), (books, filtered.secret), (everything, unfiltered.secret)):
        for delivered in receiver.deliveries:
            Webhook(secret).verify(delivered.body, delivered.headers)
    assert len({customer.secret, filtered.secret, unfiltered.secret}) == 3
    eventually(lambda: filtered.states() == [(update, "delivered")])
    eventually(lambda: unfiltered.states() == [(progress, "delivered"), (update, "delivered")])
    assert unfiltered.states(event="payment_update", delivery="delivered") == [(update, "delivered")]
    assert unfiltered.states(limit="1") == [(progress, "delivered")], "as many as were asked for"
    # A test goes to the one that is tested, whatever its filter.
    tested = filtered.do("test").json()["data"]["id"]
    eventually(lambda: books.ids() == [update, tested])
    by_url = world.service.post("/v2/banking/webhook-url/test", customer.key).json()["data"]["id"]
    customer.wait_for(by_url)
    assert tested not in one.ids() + everything.ids()
    assert by_url not in books.ids() + everything.ids()
    assert customer.delivery(tested)["state"] == "none"


def test_a_dead_endpoint_delays_no_other_and_keeps_its_own_order(
    start_delivering: Start, make_receiver: MakeReceiver
) -> None:
    down = {"is": True}
    one, other = make_receiver(), make_receiver(lambda _: 500 if down["is"] else 204)
    world = start_delivering(one, other)
    customer = world.customer(one)
    failing = Endpoint(customer, other.url)
    ids = [customer.emit("payment:1", n=number) for number in range(3)]
    customer.wait_for(ids[-1])
    assert one.ids() == ids
    eventually(lambda: failing.get()["failing_since"] is not None)
    assert failing.states() == [(event_id, "pending") for event_id in ids]
    assert set(other.ids()) == {ids[0]}, "nothing overtakes the first one of its subject"
    assert "status" not in customer.url()
    # Five days of failure pause the endpoint; the one URL is none the worse.
    world.advance(days=5)
    eventually(lambda: failing.get()["status"] == "paused")
    later = customer.emit("payment:1")
    customer.wait_for(later)
    assert "status" not in customer.url()
    down["is"] = False
    assert failing.do("resume").json()["data"]["status"] == "active"
    eventually(lambda: failing.states()[-1] == (later, "delivered"))
    seen = list(dict.fromkeys(other.ids()))
    assert seen == [*ids, later]
    actions = [entry.action for entry in world.service.db.read_now(audit.entries, customer.owner.id)]
    assert actions[-3:] == ["webhook_endpoint.create", "webhook_endpoint.paused", "webhook_endpoint.resume"]


def test_an_endpoint_is_paused_changed_rotated_and_deleted(
    start_delivering: Start, make_receiver: MakeReceiver
) -> None:
    one, first, second = make_receiver(), make_receiver(), make_receiver()
    world = start_delivering(one, first, second)
    customer = world.customer(one)
    endpoint = Endpoint(customer, first.url)
    assert endpoint.do("pause").json()["data"]["status"] == "paused"
    assert endpoint.do("test").status_code == 409
    waiting = customer.emit()
    customer.wait_for(waiting)
    changed = world.service.request("PUT", f"{PATH}/{endpoint.id}", customer.key, json={"url": second.url})
    assert (changed.json()["data"]["url"], changed.json()["data"]["status"]) == (second.url, "paused")
    resend = f"{PATH}/{endpoint.id}/deliveries/{waiting}/resend"
    assert world.service.post(resend, customer.key).status_code == 409
    endpoint.do("resume")
    eventually(lambda: endpoint.states() == [(waiting, "delivered")])
    assert (first.ids(), second.ids()) == ([], [waiting])
    assert world.service.post(resend, customer.key).status_code == 202
    eventually(lambda: second.ids() == [waiting, waiting])
    assert one.ids() == [waiting], "sent again to the endpoint alone"
    rotated = endpoint.do("secret").json()["data"]
    assert rotated["secret"] != endpoint.secret
    signed = customer.emit()
    eventually(lambda: signed in second.ids())
    assert len(second.deliveries[-1].headers["webhook-signature"].split()) == 2
    assert world.service.request("DELETE", f"{PATH}/{endpoint.id}", customer.key).json()["data"]["removed"] is True
    assert world.service.get(f"{PATH}/{endpoint.id}", customer.key).status_code == 404
    customer.wait_for(customer.emit())
    assert second.ids()[-1] == signed
    assert world.service.get(PATH, customer.key).json()["data"] == []


def test_a_410_stops_the_endpoint_alone(start_delivering: Start, make_receiver: MakeReceiver) -> None:
    down = {"is": True}
    one, gone = make_receiver(lambda _: 500 if down["is"] else 204), make_receiver(lambda _: 410)
    world = start_delivering(one, gone)
    customer = world.customer(one)
    endpoint = Endpoint(customer, gone.url)
    event_id = customer.emit()
    customer.wait_for(event_id, "pending", attempts=1)
    eventually(lambda: endpoint.get()["status"] == "gone")
    assert endpoint.states() == [(event_id, "failed")]
    # What is pending for the one URL is still sent there.
    assert "status" not in customer.url()
    down["is"] = False
    world.advance(seconds=6)
    customer.wait_for(event_id)
    customer.wait_for(customer.emit())
    assert endpoint.states() == [(event_id, "failed")]


@on_sqlite
def test_bad_endpoints_are_refused_with_the_field(service: Service) -> None:
    mine = service.organization()
    for body, field in (
        ({}, "url"),
        ({"url": "http://93.184.216.34/"}, "url"),
        ({"url": "https://127.0.0.1/"}, "url"),
        ({"url": PUBLIC, "events": ["payment_updated"]}, "events[0]"),
        ({"url": PUBLIC, "events": []}, "events"),
        ({"url": PUBLIC, "evnets": ["payment_update"]}, "evnets"),
    ):
        answer = service.post(PATH, mine.key, json=body)
        assert (answer.status_code, answer.json()["field"]) == (400, field), answer.text
    for number in range(endpoints.MAX_ENDPOINTS):
        key = {"idempotency-key": str(number)}
        made = [service.post(PATH, mine.key, json={"url": PUBLIC}, headers=key) for _ in range(2)]
        assert made[0].content == made[1].content
    assert len(service.get(PATH, mine.key).json()["data"]) == endpoints.MAX_ENDPOINTS
    assert service.post(PATH, mine.key, json={"url": PUBLIC}).status_code == 409
    assert "secret" not in service.get(PATH, mine.key).text
    member = service.organization(role="member")
    assert service.post(PATH, member.key, json={"url": PUBLIC}).status_code == 403
    assert service.get(PATH, member.key).status_code == 200
    assert service.post(f"{PATH}/url/pause", mine.key).status_code == 400, "the one URL is not reached here"


@pytest.mark.parametrize("what", ["pause", "resume", "secret", "test"])
@on_sqlite
def test_an_unknown_endpoint_is_404(service: Service, what: str) -> None:
    assert service.post(f"{PATH}/{UNKNOWN}/{what}", service.organization().key).status_code == 404
