"""Requests as they come: whose address, which id, which body, and how many at once; without a network."""

from __future__ import annotations

import asyncio
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from kontobahn.access.principal import Principal
from kontobahn.access.sessions import CONFIRMED
from kontobahn.api import exchange
from kontobahn.api.call import PAUSE_SECONDS, DeferredWrites, check_allowed, check_session
from kontobahn.api.exchange import (
    ClientAddress,
    Exchange,
    RunningRequests,
    _require_json,
    error_headers,
    send_file,
    takes_gzip,
)
from kontobahn.api.idempotency import StoredAnswer
from kontobahn.errors import (
    Forbidden,
    KontobahnError,
    MethodNotAllowed,
    NotFound,
    SetupError,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    WrongMediaType,
)
from tests.unit import sample_endpoints

PROXIES = "10.0.0.0/8, 192.0.2.7"
KEY = Principal("mine", "member", ("mine",), key_id="k")


def scope(peer: str | None, *forwarded: str) -> dict[str, Any]:
    return {
        "client": None if peer is None else (peer, 1234),
        "headers": [(b"x-forwarded-for", line.encode("latin-1")) for line in forwarded],
    }


@pytest.mark.parametrize(
    ("peer", "forwarded", "caller"),
    [
        ("203.0.113.5", ["198.51.100.1"], "203.0.113.5"),  # not a proxy of ours: whatever it says
        ("10.1.1.1", [], "10.1.1.1"),
        ("10.1.1.1", ["198.51.100.1"], "198.51.100.1"),
        ("192.0.2.7", ["198.51.100.1, 10.2.2.2"], "198.51.100.1"),
        ("10.1.1.1", ["1.1.1.1, 198.51.100.1"], "198.51.100.1"),
        ("10.1.1.1", ["1.1.1.1", "198.51.100.1"], "198.51.100.1"),
        ("10.1.1.1", ["10.3.3.3, 10.2.2.2"], "10.3.3.3"),
        ("10.1.1.1", ["198.51.100.1, nonsense, 10.2.2.2"], "10.2.2.2"),
        ("10.1.1.1", ["2001:DB8:0::1"], "2001:db8::1"),
        (None, ["198.51.100.1"], "unknown"),
    ],
)
def test_the_caller_is_the_last_address_that_no_proxy_of_ours_has(
    peer: str | None, forwarded: list[str], caller: str
) -> None:
    assert ClientAddress(PROXIES).of_scope(scope(peer, *forwarded)) == caller
    assert ClientAddress("").of_scope(scope(peer, *forwarded)) == (peer or "unknown")


def test_proxies_that_are_no_networks_stop_the_start() -> None:
    with pytest.raises(SetupError, match="trusted_proxies"):
        ClientAddress("10.0.0.0/8, proxy.example")


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [
        ("a", True),
        ("Order_7.3-x", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("", False),
        ("a b", False),
        ("ü", False),
    ],
)
def test_an_id_of_the_caller_is_kept_if_it_can_stand_in_a_log(given: str, is_kept: bool) -> None:
    headers = [(b"x-request-id", given.encode("latin-1"))]
    found = [Exchange({"headers": headers}, "203.0.113.5").request_id for _ in range(2)]
    assert (found == [given] * 2) is is_kept
    assert is_kept or len(set(found)) == 2


@pytest.mark.parametrize(
    ("content_type", "is_taken"),
    [
        ("application/json", True), ("Application/JSON ; charset=UTF-8", True), ('application/json; charset="utf8"', True),
        ("application/json; charset=latin-1", False), ("text/json", False), ("application/jsonl", False), ("", False), (None, False),
    ],
)  # fmt: skip
def test_a_body_is_json_in_utf_8(content_type: str | None, is_taken: bool) -> None:
    if is_taken:
        _require_json(content_type)
        return
    with pytest.raises(WrongMediaType):
        _require_json(content_type)


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (Unauthorized("x"), [(b"www-authenticate", b'ApiKey header="x-api-key"')]),
        (TooManyRequests("x", retry_after_seconds=7), [(b"retry-after", b"7")]),
        (MethodNotAllowed(("GET", "PUT")), [(b"allow", b"GET, PUT")]),
        (TooLarge("x"), [(b"connection", b"close")]),
        (NotFound("x"), []),
    ],
)
def test_a_refusal_says_in_a_header_what_to_do(error: KontobahnError, headers: list[tuple[bytes, bytes]]) -> None:
    assert error_headers(error) == headers


@pytest.mark.parametrize(
    ("accepted", "is_taken"),
    [
        (b"gzip", True), (b"br, GZIP;q=0.5", True), (b"*", True), (b"gzip;q=1.0", True), (b"br", False), (b"", False),
        (b"gzip; q=0", False), (b"gzip;q=0.000, *", False), (b"xgzip", False),
    ],
)  # fmt: skip
def test_an_answer_is_compressed_for_whoever_takes_it(accepted: bytes, is_taken: bool) -> None:
    assert takes_gzip(accepted) is is_taken


