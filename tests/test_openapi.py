"""The OpenAPI document says what the declarations say, and says it validly."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from jsonschema import Draft202012Validator, FormatChecker
from openapi_spec_validator import OpenAPIV31SpecValidator

from kontobahn.api.declare import Endpoint
from kontobahn.api.openapi import build_openapi
from kontobahn.json_text import encode
from tests.openapi_samples import (
    EVERY,
    REAL,
    SAMPLES,
    build,
    document,
    named,
    operation,
    settings,
)

STANDARD_HEADERS = {"X-Request-Id", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit-Policy"}


def response(endpoint: Endpoint, status: int, source: Any = None) -> Any:
    source = source or document()
    found = operation(endpoint, source)["responses"][str(status)]
    return source["components"]["responses"][found["$ref"].rpartition("/")[2]] if "$ref" in found else found


@pytest.mark.parametrize(
    ("endpoints", "base_url"), [(REAL, ""), (SAMPLES, "https://kontobahn.example")], ids=["real", "samples"]
)
def test_the_document_is_valid_openapi(endpoints: list[Endpoint], base_url: str) -> None:
    built = build(endpoints, base_url=base_url)
    assert built["openapi"].startswith("3.1")
    assert built["info"]["version"] == "2.0.0"
    assert built["servers"] == [{"url": base_url or "/"}]
    assert [str(error) for error in OpenAPIV31SpecValidator(built).iter_errors()] == []


def test_every_endpoint_is_in_the_document_and_nothing_else() -> None:
    built = build(REAL)
    found = {f"{method.upper()} {path}" for path, methods in built["paths"].items() for method in methods}
    assert found == {endpoint.name for endpoint in REAL}


@named(EVERY)
def test_a_call_is_named_described_and_priced_as_declared(endpoint: Endpoint) -> None:
    found = operation(endpoint)
    assert found["operationId"] == endpoint.handler.__name__
    assert found["summary"] == endpoint.summary.rstrip(".")
    assert found["description"]
    assert found["x-credits"] == endpoint.cost
    assert found["x-free-as-dropdown"] == endpoint.free_as_dropdown
    assert found["tags"][0] in ("Ledger", "Banking", "Mobility", "Payables", "Assistants", "Reconciliation", "Auth")
    assert found["x-rate-limit"]["group"] == endpoint.group


@cache
def priced(first: int) -> Any:
    """Every call has a price of its own, from the first on; or each is free."""
    return build(EVERY, prices={endpoint.name: first and first + number for number, endpoint in enumerate(EVERY)})


@named(EVERY)
def test_a_price_in_the_settings_is_the_one_that_is_shown(endpoint: Endpoint) -> None:
    dear, free = priced(7), priced(0)
    assert operation(endpoint, dear)["x-credits"] == 7 + EVERY.index(endpoint)
    assert "X-Credits-Charged" in response(endpoint, endpoint.statuses[0], dear)["headers"]
    assert "X-Credits-Charged" in response(endpoint, 400, dear)["headers"]
    out_of_credits = response(endpoint, 402, dear)["content"]["application/json"]
    assert {"error", "benoetigt", "verfuegbar", "request_id"} == out_of_credits["example"].keys()
    assert operation(endpoint, free)["x-credits"] == 0
    assert ("402" in operation(endpoint, free)["responses"]) == (402 in endpoint.errors), "payments that it makes"
    assert "X-Credits-Charged" not in response(endpoint, endpoint.statuses[0], free)["headers"]


@named(EVERY)
def test_every_status_that_can_come_is_documented(endpoint: Endpoint) -> None:
    expected = {*endpoint.statuses, *endpoint.errors, 400, 429, 500, 503}
    if endpoint.caller != "anybody":
        expected |= {401, 403}
    if endpoint.path_parameters or "organization_id" in endpoint.query_decoder.names:
        # Nobody may have the id.
        expected.add(404)
    if endpoint.cost:
        expected.add(402)
    if endpoint.method in ("POST", "PUT"):
        expected |= {409, 413, 422}
        expected |= {415} if endpoint.body is not None or endpoint.takes_upload else set()
    assert {int(status) for status in operation(endpoint)["responses"]} == expected


def test_a_page_of_a_list_has_a_hundred_rows_unless_the_list_says_otherwise() -> None:
    pages = {
        endpoint.name: parameter["schema"]["default"]
        for endpoint in REAL
        for parameter in operation(endpoint)["parameters"]
        if parameter["name"] == "limit" and "default" in parameter["schema"]
    }
    assert pages.pop("GET /v2/banking/transactions/changes") == 1000
    assert set(pages.values()) == {100}


@named(EVERY)
def test_every_answer_shows_its_headers(endpoint: Endpoint) -> None:
    special = {401: {"WWW-Authenticate"}, 429: {"Retry-After"}, 503: {"Retry-After"}}
    for status in map(int, operation(endpoint)["responses"]):
        headers = response(endpoint, status)["headers"].keys()
        assert STANDARD_HEADERS | special.get(status, set()) <= headers
        assert ("X-Credits-Charged" in headers) == bool(endpoint.cost)
        if status == 409:
            assert ("Retry-After" in headers) == (endpoint.method in ("POST", "PUT"))
        if status in endpoint.statuses:
            assert ("Idempotent-Replayed" in headers) == (endpoint.method in ("POST", "PUT"))


@named(EVERY)
def test_who_may_call_is_the_security_of_the_call(endpoint: Endpoint) -> None:
    also = (endpoint.also_scope,) if endpoint.also_scope else ()
    by_key = [{"apiKey": [scope, *also]} for scope in endpoint.scopes] or [{"apiKey": []}]
    expected: dict[str, list[Any]] = {"key": by_key, "key or session": [*by_key, {"session": []}], "anybody": []}
    assert operation(endpoint)["security"] == expected[endpoint.caller]


@named(EVERY)
def test_parameters_are_those_of_the_declaration(endpoint: Endpoint) -> None:
    found = {(item["in"], item["name"]): item for item in operation(endpoint)["parameters"]}
    expected = {("path", name) for name in endpoint.path_parameters} | {
        ("query", name) for name in endpoint.query_decoder.names
    }
    if endpoint.method in ("POST", "PUT") and not endpoint.takes_raw_body:
        expected.add(("header", "Idempotency-Key"))
        assert found["header", "Idempotency-Key"]["schema"]["maxLength"] == 255
    if endpoint.free_as_dropdown:
        expected.add(("header", "x-request-purpose"))
    assert found.keys() == expected
    for (place, _), parameter in found.items():
        assert place != "path" or parameter["required"]
        assert "null" not in json.dumps(parameter["schema"]), "a parameter is left out, never null"


@named(EVERY)
def test_a_parameter_tells_the_value_that_counts_if_it_is_left_out(endpoint: Endpoint) -> None:
    found = {item["name"]: item["schema"] for item in operation(endpoint)["parameters"] if item["in"] == "query"}
    assert not [name for name, schema in found.items() if "x-default" in schema], "that name is for bodies alone"
    for field in msgspec.structs.fields(endpoint.query):
        if field.default in (None, "", msgspec.NODEFAULT):
            assert "default" not in found[field.encode_name], field.name
        else:
            assert found[field.encode_name]["default"] == field.default, field.name
            assert not field.required


def _examples(source: Any) -> Iterator[tuple[str, Any, Any]]:
    """Place, schema and example of all there are."""
    shared = source["components"]
    answers = {f"response {name}": item for name, item in shared["responses"].items()}
    for path, methods in source["paths"].items():
        for method, found in methods.items():
            where = f"{method} {path}"
            for parameter in found["parameters"]:
                if "example" in parameter:
                    yield f"{where} {parameter['name']}", parameter["schema"], parameter["example"]
            if "requestBody" in found:
                answers[f"{where} body"] = found["requestBody"]
            answers |= {f"{where} {status}": item for status, item in found["responses"].items() if "$ref" not in item}
    for name, item in source["webhooks"].items():
        answers[f"event {name}"] = item["post"]["requestBody"]
    for where, item in answers.items():
        if "application/json" in item["content"]:  # a file has no example, sent or answered
            content = item["content"]["application/json"]
            yield where, content["schema"], content["example"]
    for name, header in shared["headers"].items():
        yield name, header["schema"], header["example"]


def test_every_example_is_valid_by_its_schema() -> None:
    source, count = document(), 0
    for where, schema, example in _examples(source):
        whole = {**schema, "components": source["components"]}
        validator = Draft202012Validator(whole, format_checker=FormatChecker())
        problems = [f"{where}: {error.message} at {error.json_path}" for error in validator.iter_errors(example)]
        assert problems == [], "give the field an example in its Meta, or the endpoint one in its declaration"
        count += 1
    assert count > 4 * len(EVERY)


@named(EVERY)
def test_the_examples_of_a_request_are_taken_by_the_service_itself(endpoint: Endpoint) -> None:
    found = operation(endpoint)
    if endpoint.body_decoder is not None:
        endpoint.body_decoder.decode(encode(found["requestBody"]["content"]["application/json"]["example"]))
    given = {item["name"]: item["example"] for item in found["parameters"] if item["in"] == "query"}
    endpoint.query_decoder.decode(str(httpx.QueryParams(given)).encode())


def test_request_bodies_are_closed_and_answers_are_open() -> None:
    schemas = document()["components"]["schemas"]
    assert schemas["Eintrag"]["additionalProperties"] is False
    assert schemas["Zeile"]["additionalProperties"] is False
    for endpoint in EVERY:
        if endpoint.body is not None:
            assert schemas[endpoint.body.__name__]["additionalProperties"] is False
    assert "additionalProperties" not in schemas["Liste"]
    assert "additionalProperties" not in schemas["Error"]
    assert {"error", "request_id"} == set(schemas["Error"]["required"])


def test_an_amount_is_a_number_and_bounded_where_it_is_asked_for() -> None:
    schemas = document()["components"]["schemas"]
    asked = schemas["Eintrag"]["properties"]
    assert asked["betrag"]["type"] == asked["rabatt"]["type"] == "number"
    assert asked["betrag"]["maximum"] == 999999999999.99
    assert asked["rabatt"]["x-default"] == 1.5
    assert b'"x-default":1.50' in build_openapi(EVERY, settings())
    answered = next(item for name, item in schemas.items() if name.endswith("Posten") and "saldo" in item["properties"])
    assert answered["properties"]["saldo"] == {"type": "number"}
    assert "decimal" not in json.dumps(schemas)


def test_an_answer_promises_the_fields_that_have_a_default() -> None:
    liste = document()["components"]["schemas"]["Liste"]
    assert liste["required"] == ["data", "platform"]
    assert "default" not in liste["properties"]["platform"]


def test_a_request_has_no_default_that_would_make_a_field_required() -> None:
    """Generators for TypeScript make a property with `default` required; only parameters are exempt from that."""
    source = document()
    for name in _schemas_of(source, [item.get("requestBody") for item in _operations(source)]):
        for field, schema in source["components"]["schemas"][name].get("properties", {}).items():
            assert "default" not in schema, f"{name}.{field}"
    payment = source["components"]["schemas"]["NewPayment"]
    assert payment["properties"]["currency_code"]["x-default"] == "EUR"
    assert set(payment["required"]) == {"account_id", "amount", "creditor_name", "creditor_iban", "description"}


def test_what_is_asked_and_answered_has_a_schema_for_each() -> None:
    source = document()
    asked = _schemas_of(source, [item.get("requestBody") for item in _operations(source)])
    answered = _schemas_of(
        source, [[item["responses"] for item in _operations(source)], source["components"]["responses"]]
    )
    assert asked & answered == set()
    schemas = source["components"]["schemas"]
    assert "iban" not in schemas["Seller"].get("required", ())
    assert set(schemas["SellerOutput"]["required"]) == schemas["SellerOutput"]["properties"].keys()
    assert "additionalProperties" not in schemas["SellerOutput"]
    assert schemas["KontaktpersonOutput"]["properties"]["telefonnummern"]["items"]["$ref"].endswith("/TelefonOutput")
    assert schemas["Kontaktperson"]["properties"]["telefonnummern"]["items"]["$ref"].endswith("/Telefon")


def _operations(source: Any) -> list[Any]:
    return [item for methods in source["paths"].values() for item in methods.values()]


def _schemas_of(source: Any, roots: Any) -> set[str]:
    """The names of the schemas that these refer to, directly or through others."""
    found: set[str] = set()
    waiting = [roots]
    while waiting:
        text = json.dumps(waiting.pop())
        new = set(re.findall(r"#/components/schemas/([^\"]+)", text)) - found
        found |= new
        waiting += [source["components"]["schemas"][name] for name in new]
    return found


def test_names_and_titles_are_unique_and_plain() -> None:
    source = build(REAL)
    schemas = source["components"]["schemas"]
    titles = [schema["title"] for schema in schemas.values() if "title" in schema]
    assert len(titles) == len(set(titles)) > 100
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", name) for name in schemas), "a generated class has this name"
    calls = [item["operationId"] for item in _operations(source)]
    assert len(calls) == len(set(calls))


@pytest.mark.parametrize("amount", [0.01, 999999999.99, "0.01", "119", "119.5", "999999999.99"])
def test_a_payment_takes_an_amount_as_number_or_text(amount: Any) -> None:
    schema = document()["components"]["schemas"]["NewPayment"]["properties"]["amount"]
    assert list(Draft202012Validator(schema).iter_errors(amount)) == []


@pytest.mark.parametrize("amount", [0, -1, 1e9, "0", "0.00", "-1", "1e2", "1.234", "1000000000", "", "1,50", None])
def test_the_limits_of_an_amount_are_published(amount: Any) -> None:
    schema = document()["components"]["schemas"]["NewPayment"]["properties"]["amount"]
    assert list(Draft202012Validator(schema).iter_errors(amount)) != []


def test_the_events_are_webhooks() -> None:
    source = build(REAL)
    page = (Path(__file__).parents[1] / "docs" / "spec" / "events.md").read_text("utf-8")
    assert list(source["webhooks"]) == re.findall(r"^### ([\w.]+)$", page, re.MULTILINE)
    for name, item in source["webhooks"].items():
        call = item["post"]
        assert {parameter["name"] for parameter in call["parameters"]} == {
            "webhook-id", "webhook-timestamp", "webhook-signature",
        }  # fmt: skip
        content = call["requestBody"]["content"]["application/json"]
        assert content["example"]["event"] == name
        assert call["security"] == [], "no key of ours is sent along"
        documented = re.findall(r"^\| `(\w+)` \|", page.partition(f"### {name}\n")[2].partition("\n#")[0], re.MULTILINE)
        assert list(content["example"]["data"]) == documented, "the fields of docs/spec/events.md, in their order"


def test_two_structs_of_one_name_are_two_components() -> None:
    found = [item for name, item in document()["components"]["schemas"].items() if name.split(".")[-1] == "Posten"]
    real = ["beleg", "belegdatum", "buchungstext", "saldo"]
    assert sorted(sorted(item["properties"]) for item in found) == [["beleg"], real, ["belegdatum", "saldo"]]


def test_a_free_text_that_is_asked_for_has_no_nul() -> None:
    schemas = document()["components"]["schemas"]
    text = schemas["Zeile"]["properties"]["text"]["anyOf"][0]
    assert not re.search(text["pattern"], "a\0b")
    assert re.search(text["pattern"], "a\nb – ü")
    assert "pattern" not in schemas["Error"]["properties"]["error"]


def _patterns(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("pattern"), str):
            yield value["pattern"]
        for inner in value.values():
            yield from _patterns(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _patterns(inner)


def test_a_pattern_means_the_same_in_python_and_in_javascript() -> None:
    # \d, \w, \s and \b are other sets there; \A, \Z, (?P<, (?i), (?>, *+ and the like do not exist.
    foreign = re.compile(r"\\[dDwWsSbBAZzG]|\(\?(?![:=!])|[*+?}]\+")
    found = set(_patterns(build(REAL)))
    assert found
    for pattern in found:
        re.compile(pattern)
        assert not foreign.search(pattern), pattern
        assert re.fullmatch(r"\^.*\$", pattern), "a pattern is for the whole text"


def test_the_guide_tells_the_limits_in_force() -> None:
    text = build(REAL, limit_api_requests=1234, limit_api_window_seconds=120)["info"]["description"]
    assert "1234 requests in 2 minutes" in text
    assert "$" not in text.replace("$API_", "")
