"""The client on a real network: loopback servers, certificates of our own, and a resolver that lies as an attacker's would."""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kontobahn import outbound
from kontobahn.outbound import OutboundClient, Refused, Reply, Rule, Unreached
from kontobahn.posts import WebhookClient
from tests.receiver import Answer, Authority, FakeNames, Receiver, receiving
from tests.waiting import PATIENCE_SECONDS, take_time

NAME = "receiver.example"
Post = Callable[..., Any]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def through(client: OutboundClient, *calls: Callable[[], Coroutine[Any, Any, Any]]) -> list[Any]:
    """The result of each call, one after the other, on one event loop; an exception is a result like any other."""

    async def main() -> list[Any]:
        found = []
        for call in calls:
            try:
                found.append(await call())
            except (Refused, Unreached) as error:
                found.append(error)
        await client.close()
        return found

    return asyncio.run(main())


def send(client: OutboundClient, url: str, **options: Any) -> Any:
    return through(client, lambda: client.send("POST", url, body=b"{}", **options))[0]


def send_by_posts(client: OutboundClient, url: str, *, seconds: float = 15, max_bytes: int = 4096) -> Any:
    async def once() -> Reply:
        posts = WebhookClient(client)
        try:
            return await posts.post(url, {}, b"{}", seconds=seconds, max_bytes=max_bytes)
        finally:
            posts.close()

    return through(client, once)[0]


@pytest.fixture(params=[send, send_by_posts])
def post(request: pytest.FixtureRequest) -> Post:
    """Rules that hold for every way to send."""
    return request.param  # type: ignore[no-any-return]


def named(receiver: Receiver, host: str = NAME) -> Rule:
    return Rule.of_setting(f"{host}:{receiver.port}")


def test_it_connects_to_the_address_it_checked_and_asks_for_the_name(post: Post, authority: Authority) -> None:
    with receiving(tls=authority.server(NAME)) as receiver:
        names = FakeNames(receiver_example=["127.0.0.1"])
        client = OutboundClient(named(receiver), resolver=names, tls=authority.client())
        reply = post(client, f"https://{NAME}:{receiver.port}/a?b=%20c")
        assert isinstance(reply, Reply)
        assert reply.status == 204
        assert receiver.server_names == [NAME]
        assert receiver.deliveries[0].headers["host"] == f"{NAME}:{receiver.port}"
        assert receiver.deliveries[0].path == "/a?b=%20c"
        assert names.asked == [NAME], "resolved once"


def test_a_certificate_for_another_name_is_refused(post: Post, authority: Authority) -> None:
    with receiving(tls=authority.server("other.example")) as receiver:
        client = OutboundClient(
            named(receiver), resolver=FakeNames(receiver_example=["127.0.0.1"]), tls=authority.client()
        )
        failure = post(client, f"https://{NAME}:{receiver.port}/")
        assert isinstance(failure, Unreached)
        assert failure.kind == "tls"
        assert receiver.deliveries == []


def test_a_certificate_of_an_unknown_authority_is_refused(post: Post, authority: Authority) -> None:
    with receiving(tls=authority.server(NAME)) as receiver:
        client = OutboundClient(named(receiver), resolver=FakeNames(receiver_example=["127.0.0.1"]))
        assert post(client, f"https://{NAME}:{receiver.port}/").kind == "tls"
        assert receiver.deliveries == []


