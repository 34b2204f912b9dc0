"""Recipes by which the tenancy matrix makes something with an id and asks for it; and those of receivers of events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.harness import Organization, Service

UNKNOWN = "0193b2a0-0000-7000-8000-00000000abcd"


class Recipe(NamedTuple):
    """A way to make something with an id, and to ask for it."""

    # The parameters of the call as its owner would send them, the id among them.
    make: Callable[[Service, Organization], dict[str, str]]
    body: Any = None
    # Parameters that are sent in the body.
    in_body: tuple[str, ...] = ()
    # A file, where the call takes one instead.
    content: bytes | None = None
    # An id of the right form that nobody has.
    unknown: str = UNKNOWN
    # Whether it can be done once only: then the agency is left out, and the owner does it.
    used_up: bool = False
    # The refusal that everybody gets who may ask, where nothing that the matrix makes can do it.
    refused: int = 0
    # Whether an agency may do this for its clients; managing their people is not its business.
    agency_may: bool = True
    # Makes the call possible a second time, where the agency's used it up.
    again: Callable[[Service, Organization, dict[str, str]], object] = lambda service, owner, mine: None


def of_organization(service: Service, owner: Organization) -> dict[str, str]:
    return {"organization_id": owner.id}


_HOOK = "https://93.184.216.34/events"


def _webhook_url(service: Service, owner: Organization) -> dict[str, str]:
    made = service.request("PUT", "/v2/banking/webhook-url", owner.key, json={"webhook_url": _HOOK})
    assert made.status_code == 200, made.text
    return of_organization(service, owner)


def _event(service: Service, owner: Organization) -> dict[str, str]:
    _webhook_url(service, owner)
    return {"id": service.post("/v2/banking/webhook-url/test", owner.key).json()["data"]["id"]}


_ENDPOINTS = "/v2/banking/webhook-endpoints"


def _webhook_endpoint(service: Service, owner: Organization) -> dict[str, str]:
    made = service.post(_ENDPOINTS, owner.key, json={"url": _HOOK})
    assert made.status_code == 201, made.text
    return {"id": made.json()["data"]["id"]}


def _endpoint_event(service: Service, owner: Organization) -> dict[str, str]:
    mine = _webhook_endpoint(service, owner)
    event = service.post(f"{_ENDPOINTS}/{mine['id']}/test", owner.key)
    return {**mine, "event_id": event.json()["data"]["id"]}


_SINCE = {"since": "2026-03-01T00:00:00Z"}
WEBHOOK_RECIPES: dict[tuple[str, str], Recipe] = {
    ("PUT /v2/banking/webhook-url", "organization_id"): Recipe(of_organization, body={"webhook_url": _HOOK}),
    ("GET /v2/banking/webhook-url", "organization_id"): Recipe(_webhook_url),
    ("POST /v2/banking/webhook-url/secret", "organization_id"): Recipe(_webhook_url),
    ("POST /v2/banking/webhook-url/test", "organization_id"): Recipe(_webhook_url),
    ("GET /v2/banking/events", "organization_id"): Recipe(_webhook_url),
    ("GET /v2/banking/events/{id}", "id"): Recipe(_event),
    ("POST /v2/banking/events/{id}/resend", "id"): Recipe(_event),
    ("POST /v2/banking/events/resend-failed", "organization_id"): Recipe(_webhook_url, body=_SINCE),
    ("GET /v2/banking/payment-limit", "organization_id"): Recipe(of_organization),
    ("PUT /v2/banking/payment-limit", "organization_id"): Recipe(of_organization, body={"amount": "5000.00"}),
    (f"POST {_ENDPOINTS}", "organization_id"): Recipe(of_organization, body={"url": _HOOK}),
    (f"GET {_ENDPOINTS}", "organization_id"): Recipe(of_organization),
    (f"GET {_ENDPOINTS}/{{id}}", "id"): Recipe(_webhook_endpoint),
    (f"PUT {_ENDPOINTS}/{{id}}", "id"): Recipe(_webhook_endpoint, body={"url": _HOOK}),
    (f"DELETE {_ENDPOINTS}/{{id}}", "id"): Recipe(_webhook_endpoint, used_up=True),
    (f"POST {_ENDPOINTS}/{{id}}/pause", "id"): Recipe(_webhook_endpoint),
    (f"POST {_ENDPOINTS}/{{id}}/resume", "id"): Recipe(_webhook_endpoint),
    (f"POST {_ENDPOINTS}/{{id}}/secret", "id"): Recipe(_webhook_endpoint),
    (f"POST {_ENDPOINTS}/{{id}}/test", "id"): Recipe(_webhook_endpoint),
    (f"GET {_ENDPOINTS}/{{id}}/deliveries", "id"): Recipe(_webhook_endpoint),
    (f"POST {_ENDPOINTS}/{{id}}/deliveries/{{event_id}}/resend", "id"): Recipe(_endpoint_event),
    (f"POST {_ENDPOINTS}/{{id}}/deliveries/{{event_id}}/resend", "event_id"): Recipe(_endpoint_event, unknown="evt_1"),
    (f"POST {_ENDPOINTS}/{{id}}/deliveries/resend-failed", "id"): Recipe(_webhook_endpoint, body=_SINCE),
}
