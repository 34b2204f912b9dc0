"""Getting in: the first run, an invitation, signing in and out, with and without scripts; and the keys on the keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from kontobahn.access import invitations, organizations
from kontobahn.access.principal import Principal
from tests.browser.visitor import Visitor, visiting
from tests.harness import ACTOR, PASSWORD, Service, running_service
from tests.journeys.process import ServerProcess, kontobahn


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Service]:
    """A service that nobody has set up."""
    with running_service(tmp_path / "data") as service:
        yield service


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
def test_the_first_person_sets_the_service_up(browser: Browser, fresh: Service, scripts: bool) -> None:
    with visiting(browser, fresh.base_url, locale="en", java_script_enabled=scripts) as visitor:
        page = visitor.open("/")
        expect(page).to_have_url(f"{fresh.base_url}/dashboard/first-run")
        if scripts:
            assert visitor.violations() == []
        page.fill("[name=code]", "AAAA-BBBB-CCCC")
        page.fill("[name=organization]", "Muster GmbH")
        page.fill("[name=name]", "Erika Muster")
        page.fill("[name=email]", "erika@muster.example")
        page.fill("[name=password]", PASSWORD)
        page.click("button:has-text('Set up')")
        expect(page.locator("#e-code")).to_contain_text("This is not the code")
        expect(page.locator("[name=organization]")).to_have_value("Muster GmbH")
        expect(page.locator("[name=password]")).to_have_value("")
        page.fill("[name=code]", organizations.first_run_code(fresh.vault).lower())
        page.fill("[name=password]", PASSWORD)
        page.click("button:has-text('Set up')")
        expect(page.locator(".notice")).to_have_text("Welcome. Your organisation is ready.")
        expect(page.locator(".set-up li.done")).to_have_count(1)
        expect(page.locator(".set-up li")).to_have_count(5)
        page.reload()
        expect(page.locator(".notice")).to_have_count(0)
        visitor.open("/dashboard/first-run")
        expect(page).to_have_url(f"{fresh.base_url}/dashboard")


def test_the_code_is_worth_nothing_once_there_is_somebody(fresh: Service) -> None:
    organization = fresh.organization()
    fresh.user(organization, "erika@muster.example")
    form = {
        "code": organizations.first_run_code(fresh.vault),
        "organization": "Räuber",
        "name": "R",
        "email": "r@r.example",
    }
    answer = fresh.http.post(
        "/dashboard/first-run", data={**form, "password": PASSWORD}, headers={"origin": fresh.base_url}
    )  # fmt: skip
    assert answer.status_code == 422
    assert "bereits eingerichtet" in answer.text
    assert fresh.db.read_now(lambda tx: tx.one("SELECT COUNT(*) FROM users")) == (1,)


def test_an_invited_person_begins_with_a_link(browser: Browser, fresh: Service) -> None:
    organization = fresh.organization()
    owner = fresh.user(organization, "erika@muster.example")
    principal = Principal(organization.id, "owner", (organization.id,), user_id=owner.id)
    made = fresh.db.write_now(
        invitations.create, fresh.vault, principal, email="max@muster.example", role="member", days=7, actor=ACTOR
    )  # fmt: skip
    with visiting(browser, fresh.base_url, locale="de") as visitor:
        page = visitor.open(f"/dashboard/invitation/{made.secret}")
        assert visitor.look_closely() == []
        page.reload()
        page.fill("[name=name]", "Max Muster")
        page.fill("[name=password]", PASSWORD)
        page.click("text=Einladung annehmen")
        expect(page.locator(".notice")).to_contain_text("Willkommen")
        expect(page.locator(".contents")).to_contain_text("Max Muster")
    with visiting(browser, fresh.base_url, locale="de") as second:
        page = second.open(f"/dashboard/invitation/{made.secret}")
        expect(page.locator("main")).to_contain_text("schon angenommen")
        expect(page.locator("[name=password]")).to_have_count(0)


def test_signing_in_and_out(stranger: Visitor, demo: ServerProcess) -> None:
    page = stranger.open("/dashboard/profile")
    page.fill("[name=email]", demo.facts["user"]["email"])
    page.fill("[name=password]", "not the password")
    page.click("form[action$=sign-in] button")
    expect(page.locator("div.notice.bad")).to_have_text("The e-mail address or the password is wrong.")
    expect(page.locator("[name=email]")).to_have_value(demo.facts["user"]["email"])
    page.fill("[name=password]", demo.facts["user"]["password"])
    page.click("form[action$=sign-in] button")
    expect(page).to_have_url(f"{stranger.base_url}/dashboard/profile")
    page.click("text=Sign out")
    expect(page.locator(".notice")).to_have_text("You have been signed out.")
    page.go_back()
    expect(page.locator("[name=password]")).to_be_visible()


def test_language_and_colours_are_remembered(browser: Browser, demo: ServerProcess) -> None:
    with visiting(browser, demo.facts["base_url"], locale="en") as visitor:
        page = visitor.open("/dashboard/sign-in")
        page.click("text=Deutsch")
        page.click("text=Dunkel")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        expect(page.locator("h1")).to_have_text("Anmelden")
        expect(page.locator("body")).to_have_css("background-color", "rgb(18, 24, 23)")
        page.click("text=Wie das System")
        expect(page.locator("html")).not_to_have_attribute("data-theme", "dark")


def test_keys_lead_through_the_pages(visitor: Visitor) -> None:
    page = visitor.open("/dashboard/profile")
    visitor.press("g", "o")
    expect(page).to_have_url(f"{visitor.base_url}/dashboard")
    visitor.press("?")
    expect(page).to_have_url(f"{visitor.base_url}/dashboard/keyboard")
    visitor.open("/dashboard/ledger/connections")
    visitor.press("j", "Enter")
    expect(page.locator("h2").filter(has_text="What it may do")).to_be_visible()


def test_a_connection_that_has_ended_is_renewed_where_the_error_leads(visitor: Visitor, demo: ServerProcess) -> None:
    expired = demo.facts["ledger"]["expired_connection_id"]
    path = f"/v2/ledger-rewe-read/opos?connectionId={expired}"
    page = visitor.page
    page.goto(demo.get(path).json()["reconnectUrl"])
    page.click("button:has-text('Renew the connection')")
    expect(page.locator(".notice.good")).to_have_text("The connection works again.")
    assert demo.get(path).status_code == 200
    # The demo is shared with other tests.
    kontobahn("books", "expire", expired, data=demo.data)