@pytest.mark.parametrize(
    "answers",
    [["127.0.0.1"], ["::1"], ["10.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["127.0.0.1", "8.8.8.8"], ["2606:4700::1", "::ffff:127.0.0.1"],
     ["64:ff9b::7f00:1"], ["169.254.169.254"], ["fe80::1%1"]],
)  # fmt: skip
def test_a_name_with_one_answer_that_is_not_public_gets_no_connection(answers: list[str]) -> None:
    client = OutboundClient(Rule(), resolver=FakeNames(receiver_example=answers))
    saved, sent, posted = through(
        client,
        lambda: client.check(f"https://{NAME}/"),
        lambda: client.send("POST", f"https://{NAME}/"),
        lambda: WebhookClient(client).post(f"https://{NAME}/", {}, b"{}", seconds=15, max_bytes=4096),
    )
    for refusal in (saved, sent, posted):
        assert isinstance(refusal, Refused)
        assert not any(address in str(refusal) for address in answers), "addresses inside are nobody's business"


@contextmanager
def trap() -> Iterator[list[Any]]:
    """A listener on the https port of an address that only this machine has; what connects is caught."""
    caught: list[Any] = []
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.77", 8443))
        except OSError:
            pytest.skip("127.0.0.77:8443 cannot be had here")
        listener.listen()
        listener.settimeout(PATIENCE_SECONDS)

        def catch() -> None:
            try:
                while True:
                    caught.append(listener.accept())
            except OSError:
                pass

        thread = threading.Thread(target=catch, daemon=True)
        thread.start()
        yield caught
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE_SECONDS)
    for connection, _ in caught:
        connection.close()


def test_a_name_that_was_public_when_it_was_saved_and_is_not_now_gets_no_connection(post: Post) -> None:
    with trap() as caught:
        names = FakeNames(receiver_example=[["93.184.216.34"], ["127.0.0.77"]])
        client = OutboundClient(Rule(), resolver=names)
        url = f"https://{NAME}:8443/"
        assert through(client, lambda: client.check(url)) == [None]
        assert isinstance(post(client, url), Refused)
        assert names.asked == [NAME, NAME]
    assert caught == []


def test_the_trap_catches_what_is_let_through(post: Post) -> None:
    """So that the test before it can fail."""
    with trap() as caught:
        client = OutboundClient(Rule.of_setting(f"{NAME}:8443"), resolver=FakeNames(receiver_example=["127.0.0.77"]))
        assert isinstance(post(client, f"https://{NAME}:8443/", seconds=0.5), Unreached)
    assert len(caught) == 1


def test_a_redirect_is_an_answer_and_is_not_followed(post: Post) -> None:
    with receiving() as inside:
        redirect = Answer(302, {"location": f"http://127.0.0.1:{inside.port}/secret"})
        with receiving(lambda _: redirect) as receiver:
            reply = post(OutboundClient(named(receiver, "localhost")), receiver.url)
            assert reply.status == 302
        assert inside.connections == 0


