"""The sign-in at a simulated DATEV is renewed while the service is killed: before DATEV has the token, and until the new one is stored.

A refresh token can be redeemed once. So the sign-in lives on where DATEV never had the token, or the new one was stored; otherwise it
has ended, and the call says where to sign in again. At most two requests are made for it, and none after that.

    python -m torture.datev_sign_in_kills --kills 25
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

import httpx

from kontobahn.datev.sessions import MAX_TRIES
from simulators.enable_banking_server import How
from torture import killed
from torture.datev_kills import CLIENT, Kills
from torture.killed import until


class Moment(NamedTuple):
    """A moment of a renewal: which request it is at, and whether the sign-in outlives a kill there."""

    name: str
    request: str
    how: How
    is_alive: bool


BEFORE = Moment("before DATEV has the token", "/token", "dropped", True)
MEANWHILE = Moment("while DATEV redeems it", "/token", "held", False)
UNSTORED = Moment("before the new one is stored", "/token", "late", False)
STORED = Moment("after it was stored", "sums-and-balances", "held", True)
MOMENTS = (BEFORE, MEANWHILE, UNSTORED, STORED)


class SignInKills(Kills):
    def __init__(self, data: Path, seed: int) -> None:
        super().__init__(data, seed)
        self.datev.companies[CLIENT].ledger.open_year(date(2026, 1, 1), date(2026, 12, 31))
        self.ends: Counter[str] = Counter()

    def read(self) -> httpx.Response:
        running = self.service.running
        query = {"connectionId": self.connection_id, "geschaeftsjahrStartDatum": "2026-01-01"}
        return httpx.get(
            f"http://127.0.0.1:{running.port}/v2/ledger-rewe-read/susa", params=query, timeout=120, trust_env=False,
            headers={"x-api-key": running.key},
        )  # fmt: skip

    def interrupt_renewal(self, moment: Moment) -> None:
        """The token is old, the service is killed while it renews it, and the call is repeated until it is answered."""
        assert self.read().status_code == 200
        self._outdate()
        asked = self._asked()
        self.datev.breaks = [(moment.request, moment.how)]
        self.service.when_reached(moment.name, self.read, self.datev.reached, self.datev.go_on)
        self.service.let_claims_end()
        found: list[httpx.Response] = []
        until(lambda: bool(found.append(self.read()) or found[-1].status_code != 503), "no answer")  # type: ignore[func-returns-value]
        answer = found[-1]
        is_alive = answer.status_code == 200
        assert is_alive == moment.is_alive, f"killed {moment.name}: {answer.text}"
        if not is_alive:
            assert (answer.status_code, answer.json()["code"]) == (409, "ledger_connection_invalid"), answer.text
            assert self.connection_id in answer.json()["reconnectUrl"]
        requests = self._asked() - asked
        for _ in range(3):
            assert self.read().status_code == answer.status_code
        assert self._asked() - asked == requests <= MAX_TRIES, f"{requests} requests to renew"
        self.ends["alive" if is_alive else "expired"] += 1
        if not is_alive:
            self.connection_id = asyncio.run(self._sign_in())

    def _asked(self) -> int:
        return sum(path == "/token" for _, path in self.datev.asked)

    def _outdate(self) -> None:
        database = sqlite3.connect(self.service.data / "kontobahn.sqlite3", timeout=60)
        with database:
            database.execute("UPDATE datev_sessions SET access_until = 0")
        database.close()


def run(data: Path, kills: int, seed: int, moments: Sequence[Moment] = MOMENTS) -> str:
    made = SignInKills(data, seed)
    try:
        for _ in range(kills):
            for moment in moments:
                made.interrupt_renewal(moment)
            print(made.service, flush=True)
    finally:
        made.service.stop()
        made.datev.stop()
    ends = made.ends
    return f"{made.service}; {ends['alive']} sign-ins lived on, {ends['expired']} had to be renewed by a person; none was asked for again."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=25, help="at each of the four moments")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    return killed.report(lambda folder: run(folder, chosen.kills, chosen.seed))


if __name__ == "__main__":
    sys.exit(main())
