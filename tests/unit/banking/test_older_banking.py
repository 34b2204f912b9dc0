"""Payments and bookings from before order files and overlapping statements: what the steps that brought those derive for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kontobahn.clock import DAY, SystemClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.db import migrate as steps
from kontobahn.settings import load
from tests.services import PostgresServer

# The last step before order files.
BEFORE = 14
MADE = 1_760_000_000_000_000


@pytest.fixture
def older(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database as the version before left it."""
    server: PostgresServer | None = None if engine == "sqlite" else request.getfixturevalue("postgres")
    url = "" if server is None else server.create_database("older_banking")
    database = open_database(load({}, data=str(tmp_path), database_url=url), SystemClock())
    known = [step for step in steps.known_migrations(engine) if step.version <= BEFORE]
    database.write_now(steps._apply_missing, engine, known)
    yield database
    database.close()
    if server is not None:
        server.drop_database("older_banking")


def payment(tx: Tx, number: int, **more: Any) -> None:
    row: dict[str, Any] = {
        "organization_id": "o", "id": number, "provider": "files", "connection_id": "c", "account_id": 1, "provider_code": "x",
        "provider_name": "Bank", "status": "initiated", "template_identifier": "SEPA", "amount_minor": 100,
        "currency_code": "EUR", "creditor_name": "n", "creditor_iban": "i", "debtor_iban": "d", "end_to_end_id": str(number),
        "description": "", "order_details": "{}", "customer_ip_address": "", "payer_organization_id": "o", "debit_settles": 1,
        "polls": 0, "created_at": MADE + number, "updated_at": MADE, **more,
    }  # fmt: skip
    tx.run(f"INSERT INTO banking_payments ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", *row.values())


def transaction(tx: Tx, number: int, statement: str | None, wire: str) -> None:
    row: dict[str, Any] = {
        "account_id": 1, "id": number, "made_on": "2026-02-03", "amount_minor": -5, "status": "posted", "fingerprint": "f",
        "statement": statement, "first_change": number, "last_change": number, "wire": wire,
    }  # fmt: skip
    tx.run(f"INSERT INTO banking_transactions ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", *row.values())


def fill(tx: Tx) -> None:
    tx.run("INSERT INTO organizations (id, name, created_at) VALUES ('o', 'Alt', 1)")
    payment(tx, 1)
    payment(tx, 2, order_details='{"date":"2027-01-01"}')
    payment(tx, 3, provider="sandbox")
    payment(tx, 4, expires_at=MADE + 7)
    transaction(tx, 1, "S-1", '{"extra":{"posting_date":"2026-02-05","account_balance_snapshot":-1234.57}}')
    transaction(tx, 2, "S-1", '{"extra":{"account_balance_snapshot":0.29}}')
    transaction(tx, 3, "S-1", '{"extra":null}')
    transaction(tx, 4, None, '{"extra":{"posting_date":"2026-02-05","account_balance_snapshot":1.0}}')


def test_older_orders_count_as_taken_and_older_bookings_know_day_and_balance(older: Database) -> None:
    older.write_now(fill)
    assert steps.migrate(older)[0] == "order_files"
    payments = older.read_now(
        lambda tx: tx.all("SELECT id, order_taken_at, expires_at FROM banking_payments ORDER BY id")
    )
    assert payments == [
        (1, MADE + 1, MADE + 1 + 30 * DAY),
        (2, MADE + 2, MADE + 2 + 395 * DAY),
        (3, None, None),
        (4, None, MADE + 7),
    ]
    bookings = older.read_now(
        lambda tx: tx.all("SELECT id, booked_on, balance_minor FROM banking_transactions ORDER BY id")
    )
    assert bookings == [(1, "2026-02-05", -123457), (2, "2026-02-03", 29), (3, "2026-02-03", None), (4, None, None)]
