"""The tenancy matrix: every call that takes an id, made by its owner, a stranger, agencies and a revoked key.

Which calls take an id is read from the OpenAPI document, so a new one without a recipe here fails the test. A stranger's answer
for a real id must be byte-identical to the answer for an id that nobody has.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx
import pytest

from kontobahn.access import keys
from kontobahn.api.openapi import build_openapi
from kontobahn.app import all_endpoints
from kontobahn.settings import load
from tests.harness import ACTOR, Organization, Service

UNKNOWN = "0193b2a0-0000-7000-8000-00000000abcd"
SAME_REQUEST_ID = {"x-request-id": "tenancy"}


class Recipe(NamedTuple):
    """How to make something with an id, and how to ask for it."""

    make: Callable[[Service, Organization], str]
    body: Any = None
    # Whether an agency may do this for its clients; managing their people is not its business.
    agency_may: bool = True


def _user(service: Service, owner: Organization) -> str:
    return service.user(owner, f"{owner.id[-12:]}@muster.example", role="member").id


def _invitation(service: Service, owner: Organization) -> str:
    made = service.post("/v2/auth/invitations", owner.key, json={"email": "a@b.de"})
    return str(made.json()["data"]["id"])


def _session(service: Service, owner: Organization) -> str:
    user = service.user(owner, f"{owner.id[-12:]}@muster.example", role="admin")
    token = service.session(user.email)
    _sessions[owner.key] = token
    return str(service.get("/v2/auth/sessions", token).json()["data"][0]["id"])


# A session is ended by its own person, not by the organisation's key.
_sessions: dict[str, str] = {}

RECIPES: dict[tuple[str, str], Recipe] = {
    ("DELETE /v2/auth/users/{id}", "id"): Recipe(_user, agency_may=False),
    ("PUT /v2/auth/users/{id}", "id"): Recipe(_user, body={"role": "admin"}, agency_may=False),
    ("DELETE /v2/auth/invitations/{id}", "id"): Recipe(_invitation, agency_may=False),
    ("DELETE /v2/auth/sessions/{id}", "id"): Recipe(_session, agency_may=False),
    ("GET /v2/ledger-rewe-read/connections", "organization_id"): Recipe(lambda service, owner: owner.id),
    ("GET /v2/ledger-duo/connections", "organization_id"): Recipe(lambda service, owner: owner.id),
}


def id_taking_calls() -> list[tuple[str, str]]:
    """Every operation and parameter of the document whose name says that it is an id."""
    import msgspec

    document = msgspec.json.decode(build_openapi(all_endpoints(), load({})))
    found = []
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for parameter in operation.get("parameters", ()):
                name, where = parameter["name"], parameter["in"]
                if where == "path" or (where == "query" and re.search(r"(^id|_id|Id)$", name) and name != "from_id"):
                    found.append((f"{method.upper()} {path}", name))
    return sorted(found)


def test_every_call_that_takes_an_id_has_a_recipe() -> None:
    assert id_taking_calls() == sorted(RECIPES)


def ask(service: Service, call: tuple[str, str], key: str, value: str) -> httpx.Response:
    (method, _, path), parameter = call[0].partition(" "), call[1]
    query = None if f"{{{parameter}}}" in path else {parameter: value}
    options: dict[str, Any] = {"headers": SAME_REQUEST_ID, "params": query}
    if RECIPES[call].body is not None:
        options["json"] = RECIPES[call].body
    return service.request(method, path.replace(f"{{{parameter}}}", value), key, **options)


def comparable(answer: httpx.Response) -> tuple[int, bytes, dict[str, str]]:
    """All of an answer but the time and the count of calls."""
    passing = ("date", "ratelimit-remaining", "ratelimit-reset")
    return (
        answer.status_code,
        answer.content,
        {name: text for name, text in answer.headers.items() if name not in passing},
    )


@pytest.mark.parametrize("call", sorted(RECIPES), ids=lambda call: f"{call[0]} {call[1]}")
def test_nobody_but_the_owner_and_its_agency_gets_at_an_id(service: Service, call: tuple[str, str]) -> None:
    recipe = RECIPES[call]
    owner, stranger = service.organization("Eigner"), service.organization("Fremder")
    inside, outside = service.agency(owner), service.agency(stranger)
    mine = recipe.make(service, owner)
    recipe.make(service, stranger)

    for who, status in ((stranger, 404), (outside, 403), *(() if recipe.agency_may else ((inside, 403),))):
        real, unknown = ask(service, call, who.key, mine), ask(service, call, who.key, UNKNOWN)
        assert real.status_code == status, real.text
        assert comparable(real) == comparable(unknown)
        assert mine not in real.text

    assert ask(service, call, _sessions.get(owner.key, owner.key), UNKNOWN).status_code == 404
    revoked = service.db.write_now(keys.create, service.vault, owner.id, "revoked", ACTOR, role="owner")
    service.db.write_now(keys.revoke, owner.id, revoked.key.id, ACTOR)
    assert ask(service, call, revoked.secret, mine).status_code == 401

    if recipe.agency_may:
        allowed = ask(service, call, inside.key, mine)
        assert allowed.status_code < 300, allowed.text
    # Last, because it may use the thing up: after all these attempts it is still the owner's.
    done = ask(service, call, _sessions.get(owner.key, owner.key), mine)
    assert done.status_code < 300, done.text
