"""Answers that come when the receiver is another one by then: an address says nothing about the next, and resuming starts anew."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.webhooks import claims, receiver
from kontobahn.webhooks.claims import RETRY_AFTER, Claimed
from tests.harness import Organization, Service
from tests.interleaving import on_postgres, overlap
from tests.unit.webhooks.test_claims import PLENTY, URL, Sender

NEW = "https://receiver.example/new"
WEBHOOK_URL, ENDPOINTS = "/v2/banking/webhook-url", "/v2/banking/webhook-endpoints"


class Hook:
    """A receiver of one organisation: the contract's one URL, or a further endpoint."""

    def __init__(self, service: Service, kind: str) -> None:
        self.service, self.sender = service, Sender(service)
        self.owner: Organization = service.organization()
        self._path, self._field = WEBHOOK_URL, "webhook_url"
        if kind == "endpoint":
            made = service.post(ENDPOINTS, self.owner.key, json={"url": URL}).json()["data"]
            self._path, self._field = f"{ENDPOINTS}/{made['id']}", "url"
        else:
            self.change(URL)

    def change(self, url: str) -> None:
        answer = self.service.request("PUT", self._path, self.owner.key, json={self._field: url})
        assert answer.status_code == 200, answer.text

    def emit(self, subject: str = "a") -> Claimed:
        """Emits an event; returns it as it is sent."""
        self.sender.emit(self.owner, subject)
        [claimed] = self.sender.claim()
        return claimed

    def state(self) -> Any:
        [found] = self.sender.rows("state, url, failing_since", "webhook_receivers", self.owner)
        return found

    def deliveries(self) -> list[Any]:
        return self.sender.rows("state, attempts, tries", "webhook_deliveries", self.owner)

    def pause(self) -> None:
        """As five days of failures do."""
        sql = "UPDATE webhook_receivers SET state = 'paused', stopped_at = ? WHERE organization_id = ? AND url IS NOT NULL"
        self.service.db.write_now(lambda tx: tx.run(sql, tx.now, self.owner.id))

    def resume(self) -> None:
        """Resumes it at the address that it has."""
        if self._path == WEBHOOK_URL:
            self.change(URL)
        else:
            assert self.service.post(f"{self._path}/resume", self.owner.key).status_code == 200

    def last_try(self) -> Claimed:
        """One of what is pending, on its way for the last time."""
        sql = "UPDATE webhook_deliveries SET tries = ? WHERE organization_id = ? AND state = 'pending'"
        self.service.db.write_now(lambda tx: tx.run(sql, len(RETRY_AFTER), self.owner.id))
        self.service.clock.advance(seconds=86_400)
        [claimed] = self.sender.claim(capacity=PLENTY._replace(per_receiver=1, per_failing_receiver=1))
        assert claimed.tries == len(RETRY_AFTER)
        return claimed


@pytest.fixture(params=["url", "endpoint"])
def hook(service: Service, request: pytest.FixtureRequest) -> Hook:
    return Hook(service, request.param)


@pytest.mark.parametrize("status", [410, 500, None])
def test_a_late_answer_of_the_old_address_stops_nothing_and_loses_nothing(hook: Hook, status: int | None) -> None:
    hook.emit()
    late = hook.last_try()
    hook.change(NEW)
    told = hook.sender.cycle(hook.sender.ended(late, status))
    assert told.stopped == []
    assert hook.state() == ("active", NEW, None)
    assert [(item.url, item.sequence, item.tries) for item in told.claimed] == [(NEW, late.sequence, 0)]
    assert hook.deliveries() == [("pending", 1, 0)]
    # Its own 410 does.
    [again] = told.claimed
    assert [one.state for one in hook.sender.cycle(hook.sender.ended(again, 410)).stopped] == ["gone"]
    assert hook.state()[0] == "gone"


def test_what_the_old_address_has_taken_is_delivered(hook: Hook) -> None:
    late = hook.emit()
    hook.change(NEW)
    assert hook.sender.cycle(hook.sender.ended(late, 200)).claimed == []
    assert hook.deliveries() == [("delivered", 1, 1)]


@pytest.mark.parametrize("together", [True, False])
def test_a_late_success_of_the_old_address_says_nothing_of_the_new_one(hook: Hook, together: bool) -> None:
    hook.sender.cycle(hook.sender.ended(hook.emit("a"), 500))
    late = hook.emit("b")
    assert late.failing_since is not None
    hook.change(NEW)
    began = hook.service.clock.now()
    [failed] = hook.sender.claim()
    outcomes = [hook.sender.ended(failed, 500), hook.sender.ended(late, 200)]
    for cycle in [outcomes] if together else [[outcome] for outcome in outcomes]:
        hook.sender.cycle(*cycle)
    assert hook.state() == ("active", NEW, began)


def test_resuming_gives_back_every_try_even_to_what_is_on_its_way(hook: Hook) -> None:
    hook.sender.emit(hook.owner, "a", "b")
    hook.sender.cycle(*(hook.sender.ended(item, 500) for item in hook.sender.claim()))
    on_its_way = hook.last_try()
    hook.pause()
    hook.resume()
    assert hook.deliveries() == [("pending", 1, 0), ("pending", 1, 0)]
    hook.sender.cycle(hook.sender.ended(on_its_way, 500))
    assert hook.deliveries() == [("pending", 1, 0), ("pending", 2, 1)], "the first of as many as before"
    assert hook.state()[:2] == ("active", URL)


@on_postgres
def test_an_outcome_waits_for_a_change_of_the_address(service: Service) -> None:
    hook = Hook(service, "endpoint")
    late = hook.emit()
    [row] = service.db.read_now(receiver.RECEIVERS.all, "organization_id = ? AND url = ?", hook.owner.id, URL)
    outcome = overlap(
        service.db,
        lambda tx: receiver.activate(tx, row, url=NEW),
        lambda tx: claims.run_cycle(
            tx, hook.sender.owner, [hook.sender.ended(late, 410)], PLENTY, claim_seconds=60, pause_days=5
        ),
    )
    assert [item.claimed for item in outcome.second.postponed] == [late]
    hook.sender.cycle(*outcome.second.postponed)
    assert hook.state()[:2] == ("active", NEW)
    assert hook.deliveries() == [("pending", 1, 0)]
