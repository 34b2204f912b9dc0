"""Calls to Enable Banking: signed, bounded in time and size, and not made at all while it wants a rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

import msgspec

from kontobahn.banking.hiding import hide
from kontobahn.banking.provider import ProviderDown
from kontobahn.banking.providers.enable_banking.codes import RATE_LIMIT
from kontobahn.banking.providers.enable_banking.signing import sign
from kontobahn.banking.providers.enable_banking.wire import Refusal
from kontobahn.banking.providers.reaching import Network, NotSent, not_reached, retry_after
from kontobahn.clock import SECOND, Clock
from kontobahn.outbound import Refused, Reply, Unreached
from kontobahn.threads import Pool

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

# A bank behind it may take its time for a year of bookings. The list of all banks is the longest answer.
SECONDS, MAX_BYTES = 60.0, 32 * 1024 * 1024
TOKEN_SECONDS, RENEW_SECONDS = 3600, 300
# How long nothing is asked after a 429 that does not say, and at most.
REST_SECONDS, MAX_REST_SECONDS = 60, 24 * 3600
BANK_REST_SECONDS = 3600
# What takes longer to parse than the event loop may be held up.
INLINE_BYTES = 16 * 1024
_NO_MORE: Mapping[str, str] = {}
T = TypeVar("T")


class Rejected(Exception):
    """It answered, and not with what was asked for."""

    def __init__(self, status: int, refusal: Refusal, rest_seconds: int | None) -> None:
        super().__init__(status)
        self.status, self.refusal, self.rest_seconds = status, refusal, rest_seconds

    @property
    def code(self) -> str:
        return self.refusal.error or ""


class Client:
    def __init__(
        self, network: Network, clock: Clock, pool: Pool, *, url: str, application_id: str, key: RSAPrivateKey
    ) -> None:
        self.network = network
        self._clock, self._pool = clock, pool
        self._url, self._application_id, self._key = url.rstrip("/"), application_id, key
        self._token, self._token_until = "", 0
        self._rest_until = 0

    async def get(self, path: str, kind: type[T], headers: Mapping[str, str] | None = None, **query: str | None) -> T:
        asked = {name: value for name, value in query.items() if value is not None}
        return await self._ask("GET", f"{path}?{urlencode(asked)}" if asked else path, None, kind, headers or {})

    async def post(self, path: str, body: Mapping[str, Any], kind: type[T], secret: str = "") -> T:
        """`secret` is what nobody may read of the body, even if the answer repeats it."""
        return await self._ask("POST", path, msgspec.json.encode(body), kind, secret=secret)

    async def delete(self, path: str) -> None:
        await self._ask("DELETE", path, None, dict)

    async def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None,
        kind: type[T],
        more: Mapping[str, str] = _NO_MORE,
        secret: str = "",
    ) -> T:
        """Raises Rejected if it answers with an error, NotSent or ProviderDown if it does not answer."""
        resting = self._rest_until - self._clock.monotonic()
        if resting > 0:
            raise NotSent(
                "Enable Banking gets no more requests for a while: there were too many.",
                retry_after_seconds=max(1, resting // SECOND),
            )
        headers = {"Authorization": f"Bearer {self._bearer()}", "Accept": "application/json", **more}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            reply = await self.network.send(
                method, self._url + path, headers=headers, body=body, seconds=SECONDS, max_bytes=MAX_BYTES, whole=True
            )
        except (Refused, Unreached) as error:
            raise not_reached("Enable Banking", error) from None
        if reply.status != 200:
            raise self._rejected(reply, secret)
        return await self._decode(reply.content, kind)

    async def _decode(self, content: bytes, kind: type[T]) -> T:
        try:
            if len(content) <= INLINE_BYTES:
                return msgspec.json.decode(content, type=kind)
            return await self._pool.run(msgspec.json.decode, content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # What it says names fields, not what is in them.
            raise ProviderDown(f"Enable Banking's answer was not understood: {error}.") from None

    def _rejected(self, reply: Reply, secret: str) -> Rejected:
        try:
            refusal = msgspec.json.decode(reply.content, type=Refusal)
        except (msgspec.DecodeError, UnicodeDecodeError):
            # From something in between.
            refusal = Refusal()
        # The token may be another by now, but the key it is signed with is not.
        refusal = Refusal(hide(refusal.message, self._token, secret), refusal.error)
        rest = None
        if reply.status == 429:
            is_bank = refusal.error == RATE_LIMIT
            rest = retry_after(reply.headers, MAX_REST_SECONDS) or (BANK_REST_SECONDS if is_bank else REST_SECONDS)
            if not is_bank:
                self._rest_until = self._clock.monotonic() + rest * SECOND
        return Rejected(reply.status, refusal, rest)

    def _bearer(self) -> str:
        now = self._clock.now() // SECOND
        # Also if the clock was set back since: then it would be a token of the future.
        if not now + RENEW_SECONDS <= self._token_until <= now + TOKEN_SECONDS:
            self._token = sign(self._key, self._application_id, now, TOKEN_SECONDS)
            self._token_until = now + TOKEN_SECONDS
        return self._token
