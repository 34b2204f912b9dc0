"""The pages of received invoices: what comes in is shown whole, and decided about where it is looked at."""

from __future__ import annotations

import html
import re

import pytest

from tests.dashboard.browsing import Browser
from tests.harness import Organization, Service
from tests.received_invoices import OTHER_IBAN, Inbox, as_xml, from_seller, paid_to

PATH = "/dashboard/payables"


@pytest.fixture
def inbox(service: Service, muster: Organization) -> Inbox:
    return Inbox(service, muster)


def _upload(browser: Browser, content: bytes) -> str:
    """Returns the address that the browser is led to, or the page with what is wrong."""
    answer = browser.send(
        "POST", PATH, files={"file": ("rechnung.xml", content)}, headers={"origin": browser.service.base_url}
    )
    return answer.headers["location"] if answer.status_code == 303 else answer.text


@pytest.mark.either_engine
def test_an_invoice_is_added_looked_at_and_released(inbox: Inbox, browser: Browser) -> None:
    assert "No invoice received yet" in browser.get(PATH).text
    page = _upload(browser, as_xml())
    shown = browser.get(page).text
    for text in (
        "Rösterei Hafen GmbH", "70001", "Kaffee &amp; Tee", "2 % Skonto", "€12.3456", "€33.02", "No faults found.",
        "The invoice has been received.",
    ):  # fmt: skip
        assert text in shown, text
    assert _upload(browser, as_xml()) == page
    assert "This invoice is already known." in browser.get(page).text
    (file,) = re.findall(rf'href="({page}/files/[^"]+/file)"', shown)
    assert browser.get(file).content == as_xml()
    assert browser.post(f"{page}/release", {"comment": "Ware ist da"}).status_code == 303
    shown = browser.get(page).text
    assert "Ware ist da" in shown
    assert f'action="{page}/release"' not in shown
    listed = browser.get(f"{PATH}?status=released").text
    assert "R-7" in listed
    assert "Nothing found" in browser.get(f"{PATH}?status=paid").text


def test_the_overview_says_which_invoices_wait_until_somebody_has_decided(inbox: Inbox, browser: Browser) -> None:
    assert "received invoice" not in browser.get("/dashboard").text
    released = inbox.received()
    inbox.received(as_xml(paid_to(OTHER_IBAN), number="R-8"))
    shown = browser.get("/dashboard").text
    assert "One received invoice waits to be released." in shown
    assert "One received invoice is stopped." in shown
    assert inbox.decide(released, "release").status_code == 200
    shown = browser.get("/dashboard").text
    assert "waits to be released" not in shown
    assert "One received invoice is stopped." in shown


@pytest.mark.either_engine
def test_what_cannot_be_read_is_said_on_the_page(inbox: Inbox, browser: Browser) -> None:
    page = _upload(browser, b"<html>Mahnung</html>")
    shown = browser.get(page).text
    reason = re.findall(r'class="card .*?<p class="hint">([^<]+)</p>', shown, re.DOTALL)[0]
    assert shown.count(reason) == 1, "once is enough"
    assert "Enter an invoice" in shown
    assert "<iframe" not in shown
    shown = browser.get(PATH).text
    assert page in shown
    assert "No invoice received yet" in shown


@pytest.mark.either_engine
def test_a_creditor_is_assigned_and_a_wrong_one_is_said_beside_the_field(inbox: Inbox, browser: Browser) -> None:
    page = f"{PATH}/{inbox.received(as_xml(from_seller(vat_id='DE811569869')))['id']}"
    shown = browser.get(page).text
    assert "creditor unknown" in shown
    assert "has the same name and another VAT id" in shown
    wrong = browser.post(f"{page}/creditor", {"konto": "70009"})
    assert wrong.status_code == 422
    assert 'id="e-konto"' in wrong.text
    assert browser.post(f"{page}/creditor", {"konto": "70001"}).status_code == 303
    assert "to be released" in browser.get(page).text


