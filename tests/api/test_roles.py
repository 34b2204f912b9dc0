"""Roles of keys and people by call: each may do what its role allows, and access to clients is a person's own."""

from __future__ import annotations

import re

import httpx
import pytest

from kontobahn.access import audit, keys
from kontobahn.access.principal import ROLES, Role
from kontobahn.app import all_endpoints
from kontobahn.db import Tx
from tests.file_bank import FileBank
from tests.harness import ACTOR, Organization, Service

ACCESS = "/v2/auth/client-access"
UNKNOWN = "0193b2a0-0000-7000-8000-00000000abcd"
ENDPOINTS = [endpoint for endpoint in all_endpoints() if endpoint.caller != "anybody"]


def key_of(service: Service, owner: Organization, role: Role, **rights: object) -> str:
    return service.db.write_now(keys.create, service.vault, owner.id, role, ACTOR, role=role, **rights).secret  # type: ignore[arg-type]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.either_engine
def test_a_call_is_refused_exactly_to_roles_below_its_own(service: Service, role: Role) -> None:
    owner = service.organization()
    key = key_of(service, owner, role)
    for endpoint in ENDPOINTS:
        path = re.sub(r"\{\w+\}", UNKNOWN, endpoint.path)
        refused = "This call needs the role" in service.request(endpoint.method, path, key).text
        assert refused == (ROLES.index(role) < ROLES.index(endpoint.role)), endpoint.name


def test_what_changes_something_is_for_bookkeeping_and_what_pays_for_those_who_pay() -> None:
    own = {"DELETE /v2/auth/sessions/{id}", "POST /v2/auth/password", "POST /v2/auth/sessions/confirm",
           "POST /v2/auth/invitations/join"}  # fmt: skip
    for endpoint in ENDPOINTS:
        if endpoint.method != "GET" and endpoint.name not in own:
            assert endpoint.role != "read_only", endpoint.name
        if "payments" in endpoint.scopes and (endpoint.method != "GET" or endpoint.media_types):
            assert ROLES.index(endpoint.role) >= ROLES.index("member"), endpoint.name
        if endpoint.path.startswith("/v2/auth/") and endpoint.method != "GET" and endpoint.name not in own:
            assert ROLES.index(endpoint.role) >= ROLES.index("admin"), endpoint.name
            assert endpoint.confirm or endpoint.name == "DELETE /v2/auth/invitations/{id}", endpoint.name


def test_somebody_who_only_reads_or_books_orders_nothing(service: Service) -> None:
    bank = FileBank(service)
    body = {
        "account_id": bank.account_id(), "amount": "25000.00", "creditor_name": "Beispiel GmbH",
        "creditor_iban": "DE02120300000000202051", "description": "Rechnung",
    }  # fmt: skip
    for role, status in (("read_only", 403), ("bookkeeping", 403), ("member", 201)):
        key = key_of(service, bank.owner, role)  # type: ignore[arg-type]
        assert service.post("/v2/banking/payments", key, json=body).status_code == status
        assert service.get("/v2/banking/payments", key).status_code == 200


@pytest.mark.either_engine
def test_a_scope_replaces_no_role_of_a_key_that_only_reads(service: Service) -> None:
    owner, body = service.organization(), {"webhook_url": "https://93.184.216.34/events"}
    for role, status in (("read_only", 403), ("bookkeeping", 200), ("member", 200)):
        key = key_of(service, owner, role, scopes=("webhooks",))  # type: ignore[arg-type]
        assert service.request("PUT", "/v2/banking/webhook-url", key, json=body).status_code == status


# --- Access to clients


def give(service: Service, by: str, user_id: str, client: Organization, role: str) -> httpx.Response:
    return service.request("PUT", f"{ACCESS}/{user_id}/{client.id}", by, json={"role": role})


