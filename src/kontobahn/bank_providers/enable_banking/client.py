"""Calls to Enable Banking: signed, bounded in time and size, not made at all while it wants a rest; and its banks, asked for rarely."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from kontobahn import log
from kontobahn.bank_providers.enable_banking import wire
from kontobahn.bank_providers.enable_banking.rules import (
    RATE_LIMIT,
    code_of,
    failure,
    listed_bank,
    payment_report,
    read_page,
)
from kontobahn.bank_providers.enable_banking.wire import Bank, PaymentNews, Refusal
from kontobahn.bank_providers.http import MAX_KEY_BYTES, Network, NotSent, not_reached, read_key_file, retry_after
from kontobahn.banking.provider import BadSignature, Delivery, ListedBank, PaymentReported, ProviderDown, Report
from kontobahn.clock import DAY, HOUR, MINUTE, SECOND, Clock
from kontobahn.errors import SetupError
from kontobahn.json_text import decode_foreign
from kontobahn.outbound import Refused, Reply, Rule, Unreached, redact
from kontobahn.sentences import said
from kontobahn.threads import Pool

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey


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


# Deliveries of Enable Banking: signed by a key that the delivery names, which must be theirs, over a digest of the
# body.
#
# A key that is not known yet is fetched once the delivery is refused; they send it again. Until then payments are
# polled, as always.


KEY_HOST = "enablebanking.com"
# A key is trusted this long, and fetched at most this often.
KEEP_DELIVERY, TRY_DELIVERY_AGAIN = DAY, MINUTE
MAX_KEYS, DELIVERY_SECONDS = 8, 15.0


class Webhooks:
    """`pinned` is the key from the settings; then no other is fetched."""

    def __init__(
        self, network: Network, clock: Clock, rule: Rule, application_id: str, pinned: RSAPublicKey | None
    ) -> None:
        self._network, self._clock, self._rule = network, clock, rule
        self._application_id, self._pinned = application_id, pinned
        # The key at an address, None if there is none yet; and when it was asked for. The latest are last.
        self._keys: dict[str, tuple[RSAPublicKey | None, int | None]] = {}
        self._fetching: set[asyncio.Task[None]] = set()

    def check(self, delivery: Delivery) -> str:
        """Returns the delivery's id. Raises BadSignature."""
        headers = {name.lower(): value for name, value in delivery.headers.items()}
        token = read_token(headers.get("authorization", ""))
        if not self._is_theirs(token.key_url):
            raise BadSignature("the key of the token is not at Enable Banking")
        now_seconds = self._clock.now() // SECOND
        if self._pinned is not None:
            check_token(token, self._pinned, self._application_id, delivery.body, now_seconds)
        else:
            try:
                check_token(token, self._key(token.key_url), self._application_id, delivery.body, now_seconds)
            except BadSignature:
                # They may have changed their key.
                self._fetch_again(token.key_url, older_than=TRY_DELIVERY_AGAIN)
                raise
        # They give a delivery no id.
        return hashlib.sha256(delivery.body).hexdigest()

    def _is_theirs(self, url: str) -> bool:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            return False
        if parts.username is not None:
            return False
        if self._rule.permits(host, port):
            return True
        return parts.scheme == "https" and port == 443 and (host == KEY_HOST or host.endswith(f".{KEY_HOST}"))

    def _key(self, url: str) -> RSAPublicKey:
        self._fetch_again(url, older_than=KEEP_DELIVERY)
        key = self._keys[url][0] if url in self._keys else None
        if key is None:
            raise BadSignature("the key of the token is being fetched; it can be checked when it is sent again")
        return key

    def _fetch_again(self, url: str, older_than: int) -> None:
        """Begins to fetch a key, unless that was done so recently, or a moment ago without success."""
        key, asked_at = self._keys.pop(url, (None, None))
        now = self._clock.monotonic()
        if asked_at is not None and now - asked_at < (older_than if key is not None else TRY_DELIVERY_AGAIN):
            self._keys[url] = (key, asked_at)
            return
        while len(self._keys) >= MAX_KEYS:
            self._keys.pop(next(iter(self._keys)))
        self._keys[url] = (None, now)
        task = asyncio.get_running_loop().create_task(self._fetch(url))
        self._fetching.add(task)
        task.add_done_callback(self._fetching.discard)

    async def _fetch(self, url: str) -> None:
        try:
            reply = await self._network.send(
                "GET", url, headers={}, body=None, seconds=DELIVERY_SECONDS, max_bytes=MAX_KEY_BYTES, whole=True
            )
            if reply.status != 200:
                raise ValueError(f"HTTP status {reply.status}")
            key = read_public_key(reply.content, self._clock.now() // SECOND)
        except (Refused, Unreached, ValueError) as error:
            log.warning("webhook_key_not_fetched", provider="enable_banking", detail=str(error))
            return
        self._keys[url] = (key, self._clock.monotonic())


def reports(body: bytes) -> list[Report]:
    """A delivery that says nothing of a payment reports nothing."""
    try:
        news = decode_foreign(body, PaymentNews)
    except msgspec.DecodeError:
        return []
    if news.payment is not None:
        return [
            PaymentReported(
                news.payment.payment_id,
                payment_report(
                    news.payment.status,
                    news.payment.status_reason_information,
                    is_last=news.payment.final_status is True,
                ),
            )
        ]
    if not news.payment_id or not news.status:
        return []
    report = payment_report(news.status, news.status_reason_information, is_last=news.final_status is True)
    return [PaymentReported(news.payment_id, report)]


# --- Tokens of theirs, by which a webhook is known

MAX_TOKEN_LENGTH = 8 * 1024


class _NotValidNow(Exception):
    """A certificate before its time, or after it."""


def read_public_key(content: bytes, now_seconds: int) -> RSAPublicKey:
    """From a certificate or a bare key, in PEM or DER. Raises ValueError if it is neither, or the certificate is not valid now."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

    is_pem = b"-----BEGIN" in content
    key: Any = None
    try:
        if b"BEGIN CERTIFICATE" in content or not is_pem:
            certificate = (x509.load_pem_x509_certificate if is_pem else x509.load_der_x509_certificate)(content)
            begins, ends = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
            if not begins - SKEW_SECONDS <= now_seconds <= ends + SKEW_SECONDS:
                raise _NotValidNow
            key = certificate.public_key()
        else:
            key = load_pem_public_key(content)
    except _NotValidNow:
        raise ValueError("The certificate is not valid now.") from None
    except (ValueError, UnsupportedAlgorithm):
        if is_pem:
            raise ValueError("It is neither a certificate nor a public key.") from None
        key = load_der_public_key(content)
    if not isinstance(key, RSAPublicKey):
        raise ValueError("It is not an RSA key.")
    return key


class Token(msgspec.Struct):
    """A token of theirs, taken apart and not checked yet."""

    signed: bytes
    signature: bytes
    # The address of the key to check it with, as the token says.
    key_url: str
    claims: dict[str, Any]


def read_token(authorization: str) -> Token:
    """Raises BadSignature if a header carries no token of the form they send."""
    scheme, _, text = authorization.partition(" ")
    parts = text.strip().split(".")
    if scheme.lower() != "bearer" or len(parts) != 3 or len(text) > MAX_TOKEN_LENGTH:
        raise BadSignature("there is no token")
    try:
        head, claims = (decode_foreign(_decode(part), dict[str, Any]) for part in parts[:2])
        signature = _decode(parts[2])
    except (ValueError, binascii.Error, msgspec.DecodeError):
        raise BadSignature("the token cannot be read") from None
    if head.get("alg") != "RS256" or not isinstance(head.get("x5u"), str):
        raise BadSignature("the token has another algorithm, or does not say where its key is")
    return Token(f"{parts[0]}.{parts[1]}".encode(), signature, head["x5u"], claims)


def check_token(token: Token, key: RSAPublicKey, application_id: str, body: bytes, now_seconds: int) -> None:
    """Raises BadSignature unless this key signed it, for this application, over this body, and not too long ago."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        key.verify(token.signature, token.signed, PKCS1v15(), SHA256())
    except InvalidSignature:
        raise BadSignature("the token was signed with another key") from None
    if token.claims.get("sub") != application_id:
        raise BadSignature("the token is for another application")
    digest = "sha256-" + base64.b64encode(hashlib.sha256(body).digest()).decode()
    said = token.claims.get("msgi")
    if not isinstance(said, str) or not hmac.compare_digest(said.encode(), digest.encode()):
        raise BadSignature("the token is for another body")
    # They need not say until when; what they say counts.
    expires = token.claims.get("exp", now_seconds)
    if not isinstance(expires, (int, float)) or expires + SKEW_SECONDS < now_seconds:
        raise BadSignature("the token has expired")


def read_public_key_file(path: Path, now_seconds: int) -> RSAPublicKey:
    try:
        return read_public_key(read_key_file(path, "enable_banking_webhook_key"), now_seconds)
    except ValueError as error:
        raise SetupError(f"The file enable_banking_webhook_key ({path}) cannot be used: {error}") from None


def _decode(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