def test_an_unknown_supplier_is_made_from_the_invoice(inbox: Inbox, browser: Browser) -> None:
    received = inbox.received(as_xml(from_seller(vat_id="DE811569869", name="Teehaus Süd GmbH")))
    page = f"{PATH}/{received['id']}"
    (address,) = re.findall(r'href="(/dashboard/partners/new[^"]+)"', browser.get(page).text)
    shown = browser.get(html.unescape(address)).text
    assert "Proposed from the invoice" in shown
    fields = {
        name: html.unescape(value)
        for name, value in re.findall(r'<input[^>]* name="(\w+)"[^>]* value="([^"]*)"', shown)
    }
    known = {name: fields[name] for name in ("number", "name", "vat_id", "payable")}
    assert known == {
        "number": "70002", "name": "Teehaus Süd GmbH", "vat_id": "DE811569869", "payable": received["id"],
    }  # fmt: skip
    made = browser.post("/dashboard/partners/new", fields)
    assert made.headers["location"] == f"{page}?konto=70002"
    assert re.search(r'name="konto"[^>]* value="70002"', browser.get(made.headers["location"]).text)
    assert browser.post(f"{page}/creditor", {"konto": "70002"}).status_code == 303
    shown = browser.get(page).text
    assert "to be released" in shown
    assert "partners/new" not in shown
    elsewhere = browser.post("/dashboard/partners/new", fields | {"number": "70003", "payable": "//stranger.example"})
    assert elsewhere.headers["location"].startswith("/dashboard/partners?")


@pytest.mark.either_engine
def test_a_new_iban_is_not_confirmed_without_a_second_factor(inbox: Inbox, browser: Browser) -> None:
    page = f"{PATH}/{inbox.received(as_xml(paid_to(OTHER_IBAN)))['id']}"
    shown = browser.get(page).text
    assert "The IBAN is another one than the one this supplier is known by." in shown
    assert f'action="{page}/release"' not in shown
    refused = browser.post(f"{page}/confirm", {"stop": "iban_changed"})
    assert refused.status_code == 422
    assert "second factor" in refused.text
    assert "stopped" in browser.get(page).text


@pytest.mark.either_engine
def test_an_invoice_is_held_back_and_rejected_with_its_reason(inbox: Inbox, browser: Browser) -> None:
    page = f"{PATH}/{inbox.received()['id']}"
    assert browser.post(f"{page}/hold", {"until": "2026-04-01"}).status_code == 303
    assert "Waits until" in browser.get(page).text
    # The field that is wrong is in sight.
    refused = browser.post(f"{page}/reject", {"reason": ""})
    assert (refused.status_code, "<details open>" in refused.text) == (422, True)
    assert browser.post(f"{page}/reject", {"reason": "nicht bestellt"}).status_code == 303
    shown = browser.get(page).text
    assert "nicht bestellt" in shown
    assert f'action="{page}/hold"' not in shown


def test_an_organisation_without_books_is_led_to_what_a_handover_needs(
    service: Service, muster: Organization, browser: Browser
) -> None:
    page = _upload(browser, as_xml())
    handovers = f"{PATH}/handovers"
    assert "First say for which books" in browser.get(handovers).text
    assert browser.post(f"{page}/creditor", {"konto": "70001"}).status_code == 422
    # The client is entered, and an invoice that came before is assigned, released and handed over.
    inbox = Inbox(service, muster)
    assert "First say for which books" not in browser.get(handovers).text
    assert browser.post(f"{page}/creditor", {"konto": "70001"}).status_code == 303
    assert browser.post(f"{page}/booking", {"account": "3300", "steuer": "", "amount": "33.02"}).status_code == 303
    assert browser.post(f"{page}/release", {"comment": ""}).status_code == 303
    waiting = browser.get(handovers).text
    form = dict(re.findall(r'type="hidden" name="(connection_id|client_id)" value="([^"]+)"', waiting))
    assert form["connection_id"] == inbox.books.connection_id
    assert browser.post(handovers, form).status_code == 303
    assert "One invoice was handed over." in browser.get(handovers).text
