"""Matching payments by keys alone: move, confirm, reject, undo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.visitor import Visitor, session_token, visiting
from tests.harness import PASSWORD, Service, running_service
from tests.reconciliation_desk import ANNA, Clerk, paid

EMAIL = "erika@muster.example"


@pytest.fixture
def clerk(tmp_path: Path) -> Iterator[Clerk]:
    with running_service(tmp_path / "data") as service:
        yield _clerk(service)


def _clerk(service: Service) -> Clerk:
    clerk = Clerk(
        service, paid(119_00, "Rechnung RE-2026-00123"), paid(100_00, "RE-2026-00124"), paid(50_00, "RE-2026-00125")
    )
    service.user(clerk.owner, EMAIL, "admin")
    clerk.store_run()
    return clerk


@pytest.fixture
def erika(browser: Browser, clerk: Clerk) -> Iterator[Visitor]:
    token = session_token(clerk.service.base_url, EMAIL, PASSWORD)
    with visiting(browser, clerk.service.base_url, token, locale="en") as visitor:
        yield visitor


def test_payments_are_matched_by_keys_alone(erika: Visitor, clerk: Clerk) -> None:
    page = erika.open("/dashboard/reconciliation")
    erika.press("j", "Enter")
    page.wait_for_url(f"**/reconciliation/{clerk.listed(119)['id']}")
    expect(page.locator("mark")).to_have_text("RE-2026-00123")
    erika.press("j")
    page.wait_for_url(f"**/reconciliation/{clerk.listed(100)['id']}")
    erika.press("k")
    page.wait_for_url(f"**/reconciliation/{clerk.listed(119)['id']}")
    erika.press("Enter")
    page.wait_for_url(f"**/reconciliation/{clerk.listed(100)['id']}")
    expect(page.get_by_text("The payment is matched.")).to_be_visible()
    assert clerk.listed(119)["status"] == "matched"
    erika.press("x")
    expect(page.get_by_text("This is not proposed again.")).to_be_visible()
    erika.press("a")
    page.wait_for_url("**?hand=on_account#by-hand")
    expect(page.locator("[name=kind]")).to_have_value("on_account")
    erika.press("r")
    page.wait_for_url("**/reconciliation-rules?**")
    expect(page.locator("[name=iban]")).to_have_value(ANNA)
    erika.press("?")
    page.wait_for_url("**/keyboard")
    expect(page.get_by_text("A rule from this")).to_be_visible()
    erika.open(f"/dashboard/reconciliation/{clerk.listed(119)['id']}")
    # In a field a key is a letter.
    page.fill("[name=reason]", "")
    page.locator("[name=reason]").press("u")
    expect(page.locator("[name=reason]")).to_have_value("u")
    page.locator("h1").click()
    erika.press("u")
    expect(page.get_by_text("The match is undone.")).to_be_visible()
    assert clerk.listed(119)["status"] == "open"
