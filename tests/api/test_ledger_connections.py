"""GET /v2/ledger-rewe-read/connections and GET /v2/ledger-duo/connections."""

from __future__ import annotations

import pytest

from tests.harness import Service

PATHS = ("/v2/ledger-rewe-read/connections", "/v2/ledger-duo/connections")


@pytest.mark.parametrize("path", PATHS)
def test_lists_the_connections_of_the_organisation_and_no_other(service: Service, path: str) -> None:
    mine, other = service.organization(), service.organization("Andere GmbH")
    connection = service.ledger_connection(mine, "Muster GmbH")
    service.ledger_connection(other)
    answer = service.get(path, mine.key)
    assert answer.status_code == 200
    assert answer.json() == {
        "connections": [
            {
                "id": connection,
                "bezeichnung": "Muster GmbH",
                "status": "connected",
                "verbunden_seit": "2026-03-02T09:00:00Z",
                "erstellt_am": "2026-03-02T09:00:00Z",
            }
        ]
    }
    assert service.balance(mine).spent == 0


def test_an_agency_lists_all_its_clients_or_one(service: Service) -> None:
    first, second, stranger = (service.organization(name) for name in ("Erste", "Zweite", "Fremde"))
    ids = [service.ledger_connection(organization) for organization in (first, second, stranger)]
    agency = service.agency(first, second)

    def listed(**query: str) -> list[str]:
        answer = service.get(PATHS[0], agency.key, params=query)
        assert answer.status_code == 200, answer.text
        return [item["id"] for item in answer.json()["connections"]]

    assert sorted(listed()) == sorted(ids[:2])
    assert listed(organization_id=second.id) == [ids[1]]
    assert listed(ORGANIZATIONID=second.id) == [ids[1]]


@pytest.mark.either_engine
def test_outside_its_scope_an_agency_is_refused_the_same_way_whether_the_organisation_exists(service: Service) -> None:
    client, stranger = service.organization(), service.organization("Fremde")
    agency = service.agency(client)
    same_id = {"x-request-id": "fixed"}
    real = service.get(PATHS[0], agency.key, params={"organization_id": stranger.id}, headers=same_id)
    unknown = "0193b2a0-0000-7000-8000-00000000abcd"
    made_up = service.get(PATHS[0], agency.key, params={"organization_id": unknown}, headers=same_id)
    assert real.status_code == made_up.status_code == 403
    assert real.content == made_up.content


def test_an_ordinary_key_learns_nothing_of_another_organisation(service: Service) -> None:
    mine, stranger = service.organization(), service.organization("Fremde")
    same_id = {"x-request-id": "fixed"}
    real = service.get(PATHS[0], mine.key, params={"organization_id": stranger.id}, headers=same_id)
    unknown = "0193b2a0-0000-7000-8000-00000000abcd"
    made_up = service.get(PATHS[0], mine.key, params={"organization_id": unknown}, headers=same_id)
    assert real.status_code == made_up.status_code == 404
    assert real.content == made_up.content
