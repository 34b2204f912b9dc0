"""Requests in, answers out: the address, headers and body of a request, what is known about it so far, and how answers are sent."""

from __future__ import annotations

import asyncio
import os
import re
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any
from urllib.parse import quote

import msgspec

from kontobahn.access.principal import Principal
from kontobahn.api.bodies import HeldBytes
from kontobahn.api.call import Call
from kontobahn.api.declare import Endpoint
from kontobahn.api.idempotency import StoredAnswer
from kontobahn.api.wire import FileDownload, RawBody, Upload
from kontobahn.errors import (
    BadRequest,
    KontobahnError,
    MethodNotAllowed,
    SetupError,
    StillRunning,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    WrongMediaType,
)
from kontobahn.ids import block_of, new_request_id
from kontobahn.json_text import encode
from kontobahn.limits import Hit
from kontobahn.threads import Pool

Scope = MutableMapping[str, Any]

# In the scope of a request that the service makes to itself: for whom. Nothing that arrives over the network can set it.
INNER_CALLER = "kontobahn.caller"
# A larger body is decoded, and a larger answer compressed, beside the event loop.
DECODE_INLINE_BYTES = 16 * 1024
# Proxies before the first that is not trusted; more than this is nobody's network.
MAX_HOPS = 20
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
Send = Callable[[dict[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]

COMPRESS_FROM_BYTES = 1400
# The bytes of a file that are sent at once, and the seconds a caller may take for a part of a file or a long list.
FILE_BLOCK_BYTES = 256 * 1024
PART_SECONDS = 60
COMPRESS_IN_THREAD_FROM_BYTES = 64 * 1024
# The form in which zlib is to write: a window of 15 bits, in gzip.
_GZIP = 16 + 15
_JSON = (b"content-type", b"application/json")
_NO_STORE = (b"cache-control", b"no-store")
_NO_SNIFF = (b"x-content-type-options", b"nosniff")

# This many items are encoded in less time than it takes to hand the work to another thread.
INLINE_ITEMS = 500
SLICE = 500


# --- In


class ClientAddress:
    def __init__(self, trusted_proxies: str) -> None:
        try:
            self._trusted: list[IPv4Network | IPv6Network] = [
                ip_network(part.strip(), strict=False) for part in trusted_proxies.split(",") if part.strip()
            ]
        except ValueError as error:
            raise SetupError(f"The setting trusted_proxies is not a list of networks: {error}.") from None
        self.is_trusted = lru_cache(maxsize=1024)(self._look_up)

    def of_scope(self, scope: Mapping[str, Any]) -> str:
        client = scope.get("client")
        peer: str = client[0] if client else "unknown"
        if not self._trusted or not self.is_trusted(peer):
            return peer
        # Some proxies add to the caller's line, others write one of their own below it.
        forwarded_for = b",".join([value for name, value in scope["headers"] if name == b"x-forwarded-for"])
        if not forwarded_for:
            return peer
        # From the right: the first address that is not a trusted proxy is the caller's.
        for hop in reversed(forwarded_for.decode("latin-1").rsplit(",", MAX_HOPS)[-MAX_HOPS:]):
            address = _normal(hop)
            if address is None:
                return peer
            if not self.is_trusted(address):
                return address
            peer = address
        return peer

    def _look_up(self, address: str) -> bool:
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._trusted)


def _normal(hop: str) -> str | None:
    try:
        return str(ip_address(hop.strip()))
    except ValueError:
        return None


class Exchange:
    """One request, and what is known about it so far."""

    __slots__ = (
        "body",
        "call",
        "endpoint",
        "error",
        "group",
        "headers",
        "held",
        "hit",
        "ip",
        "principal",
        "request_id",
        "scope",
        "started",
        "upload",
    )

    def __init__(self, scope: Scope, ip: str) -> None:
        self.started = time.perf_counter()
        self.scope = scope
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.ip = ip
        self.request_id = _request_id(self.headers.get(b"x-request-id"))
        self.endpoint: Endpoint | None = None
        self.principal: Principal | None = None
        # The rate limit that it counts for, once it has been counted.
        self.group = ""
        self.hit: Hit | None = None
        self.call: Call | None = None
        # The sentence that it is refused with, and the field that is at fault.
        self.error: tuple[str, str] = ("", "")
        # An idempotency key is bound to this: the body, or the checksum of an upload.
        self.body = b""
        self.upload: Upload | None = None
        self.held: HeldBytes | None = None

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


async def decode_body(exchange: Exchange, endpoint: Endpoint, pool: Pool) -> Any:
    """Returns what the handler takes as its body: a struct, a RawBody, or None if it takes none."""
    if endpoint.takes_raw_body:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in exchange.headers.items()}
        return RawBody(headers, exchange.body)
    if endpoint.body_decoder is None:
        if exchange.body.strip() not in (b"", b"{}"):
            raise BadRequest("This call takes no request body.")
        return None
    if exchange.body:
        _require_json(exchange.header(b"content-type"))
    if len(exchange.body) <= DECODE_INLINE_BYTES:
        return endpoint.body_decoder.decode(exchange.body)
    return await pool.run(endpoint.body_decoder.decode, exchange.body)


