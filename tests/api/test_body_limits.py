"""The size of a body is declared by each call, and held before anything is done with it. Work on a large one is done
beside the event loop."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlencode

import pytest

from kontobahn.api.bodies import max_body_of
from kontobahn.api.declare import Endpoint
from kontobahn.api.openapi import build_openapi
from kontobahn.api.wire import MAX_PLAIN_BYTES, BodyDecoder
from kontobahn.app import all_endpoints
from kontobahn.settings import Settings
from tests.harness import Organization, Service, ServiceFactory
from tests.spec_pages import on_sqlite
from tests.waiting import PATIENCE_SECONDS, eventually

KIB, MIB = 1024, 1024 * 1024
TAKING = [endpoint for endpoint in all_endpoints() if endpoint.method in ("POST", "PUT")]
CASH_BOOK = next(item for item in TAKING if item.path == "/v2/ledger-duo/kassenbuch-advanced")
# CPU seconds of one callback on the event loop. Decoding the largest body takes many times as long.
MAX_ON_LOOP = 0.08
ATTEMPTS = 5


@cache
def _document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(build_openapi(all_endpoints(), Settings()))
    return found


def path_of(endpoint: Endpoint) -> str:
    """The path with its required parameters, as the OpenAPI document has them."""
    path, query = endpoint.path, {}
    for parameter in _document()["paths"][endpoint.path][endpoint.method.lower()]["parameters"]:
        name, example = parameter["name"], parameter.get("example")
        if parameter["in"] == "path":
            path = path.replace("{" + name + "}", str(example))
        elif parameter["in"] == "query" and parameter["required"]:
            query[name] = example
    return f"{path}?{urlencode(query)}" if query else path


def open_request(service: Service, endpoint: Endpoint, *headers: str) -> socket.socket:
    """Sends the header of a request, and nothing of its body."""
    raw = socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_SECONDS)
    lines = (f"{endpoint.method} {path_of(endpoint)} HTTP/1.1", "host: x", "content-type: application/json", *headers)
    raw.sendall("\r\n".join((*lines, "", "")).encode())
    return raw


def status_of(raw: socket.socket) -> int:
    answer = b""
    while b"\r\n" not in answer:
        part = raw.recv(65536)
        assert part, "the connection was closed without an answer"
        answer += part
    return int(answer.split(b" ")[1])


def test_every_call_declares_the_limit_of_its_kind() -> None:
    for endpoint in TAKING:
        limit = max_body_of(endpoint, Settings())
        if endpoint.path.startswith("/v2/auth/"):
            assert limit == 16 * KIB, endpoint.name
        elif endpoint.path == "/v2/ledger-duo/kassenbuch-advanced":
            assert limit == 28 * MIB
        elif endpoint.path == "/v2/mobility/seller/logo":
            assert limit == 256 * KIB
        elif endpoint.path == "/v2/payables/files":
            assert limit == 20_000_000
        elif endpoint.path in ("/v2/ledger-rewe/buchungen", "/v2/mobility/customers/{id}/tickets"):
            assert limit == 5 * MIB
        else:
            assert limit == (200 * MIB if endpoint.takes_upload else MIB), endpoint.name
        assert max_body_of(endpoint, Settings(body_limit_bytes=1000, upload_limit_bytes=2000)) == (
            2000 if endpoint.takes_upload else 1000
        )


def _largest(schema: dict[str, Any]) -> Any:
    """A value with every field as long as it may be, in plain letters."""
    while "$ref" in schema:
        schema = _document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if options:
        return max(map(_largest, options), key=lambda value: len(json.dumps(value)))
    if "enum" in schema:
        return max(schema["enum"], key=lambda value: len(str(value)))
    match schema["type"]:
        case "object":
            return {name: _largest(inner) for name, inner in schema.get("properties", {}).items()}
        case "array":
            return [_largest(schema["items"])] * schema.get("maxItems", 1)
        case "string" if schema.get("contentEncoding"):
            return ""  # a file, for which the rest of the body is
        case "string":
            return "x" * schema.get("maxLength", 36)
        case "boolean":
            return False
    return schema.get("maximum", 10**9)


def test_as_many_rows_as_a_call_takes_fit_its_body() -> None:
    compared = 0
    for endpoint in TAKING:
        if endpoint.body is not None:
            operation = _document()["paths"][endpoint.path][endpoint.method.lower()]
            largest = _largest(operation["requestBody"]["content"]["application/json"]["schema"])
            # Without its files a body is no larger than that, whatever the call takes.
            assert len(json.dumps(largest)) <= min(operation["x-max-body-bytes"], MAX_PLAIN_BYTES), endpoint.name
            compared += 1
    assert compared > 30


@on_sqlite
def test_a_body_is_judged_by_its_declared_length_and_its_caller_first(start_service: ServiceFactory) -> None:
    service = start_service()
    mine = service.organization()
    for endpoint in TAKING:
        operation = _document()["paths"][endpoint.path][endpoint.method.lower()]
        limit = operation["x-max-body-bytes"]
        assert "413" in operation["responses"]
        length = f"content-length: {limit + 20_000}"
        if endpoint.caller != "anybody":
            with closing(open_request(service, endpoint, length)) as raw:
                assert status_of(raw) == 401, endpoint.name
            with closing(open_request(service, endpoint, f"x-api-key: {mine.key[:-4]}0000", length)) as raw:
                assert status_of(raw) == 401, endpoint.name
        kind = ["content-type: text/csv"] if endpoint.takes_upload else []
        with closing(open_request(service, endpoint, f"x-api-key: {mine.key}", length, *kind)) as raw:
            assert status_of(raw) == 413, endpoint.name


def on_a_loop_that_can_be_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service runs on Python's own loop, as where there is no other one."""
    monkeypatch.setitem(sys.modules, "uvloop", None)


