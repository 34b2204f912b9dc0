"""The OpenAPI document and the documentation page say what the declarations say, and say it validly."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from html.parser import HTMLParser
from typing import Annotated, Any, Literal

import httpx
import pytest
from jsonschema import Draft202012Validator, FormatChecker
from msgspec import Meta
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.applications import Starlette

from kontobahn.api.call import Call, Platform
from kontobahn.api.declare import Endpoint, get, post, put
from kontobahn.api.docs import docs_routes
from kontobahn.api.openapi import build_openapi
from kontobahn.api.wire import Answer, Body, Query, Uuid
from kontobahn.app import all_endpoints
from kontobahn.json_text import encode
from kontobahn.settings import Settings, load

REAL = all_endpoints()
STANDARD_HEADERS = {"X-Request-Id", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit-Policy"}


class Posten(Answer):
    saldo: Decimal
    belegdatum: date


class Liste(Answer):
    data: list[Posten]
    platform: Platform | None = None


def _another_struct_of_the_same_name() -> type[Answer]:
    class Posten(Answer):
        beleg: str

    Posten.__module__, Posten.__qualname__ = "kontobahn.elsewhere", "Posten"
    return Posten


OtherPosten: Any = _another_struct_of_the_same_name()


class Filter(Query, kw_only=True):
    connectionId: Annotated[Uuid, Meta(description="The connection.")]
    stichtag: date | None = None
    seite: Literal["debitors", "creditors"] = "debitors"
    limit: Annotated[int, Meta(ge=1, le=500)] | None = None


class Zeile(Body, kw_only=True):
    betrag: Decimal
    gegenkonto: Annotated[str, Meta(pattern="^[0-9]{4,9}$")]
    text: Annotated[str, Meta(min_length=1, max_length=60)] | None = None


class Eintrag(Body, kw_only=True):
    waehrung: Literal["EUR"]
    betrag: Annotated[Decimal, Meta(description="The sum of the lines.")]
    datum: Annotated[datetime, Meta(tz=True)]
    zeilen: Annotated[list[Zeile], Meta(min_length=2, max_length=50)]
    rabatt: Decimal = Decimal("1.50")


@get("/v2/ledger-sample/items", cost=5, free_as_dropdown=True, errors=(403, 404))
async def list_items(call: Call, query: Filter) -> Liste:
    """List the <b>items</b>.

    A second paragraph with `code` and <script>alert(1)</script>.
    """
    raise NotImplementedError


@post("/v2/banking/sample/{id}", cost=3, statuses=(201, 200), role="owner", moves_money=True)
async def create_item(call: Call, id: Uuid, query: Filter, body: Eintrag) -> Liste:
    """Create an item."""
    raise NotImplementedError


@get("/v2/mobility/sample", caller="anybody", example=[{"beleg": "RE-1"}])
async def list_bare(call: Call) -> list[OtherPosten]:
    """List, without an object around it."""
    raise NotImplementedError


@put("/v2/mobility/sample", caller="key or session")
async def replace_nothing(call: Call) -> Posten:
    """Take no body."""
    raise NotImplementedError


SAMPLES: list[Endpoint] = [list_items, create_item, list_bare, replace_nothing]
EVERY = [*REAL, *SAMPLES]


def settings(**changed: Any) -> Settings:
    return load(environ={}, data="does-not-exist", **changed)


def build(endpoints: list[Endpoint], **changed: Any) -> Any:
    return json.loads(build_openapi(endpoints, settings(**changed)))


@cache
def document() -> Any:
    return build(EVERY)


def operation(endpoint: Endpoint, source: Any = None) -> Any:
    return (source or document())["paths"][endpoint.path][endpoint.method.lower()]


def named(endpoints: list[Endpoint]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("endpoint", endpoints, ids=[item.name for item in endpoints])


def response(endpoint: Endpoint, status: int, source: Any = None) -> Any:
    source = source or document()
    found = operation(endpoint, source)["responses"][str(status)]
    return source["components"]["responses"][found["$ref"].rpartition("/")[2]] if "$ref" in found else found


@pytest.mark.parametrize("endpoints", [REAL, EVERY], ids=["real", "with samples"])
@pytest.mark.parametrize("base_url", ["", "https://kontobahn.example"])
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
    assert found["tags"][0] in ("Ledger", "Banking", "Mobility", "Auth")
    assert found["x-rate-limit"]["group"] == endpoint.group


@named(EVERY)
def test_a_price_in_the_settings_is_the_one_that_is_shown(endpoint: Endpoint) -> None:
    dear, free = build(EVERY, prices={endpoint.name: 7}), build(EVERY, prices={endpoint.name: 0})
    assert operation(endpoint, dear)["x-credits"] == 7
    assert "X-Credits-Charged" in response(endpoint, endpoint.statuses[0], dear)["headers"]
    assert "X-Credits-Charged" in response(endpoint, 400, dear)["headers"]
    out_of_credits = response(endpoint, 402, dear)["content"]["application/json"]
    assert {"error", "benoetigt", "verfuegbar", "request_id"} == out_of_credits["example"].keys()
    assert operation(endpoint, free)["x-credits"] == 0
    assert "402" not in operation(endpoint, free)["responses"]
    assert "X-Credits-Charged" not in response(endpoint, endpoint.statuses[0], free)["headers"]


@named(EVERY)
def test_every_status_that_can_come_is_documented(endpoint: Endpoint) -> None:
    expected = {*endpoint.statuses, *endpoint.errors, 400, 429, 500, 503}
    if endpoint.caller != "anybody":
        expected |= {401} if endpoint.role == "member" else {401, 403}
    if endpoint.cost:
        expected.add(402)
    if endpoint.method in ("POST", "PUT"):
        expected |= {409, 413, 422} if endpoint.body is None else {409, 413, 415, 422}
    assert {int(status) for status in operation(endpoint)["responses"]} == expected


@named(EVERY)
def test_every_answer_shows_its_headers(endpoint: Endpoint) -> None:
    special = {401: {"WWW-Authenticate"}, 429: {"Retry-After"}, 503: {"Retry-After"}}
    for status in map(int, operation(endpoint)["responses"]):
        headers = response(endpoint, status)["headers"].keys()
        assert STANDARD_HEADERS | special.get(status, set()) <= headers
        assert ("X-Credits-Charged" in headers) == bool(endpoint.cost)
        if status in endpoint.statuses:
            assert ("Idempotent-Replayed" in headers) == (endpoint.method in ("POST", "PUT"))


@named(EVERY)
def test_who_may_call_is_the_security_of_the_call(endpoint: Endpoint) -> None:
    expected: dict[str, list[Any]] = {
        "key": [{"apiKey": []}],
        "key or session": [{"apiKey": []}, {"session": []}],
        "anybody": [],
    }
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


def _examples(source: Any) -> Iterator[tuple[str, Any, Any]]:
    """Where, schema and example of all there are."""
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
    for where, item in answers.items():
        if "application/json" in item["content"]:  # a file has no example
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
    assert asked["rabatt"]["default"] == 1.5
    assert b'"default":1.50' in build_openapi(EVERY, settings())
    answered = next(item for name, item in schemas.items() if name.endswith("Posten") and "saldo" in item["properties"])
    assert answered["properties"]["saldo"] == {"type": "number"}
    assert "decimal" not in json.dumps(schemas)


def test_an_answer_promises_the_fields_that_have_a_default() -> None:
    liste = document()["components"]["schemas"]["Liste"]
    assert liste["required"] == ["data", "platform"]
    assert "default" not in liste["properties"]["platform"]


def test_two_structs_of_one_name_are_two_components() -> None:
    found = [item for name, item in document()["components"]["schemas"].items() if name.endswith("Posten")]
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


# --- The documentation page


def fetch(path: str, headers: dict[str, str] | None = None, **changed: Any) -> httpx.Response:
    return asyncio.run(_fetch(path, headers or {}, settings(**changed)))


async def _fetch(path: str, headers: dict[str, str], chosen: Settings) -> httpx.Response:
    transport = httpx.ASGITransport(Starlette(routes=docs_routes(EVERY, chosen)))
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        return await client.get(path, headers=headers)


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, *names: str) -> list[str]:
        return [attributes[name] for _, attributes in self.tags for name in names if name in attributes]


@cache
def page() -> Page:
    return Page(fetch("/docs").text)


@named(EVERY)
def test_the_page_shows_every_call(endpoint: Endpoint) -> None:
    articles = {attributes["id"]: attributes for tag, attributes in page().tags if tag == "article"}
    assert f"{endpoint.method} {endpoint.path}" in articles[endpoint.handler.__name__]["data-words"]
    assert f"#{endpoint.handler.__name__}" in page().values("href")
    assert endpoint.summary.rstrip(".") in page().text


def test_the_page_is_sent_with_strict_headers() -> None:
    answer = fetch("/docs")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'none'", "style-src": "'self'", "script-src": "'self'", "connect-src": "'self'",
        "img-src": "'self' data:", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
    }  # fmt: skip


def test_the_page_has_nothing_inline_and_nothing_from_elsewhere() -> None:
    for tag, attributes in page().tags:
        assert tag != "style"
        assert tag != "script" or attributes.get("src")
        assert not [name for name in attributes if name == "style" or name.startswith("on")]
    addresses = page().values("href", "src", "action", "srcset", "data")
    assert addresses
    assert [address for address in addresses if not re.match(r"#|/(?!/)", address)] == []


def test_what_a_docstring_says_is_text_on_the_page() -> None:
    assert len([tag for tag, _ in page().tags if tag == "script"]) == 1
    assert "<script>alert(1)</script>" in page().text
    assert "List the <b>items</b>" in page().text


def test_the_page_can_be_used_by_keyboard_and_read_aloud() -> None:
    ids = page().values("id")
    assert len(ids) == len(set(ids))
    assert {address[1:] for address in page().values("href") if address.startswith("#")} <= set(ids)
    labelled = set(page().values("for"))
    for tag, attributes in page().tags:
        if tag in ("input", "select", "textarea"):
            assert attributes["id"] in labelled, attributes
        assert tag != "img" or "alt" in attributes


def test_the_page_shows_the_address_of_the_service_where_it_is_known() -> None:
    assert "$API_URL/v2/" in page().text
    known = Page(fetch("/docs", base_url="https://konto.example").text)
    assert "https://konto.example/v2/" in known.text
    assert "$API_URL" not in known.text


def test_amounts_on_the_page_keep_their_decimals() -> None:
    assert '"betrag": 119.00' in page().text


@pytest.mark.parametrize(
    ("name", "kind"), [("docs.css", "text/css"), ("docs.js", "text/javascript"), ("icon.svg", "image/svg+xml")]
)
def test_the_files_of_the_page_are_kept_by_browsers_for_as_long_as_they_are_current(name: str, kind: str) -> None:
    address = next(value for value in page().values("href", "src") if f"/{name}?" in value)
    answer = fetch(address)
    assert answer.headers["content-type"].startswith(kind)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "immutable" in answer.headers["cache-control"]
    assert fetch(address.partition("?")[0]).headers["cache-control"] == "no-cache"
    assert fetch(address, {"If-None-Match": answer.headers["etag"]}).status_code == 304
    assert fetch(address, {"Accept-Encoding": "identity"}).text == answer.text
    assert not re.search(r"https?:(?!//www\.w3\.org/2000/svg)|url\(|@import|\binnerHTML\b|\beval\b", answer.text)


def test_only_the_known_files_are_served() -> None:
    assert fetch("/static/docs/docs.py").status_code == 404
    assert fetch("/static/docs/..%2Fdocs.py").status_code == 404


def test_the_start_page_leads_to_the_documentation() -> None:
    answer = fetch("/")
    assert answer.status_code == 307
    assert answer.headers["location"] == "/docs"


def test_the_machinery_of_pages_is_not_loaded_before_it_is_needed() -> None:
    script = "import sys, kontobahn.app as app; assert not {'jinja2', 'starlette'} & sys.modules.keys();"
    script += "import kontobahn.api.docs; assert 'jinja2' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
