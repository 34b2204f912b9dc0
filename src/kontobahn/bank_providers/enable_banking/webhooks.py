"""Deliveries of Enable Banking: signed by a key that the delivery names, which must be theirs, over a digest of the body.

A key that is not known yet is fetched once the delivery is refused; they send it again. Until then payments are polled, as always.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from kontobahn import log
from kontobahn.bank_providers.enable_banking.client import SKEW_SECONDS
from kontobahn.bank_providers.enable_banking.rules import payment_report
from kontobahn.bank_providers.enable_banking.wire import PaymentNews
from kontobahn.bank_providers.http import MAX_KEY_BYTES, Network, read_key_file
from kontobahn.banking.provider import BadSignature, Delivery, PaymentReported, Report
from kontobahn.clock import DAY, MINUTE, SECOND, Clock
from kontobahn.errors import SetupError
from kontobahn.json_text import decode_foreign
from kontobahn.outbound import Refused, Rule, Unreached

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey


KEY_HOST = "enablebanking.com"
# A key is trusted this long, and fetched at most this often.
KEEP, TRY_AGAIN = DAY, MINUTE
MAX_KEYS, SECONDS = 8, 15.0


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
                self._fetch_again(token.key_url, older_than=TRY_AGAIN)
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
        self._fetch_again(url, older_than=KEEP)
        key = self._keys[url][0] if url in self._keys else None
        if key is None:
            raise BadSignature("the key of the token is being fetched; it can be checked when it is sent again")
        return key

    def _fetch_again(self, url: str, older_than: int) -> None:
        """Begins to fetch a key, unless that was done so recently, or a moment ago without success."""
        key, asked_at = self._keys.pop(url, (None, None))
        now = self._clock.monotonic()
        if asked_at is not None and now - asked_at < (older_than if key is not None else TRY_AGAIN):
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
                "GET", url, headers={}, body=None, seconds=SECONDS, max_bytes=MAX_KEY_BYTES, whole=True
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
