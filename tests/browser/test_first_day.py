"""The first day of an owner: from the link that `serve` prints to the first matched payment and the first invitation, all in the
browser, with every click counted. Each page on the way is accessible and fits on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FilePayload, expect

from kontobahn.access import organizations
from kontobahn.dashboard.declare import FIRST_RUN
from tests.api.ledger.files import file
from tests.browser.visitor import Visitor, visiting
from tests.harness import PASSWORD, Service, running_service
from tests.statement_builder import Booking, Sheet, camt
from tests.unit.formats.extf.files import satz

MAX_CLICKS, MAX_TO_INVITE = 25, 4


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Service]:
    """A service that nobody has set up, with the settings of a new installation."""
    with running_service(tmp_path / "data", connect_provider="") as service:
        yield service


class Owner:
    """Somebody who clicks; filling in a field counts as a click too."""

    def __init__(self, visitor: Visitor) -> None:
        self.visitor, self.page = visitor, visitor.page
        self.clicks = 0
        self.problems: list[str] = []

    def click(self, selector: str) -> None:
        self.clicks += 1
        self.page.locator(f"main {selector}").first.click()

    def fill(self, name: str, value: str) -> None:
        self.clicks += 1
        self.page.fill(f"main [name={name}]", value)

    def choose(self, name: str, content: bytes, form: str) -> None:
        self.clicks += 1
        payload: FilePayload = {"name": name, "mimeType": "application/octet-stream", "buffer": content}
        self.page.locator(f"form[action$='{form}'] input[type=file]").set_input_files(payload)

    def arrive(self, path: str) -> None:
        self.page.wait_for_url(f"**{path}")
        self.problems += self.visitor.look_closely()


# The adviser's export: one invoice, not paid. And the statement of the day on which it was.
EXPORT = file(satz("119,00;S;;;;;10010;4400;;1502;RE-00123;;;Rechnung"), header={27: '"04"'})
STATEMENT = camt(Sheet((Booking(119_00, "Rechnung RE-00123", "Anna Muster Bau", None, None),)))


def test_an_owner_gets_to_the_first_matched_payment_without_a_terminal(browser: Browser, fresh: Service) -> None:
    with visiting(browser, fresh.base_url, locale="de") as visitor:
        owner = Owner(visitor)
        set_up_company(owner, organizations.first_run_code(fresh.vault))
        set_up_books(owner)
        set_up_bank(owner)
        match_a_payment(owner)
        assert owner.clicks <= MAX_CLICKS
        owner.clicks = 0
        invite(owner)
        assert owner.clicks <= MAX_TO_INVITE
        add_a_client(owner)
        assert owner.problems == []


def set_up_company(owner: Owner, code: str) -> None:
    owner.visitor.open(f"{FIRST_RUN}?code={code}")
    for name, value in (("organization", "Muster GmbH"), ("name", "Erika Muster"), ("email", "erika@muster.example"),
                        ("password", PASSWORD)):  # fmt: skip
        owner.fill(name, value)
    owner.click("form[action$=first-run] .button")
    owner.arrive("/dashboard/set-up")
    expect(owner.page.locator(".set-up .done")).to_have_count(1)
    owner.page.reload()


def set_up_books(owner: Owner) -> None:
    owner.click(".set-up .button.main")
    owner.arrive("/dashboard/books/new")
    owner.page.reload()
    owner.choose("stapel.csv", EXPORT, "from-file")
    owner.click("form[action$=from-file] .button")
    owner.page.wait_for_url("**/dashboard/set-up")
    expect(owner.page.locator(".set-up .done")).to_have_count(2)


def set_up_bank(owner: Owner) -> None:
    owner.click(".set-up .button.main")
    owner.arrive("/dashboard/connections/new")
    assert "Sandbox" not in owner.page.content()
    owner.page.reload()
    refused_file(owner)
    owner.visitor.open("/dashboard/connections/new")
    owner.choose("auszug.xml", STATEMENT, "statements")
    owner.click("form[action$=statements] .button")
    owner.page.wait_for_url("**/dashboard/set-up")
    expect(owner.page.locator(".set-up .done")).to_have_count(3)


def refused_file(owner: Owner) -> None:
    """The page about files tells what came of it, and the menu marks that page."""
    payload: FilePayload = {"name": "auszug.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.7"}
    form = owner.page.locator("form[action$=statements]")
    form.locator("input[type=file]").set_input_files(payload)
    form.locator(".button").click()
    expect(owner.page.locator("main .notice.bad")).to_contain_text("auszug.pdf")
    expect(owner.page.locator("header.top [aria-current]")).to_have_attribute("href", "/dashboard/statements")


def match_a_payment(owner: Owner) -> None:
    owner.click(".set-up .button.main")
    owner.page.wait_for_url("**/dashboard/reconciliation-accounts")
    expect(owner.page.locator("[name=konto]")).to_have_value("1800")
    owner.click("form[action$=reconciliation-accounts] .button")
    owner.page.wait_for_url("**/dashboard/reconciliation?**")
    owner.click("form:has(input[name=account]) .button")
    owner.page.locator("tbody tr a").first.wait_for()
    owner.click("tbody tr a")
    owner.page.wait_for_url("**/dashboard/reconciliation/*")
    owner.click("form[action$=confirm] .button")
    expect(owner.page.locator(".notice")).to_be_visible()
    owner.visitor.open("/dashboard/set-up")
    expect(owner.page.locator(".set-up .done")).to_have_count(4)


def invite(owner: Owner) -> None:
    owner.click(".set-up .button.main")
    owner.fill("email", "berater@kanzlei.example")
    owner.click("form[action$=invitations] .button")
    expect(owner.page.locator("input[readonly]").first).to_have_value(re.compile("/dashboard/invitation/"))
    owner.visitor.open("/dashboard/set-up")
    expect(owner.page.locator(".set-up .done")).to_have_count(5)


def add_a_client(owner: Owner) -> None:
    owner.visitor.open("/dashboard/clients")
    owner.fill("name", "Bäckerei Sonnenkorn")
    owner.click("form[action$=clients] .button")
    owner.page.wait_for_url("**/dashboard/set-up")
    owner.visitor.open("/dashboard/clients")
    owner.page.click("tbody a[href*=clients]")
    owner.arrive("/dashboard/clients/*")
    owner.page.reload()
    owner.page.click("main a[href$=close]")
    owner.arrive("/dashboard/clients/*/close")
