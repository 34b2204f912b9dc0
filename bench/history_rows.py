"""Rows that people and banks make one by one, as many as are wanted: deliveries, order files, transmissions, prepared orders, matches
and their batches. They are written as the service writes them, but without its calls, which would take hours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kontobahn.access import audit
from kontobahn.assistants.prepared import PREPARED, PreparedRow
from kontobahn.banking.connections.accounts import ACCOUNTS, AccountRow
from kontobahn.banking.payments.order_files import ORDER_FILES, OrderFileRow
from kontobahn.clock import DAY, to_datetime
from kontobahn.db import Table, Tx
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.ledger.provider import Transmission
from kontobahn.ledger.transmissions import TRANSMISSIONS
from kontobahn.money import from_minor
from kontobahn.payables.handover import HANDOVER_FILES, HANDOVERS, HandoverFileRow, HandoverRow
from kontobahn.payables.run_store import RUN_INVOICES, RUN_PAYMENTS, RUNS, RunInvoiceRow, RunPaymentRow, RunRow
from kontobahn.reconciliation.batch_store import BATCHES, BatchRow
from kontobahn.reconciliation.store import LINES, MATCHES, TRANSACTIONS, LineRow, MatchRow, TransactionRow
from kontobahn.vault import Vault
from kontobahn.webhooks import endpoints

SOME = 5_000
# The latest transactions are left to be matched.
UNMATCHED = 100
DELIVERED = 60
_DAY = "2025-03-03"


class Made(NamedTuple):
    """The latest of each, by id."""

    prepared_id: str
    order_file_id: str
    transmission_id: str
    handover_id: str
    run_id: str
    matched_id: str
    match_id: str
    batch_id: str
    endpoint_id: str


class Books(NamedTuple):
    connection_id: str
    client_id: str
    payable_id: str


def make(tx: Tx, vault: Vault, account_id: int, books: Books, count: int) -> Made:
    account = ACCOUNTS.one(tx, "id = ?", account_id)
    assert account is not None
    prepared_id = _many(tx, PREPARED, count, lambda number: _prepared(tx, account, number))
    order_file_id = _order_files(tx, account, count)
    transmission_id = _many(tx, TRANSMISSIONS, count, lambda number: _transmission(tx, account, books))
    handover_id, run_id = _handovers(tx, account, books, count), _runs(tx, account, books, count)
    matched_id, match_id = _matches(tx, account, books, count)
    batch_id = _many(tx, BATCHES, count, lambda number: _batch(tx, account, books))
    endpoint_id = _endpoint(tx, vault, account.organization_id)
    return Made(
        prepared_id,
        str(order_file_id),
        transmission_id,
        handover_id,
        run_id,
        str(matched_id),
        match_id,
        batch_id,
        endpoint_id,
    )


def _endpoint(tx: Tx, vault: Vault, organization_id: str) -> str:
    """An endpoint that the earliest events were for; the others, which came since, were not."""
    wanted = endpoints.Wanted("https://hooks.muster.example/", ("payment_update",), None)
    made, _ = endpoints.create(tx, vault, organization_id, wanted, audit.SYSTEM)
    tx.run(
        "INSERT INTO webhook_deliveries"
        " (organization_id, sequence, receiver_id, subject, state, attempts, tries, due_at, settled_at)"
        " SELECT organization_id, sequence, CAST(? AS TEXT), subject, 'delivered', 1, 1, received_at, received_at"
        " FROM webhook_events WHERE organization_id = ? AND sequence <= ?",
        made.id, organization_id, DELIVERED,
    )  # fmt: skip
    return made.id


def _many(tx: Tx, table: Table[Any], count: int, row: Callable[[int], Any]) -> Any:
    """Writes so many rows. Returns the id of the last."""
    last = None
    for some in _in_parts(count):
        rows = [row(number) for number in some]
        table.insert_many(tx, rows)
        last = rows[-1].id
    return last


def _in_parts(count: int) -> Iterator[range]:
    for first in range(1, count + 1, SOME):
        yield range(first, min(first + SOME, count + 1))


def _prepared(tx: Tx, account: AccountRow, number: int) -> PreparedRow:
    content = {
        "account_id": str(account.id), "amount": from_minor(number), "creditor_name": "Lieferant GmbH",
        "creditor_iban": "DE02120300000000202051", "description": f"Rechnung {number}",
    }  # fmt: skip
    return PreparedRow(
        account.organization_id, new_id(), "payment", "approved", encode(content).decode(), f"{number:064x}", "bench", "bench",
        tx.now, tx.now + DAY, "bench", tx.now, number, tx.now, f"key {number}", number,
    )  # fmt: skip


def _order_files(tx: Tx, account: AccountRow, count: int) -> int:
    """A file for each payment."""
    owner = account.organization_id
    add = (
        "INSERT INTO banking_order_file_payments (organization_id, order_file_id, payment_id, instruction_id)"
        " VALUES (?, ?, ?, ?)"
    )
    for some in _in_parts(count):
        tx.many(add, [(owner, number, number, f"KBF{number}-1") for number in some])
    last: int = _many(
        tx, ORDER_FILES, count,
        lambda number: OrderFileRow(
            owner, number, "files", account.id, f"KBF{number}", "Muster GmbH", 1, 100, tx.now, tx.now + DAY, None
        ),
    )  # fmt: skip
    return last


def _transmission(tx: Tx, account: AccountRow, books: Books) -> Transmission:
    owner = account.organization_id
    return Transmission(
        owner, new_id(), books.connection_id, books.client_id, "BUCHUNGSSTAPEL", "Stapel", "SUCCESS", "{}", "{}", "[]", owner,
        None, None, None, "bench", "bench", 1, 1, tx.now, tx.now, tx.now, 0, None,
    )  # fmt: skip


def _handovers(tx: Tx, account: AccountRow, books: Books, count: int) -> str:
    owner, last = account.organization_id, ""
    for some in _in_parts(count):
        rows = [
            HandoverRow(owner, new_id(), books.connection_id, books.client_id, 1, 100, "bench", tx.now) for _ in some
        ]
        HANDOVERS.insert_many(tx, rows)
        HANDOVER_FILES.insert_many(tx, [HandoverFileRow(owner, row.id, "EXTF.csv", b"EXTF", None) for row in rows])
        last = rows[-1].id
    return last


def _runs(tx: Tx, account: AccountRow, books: Books, count: int) -> str:
    owner, last = account.organization_id, ""
    for some in _in_parts(count):
        ids = {number: new_id() for number in some}
        RUNS.insert_many(tx, [
            RunRow(owner, run, account.id, "SEPA", None, 1, 100, "bench", owner, None, None, tx.now) for run in ids.values()
        ])  # fmt: skip
        RUN_PAYMENTS.insert_many(tx, [RunPaymentRow(owner, run, number, "paid") for number, run in ids.items()])
        invoices = [RunInvoiceRow(owner, run, books.payable_id, number, 100, 0) for number, run in ids.items()]
        RUN_INVOICES.insert_many(tx, invoices)
        last = ids[some[-1]]
    return last


def _matches(tx: Tx, account: AccountRow, books: Books, count: int) -> tuple[int, str]:
    """Returns the last transaction and its match."""
    owner, last = account.organization_id, ("", 0)
    matched = tx.all(
        "SELECT id, amount_minor FROM banking_transactions WHERE account_id = ? AND status = 'posted' ORDER BY id LIMIT ?",
        account.id, max(count - UNMATCHED, 1),
    )  # fmt: skip
    for some in _in_parts(len(matched)):
        ids = [(new_id(), *matched[number - 1]) for number in some]
        LINES.insert_many(tx, [
            LineRow(owner, match_id, 1, "on_account", "100010000", "", amount, amount) for match_id, _, amount in ids
        ])  # fmt: skip
        MATCHES.insert_many(tx, [
            MatchRow(
                owner, match_id, transaction_id, account.id, books.connection_id, books.client_id, None, "", "bench", _DAY,
                amount, "Beispiel AG", "", None, None, None, "bench", tx.now, None,
            )
            for match_id, transaction_id, amount in ids
        ])  # fmt: skip
        TRANSACTIONS.insert_many(
            tx,
            [
                TransactionRow(owner, transaction_id, account.id, "matched", None, tx.now)
                for _, transaction_id, _ in ids
            ],
        )
        last = ids[-1][:2]
    return last[1], last[0]


def _batch(tx: Tx, account: AccountRow, books: Books) -> BatchRow:
    own_id = new_id()
    wire = {
        "id": own_id, "account_id": str(account.id), "connection_id": books.connection_id, "client_id": books.client_id,
        "booked_by": "kontobahn", "fiscal_year_start": "2025-01-01", "from_date": _DAY, "to_date": _DAY, "matches": 0,
        "reversals": 0, "total": from_minor(100), "file_name": "EXTF.csv", "sha256": "0" * 64, "import_ids": [],
        "created_by": "bench", "created_at": to_datetime(tx.now),
    }  # fmt: skip
    rows: dict[str, list[str]] = {"lines": [], "left_out": [], "items": []}
    return BatchRow(
        account.organization_id, own_id, account.id, books.connection_id, books.client_id, "kontobahn", encode(wire).decode(),
        encode(rows).decode(), "EXTF.csv", "0" * 64, b"EXTF", "bench", tx.now,
    )  # fmt: skip
