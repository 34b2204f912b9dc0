"""The second factor at a real browser: an app, recovery codes, a passkey on a virtual authenticator, and requiring one."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from kontobahn.access import factors
from kontobahn.clock import SECOND
from tests.browser.visitor import Visitor, visiting
from tests.harness import PASSWORD, Organization, Service, running_service

EMAIL = "erika@muster.example"


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Service]:
    with running_service(tmp_path / "data") as service:
        service.user(service.organization(), EMAIL)
        yield service


@pytest.fixture
def erika(browser: Browser, muster: Service) -> Iterator[Visitor]:
    """Signed in at `localhost`: a passkey is bound to a name, not to a number."""
    with visiting(browser, muster.base_url.replace("127.0.0.1", "localhost"), locale="en") as visitor:
        visitor.sign_in(EMAIL, PASSWORD)
        yield visitor


def add_app(erika: Visitor, service: Service) -> tuple[bytes, list[str]]:
    """Sets an app up. Returns its secret and the recovery codes."""
    page = erika.open("/dashboard/profile/second-factor/app")
    page.click("text=I cannot scan it")
    text = page.inner_text("li details code").replace(" ", "")
    secret = base64.b32decode(text + "=" * (-len(text) % 8))
    page.fill("[name=code]", "000000")
    page.click("button:has-text('Set up')")
    expect(page.locator("div.notice.bad")).to_contain_text("wrong or too old")
    page.fill("[name=code]", code_of(secret, service))
    page.click("button:has-text('Set up')")
    expect(page.locator("h1")).to_have_text("Recovery codes")
    return secret, page.locator(".codes code").all_inner_texts()


def code_of(secret: bytes, service: Service) -> str:
    return factors.totp(secret, service.clock.now() // SECOND // factors.STEP_SECONDS)


def enter(erika: Visitor, code: str) -> None:
    """Signs out, and in again with the password and this code."""
    page = erika.page
    erika.context.clear_cookies()
    erika.open("/dashboard/sign-in")
    page.fill("[name=email]", EMAIL)
    page.fill("[name=password]", PASSWORD)
    page.click("form[action$=sign-in] button")
    expect(page.locator("h1")).to_have_text("Second step")
    page.fill("[name=code]", code)
    page.click("form[action$=code] button")


def test_each_code_lets_one_in_once(erika: Visitor, muster: Service) -> None:
    secret, codes = add_app(erika, muster)
    assert len(set(codes)) == 10
    assert erika.violations() == []
    page = erika.page
    muster.clock.advance(seconds=60)
    for code in (code_of(secret, muster), codes[0], codes[1].lower().replace("-", " ")):
        enter(erika, code)
        expect(page).to_have_url(f"{erika.base_url}/dashboard")
        enter(erika, code)
        expect(page.locator("div.notice.bad")).to_contain_text("already used")
        assert erika.violations() == []
        # The password alone has let nobody in.
        erika.open("/dashboard")
        expect(page.locator("[name=password]")).to_be_visible()
    enter(erika, code_of(b"another secret......", muster))
    expect(page.locator("div.notice.bad")).to_contain_text("wrong")


def test_guessing_a_code_ends_after_ten(erika: Visitor, muster: Service) -> None:
    secret, _ = add_app(erika, muster)
    page = erika.page
    enter(erika, "111111")
    for _ in range(9):
        page.fill("[name=code]", "111111")
        page.click("form[action$=code] button")
    expect(page.locator("div.notice.bad")).to_contain_text("wrong")
    muster.clock.advance(seconds=60)
    page.fill("[name=code]", code_of(secret, muster))
    page.click("form[action$=code] button")
    expect(page.locator("div.notice.bad")).to_contain_text("Too many wrong codes")


def test_a_passkey_lets_one_in_without_a_password(erika: Visitor, muster: Service) -> None:
    page = erika.page
    tools = erika.context.new_cdp_session(page)
    tools.send("WebAuthn.enable")
    tools.send(
        "WebAuthn.addVirtualAuthenticator",
        {
            "options": {
                "protocol": "ctap2",
                "transport": "internal",
                "hasResidentKey": True,
                "hasUserVerification": True,
                "isUserVerified": True,
                "automaticPresenceSimulation": True,
            }
        },
    )
    erika.open("/dashboard/profile/second-factor/passkey")
    assert erika.violations() == []
    page.click("button:has-text('Create the passkey')")
    expect(page.locator("h1")).to_have_text("Recovery codes")
    erika.open("/dashboard/profile/second-factor")
    expect(page.locator("tbody tr")).to_have_count(1)
    for _ in range(2):
        erika.context.clear_cookies()
        erika.open("/dashboard/sign-in")
        page.click("text=Sign in with a passkey")
        expect(page).to_have_url(f"{erika.base_url}/dashboard")
    # Its key alone knows it: another person's would be another row.
    stored = muster.db.read_now(lambda tx: tx.all("SELECT kind, last_used_at FROM user_factors"))
    assert stored == [("passkey", muster.clock.now())]
    muster.clock.advance(seconds=11 * 60)
    erika.open("/dashboard/keys/new")
    page.fill("[name=name]", "Kasse")
    page.click("main form button")
    expect(page.locator("h1")).to_have_text("Please confirm that it is you")
    assert erika.violations() == []
    page.click("text=Confirm with a passkey")
    expect(page.locator("h1")).to_contain_text("Kasse")


def test_everybody_needs_one_once_it_is_required(browser: Browser, erika: Visitor, muster: Service) -> None:
    page = erika.open("/dashboard/profile/second-factor")
    page.click("text=Require it for everybody")
    expect(page.locator("main")).to_contain_text("lock yourself out")
    add_app(erika, muster)
    page = erika.open("/dashboard/profile/second-factor")
    page.click("text=Require it for everybody")
    expect(page.locator(".notice.good")).to_contain_text("Everybody needs")
    page.click("text=Remove")
    expect(page.locator("main")).to_contain_text("Add another one before")
    (organization,) = muster.db.read_now(lambda tx: tx.all("SELECT id FROM organizations"))[0]
    muster.user(Organization(organization, "", ""), "max@muster.example", "member")
    with visiting(browser, muster.base_url, locale="en") as max_visitor:
        max_visitor.open("/dashboard/sign-in")
        max_visitor.page.fill("[name=email]", "max@muster.example")
        max_visitor.page.fill("[name=password]", PASSWORD)
        max_visitor.page.click("form[action$=sign-in] button")
        max_visitor.open("/dashboard/ledger/connections")
        expect(max_visitor.page.locator(".notice.warn")).to_contain_text("requires a second factor")
        add_app(max_visitor, muster)
        max_visitor.open("/dashboard/ledger/connections")
        expect(max_visitor.page.locator("h1")).to_have_text("Accounting connections")
