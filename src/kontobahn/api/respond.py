"""Writes answers: JSON bodies, error bodies, files, compression, and the headers that belong to an error."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from kontobahn.api.idempotency import StoredAnswer
from kontobahn.errors import KontobahnError, MethodNotAllowed, TooLarge, TooManyRequests, Unauthorized, Unavailable
from kontobahn.json_text import encode

Send = Callable[[dict[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]

COMPRESS_FROM_BYTES = 1400
COMPRESS_IN_THREAD_FROM_BYTES = 128 * 1024
_JSON = (b"content-type", b"application/json")
_NO_STORE = (b"cache-control", b"no-store")
_NO_SNIFF = (b"x-content-type-options", b"nosniff")


def error_body(error: KontobahnError, request_id: str) -> bytes:
    return encode({"error": str(error), **error.extra, "request_id": request_id})


def error_headers(error: KontobahnError) -> list[Header]:
    if isinstance(error, TooManyRequests | Unavailable):
        return [(b"retry-after", b"%d" % error.retry_after_seconds)]
    if isinstance(error, MethodNotAllowed):
        return [(b"allow", ", ".join(error.allowed).encode())]
    if isinstance(error, Unauthorized):
        return [(b"www-authenticate", b'ApiKey header="x-api-key"')]
    if isinstance(error, TooLarge):
        return [(b"connection", b"close")]
    return []


async def send_json(
    send: Send, status: int, body: bytes, headers: list[Header], accept_encoding: bytes | None = None
) -> None:
    headers += (_JSON, _NO_STORE, _NO_SNIFF)
    if len(body) >= COMPRESS_FROM_BYTES:
        headers.append((b"vary", b"accept-encoding"))
        if accept_encoding is not None and _takes_gzip(accept_encoding):
            if len(body) >= COMPRESS_IN_THREAD_FROM_BYTES:
                body = await asyncio.to_thread(gzip.compress, body, 1)
            else:
                body = gzip.compress(body, 1)
            headers.append((b"content-encoding", b"gzip"))
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_file(send: Send, answer: StoredAnswer, headers: list[Header]) -> None:
    """Sends a file to save. Whatever it contains, a browser must neither guess its type nor run it."""
    headers += (
        (b"content-type", answer.media_type.encode()),
        (b"content-disposition", f"attachment; filename*=UTF-8''{quote(answer.file_name)}".encode()),
        (b"content-security-policy", b"sandbox; default-src 'none'"),
        (b"content-length", b"%d" % len(answer.body)),
        _NO_STORE,
        _NO_SNIFF,
    )
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def _takes_gzip(accept_encoding: bytes) -> bool:
    for part in accept_encoding.lower().split(b","):
        coding, _, quality = part.partition(b";")
        if coding.strip() in (b"gzip", b"*"):
            return quality.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False
