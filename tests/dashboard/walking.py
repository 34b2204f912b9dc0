"""Walks through the dashboard by its links, as far as they lead."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from urllib.parse import parse_qsl, urlsplit

import httpx

from kontobahn.dashboard.declare import Page
from kontobahn.dashboard.pages import every_page

SHOWN = [page for page in every_page() if page.method == "GET"]
# A page that is told by its query what to show is visited so often with the same parameters: a list links hundreds that differ in
# their number alone, a filter has fewer choices.
OFTEN = 16
_LINK = re.compile(r'href="(/dashboard[^"#]*)"')


def _pattern(page: Page) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(page.path)))


def walk(
    client: httpx.Client, look: Callable[[httpx.Response], None] = lambda answer: None, *, often: int = OFTEN
) -> dict[str, str]:
    """Returns one address for each page that links lead to, an empty one for a file to save; `look` sees every answer."""
    patterns = sorted(((page.path, _pattern(page)) for page in SHOWN), key=lambda item: ("{" in item[0], item[0]))

    @cache  # every page has the links of the menu
    def kind_of_path(path: str) -> str | None:
        return next((name for name, pattern in patterns if pattern.fullmatch(path)), None)

    def kind_of(address: str) -> str | None:
        return kind_of_path(address.partition("?")[0])

    found: dict[str, str] = {}
    visits: Counter[tuple[str, ...]] = Counter()
    waiting = ["/dashboard"]
    seen = set(waiting)
    while waiting:
        address = waiting.pop(0)
        path, kind = address.partition("?")[0], kind_of(address)
        if path.startswith("/dashboard/static/") or (kind in found and "?" not in address):
            continue
        assert kind is not None, f"{address} is linked and does not exist"
        alike = (kind, *sorted(name for name, _ in parse_qsl(urlsplit(address).query)))
        visits[alike] += 1
        if visits[alike] > often:
            continue
        answer = client.get(address)
        assert answer.status_code in (200, 303), f"{address}: {answer.status_code}"
        look(answer)
        if answer.status_code != 200 or not answer.headers["content-type"].startswith("text/html"):
            found.setdefault(kind, "")
            continue
        found.setdefault(kind, address)
        links = [html.unescape(link) for link in _LINK.findall(answer.text)]
        # A list with a filter leads to itself; one step of that is enough.
        leads_on = {link for link in links if kind_of(link) not in found or not ("?" in link and "?" in address)}
        new = [link for link in dict.fromkeys(links) if link in leads_on - seen]
        seen.update(new)
        waiting += new
    return found
