"""The books at a real browser: a file with its report, and a cash entry with a photo, with and without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FilePayload, expect

from tests.api.ledger.files import BAD, INVOICE, file
from tests.browser.visitor import Visitor, Way, visiting
from tests.harness import PASSWORD, Service, running_service
from tests.journeys.process import ServerProcess
from tests.ledger_builder import Books

EMAIL = "erika@muster.example"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Service]:
    with running_service(tmp_path / "data") as service:
        organization = service.organization()
        service.user(organization, EMAIL, "member")
        Books(service, organization)
        yield service


@pytest.fixture(params=[True, False], ids=["scripts", "no-scripts"])
def erika(request: pytest.FixtureRequest, browser: Browser, muster: Service) -> Iterator[Visitor]:
    with visiting(browser, muster.base_url, locale="en", java_script_enabled=request.param) as visitor:
        visitor.sign_in(EMAIL, PASSWORD)
        yield visitor


# The words and numbers of these elements that stand on two lines.
_BROKEN = """elements => elements.flatMap(element => {
    const range = document.createRange();
    const texts = [...element.childNodes].filter(node => node.nodeType === Node.TEXT_NODE);
    return texts.flatMap(node => [...node.data.matchAll(/[\\p{L}\\p{N}]+/gu)].map(found => {
        range.setStart(node, found.index);
        range.setEnd(node, found.index + found[0].length);
        return new Set([...range.getClientRects()].map(box => box.bottom)).size > 1 ? found[0] : "";
    })).filter(Boolean);
})"""


def chosen(name: str, content: bytes, kind: str = "text/csv") -> FilePayload:
    return {"name": name, "mimeType": kind, "buffer": content}


def test_a_file_is_read_and_its_report_shown(erika: Visitor) -> None:
    page = erika.open("/dashboard/batches")
    page.set_input_files("[name=file]", chosen("kaputt.csv", file(INVOICE, BAD)))
    page.click("button:has-text('Import the file')")
    expect(page.locator(".notice.bad")).to_be_visible()
    expect(page.locator(".badge.bad").first).to_have_text("refused")
    page.set_input_files("[name=file]", chosen("stapel.csv", file(INVOICE)))
    page.click("button:has-text('Import the file')")
    expect(page.locator(".notice.good")).to_have_text("One record was imported.")
    expect(page.locator(".badge.good")).to_have_text("booked")
    page.click("text=Undo")
    page.click("button:has-text('Undo')")
    expect(page.locator(".notice.good")).to_contain_text("The batch has been undone")
    erika.open("/dashboard/open-items")
    expect(page.locator("main")).to_contain_text("No open items")


def test_a_cash_entry_with_a_photo_of_the_receipt(erika: Visitor) -> None:
    page = erika.open("/dashboard/cash-book/new")
    page.fill("[name=day]", "2026-03-02")
    page.select_option("[name=direction]", "in")
    page.fill("[name=amount]", "12.50")
    page.fill("[name=text]", "Verkauf")
    page.fill("[name=account]", "8400")
    page.set_input_files("[name=receipt]", chosen("quittung.png", PNG, "image/png"))
    page.click("button:has-text('Add the entry')")
    expect(page.locator(".notice.good")).to_have_text("The entry is in the cash book.")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("quittung.png")


def test_an_open_item_is_paid_in_four_clicks(browser: Browser, demo: ServerProcess, demo_token: str) -> None:
    """The fourth would order it, which the other tests of this demo do not expect."""
    with visiting(browser, demo.facts["base_url"], demo_token, locale="en") as visitor:
        page = visitor.open("/dashboard/open-items")
        page.click("h2:has-text('Suppliers') + .table-box tbody a >> nth=0")
        page.check("[name=item] >> nth=0")
        page.click("button:has-text('Pay the chosen ones')")
        page.wait_for_url("**/dashboard/payments/new?**")
        for name in ("creditor_name", "creditor_iban", "amount", "description"):
            expect(page.locator(f"#f-{name}")).not_to_have_value("")
        assert page.eval_on_selector("#f-creditor_iban", "field => field.form.checkValidity()")
        expect(page.locator("button:has-text('Continue')")).to_be_enabled()


@pytest.mark.parametrize("language", ["de", "en"])
def test_names_of_accounts_are_whole_on_a_tablet(
    browser: Browser, demo: ServerProcess, demo_token: str, language: str
) -> None:
    with visiting(browser, demo.facts["base_url"], demo_token, locale=language) as visitor:
        visitor.show(Way(768, "light"))
        page = visitor.open("/dashboard/trial-balance")
        assert "Kreditkartenabrechnung" in page.inner_text("main")
        assert page.eval_on_selector_all("td a", _BROKEN) == []


def test_an_iban_stands_on_one_line_on_a_phone(visitor: Visitor) -> None:
    visitor.show(Way(390, "light"))
    heights = visitor.open("/dashboard").eval_on_selector_all(
        ".accounts .iban",
        "all => all.map(one => one.getClientRects()[0].height / parseFloat(getComputedStyle(one).lineHeight))",
    )
    assert heights
    assert max(heights) < 1.5
