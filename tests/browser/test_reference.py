"""The API reference in a browser: searched by fields and texts, samples in one's own language, and fit for everyone."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import Browser, expect

from kontobahn.guide import library
from tests.browser.visitor import NARROW_AND_DARK, TABLET, Visitor, visiting
from tests.journeys.process import ServerProcess
from tests.waiting import PATIENCE_SECONDS

# The reference, and a page of the guide of each kind: the start, text with code, tables, a picture, what a search finds or does
# not, and an address that is none.
ALL_BUT_TWO = """
    document.querySelectorAll("article.operation:not(#create_payment):not(#list_konten)").forEach(call => call.remove())
"""
# In place of the page that is open, which has the same style sheets.
_SHOW_CONTENT = """text => {
    const sent = new DOMParser().parseFromString(text, "text/html");
    document.querySelector("main").replaceWith(document.adoptNode(sent.querySelector("main")));
}"""
READ = (
    "/docs",
    "/docs/guide",
    "/docs/guide/tutorial",
    "/docs/guide/reference/settings",
    "/docs/guide/dashboard",
    "/docs/guide/search?q=backup",
    "/docs/guide/search?q=zzzzzz",
    "/docs/guide/none",
)


def test_fields_parameters_and_texts_are_found(stranger: Visitor) -> None:
    page = stranger.open("/docs")
    shown = page.locator("article.operation:visible")
    everything = shown.count()

    page.fill("#filter", "kontobeschriftung")  # a field of answers
    expect(page.locator("#list_konten")).to_be_visible()
    expect(page.locator("#list_konten .more").first).to_have_attribute("open", "")
    expect(page.locator("#create_payment")).to_be_hidden()

    page.fill("#filter", "from_id")  # a parameter
    expect(page.locator("#list_buchungen")).to_be_visible()
    expect(page.locator("#sign_in")).to_be_hidden()

    page.fill("#filter", "iban")  # of bodies and answers
    expect(page.locator("#create_payment")).to_be_visible()
    expect(page.locator("#list_bank_accounts")).to_be_visible()
    expect(page.locator("#list_belegtypen")).to_be_hidden()

    page.fill("#filter", "rate limit")  # of the guide
    expect(page.locator("#guide-rate-limits")).to_be_visible()
    expect(page.locator("#guide-credits")).to_be_hidden()

    page.fill("#filter", "zzzzzz")
    expect(page.locator("#nothing")).to_be_visible()
    page.keyboard.press("Escape")
    expect(shown).to_have_count(everything)


def test_a_language_that_was_chosen_once_is_chosen_everywhere(stranger: Visitor) -> None:
    page = stranger.open("/docs#create_payment")
    figure = page.locator("#create_payment .request")
    figure.get_by_text("Python", exact=True).click()
    expect(figure.locator("pre:visible")).to_contain_text("kb.create_payment(")
    expect(page.locator("#get_opos .request pre:visible")).to_contain_text("kb.get_opos(")
    expect(page.locator("#get_opos .request pre:visible")).to_have_count(1)


def test_the_reference_and_the_guide_are_accessible_in_both_themes_and_fit(stranger: Visitor) -> None:
    problems = []
    for address in READ:
        page = stranger.open(address)
        # All calls are drawn alike; with every one of them the page has 30,000 elements, which takes axe minutes.
        page.evaluate(ALL_BUT_TWO)
        problems += stranger.look_closely()
    assert not problems, "\n".join(problems)


def test_no_table_of_the_guide_is_cut_off_on_a_tablet(stranger: Visitor) -> None:
    """The narrowest window in which tables have columns."""
    page = stranger.open("/docs/guide/banks")
    stranger.show(TABLET)
    names = [name for name in library.sources() if not name.startswith("decisions/")]
    with httpx.Client(base_url=stranger.base_url, timeout=PATIENCE_SECONDS) as client:
        sent = {name: client.get(library.address(name)).text for name in names}
    with_tables = {name: text for name, text in sent.items() if "<table" in text}
    assert len(with_tables) > 20
    problems = []
    for name, text in with_tables.items():
        page.evaluate(_SHOW_CONTENT, text)
        problems += [f"{name}: {problem}" for problem in stranger.too_wide()]
    assert not problems, "\n".join(problems)


def test_a_table_of_the_guide_is_a_list_on_a_phone(stranger: Visitor) -> None:
    """Nothing of it is cut off, and every cell says of which column it is."""
    stranger.show(NARROW_AND_DARK)
    page = stranger.open("/docs/guide/banks")
    tables = page.locator(".scroll")
    assert tables.count() > 1
    assert stranger.sideways() <= 0
    first = tables.first.locator("tbody tr").first
    titles = tables.first.locator("th").all_text_contents()
    assert [cell.get_attribute("data-label") for cell in first.locator("td").all()] == [None, *titles[1:]]


def test_it_can_be_read_without_javascript(browser: Browser, demo: ServerProcess) -> None:
    with visiting(browser, demo.facts["base_url"], locale="en", java_script_enabled=False) as visitor:
        page = visitor.open("/docs")
        expect(page.locator("#create_payment")).to_contain_text(re.compile("creditor_iban"))
        sample = page.locator("#create_payment .request")
        sample.get_by_text("JavaScript", exact=True).click()
        expect(sample.locator("pre:visible").last).to_contain_text("await fetch(")