def _require_json(content_type: str | None) -> None:
    media_type, _, parameters = (content_type or "").partition(";")
    charset = re.search(r"charset\s*=\s*\"?([^\s\";]+)", parameters, re.IGNORECASE)
    if media_type.strip().lower() != "application/json" or (charset and charset[1].lower() not in ("utf-8", "utf8")):
        raise WrongMediaType("Send the request body as `Content-Type: application/json` in UTF-8.")


# --- Out


def error_body(error: KontobahnError, request_id: str) -> bytes:
    return encode({"error": str(error), **error.extra, "request_id": request_id})


def error_headers(error: KontobahnError) -> list[Header]:
    if isinstance(error, TooManyRequests | Unavailable | StillRunning):
        return [(b"retry-after", b"%d" % error.retry_after_seconds)]
    if isinstance(error, MethodNotAllowed):
        return [(b"allow", ", ".join(error.allowed).encode())]
    if isinstance(error, Unauthorized):
        return [(b"www-authenticate", b'ApiKey header="x-api-key"')]
    if isinstance(error, TooLarge):
        return [(b"connection", b"close")]
    return []


# Every file may be asked for as this too; generated clients know few other types.
ANY_BYTES = "application/octet-stream"


async def send_json(
    send: Send, pool: Pool, answer: StoredAnswer, headers: list[Header], accept_encoding: bytes | None = None
) -> None:
    parts = answer.parts or (answer.body,)
    size = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
    headers += (_JSON, _NO_STORE, _NO_SNIFF)
    if size >= COMPRESS_FROM_BYTES:
        headers.append((b"vary", b"accept-encoding"))
        is_long = size >= COMPRESS_IN_THREAD_FROM_BYTES
        if accept_encoding is not None and takes_gzip(accept_encoding):
            parts = (await pool.run_anyway(_compress, parts) if is_long else _compress(parts),)
            size = len(parts[0])
            headers.append((b"content-encoding", b"gzip"))
    headers.append((b"content-length", b"%d" % size))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if len(parts) == 1:
        await send({"type": "http.response.body", "body": parts[0]})
        return
    for left, part in zip(range(len(parts) - 1, -1, -1), parts, strict=True):
        # A caller who takes a part too slowly gets no more of it.
        async with asyncio.timeout(PART_SECONDS):
            await send({"type": "http.response.body", "body": part, "more_body": left > 0})


def _compress(parts: Sequence[bytes]) -> bytes:
    packer = zlib.compressobj(1, wbits=_GZIP)
    return b"".join([*map(packer.compress, parts), packer.flush()])


async def send_busy(send: Send) -> None:
    """Answers a request of a network that has too many running: before anything is known of it, and without its body."""
    error = TooManyRequests(
        "Too many of your requests are running at the same time. Wait for one of them to end.", retry_after_seconds=1
    )
    request_id = new_request_id()
    body = error_body(error, request_id)
    headers = [
        (b"x-request-id", request_id.encode()), (b"content-length", b"%d" % len(body)), (b"connection", b"close"),
        *error_headers(error), _JSON, _NO_STORE, _NO_SNIFF,
    ]  # fmt: skip
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_file(send: Send, answer: StoredAnswer, headers: list[Header], accept: str | None) -> None:
    """Sends a file to save, as its own type or, if the caller accepts nothing else, as bytes. Whatever it contains, a browser
    must neither guess its type nor run it."""
    media_type = ANY_BYTES if accept is not None and accept.strip().lower() == ANY_BYTES else answer.media_type
    size = len(answer.body) if answer.download is None else answer.download.file.seek(0, os.SEEK_END)
    headers += (
        (b"content-type", media_type.encode()),
        (b"content-disposition", f"attachment; filename*=UTF-8''{quote(answer.file_name)}".encode()),
        (b"content-security-policy", b"sandbox; default-src 'none'"),
        (b"content-length", b"%d" % size),
        _NO_STORE,
        _NO_SNIFF,
    )
    if answer.download is not None:
        try:
            await _send_parts(send, answer.status, answer.download, headers)
        finally:
            answer.download.close()
        return
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _send_parts(send: Send, status: int, download: FileDownload, headers: list[Header]) -> None:
    """Sends an open file. A caller who takes a part too slowly gets no more of it."""
    download.file.seek(0)
    block = await asyncio.to_thread(download.file.read, FILE_BLOCK_BYTES)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    while block:
        following = await asyncio.to_thread(download.file.read, FILE_BLOCK_BYTES)
        if not following:
            # Before the last part: whoever has it may ask for the next file.
            download.close()
        async with asyncio.timeout(PART_SECONDS):
            await send({"type": "http.response.body", "body": block, "more_body": bool(following)})
        block = following


