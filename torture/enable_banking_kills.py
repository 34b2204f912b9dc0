"""The service is killed in the middle of connecting, reading, paying and being told, again and again, beside a simulated Enable Banking.

Nothing may be paid twice, no report be lost, no connection be half made for longer than a quarter of an hour, and no transaction be
lost or there twice.

    python -m torture.enable_banking_kills --kills 50
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from simulators.enable_banking import EnableBanking
from simulators.enable_banking_data import Account, transaction
from simulators.enable_banking_wire import public_pem
from tests.providers.enable_banking.person import BANK, GIRO, settings_for
from torture.killed import Killed

CREDITOR = "DE75512108001245126199"
SECONDS = 120.0
# Of those who are interrupted while they connect, one in so many never comes back.
GIVES_UP = 5


class Trial:
    def __init__(self, folder: Path, bank: EnableBanking, seed: int) -> None:
        self.bank = bank
        key = folder / "webhooks.pem"
        key.write_bytes(public_pem(bank.webhook_key))
        settings = settings_for(bank, folder) | {
            "enable_banking_webhooks": "true", "enable_banking_webhook_key": str(key), "run_jobs": "true",
        }  # fmt: skip
        (folder / "data").mkdir()
        self.service = Killed(folder / "data", seed, settings)
        self.found: Counter[str] = Counter()

    def call(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {"x-api-key": self.service.running.key, **more.pop("headers", {})}
        return httpx.request(method, self._here(path), headers=headers, timeout=SECONDS, trust_env=False, **more)

    def _here(self, address: str) -> str:
        """At the port of the process that runs now."""
        parts = urlsplit(address)
        return f"http://127.0.0.1:{self.service.running.port}{parts.path}{'?' if parts.query else ''}{parts.query}"

    # --- What is interrupted

    def connect(self) -> None:
        begun = self._begin()
        address = self.bank.sign_in(begun["connect_url"])
        self.service.while_doing("connect", lambda: self.call("GET", address))
        if not self.service.chance.randrange(GIVES_UP):
            return
        page = self.call("GET", address)
        while page.status_code == 503:
            page = self.call("GET", address)
        row = self.call("GET", f"/v2/banking/connections/{begun['pending_token']}").json()["data"]
        if row["status"] == "active":
            self.found["connected"] += 1
            self._check_transactions(row["id"])
        else:
            # The answer to the code was lost with the process: the person is told, and signs in again.
            assert row["status"] == "pending_connect", row
            assert "ALREADY_AUTHORIZED" in row["error_message"], row
            self.found["told to sign in again"] += 1

    def fetch(self) -> None:
        row = self._connected()
        number = len(self.bank.accounts[0].transactions)
        self.bank.accounts[0].transactions.append(_booking(number))
        self.service.while_doing("fetch", lambda: self.call("POST", f"/v2/banking/connections/{row}/refresh"))
        answer = self.call("POST", f"/v2/banking/connections/{row}/refresh")
        assert answer.status_code in (202, 409), answer.text
        self._check_transactions(row)

    def pay(self) -> None:
        text = f"Zahlung {self.service.chance.randrange(10**12)}"
        account = next(
            one for one in self.call("GET", f"/v2/banking/accounts?connection_id={self._connected()}").json()["data"]
        )
        order = {
            "account_id": account["id"], "template_identifier": "SEPA", "amount": 1.25, "currency_code": "EUR",
            "creditor_name": "Papier GmbH", "creditor_iban": CREDITOR, "description": text,
        }  # fmt: skip
        headers = {"Idempotency-Key": text.replace(" ", "-")}
        self.service.while_doing(
            "payment", lambda: self.call("POST", "/v2/banking/payments", json=order, headers=headers)
        )
        answer = self.call("POST", "/v2/banking/payments", json=order, headers=headers)
        assert answer.status_code in (200, 201), answer.text
        there = [one for one in self.bank.payments.values() if text in str(one["asked"])]
        listed = [one for one in self.call("GET", "/v2/banking/payments").json()["data"] if one["description"] == text]
        assert (len(there) <= 1, len(listed)) == (True, 1), (there, listed)
        # One that may have been sent is never sent again: it stays open until a debit tells.
        self.found["made once" if there else "left open, never made"] += 1

    def callback(self) -> None:
        payment = self._payment()
        ref = next(reversed(self.bank.payments))
        made = self.bank.payments[ref]
        made["status"] = "ACSC"
        self.service.while_doing("callback", lambda: self._deliver(ref))
        while self._deliver(ref) != 200:
            pass
        history = self.call("GET", f"/v2/banking/payments/{payment}/history").json()["data"]
        moved = [one for one in history if (one["status"], one["outcome"]) == ("executed", "moved")]
        assert len(moved) == 1, history
        self.found["told once"] += 1

    # --- What they share

    def _deliver(self, ref: str) -> int:
        asked = self.bank.payments[ref]["asked"]
        asked["webhook_url"] = self._here(asked["webhook_url"])
        return self.bank.deliver(ref)

    def _payment(self) -> str:
        account = self.call("GET", f"/v2/banking/accounts?connection_id={self._connected()}").json()["data"][0]
        order = {
            "account_id": account["id"], "template_identifier": "SEPA", "amount": 1.25, "currency_code": "EUR",
            "creditor_name": "Papier GmbH", "creditor_iban": CREDITOR, "description": "Rechnung",
        }  # fmt: skip
        answer = self.call("POST", "/v2/banking/payments", json=order)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["data"]["payment_id"])

    def _begin(self) -> dict[str, Any]:
        answer = self.call("POST", "/v2/banking/connect", json={"provider_code": BANK})
        assert answer.status_code == 201, answer.text
        begun: dict[str, Any] = answer.json()
        return begun

    def _connected(self) -> str:
        rows = self.call("GET", "/v2/banking/connections").json()["data"]
        found = [row["id"] for row in rows if row["provider_code"] == BANK and row["status"] == "active"]
        if found:
            return str(found[0])
        self.call("GET", self.bank.sign_in(self._begin()["connect_url"]))
        return self._connected()

    def _check_transactions(self, connection_id: str) -> None:
        answer = self.call("GET", f"/v2/banking/transactions?connection_id={connection_id}")
        found = Counter(one["description"] for one in answer.json()["data"])
        assert found == Counter(one["remittance_information"][0] for one in self.bank.accounts[0].transactions), found


def _booking(number: int) -> dict[str, Any]:
    day = datetime.now(UTC).date().isoformat()
    return transaction(f"-{number}.50", f"Kaffee {number}", day, f"k-{number}" if number % 2 else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="in the middle of each kind of thing")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    bank = EnableBanking()
    bank.page_size = 3
    bank.accounts = [Account(GIRO, transactions=[_booking(number) for number in range(8)])]
    bank.serve()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder), bank, given.seed)
        actions = {"connect": trial.connect, "fetch": trial.fetch, "payment": trial.pay, "callback": trial.callback}
        try:
            for kind in trial.service.next_kind(tuple(actions), given.kills):
                actions[kind]()
                print(trial.service, flush=True)
            half_made = trial.service.check_nothing_half_made()
        finally:
            trial.service.stop()
    bank.stop()
    if bank.faults:
        sys.exit(f"Enable Banking was sent what it should not have been: {bank.faults}")
    print(f"{trial.service}; {dict(trial.found)}; {half_made} left half made, and gone in time.")
    print(f"{time.monotonic() - started:.0f} seconds")


if __name__ == "__main__":
    main()
