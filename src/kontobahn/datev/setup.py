"""DATEV's online services from the settings: which addresses, which application, and whether anybody could come back from a sign-in."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from kontobahn.clock import HOUR, Clock
from kontobahn.datev.requests import Network, failure, not_reached
from kontobahn.errors import SetupError
from kontobahn.json_text import decode_foreign
from kontobahn.ledger.errors import ProviderError
from kontobahn.outbound import Refused, Unreached
from kontobahn.settings import Settings

# The page that DATEV leads people back to; it is registered there with the base address before it, exactly.
CALLBACK = "/dashboard/ledger/sign-in"
_PRODUCTION = {
    "issuer": "https://login.datev.de/openid",
    "sign_in": "https://login.datev.de/openid/authorize",
    "token": "https://api.datev.de/token",
    "revoke": "https://api.datev.de/revoke",
    "certs": "https://api.datev.de/certs",
    "clients": "https://accounting-clients.api.datev.de/platform/v2",
    "exchange": "https://accounting-data-exchange.api.datev.de/platform/v1",
    "documents": "https://accounting-documents.api.datev.de/platform/v2",
    "dxso": "https://accounting-dxso-jobs.api.datev.de/platform/v2",
    "extf": "https://accounting-extf-files.api.datev.de/platform/v3",
}
_SANDBOX = {
    "issuer": "https://login.datev.de/openidsandbox",
    "sign_in": "https://login.datev.de/openidsandbox/authorize",
    "token": "https://sandbox-api.datev.de/token",
    "revoke": "https://sandbox-api.datev.de/revoke",
    "certs": "https://sandbox-api.datev.de/certs",
    "clients": "https://accounting-clients.api.datev.de/platform-sandbox/v2",
    "exchange": "https://accounting-data-exchange.api.datev.de/platform-sandbox/v1",
    "documents": "https://accounting-documents.api.datev.de/platform-sandbox/v2",
    "dxso": "https://accounting-dxso-jobs.api.datev.de/platform-sandbox/v2",
    "extf": "https://accounting-extf-files.api.datev.de/platform-sandbox/v3",
}


class Application(NamedTuple):
    """The application as DATEV knows it, and where DATEV is."""

    client_id: str
    secret: str
    scopes: str
    base_url: str
    is_sandbox: bool
    discovery: str
    urls: dict[str, str]
    # The address to revoke tokens at, if the settings name it: for a discovery document that does not.
    own_revoke: str

    @property
    def redirect_uri(self) -> str:
        return self.base_url + CALLBACK

    def url(self, service: str, path: str) -> str:
        return f"{self.urls[service].rstrip('/')}/{path}"


def application(settings: Settings) -> Application:
    """Raises SetupError if the settings cannot be used."""
    if not settings.datev_client_secret:
        raise SetupError("Set datev_client_secret: the secret of the application that datev_client_id names at DATEV.")
    known = _SANDBOX if settings.datev_sandbox else _PRODUCTION
    for name in settings.datev_urls:
        if name not in known:
            raise SetupError(f"The setting datev_urls names “{name}”; there are {', '.join(known)}.")
    return Application(
        settings.datev_client_id,
        settings.datev_client_secret,
        settings.datev_scopes,
        settings.base_url.rstrip("/"),
        settings.datev_sandbox,
        settings.datev_discovery,
        known | settings.datev_urls,
        settings.datev_urls.get("revoke", ""),
    )


def check_return(ours: Application) -> None:
    """Raises SetupError if DATEV would refuse the address that people come back to: said before the sign-in, not after it."""
    parts = urlsplit(ours.base_url)
    host = parts.hostname or ""
    if not host:
        raise SetupError("Set base_url: people come back to it from DATEV's sign-in.")
    if ours.is_sandbox and (parts.scheme == "https" or host in ("localhost", "127.0.0.1")):
        return
    if parts.scheme != "https":
        raise SetupError("DATEV leads people back to https:// only: base_url must begin with it.")
    if host == "localhost" or host.endswith(".localhost") or _is_address(host):
        raise SetupError(
            "DATEV leads people back to a name only, neither to localhost nor to an address: set base_url."
        )
    if "datev" in host:
        raise SetupError("DATEV's name must not be in the host that people come back to: set another base_url.")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


# The addresses of DATEV's sign-in: from its own document where the settings name one, otherwise those that are built
# in.


SECONDS, MAX_BYTES = 10.0, 256 * 1024
KEPT = HOUR


class Document(Struct):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    revocation_endpoint: str = ""


class Endpoints:
    def __init__(self, ours: Application, network: Network, clock: Clock) -> None:
        self._ours, self._network, self._clock = ours, network, clock
        self._found: Document | None = None
        self._until = 0
        self._asking = asyncio.Lock()

    async def all(self) -> dict[str, str]:
        """Returns addresses by name; that of `revoke` is empty if neither the document nor the settings name it.

        Raises ProviderError if the document cannot be had, and never could.
        """
        if not self._ours.discovery:
            return self._ours.urls
        async with self._asking:
            if self._found is None or self._clock.monotonic() >= self._until:
                await self._fetch()
        found = self._found
        assert found is not None
        return self._ours.urls | {
            "issuer": found.issuer,
            "sign_in": found.authorization_endpoint,
            "token": found.token_endpoint,
            "revoke": found.revocation_endpoint or self._ours.own_revoke,
            "certs": found.jwks_uri,
        }

    async def _fetch(self) -> None:
        try:
            content = await self.fetch(self._ours.discovery)
            self._found = decode_foreign(content, Document)
        except (ProviderError, msgspec.DecodeError) as error:
            if self._found is None:
                raise ProviderError(None, f"the document of DATEV's sign-in cannot be read: {error}") from None
        self._until = self._clock.monotonic() + KEPT

    async def fetch(self, url: str) -> bytes:
        """Returns a public document. Raises ProviderError."""
        try:
            reply = await self._network.send(
                "GET", url, headers={"Accept": "application/json"}, body=None, seconds=SECONDS, max_bytes=MAX_BYTES, whole=True
            )  # fmt: skip
        except (Refused, Unreached) as error:
            raise not_reached(error) from None
        if reply.status != 200:
            raise failure(reply)
        return reply.content
