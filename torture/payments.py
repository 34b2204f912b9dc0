"""Payments under fault: reports twice, late, contradictory and in the wrong order, and the service killed again and again.

The script is the bank (it signs deliveries as the sandbox does) and the receiver of events. At the end every payment must have
one final status, its credits charged or released once, and one event for every change, each delivered, in order.

    python -m torture.payments --payments 1000 --kills 12
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
from standardwebhooks import Webhook

from kontobahn.bank_providers.sandbox.webhooks import PATH, sign
from kontobahn.settings import load
from kontobahn.vault import open_vault
from tests.forked_commands import started
from tests.journeys.process import kontobahn

STEPS = ("initiated_info_required", "authorizing", "authorized", "processing", "executed")
ENDS = ("settled", "failed", "rejected")
# Longer than the service looks for a payment whose creation was cut off.
PATIENCE_SECONDS = 900


class Receiver:
    """Receives events, checks each signature with the reference implementation, and now and then refuses one."""

    def __init__(self, seed: int, address: str = "127.0.0.1", refuses: float = 0.05) -> None:
        self.taken: list[dict[str, Any]] = []
        self.wrong: list[str] = []
        self.secret = ""
        # Each event at most once: the second wait for a receiver is five minutes.
        refused: set[str] = set()
        chance, lock, outer = random.Random(seed), threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                with lock:
                    refuse = chance.random() < refuses and self.headers["webhook-id"] not in refused
                    refused.add(self.headers["webhook-id"])
                    if not refuse:
                        outer.take(body, {name.lower(): value for name, value in self.headers.items()})
                self.send_response(500 if refuse else 204)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer((address, 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, body: bytes, headers: dict[str, str]) -> None:
        try:
            Webhook(self.secret).verify(body, headers)
        except Exception as error:
            self.wrong.append(f"{type(error).__name__}: {error}")
        self.taken.append({"id": headers["webhook-id"], **json.loads(body)})


class Service:
    """A real process that is killed and restarted at will."""

    def __init__(self, data: Path, receiver_port: int, database_url: str = "") -> None:
        self.data = data
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("KONTOBAHN_")},
            "KONTOBAHN_WEBHOOK_ALLOW": f"127.0.0.1:{receiver_port}",
            "KONTOBAHN_LIMIT_API_REQUESTS": "1000000000",
            "KONTOBAHN_LIMIT_WEBHOOK_REQUESTS": "1000000000",
            "KONTOBAHN_DATABASE_URL": database_url,
            # A call that was cut off may be made again soon.
            "KONTOBAHN_CALL_HOLD_SECONDS": "5",
            "KONTOBAHN_LOG_LEVEL": "error",
        }
        # Without `verify=False` each would read the certificates of every authority, for a service without TLS.
        self._http = httpx.Client(timeout=30, verify=False, trust_env=False)
        self.start()

    def start(self) -> None:
        facts = self.data / "demo.json"
        before = facts.stat().st_mtime_ns if facts.exists() else 0
        self.process = started(
            ["serve", "--demo", "--port", "0", "--data", str(self.data)], self._environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if facts.exists() and facts.stat().st_mtime_ns != before:
                self.facts = json.loads(facts.read_text("utf-8"))
                try:
                    if self._http.get(f"{self.facts['base_url']}/healthz").status_code == 200:
                        return
                except httpx.HTTPError:
                    pass
            time.sleep(0.05)
        raise RuntimeError("The service did not start.")

    def close(self) -> None:
        self._http.close()
        self.process.kill()
        self.process.wait()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.start()

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Behaves like a careful client: sends the same call again until there is an answer."""
        headers = {"x-api-key": self.facts["api_key"], **options.pop("headers", {})}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                answer = self._http.request(method, self.facts["base_url"] + path, headers=headers, **options)
                if answer.status_code < 500 and answer.status_code != 409:
                    return answer
            except httpx.HTTPError:
                answer = None
            if time.monotonic() > deadline:
                raise RuntimeError(f"{method} {path} was not answered: {answer}")
            time.sleep(0.1)


@contextmanager
def running(data: Path, receiver: Receiver, database_url: str) -> Iterator[Service]:
    service = Service(data, receiver.port, database_url)
    try:
        yield service
    finally:
        service.close()


def pay(service: Service, number: int) -> str:
    """A payment that the sandbox does not touch, because nobody confirms it."""
    body = {
        "account_id": service.facts["banking"]["account_id"], "amount": f"{100 + number % 900}.{number % 100:02d}",
        "creditor_name": "Muster GmbH", "creditor_iban": "DE75512108001245126199", "description": f"Rechnung {number}",
        "custom_fields": {"number": number},
    }  # fmt: skip
    answer = service.call("POST", "/v2/banking/payments", json=body, headers={"idempotency-key": f"torture-{number}"})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["data"]["id"])


def reports_of(chance: random.Random) -> list[tuple[str | None, int]]:
    """The reports of the bank about one payment: each status, and how often. It includes a final status, perhaps followed by another."""
    said: list[tuple[str | None, int]] = [(step, chance.choice((1, 1, 2))) for step in STEPS if chance.random() < 0.6]
    said.append((None, 1))
    said.append((chance.choice(ENDS), chance.choice((1, 2, 3))))
    if chance.random() < 0.3:
        said.append((chance.choice(ENDS), 1))
    if chance.random() < 0.5:
        chance.shuffle(said)
    return said


