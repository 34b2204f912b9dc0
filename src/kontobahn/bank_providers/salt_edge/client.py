"""Calls to Salt Edge: signed, bounded, repeated where that is harmless, and held back where Salt Edge wants us to wait.

A call that only reads is tried again a few times. Nothing that changes anything is ever sent twice.
"""

from __future__ import annotations

import asyncio
import base64
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

import msgspec

from kontobahn import log
from kontobahn.bank_providers.http import Network, NotSent, not_reached, path_part, retry_after
from kontobahn.bank_providers.salt_edge.rules import (
    MEANINGS,
    ORDER_FIELD,
    REMEDIES,
    class_of,
    code_at_salt_edge,
    listed_bank,
)
from kontobahn.bank_providers.salt_edge.wire import One, Page, Payment, Provider, custom, error_of
from kontobahn.banking.provider import ListedBank, PaymentOrder, ProviderDown, ProviderRefused
from kontobahn.clock import HOUR, MINUTE, SECOND, Clock
from kontobahn.json_text import decode_foreign, encode
from kontobahn.outbound import Refused, Unreached, redact
from kontobahn.sentences import said

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey


T = TypeVar("T")
# One answer: a thousand bookings with all their extra fields are about a megabyte.
CALL_SECONDS, MAX_BYTES = 60.0, 16 * 1024 * 1024
AT_ONCE = 8
# A longer answer is decoded in a thread: a page of bookings takes milliseconds.
INLINE_BYTES = 16 * 1024
# A signed request is refused when it arrives later than this, however long it was on its way.
SIGNED_SECONDS = 60
# Before a reading call is tried again.
RETRY_SECONDS = (0.2, 1.0, 3.0)
# For so long nothing is asked after “too many requests” if Salt Edge does not say how long: twice as long each time, up to the limit.
PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1, 3600
# A longer pause is not waited for.
LONGEST_WAIT = 5.0


class Answered(Exception):
    """Salt Edge answered with an error: what was asked was not done, unless `is_certain` is false."""

    def __init__(self, status: int, error_class: str, message: str) -> None:
        super().__init__(message)
        self.status, self.error_class = status, error_class
        self.message = message.strip().rstrip(".") or error_class or f"HTTP status {status}"
        meaning = MEANINGS.get(error_class)
        self.is_ours = meaning == "ours" or (not error_class and status in (401, 403))
        self.is_certain = status < 500 and status != 408 and meaning != "unknown"
        self.is_passing = status in (408, 425, 429) or status >= 500
        self.is_later = meaning == "later" or self.is_passing


def translated(error: Answered) -> Exception:
    """Returns what the port calls this error."""
    if error.is_ours:
        return ProviderDown(
            "Salt Edge does not accept this installation's calls.",
            operator=f"{error.error_class or error.status}: {REMEDIES.get(error.error_class, error.message)}",
        )
    if error.is_later or not error.is_certain:
        return ProviderDown(said("Salt Edge cannot do this at the moment: {reason}.", reason=error.message))
    return ProviderRefused(class_of(error.error_class or "ProviderError"), error.message)


