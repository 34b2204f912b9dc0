"""Bank connections: the connect flow, reports of the provider, refreshes, and what is left when one is gone."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.banking.connections import flows, routes
from kontobahn.banking.provider import ProviderDown, ProviderRefused, Snapshot
from kontobahn.banking.reports import refresh, webhooks
from kontobahn.clock import DAY, HOUR
from tests.bank_builder import Bank, account_facts, events, facts
from tests.harness import START, Organization, Service

CONNECTIONS = "/v2/banking/connections"


@pytest.fixture
def bank(service: Service) -> Bank:
    return Bank(service)


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization()


def begin(service: Service, owner: Organization, **body: Any) -> dict[str, Any]:
    answer = service.post("/v2/banking/connect", owner.key, json=body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def finish(bank: Bank, token: str | None, ref: str = "bank-1", **more: Any) -> None:
    bank.provider.snapshots[ref] = Snapshot(bank.connection_facts(ref, **more), [account_facts()], [facts(1)])
    assert bank.deliver(kind="ConnectionFinished", provider_ref=ref, pending_token=token).status_code == 200


def listed(service: Service, owner: Organization) -> list[dict[str, Any]]:
    return list(service.get(CONNECTIONS, owner.key).json()["data"])


def test_a_flow_begins_with_a_placeholder(service: Service, bank: Bank, owner: Organization) -> None:
    started = begin(service, owner, return_to="https://app.example/fertig", custom_fields={"kunde": 7})
    assert set(started) == {"connect_url", "expires_at", "owner_user_id", "pending_token"}
    [row] = listed(service, owner)
    assert row["status"] == "pending_connect"
    assert row["id"] == started["pending_token"]
    assert started["connect_url"].startswith("https://bank.example/")


def test_a_flow_may_begin_without_a_body(service: Service, bank: Bank, owner: Organization) -> None:
    assert service.post("/v2/banking/connect", owner.key).status_code == 201


def test_the_first_webhook_replaces_the_placeholder(service: Service, bank: Bank, owner: Organization) -> None:
    token = begin(service, owner)["pending_token"]
    finish(bank, token)
    [row] = listed(service, owner)
    assert row["status"] == "active"
    assert row["id"].isdigit()
    assert (row["provider_name"], row["provider_code"], row["country_code"]) == ("Musterbank", "musterbank_de", "DE")
    assert service.get(f"{CONNECTIONS}/{row['id']}", owner.key).json() == {"data": row}
    # The token alone is enough to find the connection.
    assert service.get(f"{CONNECTIONS}/{token}", owner.key).json() == {"data": row}
    [event] = events(service, owner)
    assert event["event"] == "refresh_complete"
    [account] = service.get("/v2/banking/accounts", owner.key).json()["data"]
    assert event["data"] == {
        "connection_id": row["id"], "provider_name": "Musterbank", "provider_code": "musterbank_de", "country_code": "DE",
        "status": "active", "refresh_type": "manual",
        "accounts": [{
            "id": account["id"], "name": "Girokonto", "holder_name": "Muster GmbH", "nature": "checking",
            "balance": 100.0, "currency_code": "EUR", "iban": account["extra"]["iban"],
        }],
    }  # fmt: skip


def test_an_unfinished_flow_is_removed_after_fifteen_minutes(service: Service, bank: Bank, owner: Organization) -> None:
    token = begin(service, owner)["pending_token"]
    service.clock.advance(seconds=15 * 60 - 1)
    assert service.db.write_now(flows.remove_unfinished) == 0
    service.clock.advance(seconds=1)
    assert service.db.write_now(flows.remove_unfinished) == 1
    assert listed(service, owner) == []
    assert service.get(f"{CONNECTIONS}/{token}", owner.key).status_code == 404
    # The person was slow, but the bank still reports success.
    finish(bank, token)
    assert [row["status"] for row in listed(service, owner)] == ["active"]


def test_the_same_end_twice_makes_one_connection(service: Service, bank: Bank, owner: Organization) -> None:
    token = begin(service, owner)["pending_token"]
    finish(bank, token)
    finish(bank, token)
    assert len(listed(service, owner)) == 1
    assert len(service.get("/v2/banking/accounts", owner.key).json()["data"]) == 1


def test_a_flow_that_fails_leaves_its_placeholder_to_the_clean_up(
    service: Service, bank: Bank, owner: Organization
) -> None:
    token = begin(service, owner)["pending_token"]
    bank.deliver(kind="ConnectionFailed", error_class="InvalidCredentials", error_message="falsch", pending_token=token)
    [row] = listed(service, owner)
    assert (row["status"], row["error_class"]) == ("pending_connect", "InvalidCredentials")
    assert events(service, owner) == []


@pytest.mark.parametrize(
    ("error_class", "expected"),
    [("InvalidCredentials", "inactive"), ("AispConsentRevoked", "disabled"), ("ProviderError", "active"),
     ("ProviderDisabled", "disabled")],
)  # fmt: skip
@pytest.mark.either_engine
def test_what_an_error_means_for_the_connection(
    service: Service, bank: Bank, owner: Organization, error_class: str, expected: str
) -> None:
    row = bank.connected(owner)
    bank.deliver(kind="ConnectionFailed", error_class=error_class, error_message="warum", provider_ref=row.provider_ref)
    [now] = listed(service, owner)
    assert (now["status"], now["error_class"], now["error_message"]) == (expected, error_class, "warum")
    [event] = events(service, owner)
    assert event["event"] == "connection_error"
    assert event["data"] == {
        "connection_id": row.id, "provider_name": "Musterbank", "provider_code": "musterbank_de", "country_code": "DE",
        "refresh_type": "automatic", "error_class": error_class, "error_message": "warum",
    }  # fmt: skip


def test_a_reconnect_keeps_the_id_and_restores_the_status(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, facts(1))
    bank.deliver(
        kind="ConnectionFailed", error_class="InvalidCredentials", error_message="x", provider_ref=row.provider_ref
    )
    answer = service.post(f"{CONNECTIONS}/{row.id}/reconnect", owner.key, json={"return_to": "https://app.example/"})
    assert answer.status_code == 201
    assert set(answer.json()) == {
        "connect_url",
        "expires_at",
        "owner_user_id",
        "pending_token",
    }
    assert [now["status"] for now in listed(service, owner)] == ["pending"]
    # The provider may use a new reference.
    finish(bank, answer.json()["pending_token"], "bank-renewed")
    [now] = listed(service, owner)
    assert (now["id"], now["status"], now["error_class"]) == (row.id, "active", None)
    assert len(service.get("/v2/banking/accounts", owner.key).json()["data"]) == 1


def test_a_reconnect_that_fails_is_inactive_again(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner)
    fail = {"kind": "ConnectionFailed", "error_message": "x", "provider_ref": row.provider_ref}
    bank.deliver(**fail, error_class="InvalidCredentials")
    service.post(f"{CONNECTIONS}/{row.id}/reconnect", owner.key)
    bank.deliver(**fail, error_class="ProviderError")
    assert [now["status"] for now in listed(service, owner)] == ["inactive"]


def test_a_manual_refresh(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner)
    early = service.post(f"{CONNECTIONS}/{row.id}/refresh", owner.key)
    assert early.status_code == 409
    assert early.json()["next_refresh_possible_at"].startswith("2026-03-02T10:00")
    service.clock.advance(seconds=3600)
    accepted = service.post(f"{CONNECTIONS}/{row.id}/refresh", owner.key)
    assert accepted.status_code == 202
    assert accepted.json()["data"]["id"] == row.id
    assert service.post(f"{CONNECTIONS}/{row.id}/refresh", owner.key).status_code == 409
    finish(bank, None, row.provider_ref)
    assert events(service, owner)[-1]["data"]["refresh_type"] == "manual"
    assert bank.provider.asked[0] == ("refresh", row.provider_ref, "manual")


def test_a_refresh_that_the_provider_does_not_support(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, next_refresh_possible_at=START)
    bank.provider.refusal = ProviderDown("The bank does not answer.")
    assert service.post(f"{CONNECTIONS}/{row.id}/refresh", owner.key).status_code == 503
    bank.provider.refusal = ProviderRefused("AispConsentExpired", "the consent has expired")
    assert service.post(f"{CONNECTIONS}/{row.id}/refresh", owner.key).status_code == 409
    assert [now["status"] for now in listed(service, owner)] == ["inactive"]


def test_automatic_refreshes_are_four_a_day(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner)
    quiet = bank.connected(owner, ref="quiet", automatic_refresh=False)
    for _ in range(24 * 4):
        service.clock.advance(seconds=15 * 60)
        service.run(refresh.refresh_automatically(service.application.context))
    assert bank.provider.asked.count(("refresh", row.provider_ref, "automatic")) == 4
    assert ("refresh", quiet.provider_ref, "automatic") not in bank.provider.asked


def test_an_expired_consent(service: Service, bank: Bank, owner: Organization) -> None:
    bank.connected(owner, consent_expires_at=START + DAY)
    assert service.run(refresh.expire_consents(service.application.context)) == 0
    service.clock.advance(seconds=DAY // 1_000_000)
    assert service.run(refresh.expire_consents(service.application.context)) == 1
    [row] = listed(service, owner)
    assert (row["status"], row["error_class"]) == ("inactive", "AispConsentExpired")
    assert events(service, owner)[-1]["event"] == "connection_error"


def test_a_deleted_connection_is_gone_with_its_data(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, facts(1))
    answer = service.request("DELETE", f"{CONNECTIONS}/{row.id}", owner.key)
    assert answer.status_code == 200
    assert answer.json() == {"data": {"connection_id": row.id, "removed": True}}
    assert listed(service, owner) == []
    assert service.get("/v2/banking/accounts", owner.key).json() == {"data": []}
    assert ("remove", row.provider_ref) in bank.provider.asked
    [event] = events(service, owner)
    assert event["event"] == "connection_destroyed"
    assert event["data"] == {
        "connection_id": row.id,
        "provider_name": "Musterbank",
        "provider_code": "musterbank_de",
        "country_code": "DE",
        "refresh_type": "manual",
    }
    assert service.request("DELETE", f"{CONNECTIONS}/{row.id}", owner.key).status_code == 404


def test_an_access_that_could_not_be_ended_is_ended_later(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner)
    bank.provider.refusal = ProviderDown("The bank does not answer.")
    assert service.request("DELETE", f"{CONNECTIONS}/{row.id}", owner.key).status_code == 200
    bank.provider.refusal = None
    service.clock.advance(seconds=120)
    service.run(routes.end_accesses(service.application.context))
    assert bank.provider.asked.count(("remove", row.provider_ref)) == 2
    service.clock.advance(seconds=DAY // 1_000_000)
    service.run(routes.end_accesses(service.application.context))
    assert bank.provider.asked.count(("remove", row.provider_ref)) == 2


def test_the_bank_may_destroy_a_connection(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, facts(1))
    bank.deliver(kind="ConnectionGone", provider_ref=row.provider_ref)
    assert listed(service, owner) == []
    assert events(service, owner)[-1]["event"] == "connection_destroyed"
    assert ("remove", row.provider_ref) not in bank.provider.asked


def test_connections_go_with_the_user_who_owns_them(service: Service, bank: Bank, owner: Organization) -> None:
    service.user(owner, "chef@muster.example")
    user = service.user(owner, "bank@muster.example", "member")
    started = begin(service, owner, email="bank@muster.example")
    assert started["owner_user_id"] == user.id
    finish(bank, started["pending_token"])
    kept = bank.connected(owner, ref="kept")
    assert service.request("DELETE", f"/v2/auth/users/{user.id}", owner.key).status_code == 200
    assert [row["id"] for row in listed(service, owner)] == [kept.id]
    assert events(service, owner)[-1]["event"] == "connection_destroyed"
    service.run(routes.end_accesses(service.application.context))
    assert ("remove", "bank-1") in bank.provider.asked


@pytest.mark.either_engine
def test_a_wrong_signature_is_refused_and_stores_nothing(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner)
    answer = bank.deliver(kind="ConnectionGone", provider_ref=row.provider_ref, signature="forged")
    assert answer.status_code == 401
    assert len(listed(service, owner)) == 1
    assert service.db.read_now(lambda tx: tx.all("SELECT 1 FROM banking_inbox")) == []
    assert service.post("/v2/banking/webhooks/nobody", json={}).status_code == 404


@pytest.mark.either_engine
def test_what_cannot_be_applied_yet_is_applied_later(service: Service, bank: Bank, owner: Organization) -> None:
    token = begin(service, owner)["pending_token"]
    # The bank reports success, but does not answer when its data is fetched.
    assert bank.deliver(kind="ConnectionFinished", provider_ref="slow", pending_token=token).status_code == 200
    assert [row["status"] for row in listed(service, owner)] == ["pending_connect"]
    bank.provider.snapshots["slow"] = Snapshot(bank.connection_facts("slow"), [account_facts()], [])
    service.clock.advance(seconds=HOUR // 1_000_000)
    service.run(webhooks.apply_waiting(service.application.context))
    assert [row["status"] for row in listed(service, owner)] == ["active"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("return_to", "ftp://x.example/"), ("return_to", "https://a@b.example/"), ("scopes", ["alles"]),
     ("custom_fields", {"x": "y" * 5000}), ("provider", "x")],
)  # fmt: skip
@pytest.mark.either_engine
def test_bad_input_names_its_field(service: Service, bank: Bank, owner: Organization, field: str, value: Any) -> None:
    answer = service.post("/v2/banking/connect", owner.key, json={field: value})
    assert answer.status_code == 400
    assert f"`{field}" in answer.json()["error"]
    assert listed(service, owner) == []


def test_accounts_are_listed_by_api_and_connection(service: Service, bank: Bank, owner: Organization) -> None:
    one = bank.connected(owner, ref="one")
    two = bank.connected(owner, ref="two", api="openbanking", templates=())

    def names(**query: str) -> list[str]:
        return [item["id"] for item in service.get("/v2/banking/accounts", owner.key, params=query).json()["data"]]

    first, second = names()
    assert names(connection_id=one.id) == [first]
    assert names(connection_id=two.id) == [second]
    assert names(api="partner") == [first]
    assert names(api="openbanking") == [second]
    assert names(payments_supported="true") == [first]
    assert names(payments_supported="false") == [second]
    assert service.get("/v2/banking/accounts", owner.key, params={"connection_id": "7"}).status_code == 404
    assert service.get("/v2/banking/accounts", owner.key, params={"api": "x"}).status_code == 400
    account = service.get(f"/v2/banking/accounts/{first}", owner.key).json()["data"]
    assert set(account) == {
        "can_hide", "id", "name", "nature", "balance", "currency_code", "created_at", "updated_at", "extra",
    }  # fmt: skip
    assert set(account["extra"]) == {"iban", "holder_name", "transactions_count"}


def test_an_error_reported_twice_is_one_event(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner)
    for _ in range(2):
        bank.deliver(
            kind="ConnectionFailed", error_class="InvalidCredentials", error_message="x", provider_ref=row.provider_ref
        )
    assert [event["event"] for event in events(service, owner)] == ["connection_error"]


def test_a_reconnect_called_off_leaves_a_healthy_connection_alone(
    service: Service, bank: Bank, owner: Organization
) -> None:
    row = bank.connected(owner)
    token = service.post(f"{CONNECTIONS}/{row.id}/reconnect", owner.key).json()["pending_token"]
    bank.deliver(
        kind="ConnectionFailed",
        error_class="Cancelled",
        error_message="x",
        provider_ref=row.provider_ref,
        pending_token=token,
    )
    [now] = listed(service, owner)
    assert (now["status"], now["error_class"]) == ("active", None)
    assert events(service, owner) == []


def test_a_flow_called_off_makes_no_connection(service: Service, bank: Bank, owner: Organization) -> None:
    token = begin(service, owner)["pending_token"]
    assert service.request("DELETE", f"{CONNECTIONS}/{token}", owner.key).status_code == 200
    finish(bank, token)
    assert listed(service, owner) == []
    assert events(service, owner) == []