def deliver(service: Service, key: bytes, payment_ref: str, status: str | None, times: int) -> None:
    data = {
        "payment_ref": payment_ref,
        "status": status or "on_hold",
        "raw_status": "XXXX",
        "error_class": None,
        "error_message": None,
    }
    body = json.dumps({"data": data, "meta": {"version": "1"}}).encode()
    delivery_id = f"dlv_{secrets.token_hex(12)}"
    for _ in range(times):
        timestamp = str(int(time.time()))
        headers = {
            "content-type": "application/json", "webhook-id": delivery_id, "webhook-timestamp": timestamp,
            "webhook-signature": sign(key, delivery_id, timestamp, body),
        }  # fmt: skip
        answer = service.call("POST", PATH, content=body, headers=headers)
        assert answer.status_code == 200, answer.text


def wait_until(what: str, is_so: Any) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"It took too long until {what}.")
        time.sleep(0.2)


def run(data: Path, payments: int, kills: int, seed: int, *, kill_creations: bool = True) -> str:
    """Without `kill_creations` no creation is cut off on its way to the bank, because finding out takes minutes."""
    chance = random.Random(seed)
    receiver = Receiver(seed)
    with running(data, receiver, "") as service:
        made = service.call(
            "PUT", "/v2/banking/webhook-url", json={"webhook_url": f"http://127.0.0.1:{receiver.port}/events"}
        )
        assert made.status_code == 200, made.text
        receiver.secret = made.json()["data"]["secret"]
        before = balance(data, service)
        stop = threading.Event()
        killer = threading.Thread(target=_kill_now_and_then, args=(service, kills, chance.random(), stop))
        with ThreadPoolExecutor(8) as pool:
            if kill_creations:
                killer.start()
            ids = list(pool.map(lambda number: pay(service, number), range(payments)))
            if not kill_creations:
                killer.start()
            refs = _refs(data)
            key = open_vault(load({}, data=str(data))).derive("sandbox webhooks")
            jobs = [(refs[number], *said) for number in ids if number in refs for said in reports_of(chance)]
            # Roughly in order for each payment, but mixed across payments.
            jobs = [job for _, job in sorted(enumerate(jobs), key=lambda item: item[0] + chance.uniform(0, 40))]
            list(pool.map(lambda job: deliver(service, key, *job), jobs))
        killer.join()
        stop.set()
        wait_until("every payment was final", lambda: not _open_payments(data, ids))
        wait_until("every event was delivered", lambda: not _waiting_events(data))
        return check(data, service, receiver, ids, before)


def _kill_now_and_then(service: Service, kills: int, seed: float, stop: threading.Event) -> None:
    chance = random.Random(seed)
    for _ in range(kills):
        if stop.wait(chance.uniform(0.3, 2.5)):
            return
        service.kill()


def _rows(data: Path, sql: str, *params: Any) -> list[tuple[Any, ...]]:
    database = sqlite3.connect(f"file:{data / 'kontobahn.sqlite3'}?mode=ro", uri=True, timeout=30)
    try:
        return database.execute(sql, params).fetchall()
    finally:
        database.close()


def _refs(data: Path) -> dict[str, str]:
    """Returns the bank's refs. A payment whose creation was cut off has none: the service must find it without them."""
    rows = _rows(data, "SELECT id, provider_ref FROM banking_payments WHERE provider_ref IS NOT NULL")
    return {str(number): ref for number, ref in rows}


def _open_payments(data: Path, ids: list[str]) -> list[Any]:
    rows = _rows(data, "SELECT id FROM banking_payments WHERE status NOT IN ('settled', 'failed', 'rejected')")
    return [row for (row,) in rows if str(row) in set(ids)]


def _waiting_events(data: Path) -> list[Any]:
    return _rows(data, "SELECT 1 FROM webhook_deliveries WHERE state = 'pending' LIMIT 1")


def balance(data: Path, service: Service) -> tuple[int, int]:
    [row] = _rows(
        data, "SELECT reserved, spent FROM credit_accounts WHERE organization_id = ?", service.facts["organization_id"]
    )
    return row[0], row[1]


def check(data: Path, service: Service, receiver: Receiver, ids: list[str], before: tuple[int, int]) -> str:
    status = {str(number): state for number, state in _rows(data, "SELECT id, status FROM banking_payments")}
    mine = {number: status[number] for number in ids}
    assert len(set(ids)) == len(ids), "a payment was made twice"
    assert set(mine.values()) <= set(ENDS), "a payment has no end"
    settled = sum(state == "settled" for state in mine.values())
    reserved, spent = balance(data, service)
    assert (reserved, spent) == (before[0], before[1] + 3 * settled), (reserved, spent, before, settled)
    assert receiver.wrong == [], receiver.wrong[:3]
    reported: dict[str, list[str]] = {number: [] for number in ids}
    seen: set[str] = set()
    for event in receiver.taken:
        number = event["data"].get("payment_id")
        if number in reported and event["id"] not in seen:
            seen.add(event["id"])
            reported[number].append(event["data"]["status"])
    history: dict[str, list[str]] = {number: ["initiated"] for number in ids}
    for number, state in _rows(
        data,
        "SELECT payment_id, status FROM banking_payment_reports WHERE outcome = 'moved' ORDER BY payment_id, position",
    ):
        if str(number) in history:
            history[str(number)].append(state)
    assert reported == history, [
        (number, reported[number], history[number]) for number in ids if reported[number] != history[number]
    ][:3]
    done = kontobahn("doctor", data=data, expect=None)
    assert "does not add up" not in done.stdout, done.stdout
    repeated = len(receiver.taken) - len({event["id"] for event in receiver.taken})
    return (
        f"{len(ids)} payments: {settled} settled, {len(ids) - settled} not; {len(seen)} events, each delivered"
        f" ({repeated} more than once), in order; credits right."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--payments", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kontobahn-torture-") as folder:
        print(run(Path(folder), chosen.payments, chosen.kills, chosen.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
