"""Two organisations with the same numbers: whatever happens to the payments of one leaves the other's as they are.

Numbers differ between organisations today. Nothing relies on that: each statement names the organisation it is about.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kontobahn.banking.payments import bank as payment_bank
from kontobahn.banking.payments import order_files, store
from kontobahn.banking.payments.bank import poll_due_payments
from kontobahn.banking.payments.store import apply
from kontobahn.banking.provider import PaymentReport, PaymentStart, ProviderDown
from kontobahn.db import Tx
from tests.api.banking.test_payments import pay
from tests.api.banking.test_several_orders import FILES, make
from tests.bank_builder import Bank
from tests.file_bank import FileBank
from tests.harness import Organization, Service

# SQLite: the test writes rows, and takes indexes away, that the service never would.
pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
TABLES = ("banking_payments", "banking_payment_reports", "banking_order_files", "banking_order_file_payments")


def _copy(tx: Tx, owner: str, shadow: str) -> None:
    for table in TABLES:
        for (index,) in tx.all(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql LIKE '%UNIQUE%'", table
        ):
            tx.run(f"DROP INDEX {index}")
        columns = [row[1] for row in tx.all(f"PRAGMA table_info({table})") if row[1] != "organization_id"]
        names = ", ".join(columns)
        tx.run(
            f"INSERT INTO {table} (organization_id, {names}) SELECT ?, {names} FROM {table} WHERE organization_id = ?",
            shadow, owner,
        )  # fmt: skip


def _forget(tx: Tx, shadow: str) -> None:
    for table in ("banking_order_file_payments", "banking_order_files", "banking_payments"):
        tx.run(f"DELETE FROM {table} WHERE organization_id = ?", shadow)


@contextmanager
def shadowed(service: Service, owner: Organization) -> Iterator[None]:
    """An organisation with the same payments under the same numbers, which nothing in the block may touch."""
    shadow = service.organization("Schatten GmbH").id
    service.db.write_now(_copy, owner.id, shadow)

    def rows(tx: Tx) -> dict[str, list[Any]]:
        return {
            table: tx.all(f"SELECT * FROM {table} WHERE organization_id = ? ORDER BY 1, 2, 3", shadow)
            for table in TABLES
        }

    before = service.db.read_now(rows)
    yield
    assert service.db.read_now(rows) == before
    service.db.write_now(_forget, shadow)


def test_reports_and_polling_of_one(service: Service) -> None:
    bank, owner = Bank(service), service.organization()
    bank.connected(owner)
    bank.provider.creation = ProviderDown("timed out")
    lost = pay(service, owner).json()["data"]
    bank.provider.creation = None
    payment = pay(service, owner).json()["data"]
    row = service.db.read_now(store.get, owner.id, int(payment["id"]))
    with shadowed(service, owner):
        service.db.write_now(apply, owner.id, row.id, PaymentReport("processing", "ACSP"), "webhook")
        history = service.get(f"/v2/banking/payments/{payment['id']}/history", owner.key).json()["data"]
        assert [item["status"] for item in history] == ["initiated", "processing"]
    with shadowed(service, owner):
        bank.provider.found = PaymentStart("found", None, None, PaymentReport("authorized"))
        assert service.get(f"/v2/banking/payments/{lost['id']}", owner.key).json()["data"]["status"] == "authorized"
    service.clock.advance(seconds=60)
    with shadowed(service, owner):
        due = service.db.read_now(store.PAYMENTS.all, "next_poll_at <= ?", service.clock.now())
        assert all(service.db.write_now(payment_bank._claim, row) for row in due if row.organization_id == owner.id)
    service.run(poll_due_payments(service.application.context))


def test_order_files_of_one(service: Service) -> None:
    bank = FileBank(service)
    first, second = bank.pay(), bank.pay()
    row = service.db.read_now(store.get, bank.owner.id, int(second["id"]))
    with shadowed(service, bank.owner):
        assert bank.order_file(first).status_code == 200
    with shadowed(service, bank.owner):
        assert service.db.write_now(payment_bank._hold_untaken, row)
        file = make(bank, second)
    content = service.get(f"{FILES}/{file['id']}/file", bank.key).content
    with shadowed(service, bank.owner):
        assert service.get(f"{FILES}/{file['id']}/file", bank.key).content == content
        assert service.get(f"{FILES}/{file['id']}", bank.key).json()["data"]["payment_ids"] == [second["id"]]
        found = service.db.read_now(order_files.look_up, bank.owner.id, int(file["id"]))
        assert found is not None
        assert service.db.write_now(order_files.discard, found).discarded_at == service.clock.now()
