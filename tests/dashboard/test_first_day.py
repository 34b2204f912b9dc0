"""The first day in a new installation: where empty cards lead, what a file says that comes again, and how books are renewed."""

from __future__ import annotations

import pytest

from kontobahn.ledger import connections
from tests.dashboard.browsing import Browser
from tests.harness import Service
from tests.statement_builder import Booking, Sheet, camt

EMAIL = "erika@muster.example"


@pytest.fixture
def browser(service: Service) -> Browser:
    service.user(service.organization(), EMAIL)
    browser = Browser(service)
    browser.sign_in(EMAIL)
    return browser


@pytest.mark.either_engine
def test_an_empty_card_leads_to_the_step_that_fills_it_and_draws_nothing(browser: Browser) -> None:
    page = browser.get("/dashboard").text
    cards = page.split('class="empty"')[1:]
    assert [step for step in ("/dashboard/connections/new", "/dashboard/books/new") for card in cards if step in card] == [
        "/dashboard/connections/new", "/dashboard/books/new",
    ]  # fmt: skip
    assert "Credits left" in page
    assert '<svg class="chart' not in page
    assert 'class="legend"' not in page


@pytest.mark.either_engine
def test_a_file_of_the_first_steps_says_when_it_was_known(service: Service, browser: Browser) -> None:
    content = camt(Sheet([Booking(1)]))
    for said in ("One transaction was imported.", "All transactions of this file were already known."):
        sent = browser.send(
            "POST", "/dashboard/statements", data={"is_first_step": "1"}, files={"file": ("auszug.xml", content)},
            headers={"origin": service.base_url},
        )  # fmt: skip
        assert sent.headers["location"].endswith("/dashboard/set-up")
        assert said in browser.get("/dashboard/set-up").text


@pytest.mark.either_engine
def test_books_that_must_be_renewed_lead_to_the_page_that_does_it(service: Service) -> None:
    owner = service.organization()
    service.user(owner, EMAIL)
    books = service.ledger_connection(owner)
    found = service.db.read_now(connections.find_for_operator, books)
    service.db.write_now(connections.set_status, found, "expired")
    browser = Browser(service)
    browser.sign_in(EMAIL)
    path = f"/dashboard/ledger/connections/{books}/reconnect"
    for page in ("/dashboard", "/dashboard/accounts"):
        assert f'href="{path}"' in browser.get(page).text
    assert "Renew the connection" in browser.get(path).text
