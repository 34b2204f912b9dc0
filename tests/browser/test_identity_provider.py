"""The identity provider at a real browser: linked, signed in with, confirmed with and signed out from, with nothing but clicks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from simulators.identity_provider import Provider, running
from tests.browser.visitor import Visitor, visiting
from tests.dashboard.provider_guest import EMAIL, NAME, connect, provider_for
from tests.harness import PASSWORD, Service, running_service


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Service]:
    with running_service(tmp_path / "data") as service:
        service.user(service.organization(), EMAIL)
        yield service


@pytest.fixture
def provider(muster: Service) -> Iterator[Provider]:
    with running(provider_for(muster)) as made:
        # A page asks who it is.
        made.present = ""
        made.add("erika", email=EMAIL, email_verified=True)
        connect(muster, made)
        yield made


@pytest.fixture
def erika(browser: Browser, muster: Service, provider: Provider) -> Iterator[Visitor]:
    with visiting(browser, muster.base_url, locale="en") as visitor:
        visitor.sign_in(EMAIL, PASSWORD)
        yield visitor


def test_an_account_is_linked_signs_in_confirms_and_signs_out(
    erika: Visitor, muster: Service, provider: Provider
) -> None:
    page = erika.open("/dashboard/profile")
    page.click("text=Link an account")
    page.click("button:has-text('erika')")
    expect(page.locator("p.notice")).to_contain_text("is linked to you")
    assert erika.look_closely() == []
    erika.context.clear_cookies()
    page = erika.open("/dashboard/sign-in?next=/dashboard/profile/second-factor")
    assert erika.look_closely() == []
    page.click(f"text=Sign in with {NAME}")
    page.click("button:has-text('erika')")
    page.wait_for_url("**/dashboard/profile/second-factor")
    muster.clock.advance(seconds=11 * 60)
    page.goto(f"{muster.base_url}/dashboard/profile")
    page.click("text=Unlink")
    expect(page.locator("h1")).to_have_text("Please confirm that it is you")
    assert erika.look_closely() == []
    page.click(f"text=Confirm with {NAME}")
    page.click("button:has-text('erika')")
    expect(page.locator("h1")).to_have_text("Thank you, that is confirmed")
    assert erika.look_closely() == []
    page.click("button:has-text('Continue')")
    expect(page.locator("p.notice")).to_contain_text("is no longer linked")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.click("text=Sign out")
    page.wait_for_url("**/dashboard/sign-in")
    assert provider.requests["/sign-out"] == 1
    assert provider.faults == []
