"""Fixtures: one browser and one demo for all tests of a process, and a visitor for each."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.visitor import Visitor, launched, session_token, visiting
from tests.dashboard.full_demo import NOBODY
from tests.journeys.process import ServerProcess, serving


class _Browsers:
    """One browser at a time, for as long as tests that have one follow each other: to start it takes as long as many of them."""

    def __init__(self) -> None:
        self._running = ExitStack()
        self._browser: Browser | None = None

    def get(self) -> Browser:
        if self._browser is None:
            self._browser = launched(self._running.enter_context(sync_playwright()))
            self._running.callback(self._browser.close)
        return self._browser

    def close(self) -> None:
        self._browser = None
        self._running.close()


_browsers = _Browsers()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None]:
    """No browser is left to tests of other folders: the library keeps an event loop running, and they run their own."""
    try:
        return (yield)
    finally:
        if nextitem is None or not nextitem.path.is_relative_to(Path(__file__).parent):
            _browsers.close()


@pytest.fixture(scope="module")
def browser() -> Browser:
    return _browsers.get()


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
