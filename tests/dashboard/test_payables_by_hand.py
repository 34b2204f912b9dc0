"""A file that no invoice can be read from goes on by one click: typed beside the file, with proposals that are marked, or set aside."""

from __future__ import annotations

import pytest

from tests.dashboard.browsing import Browser
from tests.harness import Organization, Service
from tests.received_invoices import OTHER_IBAN, SELLER_IBAN, Inbox, plain_pdf

PATH = "/dashboard/payables"
TEXT = (
    "Rechnungsnummer: R-77", "Rechnungsdatum: 01.03.2026", "Rechnungsbetrag: 119,00 EUR", f"IBAN: {SELLER_IBAN}",
)  # fmt: skip


@pytest.fixture
def inbox(service: Service, muster: Organization) -> Inbox:
    return Inbox(service, muster)


def _upload(browser: Browser, content: bytes) -> str:
    answer = browser.send(
        "POST", PATH, files={"file": ("scan.pdf", content)}, headers={"origin": browser.service.base_url}
    )
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


@pytest.mark.either_engine
def test_a_pdf_is_typed_with_what_its_text_says_as_a_proposal(inbox: Inbox, browser: Browser) -> None:
    page = _upload(browser, plain_pdf(*TEXT))
    shown = browser.get(page).text
    for value in ('value="R-77"', 'value="2026-03-01"', 'value="119.00"', f'value="{SELLER_IBAN}"'):
        assert value in shown, value
    assert shown.count("Proposed from the text of the file.") == 4
    assert f'src="{page}/file"' in shown
    assert browser.get(f"{page}/file").content == plain_pdf(*TEXT)
    assert page in browser.get(PATH).text
    typed = {
        "creditor_name": "Roesterei Hafen", "number": "R-77", "issue_date": "2026-03-01", "total": "119,00", "vat_amount": "19",
        "iban": SELLER_IBAN, "due_date": "2026-03-15", "skonto_percent": "2", "skonto_days": "7", "kind": "invoice",
        "currency_code": "eur", "vat_id": "",
    }  # fmt: skip
    wrong = browser.post(page, {**typed, "iban": "DE00 1234"})
    assert wrong.status_code == 422
    assert 'id="e-iban"' in wrong.text
    answer = browser.post(page, typed)
    assert answer.status_code == 303, answer.text
    payable = answer.headers["location"]
    shown = browser.get(payable).text
    for text in ("70001", "119.00", "Skonto", "scan.pdf", '<iframe class="document"'):
        assert text in shown, text
    assert page not in browser.get(PATH).text
    assert browser.get(page).headers["location"] == payable
    csv = browser.get(f"{PATH}.csv").content.decode("utf-8-sig").splitlines()
    assert len(csv) == 2
    assert csv[1].startswith("Roesterei Hafen,R-77,2026-03-01,2026-03-15,to be released,119.00,119.00,EUR,")


@pytest.mark.either_engine
def test_another_iban_than_the_known_one_stops_what_is_typed_as_well(inbox: Inbox, browser: Browser) -> None:
    page = _upload(browser, plain_pdf("Guten Tag"))
    shown = browser.get(page).text
    assert "Enter an invoice" in shown
    assert "Proposed from the text" not in shown
    typed = {
        "creditor_name": "Roesterei Hafen",
        "number": "1",
        "issue_date": "2026-03-01",
        "total": "5",
        "iban": OTHER_IBAN,
    }
    payable = browser.post(page, typed).headers["location"]
    assert "The IBAN is another one than the one this supplier is known by." in browser.get(payable).text


@pytest.mark.either_engine
def test_a_file_that_is_no_invoice_is_set_aside_and_kept(inbox: Inbox, browser: Browser) -> None:
    page = _upload(browser, plain_pdf("Unsere AGB"))
    assert browser.post(f"{page}/aside", {}).status_code == 303
    listed = browser.get(PATH).text
    assert page not in listed
    assert browser.get(f"{page}/file").content == plain_pdf("Unsere AGB")
    assert _upload(browser, plain_pdf("Unsere AGB")) == page
    assert page not in browser.get(PATH).text
