"""The documentation page shows every call, runs nothing that a text brings along, and works offline."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from functools import cache, cached_property
from html.parser import HTMLParser

import httpx
import msgspec
import pytest
from starlette.applications import Starlette

from kontobahn import __version__
from kontobahn.api import docs_view
from kontobahn.api.declare import Endpoint
from kontobahn.api.docs import docs_routes
from kontobahn.api.openapi import build_openapi
from kontobahn.app import ERRORS, EVENTS
from kontobahn.guide.library import ROOT as GUIDE
from tests.openapi_samples import (
    EVERY,
    named,
    settings,
)


def fetch(path: str, headers: dict[str, str] | None = None, **changed: str) -> httpx.Response:
    return asyncio.run(_fetch(path, headers or {}, application(**changed)))


@cache
def application(**changed: str) -> Starlette:
    """It keeps its pages, which take long to make."""
    chosen = settings(**changed)
    return Starlette(routes=docs_routes(lambda: build_openapi(EVERY, chosen, EVENTS, ERRORS)))


async def _fetch(path: str, headers: dict[str, str], app: Starlette) -> httpx.Response:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        return await client.get(path, headers=headers)


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self._texts: list[str] = []
        self.feed(text)
        self.text = "".join(self._texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self._texts.append(data)

    @cached_property
    def calls(self) -> set[str]:
        return {attributes["id"] for tag, attributes in self.tags if tag == "article"}

    @cached_property
    def links(self) -> set[str]:
        return set(self.values("href"))

    def values(self, *names: str) -> list[str]:
        return [attributes[name] for _, attributes in self.tags for name in names if name in attributes]


@cache
def page() -> Page:
    return Page(fetch("/docs").text)


@named(EVERY)
def test_the_page_shows_every_call(endpoint: Endpoint) -> None:
    assert endpoint.handler.__name__ in page().calls
    assert f"{endpoint.method} {endpoint.path}" in page().text
    assert f"#{endpoint.handler.__name__}" in page().links
    assert endpoint.summary.rstrip(".") in page().text


@pytest.mark.parametrize("name", EVENTS)
def test_the_page_shows_every_event_with_its_fields(name: str) -> None:
    assert f"event-{name}" in page().calls
    assert f"#event-{name}" in page().links
    article = fetch("/docs").text.partition(f'id="event-{name}"')[2].partition("</article>")[0]
    shown = Page(article)
    for field in (
        "event",
        "received_at",
        *(f"data.{field.encode_name}" for field in msgspec.structs.fields(EVENTS[name])),
    ):
        assert field in shown.text, field
    assert f'"event": "{name}"' in shown.text
    assert "webhook-signature" in shown.text


def test_the_page_leads_to_the_search_of_the_guide() -> None:
    asked = [
        attributes["href"] for tag, attributes in page().tags if tag == "a" and "ask" in attributes.get("class", "")
    ]
    assert asked
    assert set(asked) == {f"{GUIDE}/search"}


def test_the_page_is_sent_with_strict_headers() -> None:
    answer = fetch("/docs")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'none'", "style-src": "'self'", "script-src": "'self'", "connect-src": "'self'",
        "img-src": "'self' data:", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
    }  # fmt: skip


def test_the_page_has_nothing_inline_and_nothing_from_elsewhere() -> None:
    for tag, attributes in page().tags:
        assert tag != "style"
        assert tag != "script" or attributes.get("src")
        assert not [name for name in attributes if name == "style" or name.startswith("on")]
    addresses = page().values("href", "src", "action", "srcset", "data")
    assert addresses
    assert [address for address in addresses if not re.match(r"#|/(?!/)", address)] == []


def test_what_a_docstring_says_is_text_on_the_page() -> None:
    assert len([tag for tag, _ in page().tags if tag == "script"]) == 1
    assert "<script>alert(1)</script>" in page().text
    assert "List the <b>items</b>" in page().text


@pytest.mark.parametrize(
    "text",
    ["<img src=x onerror=alert(1)>", "[a](javascript:alert(1))", "![a](data:text/html,b)", "<javascript:alert(1)>"],
)
def test_markdown_brings_nothing_that_runs_onto_the_page(text: str) -> None:
    assert {tag for tag, _ in Page(docs_view.prose(text)).tags} <= {"p"}


def test_the_page_can_be_used_by_keyboard_and_read_aloud() -> None:
    ids = page().values("id")
    assert len(ids) == len(set(ids))
    assert {address[1:] for address in page().values("href") if address.startswith("#")} <= set(ids)
    labelled = set(page().values("for"))
    for tag, attributes in page().tags:
        if tag in ("input", "select", "textarea"):
            assert attributes["id"] in labelled, attributes
        assert tag != "img" or "alt" in attributes


def test_the_page_shows_the_address_of_the_service_where_it_is_known() -> None:
    assert "$API_URL/v2/" in page().text
    known = Page(fetch("/docs", base_url="https://konto.example").text)
    assert "https://konto.example/v2/" in known.text
    assert "$API_URL" not in known.text


def test_the_page_says_which_version_serves_it() -> None:
    assert f"Kontobahn {__version__} serves this page" in page().text


def test_amounts_on_the_page_keep_their_decimals() -> None:
    assert '"betrag": 119.00' in page().text


@pytest.mark.parametrize(
    ("name", "kind"), [("docs.css", "text/css"), ("docs.js", "text/javascript"), ("icon.svg", "image/svg+xml")]
)
def test_the_files_of_the_page_are_kept_by_browsers_for_as_long_as_they_are_current(name: str, kind: str) -> None:
    address = next(value for value in page().values("href", "src") if f"/{name}?" in value)
    answer = fetch(address)
    assert answer.headers["content-type"].startswith(kind)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "immutable" in answer.headers["cache-control"]
    assert fetch(address.partition("?")[0]).headers["cache-control"] == "no-cache"
    assert fetch(address, {"If-None-Match": answer.headers["etag"]}).status_code == 304
    assert fetch(address, {"Accept-Encoding": "identity"}).text == answer.text
    assert not re.search(r"https?:(?!//www\.w3\.org/2000/svg)|url\(|@import|\binnerHTML\b|\beval\b", answer.text)


def test_only_the_known_files_are_served() -> None:
    assert fetch("/static/docs/docs.py").status_code == 404
    assert fetch("/static/docs/..%2Fdocs.py").status_code == 404


def test_pages_and_providers_are_not_loaded_before_they_are_needed() -> None:
    late = {"jinja2", "markdown_it", "starlette", "prometheus_client", "schwifty", "rapidfuzz", "kontobahn.datev"}
    late |= {f"kontobahn.bank_providers.{name}" for name in ("ebics", "enable_banking", "fints", "salt_edge")}
    script = f"import sys, kontobahn.cli.serve; assert not {late} & sys.modules.keys();"
    script += "import kontobahn.api.docs; assert not {'jinja2', 'markdown_it'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", script], check=True)
