"""People of an agency look after its clients, and nobody else's organisation."""

from __future__ import annotations

from kontobahn.access import client_access, keys
from tests.dashboard.browsing import Browser
from tests.file_bank import FileBank
from tests.harness import ACTOR, Service
from tests.mobility_builder import Shop
from tests.statement_builder import Booking

CONNECTIONS = "/dashboard/ledger/connections"


def test_people_of_an_agency_see_their_clients_only(service: Service) -> None:
    client, stranger = service.organization("Klient GmbH"), service.organization("Fremde GmbH")
    theirs = service.ledger_connection(client, "Bücher des Klienten")
    foreign = service.ledger_connection(stranger, "Fremde Bücher")
    agency = service.agency(client, stranger)
    person = service.user(agency, "kanzlei@beispiel.example")
    service.give_access(person, client, "read_only")
    browser = Browser(service)
    browser.sign_in("kanzlei@beispiel.example")
    # An office that has clients alone is shown them first.
    first = browser.get("/dashboard").headers["location"]
    shown = browser.get(first).text
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

    browser = Browser(service)
    browser.sign_in("kanzlei@beispiel.example")
    browser.post("/dashboard/look", {"organization": client.id})
    service.db.write_now(keys.revoke, agency.id, agency.key_id, ACTOR)
    assert browser.get(f"{CONNECTIONS}/{theirs}").status_code == 200
    access = service.db.read_now(client_access.of_email, person.email, client.id)
    assert access is not None
    service.db.write_now(client_access.withdraw_by_operator, access, ACTOR)
    assert browser.get(f"{CONNECTIONS}/{theirs}").status_code == 404
    assert "Klient GmbH" not in browser.get("/dashboard").text


def test_every_page_of_money_shows_whose_data_was_chosen(service: Service) -> None:
    client = service.organization("Klient GmbH", credits_granted=1_000)
    bank, shop = FileBank(service, client), Shop(service, client, name="Verkäufer des Klienten")
    bank.book(Booking(4_200, "Umsatz des Klienten"))
    bank.pay(creditor_name="Gläubiger des Klienten")
    shop.customer(name="Kunde des Klienten")
    agency = service.agency(client)
    service.give_access(service.user(agency, "kanzlei@beispiel.example"), client)
    browser = Browser(service)
    browser.sign_in("kanzlei@beispiel.example")
    shown = {
        "/dashboard/accounts": "Konto 0532013000", "/dashboard/transactions": "Umsatz des Klienten",
        "/dashboard/transactions.csv": "Umsatz des Klienten", "/dashboard/payments": "Gläubiger des Klienten",
        "/dashboard/payments/new": "Konto 0532013000", "/dashboard/payments/order-files": "Konto 0532013000",
        "/dashboard/connections": "Konto 0532013000", "/dashboard/customers": "Kunde des Klienten",
        "/dashboard/invoices": "Kunde des Klienten", "/dashboard/seller": "Verkäufer des Klienten",
    }  # fmt: skip
    assert [path for path, mark in shown.items() if mark in browser.get(path).text] == []
    browser.post("/dashboard/look", {"organization": client.id})
    assert [path for path, mark in shown.items() if mark not in browser.get(path).text] == []
    # What is made while looking at the client is the client's.
    made = {
        "name": "Neuer Kunde",
        "street": "Weg 1",
        "postal_code": "10115",
        "city": "Berlin",
        "country_code": "DE",
        "email": "rechnung@neu.example",
    }
    assert browser.post("/dashboard/customers/new", made).status_code == 303
    assert "Neuer Kunde" in shop.get("/customers").text
