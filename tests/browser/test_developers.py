"""Keys in the browser: made with less than the role allows, tried at once, used for a call, rotated and revoked."""

from __future__ import annotations

import httpx

from tests.browser.visitor import Visitor
from tests.journeys.process import ServerProcess


def _confirm(visitor: Visitor, demo: ServerProcess) -> None:
    """Types the password again if the page asks for it."""
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
    assert "200" in page.inner_text("pre")
    base = demo.facts["base_url"]

    def call(path: str) -> int:
        return httpx.get(base + path, headers={"x-api-key": secret}).status_code

    assert call("/v2/banking/connections") == 200
    assert call("/v2/ledger-duo/connections") == 403
    page = visitor.open("/dashboard/keys")
    page.get_by_role("link", name="<b>Rechnungen & Co</b>").first.click()
    assert "1,000.00" in page.inner_text("main")
    assert secret not in page.content()
    page.select_option("[name=overlap]", "0")
    page.click("main .fields button")
    _confirm(visitor, demo)
    assert page.input_value("#key-secret") != secret
    assert call("/v2/banking/connections") == 401


def test_an_event_is_sent_again_from_its_page(visitor: Visitor, demo: ServerProcess) -> None:
    page = visitor.open("/dashboard/webhooks")
    page.fill("[name=webhook_url]", "https://127.0.0.1/inside")
    page.get_by_role("button", name="Save").click()
    _confirm(visitor, demo)
    assert page.locator("#e-webhook_url").count() == 1  # refused, beside the field, and nothing is stored
    visitor.open("/dashboard/webhooks").locator("td a code").first.click()
    assert "payment" in page.inner_text("h1") or "refresh" in page.inner_text("h1")
    assert '"received_at"' in page.inner_text("pre")
    page.get_by_role("button", name="Send again").click()
    assert "PUT /v2/banking/webhook-url" in page.inner_text("main") or "webhook" in page.inner_text("main").lower()
