"""The recipes of the tenancy matrix for assistants: what has an id there, and how it is made."""

from __future__ import annotations

from tests.assistants.assistant import let_in, to_prepare
from tests.bank_builder import Bank, account_id
from tests.harness import Organization, Service
from tests.ledger_builder import Books
from tests.tenancy_recipes import Recipe, of_organization

_BASE = "/v2/assistants"


def account(service: Service, owner: Organization) -> dict[str, str]:
    let_in(service, owner)
    Bank(service).connected(owner)
    return {"account_id": account_id(service, owner)}


def _prepared(service: Service, owner: Organization) -> dict[str, str]:
    made = service.post(f"{_BASE}/payments", owner.key, json=to_prepare(account(service, owner)["account_id"]))
    assert made.status_code == 201, made.text
    return {"id": made.json()["data"]["id"]}


def books(service: Service, owner: Organization) -> dict[str, str]:
    let_in(service, owner)
    return {"connection_id": Books(service, owner).connection_id}


ASSISTANT_RECIPES: dict[tuple[str, str], Recipe] = {
    (f"GET {_BASE}/access", "organization_id"): Recipe(of_organization),
    (f"GET {_BASE}/books", "connection_id"): Recipe(books),
    (f"GET {_BASE}/books", "organization_id"): Recipe(of_organization),
    (f"GET {_BASE}/settings", "organization_id"): Recipe(of_organization),
    (f"PUT {_BASE}/settings", "organization_id"): Recipe(of_organization, body={"enabled": False}),
    (f"GET {_BASE}/prepared", "organization_id"): Recipe(of_organization),
    (f"GET {_BASE}/prepared/{{id}}", "id"): Recipe(_prepared),
    (f"POST {_BASE}/prepared/{{id}}/withdraw", "id"): Recipe(_prepared, used_up=True),
}
