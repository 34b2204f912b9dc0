"""Fixtures: one browser and one demo for all tests of a process, and a visitor for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.visitor import Visitor, launched, session_token, visiting
from tests.dashboard.full_demo import NOBODY
from tests.journeys.process import ServerProcess, serving


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for longer than a module: the library keeps an event loop running, and other tests run their own."""
    with sync_playwright() as playwright:
        browser = launched(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The demo, as `make run` serves it."""
    with serving(
        tmp_path_factory.mktemp("demo"), limit_auth_requests=100_000, limit_page_requests=100_000, webhook_allow=NOBODY
    ) as server:
        yield server


@pytest.fixture(scope="session")
def demo_token(demo: ServerProcess) -> str:
    """A session of the demo's owner."""
    return session_token(demo.facts["base_url"], **demo.facts["user"])


@pytest.fixture
def visitor(browser: Browser, demo: ServerProcess) -> Iterator[Visitor]:
    """The demo's owner at a browser, signed in just now: ten minutes later the password is asked for again."""
    token = session_token(demo.facts["base_url"], **demo.facts["user"])
    with visiting(browser, demo.facts["base_url"], token, locale="en") as visitor:
        yield visitor


@pytest.fixture
def stranger(browser: Browser, demo: ServerProcess) -> Iterator[Visitor]:
    """Somebody who is not signed in."""
    with visiting(browser, demo.facts["base_url"], locale="en") as visitor:
        yield visitor
