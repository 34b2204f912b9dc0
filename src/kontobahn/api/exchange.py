"""A request as it comes in: its headers, its id, its address, its body; and what has been found out about it so far."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from kontobahn.access.principal import Principal
from kontobahn.api.call import Call
from kontobahn.api.declare import Endpoint
from kontobahn.api.network import ClientAddress
from kontobahn.api.wire import RawBody, Upload
from kontobahn.errors import BadRequest, TooLarge, WrongMediaType
from kontobahn.ids import new_request_id
from kontobahn.limits import Hit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

BODY_SECONDS = 60
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Exchange:
    """One request, and what is known about it so far."""

    __slots__ = (
        "body",
        "call",
        "endpoint",
        "headers",
        "hit",
        "ip",
        "policy",
        "principal",
        "request_id",
        "scope",
        "started",
        "upload",
    )

    def __init__(self, scope: Scope, addresses: ClientAddress) -> None:
        self.started = time.perf_counter()
        self.scope = scope
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.ip = addresses.of(scope, self.headers.get(b"x-forwarded-for"))
        self.request_id = _request_id(self.headers.get(b"x-request-id"))
        self.endpoint: Endpoint | None = None
        self.principal: Principal | None = None
        self.hit: Hit | None = None
        self.policy = ""
        self.call: Call | None = None
        # What an idempotency key is bound to: the body, or the checksum of an upload.
        self.body = b""
        self.upload: Upload | None = None

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


def _request_id(given: bytes | None) -> str:
    """The caller's own id if it is a sensible one, otherwise a new one."""
    if given is not None:
        text = given.decode("latin-1")
        if _REQUEST_ID.fullmatch(text):
            return text
    return new_request_id()


async def decode_body(exchange: Exchange, endpoint: Endpoint, receive: Receive, limit: int) -> Any:
    """Returns what the handler takes as its body: a struct, a RawBody, or None if it takes none."""
    exchange.body = await _read_body(receive, exchange.headers, limit)
    if endpoint.takes_raw_body:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in exchange.headers.items()}
        return RawBody(headers, exchange.body)
    if endpoint.body_decoder is None:
        if exchange.body.strip() not in (b"", b"{}"):
            raise BadRequest("This call takes no request body.")
        return None
    if exchange.body:
        _require_json(exchange.header(b"content-type"))
    return endpoint.body_decoder.decode(exchange.body)


def _require_json(content_type: str | None) -> None:
    media_type, _, parameters = (content_type or "").partition(";")
    charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", parameters, re.IGNORECASE)
    if media_type.strip().lower() != "application/json" or (charset and charset[1].lower() not in ("utf-8", "utf8")):
        raise WrongMediaType("Send the request body as `Content-Type: application/json` in UTF-8.")


async def _read_body(receive: Receive, headers: dict[bytes, bytes], limit: int) -> bytes:
    """Returns the whole body. Raises TooLarge as soon as it is known to be too large."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            chunks = [chunk async for chunk in body_chunks(receive, headers, limit)]
    except TimeoutError:
        raise BadRequest(f"The request body did not arrive within {BODY_SECONDS} seconds.") from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def body_chunks(receive: Receive, headers: dict[bytes, bytes], limit: int) -> AsyncIterator[bytes]:
    """Yields the body as it arrives. Raises TooLarge as soon as it is known to be too large."""
    declared = headers.get(b"content-length")
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise TooLarge(f"The request body is larger than {limit} bytes.")
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise BadRequest("The connection ended before the request body had arrived.")
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise TooLarge(f"The request body is larger than {limit} bytes.")
        yield chunk
        if not message.get("more_body", False):
            return
