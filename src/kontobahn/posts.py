"""Posts of which there are many: HTTP/1.1 over connections that are kept, at a third of the processor time of a full client.

The rules are those of outbound.py: the same URLs, the same addresses, no redirect, no proxy. Of an answer only the status and the
headers are of interest; it is read to its end, within a bound, so that its connection can serve the next post.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import httptools

from kontobahn.outbound import CONNECT_SECONDS, OutboundClient, Reply, Target, Unreached
from kontobahn.sentences import said

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType

# The seconds that an unused connection is kept, at least; the receiver may close it sooner.
KEEP_SECONDS = 15.0
# A status line with all headers; what informational answers (1xx) come before it counts too.
MAX_HEAD_BYTES = 32 * 1024


class _Broken(Exception):
    """The connection ended, or what came was not HTTP, before the answer was complete."""

    def __init__(self, *, is_silent: bool) -> None:
        # Nothing at all came.
        self.is_silent = is_silent


class _Connection(asyncio.Protocol):
    """One post at a time. Use `WebhookClient`."""

    _transport: asyncio.Transport
    _waiting: asyncio.Future[tuple[int, dict[str, str]]] | None = None

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.is_usable = True
        self.unused_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    async def post(self, request: bytes, max_bytes: int) -> tuple[int, dict[str, str]]:
        """Sends a whole request. Returns the status and the headers, their names in lower case. Raises _Broken."""
        self._parser = httptools.HttpResponseParser(self)
        self._max_bytes = max_bytes
        self._received = self._body = 0
        self._headers: dict[str, str] = {}
        self._status = 0
        self._is_complete = False
        self._waiting = self._loop.create_future()
        self._transport.write(request)
        try:
            return await self._waiting
        finally:
            if not self._is_complete:
                self.close()
            self._waiting = None

    def close(self) -> None:
        self.is_usable = False
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._waiting is None or self._waiting.done():  # nobody has asked
            self.close()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail()
            return
        if self._is_complete:
            # An answer that came before the request had left is not followed by a second one.
            if not self.is_usable or self._transport.get_write_buffer_size():
                self.close()
            self._answer()
        elif self._status:
            if self._body >= self._max_bytes or self._received > MAX_HEAD_BYTES + self._max_bytes:
                self._end()
        elif self._received > MAX_HEAD_BYTES:
            self._fail()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_usable = False
        if self._waiting is None or self._waiting.done():
            return
        has_end = "content-length" in self._headers or "transfer-encoding" in self._headers
        if self._status and not has_end and error is None:  # the connection's end is the answer's
            self._end()
        else:
            self._fail()

    def _end(self) -> None:
        """The answer is as complete as we need it; its connection is of no use any more."""
        self._is_complete = True
        self.close()
        self._answer()

    def _answer(self) -> None:
        assert self._waiting is not None
        self._waiting.set_result((self._status, self._headers))

    def _fail(self) -> None:
        assert self._waiting is not None
        self._waiting.set_exception(_Broken(is_silent=not self._received))

    # --- Findings of the parser

    def on_message_begin(self) -> None:
        if self._is_complete:  # a second answer to one request
            self.is_usable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._status:  # otherwise it follows the body, and we have no use for it
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            self._headers.clear()
        elif not self._status:
            self._status = status

    def on_body(self, body: bytes) -> None:
        self._body += len(body)

    def on_message_complete(self) -> None:
        # After 1xx comes the answer proper.
        if self._status and not self._is_complete:
            self._is_complete = True
            self.is_usable = self._parser.should_keep_alive()  # it can say so only now


class WebhookClient:
    """Posts to whatever an OutboundClient may connect to, over connections that are kept open for as long as its owner runs."""

    def __init__(self, client: OutboundClient) -> None:
        self._client = client
        self._tls = client.tls
        self._unused: dict[tuple[str, str, int], list[_Connection]] = {}
        self._sweep: asyncio.TimerHandle | None = None

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, *, seconds: float, max_bytes: int) -> Reply:
        """Returns the answer without its content, whatever the status. Raises Refused or Unreached, like `send`."""
        target = self._client.rule.parse(url)
        request = _request(target, self._client.user_agent, headers, body)
        try:
            async with asyncio.timeout(seconds):
                status, found = await self._answer(target, request, min(seconds, CONNECT_SECONDS), max_bytes)
        except TimeoutError as error:
            raise Unreached(
                "timeout", said("No complete answer within {seconds} seconds.", seconds=f"{seconds:g}")
            ) from error
        except _Broken as error:
            raise Unreached("protocol", "The connection ended before a complete answer.") from error
        return Reply(status, found, b"")

    def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for kept in self._unused.values():
            for connection in kept:
                with suppress(RuntimeError):  # the loop has gone
                    connection.close()

    async def _answer(
        self, target: Target, request: bytes, connect_seconds: float, max_bytes: int
    ) -> tuple[int, dict[str, str]]:
        place = (target.scheme, target.host, target.port)
        kept = self._take(place)
        if kept is not None:
            try:
                answer = await kept.post(request, max_bytes)
                self._keep(place, kept)
                return answer
            except _Broken as broken:
                # The receiver may close a connection for which it sees no use, just when we use it.
                if not broken.is_silent:
                    raise
        made = await self._connect(target, connect_seconds)
        answer = await made.post(request, max_bytes)
        self._keep(place, made)
        return answer

    def _take(self, place: tuple[str, str, int]) -> _Connection | None:
        kept = self._unused.get(place)
        while kept:
            connection = kept.pop()
            if connection.is_usable:
                return connection
        return None

    def _keep(self, place: tuple[str, str, int], connection: _Connection) -> None:
        if not connection.is_usable:
            return
        loop = asyncio.get_running_loop()
        connection.unused_since = loop.time()
        self._unused.setdefault(place, []).append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(KEEP_SECONDS, self._close_unused)

    def _close_unused(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - KEEP_SECONDS
        for kept in self._unused.values():
            for connection in kept:
                if connection.unused_since <= oldest:
                    connection.close()
        remaining = {place: [one for one in kept if one.is_usable] for place, kept in self._unused.items()}
        self._unused = {place: kept for place, kept in remaining.items() if kept}
        self._sweep = loop.call_later(KEEP_SECONDS, self._close_unused) if self._unused else None

    async def _connect(self, target: Target, seconds: float) -> _Connection:
        """Connects to an address that was checked, and to no other."""
        from aiohappyeyeballs import start_connection

        try:
            async with asyncio.timeout(seconds):
                addresses = await self._addresses(target)
                raw = await start_connection(
                    [_address_info(address, target.port) for address in addresses],
                    happy_eyeballs_delay=0.25,
                    interleave=1,
                )
                try:
                    return await self._secured(raw, target)
                except BaseException:
                    raw.close()
                    raise
        except TimeoutError as error:
            raise Unreached("timeout", "No connection in time.") from error
        except ssl.SSLCertVerificationError as error:
            raise Unreached("tls", "The receiver's certificate is not valid for its name.") from error
        except ssl.SSLError as error:
            raise Unreached("tls", "No secure connection could be made.") from error
        except OSError as error:
            raise Unreached("connect", "The connection was refused or cannot be made.") from error

    async def _secured(self, raw: socket.socket, target: Target) -> _Connection:
        if target.scheme == "https" and self._tls is None:
            self._tls = ssl.create_default_context()
        is_secure = target.scheme == "https"
        _, connection = await asyncio.get_running_loop().create_connection(
            _Connection,
            sock=raw,
            ssl=self._tls if is_secure else None,
            server_hostname=target.host if is_secure else None,
        )
        return connection

    async def _addresses(self, target: Target) -> list[str]:
        if target.address is not None:  # checked with the URL
            return [str(target.address)]
        try:
            found = await self._client.resolver.addresses(target.host, target.port)
        except TimeoutError:
            raise
        except OSError as error:
            raise Unreached("dns", "The name cannot be resolved.") from error
        self._client.rule.check_addresses(target.host, target.port, found)
        return found


def _address_info(address: str, port: int) -> AddrInfoType:
    if ":" in address:
        return (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0))
    return (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))


def _request(target: Target, user_agent: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if lines.count("\n") != len(headers) or lines.count("\r") != len(headers):
        raise ValueError("A header has a line break in it.")
    return b"%s%sContent-Length: %d\r\n\r\n%s" % (_head(target, user_agent), lines.encode("latin-1"), len(body), body)


@lru_cache(maxsize=1024)
def _head(target: Target, user_agent: str) -> bytes:
    host = f"[{target.host}]" if ":" in target.host else target.host
    if target.port != (443 if target.scheme == "https" else 80):
        host = f"{host}:{target.port}"
    return f"POST {target.tail} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\nUser-Agent: {user_agent}\r\n".encode("ascii")
