"""The recipes of the tenancy matrix for reconciliation: what has an id there, and how it is made."""

from __future__ import annotations

from tests.harness import Organization, Service
from tests.reconciliation_desk import Clerk, paid
from tests.tenancy_recipes import Recipe, of_organization
from tests.twin_accounts import RENT, Twins

_BASE = "/v2/reconciliation"


def clerk(service: Service, owner: Organization) -> Clerk:
    """One with a proposal to decide about."""
    desk = Clerk(service, paid(119_00, "RE-2026-00123"), owner=owner)
    desk.store_run()
    return desk


def _account(service: Service, owner: Organization) -> dict[str, str]:
    desk = Clerk(service, owner=owner)
    return {"account_id": desk.account}


def _books(service: Service, owner: Organization) -> dict[str, str]:
    return {"connection_id": Clerk(service, owner=owner).books.connection_id}


def _transaction(service: Service, owner: Organization) -> dict[str, str]:
    return {"id": clerk(service, owner).listed(119)["id"]}


def _proposal(service: Service, owner: Organization) -> dict[str, str]:
    return {"id": clerk(service, owner).listed(119)["best_proposal"]["id"]}


def _match(service: Service, owner: Organization) -> dict[str, str]:
    return {"id": clerk(service, owner).confirm(119).json()["data"]["id"]}


def _learned(service: Service, owner: Organization) -> dict[str, str]:
    desk = clerk(service, owner)
    assert desk.confirm(119).status_code == 201
    return {"id": desk.read("knowledge", connection_id=desk.books.connection_id)[0]["id"]}


def _account_and_books(service: Service, owner: Organization) -> dict[str, str]:
    desk = Clerk(service, owner=owner)
    return {"account_id": desk.account, "connection_id": desk.books.connection_id}


def booked(service: Service, owner: Organization) -> dict[str, str]:
    """A batch with a file."""
    desk = clerk(service, owner)
    assert desk.set_up(booked_by="kontobahn").status_code == 200
    assert desk.confirm(119).status_code == 201
    return {"id": desk.call("POST", "batches", json={"account_id": desk.account}).json()["data"]["id"]}


def twins(service: Service, owner: Organization) -> dict[str, str]:
    """Two accounts that are one at the bank."""
    both = Twins(service, owner, RENT)
    return {"account_id": both.fetched, "merged_account_id": both.filed}


def _merge(service: Service, owner: Organization) -> dict[str, str]:
    return {"id": Twins(service, owner, RENT).merge()["id"]}


_MERGES = "/v2/banking/account-merges"
RECONCILIATION_RECIPES: dict[tuple[str, str], Recipe] = {
    (f"DELETE {_BASE}/knowledge/{{id}}", "id"): Recipe(_learned, used_up=True),
    (f"GET {_BASE}/accounts", "organization_id"): Recipe(of_organization),
    (f"GET {_MERGES}", "organization_id"): Recipe(of_organization),
    **{(f"GET {_MERGES}/preview", name): Recipe(twins, unknown="777") for name in ("account_id", "merged_account_id")},
    (f"POST {_MERGES}/{{id}}/undo", "id"): Recipe(_merge, used_up=True),
    (f"GET {_BASE}/batches", "account_id"): Recipe(_account, unknown="777"),
    (f"GET {_BASE}/batches", "organization_id"): Recipe(of_organization),
    (f"GET {_BASE}/batches/{{id}}", "id"): Recipe(booked),
    (f"GET {_BASE}/batches/{{id}}/bookings", "id"): Recipe(booked),
    (f"GET {_BASE}/batches/{{id}}/extf", "id"): Recipe(booked),
    (f"GET {_BASE}/knowledge", "connection_id"): Recipe(_books),
    (f"GET {_BASE}/matches", "account_id"): Recipe(_account, unknown="777"),
    (f"GET {_BASE}/matches", "organization_id"): Recipe(of_organization),
    (f"GET {_BASE}/matches/{{id}}", "id"): Recipe(_match),
    (f"GET {_BASE}/report", "account_id"): Recipe(_account, unknown="777"),
    (f"GET {_BASE}/rules", "connection_id"): Recipe(_books),
    (f"GET {_BASE}/transactions", "account_id"): Recipe(_account, unknown="777"),
    (f"GET {_BASE}/transactions", "organization_id"): Recipe(of_organization),
    (f"GET {_BASE}/transactions/{{id}}", "id"): Recipe(_transaction, unknown="777"),
    (f"POST {_BASE}/matches/{{id}}/undo", "id"): Recipe(_match, body={"reason": ""}, used_up=True),
    (f"POST {_BASE}/proposals/{{id}}/confirm", "id"): Recipe(_proposal, used_up=True),
    (f"POST {_BASE}/proposals/{{id}}/reject", "id"): Recipe(_proposal),
    (f"PUT {_BASE}/accounts/{{account_id}}", "account_id"): Recipe(
        _account_and_books, unknown="777", body={"konto": "1200"}, in_body=("connection_id",)
    ),
    (f"PUT {_BASE}/rules", "connection_id"): Recipe(_books, body={"rules": []}),
    (f"PUT {_BASE}/transactions/{{id}}", "id"): Recipe(_transaction, unknown="777", body={"status": "ignored"}),
}
