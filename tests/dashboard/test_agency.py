"""People of an agency look after its clients, and nobody else's organisation."""

from __future__ import annotations

from kontobahn.access import keys
from tests.dashboard.browsing import Browser
from tests.harness import ACTOR, Service

CONNECTIONS = "/dashboard/ledger/connections"


def test_people_of_an_agency_see_their_clients_only(service: Service) -> None:
    client, stranger = service.organization("Klient GmbH"), service.organization("Fremde GmbH")
    theirs = service.ledger_connection(client, "Bücher des Klienten")
    foreign = service.ledger_connection(stranger, "Fremde Bücher")
    agency = service.agency(client)
    service.user(agency, "kanzlei@beispiel.example")
    browser = Browser(service)
    browser.sign_in("kanzlei@beispiel.example")
    shown = browser.get("/dashboard").text
    assert "Klient GmbH" in shown
    assert "Fremde GmbH" not in shown
    assert "Bücher des Klienten" not in browser.get(CONNECTIONS).text

    assert browser.post("/dashboard/look", {"organization": client.id}).status_code == 303
    assert "Bücher des Klienten" in browser.get(CONNECTIONS).text
    assert browser.get(f"{CONNECTIONS}/{theirs}").status_code == 200
    assert browser.get(f"{CONNECTIONS}/{foreign}").status_code == 404

    browser.post("/dashboard/look", {"organization": stranger.id})
    assert "Fremde Bücher" not in browser.get(CONNECTIONS).text
    browser.cookies.set("kontobahn_organization", stranger.id)
    assert "Fremde Bücher" not in browser.get(CONNECTIONS).text

    service.db.write_now(keys.revoke, agency.id, agency.key_id, ACTOR)
    assert browser.get(f"{CONNECTIONS}/{theirs}").status_code == 404
    assert "Klient GmbH" not in browser.get("/dashboard").text
