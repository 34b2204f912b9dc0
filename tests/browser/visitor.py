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
# Rules that depend on colours, on the room there is, and on which elements are hidden. Everything else is a matter of the markup, which is
# the same in every way of showing a page.
OF_LOOKS = [
    "aria-hidden-focus", "button-name", "color-contrast", "label", "link-in-text-block", "link-name", "scrollable-region-focusable",
    "select-name", "summary-name",
]  # fmt: skip
_TOO_WIDE = """
    Math.max(...[document.documentElement, ...document.querySelectorAll(".table-box, .scroll, .card")].map(
        box => box.scrollWidth - box.clientWidth))
"""
# Amounts, days, IBANs in their groups, numbers of documents and of clients in tables, facts, figures, hints and lists of what goes:
# one that is parted is read wrongly.
_PARTED = r"""() => {
    const shapes =
        /[-−]?€?\d[\d.,]*[.,]\d\d\s?€?|\b\d\d\.\d\d\.\d{4}\b|\b[A-Z]{2}\d\d(?: \d{4}){4} \d\d\b|\b[A-Z]{1,4}(?:-\d+){1,2}\b/g;
    // No part of an id, which may be parted.
    const clients = /(?<![\w-])\d{4,7}-\d{1,5}(?![\w-])/g;
    const found = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const text = texts.currentNode;
        if (!text.parentElement.closest("td, dd, .figure, .field .hint, .removes") || text.parentElement.closest("code")) continue;
        for (const hit of [...text.data.matchAll(shapes), ...text.data.matchAll(clients)]) {
            const range = document.createRange();
            range.setStart(text, hit.index);
            range.setEnd(text, hit.index + hit[0].length);
            const lines = new Set([...range.getClientRects()].filter(line => line.width > 1).map(line => Math.round(line.top)));
            if (lines.size > 1) found.push(hit[0]);
        }
    }
    return found;
}"""
# Facts side by side whose values do not begin at one height, because the label of one takes more lines than those of the others.
_UNEVEN = """() => [...document.querySelectorAll("dl.facts")].flatMap(list => {
    const rows = new Map();
    const topOf = element => Math.round(element.getBoundingClientRect().top);
    for (const fact of list.querySelectorAll(":scope > div")) rows.set(topOf(fact), [...(rows.get(topOf(fact)) || []), fact]);
    const isUneven = row => Math.max(...row.map(fact => topOf(fact.lastElementChild)))
        - Math.min(...row.map(fact => topOf(fact.lastElementChild))) > 6;
    return [...rows.values()].filter(isUneven).map(row => row.map(fact => fact.firstElementChild.textContent).join(", "));
})"""
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
# A page as its scripts have left it, and the same in another document that has its style sheets.
_DRAWN = """() => {
    const attributesOf = element => Object.fromEntries([...element.attributes].map(({name, value}) => [name, value]));
    const partsOfHead = [...document.head.children].filter(part => !part.matches("link, script"));
    return {
        sheets: [...document.querySelectorAll("link[rel=stylesheet]")].map(link => link.href),
        html: attributesOf(document.documentElement),
        head: partsOfHead.map(part => part.outerHTML).join(""),
        attributes: attributesOf(document.body),
        body: document.body.innerHTML,
    };
}"""
_DRAW = """({html, head, attributes, body}) => {
    const give = (element, wanted) => {
        element.getAttributeNames().forEach(name => element.removeAttribute(name));
        Object.entries(wanted).forEach(([name, value]) => element.setAttribute(name, value));
    };
    give(document.documentElement, html);
    document.head.querySelectorAll(":not(link)").forEach(part => part.remove());
    document.head.insertAdjacentHTML("beforeend", head);
    give(document.body, attributes);
    document.body.innerHTML = body;
}"""
# Another page in place of the one that is open, which has the same style sheets: they need not be read again.
_SHOW_AS_SENT = """async address => {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
    const sent = new DOMParser().parseFromString(await answer.text(), "text/html");
    const sheetsOf = page => [...page.querySelectorAll("link[rel=stylesheet]")].map(link => link.getAttribute("href")).join();
    if (sheetsOf(sent) !== sheetsOf(document)) throw new Error(`${address} has other style sheets`);
    // What is in a frame scrolls within it, and the page that is open may not let frames be filled.
    sent.querySelectorAll("iframe").forEach(frame => frame.removeAttribute("src"));
    // Scripts show them.
    sent.querySelectorAll("button[hidden]").forEach(button => { button.hidden = false; });
    document.documentElement.lang = sent.documentElement.lang;
    document.body.replaceWith(document.adoptNode(sent.body));
}"""
COOKIE = "kontobahn_session"
# The first draws no window of its own around a page, which costs the others a fifth of their time.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


class Way(NamedTuple):
    """The width of a window, and the theme that its owner prefers."""

    width: int
    theme: Literal["light", "dark"]


# A theme changes colours alone, and the width of the window none of them: a page seen in these two ways was seen in each width and
# in each theme.
WIDE_AND_LIGHT, NARROW_AND_DARK = Way(1280, "light"), Way(320, "dark")
TABLET = Way(768, "light")
TWO_WAYS = (WIDE_AND_LIGHT, NARROW_AND_DARK)
EVERY_WAY = (*TWO_WAYS, Way(1280, "dark"), Way(320, "light"))
HEIGHT = 900
expect.set_options(timeout=PATIENCE_SECONDS * 1000)


