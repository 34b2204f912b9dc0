"""The addresses of DATEV's sign-in: from its own document where the settings name one, otherwise those that are built in."""

from __future__ import annotations

import asyncio

import msgspec
from msgspec import Struct

from kontobahn.clock import HOUR, Clock
from kontobahn.datev.failures import failure, not_reached
from kontobahn.datev.requests import Network
from kontobahn.datev.setup import Application
from kontobahn.json_text import decode_foreign
from kontobahn.ledger.errors import ProviderError
from kontobahn.outbound import Refused, Unreached

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
