"""Every page, in both languages and both themes: accessible, within 320 pixels, without an error, within its budget."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Browser

from kontobahn.dashboard import components
from kontobahn.dashboard.menu import MENU
from kontobahn.dashboard.pages import every_page
from tests.browser.visitor import COOKIE, EVERY_WAY, NARROW_AND_DARK, TABLET, TWO_WAYS, session_token, visiting
from tests.dashboard.full_demo import fill
from tests.dashboard.walking import SHOWN, walk
from tests.journeys.process import ServerProcess, answer, kontobahn
from tests.waiting import PATIENCE_SECONDS, eventually

# For somebody who is not signed in. The first run has a test of its own: it is over once there is a user.
OUTSIDE = ("/dashboard/sign-in", "/dashboard/forgotten-password", "/dashboard/invitation/none", "/dashboard/nowhere")
# The menu beside or above a page, tables with heads or as cards, charts, a form: what there is only when wide or only when narrow.
OF_EACH_SHAPE = ("/dashboard", "/dashboard/transactions", "/dashboard/accounts", "/dashboard/payments/new")
# Asked for by a script while somebody types, shown in a frame, where the bank's pages lead back to, a receipt, which no entry of the
# demo has, or a client, of whom the demo's owner has none: those are looked at in tests/browser/test_first_day.py.
UNLINKED = {
    "/dashboard/board",
    "/dashboard/board/tasks",
    "/dashboard/clients/{id}",
    "/dashboard/clients/{id}/close",
    "/dashboard/invoices/{id}/view",
    "/dashboard/seller/logo",
    "/dashboard/cash-book/receipts/{id}",
    "/dashboard/payments/check-iban",
    # The demo's one person made the payment that waits; see tests/dashboard/test_releases.py.
    "/dashboard/payments/{id}/refuse",
    # Accounts that stand twice are from before one IBAN was one account; see tests/dashboard/test_account_merges.py.
    "/dashboard/accounts/merge",
    "/dashboard/accounts/merges",
    "/dashboard/accounts/merges/{id}/undo",
    # The demo has no registration at DATEV; see tests/dashboard/test_ledger_online.py.
    "/dashboard/ledger/sign-in",
    "/dashboard/ledger/connections/{id}/disconnect",
    "/dashboard/ledger/connections/{id}/requests",
    "/dashboard/ledger/connections/{id}/transmissions",
    "/dashboard/ledger/connections/{id}/transmissions/{sent}/send-again",
    # The demo has no EBICS; see tests/browser/test_bank_line.py.
    "/dashboard/payments/order-files/{id}/submit",
    "/dashboard/payments/order-files/{id}/at-bank",
    "/dashboard/connections/{id}/line",
    "/dashboard/connections/{id}/line/orders",
    "/dashboard/connections/{id}/line/orders/{order_id}/sign",
    "/dashboard/connections/{id}/line/orders/{order_id}/cancel",
    "/dashboard/connections/{id}/line/keys",
    "/dashboard/connections/{id}/line/suspend",
    # Assistants lead there; see tests/browser/test_assistants.py.
    "/dashboard/assistants/authorize",
    # Nobody has handed in an order file; see tests/dashboard/test_sandbox.py and tests/browser/test_invoice_by_mail.py.
    "/dashboard/sandbox/orders/reports/{ref}",
    "/dashboard/sandbox/orders/statements/{iban}/{number}",
    # Forms lead there.
    "/dashboard/payables/payment-runs/new",
    "/dashboard/open-items/pay",
    "/dashboard/open-items/{konto}/reminder.pdf",
    "/dashboard/payments/return",
    "/dashboard/connections/return",
}


@pytest.fixture(scope="session")
def weights() -> dict[str, int]:
    """The bytes of every page that the walk has seen, by address."""
    return {}


@pytest.fixture(scope="session")
def addresses(demo: ServerProcess, demo_token: str, weights: dict[str, int]) -> dict[str, str]:
    """One address for each page that links lead to; an empty one for a file to save."""

    def weigh(answer: httpx.Response) -> None:
        weights[answer.request.url.raw_path.decode()] = len(answer.content)

    fill(demo)
    with httpx.Client(
        base_url=demo.facts["base_url"], cookies={COOKIE: demo_token}, timeout=PATIENCE_SECONDS
    ) as client:
        # Calls are listed a few seconds after they were answered.
        eventually(lambda: 'id="r-' in client.get("/dashboard/requests").text)
        # Every choice of every filter is followed in tests/dashboard/test_hostile_texts.py.
        return walk(client, weigh, often=1)


def test_every_page_is_reached_by_links(addresses: dict[str, str]) -> None:
    wanted = {page.path for page in SHOWN if page.caller == "user"}
    assert wanted - set(addresses) - UNLINKED == set()


def test_every_line_of_the_menu_has_its_own_key() -> None:
    keys = [entry.key for section in MENU for entry in section.entries if entry.key]
    assert len(keys) == len(set(keys))


def test_every_page_is_accessible_and_fits(
    browser: Browser, demo: ServerProcess, demo_token: str, addresses: dict[str, str]
) -> None:
    """In German, whose words are the longest. One visitor sees them all: a menu that was looked at is not looked at again."""
    problems = []
    with visiting(browser, demo.facts["base_url"], demo_token, locale="de") as visitor:
        for address in filter(None, addresses.values()):
            visitor.open(address)
            assert visitor.language() == "de"
            ways = EVERY_WAY if address in OF_EACH_SHAPE else TWO_WAYS
            problems += visitor.look_closely(ways, leaves_any_width=True)
    assert not problems, "\n".join(problems)


def test_every_page_fits_on_a_phone_in_english(
    browser: Browser, demo: ServerProcess, demo_token: str, addresses: dict[str, str]
) -> None:
    """The scripts have run in German, and bring no words of their own: a page is shown as it was sent, without opening it."""
    problems = []
    with visiting(browser, demo.facts["base_url"], demo_token, locale="en") as visitor:
        visitor.show(NARROW_AND_DARK)
        visitor.open("/dashboard")
        for address in filter(None, addresses.values()):
            visitor.show_as_sent(address)
            assert visitor.language() == "en"
            problems += [f"{address}: {problem}" for problem in visitor.too_wide()]
    assert not problems, "\n".join(problems)


def test_every_page_fits_on_a_tablet_with_each_number_and_row_of_facts_in_line(
    browser: Browser, demo: ServerProcess, demo_token: str, addresses: dict[str, str]
) -> None:
    """Tables still have their columns there, and the least room for them."""
    problems = []
    with visiting(browser, demo.facts["base_url"], demo_token, locale="de") as visitor:
        visitor.show(TABLET)
        visitor.open("/dashboard")
        for address in filter(None, addresses.values()):
            visitor.show_as_sent(address)
            problems += [
                f"{address}: {problem}" for problem in visitor.too_wide() + visitor.parted() + visitor.uneven()
            ]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("language", ["de", "en"])
def test_pages_for_strangers_are_accessible_and_fit(browser: Browser, demo: ServerProcess, language: str) -> None:
    problems = []
    with visiting(browser, demo.facts["base_url"], locale=language) as visitor:
        for address in OUTSIDE:
            visitor.open(address)
            assert visitor.language() == language
            problems += visitor.look_closely()
    assert not problems, "\n".join(problems)


def test_a_strangers_ids_are_not_there(demo: ServerProcess, addresses: dict[str, str]) -> None:
    """Whatever somebody of another organisation asks for or sends to, it is not there; and nothing says that it might be."""
    other = answer("organizations", "create", "--name", "Fremde GmbH", data=demo.data)
    account = {"email": "eve@fremd.example", "password": "a long enough password"}
    kontobahn(
        "users", "create", "--organization", other["organization_id"], "--name", "Eve", "--email", account["email"], "--password",
        account["password"], data=demo.data,
    )  # fmt: skip
    cookies = {COOKIE: session_token(demo.facts["base_url"], **account)}
    theirs = {kind: found for kind, found in addresses.items() if "{" in kind and found}
    assert len(theirs) > 20
    with httpx.Client(base_url=demo.facts["base_url"], cookies=cookies, timeout=PATIENCE_SECONDS) as client:
        shown = {found: client.get(found).status_code for found in theirs.values()}
        assert {found: status for found, status in shown.items() if status != 404} == {}
        origin = {"origin": demo.facts["base_url"]}
        sent = {
            page.path: client.post(theirs[page.path], headers=origin, data={"x": "y"}).status_code
            for page in every_page()
            if page.method == "POST" and page.path in theirs and not page.takes_file
        }
    assert len(sent) > 5
    # 422 is said of the form, before anything is looked for.
    assert {path: status for path, status in sent.items() if status not in (404, 422)} == {}


def test_what_a_page_may_weigh(addresses: dict[str, str], weights: dict[str, int]) -> None:
    css, js = components.static_file("dashboard.css"), components.static_file("dashboard.js")
    assert css is not None
    assert js is not None
    assert len(css.body) <= 25_000
    assert len(js.body) <= 10_000
    heavy = {address: weights[httpx.URL(address).raw_path.decode()] for address in filter(None, addresses.values())}
    assert {address: size for address, size in heavy.items() if size > 60_000} == {}
