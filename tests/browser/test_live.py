"""A page that looks by itself whether it has changed: quietly, announced, and without keeping a session alive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.visitor import visiting
from tests.dashboard.browsing import Browser as PlainBrowser
from tests.harness import PASSWORD, Service, running_service

EMAIL = "erika@muster.example"


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Service]:
    with running_service(tmp_path / "data") as service:
        service.user(service.organization(), EMAIL)
        yield service


def test_a_page_that_has_not_changed_answers_304(muster: Service) -> None:
    browser = PlainBrowser(muster)
    browser.sign_in(EMAIL)
    first = browser.get("/dashboard", **{"x-poll": "1"})
    again = browser.get("/dashboard", **{"x-poll": "1", "if-none-match": first.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""
    muster.db.write_now(lambda tx: tx.run("UPDATE organizations SET name = 'Neue GmbH'"))
    changed = browser.get("/dashboard", **{"x-poll": "1", "if-none-match": first.headers["etag"]})
    assert changed.status_code == 200
    assert "Neue GmbH" in changed.text
    assert "etag" not in browser.get("/dashboard").headers


def test_a_change_is_shown_and_announced(browser: Browser, muster: Service) -> None:
    with visiting(browser, muster.base_url, locale="en") as visitor:
        page = visitor.page
        page.clock.install()
        visitor.sign_in(EMAIL, PASSWORD)
        expect(page.locator(".accounts")).to_have_count(0)
        expect(page.locator(".steps li.done")).to_have_count(2)
        with page.expect_response(lambda answer: "x-poll" in answer.request.headers):
            page.reload()
        muster.db.write_now(lambda tx: tx.run("UPDATE api_keys SET last_used_at = 1"))
        with page.expect_response(lambda answer: "x-poll" in answer.request.headers):
            page.clock.fast_forward(16_000)
        expect(page.locator(".steps li.done")).to_have_count(3)
        expect(page.locator("#news")).to_have_text("One change.")
