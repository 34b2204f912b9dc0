"""The tests' own way to send HTTP: it reads every form of an answer, in whichever pieces it comes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.plain_http import PlainClient, PlainTransport
from tests.waiting import PATIENCE_SECONDS

ANSWERS = {
    "length": (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", b"hello"),
    "chunks": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", b"hello"),
    "after another": (
        b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"hello",
    ),
    "none": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "to the end": (b"HTTP/1.1 200 OK\r\n\r\nhello", b"hello"),
    "closing": (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello", b"hello"),
}


class _Teller:
    """A server that says the same to every request, in pieces of so many bytes, and counts who came."""

    def __init__(self, said: bytes, size: int, hangs_up: bool) -> None:
        self._said, self._size, self._hangs_up = said, size, hangs_up
        self.connections, self.heard = 0, b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                self.connections += 1
                while head := connection.recv(65536):
                    self.heard += head
                    if b"stop" in head:
                        return
                    for start in range(0, len(self._said), self._size):
                        connection.sendall(self._said[start : start + self._size])
                    if self._hangs_up:
                        break

    def close(self) -> None:
        with socket.create_connection(self._listener.getsockname()) as last:
            last.sendall(b"stop")
            self._thread.join(PATIENCE_SECONDS)
        self._listener.close()


@contextmanager
def _asking(said: bytes, size: int = 100_000, *, hangs_up: bool = False) -> Iterator[tuple[httpx.Client, _Teller]]:
    teller = _Teller(said, size, hangs_up)
    try:
        with _client(teller.url) as client:
            yield client, teller
    finally:
        teller.close()


def _client(url: str) -> httpx.Client:
    return PlainClient(url, PlainTransport())


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("form", ANSWERS)
def test_every_form_of_an_answer_is_read_and_connections_are_used_again(form: str, size: int) -> None:
    said, body = ANSWERS[form]
    hangs_up = form in ("to the end", "closing")
    with _asking(said, size, hangs_up=hangs_up) as (client, teller):
        found = [client.post("/a?b=c", content=b"asked") for _ in range(2)]
        assert [answer.content for answer in found] == [body, body]
        assert teller.heard.count(b"POST /a?b=c HTTP/1.1\r\n") == 2
        assert teller.heard.endswith(b"\r\n\r\nasked")
        assert teller.connections == (2 if hangs_up else 1)


def test_whoever_hangs_up_or_is_not_there_is_an_error() -> None:
    with _asking(b"HTTP/1.1 200", hangs_up=True) as (client, _), pytest.raises(httpx.RemoteProtocolError):
        client.get("/")
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        with _client(f"http://127.0.0.1:{deaf.getsockname()[1]}") as client, pytest.raises(httpx.ConnectError):
            client.get("/")


def test_a_line_that_would_be_two_is_not_sent() -> None:
    with _asking(ANSWERS["length"][0]) as (client, _), pytest.raises(httpx.LocalProtocolError):
        client.get("/", headers={"x": "a\r\nb: c"})


def test_cookies_are_kept_and_sent_until_others_take_their_place() -> None:
    said = b"HTTP/1.1 200 OK\r\nset-cookie: a=b; Path=/\r\ncontent-length: 0\r\n\r\n"
    with _asking(said) as (client, teller):
        client.get("/")
        assert b"cookie:" not in teller.heard.lower()
        client.get("/")
        assert b"cookie: a=b\r\n" in teller.heard.lower()
        client.cookies = httpx.Cookies({"c": "d"})
        client.get("/")
        assert teller.heard.lower().endswith(b"cookie: c=d\r\n\r\n")
        assert dict(client.cookies) == {"a": "b", "c": "d"}


def test_an_address_that_is_asked_again_has_its_own_parameters() -> None:
    with _asking(ANSWERS["length"][0]) as (client, teller):
        for params in ({"b": "1"}, {"b": "2"}, {}):
            client.get("/a", params=params)
        client.get(httpx.URL("/a?c=3"))
        asked = [line.split()[1] for line in teller.heard.split(b"\r\n") if line.startswith(b"GET ")]
        assert asked == [b"/a?b=1", b"/a?b=2", b"/a", b"/a?c=3"]


def test_a_header_beyond_ascii_is_read() -> None:
    said = "HTTP/1.1 200 OK\r\nx: Bücher\r\ncontent-length: 0\r\n\r\n".encode()
    with _asking(said) as (client, _):
        assert client.get("/").headers["x"] == "Bücher"
