"""HTTP/1.1 as the tests need it, for the client library that they use: to one service on loopback, in a third of the library's own time.

The library builds requests and reads answers as ever; here they are sent and received, and what it does for each of them in vain is
left out.
"""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import httpx

from tests.waiting import PATIENCE_SECONDS

_PIECE = 65536
_NO_BODY = (204, 304)
_ADDRESSES = 1000


class PlainClient(httpx.Client):
    """The library's client, which puts each address together once, and looks for cookies where an answer has some."""

    def __init__(self, base_url: str, transport: httpx.BaseTransport) -> None:
        super().__init__(base_url=base_url, transport=transport, timeout=PATIENCE_SECONDS, trust_env=False)
        self._address = lru_cache(_ADDRESSES)(super()._merge_url)
        self.cookies = self._cookies

    @property
    def cookies(self) -> httpx.Cookies:
        return self._cookies

    @cookies.setter
    def cookies(self, cookies: Any) -> None:
        self._cookies = cookies if isinstance(cookies, _Cookies) else _Cookies(cookies)

    def _merge_url(self, url: httpx.URL | str) -> httpx.URL:
        return self._address(url)


class _Cookies(httpx.Cookies):
    def extract_cookies(self, response: httpx.Response) -> None:
        if "set-cookie" in response.headers:
            super().extract_cookies(response)


class PlainTransport(httpx.BaseTransport):
    """Connections that are kept for the next request, by whichever thread. TLS it leaves to the library."""

    def __init__(self) -> None:
        self._idle: deque[_Connection] = deque()
        self._is_closed = False
        self._with_tls: httpx.BaseTransport | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.scheme != "http":
            self._with_tls = self._with_tls or httpx.HTTPTransport(verify=False, trust_env=False)
            return self._with_tls.handle_request(request)
        connection = self._connection(request)
        try:
            connection.send(request)
            return connection.answer(request, self)
        except BaseException:
            connection.close()
            raise

    def _connection(self, request: httpx.Request) -> _Connection:
        address = (request.url.host, request.url.port or 80)
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread has taken it
                break
            if connection.address == address and connection.is_open():
                return connection
            connection.close()
        return _Connection(address, request)

    def take_back(self, connection: _Connection) -> None:
        if self._is_closed:
            connection.close()
        else:
            self._idle.append(connection)

    def close(self) -> None:
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()
        if self._with_tls is not None:
            self._with_tls.close()


