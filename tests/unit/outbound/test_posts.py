"""The end of an answer, and what becomes of its connection: a server on loopback that says exactly what the test wants."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from kontobahn import posts
from kontobahn.outbound import OutboundClient, Rule, Unreached
from kontobahn.posts import MAX_HEAD_BYTES, WebhookClient
from tests.waiting import PATIENCE_SECONDS

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Script:
    """For each connection, what is sent after each request; after the last it stays open. `None` closes without an answer."""

    def __init__(self, *connections: Sequence[bytes | None]) -> None:
        self._left = list(connections)
        self.requests: list[bytes] = []
        self.connections = 0
        self.ended = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with suppress(ConnectionError):  # the other side has had enough
                await self._converse(reader, writer)
        finally:
            self.ended += 1
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in self._left.pop(0):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            self.requests.append(head + await reader.readexactly(length))
            if answer is None:
                return
            writer.write(answer)
            await writer.drain()
        await reader.read()  # until the other side closes it


@asynccontextmanager
async def served(
    script: Script, host: str = "127.0.0.1", name: str = "localhost"
) -> AsyncIterator[tuple[WebhookClient, str]]:
    """A sender, and the URL of the script's server. In the end all is closed, and the event loop has had nothing to complain of."""
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
    server = await asyncio.start_server(script.serve, host, 0)
    place = f"{name}:{server.sockets[0].getsockname()[1]}"
    sender = WebhookClient(OutboundClient(Rule.of_setting(place)))
    yield sender, f"http://{place}"
    sender.close()
    server.close()
    await until(lambda: script.ended == script.connections)
    assert complaints == []


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0)


def posted(script: Script, count: int = 1, *, max_bytes: int = 4096, at_once: bool = False) -> list[Any]:
    """Posts so often; returns the statuses and the retry-after headers, or the kind of failure."""

    async def main() -> list[Any]:
        async with served(script) as (sender, url):

            async def once(number: int) -> Any:
                try:
                    reply = await sender.post(
                        f"{url}/a?b=c", {"webhook-id": f"evt_{number}"}, b"{}", seconds=30, max_bytes=max_bytes
                    )
                except Unreached as failure:
                    return failure.kind
                return reply.status, reply.headers.get("retry-after")

            if at_once:
                return await asyncio.gather(*(once(number) for number in range(count)))
            return [await once(number) for number in range(count)]

    return asyncio.run(main())


