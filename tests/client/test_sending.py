"""Calls that the client tries again or not, how long it waits, and what it never tells; and which deliveries it trusts."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from kontobahn.webhooks import receiver
from kontobahn_client import KontobahnError, NoAnswer, RateLimited, UnexpectedAnswer, WebhookError, webhooks
from kontobahn_client.client import AsyncKontobahn, Kontobahn
from kontobahn_client.transport.exchange import (
    MAX_PAUSE_SECONDS,
    Caller,
    Outcome,
    Pause,
    Request,
    Send,
    next_page,
    talk,
)

CALLER = Caller(httpx.URL("https://kb.example/under"), {"x-api-key": "kb_live_secret"}, "test", 3)
LOST = httpx.ReadError("lost")
NEVER_SENT = httpx.ConnectError("refused")


def answer(status: int, body: Any = None, **headers: str) -> httpx.Response:
    text = {"error": "No.", "request_id": "req_1"} if body is None else body
    return httpx.Response(status, json=text, headers={name.replace("_", "-"): value for name, value in headers.items()})


def conversation(method: str, *outcomes: Outcome) -> tuple[list[Send], list[float], httpx.Response | KontobahnError]:
    """Returns what was sent, the pauses, and how it ended."""
    steps, sent, pauses = talk(CALLER, Request(method, "/v2/x", {}, None)), list[Send](), list[float]()
    left, outcome = list(outcomes), None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration as end:
            return sent, pauses, end.value
        except KontobahnError as error:
            return sent, pauses, error
        outcome = None
        if isinstance(step, Pause):
            pauses.append(step.seconds)
        else:
            sent.append(step)
            outcome = left.pop(0)


@pytest.mark.parametrize(
    ("method", "failure", "attempts"),
    [
        ("GET", LOST, 2), ("POST", LOST, 2), ("PUT", LOST, 2),
        # Done or not, a second DELETE would say that there is nothing.
        ("DELETE", LOST, 1), ("DELETE", NEVER_SENT, 2), ("DELETE", answer(429), 2), ("DELETE", answer(503), 1),
        ("POST", answer(502), 2), ("POST", answer(503), 2), ("POST", answer(504), 2), ("POST", answer(429), 2),
        ("POST", answer(500), 1), ("POST", answer(400), 1), ("POST", answer(402), 1), ("POST", answer(422), 1),
        # A conflict is final, unless the service says when to come back: the first attempt is still running.
        ("POST", answer(409), 1), ("POST", answer(409, retry_after="1"), 2),
    ],
)  # fmt: skip
def test_what_is_safe_is_tried_again_and_nothing_else(method: str, failure: Outcome, attempts: int) -> None:
    sent, pauses, end = conversation(method, failure, answer(200, {}))
    assert len(sent) == attempts
    assert len(pauses) == attempts - 1
    assert isinstance(end, httpx.Response) == (attempts == 2)


def test_every_attempt_has_the_same_key_and_every_call_its_own() -> None:
    sent, _, _ = conversation("POST", LOST, LOST, answer(200, {}))
    [key] = {step.headers["idempotency-key"] for step in sent}
    again, _, _ = conversation("POST", answer(200, {}))
    assert again[0].headers["idempotency-key"] != key
    assert "idempotency-key" not in conversation("GET", answer(200, {}))[0][0].headers


def test_the_service_says_how_long_to_wait_and_else_it_grows() -> None:
    _, told, _ = conversation("GET", answer(429, retry_after="7"), answer(503, retry_after="11"), answer(200, {}))
    assert told == [7, 11]
    _, own, _ = conversation("GET", LOST, LOST, LOST, answer(200, {}))
    assert all(low <= pause <= high for pause, (low, high) in zip(own, ((0.25, 0.75), (0.5, 1.5), (1, 3)), strict=True))


def test_it_gives_up_after_three_retries_or_a_minute() -> None:
    sent, _, end = conversation("GET", *[answer(503, retry_after="1")] * 4)
    assert len(sent) == 4
    assert isinstance(end, KontobahnError)
    sent, pauses, end = conversation("GET", answer(429, retry_after=str(int(MAX_PAUSE_SECONDS) + 1)))
    assert (len(sent), pauses) == (1, [])
    assert isinstance(end, RateLimited)
    assert end.retry_after == MAX_PAUSE_SECONDS + 1


def test_a_call_without_an_answer_says_whether_it_may_have_happened() -> None:
    ends = [conversation("POST", *outcomes)[2] for outcomes in ([NEVER_SENT] * 4, [LOST, *[NEVER_SENT] * 3])]
    assert [isinstance(end, NoAnswer) and end.may_have_happened for end in ends] == [False, True]


def test_an_answer_of_something_else_is_told_as_such() -> None:
    for strange in (httpx.Response(404, text="<html>nginx"), httpx.Response(302), answer(404, ["error"])):
        assert isinstance(conversation("GET", strange)[2], UnexpectedAnswer)


def test_the_address_keeps_the_path_of_the_service_and_the_label() -> None:
    [sent], _, _ = conversation("GET", answer(200, {}))
    assert str(sent.url) == "https://kb.example/under/v2/x?quelle=test"


def test_the_key_goes_nowhere_else() -> None:
    for client in (
        Kontobahn("https://kb.example", "kb_live_secret"),
        AsyncKontobahn("https://kb.example", "kb_live_secret"),
    ):
        assert "secret" not in repr(client) + repr(client._caller)
    request = Request("GET", "/v2/x", {"limit": "2"}, None)
    elsewhere = httpx.Response(200, headers={"link": '<https://evil.example/under/v2/x?cursor=2>; rel="next"'})
    follow_up = next_page(request, elsewhere, CALLER)
    assert follow_up == request._replace(query={"cursor": "2"})
    sent = talk(CALLER, follow_up).send(None)
    assert isinstance(sent, Send)
    assert sent.url.host == "kb.example"
    other_path = httpx.Response(200, headers={"link": '</under/v2/auth/users?x=1>; rel="next"'})
    with pytest.raises(UnexpectedAnswer):
        next_page(request, other_path, CALLER)
    with pytest.raises(ValueError, match="not both"):
        Kontobahn("https://kb.example", "a", session="b")
    with pytest.raises(ValueError, match="must look like"):
        Kontobahn("kb.example", "a")


@pytest.mark.parametrize("part", ["", ".", ".."])
def test_an_id_never_leads_to_another_path(part: str) -> None:
    kb = Kontobahn("https://kb.example", "kb_live_secret")
    with pytest.raises(ValueError, match="path"):
        kb.get_payment(part)
    assert Kontobahn.get_payment.request("a/../b?c").path == "/v2/banking/payments/a%2F..%2Fb%3Fc"


# --- Deliveries

SECRET = receiver.new_secret()
BODY = b'{"event":"something_new","data":{"a":1},"received_at":"2026-03-31T09:30:00Z"}'
HEADERS = receiver.signed_headers("evt_1", 1_000_000, BODY, [receiver.key_of(SECRET)])


def verified(body: bytes = BODY, *secrets: str, now: float = 1_000_000.0, **headers: str) -> webhooks.WebhookEvent:
    given = {**HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
    given = {name.title(): value for name, value in given.items() if value}
    return webhooks.verify(body, given, *(secrets or (SECRET,)), now=lambda: now)


def test_an_event_that_is_not_known_yet_is_a_dictionary() -> None:
    assert verified().data == {"a": 1}
    assert verified(now=1_000_300.0) == verified(now=999_700.0)
    assert verified(webhook_signature="v2,abc v1,xyz " + HEADERS["webhook-signature"]).id == "evt_1"


@pytest.mark.parametrize(
    "wrong",
    [
        {"body": BODY + b" "}, {"webhook_id": "evt_2"}, {"webhook_timestamp": "1000001"}, {"webhook_timestamp": "soon"},
        {"webhook_timestamp": "１００００００"}, {"webhook_signature": ""}, {"webhook_id": ""},
        {"webhook_signature": HEADERS["webhook-signature"].replace("v1,", "v2,")}, {"webhook_signature": "ü"},
        {"now": 1_000_301.0}, {"now": 999_699.0},
    ],
)  # fmt: skip
def test_a_delivery_that_is_not_the_services_is_refused(wrong: Any) -> None:
    with pytest.raises(WebhookError):
        verified(**wrong)


def test_a_secret_that_is_none_is_the_callers_mistake() -> None:
    for secrets in (("abc",), ("whsec_?",), (SECRET, "")):
        with pytest.raises(ValueError, match="whsec_"):
            verified(BODY, *secrets)
    with pytest.raises(ValueError, match="at least one"):
        webhooks.verify(BODY, HEADERS)
    with pytest.raises(WebhookError):
        verified(BODY, receiver.new_secret())
