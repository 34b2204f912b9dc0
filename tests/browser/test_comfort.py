"""Comforts of long work: keys, heads that stay, lists that count what is new, paper, and uploads that go on by themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from kontobahn.dashboard.menu import MENU
from tests.browser.visitor import Visitor, visiting
from tests.file_bank import FileBank
from tests.harness import PASSWORD, running_service
from tests.ledger_builder import Books
from tests.statement_builder import Booking, Sheet, camt

EMAIL = "erika@muster.example"
POSTINGS = """
2026-01-10 S 10001 8400 119,00 RE-1 Rechnung eins bu=3
2026-02-01 H 70001 4930 59,50 ER/7 Papier bu=9
"""


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileBank]:
    """An account of sixty bookings. A file above ten kilobytes is read by a task."""
    with running_service(tmp_path_factory.mktemp("data"), upload_task_bytes=10_000) as service:
        bank = FileBank(service)
        service.user(bank.owner, EMAIL)
        bank.book(*(Booking(100 + number, f"Buchung {number}") for number in range(60)))
        Books(service, bank.owner).post(POSTINGS)
        yield bank


@pytest.fixture
def erika(browser: Browser, bank: FileBank) -> Iterator[Visitor]:
    with visiting(browser, bank.service.base_url, locale="en", viewport={"width": 1280, "height": 700}) as visitor:
        visitor.sign_in(EMAIL, PASSWORD)
        yield visitor


def is_focused(page: Page, selector: str) -> bool:
    return bool(page.evaluate("selector => document.activeElement.matches(selector)", selector))


def test_rows_are_walked_and_opened_by_keys(erika: Visitor) -> None:
    page = erika.open("/dashboard/transactions")
    chosen = page.locator("tbody tr[aria-selected=true]")
    erika.press(*"jjjk")
    expect(chosen).to_have_count(1)
    expect(page.locator("tbody tr").nth(1)).to_have_attribute("aria-selected", "true")
    second = page.locator("tbody tr").nth(1).locator("a").first.inner_text()
    erika.press("Enter")
    expect(page.locator("h1")).to_have_text(second)
    erika.open("/dashboard/transactions")
    erika.press("f")
    assert is_focused(page, ".filters [name=q]")
    erika.open("/dashboard/transactions")
    erika.press("/")
    assert is_focused(page, "[data-search]")
    # Within a field, a letter is a letter.
    page.keyboard.type("g a j ?")
    expect(page.locator("[data-search]")).to_have_value("g a j ?")
    expect(page).to_have_url(f"{erika.base_url}/dashboard/transactions")


def test_every_letter_of_the_menu_leads_to_its_page(erika: Visitor) -> None:
    page = erika.open("/dashboard")
    entries = page.eval_on_selector_all("[data-key]", "links => links.map(link => [link.dataset.key, link.pathname])")
    assert len(entries) > 12
    for key, path in entries:
        erika.press("g", key)
        expect(page).to_have_url(erika.base_url + path)


def test_the_menu_fits_and_shows_where_one_is(erika: Visitor) -> None:
    """With the longest of its groups open, too: the others are folded, and each opens."""
    erika.page.set_viewport_size({"width": 1280, "height": 900})
    page, longest = erika.page, max(MENU, key=lambda section: len(section.entries))
    for path in ("/dashboard", longest.entries[-1].path):
        erika.open(path)
        assert page.locator(".top").evaluate("top => top.scrollHeight - top.clientHeight") <= 0
        expect(page.locator(".contents [aria-current]")).to_be_in_viewport()
        expect(page.locator(".group[open]")).to_have_count(1)
    page.locator(".group:not([open]) > summary").first.click()
    expect(page.locator(".group[open]")).to_have_count(2)


@pytest.mark.parametrize("width", [1280, 900])
def test_the_head_of_a_list_stays_in_sight(erika: Visitor, width: int) -> None:
    page = erika.open("/dashboard/transactions")
    page.set_viewport_size({"width": width, "height": 700})
    page.evaluate("scrollTo(0, 1500)")
    head = page.locator(".rows thead th").first
    assert page.evaluate("scrollY") > 1000
    seen = head.evaluate(
        """head => {
            const box = head.getBoundingClientRect();
            return [box.top, document.elementFromPoint(box.left + 5, box.top + box.height / 2) === head];
        }"""
    )
    # At the top, or below the bar that a screen without room for the menu has there.
    assert -1 <= seen[0] < 80
    assert seen[1]


def test_what_is_new_in_a_list_is_counted_and_nothing_jumps(erika: Visitor, bank: FileBank) -> None:
    page = erika.page
    page.clock.install()
    with page.expect_response(lambda answer: "x-poll" in answer.request.headers):
        erika.open("/dashboard/transactions")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    first = rows.first.get_attribute("id")
    bank.book(Booking(1, "Neu eins"), Booking(2, "Neu zwei"))
    with page.expect_response(lambda answer: "x-poll" in answer.request.headers):
        page.clock.fast_forward(16_000)
    expect(page.locator("#news")).to_have_text("2 changes. Show")
    expect(page.locator("#news")).to_have_attribute("aria-live", "polite")
    assert rows.first.get_attribute("id") == first
    page.click("#news a")
    expect(rows.first).to_contain_text("Neu")


@pytest.mark.parametrize("path", ["/dashboard/open-items", "/dashboard/open-items/100010000", "/dashboard/cash-book"])
def test_what_is_printed_is_a_table_without_buttons(erika: Visitor, path: str) -> None:
    page = erika.open(path)
    # As wide as a sheet of A4, printed by somebody who likes it dark.
    page.set_viewport_size({"width": 718, "height": 1000})
    page.emulate_media(media="print", color_scheme="dark")
    for gone in (".top", ".look", ".buttons", ".filters", ".choice", ".spans"):
        for found in page.locator(gone).all():
            expect(found).to_be_hidden()
    expect(page.locator(".on-paper")).to_contain_text("Muster GmbH")
    expect(page.locator("h1")).to_have_css("color", "rgb(0, 0, 0)")
    if "cash-book" not in path:
        expect(page.locator(".rows thead").first).to_be_visible()
        expect(page.locator(".rows tbody td").first).to_have_css("display", "table-cell")


def test_a_large_file_is_read_though_the_tab_was_closed(browser: Browser, erika: Visitor, bank: FileBank) -> None:
    large = Sheet([Booking(1, f"Nr. {number}") for number in range(60)], iban="DE02120300000000202051", id="L")
    page = erika.open("/dashboard/statements")
    page.set_input_files("[name=file]", {"name": "groß.xml", "mimeType": "text/xml", "buffer": camt(large)})
    page.click("button:has-text('Import the file')")
    page.wait_for_url("**/dashboard/statements/*")
    address = page.url
    page.close()
    with visiting(browser, bank.service.base_url, locale="en") as later:
        later.sign_in(EMAIL, PASSWORD)
        later.page.goto(address)
        expect(later.page.locator(".facts").first).to_contain_text("Transactions added 60", use_inner_text=True)
