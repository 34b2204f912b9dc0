"""The sandbox bank's webhooks at our client: signatures, repeats, order, retries, the rate limit, and who wakes the sender."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from kontobahn.bank_providers.sandbox import bank
from kontobahn.bank_providers.sandbox import webhooks as sandbox_webhooks
from kontobahn.clock import MINUTE, SECOND
from kontobahn.db import Tx
from tests.harness import START, Organization, Service, ServiceFactory
from tests.sandbox_visitor import Visitor, events
from tests.waiting import eventually

BODY = b'{"data":{"connection_ref":"con_x","pending_token":null,"stage":"destroy"},"meta":{}}'
one_engine = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


def signed(service: Service, body: bytes = BODY, delivery_id: str = "dlv_1", now: int = START) -> dict[str, str]:
    timestamp = str(now // SECOND)
    key = service.vault.derive("sandbox webhooks")
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": sandbox_webhooks.sign(key, delivery_id, timestamp, body),
        "content-type": "application/json",
    }


def send(service: Service, headers: dict[str, str], body: bytes = BODY) -> httpx.Response:
    return service.http.post(sandbox_webhooks.PATH, content=body, headers=headers)


def taken(service: Service) -> list[Any]:
    return service.db.read_now(lambda tx: tx.all("SELECT delivery_id, state FROM banking_inbox ORDER BY delivery_id"))


@one_engine
def test_what_the_bank_did_not_sign_is_refused_and_not_kept(service: Service) -> None:
    good = signed(service)
    other_key = sandbox_webhooks.sign(b"another key", "dlv_1", good["webhook-timestamp"], BODY)
    bad: list[tuple[dict[str, str], bytes]] = [
        ({**good, "webhook-signature": other_key}, BODY),
        ({**good, "webhook-signature": ""}, BODY),
        ({**good, "webhook-signature": good["webhook-signature"].removeprefix("v1,")}, BODY),
        ({**good, "webhook-id": "dlv_2"}, BODY),
        ({**good, "webhook-timestamp": str(START // SECOND + 1)}, BODY),
        ({**good, "webhook-timestamp": "soon"}, BODY),
        (good, BODY[:-1] + b" }"),
        (good, BODY.replace(b"con_x", b"con_y")),
        (signed(service, now=START - 5 * MINUTE - SECOND), BODY),
        (signed(service, now=START + 5 * MINUTE + SECOND), BODY),
        *(({name: value for name, value in good.items() if name != left_out}, BODY) for left_out in good if left_out != "content-type"),
    ]  # fmt: skip
    for headers, body in bad:
        assert send(service, headers, body).status_code == 401, headers
    assert taken(service) == []
    for now in (START - 5 * MINUTE, START + 5 * MINUTE):
        assert send(service, signed(service, delivery_id=f"dlv_{now}", now=now)).status_code == 200
    assert len(taken(service)) == 2


@one_engine
def test_a_repeat_is_answered_and_applied_once(service: Service, visitor: Visitor) -> None:
    owner = service.organization()
    connection = visitor.connect(owner)
    row = visitor.connection()
    visitor.at_bank(lambda tx: bank.notify_failure(tx, "ProviderError", ref=row.ref, pending_token=None))
    before = events(service, owner)
    assert visitor.at_bank(sandbox_webhooks.redeliver_latest, 10) == 2
    assert service.db.read_now(sandbox_webhooks.waiting) == []
    assert events(service, owner) == before
    assert visitor.shown(owner, connection["id"])["error_class"] == "ProviderError"


class InterceptingClient:
    """Stands between the bank and us: answers as instructed, otherwise lets through."""

    def __init__(self, service: Service) -> None:
        sender = service.application.sandbox.sender
        self._client, sender._client = sender._client, self
        self.answers: list[int | Exception] = []
        self.tried: list[bytes] = []

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> int:
        self.tried.append(body)
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return await self._client.post(url, headers, body)

    async def close(self) -> None:
        await self._client.close()


def test_deliveries_are_tried_again_and_keep_their_order(service: Service, visitor: Visitor) -> None:
    owner = service.organization()
    visitor.connect(owner)
    row, client = visitor.connection(), InterceptingClient(service)

    def two_failures(tx: Tx) -> None:
        for error_class in ("ProviderError", "ConnectionLost"):
            bank.notify_failure(tx, error_class, ref=row.ref, pending_token=None)

    client.answers = [500, OSError("refused")]
    visitor.at_bank(two_failures)
    for seconds in (1, 2):
        assert len(service.db.read_now(sandbox_webhooks.waiting)) == 2
        service.clock.advance(seconds=seconds)
        visitor.deliver()
    assert [b"ProviderError" in body for body in client.tried] == [True, True, True, False]
    assert service.db.read_now(sandbox_webhooks.waiting) == []
    failures = [data["error_class"] for name, data in events(service, owner) if name == "connection_error"]
    assert failures == ["ProviderError", "ConnectionLost"]


@one_engine
def test_a_delivery_that_never_gets_through_is_given_up_and_can_be_made_again(
    service: Service, visitor: Visitor
) -> None:
    owner = service.organization()
    visitor.connect(owner)
    row, client = visitor.connection(), InterceptingClient(service)
    client.answers = [503] * len(sandbox_webhooks.RETRY_AFTER)
    visitor.at_bank(lambda tx: bank.notify_failure(tx, "ProviderError", ref=row.ref, pending_token=None))
    for wait in sandbox_webhooks.RETRY_AFTER:
        service.clock.advance(seconds=wait // SECOND)
        visitor.deliver()
    assert (len(client.tried), service.db.read_now(sandbox_webhooks.waiting)) == (len(sandbox_webhooks.RETRY_AFTER), [])
    visitor.at_bank(sandbox_webhooks.redeliver_latest, 1)
    assert events(service, owner)[-1][0] == "connection_error"


@one_engine
def test_the_door_takes_sixty_a_minute_and_the_bank_waits_for_the_next(
    start_service: ServiceFactory,
) -> None:
    service = start_service(limit_webhook_requests=60)
    visitor, owner = Visitor(service), service.organization()
    visitor.connect(owner)
    row = visitor.connection()

    def many(tx: Tx) -> None:
        for number in range(62):
            bank.notify_failure(tx, f"ProviderError{number}", ref=row.ref, pending_token=None)

    visitor.at_bank(many)
    waiting = len(service.db.read_now(sandbox_webhooks.waiting))
    assert waiting == 3
    refused = send(service, {})
    assert (refused.status_code, refused.headers["ratelimit-limit"]) == (429, "60")
    service.clock.advance(seconds=30)
    visitor.deliver()
    assert len(service.db.read_now(sandbox_webhooks.waiting)) == 3
    service.clock.advance(seconds=31)
    visitor.deliver()
    assert service.db.read_now(sandbox_webhooks.waiting) == []


def test_the_sender_is_woken_by_changes_here_and_looks_for_those_made_elsewhere(
    start_service: ServiceFactory,
) -> None:
    service = start_service(run_jobs=True)
    visitor, owner = Visitor(service), service.organization()
    visitor.connect(owner)
    payment = visitor.order(owner, "Sandbox at once")
    visitor.authorise(payment)
    eventually(lambda: visitor.payment(owner, payment)["status"] == "settled")
    row = visitor.connection()
    # From a thread of its own: nobody waits for the news but the sender.
    service.db.write_now(bank.expire_consent, row)
    eventually(lambda: visitor.shown(owner, payment["connection_id"])["status"] == "inactive")


@one_engine
def test_stages_on_the_way_say_nothing_and_an_unknown_status_is_not_guessed_at(service: Service) -> None:
    sandbox = service.application.sandbox
    assert sandbox.reports("", BODY.replace(b"destroy", b"fetching")) == []
    delivered = (
        b'{"data":{"payment_ref":"p","status":"on_hold","raw_status":"BLCK","error_class":null,"error_message":null}}'
    )
    [report] = sandbox.reports("", delivered)
    assert report.report.status is None  # type: ignore[union-attr]
    assert report.report.raw_status == "BLCK"  # type: ignore[union-attr]


@one_engine
def test_another_organisation_sees_nothing_of_it(service: Service, visitor: Visitor) -> None:
    owner, stranger = service.organization("Eigner"), service.organization("Fremder")
    connection = visitor.connect(owner)
    payment = visitor.order(owner)
    for path in (f"connections/{connection['id']}", f"payments/{payment['id']}"):
        assert service.get(f"/v2/banking/{path}", stranger.key).status_code == 404
    assert visitor.accounts(Organization(stranger.id, stranger.key, stranger.key_id)) == []