class _Connection:
    def __init__(self, address: tuple[str, int], request: httpx.Request) -> None:
        self.address = address
        seconds = request.extensions.get("timeout", {}).get("read")
        try:
            self._socket = socket.create_connection(address, timeout=seconds)
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error), request=request) from error
        except OSError as error:
            raise httpx.ConnectError(str(error), request=request) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._closing = select.poll()
        self._closing.register(self._socket, select.POLLIN)
        self._received = b""

    def is_open(self) -> bool:
        """Nothing is to be read from one that waits for a request, unless the service has closed it."""
        return not self._closing.poll(0)

    def close(self) -> None:
        self._socket.close()

    def send(self, request: httpx.Request) -> None:
        self._socket.settimeout(request.extensions.get("timeout", {}).get("read"))
        lines = [b"%s %s HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
        lines += [b"%s: %s" % header for header in request.headers.raw]
        data = b"\r\n".join(lines) + b"\r\n\r\n"
        if any(mark in line for line in lines for mark in (b"\r", b"\n", b"\0")):
            raise httpx.LocalProtocolError("A line of the head has another in it.", request=request)
        is_chunked = "transfer-encoding" in request.headers
        assert isinstance(request.stream, httpx.SyncByteStream)
        try:
            for piece in request.stream:
                data += b"%x\r\n%s\r\n" % (len(piece), piece) if is_chunked and piece else piece
                if len(data) > _PIECE:
                    self._socket.sendall(data)
                    data = b""
            self._socket.sendall(data + (b"0\r\n\r\n" if is_chunked else b""))
        except TimeoutError as error:
            raise httpx.WriteTimeout(str(error), request=request) from error
        except OSError:
            pass  # a service may have answered before it had heard everything

    def answer(self, request: httpx.Request, owner: PlainTransport) -> httpx.Response:
        status, lines = self._head(request)
        while status < 200:  # more is to come
            status, lines = self._head(request)
        raw = [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
        # Said once: otherwise the library finds it out by decoding all of them, in each copy that it makes.
        is_ascii = all(line.isascii() for line in lines)
        headers = httpx.Headers(raw, "ascii" if is_ascii else None)
        body = _Body(self, request, headers, owner)
        if request.method == "HEAD" or status in _NO_BODY:
            body.is_empty()
        answer = httpx.Response(status, headers=headers, stream=body, extensions={"http_version": b"HTTP/1.1"})
        if is_ascii:
            answer.headers.encoding = "ascii"
        return answer

    def _head(self, request: httpx.Request) -> tuple[int, list[bytes]]:
        first, *lines = self._read_to(b"\r\n\r\n", request).split(b"\r\n")
        return int(first.split(b" ", 2)[1]), lines

    def _read_to(self, mark: bytes, request: httpx.Request) -> bytes:
        while (end := self._received.find(mark)) < 0:
            self._received += self.piece(request)
        found, self._received = self._received[:end], self._received[end + len(mark) :]
        return found

    def read_line(self, request: httpx.Request) -> bytes:
        return self._read_to(b"\r\n", request)

    def piece(self, request: httpx.Request, *, may_end: bool = False) -> bytes:
        try:
            data = self._socket.recv(_PIECE)
        except TimeoutError as error:
            raise httpx.ReadTimeout(str(error), request=request) from error
        except OSError as error:
            raise httpx.ReadError(str(error), request=request) from error
        if not data and not may_end:
            raise httpx.RemoteProtocolError("The service has closed the connection.", request=request)
        return data

    def some(self, most: int, request: httpx.Request) -> bytes:
        """Bytes that were received and not read, else those that come next, and no more than so many."""
        data = self._received or self.piece(request)
        self._received = data[most:]
        return data[:most]

    def rest(self, request: httpx.Request) -> Iterator[bytes]:
        data, self._received = self._received, b""
        yield data
        while data := self.piece(request, may_end=True):
            yield data


class _Body(httpx.SyncByteStream):
    """The body of an answer, which is received as it is read. A connection that has more to say serves no other request."""

    def __init__(
        self, connection: _Connection, request: httpx.Request, headers: httpx.Headers, owner: PlainTransport
    ) -> None:
        self._connection, self._request, self._owner = connection, request, owner
        self._is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        length = headers.get("content-length")
        self._left = None if length is None else int(length)
        self._is_kept = headers.get("connection", "").lower() != "close"
        self._is_over = False

    def is_empty(self) -> None:
        self._is_chunked, self._left = False, 0

    def __iter__(self) -> Iterator[bytes]:
        if self._is_chunked:
            yield from self._chunks()
        elif self._left is None:
            self._is_kept = False
            yield from self._connection.rest(self._request)
        else:
            yield from self._known_length()
        self._is_over = True

    def _known_length(self) -> Iterator[bytes]:
        assert self._left is not None
        while self._left:
            piece = self._connection.some(self._left, self._request)
            self._left -= len(piece)
            yield piece

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self._connection.read_line(self._request).partition(b";")[0], 16):
            while size:
                piece = self._connection.some(size, self._request)
                size -= len(piece)
                yield piece
            self._connection.read_line(self._request)
        while self._connection.read_line(self._request):
            pass

    def close(self) -> None:
        if self._is_over and self._is_kept:
            self._owner.take_back(self._connection)
        else:
            self._connection.close()
