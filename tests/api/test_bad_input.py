"""Answers to bad input: the right status, a body that names the trouble, and no trace in the database."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from kontobahn.db import Tx
from tests.harness import Organization, Service, ServiceFactory
from tests.waiting import PATIENCE_SECONDS

INVITE = "/v2/auth/invitations"
JSON = {"content-type": "application/json"}


def invitations(service: Service) -> int:
    def count(tx: Tx) -> int:
        row = tx.one("SELECT (SELECT COUNT(*) FROM invitations) + (SELECT COUNT(*) FROM idempotency_keys)")
        assert row is not None
        return int(row[0])

    return service.db.read_now(count)


@pytest.fixture
def mine(service: Service) -> Organization:
    return service.organization()


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "body is missing"),
        (b"{", "not valid JSON"),
        (b'{"email": "a@b.de"} x', "not valid JSON"),
        (b'{"email": "\xff@b.de"}', "UTF-8"),
        (b'{"email": "a@b.de", "role": NaN}', "not valid JSON"),
        (b'{"email": "a@b.de", "role": 1e400}', "`role`"),
        (b'{"email": "a@b.de", "role": Infinity}', "not valid JSON"),
        (b'{"email": "a\\u0000@b.de"}', "`email`"),
        (b'{"email": "a\\ud800@b.de"}', "not valid JSON"),
        (b'{"email": "a\\udc00@b.de"}', "not valid JSON"),
        (b'{"email": ' + b"[" * 8_000 + b"]" * 8_000 + b"}", "`email`"),
        (b"[" * 8_000 + b"]" * 8_000, "must be an object"),
        (b'{"email": "a@b.de", "x": ' + b"[" * 8_000 + b"]" * 8_000 + b"}", "`x`"),
        (b'{"role": "member"}', "`email` is required"),
        (b'{"email": 5}', "`email` must be a string, not an integer"),
        (b'{"email": "nobody"}', "`email` must be an e-mail address"),
        (b'{"email": "a@b.de", "role": "king"}', "`role` does not take the value 'king'"),
        (b'{"email": "a@b.de", "rolle": "member"}', "Unknown field `rolle`. Did you mean `role`?"),
        (b'{"email": "a@b.de", "role": null}', "`role`"),
        (b'["email"]', "must be an object, not an array"),
        (b"null", "must be an object, not null"),
    ],
)  # fmt: skip
@pytest.mark.either_engine
def test_a_wrong_body_is_400_and_named(service: Service, mine: Organization, body: bytes, named: str) -> None:
    answer = service.post(INVITE, mine.key, content=body, headers={**JSON, "idempotency-key": "k"})
    assert answer.status_code == 400, answer.text
    assert named in answer.json()["error"]
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert invitations(service) == 0


@pytest.mark.parametrize(
    "content_type",
    [None, "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", "json"],
)
@pytest.mark.either_engine
def test_a_body_that_is_not_called_json_is_415(service: Service, mine: Organization, content_type: str | None) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    answer = service.post(INVITE, mine.key, content=b'{"email": "a@b.de"}', headers=headers)
    assert answer.status_code == 415
    assert "application/json" in answer.json()["error"]
    assert invitations(service) == 0


def test_json_in_utf8_by_any_spelling_of_its_type_is_taken(service: Service, mine: Organization) -> None:
    content = json.dumps({"email": "ä@b.de"}, ensure_ascii=False).encode()
    for number, content_type in enumerate(("Application/JSON", 'application/json; charset="UTF-8"')):
        body = content.replace(b"@", b"%d@" % number)
        assert service.post(INVITE, mine.key, content=body, headers={"content-type": content_type}).status_code == 201


@pytest.mark.either_engine
def test_a_body_one_byte_over_the_limit_is_refused_while_it_streams(start_service: ServiceFactory) -> None:
    service = start_service()
    mine = service.organization()
    exact = b'{"email": "a@b.de"' + b" " * (16_384 - 19) + b"}"
    assert len(exact) == 16_384
    assert service.post(INVITE, mine.key, content=exact, headers=JSON).status_code == 201
    declared = service.post(INVITE, mine.key, content=exact + b" ", headers=JSON)
    assert declared.status_code == 413
    assert "16384 bytes" in declared.json()["error"]
    # Without a declared length, and without ever ending: the answer comes before the body is through.
    with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_SECONDS) as raw:
        head = f"POST {INVITE} HTTP/1.1\r\nhost: x\r\nx-api-key: {mine.key}\r\ncontent-type: application/json\r\n"
        raw.sendall(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        for _ in range(20):
            try:
                raw.sendall(b"2000\r\n" + b" " * 0x2000 + b"\r\n")
            except (BrokenPipeError, ConnectionResetError):
                break
        assert b"413" in raw.recv(4096).split(b"\r\n")[0]
    assert invitations(service) == 1


def test_a_header_with_a_line_break_never_reaches_an_answer(service: Service, mine: Organization) -> None:
    for broken in ("x-request-id: a\n b", "x-request-id: a\rset-cookie: b", "x-request-id: a\x00b"):
        with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_SECONDS) as raw:
            raw.sendall(f"GET /v2/auth/users HTTP/1.1\r\nhost: x\r\nx-api-key: {mine.key}\r\n{broken}\r\n\r\n".encode())
            answer = raw.recv(4096)
        assert answer.split(b"\r\n")[0] == b"HTTP/1.1 400 Bad Request"
        assert b"set-cookie" not in answer


@pytest.mark.either_engine
def test_a_strange_request_id_is_replaced_and_a_sane_one_kept(service: Service, mine: Organization) -> None:
    kept = service.get("/v2/auth/users", mine.key, headers={"x-request-id": "n8n-run_42.1"})
    assert kept.headers["x-request-id"] == "n8n-run_42.1"
    for strange in ("<script>", "a b", "x" * 65, ""):
        replaced = service.get("/v2/auth/users", mine.key, headers={"x-request-id": strange})
        assert replaced.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize("path", ["/v2", "/v2/", "/v2/nothing", "/v2/auth/users/", "/v2/auth//users", "/v2/AUTH/users"])
@pytest.mark.either_engine
def test_an_unknown_path_is_a_json_404_whatever_is_accepted(service: Service, mine: Organization, path: str) -> None:
    answer = service.get(path, mine.key, headers={"accept": "text/html"})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/json"
    assert "no such path" in answer.json()["error"]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "PROPFIND"])
@pytest.mark.either_engine
def test_a_wrong_method_is_405_and_says_which_are_right(service: Service, mine: Organization, method: str) -> None:
    answer = service.request(method, "/v2/auth/users", mine.key)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET"


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("organisation_id=x", "Did you mean `organization_id`?"),
        ("quele=n8n", "Did you mean `quelle`?"),
        ("organization_id=5", "`organization_id` must be a UUID"),
        ("quelle=a&QUELLE=b", "`quelle` is given twice"),
        ("quelle=%00", "NUL"),
        ("quelle=%ff", "UTF-8"),
        ("%ff=1", "UTF-8"),
        ("quelle=" + "x" * 101, "`quelle`"),
    ],
)
@pytest.mark.either_engine
def test_a_wrong_query_is_400_and_named(service: Service, mine: Organization, query: str, named: str) -> None:
    answer = service.get(f"/v2/ledger-rewe-read/connections?{query}", mine.key)
    assert answer.status_code == 400, answer.text
    assert named in answer.json()["error"]


@pytest.mark.either_engine
def test_a_malformed_id_in_the_path_is_400_and_named(service: Service, mine: Organization) -> None:
    for bad in ("5", "0193b2a0", "%00", "..", "0193b2a0-0000-7000-8000-00000000abcdX"):
        answer = service.request("DELETE", f"/v2/auth/users/{bad}", mine.key)
        assert answer.status_code in (400, 404), answer.text
        if answer.status_code == 400:
            assert answer.json()["field"] == "id"


def test_a_call_without_a_body_takes_none_or_an_empty_object(service: Service, mine: Organization) -> None:
    # DELETE and GET ignore a body; automation tools send one with everything.
    answer = service.request("GET", "/v2/auth/users", mine.key, content=b"{}", headers=JSON)
    assert answer.status_code == 200


def test_a_crash_is_a_json_500_that_tells_the_caller_nothing(
    service: Service, mine: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: Any) -> None:
        raise RuntimeError("the secret detail")

    monkeypatch.setattr("kontobahn.access.users.listing", explode)
    answer = service.get("/v2/auth/users", mine.key)
    assert answer.status_code == 500
    assert answer.headers["ratelimit-limit"]
    assert "secret detail" not in answer.text
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
