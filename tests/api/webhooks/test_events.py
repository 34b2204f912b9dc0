"""The log of events over HTTP: walked, filtered, waited for."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from kontobahn.db import Tx
from kontobahn.events import event_log
from kontobahn.events.event_log import MAX_WAIT_SECONDS, EventsQuery
from kontobahn.webhooks import outbox
from kontobahn.webhooks.entries import Entry
from tests.harness import Organization, Service

EVENTS = "/v2/banking/events"


def emit(service: Service, owner: Organization, event: str = "payment_update", subject: str = "payment:1") -> str:
    return service.db.write_now(outbox.emit, owner.id, event, subject, {"payment_id": "1"})


def walk(service: Service, owner: Organization, **query: Any) -> list[str]:
    """Every id, page by page."""
    found: list[str] = []
    while True:
        answer = service.get(EVENTS, owner.key, params=query)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        if not page["data"]:
            return found
        found += [event["id"] for event in page["data"]]
        query["cursor"] = page["next_cursor"]


def test_the_log_is_there_without_a_url_and_walked_by_cursor(service: Service) -> None:
    owner = service.organization()
    assert service.get(EVENTS, owner.key).json() == {"data": [], "next_cursor": "0"}
    ids = [emit(service, owner, subject=f"payment:{number}") for number in range(7)]
    assert walk(service, owner, limit=3) == ids
    assert walk(service, owner, limit=3, sort="newest") == ids[::-1]
    newest = service.get(EVENTS, owner.key, params={"sort": "newest", "limit": 1}).json()
    assert newest["data"][0] == {
        "id": ids[-1], "event": "payment_update", "subject": "payment:6", "data": {"payment_id": "1"},
        "received_at": "2026-03-02T09:00:00Z",
        "delivery": {"state": "none", "next_attempt_at": None, "settled_at": None, "attempts": []},
    }  # fmt: skip
    after = emit(service, owner)
    assert walk(service, owner, cursor=newest["next_cursor"]) == [after], "from the end of the log on"
    assert service.get(f"{EVENTS}/{after}", owner.key).json()["data"]["id"] == after


def test_the_log_is_filtered(service: Service) -> None:
    owner = service.organization()
    first = emit(service, owner, "payment_progress", "payment:1")
    # 23:30 in Berlin, and an hour later the next day.
    service.clock.advance(seconds=13.5 * 3600)
    second = emit(service, owner, "payment_update", "payment:1")
    service.clock.advance(seconds=3600)
    third = emit(service, owner, "connection_error", "connection:5")
    assert walk(service, owner, event="payment_update") == [second]
    assert walk(service, owner, subject="payment:1") == [first, second]
    assert walk(service, owner, subject="connection:5", event="payment_update") == []
    assert walk(service, owner, from_date="2026-03-03") == [third]
    assert walk(service, owner, to_date="2026-03-02") == [first, second]
    assert walk(service, owner, from_date="2026-03-02", to_date="2026-03-03") == [first, second, third]
    assert walk(service, owner, delivery="none") == [first, second, third]
    assert walk(service, owner, delivery="pending") == []


@pytest.mark.parametrize(("query", "field"), [
    ({"cursor": "abc"}, "cursor"), ({"cursor": "-1"}, "cursor"), ({"limit": "0"}, "limit"), ({"limit": "1001"}, "limit"),
    ({"sort": "date"}, "sort"), ({"delivery": "lost"}, "delivery"), ({"wait": "26"}, "wait"), ({"from_date": "x"}, "from_date"),
    ({"wait": "1", "sort": "newest"}, "wait"), ({"from_date": "2026-03-03", "to_date": "2026-03-02"}, "from_date"),
    ({"subjekt": "payment:1"}, "subjekt"),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_question_that_cannot_be_answered_names_what_is_wrong(
    service: Service, query: dict[str, str], field: str
) -> None:
    refused = service.get(EVENTS, service.organization().key, params=query)
    assert (refused.status_code, refused.json()["field"]) == (400, field)


def test_whoever_waits_is_told_at_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = service.organization()
    looks: list[EventsQuery] = []
    look = event_log._list_events

    def counted(tx: Tx, organization_id: str, query: EventsQuery) -> list[Entry]:
        looks.append(query)
        return look(tx, organization_id, query)

    monkeypatch.setattr(event_log, "_list_events", counted)
    timer = threading.Timer(0.3, lambda: emit(service, owner))
    timer.start()
    began = time.monotonic()
    answer = service.get(EVENTS, owner.key, params={"wait": MAX_WAIT_SECONDS})
    took = time.monotonic() - began
    assert len(answer.json()["data"]) == 1
    assert took < MAX_WAIT_SECONDS, "it had waited to the end"
    timer.join()
    began = time.monotonic()
    cursor = answer.json()["next_cursor"]
    nothing = service.get(EVENTS, owner.key, params={"wait": 1, "cursor": cursor})
    assert nothing.json() == {"data": [], "next_cursor": cursor}
    assert time.monotonic() - began > 0.9
    assert len(looks) < 10, "whoever waits asks the database once a second"


@pytest.mark.parametrize("engine", ["sqlite"])
def test_the_calls_are_free(service: Service) -> None:
    owner = service.organization(credits_granted=0)
    event_id = emit(service, owner)
    service.request("PUT", "/v2/banking/webhook-url", owner.key, json={"webhook_url": "https://93.184.216.34/"})
    for method, path in (
        ("GET", EVENTS), ("GET", f"{EVENTS}/{event_id}"), ("POST", f"{EVENTS}/{event_id}/resend"),
        ("GET", "/v2/banking/webhook-url"), ("POST", "/v2/banking/webhook-url/test"),
        ("POST", "/v2/banking/webhook-url/secret"),
    ):  # fmt: skip
        assert service.request(method, path, owner.key).status_code < 300, path
