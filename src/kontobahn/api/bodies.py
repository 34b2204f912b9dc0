"""Request bodies as they arrive: how large each may be, how slowly it may come, and how much all of them may hold.

A body is refused as soon as it is known to break a bound, not when it has arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from io import BytesIO
from typing import Any

from kontobahn.api.declare import Endpoint
from kontobahn.errors import BadRequest, TooLarge, TooManyRequests, Unavailable
from kontobahn.sentences import said
from kontobahn.settings import Settings

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
# No body takes longer than this, however steadily it comes.
WHOLE_BODY_SECONDS = 1800
# One organisation or address may hold this part of the memory for bodies.
SHARE = 2
RETRY_AFTER_SECONDS = 5


class BodyMemory:
    """The bytes of request bodies that this process holds, and who sent them."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._share = budget // SHARE
        self.held = 0
        self._by_sender: dict[str, int] = {}

    def hold(self, sender: str) -> HeldBytes:
        return HeldBytes(self, sender)

    def require(self, sender: str, more: int) -> None:
        """Raises TooManyRequests or Unavailable if there is no room for so many more bytes."""
        if self._by_sender.get(sender, 0) + more > self._share:
            raise TooManyRequests(
                "Your requests that are still arriving are too large together. Send them one after the other.",
                retry_after_seconds=RETRY_AFTER_SECONDS,
            )
        if self.held + more > self._budget:
            raise Unavailable(
                "Too many large requests are arriving at the moment. Nothing was written.",
                retry_after_seconds=RETRY_AFTER_SECONDS,
                operator=f"request bodies hold {self.held} of {self._budget} bytes (body_memory_bytes)",
            )

    def take(self, sender: str, more: int) -> None:
        self.require(sender, more)
        self.held += more
        self._by_sender[sender] = self._by_sender.get(sender, 0) + more

    def release(self, sender: str, size: int) -> None:
        self.held -= size
        left = self._by_sender.get(sender, 0) - size
        if left > 0:
            self._by_sender[sender] = left
        else:
            self._by_sender.pop(sender, None)


class HeldBytes:
    """The bytes that one request holds, until it is over."""

    __slots__ = ("_memory", "_sender", "size")

    def __init__(self, memory: BodyMemory, sender: str) -> None:
        self._memory = memory
        self._sender = sender
        self.size = 0

    def require(self, more: int) -> None:
        self._memory.require(self._sender, more)

    def add(self, more: int) -> None:
        self._memory.take(self._sender, more)
        self.size += more

    def release(self) -> None:
        if self.size:
            self._memory.release(self._sender, self.size)
            self.size = 0


class Pace:
    """The time that a body may take: some seconds, and more for every byte that has come."""

    def __init__(self, settings: Settings) -> None:
        self._seconds = settings.body_seconds
        self._bytes_per_second = settings.body_bytes_per_second

    def seconds_for(self, received: int) -> float:
        return min(self._seconds + received / self._bytes_per_second, WHOLE_BODY_SECONDS)

    def refusal(self) -> BadRequest:
        return BadRequest(
            said(
                "The request body did not arrive in time: {seconds} seconds, and one more for every {bytes} bytes.",
                seconds=self._seconds,
                bytes=self._bytes_per_second,
            )
        )


async def body_chunks(
    receive: Receive, headers: Mapping[bytes, bytes], limit: int, pace: Pace, held: HeldBytes | None = None
) -> AsyncIterator[bytes]:
    """Yields the body as it arrives. Raises TooLarge as soon as it is known to be too large, BadRequest when it is late."""
    declared = headers.get(b"content-length")
    if declared is not None and declared.isdigit():
        if len(declared) > 18 or int(declared) > limit:
            raise too_large(limit)
        if held is not None:
            held.require(int(declared))
    started = asyncio.get_running_loop().time()
    size = 0
    while True:
        try:
            async with asyncio.timeout_at(started + pace.seconds_for(size)):
                message = await receive()
        except TimeoutError:
            raise pace.refusal() from None
        if message["type"] == "http.disconnect":
            raise BadRequest("The connection ended before the request body had arrived.")
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        if held is not None:
            held.add(len(chunk))
        yield chunk
        if not message.get("more_body", False):
            return


def max_body_of(endpoint: Endpoint, settings: Settings) -> int:
    """The largest body that a call takes; of an upload, the largest file."""
    limit = settings.upload_limit_bytes if endpoint.takes_upload else settings.body_limit_bytes
    return limit if endpoint.max_body_bytes is None else min(endpoint.max_body_bytes, limit)


def too_large(limit: int) -> TooLarge:
    return TooLarge(said("The request body is larger than {limit} bytes.", limit=limit))


async def read_body(
    receive: Receive, headers: Mapping[bytes, bytes], limit: int, pace: Pace, held: HeldBytes | None = None
) -> bytes:
    first, whole = b"", None
    async for chunk in body_chunks(receive, headers, limit, pace, held):
        if not first:
            first = chunk
            continue
        if whole is None:
            # One block that grows, is handed on as it is and goes back to the system whole.
            whole = BytesIO()
            whole.write(first)
        whole.write(chunk)
    return first if whole is None else whole.getvalue()
