"""Keys that may do less: scopes by the declaration of each endpoint, and what a key may hand on."""

from __future__ import annotations

import re
from typing import Any

import httpx
import msgspec
import pytest

from kontobahn.access import audit, keys
from kontobahn.access.principal import SCOPES, Limits, Principal, Role, Scope, parse_scopes
from kontobahn.api.openapi import build_openapi
from kontobahn.app import all_endpoints
from kontobahn.errors import BadRequest, Forbidden, NotFound
from kontobahn.settings import load
from tests.harness import ACTOR, Organization, Service
from tests.spec_pages import on_sqlite

UNKNOWN = "0193b2a0-0000-7000-8000-00000000abcd"
HOOK = {"webhook_url": "https://93.184.216.34/events"}


def new_key(service: Service, owner: Organization, *wanted: Scope, role: Role = "owner", **more: Any) -> str:
    restricted = tuple(wanted) or None
    return service.db.write_now(
        keys.create, service.vault, owner.id, "restricted", ACTOR, role=role, scopes=restricted, **more
    ).secret


def test_every_endpoint_declares_the_scope_it_needs() -> None:
    without = [item.name for item in all_endpoints() if item.caller != "anybody" and not item.scopes]
    assert without == [], "say `scope=…` in the declaration; a key with a list of scopes cannot call these"
    open_to_all = [item.name for item in all_endpoints() if item.caller == "anybody" and item.scopes]
    assert open_to_all == []
    assert {scope for item in all_endpoints() for scope in item.scopes} == set(SCOPES)


def test_the_document_says_which_scope_a_call_needs() -> None:
    document = msgspec.json.decode(build_openapi(all_endpoints(), load({})))
    paying = document["paths"]["/v2/banking/payments"]
    assert paying["post"]["security"] == [{"apiKey": ["payments"]}]
    assert paying["get"]["security"] == [{"apiKey": ["banking:read"]}, {"apiKey": ["payments"]}]
    assert paying["get"]["description"].endswith("Scope: `banking:read` or `payments`.")
    assert document["paths"]["/v2/auth/users"]["get"]["security"] == [{"apiKey": ["admin"]}, {"session": []}]
    for item in all_endpoints():
        operation = document["paths"][item.path][item.method.lower()]
        assert operation["x-required-scopes"] == list(item.scopes)
        assert ("403" in operation["responses"]) == (item.caller != "anybody")
    example = document["components"]["responses"]["Forbidden"]["content"]["application/json"]["example"]
    assert example["missing_scope"] in example["error"]


@on_sqlite
def test_a_key_of_one_scope_reaches_its_calls_and_no_other(service: Service) -> None:
    """Every call of the document, with nothing but its path: refused for its scope, or for anything else."""
    document = msgspec.json.decode(build_openapi(all_endpoints(), load({})))
    calls = [
        (method.upper(), path, operation["x-required-scopes"], operation["security"])
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]
    for scope in SCOPES:
        # An organisation each: one of the calls may delete what another looks for.
        key = new_key(service, service.organization(), scope)
        for method, path, needed, security in calls:
            answer = service.request(method, re.sub(r"\{(\w+)\}", _anything, path), key)
            further = [name for one in security for name in one.get("apiKey", ()) if name not in needed]
            if scope in needed and further:
                assert (answer.status_code, answer.json()["missing_scope"]) == (403, further[0])
            elif not needed or scope in needed:
                assert "missing_scope" not in answer.text, f"{method} {path}: {answer.text}"
            else:
                assert answer.status_code == 403, f"{method} {path}: {answer.text}"
                assert answer.json()["missing_scope"] == needed[0]
                assert all(name in answer.json()["error"] for name in (*needed, scope))


def _anything(parameter: re.Match[str]) -> str:
    return {"id": UNKNOWN, "nummer": "1"}.get(parameter[1], "x")


