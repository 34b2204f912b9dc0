"""Headers and error bodies stand on real answers as the documents say; test_spec.py holds the rest of the documents."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

import httpx

from kontobahn import errors
from kontobahn.api.answers import Error
from kontobahn.api.openapi import OutOfCredits
from kontobahn.app import ERRORS
from tests.harness import Service, ServiceFactory
from tests.mobility_builder import Shop, ticket
from tests.spec_pages import FREE, ROOT, SPEC, on_sqlite, table
from tests.tidy_rules import parse, walk


def _provoke(start_service: ServiceFactory) -> dict[str, list[httpx.Response]]:
    """Real answers, by the words of the headers table."""
    service = start_service(prices={FREE: 1})
    one = service.organization()
    path = FREE.partition(" ")[2]
    invite: dict[str, Any] = {"json": {"email": "a@muster.example"}, "headers": {"Idempotency-Key": "k"}}
    found = {
        "200": [service.get("/v2/ledger-duo/connections", one.key)],
        "400": [service.get("/v2/auth/users", one.key, params={"x": "1"})],
        "401": [service.get("/v2/auth/users"), service.get("/v2/auth/users", "kb_live_mistyped")],
        "404": [service.get("/v2/nowhere", one.key), service.get("/v2/nowhere")],
        "405": [service.post("/v2/ledger-duo/connections", one.key)],
        "priced": [service.get(path, one.key), service.get(path)],
        "201": [service.post("/v2/auth/invitations", one.key, **invite)],
        "replayed": [service.post("/v2/auth/invitations", one.key, **invite)],
    }
    found["a walk in another order than by id"] = [
        service.get("/v2/banking/payments", one.key, params={"from_id": "0"})
    ]
    found["a new collective invoice"] = [_invoice(service)]
    found["429"] = [_above_the_limit(start_service(limit_api_requests=1))]
    service.db.close()
    found["503"] = [service.get("/v2/ledger-duo/connections", one.key)]
    return found


def _invoice(service: Service) -> httpx.Response:
    shop = Shop(service)
    return shop.post(f"/customers/{shop.customer(ticket())}/invoice")


def _above_the_limit(service: Service) -> httpx.Response:
    service.get("/v2/nowhere")
    return service.get("/v2/nowhere")


# Needs a provider elsewhere: tests/providers/datev holds it.
_OF_A_JOB = "open items and bookings of a provider that puts them together as a job"


@on_sqlite
def test_the_documented_headers_stand_on_real_answers(start_service: ServiceFactory) -> None:
    answers = _provoke(start_service)
    for case, given in answers.items():
        for answer in given:
            assert not case.isdigit() or answer.status_code == int(case), answer.text
    everything = [answer for given in answers.values() for answer in given]
    for row in table(SPEC / "limits.md", "Headers"):
        header, where = row["Header"], row["On"]
        if where == _OF_A_JOB:
            continue
        for answer in everything if where == "every answer" else answers[where]:
            assert header in answer.headers, f"{header} is missing on {answer.status_code} {answer.request.url}"
            if row["Example"].isdigit():
                assert answer.headers[header].isdigit(), header
    special = {row["Header"] for row in table(SPEC / "limits.md", "Headers") if row["On"] != "every answer"}
    for header in special:
        assert header not in answers["200"][0].headers, f"{header} stands on an ordinary answer"


@on_sqlite
def test_errors_are_json_with_the_documented_fields(start_service: ServiceFactory) -> None:
    known = {row["Field"] for row in table(SPEC / "errors.md", "Errors")}
    for case, given in _provoke(start_service).items():
        for answer in given:
            assert answer.headers["content-type"] == "application/json"
            if answer.status_code >= 400:
                body = answer.json()
                assert {"error", "request_id"} <= body.keys() <= known, case
                assert body["request_id"] == answer.headers["x-request-id"]


_AREA_OF_ROOM = {"ledger": "Ledger", "books": "Ledger", "banking": "Banking", "events": "Banking",
                 "bank_providers": "Banking", "mobility": "Mobility", "payables": "Payables",
                 "reconciliation": "Reconciliation"}  # fmt: skip
_KINDS = {
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.KontobahnError)
}


def _raised(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls that make an error, those within an error's own class included."""
    for item in walk(tree):
        if isinstance(item, ast.ClassDef) and any(ast.unparse(base) in _KINDS for base in item.bases):
            yield from (call for call in _calls(ast.walk(item)) if ast.unparse(call.func) == "super().__init__")
    yield from (call for call in _calls(walk(tree)) if isinstance(call.func, ast.Name) and call.func.id in _KINDS)


def _calls(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    return (item for item in nodes if isinstance(item, ast.Call))


def test_every_field_that_the_code_adds_to_an_error_is_declared() -> None:
    """Each error that a test provokes is compared too (tests/harness.py); this is for those that none does."""
    everywhere = {"operator", "retry_after_seconds", *Error.__struct_fields__, *OutOfCredits.__struct_fields__}
    added = set()
    for path in sorted((ROOT / "src" / "kontobahn").rglob("*.py")):
        room = path.relative_to(ROOT / "src" / "kontobahn").parts[0]
        declared = ERRORS[_AREA_OF_ROOM[room]].__struct_fields__ if room in _AREA_OF_ROOM else ()
        for call in _raised(parse(path.read_text("utf-8"))):
            names = {keyword.arg for keyword in call.keywords if keyword.arg is not None} - everywhere
            assert names <= set(declared), f"{path.name}:{call.lineno}"
            added |= names
    assert {"transaction_id", "kassensaldo", "protokoll", "missing", "left"} <= added
