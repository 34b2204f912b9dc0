"""A service that delivers, and the organisations whose receivers it delivers to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kontobahn.webhooks import outbox
from tests.harness import Organization, Service, ServiceFactory
from tests.receiver import Receiver, Script, receiving
from tests.waiting import eventually


class Delivering:
    """A running service with receivers beside it."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def customer(self, receiver: Receiver, name: str = "Muster GmbH") -> Customer:
        owner = self.service.organization(name)
        answer = self.service.request("PUT", "/v2/banking/webhook-url", owner.key, json={"webhook_url": receiver.url})
        assert answer.status_code == 200, answer.text
        return Customer(self.service, owner, answer.json()["data"]["secret"])

    def advance(self, **duration: float) -> None:
        """Let time pass, and have the deliverer notice."""
        seconds = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}
        self.service.clock.advance(seconds=sum(seconds[unit] * count for unit, count in duration.items()))
        self.service.application.deliverer.wake()

    def settle_clock(self) -> None:
        """Make it now: an independent verifier of signatures looks at the real time."""
        self.service.clock.advance(seconds=time.time() - self.service.clock.now() / 1_000_000)


class Customer:
    """An organisation with a webhook URL."""

    def __init__(self, service: Service, owner: Organization, secret: str) -> None:
        self.service = service
        self.owner = owner
        self.key = owner.key
        self.secret = secret

    def emit(self, subject: str = "payment:1", event: str = "payment_update", **data: Any) -> str:
        return self.service.db.write_now(outbox.emit, self.owner.id, event, subject, data)

    def event(self, event_id: str) -> Any:
        answer = self.service.get(f"/v2/banking/events/{event_id}", self.key)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def delivery(self, event_id: str) -> Any:
        return self.event(event_id)["delivery"]

    def wait_for(self, event_id: str, state: str = "delivered", attempts: int | None = None) -> Any:
        """The delivery once it has got so far."""

        def reached() -> bool:
            found = self.delivery(event_id)
            return found["state"] == state and attempts in (None, len(found["attempts"]))

        eventually(reached)
        return self.delivery(event_id)

    def url(self) -> Any:
        return self.service.get("/v2/banking/webhook-url", self.key).json()["data"]

    def put(self, url: str | None) -> Any:
        answer = self.service.request("PUT", "/v2/banking/webhook-url", self.key, json={"webhook_url": url})
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]


@pytest.fixture
def make_receiver() -> Iterator[Callable[..., Receiver]]:
    with ExitStack() as stack:

        def make(script: Script | None = None) -> Receiver:
            return stack.enter_context(receiving(script))

        yield make


@pytest.fixture
def start_delivering(start_service: ServiceFactory) -> Callable[..., Delivering]:
    def start(*receivers: Receiver, **settings: Any) -> Delivering:
        allow = ",".join(receiver.allow for receiver in receivers)
        return Delivering(start_service(run_jobs=True, webhook_allow=allow, **settings))

    return start