# For every scope, a call that it allows and one that it does not.
CALLS: dict[Scope, tuple[tuple[str, str, Any], tuple[str, str, Any]]] = {
    "ledger:read": (
        ("GET", "/v2/ledger-duo/connections", None),
        ("POST", f"/v2/ledger-rewe/imports/{UNKNOWN}/undo", None),
    ),
    "ledger:write": (
        ("POST", f"/v2/ledger-rewe/imports/{UNKNOWN}/undo?connectionId={UNKNOWN}", None),
        ("GET", "/v2/ledger-rewe-read/connections", None),
    ),
    "banking:read": (("GET", "/v2/banking/accounts", None), ("POST", "/v2/banking/statements", None)),
    "banking:write": (("POST", "/v2/banking/connect", {}), ("GET", "/v2/banking/transactions", None)),
    "payments": (("GET", "/v2/banking/payments", None), ("GET", "/v2/banking/accounts", None)),
    "mobility:read": (("GET", "/v2/mobility/customers", None), ("PUT", "/v2/mobility/seller", None)),
    "mobility:write": (
        ("POST", f"/v2/mobility/tickets/{UNKNOWN}/cancel", None),
        ("GET", "/v2/mobility/invoices", None),
    ),
    "payables:read": (("GET", "/v2/payables", None), ("PUT", "/v2/payables/settings", {})),
    "payables:write": (("PUT", "/v2/payables/settings", {}), ("GET", "/v2/payables", None)),
    "webhooks": (("PUT", "/v2/banking/webhook-url", HOOK), ("GET", "/v2/banking/connections", None)),
    "admin": (("POST", "/v2/auth/invitations", {"email": "a@b.de"}), ("GET", "/v2/banking/webhook-url", None)),
}


@on_sqlite
def test_what_a_scope_allows_is_done_and_what_it_does_not_is_not(service: Service) -> None:
    mine = service.organization()
    for scope, (allowed, forbidden) in CALLS.items():
        key = new_key(service, mine, scope, role="admin")
        done = _call(service, key, allowed)
        # Nothing is found under an id that nobody has; it was looked for.
        assert done.status_code in (200, 201, 404), f"{scope}: {done.text}"
        assert _call(service, key, forbidden).status_code == 403, scope
        assert _call(service, mine.key, forbidden).status_code != 403, (
            "a key without a list may do what its role allows"
        )


def _call(service: Service, key: str, call: tuple[str, str, Any]) -> httpx.Response:
    method, path, body = call
    return service.request(method, path, key, **({} if body is None else {"json": body}))


@on_sqlite
def test_where_events_go_is_said_by_admins_or_by_the_scope(service: Service) -> None:
    mine = service.organization()
    member = new_key(service, mine, role="member")
    refused = service.request("PUT", "/v2/banking/webhook-url", member, json=HOOK)
    assert refused.status_code == 403
    assert "role admin" in refused.json()["error"]
    assert "scope webhooks" in refused.json()["error"]
    assert service.get("/v2/banking/webhook-url", member).status_code == 200
    for key, status in (
        (mine.key, 200),
        (new_key(service, mine, "webhooks", role="member"), 200),
        (new_key(service, mine, "banking:write", role="admin"), 403),
    ):
        assert service.request("PUT", "/v2/banking/webhook-url", key, json=HOOK).status_code == status
        assert service.post("/v2/banking/webhook-url/secret", key).status_code == (201 if status == 200 else 403)
    # No other scope stands in for a role.
    assert (
        service.post("/v2/auth/invitations", new_key(service, mine, "admin", role="member"), json={}).status_code == 403
    )


@on_sqlite
def test_the_scopes_of_an_agency_key_hold_for_every_client(service: Service) -> None:
    client, agency = service.organization("Mandant"), service.organization("Kanzlei")
    key = new_key(service, agency, "ledger:read", clients=(client.id,))
    of_client = {"organization_id": client.id}
    assert service.get("/v2/ledger-duo/connections", key, params=of_client).status_code == 200
    refused = service.get("/v2/banking/connections", key, params=of_client)
    assert (refused.status_code, refused.json()["missing_scope"]) == (403, "banking:read")


