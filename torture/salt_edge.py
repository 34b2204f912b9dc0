"""Somebody connects, reads, and pays through Salt Edge while the service is killed at any moment. Nothing lost, nothing twice.

Each round connects an account, refreshes it, and pays from it, with a kill in the middle of one of these or of a callback.

    python -m torture.salt_edge --kills 50
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from simulators.salt_edge import Connection, SaltEdge
from tests.providers.salt_edge.person import GIRO, NAME, settings_for
from torture.others import Target

CREDITOR = "DE89370400440532013000"
PATIENCE_SECONDS = 300
Act = Callable[[], Any]
Doing = Callable[[Act], None]


class Trial:
    def __init__(self, data: Path, seed: int) -> None:
        self._data, self._chance = data, random.Random(seed)
        self.remote = SaltEdge()
        self._settings = settings_for(self.remote, self.remote.serve(), data / "keys")
        self.kills = self.amid = 0
        self.running = self._start()
        self.http = self._client()

    def _start(self) -> Target:
        running = Target(
            self._data,
            limit_api_requests=10**9,
            limit_auth_requests=10**9,
            limit_webhook_requests=10**9,
            log_level="error",
            # A repeated call waits until the claim of the one that died has ended.
            call_hold_seconds=10,
            **self._settings,
        )
        self.remote.callback_url = f"http://127.0.0.1:{running.port}/v2/banking/webhooks/{NAME}"
        return running

    def _client(self) -> httpx.Client:
        base_url = f"http://127.0.0.1:{self.running.port}"
        return httpx.Client(base_url=base_url, headers={"x-api-key": self.running.key}, timeout=60, trust_env=False)

    def killed_while(self, act: Act) -> None:
        """Kills the service at some moment of what is done, and starts it again."""

        def quietly() -> None:
            try:
                act()
            except (httpx.HTTPError, OSError):
                pass

        acting = threading.Thread(target=quietly)
        acting.start()
        acting.join(self._chance.uniform(0, 0.2))
        self.amid += acting.is_alive()
        self.running.process.kill()
        self.running.process.wait()
        acting.join()
        self.kills += 1
        self.running = self._start()
        self.http = self._client()

    def round(self, number: int) -> None:
        """Connects, refreshes and pays, with a kill in one of the four."""
        acts: list[Doing] = [self.killed_while if number % 4 == place else _plainly for place in range(4)]
        connect, refresh, pay, tell = acts
        begun = self.http.post("/v2/banking/connect", json={}).raise_for_status().json()
        back, connection = self.remote.finish(begun["connect_url"])
        assert connection is not None
        self.remote.outbox.clear()
        account = self.remote.add_account(connection, GIRO)
        self.book(connection, account, 30)
        parts = urlsplit(back)
        connect(lambda: self.http.get(f"{parts.path}?{parts.query}"))
        until(lambda: self.http.get(f"{parts.path}?{parts.query}").status_code != 503)
        path = f"/v2/banking/connections/{begun['pending_token']}"
        ours = self.http.get(path).raise_for_status().json()["data"]
        assert ours["status"] == "active", ours
        before = self.check(ours["id"], connection)
        self.book(connection, account, 20)
        refresh(lambda: self.http.post(f"/v2/banking/connections/{ours['id']}/refresh"))
        self.remote.attempt(connection)
        [_, done] = self.remote.outbox
        self.remote.outbox.clear()
        tell(lambda: self.remote.post(done))
        # Salt Edge tells it again until it is taken.
        until(lambda: self.remote.post(done) == 200)
        until(lambda: len(self.ids(ours["id"])) == len(connection.transactions))
        assert self.check(ours["id"], connection)[: len(before)] == before, "what was stored has moved"
        self.pay(ours["id"], pay)
        removed = self.http.request("DELETE", f"/v2/banking/connections/{ours['id']}")
        assert removed.status_code == 200, removed.text
        until(lambda: connection.id not in self.remote.connections)

    def pay(self, connection_id: str, doing: Doing) -> None:
        accounts = self.http.get("/v2/banking/accounts", params={"connection_id": connection_id}).json()["data"]
        known = len(self.remote.payments)
        order = {"account_id": accounts[0]["id"], "amount": "1.50", "creditor_name": "Papier GmbH", "creditor_iban": CREDITOR,
                 "description": "Rechnung 1"}  # fmt: skip
        headers = {"idempotency-key": f"pay-{connection_id}"}

        def send() -> int:
            return self.http.post("/v2/banking/payments", json=order, headers=headers).status_code

        doing(send)
        # The caller repeats the call until it is answered: it may still be held by the process that died.
        until(lambda: send() == 201)
        assert len(self.remote.payments) - known <= 1, "a payment was made twice"

    def book(self, connection: Connection, account: str, count: int) -> None:
        for number in range(count):
            day = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 86400 * (number % 5)))
            self.remote.book(connection, account, f"-{number % 9 + 1}.10", day, f"Kaffee {number % 4}")

    def ids(self, connection_id: str) -> list[int]:
        params: dict[str, Any] = {"connection_id": connection_id, "sort": "id", "limit": 1000}
        rows = self.http.get("/v2/banking/transactions", params=params).raise_for_status().json()["data"]
        return [int(row["id"]) for row in rows]

    def check(self, connection_id: str, connection: Connection) -> list[int]:
        ids = self.ids(connection_id)
        assert ids == sorted(set(ids)), "ids do not rise"
        assert len(ids) == len(connection.transactions), (len(ids), len(connection.transactions))
        return ids

    def stop(self) -> None:
        self.running.process.kill()
        self.running.process.wait()
        self.remote.stop()


def _plainly(act: Act) -> None:
    act()


def until(is_so: Callable[[], bool]) -> None:
    given_up = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < given_up, "it did not come about"
        time.sleep(0.2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kontobahn-torture-") as folder:
        trial = Trial(Path(folder), chosen.seed)
        try:
            for number in range(chosen.kills):
                trial.round(number)
                print(f"{trial.kills} kills, {trial.amid} of them amid something", flush=True)
        finally:
            trial.stop()
    assert trial.remote.faults == [], trial.remote.faults[:3]
    made = len(trial.remote.payments)
    print(f"{trial.kills} kills, {trial.amid} of them amid something; {made} payments: nothing lost, nothing twice")
    return 0


if __name__ == "__main__":
    sys.exit(main())
