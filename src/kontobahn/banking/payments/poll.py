"""Asking the bank about payments: when one is read, and by a job for those that nothing was reported on.

The bank is asked outside any transaction; its answer goes through `apply` like every other report.
"""

from __future__ import annotations

from kontobahn import log
from kontobahn.api.call import Context
from kontobahn.banking.payments import store
from kontobahn.banking.payments.apply import POLL, POLL_AFTER, apply, apply_start
from kontobahn.banking.payments.create import as_order
from kontobahn.banking.payments.store import PAYMENTS, PaymentRow
from kontobahn.banking.payments.transitions import AWAITING_PAYER, FINAL
from kontobahn.banking.provider import CANNOT_BE_KNOWN, Banking, BankProvider, PaymentReport, ProviderRefused
from kontobahn.clock import HOUR, MINUTE
from kontobahn.db import Tx
from kontobahn.errors import SetupError, Unavailable

# A payer who is at the bank when the address expires may finish a little later.
PAYER_GRACE = HOUR
# A creation without an answer is given up if the provider does not know of it after this long.
CREATION_GRACE = 5 * MINUTE
BATCH = 100


async def ask_bank(context: Context, row: PaymentRow) -> PaymentRow:
    """Returns the payment as the bank has it now. Raises Unavailable if the bank cannot be asked."""
    if row.status in FINAL:
        return row
    provider = context.part(Banking).provider(row.provider)
    if row.provider_ref is None:
        return await _find_at_bank(context, provider, row)
    try:
        report = await provider.payment_status(row.provider_ref)
    except ProviderRefused as error:
        report = PaymentReport(None, error.raw_status, error.error_class, str(error))
    row = await context.db.write(apply, row.organization_id, row.id, report, POLL)
    if _is_abandoned(row, context.clock.now()):
        row = await context.db.write(_abandon, row)
    return row


def _abandon(tx: Tx, row: PaymentRow) -> PaymentRow:
    # Decided again under the lock: its file may have been fetched a moment ago.
    store.lock(tx, row.organization_id, row.id)
    row = store.get(tx, row.organization_id, row.id)
    # The row is held too: a file with several orders takes them without this lock.
    if not _is_abandoned(row, tx.now) or not _hold_untaken(tx, row):
        return store.get(tx, row.organization_id, row.id)
    abandoned = PaymentReport("failed", None, "Unfinished", "The payer did not confirm the payment in time.")
    return apply(tx, row.organization_id, row.id, abandoned, "time")


def _hold_untaken(tx: Tx, row: PaymentRow) -> bool:
    return bool(
        tx.run(
            "UPDATE banking_payments SET updated_at = updated_at"
            " WHERE organization_id = ? AND id = ? AND order_taken_at IS NULL",
            row.organization_id, row.id,
        )
    )  # fmt: skip


async def look_again(context: Context, row: PaymentRow) -> PaymentRow:
    """Returns a payment whose creation had no answer as the bank has it now, or as it is if the bank still does not answer."""
    try:
        return await ask_bank(context, row)
    except Unavailable as error:
        log.warning("payment_still_without_answer", payment_id=row.id, detail=str(error))
        return row


async def _find_at_bank(context: Context, provider: BankProvider, row: PaymentRow) -> PaymentRow:
    """Looks for a payment whose creation had no answer. It is never created again."""
    if row.unsent:
        # Its process is about to send it, or has died before it could; a repeated call sends it as well.
        is_young = row.created_at > context.clock.now() - CREATION_GRACE
        return row if is_young else await context.db.write(_give_up_unsent, row)
    order = await context.db.read(as_order, row)
    start = await provider.find_payment(order)
    if start == CANNOT_BE_KNOWN:
        # Neither success nor failure: the booked debit tells, whenever it comes.
        return row
    if start is not None:
        return await context.db.write(apply_start, row, start, POLL)
    if row.created_at > context.clock.now() - CREATION_GRACE:
        return row
    return await context.db.write(_give_up_creation, row)


def _give_up_creation(tx: Tx, row: PaymentRow) -> PaymentRow:
    # Decided again under the lock: the bank's answer to the creation may have come while it was asked.
    store.lock(tx, row.organization_id, row.id)
    row = store.get(tx, row.organization_id, row.id)
    if row.provider_ref is not None:
        return row
    lost = PaymentReport("failed", None, "PaymentInitiationTimeout", "The payment never reached the bank.")
    return apply(tx, row.organization_id, row.id, lost, POLL)


def _give_up_unsent(tx: Tx, row: PaymentRow) -> PaymentRow:
    if not store.claim_sending(tx, row.organization_id, row.id):
        return store.get(tx, row.organization_id, row.id)
    unsent = PaymentReport("failed", None, "PaymentInitiationTimeout", "The payment was never sent to the bank.")
    return apply(tx, row.organization_id, row.id, unsent, "time")


def _is_abandoned(row: PaymentRow, now: int) -> bool:
    # An order that was handed out as a file may be at the bank by now: only a report, a debit or a person ends it.
    if row.status not in AWAITING_PAYER or row.order_taken_at is not None:
        return False
    return row.expires_at is not None and row.expires_at + PAYER_GRACE <= now


async def poll_due_payments(context: Context) -> None:
    while claimed := await context.db.write(_claim_due):
        for row in claimed:
            try:
                await ask_bank(context, row)
            except (Unavailable, SetupError) as error:
                log.warning("payment_poll_failed", payment_id=row.id, detail=str(error))


def _claim_due(tx: Tx) -> list[PaymentRow]:
    due = PAYMENTS.all(tx, "next_poll_at <= ? ORDER BY next_poll_at LIMIT ?", tx.now, BATCH)
    return [row for row in due if _claim(tx, row)]


def _claim(tx: Tx, row: PaymentRow) -> bool:
    # In the UPDATE: a report may have ended the payment, or put off its next poll, since it was read.
    wait = POLL_AFTER[min(row.polls, len(POLL_AFTER) - 1)]
    return bool(
        tx.run(
            "UPDATE banking_payments SET polls = polls + 1, next_poll_at = ?"
            " WHERE organization_id = ? AND id = ? AND next_poll_at = ?",
            tx.now + wait, row.organization_id, row.id, row.next_poll_at,
        )
    )  # fmt: skip
