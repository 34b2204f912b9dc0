"""100,000 transactions through the simulator of Enable Banking, in a process of its own: none lost, none twice, ids rise, memory flat.

The first fetch brings all of them, in pages; then they are fetched again and again with a few more each time, with answers that break.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kontobahn.banking.connections import store as connections
from kontobahn.banking.provider import ConnectionFinished
from kontobahn.banking.reports.intake import apply_unstored
from kontobahn.db import Tx
from kontobahn.errors import Unavailable
from simulators.enable_banking import EnableBanking
from simulators.enable_banking_data import Account, transaction
from simulators.enable_banking_server import How
from tests.harness import START, Service, running_service
from tests.providers.enable_banking.person import Person, settings_for

BREAKS: tuple[tuple[str, How], ...] = (("/transactions", "half"), ("/balances", "500"), ("/transactions", "408"))
# The memory that the process may hold more after the last fetch than after the first.
FLAT_BYTES = 50 * 1024 * 1024


def fill(bank: EnableBanking, count: int, accounts: int) -> None:
    """Every third booking has no id, and looks like others."""
    bank.accounts = [Account(f"DE{account:020d}", details=f"Konto {account}") for account in range(accounts)]
    for number in range(count):
        add(bank, number)


def add(bank: EnableBanking, number: int, day: str = "") -> None:
    day = day or f"2026-{1 + number % 2:02d}-{1 + number // 7 % 28:02d}"
    text, ref = (f"Rechnung {number}", f"r-{number}") if number % 3 else ("Kaffee", None)
    amount = f"{'-' if number % 2 else ''}{number % 900}.{number % 100:02d}"
    account = bank.accounts[number % len(bank.accounts)]
    account.transactions.append(transaction(amount, text, day, ref, debtor={"name": "Kunde"}))


def stored(tx: Tx) -> list[tuple[int, int, int, str]]:
    return [
        tuple(row) for row in tx.all("SELECT t.first_change, t.id, t.amount_minor, a.iban FROM banking_transactions t"
                                     " JOIN banking_accounts a ON a.id = t.account_id ORDER BY t.first_change")
    ]  # fmt: skip


def check(service: Service, bank: EnableBanking) -> int:
    """Returns how many there are. Fails unless these are the bank's, each once, with ids that rise as they were committed."""
    found = service.db.read_now(stored)
    ids = [row[1] for row in found]
    assert ids == sorted(set(ids)), "ids do not rise in commit order"
    expected = sorted(
        (account.iban, round(float(one["transaction_amount"]["amount"]) * 100) * (-1 if one["credit_debit_indicator"] == "DBIT" else 1))
        for account in bank.accounts for one in account.transactions
    )  # fmt: skip
    assert sorted((row[3], row[2]) for row in found) == expected, "something is lost, or there twice"
    return len(found)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def run(service: Service, bank: EnableBanking, count: int, rounds: int) -> dict[str, Any]:
    person = Person(service, service.organization(), bank)
    started = time.monotonic()
    connection = person.connect()
    first_seconds = time.monotonic() - started
    total = check(service, bank)
    row = service.db.read_now(connections.get, person.owner.id, connection["id"])
    after_first = 0
    for number in range(rounds):
        # Recent, as what comes next is: a refresh asks for two weeks.
        add(bank, count + number, "2026-03-02")
        bank.breaks = [BREAKS[number % len(BREAKS)]]
        for _ in range(2):
            service.clock.advance(seconds=30)
            try:
                service.run(
                    apply_unstored(
                        service.application.context, "enable_banking", [ConnectionFinished(row.provider_ref)]
                    )
                )
            except Unavailable:
                # Nothing of it was stored; the next time succeeds.
                continue
        total = check(service, bank)
        after_first = after_first or resident_bytes()
    assert bank.faults == [], bank.faults
    return {
        "transactions": total,
        "first fetch seconds": round(first_seconds, 1),
        "growth bytes": resident_bytes() - after_first,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        bank = EnableBanking(lambda: START / 1_000_000)
        bank.page_size = 500
        fill(bank, given.transactions, 4)
        bank.serve()
        with running_service(
            Path(directory) / "data", **settings_for(bank, Path(directory)), log_level="error"
        ) as service:
            bank.now = lambda: service.clock.now() / 1_000_000
            found = run(service, bank, given.transactions, given.rounds)
        bank.stop()
    print(found)
    if found["growth bytes"] > FLAT_BYTES:
        sys.exit("the memory is not flat")


if __name__ == "__main__":
    main()
