"""The documentation page: the OpenAPI document as one page of HTML that works offline, and the files it needs.

Rendered at the first request and cached. Jinja2 and markdown-it are imported only then: health checks do without them.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kontobahn import __version__
from kontobahn.ids import SESSION_PREFIX

# Documents for browsers: made once, kept plain and compressed, and sent with headers that let them load nothing from
# elsewhere.


_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
# For an address that names the version of what it returns.
FOR_A_YEAR = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"


class Document(NamedTuple):
    """A body, plain and compressed."""

    body: bytes
    compressed: bytes
    media_type: str
    version: str


def make_document(body: bytes, media_type: str) -> Document:
    return Document(body, gzip.compress(body, 9, mtime=0), media_type, hashlib.sha256(body).hexdigest()[:16])


def html(text: str) -> Document:
    return make_document(text.encode(), "text/html; charset=utf-8")


def content_security_policy(*, script: str = "'none'", connect: str = "'none'", form: str = "'none'") -> str:
    return (
        f"default-src 'none'; style-src 'self'; script-src {script}; connect-src {connect}; img-src 'self' data:;"
        f" base-uri 'none'; form-action {form}; frame-ancestors 'none'"
    )


def respond(request: Request, document: Document, policy: str, cache_control: str = ASK_AGAIN) -> Response:
    etag = f'W/"{document.version}"'
    headers = {**_HEADERS, "Content-Security-Policy": policy, "ETag": etag, "Cache-Control": cache_control}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(document.compressed, headers=headers, media_type=document.media_type)
    return Response(document.body, headers=headers, media_type=document.media_type)


_HERE = Path(__file__).parent
_FILES = {
    "docs.css": "text/css; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_POLICY = content_security_policy(script="'self'", connect="'self'")


def docs_routes(openapi: Callable[[], bytes]) -> list[Route]:
    """The page of the document that `openapi` makes, and its files."""

    # Plain functions: Starlette runs them in a thread, so rendering does not block other calls.
    @cache
    def rendered() -> Document:
        # Amounts keep their decimals: 119.00 must not be shown as 119.0.
        return html(_render(msgspec.json.Decoder(float_hook=Decimal).decode(openapi())))

    def docs(request: Request) -> Response:
        return respond(request, rendered(), _POLICY)

    def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _FILES:
            return Response("There is no such file.\n", 404, media_type="text/plain")
        page = _file(name)
        # The page names the version, so a copy of that version never goes stale.
        is_current = request.query_params.get("v") == page.version
        return respond(request, page, _POLICY, FOR_A_YEAR if is_current else ASK_AGAIN)

    return [
        Route("/docs", docs, methods=["GET"]),
        Route("/static/docs/{name}", file, methods=["GET"]),
    ]


@cache
def tokens_css() -> bytes:
    """The colours and type that all our pages share; every stylesheet is served with them in front."""
    return (_HERE / "static" / "tokens.css").read_bytes()


def file_url(name: str) -> str:
    """The address of a file of the documentation, with its version."""
    return f"/static/docs/{name}?v={_file(name).version}"


def icon_url() -> str:
    """Our icon, for all pages."""
    return file_url("icon.svg")


@cache
def _file(name: str) -> Document:
    body = (_HERE / "static" / name).read_bytes()
    return make_document(tokens_css() + b"\n" + body if name.endswith(".css") else body, _FILES[name])


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
        events=docs_view.events(document),
        session_prefix=SESSION_PREFIX,
        service_version=__version__,
        files={name: file_url(name) for name in _FILES},
    )
