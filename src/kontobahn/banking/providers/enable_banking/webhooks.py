"""Deliveries of Enable Banking: signed by a key that the delivery names, which must be theirs, over a digest of the body.

A key that is not known yet is fetched once the delivery is refused; they send it again. Until then payments are polled, as always.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from kontobahn import log
from kontobahn.banking.provider import BadSignature, Delivery, PaymentReported, Report
from kontobahn.banking.providers.enable_banking.codes import payment_report
from kontobahn.banking.providers.enable_banking.signing import check_token, read_public_key, read_token
from kontobahn.banking.providers.enable_banking.wire import PaymentNews
from kontobahn.banking.providers.reaching import MAX_KEY_BYTES, Network
from kontobahn.clock import DAY, MINUTE, SECOND, Clock
from kontobahn.outbound import Refused, Rule, Unreached

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

KEY_HOST = "enablebanking.com"
# How long a key is believed, and how often at most it is fetched.
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
        news = msgspec.json.decode(body, type=PaymentNews)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    if news.payment is not None:
        return [
            PaymentReported(
                news.payment.payment_id, payment_report(news.payment.status, news.payment.status_reason_information)
            )
        ]
    if not news.payment_id or not news.status:
        return []
    return [PaymentReported(news.payment_id, payment_report(news.status, news.status_reason_information))]
