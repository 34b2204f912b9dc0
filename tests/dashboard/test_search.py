"""Search over everything: each kind is found by what people know of it, and only what is theirs."""

from __future__ import annotations

import asyncio
import re

import pytest

from kontobahn.access import client_access
from kontobahn.ledger import connections
from kontobahn.ledger.errors import ProviderError
from tests.dashboard.browsing import Browser
from tests.file_bank import FileBank
from tests.harness import ACTOR, Organization, Service
from tests.ledger_builder import Books
from tests.mobility_builder import Shop
from tests.providers.scripted import ScriptedProvider
from tests.received_invoices import FILES, as_xml
from tests.statement_builder import Booking

EMAIL = "erika@muster.example"


def filled(service: Service, owner: Organization) -> FileBank:
    bank = FileBank(service, owner)
    bank.book(Booking(119_37, "Zahlung der Rechnung RE-4711"))
    bank.pay(creditor_name="Papier Meyer")
    books = Books(service, owner)
    books.post("2026-01-10 S 10001 8400 238,19 AR-77 Lieferung bu=3")
    partner = {
        "personenkontoNummer": "10055", "kontaktTyp": "COMPANY", "kontenrahmen": "SKR03", "kontonummernLaenge": 4,
        "geschaeftsjahrStartDatum": "2026-01-01", "firmenname": "Zimmer und Partner",
        "bankkonten": [{"iban": "DE02120300000000202051"}],
    }  # fmt: skip
    answer = books.send("/v2/ledger-rewe/personenkonto", partner)
    assert answer.status_code in (200, 201), answer.text
    received = {"content": as_xml(), "headers": {"Content-Type": "application/octet-stream"}}
    assert service.post(FILES, owner.key, params={"file_name": "rechnung.xml"}, **received).status_code == 201
    Shop(service, owner).customer(name="Stadtwerke Nord")
    return bank


def found(browser: Browser, typed: str) -> dict[str, str]:
    """The titles that a search finds, with their addresses."""
    answer = browser.get(f"/dashboard/search?q={typed}")
    assert answer.status_code == 200, answer.text
    hits = re.findall(
        r'<li><a href="([^"]+)"><svg.*?</svg><span class="name">([^<]*)', answer.text.split('class="hits"', 1)[-1]
    )
    return {title: address for address, title in hits if "/search" not in address}


def test_each_kind_is_found_and_every_address_leads_to_it(service: Service) -> None:
    owner = service.organization(credits_granted=1_000)
    filled(service, owner)
    service.user(owner, EMAIL)
    browser = Browser(service)
    browser.sign_in(EMAIL)
    for typed, title in (
        ("re-4711", ""), ("119,37", ""), ("papier meyer", "Papier Meyer"), ("zimmer", "Zimmer und Partner"),
        ("10055", "Zimmer und Partner"),
        ("DE02 1203 0000 0000 2020 51", "Zimmer und Partner"), ("ar-77", "AR-77"), ("238,19", "AR-77"), ("stadtwerke", "Stadtwerke Nord"),
        ("R-7", "R-7"), ("rösterei", "R-7"), ("33,02", "R-7"), ("8400", "Erlöse 19 %"), ("erlöse 19", "Erlöse 19 %"),
        ("Offene Posten", "Open items"), ("trial", "Trial balance"), ("Kontoauszug", "Statement files"), ("mahnung", "Open items"),
        ("Umsatzsteuer", "VAT figures"), ("bwa", "Profit and loss"), ("skonto", "Terms of payment"),
    ):  # fmt: skip
        hits = found(browser, typed)
        assert hits, typed
        assert not title or title in hits, (typed, hits)
        for address in hits.values():
            assert browser.get(address.replace("&amp;", "&")).status_code == 200, address
    assert "Nothing found" in browser.get("/dashboard/search?q=nowhere-to-be-found").text
    assert found(browser, "") == {}


def test_a_search_finds_what_is_looked_at_and_nothing_of_others(service: Service) -> None:
    client, stranger = service.organization("Klient GmbH", credits_granted=1_000), service.organization("Fremde GmbH")
    filled(service, client)
    agency = service.agency(client, stranger)
    person = service.user(agency, "kanzlei@beispiel.example")
    service.give_access(person, client, "read_only")
    service.user(stranger, EMAIL)
    other = Browser(service)
    other.sign_in(EMAIL)
    browser = Browser(service)
    browser.sign_in("kanzlei@beispiel.example")
    typed = ("re-4711", "119,37", "papier", "zimmer", "DE02120300000000202051", "ar-77", "stadtwerke")
    assert [one for one in typed if found(other, one) or found(browser, one)] == []
    assert found(browser, "gmbh") == {"Klient GmbH": "/dashboard/board?q=Klient+GmbH"}
    browser.post("/dashboard/look", {"organization": client.id})
    assert [one for one in typed if not found(browser, one)] == []
    access = service.db.read_now(client_access.of_email, person.email, client.id)
    assert access is not None
    service.db.write_now(client_access.withdraw_by_operator, access, ACTOR)
    assert [one for one in typed if found(browser, one)] == []


@pytest.mark.either_engine
@pytest.mark.parametrize("is_silent", [False, True])
def test_books_that_do_not_answer_leave_the_rest_to_be_found(
    service: Service, monkeypatch: pytest.MonkeyPatch, is_silent: bool
) -> None:
    """Neither a provider that refuses nor one that says nothing keeps a page waiting."""
    owner = service.organization(credits_granted=1_000)
    filled(service, owner)
    service.user(owner, EMAIL)
    provider = ScriptedProvider()
    service.ledger_providers["scripted"] = provider
    monkeypatch.setattr(provider, "clients", _say_nothing if is_silent else _refuse)
    if is_silent:
        monkeypatch.setattr(connections, "CLIENTS_SECONDS", 0.01)
    service.ledger_connection(owner, "Andere", "scripted")
    browser = Browser(service)
    browser.sign_in(EMAIL)
    assert "AR-77" in found(browser, "ar-77")


async def _say_nothing(connections: object) -> list[object]:
    await asyncio.Event().wait()
    return []


async def _refuse(connections: object) -> list[object]:
    raise ProviderError(503, "closed")
