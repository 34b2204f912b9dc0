"""Stores transactions as they come from a bank, for one organisation: the end of a first fetch, or of a later one, without the bank."""

from __future__ import annotations

import argparse
from datetime import date, timedelta

from kontobahn.banking.connections import store
from kontobahn.banking.provider import AccountFacts, BankConnectionFacts, Snapshot, TransactionFacts
from kontobahn.banking.reports import intake as reports
from kontobahn.banking.reports.intake import Gathered
from kontobahn.clock import SystemClock
from kontobahn.db import Database, open_database
from kontobahn.settings import load

PROVIDER, FIRST_DAY, IBAN = "bench", date(2025, 1, 1), "DE02500105170137075030"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("organization")
    parser.add_argument("count", type=int)
    parser.add_argument("--data", required=True)
    parser.add_argument(
        "--later", action="store_true", help="half of them are those of the first fetch, for the same account"
    )
    parser.add_argument("--iban", default=IBAN, help="the account that it is of")
    parser.add_argument("--remove", action="store_true", help="remove the connection instead")
    chosen = parser.parse_args()
    db = open_database(load({}, data=chosen.data), SystemClock())
    if chosen.remove:
        _remove(db, chosen.organization, f"bank-{chosen.iban}")
        return
    bank = BankConnectionFacts(
        f"bank-{chosen.iban}",
        "musterbank",
        "Musterbank",
        "DE",
        "",
        (),
        None,
        0,
        automatic_refresh=False,
        display_name="Musterbank",
    )
    account = AccountFacts("giro", "Girokonto", "checking", 0, "EUR", chosen.iban, "Muster GmbH")
    first = chosen.count // 2 if chosen.later else 0
    found = Gathered(
        TransactionFacts(
            "giro", FIRST_DAY + timedelta(number * 300 // chosen.count), -100 - number % 977, "EUR",
            f"EREF+RE-{number} SVWZ+Rechnung RE-2025-{number} vom 01.03.2025 ABWA+Anna Beispiel", provider_ref=f"R{number}",
        )
        for number in range(first, first + chosen.count)
    )  # fmt: skip
    if not chosen.later:
        db.write_now(
            store.create, chosen.organization, provider=PROVIDER, api="partner", owner_user_id=None, facts=bank
        )
    snapshot = Snapshot(bank, [account], found)
    db.write_now(reports.apply_finished, PROVIDER, snapshot, None, reports.arrive(db, PROVIDER, snapshot, None))
    db.close()


def _remove(db: Database, organization: str, name: str) -> None:
    row = db.read_now(store.by_provider_ref, PROVIDER, name)
    assert row is not None
    assert db.write_now(store.remove, organization, row.id) is not None
    store.sweep_departures(db)
    db.close()


if __name__ == "__main__":
    main()
