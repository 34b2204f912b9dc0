"""Cash entries go to a simulated DATEV while the service is killed at every step of them: before DATEV has the request, and after.

Each is in the cash book once, none is lost, and each was charged once.

    python -m torture.datev_kills --kills 5
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import msgspec

from kontobahn import app
from kontobahn.clock import SystemClock
from kontobahn.datev.adapter import DatevProvider
from kontobahn.datev.setup import CALLBACK
from kontobahn.db import Tx, open_database
from kontobahn.ledger.connections import create, find_for_operator
from kontobahn.settings import load
from kontobahn.vault import open_vault
from simulators.datev import ALL_SERVICES, SCOPES, Datev
from simulators.enable_banking_server import How
from torture import killed
from torture.killed import Killed, until

CLIENT = "29098-55003"
# A step by method and a part of its path.
STEPS = {
    "begin": "POST /dxso/v2/clients/29098-55003/dxso-jobs", "files": "/files", "release": "PUT /dxso", "state": "GET /dxso",
    "protocol": "/protocol-entries",
}  # fmt: skip
MOMENTS: tuple[tuple[How, str], ...] = (("held", "before"), ("late", "after"))
TIME_PASSES = (
    "UPDATE ledger_transmissions SET lease_until = 0, next_step_at = 0 WHERE state = 'OPEN' OR state = 'IN_PROGRESS'",
    "UPDATE datev_sessions SET lease_until = 0",
)
FINAL = ("SUCCESS", "PARTIAL_SUCCESS")


class Kills:
    def __init__(self, data: Path, seed: int) -> None:
        self.datev = Datev()
        self.datev.add(CLIENT, services=ALL_SERVICES)
        self.datev.serve()
        self.service = Killed(data, seed, settings_for(self.datev), TIME_PASSES)
        self.connection_id = asyncio.run(self._sign_in())
        self._sent = 0
        self.balances: list[int] = []

    async def _sign_in(self) -> str:
        """Somebody signs in at DATEV, in a browser that is not shown."""
        facts = self.service.running.facts
        base_url = "http://localhost:8000"
        self.datev.sign_in.redirect_uris = [base_url + CALLBACK]
        settings = load({}, data=str(self.service.data), base_url=base_url, **self._own_settings())
        db = open_database(settings, SystemClock())
        try:
            provider = app.set_up_ledger(settings, db, open_vault(settings), SystemClock()).providers[
                DatevProvider.name
            ]
            assert isinstance(provider, DatevProvider)

            def make(tx: Tx) -> str:
                return create(tx, facts["organization_id"], bezeichnung="DATEV", provider="datev", status="pending")

            connection = await db.read(find_for_operator, await db.write(make))
            back = self.datev.sign_in.sign_in(await provider.begin_sign_in(connection, "a session"))
            await provider.finish_sign_in(facts["organization_id"], "a session", dict(parse_qsl(urlsplit(back).query)))
            await provider.close()
            return connection.id
        finally:
            db.close()

    def _own_settings(self) -> dict[str, Any]:
        chosen = settings_for(self.datev)
        return {**chosen, "datev_urls": msgspec.json.decode(chosen["datev_urls"]), "datev_sandbox": True}

    def send(self, text: str) -> httpx.Response:
        running = self.service.running
        body = {
            "waehrung": "EUR", "kassenname": "Hauptkasse", "betrag": 1.19, "transaktionsdatum": "2026-03-02T10:00:00+01:00",
            "belegzeilen": [{"belegtext": text, "gegenkonto": "8400", "betrag": 1.19}],
        }  # fmt: skip
        return httpx.post(
            f"http://127.0.0.1:{running.port}/v2/ledger-duo/kassenbuch-advanced",
            params={"connectionId": self.connection_id}, json=body, timeout=120, trust_env=False,
            headers={"x-api-key": running.key, "idempotency-key": text},
        )  # fmt: skip

    def interrupt(self, step: str, how: How, moment: str) -> None:
        """An entry is sent, the service killed at this step of it, and the entry repeated until its outcome is known."""
        self._sent += 1
        text = f"Barverkauf {self._sent}"
        self.datev.breaks = [(STEPS[step], how)]
        self.service.when_reached(f"{moment} {step}", lambda: self.send(text), self.datev.reached, self.datev.go_on)
        until(lambda: self._is_done(text), f"{text} has no outcome")

    def _is_done(self, text: str) -> bool:
        answer = self.send(text)
        if answer.status_code in (409, 503):
            return False
        assert answer.status_code == 201, answer.text
        if answer.json()["ledgerAntwort"]["status"] not in FINAL:
            self.service.let_claims_end()
            return False
        self.balances.append(answer.json()["platform"]["neuesGuthaben"])
        return True

    def check(self) -> None:
        booked = Counter(one.text for one in self.datev.ledger_jobs.booked)
        assert booked == Counter(f"Barverkauf {number + 1}" for number in range(self._sent)), booked - Counter(
            set(booked)
        )
        charged = self.balances[0] - self.balances[-1] if self.balances else 0
        assert charged == self._sent - 1, f"{charged + 1} credits for {self._sent} entries"
        database = sqlite3.connect(self.service.data / "kontobahn.sqlite3", timeout=60)
        try:
            (on_their_way,) = database.execute(
                "SELECT COUNT(*) FROM ledger_transmissions WHERE state <> 'SUCCESS' AND state <> 'FAILED'"
            ).fetchone()
            (held,) = database.execute(
                "SELECT COUNT(*) FROM credit_holds WHERE id IN (SELECT hold_id FROM ledger_transmissions)"
            ).fetchone()
        finally:
            database.close()
        assert (on_their_way, held) == (0, 0)
        assert self.datev.faults == [], self.datev.faults[:3]


def settings_for(datev: Datev) -> dict[str, Any]:
    urls = {name: f"{datev.address}/{name}/v2" for name in ("clients", "documents", "dxso")}
    urls |= {"exchange": f"{datev.address}/exchange/v1", "extf": f"{datev.address}/extf/v3"}
    return {
        "datev_client_id": datev.sign_in.client_id, "datev_client_secret": datev.sign_in.client_secret, "datev_sandbox": "true",
        "datev_allow": urlsplit(datev.address).netloc, "datev_urls": msgspec.json.encode(urls).decode(),
        "datev_discovery": f"{datev.address}/openid/.well-known/openid-configuration",
        "datev_scopes": f"openid profile {' '.join(SCOPES.values())}",
    }  # fmt: skip


def run(data: Path, kills: int, seed: int, steps: tuple[str, ...] = tuple(STEPS)) -> str:
    made = Kills(data, seed)
    try:
        for _ in range(kills):
            for step in steps:
                for how, moment in MOMENTS:
                    made.interrupt(step, how, moment)
            print(made.service, flush=True)
        made.check()
    finally:
        made.service.stop()
        made.datev.stop()
    return f"{made.service}; {made._sent} entries: none lost, none twice, each charged once."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=5, help="at each of the ten moments")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    return killed.report(lambda folder: run(folder, chosen.kills, chosen.seed))


if __name__ == "__main__":
    sys.exit(main())
