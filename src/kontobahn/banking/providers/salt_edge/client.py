"""Calls to Salt Edge: signed, bounded, repeated where that is harmless, and held back where Salt Edge wants us to wait.

A call that only reads is tried again a few times. Nothing that changes anything is ever sent twice.
"""

from __future__ import annotations

import asyncio
import base64
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

import msgspec

from kontobahn.banking.hiding import hide
from kontobahn.banking.provider import ProviderDown, ProviderRefused
from kontobahn.banking.providers.reaching import Network, NotSent, not_reached, retry_after
from kontobahn.banking.providers.salt_edge.tables import MEANINGS, REMEDIES, class_of
from kontobahn.banking.providers.salt_edge.wire import error_of
from kontobahn.clock import SECOND, Clock
from kontobahn.json_text import encode
from kontobahn.outbound import Refused, Unreached

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
# How long nothing is asked after “too many requests” if Salt Edge does not say how long: twice as long each time, up to the limit.
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
        return ProviderDown(f"Salt Edge cannot do this at the moment: {error.message}.")
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
        return await self.read(lambda content: msgspec.json.decode(content, type=type), path, **query)

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
        return await _decoded(lambda content: msgspec.json.decode(content, type=type), content)

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
            raise ProviderDown(f"Salt Edge's address is wrong: it answers with HTTP status {reply.status}.")
        error_class, message = error_of(reply.content)
        raise Answered(reply.status, error_class, hide(message, headers["Secret"], headers.get("Signature", "")))

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
    except (msgspec.MsgspecError, ValueError) as error:
        raise ProviderDown("Salt Edge's answer was not understood.", operator=str(error)) from None


def sign(key: RSAPrivateKey, text: bytes) -> str:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    return base64.b64encode(key.sign(text, PKCS1v15(), SHA256())).decode()


def _group(method: str, tail: str) -> str:
    """What is held back together: a limit on connecting says nothing about reading, nor one on asking about payments about paying."""
    return method if method == "GET" else f"{method} {tail.strip('/').partition('/')[0]}"


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
