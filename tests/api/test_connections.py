"""Connections have bounds: in all, by address, and in time. Other callers are answered meanwhile."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack, suppress

import pytest

from kontobahn import sockets
from kontobahn.sockets import Bounds, ConnectionWatch
from tests.harness import Service, ServiceFactory
from tests.spec_pages import on_sqlite
from tests.waiting import PATIENCE_SECONDS, eventually

pytestmark = on_sqlite
SWEEP_SECONDS = sockets.SWEEP_SECONDS
HEAD = "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n"


@pytest.fixture(autouse=True)
def _looked_at_as_often_as_in_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "SWEEP_SECONDS", SWEEP_SECONDS)


def connect(stack: ExitStack, service: Service, sent: str = "", source: str = "127.0.0.1") -> socket.socket:
    raw = stack.enter_context(socket.create_connection(("127.0.0.1", service.port), PATIENCE_SECONDS, (source, 0)))
    raw.sendall(sent.encode())
    return raw


def answer_of(raw: socket.socket) -> bytes:
    """Everything up to the end of the connection: the test waits for it to be ended."""
    answer = b""
    with suppress(ConnectionResetError):
        while part := raw.recv(65536):
            answer += part
    return answer


def open_ones(connections: list[socket.socket]) -> list[socket.socket]:
    still = []
    for raw in connections:
        raw.setblocking(False)
        try:
            if raw.recv(1, socket.MSG_PEEK):
                still.append(raw)
        except BlockingIOError:
            still.append(raw)
        except ConnectionResetError:
            pass
    return still


def accepted(watch: ConnectionWatch, number: int) -> None:
    """Waits until the server has taken so many connections, whatever the watch makes of them."""

    def are_there() -> bool:
        watch._find(watch._now())
        return watch.open_connections >= number

    eventually(are_there, "the server takes no connection")


def wait_until_open(connections: list[socket.socket], at_most: int) -> list[socket.socket]:
    left: list[socket.socket] = []

    def are_few() -> bool:
        left[:] = open_ones(connections)
        return len(left) <= at_most

    eventually(are_few, "too many connections are still open")
    return left


def test_an_address_has_a_bound_and_the_oldest_idle_connection_goes_first(start_service: ServiceFactory) -> None:
    service = start_service(connections_per_address=5)
    with ExitStack() as stack:
        other = connect(stack, service, source="127.0.0.2")
        idle = [connect(stack, service, "GET / HTTP/1.1\r\nx: ") for _ in range(30)]
        still = wait_until_open(idle, 5)
        assert set(still) <= set(idle[-6:]), "those that came last are left"
        other.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert answer_of(other).startswith(b"HTTP/1.1 200"), "another address is not affected"


def test_a_trusted_proxy_may_have_any_number(start_service: ServiceFactory) -> None:
    service = start_service(connections_per_address=5, trusted_proxies="127.0.0.1")
    with ExitStack() as stack:
        idle = [connect(stack, service) for _ in range(20)]
        over = [connect(stack, service, source="127.0.0.2") for _ in range(20)]
        wait_until_open(over, 5)
        assert len(open_ones(idle)) == 20


def test_more_idle_connections_than_there_are_places_shut_nobody_out(start_service: ServiceFactory) -> None:
    service = start_service(connections=40, connections_per_address=1000)
    with ExitStack() as stack:
        idle = [connect(stack, service, "POST / HTTP/1.1\r\n") for _ in range(120)]
        for _ in range(3):
            assert service.get("/healthz").status_code == 200
        wait_until_open(idle, 40)


def test_one_address_has_so_many_requests_at_once(start_service: ServiceFactory) -> None:
    service = start_service(connections_per_address=3)
    with ExitStack() as stack:
        held = [connect(stack, service, HEAD.format(path="/v2/auth/sessions") + "\r\n") for _ in range(3)]
        eventually(lambda: len(service.application.running._peers) == 3)
        refused = answer_of(connect(stack, service, "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"))
        assert refused.startswith(b"HTTP/1.1 429")
        assert b"retry-after: 1\r\n" in refused
        other = connect(stack, service, "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "127.0.0.2")
        assert answer_of(other).startswith(b"HTTP/1.1 200")
        assert len(open_ones(held)) == 3, "connections with a request are not ended"
    eventually(lambda: not service.application.running._networks)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v2/auth/sessions", b"400"), ("/sandbox/connect/x", b"408"), ("/sandbox/pay/x", b"408"), ("/nothing", b"408")],
)
def test_a_body_that_drips_is_ended_on_every_route(start_service: ServiceFactory, path: str, status: bytes) -> None:
    service = start_service(body_seconds=1)
    with ExitStack() as stack:
        raw = connect(stack, service, HEAD.format(path=path) + "content-type: application/json\r\n\r\n{")
        assert answer_of(raw).split(b" ")[1] == status


def test_headers_that_drip_and_connections_without_a_request_are_ended(start_service: ServiceFactory) -> None:
    service = start_service(header_seconds=1)
    with ExitStack() as stack:
        silent, dripping = connect(stack, service), connect(stack, service, "GET / HT")
        assert b"HTTP/1.1 200" not in answer_of(dripping)
        assert answer_of(silent) == b""


def test_a_connection_on_which_nothing_moves_is_ended(start_service: ServiceFactory) -> None:
    service = start_service()
    now = 1000.0
    watch = ConnectionWatch(
        Bounds(1000, 1000, 60), service.application.running, lambda address: False, service.port, lambda: now
    )
    with ExitStack() as stack:
        used = connect(stack, service, "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        stalled = connect(stack, service, "GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n")
        assert used.recv(65536)
        assert stalled.recv(1)
        watch.sweep()
        assert watch.open_connections >= 2
        now += 59
        used.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert used.recv(65536)
        watch.sweep()
        now += 2
        watch.sweep()
        watch.sweep()
        answer_of(stalled)
        used.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert answer_of(used).startswith(b"HTTP/1.1 200")


RUNNING = HEAD.format(path="/v2/auth/sessions") + "content-type: application/json\r\nconnection: close\r\n\r\n"


def test_a_connection_with_a_running_call_is_never_idle(start_service: ServiceFactory) -> None:
    service = start_service(body_seconds=PATIENCE_SECONDS)
    now = 1000.0
    watch = ConnectionWatch(
        Bounds(1000, 1, 60), service.application.running, lambda _: False, service.port, lambda: now
    )
    with ExitStack() as stack:
        running = [connect(stack, service, RUNNING) for _ in range(3)]
        eventually(lambda: len(service.application.running._peers) == 3)
        idle = connect(stack, service)
        accepted(watch, 4)
        for _ in range(4):
            watch.sweep()
            now += 1000
        assert answer_of(idle) == b""
        for raw in running:
            raw.sendall(b"{" * 100)
            assert answer_of(raw).startswith(b"HTTP/1.1 400"), "its answer came"


def test_a_request_that_waits_for_a_busy_event_loop_is_running(start_service: ServiceFactory) -> None:
    service = start_service()
    now, goes_on = 1000.0, threading.Event()
    assert service._loop is not None
    watch = ConnectionWatch(
        Bounds(1000, 1, 60), service.application.running, lambda _: False, service.port, lambda: now, service._loop
    )
    with ExitStack() as stack:
        service._loop.call_soon_threadsafe(goes_on.wait)
        try:
            asked = connect(stack, service, "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            idle = connect(stack, service)
            accepted(watch, 2)
            for _ in range(4):
                watch.sweep()
                now += 1000
        finally:
            goes_on.set()
        assert answer_of(asked).startswith(b"HTTP/1.1 200")

        def has_ended() -> bool:
            watch.sweep()
            return not open_ones([idle])

        now += 1000
        eventually(has_ended)
