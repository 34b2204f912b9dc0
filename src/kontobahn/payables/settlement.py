"""Paid: what makes a received invoice paid, and what takes that back. Its payment at the bank, and matches of its document.

Reconciliation calls what is about matches, in its own transaction; a job looks after the payments of runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kontobahn.api.call import Context
from kontobahn.banking.payments import store as payments
from kontobahn.db import Tx
from kontobahn.payables import run_store, store
from kontobahn.payables.rules import Status, beleg_of
from kontobahn.payables.run_store import RUN_PAYMENTS, PaymentState
from kontobahn.payables.store import DUE, DueRow
from kontobahn.payables.wire import emit_paid

# The author of what follows from the bank's bookings.
BANK = "bank"
# A release takes an invoice that a match has paid before on to `paid`; until then it waits for its person.
_MAY_BECOME_PAID: tuple[Status, ...] = ("released", "in_payment")


# --- Payments of runs


async def follow_payments(context: Context) -> None:
    """Lets invoices follow the payments of their runs."""
    for organization_id in await context.db.read(run_store.organizations_with_open_payments):
        await context.db.write(follow, organization_id)


def follow(tx: Tx, organization_id: str) -> None:
    """Closes invoices whose payment the bank has booked, and frees those whose payment has failed for another run."""
    store.lock(tx, organization_id)
    waiting = run_store.open_payments(tx, organization_id)
    ended = payments.final_among(tx, organization_id, [row.payment_id for row in waiting])
    invoices = run_store.invoices_in(tx, organization_id, ended)
    for row in waiting:
        status = ended.get(row.payment_id)
        if status is None:
            continue
        state: PaymentState = "paid" if status == "settled" else "failed"
        RUN_PAYMENTS.update(tx, row, state=state)
        rows = store.due_in(tx, organization_id, [one.payable_id for one in invoices.get(row.payment_id, [])])
        for due in rows.values():
            # One that was paid by a match, or is in another run by now, is not this payment's any more.
            if due.status == "in_payment" and due.payment_id == row.payment_id:
                _end(tx, due, paid=state == "paid" or due.match_id is not None)


def _end(tx: Tx, row: DueRow, *, paid: bool) -> None:
    if paid:
        mark_paid(tx, row)
        return
    status: Status = "released"
    store.record_step(tx, row, "payment_failed", "", BANK, "")
    DUE.update(tx, row, status=status, updated_at=tx.now)


def mark_paid(tx: Tx, row: DueRow) -> None:
    status: Status = "paid"
    store.record_step(tx, row, "paid", "", BANK, "")
    emit_paid(tx, DUE.update(tx, row, status=status, updated_at=tx.now))


# --- Matches


class Client(NamedTuple):
    organization_id: str
    connection_id: str
    client_id: str


class MatchedDocument(NamedTuple):
    """A document that a match takes from, or gives back to; the amount is signed as at the bank."""

    konto: str
    beleg: str
    amount_minor: int
    is_return: bool


def note_match(tx: Tx, client: Client, match_id: str, documents: Iterable[MatchedDocument]) -> None:
    """Closes the invoices that a match pays in full, and opens those whose payment came back."""
    for document in documents:
        for row in _invoices(tx, client, document):
            if document.is_return:
                if row.status == "paid":
                    _reopen(tx, row, "released", "return")
            elif _pays(document, row):
                matched = DUE.update(tx, row, match_id=match_id, updated_at=tx.now)
                if matched.status in _MAY_BECOME_PAID:
                    mark_paid(tx, matched)


def note_undo(tx: Tx, client: Client, match_id: str, documents: Iterable[MatchedDocument]) -> None:
    """Takes back what `note_match` did; an invoice whose payment the bank has booked stays paid."""
    for document in documents:
        for row in _invoices(tx, client, document):
            if document.is_return:
                steps = store.steps_of(tx, row)
                if row.status == "released" and steps[-1].action == "return":
                    mark_paid(tx, row)
            elif row.match_id == match_id:
                _without_match(tx, row)


def _without_match(tx: Tx, row: DueRow) -> None:
    if row.status != "paid":
        DUE.update(tx, row, match_id=None, updated_at=tx.now)
        return
    of_run = None if row.payment_id is None else run_store.run_of_payment(tx, row.organization_id, row.payment_id)
    ended = {} if of_run is None else payments.final_among(tx, row.organization_id, [of_run.payment_id])
    if of_run is not None and ended.get(of_run.payment_id) == "settled":
        DUE.update(tx, row, match_id=None, updated_at=tx.now)
    else:
        _reopen(tx, row, "in_payment" if of_run is not None and not ended else "released", "reopen")


def _reopen(tx: Tx, row: DueRow, status: Status, action: str) -> None:
    store.record_step(tx, row, action, "", BANK, "")
    DUE.update(tx, row, status=status, match_id=None, updated_at=tx.now)


def _invoices(tx: Tx, client: Client, document: MatchedDocument) -> list[DueRow]:
    """Returns the received invoices that a document of the books is."""
    if not document.beleg:
        return []
    if not store.by_beleg(tx, client.organization_id, document.konto, document.beleg):
        return []
    # Read again under the lock: a run may have taken them a moment ago.
    store.lock(tx, client.organization_id)
    return [
        row
        for row in store.by_beleg(tx, client.organization_id, document.konto, document.beleg)
        if (row.connection_id, row.client_id) == client[1:] and beleg_of(row.number) == document.beleg
    ]


def _pays(document: MatchedDocument, row: DueRow) -> bool:
    """Returns whether all that is owed goes out, or comes in for a credit note; a discount is in the amount."""
    return row.payable_minor != 0 and -document.amount_minor * (1 if row.payable_minor > 0 else -1) >= abs(
        row.payable_minor
    )
