"""The overview: every figure is the sum of the rows that it leads to, and what waits for a person is there with its button."""

from __future__ import annotations

import html
import re
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from kontobahn.access import organizations, users
from tests.api.ledger.test_faelligkeiten import import_terms
from tests.dashboard.browsing import Browser
from tests.file_bank import FileBank
from tests.harness import ACTOR, PASSWORD, Organization, Service
from tests.ledger_builder import Books
from tests.received_invoices import Inbox
from tests.reconciliation_desk import Clerk, paid
from tests.statement_builder import Booking, Sheet, camt

EMAIL = "erika@muster.example"
# Today is 2 March 2026; both partners pay within 30 days.
POSTINGS = """
2026-01-10 S 10010 8400 357,00 RE-3 Rechnung
2026-02-05 S 10010 8400 238,00 RE-2 Rechnung
2026-02-20 S 10010 8400 119,00 RE-1 Rechnung
2026-01-05 H 70001 3400 47,60 ER-2 Waren
2026-02-15 H 70001 3400 59,50 ER-1 Waren
"""


def signed_in(service: Service, owner: Organization, role: str = "owner") -> Browser:
    service.user(owner, EMAIL, role)  # type: ignore[arg-type]
    browser = Browser(service)
    browser.sign_in(EMAIL)
    return browser


def linked(page: str) -> dict[str, str]:
    """The figures of a page, by the address that they lead to."""
    found = re.findall(r'<a href="([^"]+)"[^>]*>(?:<span class="(?:money|whole)[^"]*">)?([−€][^<]*|[\d,]+)<', page)
    return {html.unescape(address): words for address, words in found}


def amounts(browser: Browser, address: str, column: str = "Amount|Open amount|Balance") -> list[Decimal]:
    """The amounts of the rows of a page, without the total."""
    page = browser.get(address).text.split('class="sum"', 1)[0]
    cells = re.findall(rf'<td class="amount" data-label="(?:{column})"><span class="money[^"]*">([^<]*)', page)
    return [Decimal(cell.replace("−", "-").replace("€", "").replace(",", "")) for cell in cells]


def as_amount(words: str) -> Decimal:
    return Decimal(words.replace("−", "-").replace("€", "").replace(",", ""))


def test_every_figure_is_the_sum_of_the_rows_that_it_leads_to(service: Service, tmp_path: Path) -> None:
    owner = service.organization(credits_granted=1_000)
    books, bank = Books(service, owner), FileBank(service, owner)
    books.post(POSTINGS)
    import_terms(books, tmp_path)
    # Rent, on about the same day of each month; the other payments have no such habit.
    for day in (date(2025, 12, 15), date(2026, 1, 15), date(2026, 2, 16)):
        bank.book(Booking(-500_00, "Miete", "Vermieter", valued=day))
    bank.book(Booking(-33_00, "Zwei im Monat", "Lieferdienst", "DE75512108001245126199", valued=date(2026, 2, 27)))
    browser = signed_in(service, owner)
    page = browser.get("/dashboard").text
    figures = linked(page)
    assert figures["/dashboard/accounts"] == "−€532.99"
    assert figures["/dashboard/outlook?direction=in"] == "€357.00"
    assert figures["/dashboard/outlook?direction=out"] == "−€607.10"
    assert figures["/dashboard/outlook"] == "−€783.09"
    due = {address: words for address, words in figures.items() if "/due?" in address}
    assert due == {
        "/dashboard/due?side=customers&when=overdue": "€357.00", "/dashboard/due?side=customers&when=week": "€238.00",
        "/dashboard/due?side=customers&when=month": "€119.00", "/dashboard/due?side=customers&when=later": "€0.00",
        "/dashboard/due?side=suppliers&when=overdue": "€47.60", "/dashboard/due?side=suppliers&when=week": "€0.00",
        "/dashboard/due?side=suppliers&when=month": "€59.50", "/dashboard/due?side=suppliers&when=later": "€0.00",
    }  # fmt: skip
    for address, words in {**due, **{key: figures[key] for key in figures if "direction" in key}}.items():
        assert sum(amounts(browser, address)) == as_amount(words), address
    assert amounts(browser, "/dashboard/outlook", "Money afterwards")[-1] == as_amount("−€783.09")
    vat = {address: words for address, words in figures.items() if "/reports/vat" in address}
    assert [words for _, words in vat.items()] == ["€0.00", "€47.50", "€96.90"]
    taxes = re.findall(r'<small><a href="([^"]+)">(?:out|in)put tax ([^<]+)</a>', browser.get("/dashboard").text)
    assert len(taxes) == 2 * len(re.findall("output tax", browser.get("/dashboard").text))
    for address, words in [*vat.items(), *taxes]:
        assert words in browser.get(html.unescape(address).partition("#")[0]).text, address


def test_a_received_invoice_is_expected_once_whether_the_books_have_it_or_not(service: Service) -> None:
    inbox = Inbox(service)
    FileBank(service, inbox.owner)
    browser = signed_in(service, inbox.owner)
    payable = inbox.received()
    # Less the Skonto of today.
    assert linked(browser.get("/dashboard").text)["/dashboard/outlook?direction=out"] == "−€32.36"
    assert amounts(browser, "/dashboard/outlook?direction=out") == [Decimal("-32.36")]
    assert f'href="/dashboard/payables/{payable["id"]}">R-7</a>' in browser.get("/dashboard/outlook").text
    inbox.books.post("2026-03-02 H 70001 3400 33,02 R-7 Kaffee")
    assert linked(browser.get("/dashboard").text)["/dashboard/outlook?direction=out"] == "−€33.02"
    inbox.decide(payable, "reject", reason="Doppelt").raise_for_status()
    assert amounts(browser, "/dashboard/outlook?direction=out") == [Decimal("-33.02")]


