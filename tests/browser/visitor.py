"""A person at a real browser, who notices every error of a script and every violation of the content policy."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import axe_playwright_python
import httpx
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, expect

from tests.waiting import PATIENCE_SECONDS

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
_TOO_WIDE = """
    Math.max(...[document.documentElement, ...document.querySelectorAll(".table-box, .card")].map(
        box => box.scrollWidth - box.clientWidth))
"""
# Elements that differ in their words alone look and sound the same.
_KIND_OF = """
    const kindOf = element =>
        element.outerHTML.replace(/>[^<]*</g, "><").replace(/(?!class|type|role)\\b([\\w-]+)="[^"]*"/g, "$1");
"""
# Two rows of each kind are left, so that what they repeat is seen.
_THIN_OUT = f"""() => {{
    {_KIND_OF}
    const seen = new Map();
    for (const row of document.querySelectorAll("tbody tr, main li")) {{
        const kind = kindOf(row);
        seen.set(kind, (seen.get(kind) || 0) + 1);
        if (seen.get(kind) > 2) row.remove();
    }}
}}"""
# Every page has the menu, the strips above its content and the choice of a theme; the menu marks where one is, wherever that stands.
_LEAVE_OUT_KNOWN_PARTS = f"""known => {{
    {_KIND_OF}
    const found = [];
    for (const part of document.querySelectorAll("body > header.top, main > .sandbox, main > .strip, main > .look")) {{
        const kind = kindOf(part).replace(/ aria-current/g, "") + (part.querySelector("[aria-current]") !== null);
        if (known.includes(kind)) part.remove(); else found.push(kind);
    }}
    return found;
}}"""
COOKIE = "kontobahn_session"
# The first draws no window of its own around a page, which costs the others a fifth of their time.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


class Way(NamedTuple):
    """How wide the window is, and which theme its owner prefers."""

    width: int
    theme: Literal["light", "dark"]


# A theme changes colours alone, and the width of the window none of them: a page seen in these two ways was seen in each width and
# in each theme.
WIDE_AND_LIGHT, NARROW_AND_DARK = Way(1280, "light"), Way(320, "dark")
TWO_WAYS = (WIDE_AND_LIGHT, NARROW_AND_DARK)
EVERY_WAY = (*TWO_WAYS, Way(1280, "dark"), Way(320, "light"))
expect.set_options(timeout=PATIENCE_SECONDS * 1000)


class Visitor:
    def __init__(self, context: BrowserContext, base_url: str) -> None:
        self.context = context
        self.page: Page = context.new_page()
        self.base_url = base_url
        self.problems: list[str] = []
        self._known_parts: dict[tuple[Way, ...], list[str]] = {}
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.problems.append(f"{self.page.url}: {error}"))

    def _on_console(self, message: ConsoleMessage) -> None:
        # A page that answers 404 or 422 is itself reported as an error of loading.
        if message.type in ("error", "warning") and "status of 4" not in message.text:
            self.problems.append(f"{self.page.url}: {message.text}")

    def open(self, path: str) -> Page:
        self.page.goto(self.base_url + path)
        return self.page

    def sign_in(self, email: str, password: str) -> None:
        self.open("/dashboard/sign-in")
        self.page.fill("[name=email]", email)
        self.page.fill("[name=password]", password)
        self.page.click("form[action$=sign-in] button")
        self.page.wait_for_url("**/dashboard")

    def violations(self) -> list[str]:
        """What axe finds on the page, with the elements concerned."""
        # Under our content policy no script can be added to a page; the tools of the browser may run one nevertheless.
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE)
        rules = {"type": "tag", "values": TAGS}
        found = self.page.evaluate("rules => axe.run({runOnly: rules, resultTypes: ['violations']})", rules)
        return [
            f"{self.page.url} {rule['id']}: {node['html'][:200]} ({node['failureSummary']})"
            for rule in found["violations"]
            for node in rule["nodes"]
        ]

    def look_closely(self, ways: Sequence[Way] = TWO_WAYS) -> list[str]:
        """What is wrong with the page that is open, in these ways of showing it. Afterwards it has fewer rows, and nothing of
        the frame around pages that was looked at before."""
        found = []
        for way in ways:
            self.show(way)
            found += [f"{way}: {problem}" for problem in self.too_wide()]
        self.page.evaluate(_THIN_OUT)
        known = self._known_parts.setdefault(tuple(ways), [])
        known += self.page.evaluate(_LEAVE_OUT_KNOWN_PARTS, known)
        for way in ways:
            self.show(way)
            found += [f"{way}: {problem}" for problem in self.violations()]
        return found

    def show(self, way: Way) -> None:
        self.page.set_viewport_size({"width": way.width, "height": 900})
        self.page.emulate_media(color_scheme=way.theme)

    def too_wide(self) -> list[str]:
        return [f"{self.page.url}: {self.sideways()} pixels too wide"] if self.sideways() > 0 else []

    def sideways(self) -> int:
        """By how many pixels the page is wider than the window, or a table than its box, which cuts it off."""
        return int(self.page.evaluate(_TOO_WIDE))


def launched(playwright: Playwright) -> Browser:
    """The distribution's browser. It runs without its sandbox because tests may run as root; it sees our own pages only."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert path, "Chromium is not installed; `make setup-tests` installs it."
    return playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])


@contextmanager
def visiting(browser: Browser, base_url: str, token: str | None = None, **options: Any) -> Iterator[Visitor]:
    """A visitor, signed in with the token of a session. At the end there must have been no problem."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    if token is not None:
        context.add_cookies([{"name": COOKIE, "value": token, "url": base_url}])
    visitor = Visitor(context, base_url)
    yield visitor
    context.close()
    assert not visitor.problems, "\n".join(visitor.problems)


def session_token(base_url: str, email: str, password: str) -> str:
    """Signs in without a browser."""
    answer = httpx.post(
        f"{base_url}/dashboard/sign-in", data={"email": email, "password": password}, headers={"origin": base_url},
        timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert answer.status_code == 303, answer.text
    return str(answer.cookies[COOKIE])