def actions(service: Service, organization: Organization) -> list[str]:
    def read(tx: Tx) -> list[str]:
        return [entry.action for entry in audit.entries(tx, organization.id) if entry.action.startswith("client_")]

    return service.db.read_now(read)


def test_access_comes_from_who_administers_the_client_and_never_from_a_key(service: Service) -> None:
    client, other = service.organization("Klient GmbH"), service.organization("Andere GmbH")
    agency = service.agency(client, other)
    adviser = service.user(agency, "kanzlei@beispiel.example", "admin")
    colleague = service.user(agency, "kollegin@beispiel.example", "member")
    session = service.session(adviser.email)
    # Neither the key that acts for the client, nor an administrator of the agency without access of their own.
    assert give(service, agency.key, colleague.id, client, "member").status_code == 403
    assert give(service, session, colleague.id, client, "read_only").status_code == 404
    service.give_access(adviser, client, "member")
    assert give(service, session, colleague.id, client, "read_only").status_code == 403
    service.give_access(adviser, client, "admin")
    assert give(service, session, colleague.id, client, "member").status_code == 200
    assert give(service, session, colleague.id, other, "read_only").status_code == 404
    # The client's own administrators see it, change it and end it; the agency's end it too.
    [row] = [one for one in service.get(ACCESS, client.key).json()["data"] if one["user_id"] == colleague.id]
    assert (row["role"], row["organization_name"], row["email"]) == ("member", "Klient GmbH", colleague.email)
    assert give(service, client.key, colleague.id, client, "read_only").json()["data"]["role"] == "read_only"
    assert give(service, client.key, UNKNOWN, client, "read_only").status_code == 404
    ended = service.request("DELETE", f"{ACCESS}/{colleague.id}/{client.id}", session)
    assert (ended.status_code, ended.json()["data"]["removed"]) == (200, True)
    assert service.request("DELETE", f"{ACCESS}/{adviser.id}/{client.id}", client.key).status_code == 200
    assert service.get(ACCESS, client.key).json()["data"] == []
    assert actions(service, client) == actions(service, agency)
    assert actions(service, client).count("client_access.give") == 4


def test_an_invitation_is_accepted_with_the_account_that_is_there(service: Service) -> None:
    client, agency = service.organization("Klient GmbH"), service.organization("Kanzlei")
    adviser, nobody = service.user(agency, "kanzlei@beispiel.example", "read_only"), service.user(agency, "x@y.example")
    invited = service.post("/v2/auth/invitations", client.key, json={"email": adviser.email}).json()["data"]
    assert invited["role"] == "bookkeeping"
    body, join = {"token": invited["token"]}, "/v2/auth/invitations/join"
    assert service.post(join, agency.key, json=body).status_code == 403
    assert service.post(join, service.session(nobody.email), json=body).status_code == 403
    joined = service.post(join, service.session(adviser.email), json=body)
    assert joined.status_code == 201, joined.text
    assert joined.json()["data"]["role"] == "bookkeeping"
    logged = service.db.read_now(audit.entries, client.id)
    assert {entry.action for entry in logged} >= {"client_access.give", "invitation.accept"}
    assert service.post(join, service.session(adviser.email), json=body).status_code == 409
    owner = service.db.write_now(keys.create, service.vault, client.id, "owner", ACTOR, role="owner").secret
    as_owner = service.post("/v2/auth/invitations", owner, json={"email": nobody.email, "role": "owner"})
    token = {"token": as_owner.json()["data"]["token"]}
    assert service.post(join, service.session(nobody.email), json=token).status_code == 409


def test_access_goes_with_the_person(service: Service) -> None:
    client, agency = service.organization("Klient GmbH"), service.organization("Kanzlei")
    adviser = service.user(agency, "kanzlei@beispiel.example", "member")
    service.give_access(adviser, client)
    assert service.request("DELETE", f"/v2/auth/users/{adviser.id}", agency.key).status_code == 200
    assert service.get(ACCESS, client.key).json()["data"] == []