@contextmanager
def loop_watched(service: Service) -> Iterator[list[float]]:
    """Notes the CPU time of every callback that the service's event loop runs."""
    noted: list[float] = []
    run, loop = asyncio.Handle._run, service._thread

    def watched(handle: asyncio.Handle) -> None:
        started = time.thread_time()
        run(handle)
        if threading.current_thread() is loop:
            noted.append(time.thread_time() - started)

    asyncio.Handle._run = watched  # type: ignore[assignment, method-assign]
    try:
        yield noted
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]


def longest_on_loop(noted: list[float], send: Callable[[int], None]) -> float:
    """The least that the longest callback took in a few attempts, up to the first that is quick: what costs much does so every
    time, and a machine that stood still, whose time is counted too, does not."""
    least = math.inf
    for attempt in range(ATTEMPTS):
        noted.clear()
        send(attempt)
        least = min(least, max(noted))
        if least < MAX_ON_LOOP:
            break
    return least


def adverse_bodies(endpoint: Endpoint, limit: int) -> Iterator[bytes]:
    """The largest bodies that are taken in, made to cost as much as they can."""
    yield b'{"' + b"x" * (limit - 6) + b'":1}'
    yield b'{"custom_fields":{"a":[' + b"[]," * ((limit - 40) // 3) + b"1]}}"
    if endpoint.body is None:
        return
    sample = endpoint.body_example if isinstance(endpoint.body_example, dict) else {}
    for name in endpoint.body.__struct_encode_fields__:
        yield b'{"%s":"%s"}' % (name.encode(), b"x" * (limit - len(name) - 8))
        item = (
            json.dumps(sample.get(name, [{}])[0]).encode() + b"," if isinstance(sample.get(name, []), list) else b"{},"
        )
        yield b'{"%s":[%s1]}' % (name.encode(), item * ((limit - len(name) - 8) // len(item)))


@on_sqlite
def test_no_body_that_openapi_allows_holds_up_the_event_loop(
    start_service: ServiceFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_loop_that_can_be_watched(monkeypatch)
    service = start_service()
    mine = service.organization(credits_granted=10_000)
    decoded_by: list[str] = []
    decode = BodyDecoder.decode

    def noted_decode(self: BodyDecoder, body: bytes) -> Any:
        if len(body) > 16 * KIB:
            decoded_by.append(threading.current_thread().name)
        return decode(self, body)

    monkeypatch.setattr(BodyDecoder, "decode", noted_decode)
    operations = [item for item in TAKING if not item.takes_upload]
    for endpoint in operations:
        service.request(endpoint.method, path_of(endpoint), mine.key, json={})
    longest: dict[str, float] = {}
    with loop_watched(service) as noted:
        for endpoint in operations:
            limit = max_body_of(endpoint, service.settings)
            bodies = list(adverse_bodies(endpoint, limit))
            bodies = bodies[:2] if limit > 5 * MIB else bodies

            def send(attempt: int, endpoint: Endpoint = endpoint, bodies: list[bytes] = bodies) -> None:
                for body in bodies:
                    answer = service.request(
                        endpoint.method, path_of(endpoint), mine.key, content=body,
                        headers={"content-type": "application/json", "idempotency-key": f"k{attempt}"},
                    )  # fmt: skip
                    assert 400 <= answer.status_code < 500, (endpoint.name, answer.text)
                    assert len(answer.content) < 2_000, endpoint.name

            longest[endpoint.name] = longest_on_loop(noted, send)
    assert decoded_by
    assert {name.rpartition("_")[0] for name in decoded_by} == {"calculating"}
    assert max(longest.values()) < MAX_ON_LOOP, longest


@on_sqlite
def test_the_largest_cash_book_entry_is_taken_without_holding_up_the_event_loop(
    start_service: ServiceFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_loop_that_can_be_watched(monkeypatch)
    service = start_service()
    mine = service.organization()
    image = base64.b64encode(b"%PDF-" + bytes(20_000_000 - 5)).decode()
    line = {"belegtext": "Porto", "gegenkonto": "4910", "betrag": 1}
    entry = {
        "waehrung": "EUR", "kassenname": "Kasse", "betrag": 1, "transaktionsdatum": "2026-03-02T10:00:00+01:00",
        "belegzeilen": [line], "belegbilder": [{"content": image, "dateiname": "a.pdf"}],
    }  # fmt: skip
    connection_id = service.ledger_connection(mine)
    path = f"/v2/ledger-duo/kassenbuch-advanced?connectionId={connection_id}"

    def send(attempt: int) -> None:
        answer = service.post(path, mine.key, json=entry, headers={"idempotency-key": f"k{attempt}"})
        # The connection has no client yet: everything before the books was done, and nothing is booked.
        assert answer.status_code in (404, 409), answer.text

    with loop_watched(service) as noted:
        assert longest_on_loop(noted, send) < MAX_ON_LOOP
    wrong = {**entry, "belegbilder": [{"content": image[:400_000] + "=" + image[400_001:], "dateiname": "a.pdf"}]}
    answer = service.post(path, mine.key, json=wrong)
    assert (answer.status_code, answer.json()["field"]) == (400, "belegbilder[0].content")


# --- Bytes in flight


def begin_body(service: Service, organization: Organization, size: int, sent: int) -> socket.socket:
    raw = open_request(service, CASH_BOOK, f"x-api-key: {organization.key}", f"content-length: {size}")
    raw.sendall(b" " * sent)
    return raw


def held(service: Service) -> int:
    return service.application.api._bodies.held


@on_sqlite
def test_bodies_that_are_held_open_have_a_bound_together_and_for_each_organisation(
    start_service: ServiceFactory,
) -> None:
    service = start_service(body_memory_bytes=4_000_000)
    one, other, third = (service.organization(name) for name in ("Eine", "Andere", "Dritte"))
    open_bodies = [begin_body(service, one, 1_000_000, 999_000), begin_body(service, one, 1_000_000, 999_000)]
    eventually(lambda: held(service) == 1_998_000)
    with closing(begin_body(service, one, 10_000, 0)) as raw:
        assert status_of(raw) == 429, "the organisation has its half"
    open_bodies += [begin_body(service, other, 1_000_000, 999_000), begin_body(service, other, 1_000_000, 999_000)]
    eventually(lambda: held(service) == 3_996_000)
    busy = service.post(path_of(CASH_BOOK), third.key, content=b" " * 5_000)
    assert (busy.status_code, busy.headers["retry-after"]) == (503, "5")
    assert service.get("/v2/auth/users", third.key).status_code == 200
    for raw in open_bodies:
        raw.close()
    eventually(lambda: held(service) == 0)
    assert service.post(path_of(CASH_BOOK), third.key, content=b" " * 5_000).status_code == 415
    assert held(service) == 0
    assert service.application.api._bodies._by_sender == {}