class Visitor:
    def __init__(self, context: BrowserContext, base_url: str) -> None:
        self.context = context
        self.page: Page = context.new_page()
        self.base_url = base_url
        self.problems: list[str] = []
        self._known_parts: dict[tuple[Way, ...], list[str]] = {}
        self._drawings: dict[tuple[str, ...], Page] = {}
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.problems.append(f"{self.page.url}: {error}"))

    def _on_console(self, message: ConsoleMessage) -> None:
        # A page that answers 404 or 422 is itself reported as an error of loading.
        if message.type in ("error", "warning") and "status of 4" not in message.text:
            self.problems.append(f"{self.page.url}: {message.text}")

    def open(self, path: str) -> Page:
        self.page.goto(self.base_url + path)
        return self.page

    def press(self, *keys: str) -> None:
        """Presses keys one after another, each once the page has loaded: its script listens from then on."""
        for key in keys:
            self.page.wait_for_load_state()
            self.page.keyboard.press(key)

    def show_as_sent(self, path: str) -> None:
        """Shows another page as it comes from the service, in place of the one that is open: its scripts do not run."""
        self.page.evaluate(_SHOW_AS_SENT, self.base_url + path)

    def language(self) -> str:
        return str(self.page.evaluate("document.documentElement.lang"))

    def sign_in(self, email: str, password: str) -> None:
        self.open("/dashboard/sign-in")
        self.page.fill("[name=email]", email)
        self.page.fill("[name=password]", password)
        self.page.click("form[action$=sign-in] button")
        self.page.wait_for_url("**/dashboard")

    def violations(self) -> list[str]:
        """Returns what axe finds on the page that is open, in a wide window."""
        return self._violations(WIDE_AND_LIGHT, self.page.evaluate(_DRAWN))

    def look_closely(self, ways: Sequence[Way] = TWO_WAYS, *, leaves_any_width: bool = False) -> list[str]:
        """Returns what is wrong with the page that is open, in these ways of showing it. Afterwards it has fewer rows, and nothing of
        the frame around pages that was looked at before; the window is as wide as in the second way, or as in any of them."""
        found = []
        widths = list(dict.fromkeys(way.width for way in ways))
        # To change the width takes as long as to open a page.
        for width in sorted(widths, key=self._is_another_width) if leaves_any_width else widths:
            self._set_width(width)
            found += [f"{width} pixels: {problem}" for problem in self.too_wide()]
        self.page.evaluate(_THIN_OUT)
        known = self._known_parts.setdefault(tuple(ways), [])
        known += self.page.evaluate(_LEAVE_OUT_KNOWN_PARTS, known)
        drawn = self.page.evaluate(_DRAWN)
        for way in ways:
            by_looks = way != ways[0] and ways == TWO_WAYS
            found += [f"{way}: {problem}" for problem in self._violations(way, drawn, by_looks=by_looks)]
        return found

    def _violations(self, way: Way, drawn: dict[str, Any], *, by_looks: bool = False) -> list[str]:
        """Returns what axe finds on the page, with the elements concerned; only `by_looks` if its markup was looked at before."""
        drawing = self._drawing(tuple(drawn["sheets"]))
        _show(drawing, way)
        drawing.evaluate(_DRAW, drawn)
        rules = {"type": "rule", "values": OF_LOOKS} if by_looks else {"type": "tag", "values": TAGS}
        found = drawing.evaluate(
            "rules => axe.run({runOnly: rules, resultTypes: ['violations']}).then(({violations}) => violations)", rules
        )
        # Nothing has to be drawn anew when it is shown in another way.
        drawing.evaluate("document.body.replaceChildren()")
        return [
            f"{self.page.url} {rule['id']}: {node['html'][:200]} ({node['failureSummary']})"
            for rule in found
            for node in rule["nodes"]
        ]

    def _drawing(self, sheets: tuple[str, ...]) -> Page:
        """A document that has these style sheets and knows axe, which takes longer to get going on each page than to look at it."""
        if sheets not in self._drawings:
            drawing = self.context.new_page()
            links = "".join(f'<link rel="stylesheet" href="{sheet}">' for sheet in sheets)
            content = f"<!doctype html><html><head>{links}</head><body></body></html>"
            drawing.route(
                f"{self.base_url}/drawing", lambda route: route.fulfill(body=content, content_type="text/html")
            )
            drawing.goto(f"{self.base_url}/drawing")
            drawing.evaluate(AXE)
            self._drawings[sheets] = drawing
        return self._drawings[sheets]

    def show(self, way: Way) -> None:
        _show(self.page, way)

    def _is_another_width(self, width: int) -> bool:
        size = self.page.viewport_size
        return size is None or size["width"] != width

    def _set_width(self, width: int) -> None:
        self.page.set_viewport_size({"width": width, "height": HEIGHT})

    def too_wide(self) -> list[str]:
        return [f"{self.page.url}: {self.sideways()} pixels too wide"] if self.sideways() > 0 else []

    def parted(self) -> list[str]:
        """Returns the figures and numbers on the page that is open which stand in two lines."""
        return [f"{self.page.url}: {number} stands in two lines" for number in self.page.evaluate(_PARTED)]

    def uneven(self) -> list[str]:
        """Returns the labels of facts side by side whose values do not begin at one height."""
        return [f"{self.page.url}: values at several heights: {labels}" for labels in self.page.evaluate(_UNEVEN)]

    def sideways(self) -> int:
        """By how many pixels the page is wider than the window, or a table than its box, which cuts it off."""
        return int(self.page.evaluate(_TOO_WIDE))


def _show(page: Page, way: Way) -> None:
    page.set_viewport_size({"width": way.width, "height": HEIGHT})
    page.emulate_media(color_scheme=way.theme)


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
