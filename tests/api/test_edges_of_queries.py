"""The edges of query parameters, on every call that takes them: the first and last day of the calendar, and nothing at all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bank_builder import Bank, facts
from tests.harness import Organization, Service
from tests.ledger_builder import Books
from tests.openapi_samples import REAL

DAYS = ("0001-01-01", "9999-12-31")


@pytest.fixture
def mine(service: Service) -> Organization:
    owner = service.organization(credits_granted=10_000)
    Bank(service).connected(owner, facts(1))
    return owner


def reads(service: Service) -> list[tuple[str, list[dict[str, Any]]]]:
    """The calls that read a list, each with its query parameters."""
    paths = service.get("/openapi.json").json()["paths"]
    return [
        (path, [item for item in operations["get"].get("parameters", ()) if item.get("in") == "query"])
        for path, operations in paths.items()
        if "get" in operations and "{" not in path
    ]


def test_no_day_of_the_calendar_breaks_a_call(service: Service, mine: Organization) -> None:
    connection, asked = Books(service, mine).connection_id, 0
    for path, parameters in reads(service):
        days = [item["name"] for item in parameters if item["schema"].get("format") == "date"]
        needed = {"connectionId": connection, "connection_id": "1", "kassenname": "Hauptkasse"}
        known = {item["name"] for item in parameters}
        for name in days:
            for day in DAYS:
                query = {key: value for key, value in needed.items() if key in known} | {name: day}
                answer = service.get(path, mine.key, params=query)
                assert answer.status_code < 500, (path, query, answer.text)
                asked += answer.status_code == 200
    assert asked > 10


def test_the_last_day_includes_everything(service: Service, mine: Organization) -> None:
    for path in ("/v2/banking/payments", "/v2/banking/events", "/v2/mobility/invoices"):
        assert service.get(path, mine.key, params={"from_date": DAYS[0], "to_date": DAYS[1]}).status_code == 200
        refused = service.get(path, mine.key, params={"from_date": "2026-03-02", "to_date": "2026-03-01"})
        assert (refused.status_code, refused.json()["field"]) == (400, "from_date"), path


def test_an_empty_parameter_counts_as_absent(service: Service, mine: Organization) -> None:
    for path, parameters in reads(service):
        optional = [item["name"] for item in parameters if not item.get("required")]
        needed = {item["name"] for item in parameters if item.get("required")}
        answer = service.get(path, mine.key, params=dict.fromkeys(optional, ""))
        if needed:
            # Nor is an empty one enough where it is needed.
            assert answer.status_code == 400, path
            empty = service.get(path, mine.key, params=dict.fromkeys(needed, ""))
            assert (empty.status_code, empty.json()["field"] in needed) == (400, True), path
            assert "is required" in empty.json()["error"]
        elif answer.status_code != 200:
            assert answer.json() == {**service.get(path, mine.key).json(), "request_id": answer.json()["request_id"]}
    unknown = service.get("/v2/banking/payments", mine.key, params={"form_date": ""})
    assert (unknown.status_code, unknown.json()["field"]) == (400, "form_date")


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_call_without_any_of_those_of_which_one_is_required_is_refused(service: Service, mine: Organization) -> None:
    choices = {endpoint.handler.__name__: endpoint for endpoint in REAL if endpoint.one_of}
    person = choices["save_personenkonto"]
    neither = {name: value for name, value in person.body_example.items() if name not in person.one_of}
    refused = {
        "list_transactions": service.get("/v2/banking/transactions", mine.key),
        "save_personenkonto": Books(service, mine).send("/v2/ledger-rewe/personenkonto", neither),
        "create_order_file": service.post("/v2/banking/order-files", mine.key, json={}),
    }
    assert refused.keys() == choices.keys()
    for name, answer in refused.items():
        assert answer.status_code == 400, answer.text
        assert answer.json()["field"] in choices[name].one_of