def test_rotation_keeps_scopes_and_limits_and_the_log_says_them(service: Service) -> None:
    mine, limits = service.organization(), Limits(500_00, 2000_00)
    first = service.db.write_now(
        keys.create, service.vault, mine.id, "n8n", ACTOR, scopes=("payments", "banking:read"), limits=limits
    )
    second = service.db.write_now(keys.rotate, service.vault, mine.id, first.key.id, ACTOR, overlap_seconds=60)
    third = service.db.write_now(keys.rotate, service.vault, mine.id, second.key.id, ACTOR, overlap_seconds=60)
    assert second.key.rights == third.key.rights == first.key.rights
    assert second.key.first_key_id == third.key.first_key_id == first.key.id
    assert service.get("/v2/banking/payments", third.secret).status_code == 200
    assert service.get("/v2/mobility/customers", third.secret).status_code == 403
    logged = [
        entry.details for entry in service.db.read_now(audit.entries, mine.id) if entry.action == "api_key.create"
    ]
    assert '"scopes":["payments","banking:read"]' in logged[1]
    assert '"payment_limit":"500.00","daily_limit":"2000.00"' in logged[1]


@on_sqlite
def test_nobody_gives_a_key_more_than_they_have(service: Service) -> None:
    mine, other = service.organization(), service.organization("Andere")
    admin = Principal(mine.id, "admin", (mine.id,), user_id="u")
    limited = admin._replace(key_id="k", scopes=("ledger:read", "payments"), limits=Limits(None, 100_00))

    def make(by: Principal, organization_id: str = mine.id, **rights: Any) -> None:
        service.db.write_now(keys.create, service.vault, organization_id, "x", ACTOR, by=by, **rights)

    make(admin, role="admin", scopes=("admin",))
    make(limited, scopes=("payments",), limits=Limits(None, 100_00))
    refused: list[tuple[Principal, dict[str, Any], type[Exception]]] = [
        (admin, {"role": "owner"}, Forbidden),
        (admin, {"clients": (other.id,)}, NotFound),
        (admin, {"organization_id": other.id}, NotFound),
        (limited, {"scopes": ("ledger:write",), "limits": Limits(None, 1)}, Forbidden),
        (limited, {"limits": Limits(None, 1)}, Forbidden),  # without a list: more than its own list
        (limited, {"scopes": ("payments",)}, Forbidden),  # without a limit
        (limited, {"scopes": ("payments",), "limits": Limits(None, 100_01)}, Forbidden),
        (admin, {"limits": Limits(0, None)}, BadRequest),
        (admin, {"limits": Limits(2, 1)}, BadRequest),
    ]
    for by, rights, error in refused:
        with pytest.raises(error):
            make(by, **rights)
    powerful = service.db.write_now(keys.create, service.vault, mine.id, "owner", ACTOR, role="owner")
    with pytest.raises(Forbidden):  # whoever rotates it gets its successor
        service.db.write_now(keys.rotate, service.vault, mine.id, powerful.key.id, ACTOR, overlap_seconds=0, by=admin)
    assert len(service.db.read_now(keys.listing, mine.id)) == 4


def test_a_scope_is_spelt_right_or_refused_with_the_nearest() -> None:
    assert parse_scopes(["payments", "ledger:read", "payments"]) == ("ledger:read", "payments")
    with pytest.raises(BadRequest, match=r"Did you mean `ledger:read`\?"):
        parse_scopes(["ledger:raed"])
    with pytest.raises(BadRequest, match="The scopes are ledger:read"):
        parse_scopes(["x" * 1_000_000])
    with pytest.raises(BadRequest, match="empty list"):
        parse_scopes([])
