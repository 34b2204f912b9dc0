"""Deliveries to all receivers in one list, each event with its payload; and what to do about an address that is refused."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from kontobahn.webhooks import claims, endpoints, entries, outbox
from kontobahn.webhooks.claims import Capacity, Outcome
from kontobahn.webhooks.endpoints import Wanted
from kontobahn.webhooks.entries import Filter
from tests.dashboard.browsing import Browser
from tests.harness import ACTOR, PASSWORD, Organization, Service

PATH = "/dashboard/webhooks"
EMAIL = "erika@muster.example"
ANY = Capacity(9, 9, 9, 9, {}, (), frozenset())


@pytest.fixture
def muster(service: Service) -> Organization:
    organization = service.organization()
    service.user(organization, EMAIL)
    return organization


def add_receiver(service: Service, organization: Organization, name: str) -> str:
    wanted = Wanted(f"https://{name.lower()}.example/events", None, name)
    receiver, _ = service.db.write_now(endpoints.create, service.vault, organization.id, wanted, ACTOR)
    return receiver.id


def emit(service: Service, organization: Organization, number: int) -> str:
    return service.db.write_now(outbox.emit, organization.id, "payment_update", f"payment:{number}", {"number": number})


def answer_all(service: Service, statuses: dict[str, int]) -> None:
    """Each receiver answers what waits for it."""
    cycle = service.db.write_now(claims.run_cycle, "test", [], ANY, claim_seconds=60, pause_days=5)
    at = service.clock.now()
    ended = [Outcome(one, at, 12, statuses[one.receiver_id], None) for one in cycle.claimed]
    service.db.write_now(claims.run_cycle, "test", ended, ANY, claim_seconds=60, pause_days=5)


def rows_of(page: str) -> list[tuple[str, str]]:
    """Event and receiver of each row."""
    return re.findall(r'<tr id="e-(evt_[0-9a-f]{32})-?([^"]*)"', page)


def test_one_list_has_the_deliveries_to_every_receiver(
    service: Service, muster: Organization, browser: Browser
) -> None:
    nobody = emit(service, muster, 1)
    store, shop = add_receiver(service, muster, "Lager"), add_receiver(service, muster, "Laden")
    event = emit(service, muster, 2)
    answer_all(service, {store: 200, shop: 410})
    stranger = service.organization("Fremde GmbH")
    add_receiver(service, stranger, "Fremd")
    other = emit(service, stranger, 3)

    page = browser.get(PATH).text
    assert sorted(rows_of(page)) == sorted([(event, store), (event, shop), (nobody, "")])
    assert "10:00:00" in page
    assert rows_of(browser.get(f"{PATH}?delivery=failed").text)[0][0] == event
    assert rows_of(browser.get(f"{PATH}?receiver={store}").text) == [(event, store)]
    assert rows_of(browser.get(f"{PATH}?delivery=none").text) == [(nobody, "")]
    assert rows_of(browser.get(f"{PATH}?receiver={store}&delivery=failed").text) == []
    assert rows_of(browser.get(f"{PATH}/endpoints/{shop}").text) == [(event, shop)]

    shown = html.unescape(browser.get(f"{PATH}/events/{event}").text)
    assert '"number": 2' in shown
    assert "Lager" in shown
    assert "Laden" in shown
    assert ">410<" in shown
    assert browser.get(f"{PATH}/events/{other}").status_code == 404


def test_the_list_has_what_was_asked_for_and_goes_on_where_a_page_has_ended(
    service: Service, muster: Organization
) -> None:
    times = []
    for number in range(4):
        times.append(service.clock.now())
        emit(service, muster, number)
        service.clock.advance(seconds=60)

    def found(before: int | None = None, limit: int = 9, **wanted: Any) -> list[str]:
        read = service.db.read_now(entries.latest, muster.id, Filter(**wanted), None, before=before, limit=limit)
        return [one.subject.removeprefix("payment:") for one in read]

    assert found() == ["3", "2", "1", "0"]
    first = service.db.read_now(entries.latest, muster.id, Filter(), None, before=None, limit=2)
    assert found(before=first[-1].sequence, limit=2) == ["1", "0"]
    assert found(subject="payment:2") == ["2"]
    assert (found(event="payment_update"), found(event="other")) == (found(), [])
    assert found(since=times[1], until=times[3]) == ["2", "1"]
    assert (found(state="none"), found(state="failed")) == (found(), [])


def test_an_address_of_ones_own_machine_is_refused_with_both_ways_out(
    service: Service, browser: Browser, muster: Organization
) -> None:
    browser.post("/dashboard/confirm", {"password": PASSWORD, "next": PATH})
    for path, field in ((f"{PATH}/url", "webhook_url"), (f"{PATH}/new", "url")):
        refused = browser.post(path, {field: "http://localhost:3000/events"})
        told = html.unescape(refused.text)
        assert "webhook_allow=localhost:3000" in told, told[:500]
        assert "kontobahn listen --forward-to http://localhost:3000/events" in told


def test_of_a_moment_that_is_none_nothing_is_counted(service: Service, browser: Browser, muster: Organization) -> None:
    counted = "All events from this period have been received."
    assert counted in browser.get(f"{PATH}/resend").text
    refused = browser.get(f"{PATH}/resend?since=0001-01-01").text
    assert "Please enter a day and a time." in refused
    assert counted not in refused


def test_a_form_leads_back_to_its_endpoint_by_its_name(
    service: Service, browser: Browser, muster: Organization
) -> None:
    store = add_receiver(service, muster, "Lager")
    browser.post("/dashboard/confirm", {"password": PASSWORD, "next": PATH})
    assert "<span>Lager</span></a>" in browser.get(f"{PATH}/endpoints/{store}/edit").text