def test_a_proxy_of_the_environment_is_not_used(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as proxy, receiving() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert post(OutboundClient(named(receiver, "localhost")), receiver.url).status == 204
        assert proxy.connections == 0


def test_a_large_answer_is_read_up_to_the_limit_only() -> None:
    with receiving(lambda _: Answer(200, body=b"x" * 5_000_000)) as receiver:
        reply = send(OutboundClient(named(receiver, "localhost")), receiver.url, max_bytes=4096)
        assert (reply.status, len(reply.content)) == (200, 4096)


def test_an_answer_that_is_needed_whole_and_is_longer_is_none() -> None:
    with receiving(lambda _: Answer(200, body=b"x" * 4096)) as receiver:
        for most, result in ((4097, 4096), (4096, "size"), (100, "size")):
            reply = send(OutboundClient(named(receiver, "localhost")), receiver.url, max_bytes=most, whole=True)
            assert (reply.kind if isinstance(reply, Unreached) else len(reply.content)) == result


class Body:
    """An answer that comes in pieces, and tells how much was asked for and whether the connection was closed."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces, self.asked, self.is_closed, self.content = list(pieces), list[int](), False, self

    async def read(self, size: int) -> bytes:
        assert size > 0, "nothing left to ask for"
        self.asked.append(size)
        piece = self.pieces.pop(0) if self.pieces else b""
        if len(piece) > size:
            self.pieces.insert(0, piece[size:])
        return piece[:size]

    def at_eof(self) -> bool:
        return not self.pieces

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("pieces", "asked", "content", "is_closed"),
    [
        ([b"abc"], [10, 7], b"abc", False),
        ([b"abcdef", b"ghij"], [10, 4], b"abcdefghij", False),
        ([b"abcdef", b"ghijkl"], [10, 4], b"abcdefghij", True),
        ([], [10], b"", False),
    ],
)
def test_no_more_is_asked_for_than_may_be_kept_and_the_rest_is_not_drained(
    pieces: list[bytes], asked: list[int], content: bytes, is_closed: bool
) -> None:
    body: Any = Body(*pieces)
    assert asyncio.run(outbound._read(body, 10)) == content
    assert (body.asked, body.is_closed) == (asked, is_closed)


def test_a_compressed_answer_is_not_unpacked() -> None:
    bomb = gzip.compress(b"\0" * 3_000_000)
    with receiving(lambda _: Answer(200, {"content-encoding": "gzip"}, bomb)) as receiver:
        reply = send(OutboundClient(named(receiver, "localhost")), receiver.url, max_bytes=100_000)
        assert reply.content == bomb


def test_a_connection_is_kept_for_the_next_request() -> None:
    with receiving(lambda _: Answer(200, body=b"thanks")) as receiver:
        client = OutboundClient(named(receiver, "localhost"))
        replies = through(client, *[lambda: client.send("POST", receiver.url, body=b"{}")] * 5)
        assert [reply.status for reply in replies] == [200] * 5
        assert receiver.connections == 1


def test_cookies_are_not_kept() -> None:
    with receiving(lambda _: Answer(200, {"set-cookie": "a=b; path=/"})) as receiver:
        client = OutboundClient(named(receiver, "localhost"))
        through(client, *[lambda: client.send("POST", receiver.url, body=b"{}")] * 2)
        assert "cookie" not in receiver.deliveries[1].headers


def _raw_server(answer: bytes, pause: float) -> tuple[socket.socket, int]:
    """Takes one connection and sends the answer byte by byte."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            try:
                for number in range(len(answer)):
                    connection.sendall(answer[number : number + 1])
                    take_time(pause)
                # As long as the caller stays.
                connection.recv(1)
            except OSError:
                pass

    threading.Thread(target=serve, daemon=True).start()
    return listener, listener.getsockname()[1]


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK\r\nx-padding: " + b"x" * 500, b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n" + b"x" * 900],
    ids=["silent", "slow headers", "slow body"],
)  # fmt: skip
def test_a_receiver_that_takes_its_time_is_left_after_the_time_for_all_of_it(post: Post, answer: bytes) -> None:
    listener, port = _raw_server(answer, 0.02)
    with listener:
        # The answer would take ten seconds and more: whoever gives up did not wait for its end.
        failure = post(OutboundClient(Rule.of_setting(f"localhost:{port}")), f"http://localhost:{port}/", seconds=0.4)
        assert isinstance(failure, Unreached)
        assert failure.kind == "timeout"


@pytest.mark.parametrize(
    "answer", [b"nonsense\r\n\r\n", b"HTTP/1.1 999999 X\r\n\r\n", b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000]
)
def test_nonsense_is_a_failure_in_our_words(post: Post, answer: bytes) -> None:
    listener, port = _raw_server(answer, 0)
    with listener:
        failure = post(OutboundClient(Rule.of_setting(f"localhost:{port}")), f"http://localhost:{port}/", seconds=3)
        assert isinstance(failure, Unreached)
        assert "127.0.0.1" not in str(failure)
        assert "localhost" not in str(failure)


def test_a_closed_port_and_an_unknown_name_are_told_apart(post: Post) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        assert post(OutboundClient(Rule.of_setting(f"localhost:{port}")), f"http://localhost:{port}/").kind == "connect"
    assert post(OutboundClient(Rule(), resolver=FakeNames()), "https://nowhere.example/").kind == "dns"


def test_a_name_that_cannot_be_resolved_can_be_saved() -> None:
    """A name server that is down must not keep anybody from setting a URL; every connection checks again."""
    client = OutboundClient(Rule(), resolver=FakeNames())
    assert through(client, lambda: client.check("https://not-yet.example/")) == [None]


def test_an_address_is_checked_without_asking_for_a_name(tmp_path: Path) -> None:
    names = FakeNames()
    client = OutboundClient(Rule(), resolver=names)
    found = through(client, lambda: client.check("https://127.0.0.1/"), lambda: client.send("POST", "https://[::1]/"))
    assert [type(item) for item in found] == [Refused, Refused]
    assert names.asked == []
