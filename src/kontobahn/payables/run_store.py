"""The rows of payment runs: the run, its payments, and the invoices in each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from kontobahn.access.principal import Principal, find_in_scope, in_scope
from kontobahn.banking.provider import Template
from kontobahn.db import Table, Tx, chunked
from kontobahn.payables import store
from kontobahn.payables.rules import beleg_of

PaymentState = Literal["open", "paid", "failed"]


class RunRow(NamedTuple):
    organization_id: str
    id: str
    account_id: int
    template: Template
    execution_date: str | None
    payments: int
    amount_minor: int
    actor: str
    caller_id: str
    idempotency_key: str | None
    idempotency_fingerprint: str | None
    created_at: int


class RunPaymentRow(NamedTuple):
    organization_id: str
    run_id: str
    payment_id: int
    state: PaymentState


class RunInvoiceRow(NamedTuple):
    organization_id: str
    run_id: str
    payable_id: str
    payment_id: int
    amount_minor: int
    skonto_minor: int


RUNS = Table("payables_runs", RunRow)
RUN_PAYMENTS = Table("payables_run_payments", RunPaymentRow, key=("organization_id", "run_id", "payment_id"))
RUN_INVOICES = Table("payables_run_invoices", RunInvoiceRow, key=("organization_id", "run_id", "payable_id"))


def find(tx: Tx, principal: Principal, run_id: str) -> RunRow:
    return find_in_scope(tx, RUNS, principal, "Payment run", run_id.lower())


def by_key(tx: Tx, caller_id: str, key: str, since: int) -> RunRow | None:
    """Returns the run that a call with this idempotency key has made."""
    return RUNS.one(
        tx, "caller_id = ? AND idempotency_key = ? AND created_at > ? ORDER BY created_at DESC LIMIT 1",
        caller_id, key, since,
    )  # fmt: skip


def listing(tx: Tx, organizations: tuple[str, ...], from_id: str | None, limit: int) -> list[RunRow]:
    """Returns runs in the order in which they were made."""
    only, params = ("", ()) if from_id is None else (" AND id > ?", (from_id,))
    return RUNS.all(tx, f"{in_scope(len(organizations))}{only} ORDER BY id LIMIT ?", *organizations, *params, limit)


def latest(tx: Tx, organization_id: str, before: str, limit: int) -> list[RunRow]:
    """Returns the newest first; `before` is the id of the last one of the page before."""
    only, params = (" AND id < ?", (before,)) if before else ("", ())
    return RUNS.all(tx, f"organization_id = ?{only} ORDER BY id DESC LIMIT ?", organization_id, *params, limit)


def payments_of(tx: Tx, run: RunRow) -> list[RunPaymentRow]:
    return RUN_PAYMENTS.all(tx, "organization_id = ? AND run_id = ? ORDER BY payment_id", run.organization_id, run.id)


def invoices_of(tx: Tx, run: RunRow) -> list[RunInvoiceRow]:
    return RUN_INVOICES.all(tx, "organization_id = ? AND run_id = ? ORDER BY payable_id", run.organization_id, run.id)


def invoices_in(tx: Tx, organization_id: str, payment_ids: Iterable[int]) -> dict[int, list[RunInvoiceRow]]:
    """Returns the invoices that these payments were made for, by payment."""
    found: dict[int, list[RunInvoiceRow]] = {}
    for some, is_one in chunked(payment_ids):
        for row in RUN_INVOICES.all(
            tx, f"organization_id = ? AND payment_id {is_one} ORDER BY payable_id", organization_id, *some
        ):
            found.setdefault(row.payment_id, []).append(row)
    return found


class PaidDocument(NamedTuple):
    """A document of the books that a payment pays, with the Skonto that was deducted; of a credit note negative."""

    konto: str
    beleg: str
    amount_minor: int
    skonto_minor: int


def documents_of(tx: Tx, organization_id: str, payment_ids: Iterable[int]) -> dict[int, list[PaidDocument]]:
    """Returns what these payments pay, as far as runs have made them."""
    invoices = invoices_in(tx, organization_id, payment_ids)
    rows = store.due_in(tx, organization_id, {one.payable_id for some in invoices.values() for one in some})
    return {
        payment_id: [
            PaidDocument(
                rows[one.payable_id].konto, beleg_of(rows[one.payable_id].number), one.amount_minor, one.skonto_minor
            )
            for one in some
        ]
        for payment_id, some in invoices.items()
    }


def run_of_payment(tx: Tx, organization_id: str, payment_id: int) -> RunPaymentRow | None:
    """Returns the payment's place in a run, if a run has made it."""
    first = tx.one(
        "SELECT run_id FROM payables_run_invoices WHERE organization_id = ? AND payment_id = ? LIMIT 1",
        organization_id, payment_id,
    )  # fmt: skip
    if first is None:
        return None
    return RUN_PAYMENTS.one(
        tx, "organization_id = ? AND run_id = ? AND payment_id = ?", organization_id, first[0], payment_id
    )


def open_payments(tx: Tx, organization_id: str) -> list[RunPaymentRow]:
    return RUN_PAYMENTS.all(tx, "organization_id = ? AND state = 'open' ORDER BY payment_id", organization_id)


def organizations_with_open_payments(tx: Tx) -> Sequence[str]:
    rows = tx.all("SELECT DISTINCT organization_id FROM payables_run_payments WHERE state = 'open'")
    return [organization_id for (organization_id,) in rows]
