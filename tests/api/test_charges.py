"""Credits around a call: reserved before, confirmed after, given back on failure, and every movement in the statement."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from kontobahn import credits
from kontobahn.db import Tx
from tests.harness import Organization, Service, ServiceFactory

PATH = "/v2/ledger-rewe-read/connections"
PRICED = {"prices": {f"GET {PATH}": 1, "POST /v2/auth/invitations": 2}}


def kinds(service: Service, organization: Organization) -> list[tuple[str, int]]:
    return [(line.kind, line.amount) for line in service.db.read_now(credits.statement, organization.id)]


def test_a_call_is_charged_once_and_the_statement_says_for_what(start_service: ServiceFactory) -> None:
    service = start_service(**PRICED)
    mine = service.organization()
    answer = service.get(PATH, mine.key, params={"quelle": "n8n"}, headers={"x-request-id": "run-1"})
    assert answer.headers["x-credits-charged"] == "1"
    lines = service.db.read_now(credits.statement, mine.id)
    assert [(line.kind, line.from_pot, line.to_pot, line.available_after) for line in lines] == [
        ("grant", "issued", "available", 100),
        ("reserve", "available", "reserved", 99),
        ("confirm", "reserved", "spent", 99),
    ]
    assert [lines[2].request_id, lines[2].endpoint, lines[2].api_key_id, lines[2].quelle] == [
        "run-1", f"GET {PATH}", mine.key_id, "n8n",
    ]  # fmt: skip


def test_a_call_that_fails_costs_nothing(start_service: ServiceFactory) -> None:
    service = start_service(**PRICED)
    mine = service.organization()
    assert service.post("/v2/auth/invitations", mine.key, json={"email": "a@b.de"}).status_code == 201
    refused = service.post("/v2/auth/invitations", mine.key, json={"email": "a@b.de"})
    assert refused.status_code == 409
    assert refused.headers["x-credits-charged"] == "0"
    assert kinds(service, mine)[1:] == [("reserve", 2), ("confirm", 2), ("reserve", 2), ("expire", 2)]
    assert service.balance(mine) == credits.Balance(available=98, reserved=0, spent=2, lapsed=0, granted=100)


def test_a_call_refused_for_its_input_reserves_nothing(start_service: ServiceFactory) -> None:
    service = start_service(**PRICED)
    mine = service.organization()
    assert service.get(PATH, mine.key, params={"x": "1"}).headers["x-credits-charged"] == "0"
    assert kinds(service, mine) == [("grant", 100)]


def test_an_agency_pays_for_its_clients(start_service: ServiceFactory) -> None:
    service = start_service(**PRICED)
    client = service.organization()
    agency = service.agency(client)
    assert service.get(PATH, agency.key, params={"organization_id": client.id}).status_code == 200
    assert (service.balance(agency).spent, service.balance(client).spent) == (1, 0)


def test_without_credits_a_call_is_402_with_what_it_needs(start_service: ServiceFactory) -> None:
    service = start_service(**PRICED)
    mine = service.organization(credits_granted=0)
    answer = service.get(PATH, mine.key)
    assert answer.status_code == 402
    assert (answer.json()["benoetigt"], answer.json()["verfuegbar"]) == (1, 0)
    assert kinds(service, mine) == []


async def _call_at_once(service: Service, key: str, calls: int) -> list[int]:
    connector = aiohttp.TCPConnector(limit=32)
    async with aiohttp.ClientSession(service.base_url, headers={"x-api-key": key}, connector=connector) as http:

        async def call() -> int:
            async with http.get(PATH) as answer:
                await answer.read()
                return answer.status

        return await asyncio.gather(*(call() for _ in range(calls)))


def test_two_hundred_calls_on_a_hundred_credits_succeed_a_hundred_times(start_service: ServiceFactory) -> None:
    service = start_service(**PRICED)
    for round_number in range(8):
        mine = service.organization(f"Runde {round_number}")
        statuses = asyncio.run(_call_at_once(service, mine.key, 200))
        assert (statuses.count(200), statuses.count(402)) == (100, 100)
        assert service.balance(mine) == credits.Balance(available=0, reserved=0, spent=100, lapsed=0, granted=100)
    assert service.db.read_now(credits.find_discrepancies) == []


def test_the_reservation_of_a_process_that_died_is_given_back_by_the_job(service: Service) -> None:
    mine = service.organization()
    cause = credits.Cause("req", "GET /x", mine.key_id, "API")
    service.db.write_now(credits.reserve, mine.id, 5, hold_seconds=300, cause=cause)
    service.clock.advance(seconds=299)
    assert service.db.write_now(credits.expire_stale_holds) == 0
    assert service.balance(mine).reserved == 5
    service.clock.advance(seconds=1)
    assert service.db.write_now(credits.expire_stale_holds) == 1
    assert service.balance(mine) == credits.Balance(available=100, reserved=0, spent=0, lapsed=0, granted=100)


def test_a_hold_for_weeks_outlives_the_calls(service: Service) -> None:
    mine = service.organization()
    cause = credits.Cause("req", "POST /v2/banking/payments", mine.key_id, "API")
    hold = service.db.write_now(credits.reserve, mine.id, 3, hold_seconds=30 * 86400, cause=cause)
    service.clock.advance(seconds=29 * 86400)
    service.db.write_now(credits.expire_stale_holds)
    assert service.db.write_now(credits.confirm, mine.id, hold.id) == 97
    with pytest.raises(credits.HoldLapsed):
        service.db.write_now(credits.confirm, mine.id, hold.id)
    assert service.db.write_now(credits.expire, mine.id, hold.id) is False


def test_a_call_that_outlives_its_reservation_has_no_effect(
    start_service: ServiceFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = start_service(**PRICED)
    mine = service.organization()
    from kontobahn.access import invitations

    create = invitations.create

    def slow_create(tx: Tx, *args: Any, **kwargs: Any) -> Any:
        new = create(tx, *args, **kwargs)
        tx.run("DELETE FROM credit_holds")
        return new

    monkeypatch.setattr(invitations, "create", slow_create)
    answer = service.post("/v2/auth/invitations", mine.key, json={"email": "a@b.de"})
    assert answer.status_code == 503
    assert service.get("/v2/auth/invitations", mine.key).json()["data"] == []


def test_expiring_grants_are_used_first_and_lapse_at_their_instant(start_service: ServiceFactory) -> None:
    service = start_service(**PRICED)
    mine = service.organization(credits_granted=10)
    ends_at = service.clock.now() + 60_000_000
    service.db.write_now(credits.grant, mine.id, 5, expires_at=ends_at)
    for _ in range(3):
        assert service.get(PATH, mine.key).status_code == 200
    service.clock.advance(seconds=60)
    # No job has run: the next call itself must not be able to spend what has just lapsed.
    assert service.get(PATH, mine.key).status_code == 200
    assert service.balance(mine) == credits.Balance(available=9, reserved=0, spent=4, lapsed=2, granted=15)
    assert ("lapse", 2) in kinds(service, mine)
    assert service.db.read_now(credits.find_discrepancies) == []
