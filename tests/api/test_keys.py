"""API keys over HTTP: missing, mistyped, revoked, expired, rotated, and what is kept of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import httpx
import pytest

from kontobahn.access import keys
from kontobahn.access.principal import Principal
from kontobahn.access.sessions import CACHE_SECONDS
from kontobahn.clock import SECOND
from kontobahn.db import Question, Tx
from kontobahn.db.database import one_by_one, run_rounds
from kontobahn.ids import API_KEY_PREFIX, block_of, new_token
from tests.harness import ACTOR, Organization, Service, ServiceFactory
from tests.waiting import eventually

PATH = "/v2/ledger-rewe-read/connections"


@pytest.mark.either_engine
def test_a_missing_key_is_401_with_the_header_line_to_send(service: Service) -> None:
    answer = service.get(PATH)
    assert answer.status_code == 401
    assert "x-api-key: <your key>" in answer.json()["message"]
    assert answer.headers["www-authenticate"].startswith("ApiKey")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda key: key[:-1] + ("a" if key[-1] != "a" else "b"),
        lambda key: key[:-1],
        lambda key: key + "a",
        lambda key: key.swapcase(),
        lambda key: "",
        lambda key: "ü" * 44,
    ],
)
@pytest.mark.either_engine
def test_a_mistyped_key_is_told_apart_from_an_unknown_one(service: Service, spoil: object) -> None:
    mine = service.organization()
    wrong = spoil(mine.key)  # type: ignore[operator]
    answer = service.get(PATH, headers={"x-api-key": wrong.encode()})
    assert answer.status_code == 401
    assert "checksum" in answer.json()["error"]


@pytest.mark.either_engine
def test_work_counts_as_the_organisation_s_and_a_stranger_s_as_the_network_s(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []
    monkeypatch.setattr("kontobahn.api.server.work_for", counted.append)
    mine = service.organization()
    for key in (mine.key, None):
        service.get(PATH, key)
    assert counted == [mine.id, block_of("127.0.0.1")]


@pytest.mark.either_engine
def test_a_well_formed_key_that_nobody_made_is_401(service: Service) -> None:
    answer = service.get(PATH, new_token(API_KEY_PREFIX))
    assert answer.status_code == 401
    assert answer.json()["error"] == "This API key is not known."


def test_a_session_token_is_no_api_key(service: Service) -> None:
    mine = service.organization()
    service.user(mine, "erika@muster.example")
    token = service.session("erika@muster.example")
    assert service.get(PATH, headers={"authorization": f"Bearer {token}"}).status_code == 401
    assert service.get(PATH, headers={"x-api-key": token}).status_code == 401


def test_a_revoked_key_is_refused_by_every_process_within_a_second(start_service: ServiceFactory) -> None:
    first, second = start_service(), start_service()
    mine = first.organization()
    assert first.get(PATH, mine.key).status_code == second.get(PATH, mine.key).status_code == 200
    first.db.write_now(keys.revoke, mine.id, mine.key_id, ACTOR)
    for service in (first, second):
        answer = eventually(partial(refused, service, mine.key))
        assert answer is not None
        assert answer.json()["error"] == "This API key was revoked."
    assert CACHE_SECONDS < 1


def refused(service: Service, key: str) -> httpx.Response | None:
    answer = service.get(PATH, key)
    return answer if answer.status_code == 401 else None


@pytest.mark.either_engine
def test_an_expired_key_is_refused_at_its_instant(service: Service) -> None:
    mine = service.organization()
    ends_at = service.clock.now() + 10 * SECOND
    new = service.db.write_now(keys.create, service.vault, mine.id, "short", ACTOR, expires_at=ends_at)
    assert service.get(PATH, new.secret).status_code == 200
    service.clock.advance(seconds=9.999)
    assert service.get(PATH, new.secret).status_code == 200
    service.clock.advance(seconds=0.001)
    answer = service.get(PATH, new.secret)
    assert answer.status_code == 401
    assert answer.json()["error"] == "This API key has expired."


def test_a_rotated_key_overlaps_with_its_successor(service: Service) -> None:
    mine = service.organization()
    new = service.db.write_now(keys.rotate, service.vault, mine.id, mine.key_id, ACTOR, overlap_seconds=60)
    service.forget_callers()
    assert service.get(PATH, mine.key).status_code == service.get(PATH, new.secret).status_code == 200
    service.clock.advance(seconds=61)
    assert service.get(PATH, mine.key).status_code == 401
    assert service.get(PATH, new.secret).status_code == 200
    assert new.key.role == "admin"


def test_a_rotated_agency_key_keeps_its_clients(service: Service) -> None:
    client = service.organization()
    connection = service.ledger_connection(client)
    agency = service.agency(client)
    new = service.db.write_now(keys.rotate, service.vault, agency.id, agency.key_id, ACTOR, overlap_seconds=0)
    listed = service.get(PATH, new.secret).json()["connections"]
    assert [item["id"] for item in listed] == [connection]


@pytest.mark.either_engine
def test_the_database_holds_no_key_only_a_keyed_hash(service: Service) -> None:
    mine = service.organization()

    def dump(tx: Tx) -> str:
        return repr(tx.all("SELECT * FROM api_keys")) + repr(tx.all("SELECT * FROM audit_log"))

    dumped = service.db.read_now(dump)
    assert mine.key not in dumped
    assert mine.key[8:30] not in dumped
    assert mine.id in dumped


def test_the_last_use_of_a_key_is_remembered(service: Service) -> None:
    mine = service.organization()
    service.clock.advance(seconds=60)
    service.get(PATH, mine.key, params={"quelle": "n8n"})
    service.run(service.application.upkeep())
    key = service.db.read_now(keys.get, mine.id, mine.key_id)
    assert key.last_used_at == service.clock.now()


def test_every_call_is_counted_under_its_quelle(service: Service) -> None:
    mine = service.organization()
    for quelle in ("n8n", "n8n", None):
        service.get(PATH, mine.key, params={"quelle": quelle} if quelle else {})
    service.get(PATH, mine.key, params={"organization_id": "0193b2a0-0000-7000-8000-00000000abcd"})
    service.run(service.application.upkeep())

    def counts(tx: Tx) -> list[tuple[str, int, int]]:
        rows = tx.all(
            "SELECT quelle, calls, failed FROM usage_counts WHERE organization_id = ? ORDER BY quelle", mine.id
        )
        return [(quelle, calls, failed) for quelle, calls, failed in rows]

    assert service.db.read_now(counts) == [("API", 2, 1), ("n8n", 2, 0)]


@pytest.mark.either_engine
def test_a_role_below_the_needed_one_is_403(service: Service) -> None:
    mine: Organization = service.organization(role="member")
    answer = service.post("/v2/auth/invitations", mine.key, json={"email": "a@b.de"})
    assert answer.status_code == 403
    assert "role admin" in answer.json()["error"]


def test_an_agency_key_is_looked_up_with_one_statement_like_any_other(service: Service) -> None:
    """A second one would cost it the way over the event loop, and cost the others theirs if they shared it."""
    clients = [service.organization(name) for name in ("Muster GmbH", "Beispiel AG")]
    agency = service.agency(*clients)

    def look_up(tx: Tx, secret: str) -> tuple[Principal, int]:
        asked: list[Question] = []

        def answer(questions: Sequence[Question]) -> Sequence[Any]:
            asked.extend(questions)
            return one_by_one(tx)(questions)

        rounds = keys.authenticate.rounds(service.vault.token_hash(secret), tx.now)
        return run_rounds(rounds, answer), len(asked)

    principal, asked = service.db.read_now(look_up, agency.key)
    assert (principal.is_agency, asked) == (True, 1)
    assert principal.scope == (agency.id, *sorted(client.id for client in clients))
    principal, asked = service.db.read_now(look_up, clients[0].key)
    assert (principal.is_agency, principal.scope, asked) == (False, (clients[0].id,), 1)