def test_a_network_has_so_many_requests_running_and_no_more() -> None:
    running = RunningRequests(2)
    first, second = ("203.0.113.5", 1), ("203.0.113.5", 2)
    assert [running.enter(peer, peer[0]) for peer in (first, second, ("203.0.113.5", 3))] == [True, True, False]
    assert running.enter(None, "198.51.100.1"), "another network"
    assert [peer in running for peer in (first, second, ("203.0.113.5", 3))] == [True, True, False]
    running.leave(first, first[0])
    assert (first in running, running.enter(first, first[0]), running.enter(None, first[0])) == (False, True, False)
    for peer in (first, second):
        running.leave(peer, peer[0])
    running.leave(None, "198.51.100.1")
    assert running._networks == {}


@pytest.mark.parametrize(
    ("scopes", "role", "declared", "is_allowed"),
    [
        (None, "member", {"role": "member"}, True),
        (None, "bookkeeping", {"role": "member"}, False),
        (None, "read_only", {"role": "admin", "scopes": ("webhooks",), "scope_replaces_role": True}, False),
        (None, "member", {"role": "admin", "scopes": ("webhooks",), "scope_replaces_role": True}, False),
        (("webhooks",), "member", {"role": "admin", "scopes": ("webhooks",), "scope_replaces_role": True}, True),
        (("webhooks",), "read_only", {"role": "admin", "scopes": ("webhooks",), "scope_replaces_role": True}, False),
        (("webhooks",), "member", {"role": "admin", "scopes": ("webhooks",)}, False),
        (("payments",), "member", {"scopes": ("webhooks",)}, False),
        (("payments",), "member", {"scopes": ("webhooks", "payments")}, True),
        (("payments",), "owner", {"scopes": ()}, False),
        (("payments",), "member", {"scopes": ("payments",), "also_scope": "webhooks"}, False),
        (("payments", "webhooks"), "member", {"scopes": ("payments",), "also_scope": "webhooks"}, True),
        (None, "member", {"scopes": ("payments",), "also_scope": "webhooks"}, True),
    ],
)
def test_a_call_needs_its_scopes_and_its_role(
    scopes: tuple[Any, ...] | None, role: Any, declared: dict[str, Any], is_allowed: bool
) -> None:
    endpoint = replace(sample_endpoints.thing, **declared)
    caller = KEY._replace(scopes=scopes, role=role)
    if is_allowed:
        check_allowed(endpoint, caller)
        return
    with pytest.raises(Forbidden):
        check_allowed(endpoint, caller)


@pytest.mark.parametrize(
    ("declared", "session", "is_allowed"),
    [
        ({}, {"confirmed_at": 0}, True),
        ({"confirm": True}, {"confirmed_at": 10_000}, True),
        ({"confirm": True}, {"confirmed_at": 9_999}, False),
        ({"confirm": True}, {"confirmed_at": 10_000 + CONFIRMED}, True),
        ({}, {"must_add_factor": True}, False),
        ({"without_factor": True}, {"must_add_factor": True}, True),
        ({"without_factor": True, "confirm": True}, {"must_add_factor": True}, False),
    ],
)
def test_a_person_has_the_factor_that_is_required_and_confirms_what_matters(
    declared: dict[str, Any], session: dict[str, Any], is_allowed: bool
) -> None:
    endpoint = replace(sample_endpoints.thing, **declared)
    person = KEY._replace(key_id=None, user_id="u", session_id="s", **session)
    if is_allowed:
        check_session(endpoint, person, 10_000 + CONFIRMED)
        return
    with pytest.raises(Forbidden):
        check_session(endpoint, person, 10_000 + CONFIRMED)


def test_a_file_comes_whole_and_is_closed_before_whoever_has_it_asks_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange, "FILE_BLOCK_BYTES", 4)
    done: list[Any] = []

    async def send(message: dict[str, Any]) -> None:
        done.append((message["body"], message["more_body"]) if "body" in message else message["status"])

    download: Any = SimpleNamespace(file=BytesIO(b"0123456789"), close=lambda: done.append("closed"))
    asyncio.run(send_file(send, StoredAnswer(200, b"", "text/plain", "a.txt", download), [], None))
    assert done[:5] == [200, (b"0123", True), (b"4567", True), "closed", (b"89", False)]


def test_what_cannot_be_tidied_up_now_is_tried_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []

    async def write_together(*_: Any) -> None:
        done.append("try")
        if done.count("try") < 3:
            raise Unavailable("not now")

    async def pause(seconds: float) -> None:
        done.append(seconds)

    async def main() -> None:
        db: Any = SimpleNamespace(write_together=write_together)
        later = DeferredWrites(db)
        await later.write("mine", print, seconds=60, event="left")
        await asyncio.gather(*later._waiting)

    monkeypatch.setattr("kontobahn.api.call.asyncio.sleep", pause)
    asyncio.run(main())
    assert done == ["try", PAUSE_SECONDS, "try", PAUSE_SECONDS, "try"]
