"""Receivers of events that hang, drip, lie or vanish, beside one that answers: it must not notice them, and nobody else either.

Afterwards all of them answer, and each gets every event that it has not acknowledged, in order.

    python -m torture.receivers --payments 60 --seed 1
"""

from __future__ import annotations

import argparse
import random
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import httpx

from tests.bank_builder import CREDITOR_IBAN
from tests.receiver import Receiver
from torture.others import Bystander, Target, target

TIMEOUT_SECONDS = 2
MAX_DELAY_SECONDS = 5
MAX_ENDLESS_BYTES = 8 * 1024 * 1024
PATIENCE_SECONDS = 180
_NO_CONTENT = b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Misbehaving:
    """A receiver below HTTP, which does one thing wrong until it is told to answer. `acknowledged` are the ids it said yes to."""

    def __init__(self, name: str, chance: random.Random, trap_port: int) -> None:
        self.name, self._chance, self._trap_port = name, chance, trap_port
        self.acknowledged: list[str] = []
        self.most_sent = self.connections = 0
        self.answers = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        if name == "vanished":
            self._listener.close()
        else:
            self._serve()

    def _serve(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def answer_from_now_on(self) -> None:
        self.answers = True
        if self.name == "vanished":
            self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
            self._serve()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self.connections += 1
                threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(PATIENCE_SECONDS)
            how = self._chance.choice(sorted(_WAYS)) if self.name == "moody" else self.name
            if how == "closes" and not self.answers:
                return
            event_id = _read_request(connection)
            if self.answers:
                self.acknowledged.append(event_id)
                connection.sendall(_NO_CONTENT)
            elif _WAYS[how](self, connection):
                self.acknowledged.append(event_id)

    def _hangs(self, connection: socket.socket) -> bool:
        connection.recv(1)  # until the other side gives up
        return False

    def _drips(self, connection: socket.socket) -> bool:
        for byte in _NO_CONTENT * 100:
            connection.sendall(bytes([byte]))
            time.sleep(0.3)
        return False

    def _fails(self, connection: socket.socket) -> bool:
        connection.sendall(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\nno")
        return False

    def _redirects(self, connection: socket.socket) -> bool:
        where = f"http://127.0.0.1:{self._trap_port}/".encode()
        connection.sendall(b"HTTP/1.1 307 Temporary Redirect\r\nlocation: " + where + b"\r\ncontent-length: 0\r\n\r\n")
        return False

    def _endless(self, connection: socket.socket) -> bool:
        """200, and a body without an end: a yes all the same."""
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
        sent = 0
        with suppress(OSError):
            while sent < 10 * MAX_ENDLESS_BYTES:
                sent += connection.send(b"x" * 65536)
        self.most_sent = max(self.most_sent, sent)
        return True

    def _babbles(self, connection: socket.socket) -> bool:
        connection.sendall(self._chance.randbytes(2000))
        return False

    def _closes(self, _connection: socket.socket) -> bool:
        return False


_WAYS: dict[str, Callable[[Misbehaving, socket.socket], bool]] = {
    "hangs": Misbehaving._hangs, "drips": Misbehaving._drips, "fails": Misbehaving._fails,
    "redirects": Misbehaving._redirects, "endless": Misbehaving._endless, "babbles": Misbehaving._babbles,
    "closes": Misbehaving._closes,
}  # fmt: skip
NAMES = (*_WAYS, "moody", "vanished")


def _read_request(connection: socket.socket) -> str:
    head = b""
    while b"\r\n\r\n" not in head:
        chunk = connection.recv(65536)
        if not chunk:
            raise ConnectionError
        head += chunk
    head, _, body = head.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    while len(body) < int(fields[b"content-length"]):
        body += connection.recv(65536)
    return fields[b"webhook-id"].decode()


class Caller:
    def __init__(self, running: Target) -> None:
        self._http = httpx.Client(
            base_url=f"http://127.0.0.1:{running.port}", headers={"x-api-key": running.key}, timeout=60, trust_env=False
        )
        self._account = running.facts["banking"]["account_id"]

    def post(self, path: str, body: Any = None) -> Any:
        answer = self._http.post(path, **({} if body is None else {"json": body}))
        return answer.raise_for_status().json()["data"]

    def endpoint(self, port: int, host: str = "127.0.0.1") -> str:
        made = self.post("/v2/banking/webhook-endpoints", {"url": f"http://{host}:{port}/events"})
        return str(made["id"])

    def pay_and_cancel(self, number: int) -> None:
        """Two events about one payment: that it is there, and that it is not to be made."""
        body = {"account_id": self._account, "amount": "0.50", "creditor_name": "Muster GmbH",
                "creditor_iban": CREDITOR_IBAN, "description": f"Rechnung {number}"}  # fmt: skip
        made = self.post("/v2/banking/payments", body)
        self.post(f"/v2/banking/payments/{made['id']}/cancel")

    def has_nothing_pending(self, endpoint: str) -> bool:
        return not any(state == "pending" for *_, state in self.deliveries(endpoint))

    def deliveries(self, endpoint: str) -> list[tuple[str, str, str]]:
        """Every event that was for it: subject, id and state, in order."""
        found: list[tuple[str, str, str]] = []
        cursor = ""
        while True:
            params = {"sort": "id", "limit": "1000"} | ({"cursor": cursor} if cursor else {})
            page = self._http.get(f"/v2/banking/webhook-endpoints/{endpoint}/deliveries", params=params).json()
            if not page["data"]:
                return found
            found += [(row["data"]["payment_id"], row["id"], row["delivery"]["state"]) for row in page["data"]]
            cursor = page["next_cursor"]


def _verdict(name: str, expected: list[tuple[str, str, str]], acknowledged: list[str]) -> bool:
    """Each event was acknowledged, and those about one payment in their order."""
    first = list(dict.fromkeys(acknowledged))
    place = {event_id: number for number, event_id in enumerate(first)}
    missing = [event_id for _, event_id, _ in expected if event_id not in place]
    last: dict[str, int] = {}
    disorder = 0
    for subject, event_id, _ in expected:
        disorder += place.get(event_id, 0) < last.get(subject, -1)
        last[subject] = place.get(event_id, 0)
    holds = not missing and not disorder and len(expected) > 0
    print(
        f"{'holds' if holds else 'FAILS'}  {name}: {len(first)} of {len(expected)} events acknowledged,"
        f" {len(acknowledged) - len(first)} more than once, {disorder} out of order"
    )
    return holds


def _wait(is_so: Callable[[], bool]) -> float:
    began = time.monotonic()
    while not is_so() and time.monotonic() - began < PATIENCE_SECONDS:
        time.sleep(0.05)
    return time.monotonic() - began


def _attack(running: Target, good: Receiver, bad: list[Misbehaving], payments: int) -> bool:
    caller = Caller(running)
    good_endpoint = caller.endpoint(good.port)
    endpoints = {one.name: caller.endpoint(one.port) for one in bad}
    with Bystander(running) as others:
        for number in range(payments):
            caller.pay_and_cancel(number)
        delay = _wait(lambda: len(set(good.ids())) >= 2 * payments)
    holds = others.verdict(f"{len(bad)} receivers misbehave, {payments} payments are made and cancelled")
    holds &= delay < MAX_DELAY_SECONDS
    print(
        f"{'holds' if delay < MAX_DELAY_SECONDS else 'FAILS'}  the good one had every event {delay:.1f} s after the last"
    )
    endless = max(one.most_sent for one in bad)
    holds &= endless < MAX_ENDLESS_BYTES
    print(
        f"{'holds' if endless < MAX_ENDLESS_BYTES else 'FAILS'}  of an endless answer at most {endless:,} bytes were taken"
    )
    for one in bad:
        one.answer_from_now_on()
        for step in ("pause", "resume"):
            caller.post(f"/v2/banking/webhook-endpoints/{endpoints[one.name]}/{step}")
    holds &= _verdict("good", caller.deliveries(good_endpoint), good.ids())
    for one in bad:
        endpoint = endpoints[one.name]
        _wait(partial(caller.has_nothing_pending, endpoint))
        holds &= _verdict(one.name, caller.deliveries(endpoint), one.acknowledged)
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--payments", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    trap = Receiver()
    good = Receiver()
    bad = [Misbehaving(name, random.Random(f"{options.seed} {name}"), trap.port) for name in NAMES]
    # The trap too: what keeps a redirect from being followed is not its address.
    ports = (good.port, trap.port, *(one.port for one in bad))
    allowed = ",".join(f"127.0.0.1:{port}" for port in ports)
    with target(webhook_allow=allowed, webhook_timeout_seconds=TIMEOUT_SECONDS) as running:
        holds = _attack(running, good, bad, options.payments)
    print(f"{'FAILS' if trap.connections else 'holds'}  redirects: followed {trap.connections} times")
    return 0 if holds and not trap.connections else 1


if __name__ == "__main__":
    sys.exit(main())
