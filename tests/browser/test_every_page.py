"""Every page, in both languages and both themes: accessible, within 320 pixels, without an error, within its budget."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser

from kontobahn.dashboard import rendering
from kontobahn.dashboard.menu import MENU
from tests.bank_builder import order
from tests.browser.conftest import NOBODY
from tests.browser.visitor import COOKIE, visiting
from tests.dashboard.walking import SHOWN, walk
from tests.journeys.process import ServerProcess
from tests.statement_builder import IBAN, Booking, Sheet, camt
from tests.waiting import PATIENCE_SECONDS, eventually

# For somebody who is not signed in. The first run has a test of its own: it is over once there is a user.
OUTSIDE = ("/dashboard/sign-in", "/dashboard/forgotten-password", "/dashboard/invitation/none", "/dashboard/nowhere")
LOOKS: tuple[dict[str, Any], ...] = (
    {"locale": "de", "color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    {"locale": "en", "color_scheme": "dark", "viewport": {"width": 320, "height": 800}},
)


@pytest.fixture(scope="session")
def addresses(demo: ServerProcess, demo_token: str) -> dict[str, str]:
    """One address for each page that links lead to; an empty one for a file to save."""
    # The demo leaves its first invoice to be made by whoever tries it; another ticket waits for the next one.
    customer = f"{demo.facts['base_url']}/v2/mobility/customers/{demo.facts['mobility']['customer_id']}"
    ticket = {"product": "Deutschlandticket", "holder_reference": "P-0815", "valid_from": "2026-03",
              "price_in_cents": 5800, "vat_rate": 7}  # fmt: skip
    headers = {"x-api-key": demo.facts["api_key"]}
    for path, body in (("invoice", None), ("tickets", {"tickets": [ticket]})):
        made = httpx.post(f"{customer}/{path}", json=body, headers=headers, timeout=PATIENCE_SECONDS)
        assert made.status_code == 201, made.text
    endpoint = {"url": f"http://{NOBODY}/events", "description": "Buchhaltung"}
    made = httpx.post(f"{demo.facts['base_url']}/v2/banking/webhook-endpoints", json=endpoint, headers=headers)
    assert made.status_code == 201, made.text
    keep_an_account_by_files(demo)
    with httpx.Client(
        base_url=demo.facts["base_url"], cookies={COOKIE: demo_token}, timeout=PATIENCE_SECONDS
    ) as client:
        # Calls are listed a few seconds after they were answered.
        eventually(lambda: 'id="r-' in client.get("/dashboard/requests").text)
        return walk(client)


def test_every_page_is_reached_by_links(addresses: dict[str, str]) -> None:
    wanted = {page.path for page in SHOWN if page.caller == "user"}
    assert wanted - set(addresses) - UNLINKED == set()


# Asked for by a script while somebody types, shown inside another page, where the bank's pages lead back to, or a receipt, which no entry
# of the demo has.
UNLINKED = {
    "/dashboard/invoices/{id}/view",
    "/dashboard/seller/logo",
    "/dashboard/cash-book/receipts/{id}",
    "/dashboard/payments/check-iban",
    "/dashboard/payments/return",
    "/dashboard/connections/return",
}


def keep_an_account_by_files(demo: ServerProcess) -> None:
    """What the demo does not have: a file that was read, and payments that are uploaded as files."""
    headers = {"x-api-key": demo.key}
    demo.http.post("/v2/banking/statements", headers=headers, content=camt(Sheet([Booking(1)]))).raise_for_status()
    accounts = demo.get("/v2/banking/accounts").json()["data"]
    [account_id] = [account["id"] for account in accounts if account["extra"]["iban"] == IBAN]
    made = [demo.http.post("/v2/banking/payments", headers=headers, json=order(account_id)) for _ in range(2)]
    body = {"payment_ids": [made[0].json()["data"]["id"]]}
    demo.http.post("/v2/banking/order-files", headers=headers, json=body).raise_for_status()


def test_every_line_of_the_menu_has_its_own_key() -> None:
    keys = [entry.key for section in MENU for entry in section.entries if entry.key]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("look", LOOKS, ids=["german-light-wide", "english-dark-narrow"])
def test_every_page_is_accessible_and_fits(
    browser: Browser, demo: ServerProcess, demo_token: str, addresses: dict[str, str], look: dict[str, Any]
) -> None:
    problems = []
    with visiting(browser, demo.facts["base_url"], demo_token, **look) as visitor:
        for address in filter(None, addresses.values()):
            visitor.open(address)
            problems += visitor.violations()
            if visitor.sideways() > 0:
                problems.append(f"{address} is {visitor.sideways()} pixels too wide")
            assert visitor.page.get_attribute("html", "lang") == look["locale"]
    assert problems == []


@pytest.mark.parametrize("look", LOOKS, ids=["german-light-wide", "english-dark-narrow"])
def test_every_page_outside_is_accessible_and_fits(browser: Browser, demo: ServerProcess, look: dict[str, Any]) -> None:
    problems = []
    with visiting(browser, demo.facts["base_url"], **look) as visitor:
        for address in OUTSIDE:
            visitor.open(address)
            problems += visitor.violations()
            if visitor.sideways() > 0:
                problems.append(f"{address} is {visitor.sideways()} pixels too wide")
    assert problems == []


def test_what_a_page_may_weigh(demo: ServerProcess, demo_token: str, addresses: dict[str, str]) -> None:
    css, js = rendering.static_file("dashboard.css"), rendering.static_file("dashboard.js")
    assert css is not None
    assert js is not None
    assert len(css.body) <= 25_000
    assert len(js.body) <= 10_000
    with httpx.Client(
        base_url=demo.facts["base_url"], cookies={COOKIE: demo_token}, timeout=PATIENCE_SECONDS
    ) as client:
        heavy = {address: len(client.get(address).content) for address in filter(None, addresses.values())}
    assert {address: size for address, size in heavy.items() if size > 60_000} == {}