def test_a_request_is_sent_as_it_should_be() -> None:
    script = Script([OK])
    assert posted(script) == [(200, None)]
    head, _, body = script.requests[0].partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ") for line in lines)
    assert (first, body) == ("POST /a?b=c HTTP/1.1", b"{}")
    assert headers.pop("Host").startswith("localhost:")
    assert headers == {"Accept": "*/*", "User-Agent": "Kontobahn", "webhook-id": "evt_0", "Content-Length": "2"}


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (OK, (200, None)),
        (b"HTTP/1.1 204 No Content\r\n\r\n", (204, None)),
        (b"HTTP/1.1 503 Busy\r\nRETRY-After: 17\r\ncontent-length: 0\r\n\r\n", (503, "17")),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nretry-after: 9\r\n\r\n", (200, None)),
        (
            b"HTTP/1.1 100 Continue\r\nretry-after: 9\r\n\r\nHTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n",
            (202, None),
        ),
    ],
    ids=["length", "none", "header", "chunks with a trailer", "after an informational one"],
)
def test_a_complete_answer_leaves_its_connection_to_the_next_post(answer: bytes, result: Any) -> None:
    script = Script([answer, answer, answer])
    assert posted(script, 3) == [result] * 3
    assert script.connections == 1


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok", (200, None)),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", (200, None)),
        (OK + OK, (200, None)),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5000000\r\n\r\n" + b"x" * 4096, (200, None)),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * MAX_HEAD_BYTES, (200, None)),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * MAX_HEAD_BYTES, "protocol"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * MAX_HEAD_BYTES, "protocol"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok", "protocol"),
        (b"nonsense\r\n\r\n", "protocol"),
    ],
    ids=["close", "1.0", "two answers", "too long", "too many chunks", "upgrade", "long head", "informational", "lengths", "nonsense"],
)  # fmt: skip
def test_after_any_other_answer_a_new_connection_is_made(answer: bytes, result: Any) -> None:
    script = Script([answer], [OK])
    assert posted(script, 2) == [result, (200, None)]
    assert script.connections == 2


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    class Ending(Script):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            await reader.readuntil(b"{}")
            writer.write(self._left.pop(0)[0] or b"")
            writer.close()
            self.ended += 1

    assert posted(Ending([b"HTTP/1.1 200 OK\r\n\r\nsome"])) == [(200, None)]
    assert posted(Ending([b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsome"])) == ["protocol"]
    assert posted(Ending([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nsome\r\n"])) == ["protocol"]
    assert posted(Ending([b"HTTP/1.1 200 OK\r\n"])) == ["protocol"]
    assert posted(Ending([b""])) == ["protocol"]


def test_a_kept_connection_that_was_closed_meanwhile_costs_no_attempt() -> None:
    script = Script([OK, None], [OK])
    assert posted(script, 2) == [(200, None), (200, None)]
    assert script.connections == 2
    # Once only, and never for a connection that is new or has begun to answer.
    assert posted(Script([OK, None], [None]), 2) == [(200, None), "protocol"]
    assert posted(Script([None], [OK]), 1) == ["protocol"]
    assert posted(Script([OK, b"nonsense\r\n\r\n"], [OK]), 2) == [(200, None), "protocol"]


def test_posts_at_once_have_a_connection_each() -> None:
    script = Script([OK], [OK], [OK])
    assert posted(script, 3, at_once=True) == [(200, None)] * 3
    assert script.connections == 3


def test_a_connection_that_is_not_used_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posts, "KEEP_SECONDS", 0.01)
    script = Script([OK])

    async def main() -> None:
        async with served(script) as (sender, url):
            await post(sender, url)
            await until(lambda: script.ended == 1)

    asyncio.run(main())


def test_a_connection_that_was_just_used_is_kept_and_one_that_is_closed_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script([OK, OK])

    async def main() -> None:
        async with served(script) as (sender, url):
            await post(sender, url)
            sender._close_unused()
            await post(sender, url)
            assert script.connections == 1
            monkeypatch.setattr(posts, "KEEP_SECONDS", 0)
            sender._close_unused()
            assert (sender._unused, sender._sweep) == ({}, None)

    asyncio.run(main())


def test_a_connection_on_which_something_comes_unasked_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posts, "KEEP_SECONDS", 10 * PATIENCE_SECONDS)

    class Talking(Script):
        """Goes on talking once its answer has arrived."""

        async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"{}")
            writer.write(OK)
            await arrived.wait()
            writer.write(OK)
            await reader.read()

    script, arrived = Talking([]), asyncio.Event()

    async def main() -> None:
        async with served(script) as (sender, url):
            await post(sender, url)
            arrived.set()
            await until(lambda: script.ended == 1)
            await post(sender, url)
            assert script.connections == 2

    asyncio.run(main())


def test_an_answer_may_come_in_many_pieces() -> None:
    large = 1_000_000
    script = Script([b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (large, bytes(large)), OK])
    assert posted(script, 2, max_bytes=2 * large) == [(200, None)] * 2
    assert script.connections == 1


def test_a_receiver_that_does_not_speak_tls_is_told_from_one_with_a_bad_certificate() -> None:
    class Plain(Script):
        async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await reader.read()

    async def main() -> None:
        async with served(Plain([])) as (sender, url):
            with pytest.raises(Unreached, match="No secure connection") as raised:
                await post(sender, url.replace("http:", "https:"))
            assert raised.value.kind == "tls"

    asyncio.run(main())


def test_a_name_server_that_does_not_answer_in_time_is_told_from_one_that_knows_no_such_name() -> None:
    class Failing:
        def __init__(self, failure: OSError) -> None:
            self._failure = failure

        async def addresses(self, host: str, port: int) -> list[str]:
            raise self._failure

    for failure, kind in ((TimeoutError(), "timeout"), (OSError(), "dns")):
        sender = WebhookClient(OutboundClient(Rule(), resolver=Failing(failure)))
        with pytest.raises(Unreached) as raised:
            asyncio.run(sender.post("https://receiver.example/", {}, b"", seconds=30, max_bytes=1))
        assert raised.value.kind == kind


def test_an_address_may_be_of_either_version() -> None:
    script = Script([OK])

    async def main() -> None:
        async with served(script, "::1", "[::1]") as (sender, url):
            await post(sender, url)
            assert script.requests[0].split(b"\r\n")[1].decode() == f"Host: {url.removeprefix('http://')}"

    if socket.has_ipv6:
        asyncio.run(main())
    assert posts._address_info("::1", 80)[4] == ("::1", 80, 0, 0)
    assert posts._address_info("127.0.0.1", 80)[4] == ("127.0.0.1", 80)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://a.example/", "a.example"),
        ("https://a.example:443/", "a.example"),
        ("https://a.example:80/", "a.example:80"),
        ("http://a.example/", "a.example"),
        ("http://a.example:443/", "a.example:443"),
    ],
)
def test_the_host_is_named_with_its_port_if_it_is_not_the_usual_one(url: str, host: str) -> None:
    target = Rule(anywhere=True).parse(url)
    assert posts._head(target, "x").split(b"\r\n")[1].decode() == f"Host: {host}"


async def post(sender: WebhookClient, url: str) -> None:
    reply = await sender.post(url + "/", {}, b"{}", seconds=30, max_bytes=10)
    assert reply.status == 200


def test_a_header_with_a_line_break_is_not_sent() -> None:
    sender = WebhookClient(OutboundClient(Rule.of_setting("localhost:1")))
    for value in ("a\r\nb: c", "a\nb", "a\rb"):
        with pytest.raises(ValueError, match="line break"):
            asyncio.run(sender.post("http://localhost:1/", {"x": value}, b"", seconds=1, max_bytes=1))