def takes_gzip(accept_encoding: bytes) -> bool:
    for part in accept_encoding.lower().split(b","):
        coding, _, quality = part.partition(b";")
        if coding.strip() in (b"gzip", b"*"):
            return quality.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


class Routes:
    """Finds the endpoints of a path: a dictionary for plain paths, one walk over the segments for those with parameters."""

    def __init__(self, endpoints: list[Endpoint]) -> None:
        self.endpoints = endpoints
        self._plain: dict[str, dict[str, Endpoint]] = {}
        self._with_parameters: dict[int, list[tuple[tuple[str, ...], dict[str, Endpoint]]]] = {}
        for endpoint in endpoints:
            methods = self._plain_methods(endpoint) if "{" not in endpoint.path else self._parameter_methods(endpoint)
            if endpoint.method in methods:
                raise ValueError(f"{endpoint.name} is declared twice")
            methods[endpoint.method] = endpoint

    def find(self, path: str) -> tuple[dict[str, Endpoint], dict[str, str]] | None:
        """Returns the endpoints by method, and the values of the path's parameters."""
        methods = self._plain.get(path)
        if methods is not None:
            return methods, {}
        segments = path.split("/")
        for pattern, methods in self._with_parameters.get(len(segments), ()):
            values = _match(pattern, segments)
            if values is not None:
                return methods, values
        return None

    def _plain_methods(self, endpoint: Endpoint) -> dict[str, Endpoint]:
        return self._plain.setdefault(endpoint.path, {})

    def _parameter_methods(self, endpoint: Endpoint) -> dict[str, Endpoint]:
        pattern = tuple(endpoint.path.split("/"))
        candidates = self._with_parameters.setdefault(len(pattern), [])
        for known, methods in candidates:
            if known == pattern:
                return methods
        candidates.append((pattern, {}))
        return candidates[-1][1]


def _match(pattern: tuple[str, ...], segments: list[str]) -> dict[str, str] | None:
    values = {}
    for expected, given in zip(pattern, segments, strict=True):
        if expected.startswith("{"):
            if not given:
                return None
            values[expected[1:-1]] = given
        elif expected != given:
            return None
    return values


Peer = tuple[str, int]


class RunningRequests:
    def __init__(self, per_network: int) -> None:
        self._per_network = per_network
        self._networks: dict[str, int] = {}
        self._peers: set[Peer] = set()

    def __contains__(self, peer: object) -> bool:
        return peer in self._peers

    def enter(self, peer: Peer | None, ip: str) -> bool:
        """Counts a request; False, without counting it, if its network has too many running."""
        network = block_of(ip)
        running = self._networks.get(network, 0)
        if running >= self._per_network:
            return False
        self._networks[network] = running + 1
        if peer is not None:
            self._peers.add(peer)
        return True

    def leave(self, peer: Peer | None, ip: str) -> None:
        network = block_of(ip)
        running = self._networks[network] - 1
        if running:
            self._networks[network] = running
        else:
            del self._networks[network]
        if peer is not None:
            self._peers.discard(peer)


# --- Answers as bytes: a long list is encoded in slices beside the event loop, so that other calls run in between


def is_long(answer: Any) -> bool:
    if isinstance(answer, list):
        return len(answer) > INLINE_ITEMS
    for name in getattr(answer, "__struct_fields__", ()):
        value = getattr(answer, name)
        if isinstance(value, list) and len(value) > INLINE_ITEMS:
            return True
    return False


async def encode_in_slices(answer: Any, pool: Pool) -> bytes:
    # The effect is written and the price paid: an answer is never refused for want of a place to wait for a thread.
    return await pool.run_anyway(_encode_in_slices, answer)


def _encode_in_slices(answer: Any) -> bytes:
    if isinstance(answer, list):
        return _encode_list(answer)
    # The encoder keeps Python's lock until it is done: only between slices can another thread have it.
    sliced = {
        name: msgspec.Raw(_encode_list(value))
        for name in answer.__struct_fields__
        if isinstance(value := getattr(answer, name), list) and len(value) > INLINE_ITEMS
    }
    return encode(msgspec.structs.replace(answer, **sliced))


def _encode_list(items: list[Any]) -> bytes:
    slices = [encode(items[start : start + SLICE])[1:-1] for start in range(0, len(items), SLICE)]
    return b"[" + b",".join(slices) + b"]"