@pytest.mark.parametrize(("name", "expected"), [("Stadtwerke GmbH", "−€64.86"), ("ROESTEREI HAFEN", "−€32.36")])
@pytest.mark.either_engine
def test_a_habit_and_an_invoice_are_the_same_money_only_with_the_same_partner(
    service: Service, name: str, expected: str
) -> None:
    inbox = Inbox(service)
    bank = FileBank(service, inbox.owner)
    for day in (date(2025, 12, 10), date(2026, 1, 10), date(2026, 2, 10)):
        bank.book(Booking(-32_50, "Lieferung", name, valued=day))
    inbox.received()
    browser = signed_in(service, inbox.owner)
    assert linked(browser.get("/dashboard").text)["/dashboard/outlook?direction=out"] == expected


def test_nothing_is_counted_twice_or_after_it_was_booked(service: Service, tmp_path: Path) -> None:
    owner = service.organization()
    books = Books(service, owner)
    books.post("2026-02-20 S 10010 8400 119,00 RE-1 Rechnung")
    import_terms(books, tmp_path)
    browser = signed_in(service, owner)
    FileBank(service, owner)
    assert linked(browser.get("/dashboard").text)["/dashboard/outlook?direction=in"] == "€119.00"
    books.post("2026-03-01 S 1200 10010 119,00 RE-1 Zahlung")
    assert linked(browser.get("/dashboard").text)["/dashboard/outlook?direction=in"] == "€0.00"


def test_what_waits_is_listed_with_its_button(service: Service) -> None:
    clerk = Clerk(
        service, paid(119_00, "RE-2026-00123"), paid(-20_00, "Unbekannt", "Niemand", "DE75512108001245126199")
    )
    clerk.store_run()
    browser = signed_in(service, clerk.owner)
    waiting = [row for row in clerk.read("transactions") if row["status"] in ("open", "proposed")]
    page = browser.get("/dashboard").text
    assert f"{len(waiting)} transactions are unmatched." in page
    came = sum(row["amount"] for row in waiting if row["amount"] > 0)
    assert f"in €{came:.2f}, out €20.00" in page
    assert '<a class="button " href="/dashboard/reconciliation">' in page

    assert clerk.confirm(119.00).status_code in (200, 201)
    page = browser.get("/dashboard").text
    assert "One match is ready to be handed over." in page
    assert '<a href="/dashboard/due?side=customers">€119.00 of what customers owe is matched' in page
    # It is still open in the books, and said to be matched.
    assert Decimal("119.00") in amounts(browser, "/dashboard/due?side=customers", "Matched")
    assert "€119.00" in browser.get("/dashboard/due?side=customers").text.split('class="sum"', 1)[1]
    # The other two are late, and what is matched is not expected again.
    assert (
        '<a href="/dashboard/due?side=customers&amp;when=overdue">€288.00</a>' in browser.get("/dashboard/outlook").text
    )


@pytest.mark.either_engine
def test_a_refused_file_waits_until_one_of_its_name_is_taken(service: Service) -> None:
    owner = service.organization()
    browser = signed_in(service, owner)

    def send(content: bytes) -> None:
        browser.send(
            "POST", "/dashboard/statements", files={"file": ("umsatz.xml", content)}, headers={"origin": service.base_url}
        )  # fmt: skip

    send(b"<Document>")
    assert "The file umsatz.xml was refused." in browser.get("/dashboard").text
    send(camt(Sheet([Booking(100)])))
    assert "umsatz.xml" not in browser.get("/dashboard").text


@pytest.mark.either_engine
def test_figures_for_developers_are_shown_to_whoever_has_keys(service: Service) -> None:
    owner = service.organization()
    browser = signed_in(service, owner)
    assert "Credits left" in browser.get("/dashboard").text
    plain = service.db.write_now(organizations.create, "Ohne Schlüssel", ACTOR)
    service.db.write_now(
        users.create, plain.id, email="ohne@muster.example", name="Otto", role="owner", password_hash=users.hash_password(PASSWORD),
        actor=ACTOR,
    )  # fmt: skip
    other = Browser(service)
    other.sign_in("ohne@muster.example")
    assert "Credits left" not in other.get("/dashboard").text


@pytest.mark.either_engine
def test_help_leads_to_the_section_of_the_page_in_the_readers_language(browser: Browser) -> None:
    for path, topic in (
        ("/dashboard", "overview"),
        ("/dashboard/open-items/due", "due-dates"),
        ("/dashboard/team", "team"),
    ):
        for language, guide in (("en", "/docs/guide"), ("de", "/docs/guide/de")):
            browser.post("/dashboard/look", {"language": language, "next": path})
            shown = browser.get(path).text
            assert f'<p class="help"><a href="{guide}/help/{topic}">' in shown
            assert f'<a href="{guide}">' in shown, "the entry of the menu"
            answer = browser.get(f"{guide}/help/{topic}")
            assert (answer.status_code, answer.headers["location"].startswith(guide)) == (307, True)
    # Chosen in the dashboard, whatever the browser asks for.
    assert browser.get("/docs/guide").headers["location"] == "/docs/guide/de"
    # A form that was refused stands on the page that explains it.
    assert 'href="/docs/guide/de/help/team"' in browser.post("/dashboard/team/invitations", {"email": "x"}).text
