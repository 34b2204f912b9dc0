"""The edges of query parameters, on every call that takes them: the first and last day of the calendar, and nothing at all."""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec
import pytest

from kontobahn.api.declare import Endpoint
from tests.api.ledger.files import ROWS, file, send_file
from tests.assistants.assistant import cash_entry, let_in, to_prepare
from tests.bank_builder import Bank, account_id, facts, order
from tests.harness import Organization, Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line
from tests.openapi_samples import REAL
from tests.received_invoices import as_xml
from tests.statement_builder import Booking, Sheet, camt

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


MOMENTS = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00")


def test_no_day_or_moment_of_a_body_breaks_a_call(service: Service, mine: Organization) -> None:
    books, account = Books(service, mine), account_id(service, mine)
    of_account = {"account_id": account}
    let_in(service, mine)
    received = service.post("/v2/payables/files", mine.key, content=as_xml()).json()["data"]["id"]
    unread = service.post("/v2/payables/files", mine.key, content=b"<html/>").json()["file_id"]
    typed = {**body_example("create_payable"), "file_id": unread}
    settings = {"connection_id": books.connection_id, "konto": "1200", "booked_by": "kontobahn"}
    kept = f"PUT /v2/reconciliation/accounts/{account}"
    sent: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
        kept: (settings, ("start_date",)),
        f"POST {KASSENBUCH}": (entry(line(1)), ("transaktionsdatum",)),
        "POST /v2/ledger-rewe/personenkonto": (body_example("save_personenkonto"), ("geschaeftsjahrStartDatum",)),
        "POST /v2/banking/payments": (order(account), ("date",)),
        "POST /v2/banking/events/resend-failed": ({}, ("since",)),
        "POST /v2/reconciliation/runs": (of_account, ("from_date", "to_date")),
        "POST /v2/reconciliation/batches": (of_account, ("from_date", "to_date")),
        "POST /v2/payables": (typed, ("issue_date", "due_date")),
        f"POST /v2/payables/{received}/hold": ({}, ("until",)),
        "PUT /v2/payables/mailbox": ({"host": "imap.example", "username": "a", "password": "b"}, ("since",)),
        "POST /v2/payables/payment-runs": ({**of_account, "due_by": "2026-03-31"}, ("due_by", "date")),
        "POST /v2/assistants/payments": (to_prepare(account), ("date",)),
        "POST /v2/assistants/cash-entries": (cash_entry(books.connection_id), ("date",)),
    }
    for call, (body, names) in sent.items():
        method, _, path = call.partition(" ")
        query = books.query() if path.startswith("/v2/ledger") else {}
        for name in names:
            for day in MOMENTS if name in ("transaktionsdatum", "since") else DAYS:
                answer = service.request(method, path, mine.key, params=query, json={**body, name: day})
                assert answer.status_code < 500, (call, name, day, answer.text)
                assert answer.status_code < 300 or "rror" in answer.text
    named = {f"{one.method} {one.path}".replace("{account_id}", account) for one in REAL if days_of_body(one)}
    by_id = {"POST /v2/payables/{id}/hold", "POST /v2/banking/webhook-endpoints/{id}/deliveries/resend-failed"}
    assert named - sent.keys() == by_id


def days_of_body(endpoint: Endpoint) -> list[str]:
    fields = msgspec.structs.fields(endpoint.body) if endpoint.body else ()
    return [field.name for field in fields if "datetime.date" in str(field.type)]


def body_example(handler: str) -> dict[str, Any]:
    return dict(next(endpoint.body_example for endpoint in REAL if endpoint.handler.__name__ == handler))


def test_no_day_of_a_file_breaks_its_import_or_what_is_read_of_it(service: Service, mine: Organization) -> None:
    first, last = (date.fromisoformat(day) for day in DAYS)
    for number, day in enumerate((last, first, last)):
        booking = Booking(100 + number, booked=day, valued=day)
        sheet = Sheet([booking], id=f"S-{number}", number=None, day=day, balances="")
        answer = service.post("/v2/banking/statements", mine.key, content=camt(sheet))
        assert answer.status_code < 500, answer.text
    books = Books(service, mine)
    header = {13: "99990101", 15: "99990101", 16: "99991231"}
    answer = send_file(books, file(*ROWS, header=header))
    assert answer.status_code < 500, answer.text
    for path, parameters in reads(service):
        if (
            path.startswith("/v2/ledger-rewe-read")
            and "faelligkeiten opos susa buchungen".find(path.split("/")[-1]) >= 0
        ):
            known = {item["name"] for item in parameters}
            wanted = {"geschaeftsjahrStartDatum": "9999-01-01", "stichtag": DAYS[1]}
            query = books.query(**{name: value for name, value in wanted.items() if name in known})
            assert service.get(path, mine.key, params=query).status_code < 500, path


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
        "create_payment_run": service.post("/v2/payables/payment-runs", mine.key, json={"account_id": "1"}),
    }
    assert refused.keys() == choices.keys()
    for name, answer in refused.items():
        assert answer.status_code == 400, answer.text
        assert answer.json()["field"] in choices[name].one_of
