"""A person who comes back from a page of the bank, and deliveries that are told apart by their path."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.banking.provider import (
    ConnectionFailed,
    ConnectionFinished,
    ProviderDown,
    ProviderRefused,
    Report,
    Snapshot,
)
from kontobahn.banking.reports import webhooks
from kontobahn.db import Tx
from tests.api.banking.test_connections import bank, begin, listed, owner
from tests.bank_builder import Bank, account_facts, facts
from tests.harness import Organization, Service
from tests.sandbox_visitor import query_of, words

__all__ = ["bank", "owner"]
RETURN_TO = "https://app.example/zurueck"


def come_back(service: Service, **fields: str) -> Any:
    return service.http.get("/banking/return/scripted", params=fields)


def finished(bank: Bank, token: str) -> list[Report]:
    bank.provider.snapshots["bank-1"] = Snapshot(bank.connection_facts(), [account_facts()], [facts(1)])
    return [ConnectionFinished("bank-1", token)]


def test_a_return_connects_once_and_leads_to_the_application(service: Service, bank: Bank, owner: Organization) -> None:
    browser = {"customer_ip_address": "2001:db8:0::7", "customer_user_agent": "Mozilla/5.0"}
    token = begin(service, owner, return_to=RETURN_TO, **browser)["pending_token"]
    [request] = [call[1] for call in bank.provider.asked if call[0] == "start_connect"]
    assert request.callback_url == f"{service.base_url}/banking/return/scripted"
    assert request.organization_id == owner.id
    assert (request.ip_address, request.user_agent) == ("2001:db8::7", "Mozilla/5.0")
    refused = service.post("/v2/banking/connect", owner.key, json={"customer_ip_address": "zuhause"})
    assert (refused.status_code, refused.json()["field"]) == (400, "customer_ip_address")
    bank.provider.returns = [finished(bank, token)]
    for _ in range(2):
        answer = come_back(service, state=token, code="einmal-code")
        [row] = listed(service, owner)
        assert query_of(answer) == {"pending_token": token, "connection_id": row["id"]}
    # The second time nobody was asked: a code can be used once.
    assert [call[1] for call in bank.provider.asked if call[0] == "returned"] == [
        {"state": token, "code": "einmal-code"}
    ]
    [(body,)] = service.db.read_now(lambda tx: tx.all("SELECT body FROM banking_inbox"))
    assert b"einmal-code" not in bytes(body)


def test_a_return_without_success_says_why(service: Service, bank: Bank, owner: Organization) -> None:
    token = begin(service, owner, return_to=RETURN_TO)["pending_token"]
    bank.provider.returns = [[ConnectionFailed("Cancelled", "access_denied", None, token)]]
    assert query_of(come_back(service, state=token, error="access_denied")) == {
        "pending_token": token, "error_class": "Cancelled",
    }  # fmt: skip
    # Without an application to return to, the page itself says it.
    other = begin(service, owner)["pending_token"]
    bank.provider.returns = [[ConnectionFailed("Cancelled", "access_denied", None, other)]]
    assert "abgebrochen" in words(come_back(service, state=other))


def test_a_return_waits_for_a_provider_that_does_not_answer(service: Service, bank: Bank, owner: Organization) -> None:
    token = begin(service, owner, return_to=RETURN_TO)["pending_token"]
    bank.provider.returns = [ProviderDown("no answer"), finished(bank, token)]
    waiting = come_back(service, state=token, code="x")
    assert (waiting.status_code, waiting.headers["refresh"]) == (503, "5")
    # Whoever comes first, the person who reloads or the job: it is applied once.
    service.clock.advance(seconds=2)
    service.run(webhooks.apply_waiting(service.application.context))
    assert [row["status"] for row in listed(service, owner)] == ["active"]
    assert "connection_id" in query_of(come_back(service, state=token, code="x"))


@pytest.mark.either_engine
def test_a_return_that_is_refused_is_tried_no_more_and_ends_no_other(
    service: Service, bank: Bank, owner: Organization
) -> None:
    tokens = [begin(service, owner)["pending_token"] for _ in range(2)]
    down = ProviderDown("no answer")
    bank.provider.returns = [down, down, ProviderRefused("Used", "It was used."), finished(bank, tokens[1])]
    for token in tokens:
        assert come_back(service, state=token, code="x").status_code == 503
        service.clock.advance(seconds=1)

    def beside_it(tx: Tx) -> None:
        """Deliveries of another provider that happen to have the same ids."""
        for (delivery_id,) in tx.all("SELECT delivery_id FROM banking_inbox"):
            webhooks._store(tx, "another", delivery_id, "", b"")

    service.db.write_now(beside_it)
    service.clock.advance(seconds=2)
    for _ in range(2):
        service.run(webhooks.apply_waiting(service.application.context))
        found = service.db.read_now(lambda tx: tx.all("SELECT provider, state, last_error FROM banking_inbox"))
        assert sorted(map(tuple, found), key=str) == [
            ("another", "received", None), ("another", "received", None),
            ("scripted", "applied", None), ("scripted", "failed", "It was used."),
        ]  # fmt: skip
        assert len([call for call in bank.provider.asked if call[0] == "returned"]) == 4
        service.clock.advance(seconds=86_400)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_nobody_returns_to_a_flow_that_is_not_theirs(service: Service, bank: Bank, owner: Organization) -> None:
    token = begin(service, owner)["pending_token"]
    for path, fields in (
        ("scripted", {"state": "pending_somebody", "code": "x"}), ("scripted", {}), ("nobody", {"state": token}),
        ("sandbox", {"state": token}), ("scripted", {"state": token, "code": "x" * 5000}),
        ("scripted", {"state": token, **{f"f{number}": "x" for number in range(30)}}),
    ):  # fmt: skip
        assert service.http.get(f"/banking/return/{path}", params=fields).status_code == 404
    assert not [call for call in bank.provider.asked if call[0] == "returned"]


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_delivery_is_checked_against_the_address_it_was_sent_to(
    service: Service, bank: Bank, owner: Organization
) -> None:
    row = bank.connected(owner)
    headers = {"signature": "as agreed", "delivery-id": "d-1", "host": "proxy.internal"}
    body = {"kind": "ConnectionGone", "provider_ref": row.provider_ref}
    address = "/v2/banking/webhooks/scripted"
    assert service.post(f"{address}/destroy", json=body, headers=headers).status_code == 200
    assert bank.provider.delivered == [(f"{service.base_url}{address}/destroy", "destroy"), ("read", "destroy")]
    assert listed(service, owner) == []
    # A provider cannot send what only a person brings.
    assert service.post(f"{address}/return", json=body, headers=headers).status_code == 404
    assert service.post(f"{address}/Destroy", json=body, headers=headers).status_code in (400, 404)
