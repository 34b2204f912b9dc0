"""Calls to Enable Banking: signed, bounded in time and size, not made at all while it wants a rest; and its banks, asked for rarely."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec

from kontobahn.bank_providers.enable_banking import wire
from kontobahn.bank_providers.enable_banking.rules import RATE_LIMIT, code_of, failure, listed_bank, read_page
from kontobahn.bank_providers.enable_banking.wire import Bank, Refusal
from kontobahn.bank_providers.http import Network, NotSent, not_reached, retry_after
from kontobahn.banking.provider import ListedBank, ProviderDown
from kontobahn.clock import HOUR, MINUTE, SECOND, Clock
from kontobahn.json_text import decode_foreign
from kontobahn.outbound import Refused, Reply, Unreached, redact
from kontobahn.sentences import said
from kontobahn.threads import Pool

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey


# A bank behind it may take its time for a year of bookings. The list of all banks is the longest answer.
SECONDS, MAX_BYTES = 60.0, 32 * 1024 * 1024
TOKEN_SECONDS, RENEW_SECONDS = 3600, 300
# Nothing is asked this long after a 429 that does not say how long; and at most this long if it does.
REST_SECONDS, MAX_REST_SECONDS = 60, 24 * 3600
BANK_REST_SECONDS = 3600
# A longer answer takes longer to parse than the event loop may be held up.
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

    async def transactions(
        self, path: str, headers: Mapping[str, str], odd: list[str], **query: str | None
    ) -> wire.Transactions:
        """Returns a page. A row that is not as it should be spoils no other: it is laid aside, with a sentence in `odd`."""
        raw = await self.get(path, msgspec.Raw, headers, **query)
        try:
            return await self._pool.run(read_page, bytes(raw), odd)
        except msgspec.DecodeError as error:
            raise ProviderDown(said("Enable Banking's answer was not understood: {why}.", why=error)) from None

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
                return decode_foreign(content, kind)
            return await self._pool.run(decode_foreign, content, kind)
        except msgspec.DecodeError as error:
            # The error names fields, not what is in them.
            raise ProviderDown(said("Enable Banking's answer was not understood: {why}.", why=error)) from None

    def _rejected(self, reply: Reply, secret: str) -> Rejected:
        try:
            refusal = decode_foreign(reply.content, Refusal)
        except msgspec.DecodeError:
            # From something in between.
            refusal = Refusal()
        # The token may be another by now, but the key it is signed with is not.
        refusal = Refusal(redact(refusal.message, self._token, secret), refusal.error)
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


async def asked(call: Awaitable[T]) -> T:
    """Returns what a call returns. Raises what the port calls its failure."""
    try:
        return await call
    except Rejected as error:
        raise failure(error.status, error.refusal) from None


# --- Signing: a JSON web token with RS256, by which the application is known


ISSUER, AUDIENCE = "enablebanking.com", "api.enablebanking.com"
# Clocks differ: a token is valid a little before it was made, and one of theirs a little longer than it says.
SKEW_SECONDS = 60


def sign(key: RSAPrivateKey, application_id: str, now_seconds: int, lifetime_seconds: int) -> str:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    head = {"typ": "JWT", "alg": "RS256", "kid": application_id}
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "iat": now_seconds - SKEW_SECONDS,
        "exp": now_seconds + lifetime_seconds,
    }
    signed = f"{_encode(msgspec.json.encode(head))}.{_encode(msgspec.json.encode(claims))}"
    return f"{signed}.{_encode(key.sign(signed.encode(), PKCS1v15(), SHA256()))}"


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


# --- Banks


KEEP = 6 * HOUR
# After a failure the old list serves for this long before it is asked for again.
TRY_AGAIN = 5 * MINUTE


class Offer(NamedTuple):
    banks: dict[str, Bank]
    # True if the application may make payments.
    can_pay: bool


class BankList:
    def __init__(self, client: Client, clock: Clock, countries: tuple[str, ...]) -> None:
        self._client, self._clock, self._countries = client, clock, countries
        self._offer: Offer | None = None
        self._until = 0
        self._asking = asyncio.Lock()

    async def offer(self) -> Offer:
        """Raises ProviderDown if there has never been an answer."""
        if self._offer is not None and self._clock.monotonic() < self._until:
            return self._offer
        async with self._asking:
            if self._offer is None or self._clock.monotonic() >= self._until:
                await self._renew()
        assert self._offer is not None
        return self._offer

    async def _renew(self) -> None:

        try:
            application = await asked(self._client.get("/application", wire.Application))
            lists = [
                await asked(self._client.get("/aspsps", wire.Banks, service="AIS", country=country))
                for country in self._countries or (None,)
            ]
        except ProviderDown:
            if self._offer is None:
                raise
            self._until = self._clock.monotonic() + TRY_AGAIN
            return
        banks = {code_of(bank.name, bank.country): bank for found in lists for bank in found.aspsps}
        self._offer = Offer(banks, "PIS" in application.services)
        self._until = self._clock.monotonic() + KEEP

    async def listed(self) -> list[ListedBank]:
        offer = await self.offer()
        return [listed_bank(code, bank, can_pay=offer.can_pay) for code, bank in offer.banks.items()]