class SaltEdgeClient:
    def __init__(
        self, network: Network, clock: Clock, url: str, app_id: str, secret: str, key: RSAPrivateKey | None
    ) -> None:
        self._network, self._clock = network, clock
        self._url = url.rstrip("/")
        self._headers = {"App-id": app_id, "Secret": secret, "Accept": "application/json"}
        self._key = key
        self._places = asyncio.Semaphore(AT_ONCE)
        # Until when which calls are held back, and how often in a row that was so.
        self._paused: dict[str, tuple[int, int]] = {}

    async def close(self) -> None:
        await self._network.close()

    async def get(self, type: type[T], path: str, **query: str | int | bool | None) -> T:
        """Reads something. Raises Answered and ProviderDown."""
        return await self.read(lambda content: decode_foreign(content, type), path, **query)

    async def read(self, decode: Callable[[bytes], T], path: str, **query: str | int | bool | None) -> T:
        """Reads something, and has it decoded beside the event loop if it is long. What cannot be decoded is asked for again."""
        fields = {name: _text(value) for name, value in query.items() if value is not None}
        tail = f"{path}?{urlencode(fields)}" if fields else path
        for wait in (*RETRY_SECONDS, None):
            try:
                return await _decoded(decode, await self._send("GET", tail, b""))
            except Answered as error:
                if wait is None or not error.is_passing or self._left("GET") > LONGEST_WAIT:
                    raise
            except ProviderDown as error:
                if wait is None or isinstance(error, NotSent):
                    raise
            await asyncio.sleep(max(wait, self._left("GET")))
        raise AssertionError

    async def change(self, type: type[T], method: str, path: str, data: Any = None) -> T:
        """Asks for a change, once. Raises Answered, NotSent if nothing was sent, ProviderDown if the outcome is unknown."""
        body = b"" if data is None else encode({"data": data})
        content = await self._send(method, path, body)
        return await _decoded(lambda content: decode_foreign(content, type), content)

    async def _send(self, method: str, tail: str, body: bytes) -> bytes:
        group = _group(method, tail)
        if (left := self._left(group)) > 0:
            raise NotSent("Salt Edge wants us to wait before we ask again.", retry_after_seconds=math.ceil(left))
        url = f"{self._url}{tail}"
        async with self._places:
            headers = await self._signed(method, url, body)
            try:
                reply = await self._network.send(
                    method, url, headers=headers, body=body or None, seconds=CALL_SECONDS, max_bytes=MAX_BYTES, whole=True,
                )  # fmt: skip
            except (Refused, Unreached) as error:
                raise not_reached("Salt Edge", error) from None
        if 200 <= reply.status < 300:
            self._paused.pop(group, None)
            return reply.content
        if reply.status == 429:
            self._pause(group, retry_after(reply.headers, MAX_PAUSE_SECONDS))
        if 300 <= reply.status < 400:
            raise ProviderDown(
                said("Salt Edge's address is wrong: it answers with HTTP status {status}.", status=reply.status)
            )
        error_class, message = error_of(reply.content)
        raise Answered(reply.status, error_class, redact(message, headers["Secret"], headers.get("Signature", "")))

    async def _signed(self, method: str, url: str, body: bytes) -> dict[str, str]:
        headers = {**self._headers, "Content-type": "application/json"}
        if self._key is not None:
            expires_at = str(self._clock.now() // SECOND + SIGNED_SECONDS)
            text = b"|".join((expires_at.encode(), method.encode(), url.encode(), body))
            headers |= {"Expires-at": expires_at, "Signature": await asyncio.to_thread(sign, self._key, text)}
        return headers

    def _left(self, group: str) -> float:
        """For how many seconds these calls are still held back."""
        return max(0, self._paused.get(group, (0, 0))[0] - self._clock.monotonic()) / SECOND

    def _pause(self, group: str, wanted_seconds: int | None) -> None:
        times = self._paused.get(group, (0, 0))[1] + 1
        usual = min(PAUSE_SECONDS << min(times - 1, 12), MAX_PAUSE_SECONDS)
        seconds = usual if wanted_seconds is None else wanted_seconds
        self._paused[group] = self._clock.monotonic() + seconds * SECOND, times


async def _decoded(decode: Callable[[bytes], T], content: bytes) -> T:
    try:
        return decode(content) if len(content) < INLINE_BYTES else await asyncio.to_thread(decode, content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProviderDown("Salt Edge's answer was not understood.", operator=str(error)) from None


def sign(key: RSAPrivateKey, text: bytes) -> str:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    return base64.b64encode(key.sign(text, PKCS1v15(), SHA256())).decode()


def _group(method: str, tail: str) -> str:
    """Returns the group of calls that are held back together.

    A limit on connecting says nothing about reading, nor one on asking about payments about paying.
    """
    return method if method == "GET" else f"{method} {tail.strip('/').partition('/')[0]}"


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- Banks: read page by page, kept for some hours, and handed out as they were if Salt Edge does not answer


KEPT_FOR = 6 * HOUR
# After a failure the old list is used for this long before Salt Edge is asked again.
FAILED_FOR = 5 * MINUTE
ROWS, MAX_BANK_PAGES = 1000, 100


class Directory:
    def __init__(self, client: SaltEdgeClient, clock: Clock, *, sandboxes: bool) -> None:
        self._client, self._clock, self._sandboxes = client, clock, sandboxes
        self._lock = asyncio.Lock()
        self._listed: list[ListedBank] | None = None
        # Each with the instant until which it is believed.
        self._by_code: dict[str, tuple[Provider, int]] = {}
        self._read_until = 0

    def forget(self) -> None:
        """Has the list read again: something changed."""
        self._read_until = 0
        self._by_code = {code: (provider, 0) for code, (provider, _) in self._by_code.items()}

    async def banks(self) -> Sequence[ListedBank]:
        async with self._lock:
            if self._listed is None or self._read_until <= self._clock.now():
                try:
                    found = await self._read()
                except (ProviderDown, Answered) as error:
                    if self._listed is None:
                        raise translated(error) if isinstance(error, Answered) else error from None
                    log.warning("salt_edge_banks_not_read", detail=str(error))
                    self._read_until = self._clock.now() + FAILED_FOR
                else:
                    self._read_until = self._clock.now() + KEPT_FOR
                    self._by_code = {provider.code: (provider, self._read_until) for provider in found}
                    self._listed = [listed_bank(provider) for provider in found]
            return self._listed

    async def _read(self) -> list[Provider]:
        found: dict[str, Provider] = {}
        next_id: str | int | None = None
        for _ in range(MAX_BANK_PAGES):
            page = await self._client.get(
                Page[Provider], "/providers", include_sandboxes=self._sandboxes, include_ais_fields=True,
                include_pis_fields=True, exclude_inactive=True, from_id=next_id, per_page=ROWS,
            )  # fmt: skip
            # Banks by file are statement files, which need nobody in between.
            found |= {one.code: one for one in page.data if one.mode != "file" and one.status in (None, "active")}
            if page.meta is None or page.meta.next_id is None or page.meta.next_id == next_id:
                return list(found.values())
            next_id = page.meta.next_id
        raise ProviderDown("Salt Edge's list of banks does not end.")

    async def bank(self, code: str) -> Provider:
        """Returns the bank with our code. Raises ProviderRefused if there is none."""
        theirs = code_at_salt_edge(code)
        found = None if theirs is None else await self.bank_or_none(theirs)
        if found is None:
            raise ProviderRefused("ProviderNotFound", "Salt Edge has no such bank")
        return found

    async def bank_or_none(self, code: str) -> Provider | None:
        """Returns the bank with Salt Edge's code."""
        known, until = self._by_code.get(code, (None, 0))
        if known is not None and until > self._clock.now():
            return known
        try:
            found = await self._client.get(
                One[Provider], f"/providers/{path_part(code)}", include_ais_fields=True, include_pis_fields=True
            )
        except (ProviderDown, Answered) as error:
            if isinstance(error, Answered) and (error.status == 404 or error.error_class == "ProviderNotFound"):
                return None
            if known is not None:
                return known
            raise translated(error) if isinstance(error, Answered) else error from None
        self._by_code[code] = found.data, self._clock.now() + KEPT_FOR
        return found.data


# --- Payments that exist there already


# At most this many pages of payments are searched for one.
MAX_PAYMENT_PAGES = 50


async def search_payment(client: SaltEdgeClient, customer: str, order: PaymentOrder) -> Payment | None:
    """Returns the customer's payment with our end-to-end id, from as many pages as there are."""
    next_id: str | int | None = None
    for _ in range(MAX_PAYMENT_PAGES):
        page = await client.get(Page[Payment], "/payments", customer_id=customer, from_id=next_id)
        for payment in page.data:
            if order.end_to_end_id in _ids_of(payment):
                return payment
        if page.meta is None or page.meta.next_id is None or page.meta.next_id == next_id:
            return None
        next_id = page.meta.next_id
    return None


def _ids_of(payment: Payment) -> tuple[Any, Any]:
    return (payment.payment_attributes or {}).get("end_to_end_id"), custom(payment.custom_fields).get(ORDER_FIELD)


async def ask_payment(client: SaltEdgeClient, provider_ref: str) -> Payment:
    """Has Salt Edge ask the bank, and returns the payment. If it may not ask now, what it knows already. Raises Answered."""
    path = f"/payments/{path_part(provider_ref)}"
    try:
        answer = (await client.change(One[Payment], "PUT", f"{path}/refresh")).data
        if answer.status:
            return answer
    except NotSent:
        pass
    except Answered as error:
        if error.status == 404 or error.is_ours:
            raise
    return (await client.get(One[Payment], path)).data
