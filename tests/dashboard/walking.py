"""Walks through the dashboard by its links, as far as they lead."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import httpx

from kontobahn.dashboard.declare import Page, every_page

SHOWN = [page for page in every_page() if page.method == "GET"]
_LINK = re.compile(r'href="(/dashboard[^"#]*)"')


def _pattern(page: Page) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(page.path)))


def walk(client: httpx.Client, look: Callable[[httpx.Response], None] = lambda answer: None) -> dict[str, str]:
    """Returns one address for each page that links lead to, an empty one for a file to save; `look` sees every answer."""
    patterns = sorted(((page.path, _pattern(page)) for page in SHOWN), key=lambda item: ("{" in item[0], item[0]))
    found: dict[str, str] = {}
    waiting = ["/dashboard"]
    seen = set(waiting)
    while waiting:
        address = waiting.pop(0)
        path = address.partition("?")[0]
        kind = next((name for name, pattern in patterns if pattern.fullmatch(path)), None)
        if path.startswith("/dashboard/static/") or (kind in found and "?" not in address):
            continue
        assert kind is not None, f"{address} is linked and does not exist"
        answer = client.get(address)
        assert answer.status_code in (200, 303), f"{address}: {answer.status_code}"
        look(answer)
        if answer.status_code != 200 or not answer.headers["content-type"].startswith("text/html"):
            found.setdefault(kind, "")
            continue
        found.setdefault(kind, address)
        links = [html.unescape(link) for link in _LINK.findall(answer.text)]
        # A list with a filter leads to itself; one step of that is enough.
        new = [link for link in links if link not in seen and not ("?" in link and "?" in address)]
        seen.update(new)
        waiting += new
    return found
