"""Somebody connects, reads, and pays through Salt Edge while the service is killed at any moment. Nothing lost, nothing twice.

Each round connects an account, refreshes it, is told of it, and pays from it, with a kill in the middle of one of these. One in five
of those who are interrupted while they connect never comes back.

    python -m torture.salt_edge --kills 50
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from simulators.salt_edge import Connection, SaltEdge
from tests.providers.salt_edge.person import GIRO, NAME, settings_for
from torture.killed import Act, Killed, until

CREDITOR = "DE89370400440532013000"
KINDS = ("connect", "fetch", "callback", "payment")
GIVES_UP = 5


class Trial:
    def __init__(self, data: Path, seed: int) -> None:
        self.remote = SaltEdge()
        self.service = Killed(data, seed, settings_for(self.remote, self.remote.serve(), data / "keys"))

    @property
    def http(self) -> httpx.Client:
        """At the port of the process that runs now."""
        running, base_url = self.service.running, f"http://127.0.0.1:{self.service.running.port}"
        return httpx.Client(base_url=base_url, headers={"x-api-key": running.key}, timeout=60, trust_env=False)

    def round(self, kind: str) -> None:
        """Connects, refreshes, is told and pays, with a kill in one of the four."""

        def doing(name: str, act: Act) -> None:
            if name == kind:
                self.service.while_doing(kind, act)
            else:
                act()

        begun = self.http.post("/v2/banking/connect", json={}).raise_for_status().json()
        back, connection = self.remote.finish(begun["connect_url"])
        assert connection is not None
        self.remote.outbox.clear()
        account = self.remote.add_account(connection, GIRO)
        self.book(connection, account, 30)
        parts = urlsplit(back)
        doing("connect", lambda: self.http.get(f"{parts.path}?{parts.query}"))
        if kind == "connect" and not self.service.chance.randrange(GIVES_UP):
            return
        until(lambda: self.http.get(f"{parts.path}?{parts.query}").status_code != 503)
        path = f"/v2/banking/connections/{begun['pending_token']}"
        ours = self.http.get(path).raise_for_status().json()["data"]
        assert ours["status"] == "active", ours
        before = self.check(ours["id"], connection)
        self.book(connection, account, 20)
        doing("fetch", lambda: self.http.post(f"/v2/banking/connections/{ours['id']}/refresh"))
        self.remote.attempt(connection)
        [_, done] = self.remote.outbox
        self.remote.outbox.clear()
        doing("callback", lambda: self.tell(done))
        # Salt Edge tells it again until it is taken.
        until(lambda: self.tell(done) == 200)
        until(lambda: len(self.ids(ours["id"])) == len(connection.transactions))
        assert self.check(ours["id"], connection)[: len(before)] == before, "what was stored has moved"
        self.pay(ours["id"], doing)
        removed = self.http.request("DELETE", f"/v2/banking/connections/{ours['id']}")
        assert removed.status_code == 200, removed.text
        until(lambda: connection.id not in self.remote.connections)

    def tell(self, news: Any) -> int:
        self.remote.callback_url = f"http://127.0.0.1:{self.service.running.port}/v2/banking/webhooks/{NAME}"
        return self.remote.post(news)

    def pay(self, connection_id: str, doing: Callable[[str, Act], None]) -> None:
        accounts = self.http.get("/v2/banking/accounts", params={"connection_id": connection_id}).json()["data"]
        known = len(self.remote.payments)
        order = {"account_id": accounts[0]["id"], "amount": "1.50", "creditor_name": "Papier GmbH", "creditor_iban": CREDITOR,
                 "description": "Rechnung 1"}  # fmt: skip
        headers = {"idempotency-key": f"pay-{connection_id}"}

        def send() -> httpx.Response:
            return self.http.post("/v2/banking/payments", json=order, headers=headers)

        doing("payment", send)
        # The caller repeats the call until it is answered.
        until(lambda: send().status_code == 201)
        assert len(self.remote.payments) - known <= 1, "a payment was made twice"
        listed = self.http.get("/v2/banking/payments").raise_for_status().json()["data"]
        assert len([one for one in listed if one["connection_id"] == connection_id]) == 1, listed

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
        self.service.stop()
        self.remote.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="in the middle of each kind of thing")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kontobahn-torture-") as folder:
        trial = Trial(Path(folder), chosen.seed)
        try:
            for kind in trial.service.next_kind(KINDS, chosen.kills):
                trial.round(kind)
                print(trial.service, flush=True)
            half_made = trial.service.check_nothing_half_made()
        finally:
            trial.stop()
    assert trial.remote.faults == [], trial.remote.faults[:3]
    made, seconds = len(trial.remote.payments), time.monotonic() - started
    print(
        f"{trial.service}; {half_made} left half made, and gone in time; {made} payments: nothing lost, nothing twice."
    )
    print(f"{seconds:.0f} seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
