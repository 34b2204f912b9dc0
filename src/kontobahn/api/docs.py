"""The documentation page: the OpenAPI document as one page of HTML that works offline, and the files it needs.

Rendered at the first request and cached. Jinja2 and markdown-it are imported only then: health checks do without them.
"""

from __future__ import annotations

import gzip
import hashlib
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kontobahn.api.declare import Endpoint
from kontobahn.api.openapi import build_openapi
from kontobahn.ids import SESSION_PREFIX
from kontobahn.settings import Settings

_HERE = Path(__file__).parent
_FILES = {
    "docs.css": "text/css; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
_A_YEAR = "public, max-age=31536000, immutable"


class Page(NamedTuple):
    """A body, plain and compressed."""

    body: bytes
    compressed: bytes
    media_type: str
    version: str


def docs_routes(endpoints: list[Endpoint], settings: Settings) -> list[Route]:
    # Plain functions: Starlette runs them in a thread, so rendering does not block other calls.
    @cache
    def rendered() -> Page:
        # Amounts keep their decimals: 119.00 must not be shown as 119.0.
        decoder = msgspec.json.Decoder(float_hook=Decimal)
        document = decoder.decode(build_openapi(endpoints, settings))
        return _page(_render(document).encode(), "text/html; charset=utf-8")

    def docs(request: Request) -> Response:
        return _respond(request, rendered(), "no-cache")

    def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _FILES:
            return Response("There is no such file.\n", 404, media_type="text/plain")
        page = _file(name)
        # The page names the version, so a copy of that version never goes stale.
        is_current = request.query_params.get("v") == page.version
        return _respond(request, page, _A_YEAR if is_current else "no-cache")

    return [
        Route("/docs", docs, methods=["GET"]),
        Route("/static/docs/{name}", file, methods=["GET"]),
    ]


def _respond(request: Request, page: Page, cache_control: str) -> Response:
    etag = f'W/"{page.version}"'
    headers = {**_HEADERS, "ETag": etag, "Cache-Control": cache_control}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(page.compressed, headers=headers, media_type=page.media_type)
    return Response(page.body, headers=headers, media_type=page.media_type)


def _page(body: bytes, media_type: str) -> Page:
    return Page(body, gzip.compress(body, 9, mtime=0), media_type, hashlib.sha256(body).hexdigest()[:16])


@cache
def tokens_css() -> bytes:
    """The colours and type that all our pages share; every stylesheet is served with them in front."""
    return (_HERE / "static" / "tokens.css").read_bytes()


def icon_url() -> str:
    """Our icon, for all pages."""
    return f"/static/docs/icon.svg?v={_file('icon.svg').version}"


@cache
def _file(name: str) -> Page:
    body = (_HERE / "static" / name).read_bytes()
    return _page(tokens_css() + b"\n" + body if name.endswith(".css") else body, _FILES[name])


def _render(document: dict[str, Any]) -> str:
    import jinja2

    from kontobahn.api import docs_view

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        prose=docs_view.prose, json=docs_view.json, indented_json=docs_view.indented_json, shell=docs_view.shell
    )
    introduction, guide = docs_view.guide(document["info"]["description"])
    return environment.get_template("docs.html").render(
        info=document["info"],
        introduction=introduction,
        guide=guide,
        areas=docs_view.areas(document),
        session_prefix=SESSION_PREFIX,
        files={name: f"/static/docs/{name}?v={_file(name).version}" for name in _FILES},
    )
