"""Documents for browsers: made once, kept plain and compressed, and sent with headers that let them load nothing from elsewhere."""

from __future__ import annotations

import gzip
import hashlib
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

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
