"""The owner of a bank connection, how long its flow lasts, and when a refresh is worth an event."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.access import keys
from kontobahn.banking.connections import flows
from kontobahn.banking.provider import Snapshot
from tests.api.banking.test_connections import CONNECTIONS, bank, begin, finish, listed, owner
from tests.bank_builder import Bank, account_facts, events, facts
from tests.harness import ACTOR, Organization, Service

__all__ = ["bank", "owner"]
CONNECT = "/v2/banking/connect"


def key_of(service: Service, organization: Organization, user_id: str | None, *clients: Organization) -> str:
    ids = tuple(client.id for client in clients)
    return service.db.write_now(
        keys.create, service.vault, organization.id, "k", ACTOR, role="admin", created_by=user_id, clients=ids
    ).secret


def test_a_connection_belongs_to_the_user_of_the_key(service: Service, bank: Bank, owner: Organization) -> None:
    assert begin(service, owner)["owner_user_id"] is None
    first = service.user(owner, "erika@muster.example")
    # Nobody else could be meant.
    assert begin(service, owner)["owner_user_id"] == first.id
    second = service.user(owner, "max@muster.example", role="member")
    assert begin(service, owner)["owner_user_id"] is None
    started = service.post(CONNECT, key_of(service, owner, second.id)).json()
    assert started["owner_user_id"] == second.id
    finish(bank, started["pending_token"])
    [row] = [row for row in listed(service, owner) if row["status"] == "active"]
    assert row["owner_user_id"] == second.id
    assert service.request("DELETE", f"/v2/auth/users/{second.id}", key_of(service, owner, first.id)).status_code == 200
    assert [row for row in listed(service, owner) if row["status"] == "active"] == []


@pytest.mark.either_engine
def test_an_address_that_nobody_has_is_refused(service: Service, bank: Bank, owner: Organization) -> None:
    service.user(owner, "erika@muster.example")
    service.user(service.organization("Fremd"), "fremd@muster.example")
    for address in ("nobody@muster.example", "fremd@muster.example"):
        answer = service.post(CONNECT, owner.key, json={"email": address})
        assert (answer.status_code, answer.json()["field"]) == (400, "email")
    assert bank.provider.asked == []
    assert listed(service, owner) == []


def test_an_agency_connects_for_a_client_and_its_user_owns_it(
    service: Service, bank: Bank, owner: Organization
) -> None:
    agency = service.agency(owner)
    adviser = service.user(agency, "kanzlei@beispiel.example")
    key = key_of(service, agency, adviser.id, owner)
    started = service.post(CONNECT, key, params={"organization_id": owner.id}).json()
    assert started["owner_user_id"] == adviser.id
    finish(bank, started["pending_token"])
    [row] = listed(service, owner)
    assert (row["status"], row["owner_user_id"]) == ("active", adviser.id)
    assert service.get(f"{CONNECTIONS}/{row['id']}", key).status_code == 200
    # It goes with the person who signed in at the bank.
    service.user(agency, "zweite@beispiel.example")
    session = service.session("zweite@beispiel.example")
    assert service.request("DELETE", f"/v2/auth/users/{adviser.id}", session).status_code == 200
    assert listed(service, owner) == []


def test_expires_at_is_when_the_placeholder_goes(service: Service, bank: Bank, owner: Organization) -> None:
    assert begin(service, owner)["expires_at"] == "2026-03-02T09:15:00Z"
    service.clock.advance(seconds=46 * 60)
    # The provider's address ends before.
    assert begin(service, owner)["expires_at"] == "2026-03-02T10:00:00Z"


def test_a_placeholder_has_a_country(service: Service, bank: Bank, owner: Organization) -> None:
    begin(service, owner)
    assert [row["country_code"] for row in listed(service, owner)] == ["ZZ"]


def test_an_abandoned_reconnect_is_inactive_again(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner)
    bank.deliver(
        kind="ConnectionFailed", error_class="InvalidCredentials", error_message="x", provider_ref=row.provider_ref
    )
    started = service.post(f"{CONNECTIONS}/{row.id}/reconnect", owner.key).json()
    assert started["expires_at"] == "2026-03-02T09:15:00Z"
    service.clock.advance(seconds=15 * 60 - 1)
    service.db.write_now(flows.remove_unfinished)
    assert [item["status"] for item in listed(service, owner)] == ["pending"]
    service.clock.advance(seconds=1)
    service.db.write_now(flows.remove_unfinished)
    [now] = listed(service, owner)
    assert (now["status"], now["error_class"]) == ("inactive", "InvalidCredentials")
    # The person was slow, and still gets there.
    finish(bank, started["pending_token"], row.provider_ref)
    assert [item["status"] for item in listed(service, owner)] == ["active"]


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (([account_facts()], [facts(1)]), []),
        (([account_facts()], [facts(1), facts(2)]), ["refresh_complete"]),
        (([account_facts(balance_minor=99_00)], [facts(1)]), ["refresh_complete"]),
        (([account_facts(name="Anders")], [facts(1)]), ["refresh_complete"]),
        (([account_facts(), account_facts("acc-2", "DE02500105170137075030")], [facts(1)]), ["refresh_complete"]),
    ],
    ids=["nothing", "transaction", "balance", "name", "account"],
)
@pytest.mark.either_engine
def test_a_refresh_is_told_only_if_it_brought_something(
    service: Service, bank: Bank, owner: Organization, now: tuple[list[Any], list[Any]], expected: list[str]
) -> None:
    row = bank.connected(owner, facts(1))
    bank.provider.snapshots[row.provider_ref] = Snapshot(bank.connection_facts(row.provider_ref), *now)
    bank.deliver(kind="ConnectionFinished", provider_ref=row.provider_ref)
    assert [event["event"] for event in events(service, owner)] == expected


def test_that_a_connection_works_again_is_told(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, facts(1))
    bank.deliver(
        kind="ConnectionFailed", error_class="InvalidCredentials", error_message="x", provider_ref=row.provider_ref
    )
    bank.deliver(kind="ConnectionFinished", provider_ref=row.provider_ref)
    assert [event["event"] for event in events(service, owner)] == ["connection_error", "refresh_complete"]
