"""Keys in the browser: made with less than the role allows, tried at once, used for a call, rotated and revoked."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import expect

from tests.browser.visitor import Visitor
from tests.journeys.process import ServerProcess
from tests.waiting import PATIENCE_SECONDS, eventually


def _confirm(visitor: Visitor, demo: ServerProcess) -> None:
    """Types the password again if the page asks for it."""
    visitor.page.wait_for_load_state()
    if visitor.page.locator("form[action$=confirm] [name=password]").count():
        visitor.page.fill("[name=password]", demo.facts["user"]["password"])
        visitor.page.click("main form button")


def test_a_key_made_here_works_within_its_scopes(visitor: Visitor, demo: ServerProcess) -> None:
    page = visitor.open("/dashboard/keys/new")
    page.fill("[name=name]", "<b>Rechnungen & Co</b>")
    page.check("[value='mobility:read']")
    page.check("[value='banking:read']")
    page.fill("[name=daily_limit]", "1.000,00")
    page.click("main form button")
    _confirm(visitor, demo)
    secret = page.input_value("#key-secret")
    page.get_by_role("button", name="Try it").click()
    expect(page.locator("pre")).to_contain_text("200")
    base = demo.facts["base_url"]

    def call(path: str) -> int:
        return httpx.get(base + path, headers={"x-api-key": secret}, timeout=PATIENCE_SECONDS).status_code

    assert call("/v2/banking/connections") == 200
    assert call("/v2/ledger-duo/connections") == 403
    page = visitor.open("/dashboard/keys")
    page.get_by_role("link", name="<b>Rechnungen & Co</b>").first.click()
    expect(page.locator("[name=overlap]")).to_be_visible()
    expect(page.locator("main")).to_contain_text("1,000.00")
    assert secret not in page.content()
    page.select_option("[name=overlap]", "0")
    page.click("main .fields button")
    _confirm(visitor, demo)
    assert page.input_value("#key-secret") != secret
    eventually(lambda: call("/v2/banking/connections") == 401)  # Every process knows it within a second.


def test_an_event_is_sent_again_from_its_page(visitor: Visitor, demo: ServerProcess) -> None:
    page = visitor.open("/dashboard/webhooks")
    page.fill("[name=webhook_url]", "https://127.0.0.1/inside")
    page.get_by_role("button", name="Save").click()
    _confirm(visitor, demo)
    expect(page.locator("#e-webhook_url")).to_have_count(1)  # refused, beside the field, and nothing is stored
    visitor.open("/dashboard/webhooks").locator("td a code").first.click()
    expect(page.locator("pre").first).to_contain_text('"received_at"')
    expect(page.locator("h1")).to_have_text(re.compile(r"^\s*[a-z]+(_[a-z]+)+\s*$"))
    page.get_by_role("button", name="Send again").click()
    expect(page.locator("main")).to_contain_text(re.compile("webhook", re.IGNORECASE))
