"""Protection of every page: response headers, where an unsafe request may come from, cookies."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

import msgspec
from starlette.responses import Response

from kontobahn.errors import Forbidden
from kontobahn.settings import Settings
from kontobahn.vault import Vault

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# A page that shows a file of ours (the PDF of an invoice) in a frame.
WITH_FRAMES = {"Content-Security-Policy": f"{_POLICY}; frame-src 'self'; object-src 'self'"}
# A file that such a frame shows. It is never HTML or SVG.
IN_FRAME = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"}
FRAMED_TYPES = ("application/pdf", "image/png", "image/jpeg")
CROSS_SITE = "This form was sent from another site, so nothing was done. Open the page here and send it again."

CookieName = Literal["session", "notice", "language", "theme", "organization", "provider"]
_YEAR = 365 * 24 * 3600


def check_origin(headers: Mapping[str, str], settings: Settings) -> None:
    """Raises Forbidden unless an unsafe request comes from our own pages.

    Browsers say so in `Sec-Fetch-Site`, to https and localhost; elsewhere `Origin` must be the configured address. Not the
    `Host`: a proxy may rewrite it.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        if site not in ("same-origin", "none"):
            raise Forbidden(CROSS_SITE)
        return
    origin = headers.get("origin")
    if origin is None or not settings.base_url or origin.lower() != origin_of(settings.base_url):
        raise Forbidden(CROSS_SITE)


def origin_of(url: str) -> str:
    """Scheme, host and port, without a port that goes without saying."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    port = f":{parts.port}" if parts.port not in (None, usual) else ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}".lower()


class Cookies:
    """The dashboard's cookies. Under https they are bound to this host and never sent without TLS."""

    def __init__(self, settings: Settings, vault: Vault) -> None:
        self._is_secure = settings.base_url.startswith("https:")
        self._key = vault.derive("dashboard notices")

    def name(self, name: CookieName) -> str:
        return f"{'__Host-' if self._is_secure else ''}kontobahn_{name}"

    def read(self, sent: Mapping[str, str], name: CookieName) -> str:
        return sent.get(self.name(name), "")

    def write(self, response: Response, name: CookieName, value: str) -> None:
        """An empty value removes it. Language and theme stay; the others go with the browser."""
        stays = name in ("language", "theme")
        response.set_cookie(
            self.name(name), value, max_age=0 if not value else _YEAR if stays else None,
            path="/", secure=self._is_secure, httponly=True, samesite="lax",
        )  # fmt: skip

    def seal_notice(self, kind: str, text: str) -> str:
        """A message for the next page. Signed, so that no other site of the domain can put words into our mouth."""
        body = base64.urlsafe_b64encode(msgspec.json.encode([kind, text[:600]])).decode()
        return f"{body}.{self._signature(body)}"

    def open_notice(self, sealed: str) -> tuple[str, str] | None:
        body, _, signature = sealed.partition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(body).encode()):
            return None
        kind, text = msgspec.json.decode(base64.urlsafe_b64decode(body), type=tuple[str, str])
        return kind, text

    def _signature(self, body: str) -> str:
        return hmac.digest(self._key, body.encode(), hashlib.sha256).hex()[:32]


def local_path(wish: str, otherwise: str) -> str:
    """Returns the address to go to next, if that is one of our own pages."""
    is_ours = wish == "/dashboard" or wish.startswith(("/dashboard/", "/dashboard?"))
    return (
        wish if is_ours and not any(character in wish for character in "\\\r\n\t") and "//" not in wish else otherwise
    )
