"""A payment at the bank: sent there, looked for, polled, cancelled, or handed out as a file to upload.

The bank is asked outside any transaction; its answer goes through `store.apply` like every other report.
"""

from __future__ import annotations

from kontobahn import log
from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.api.call import Context
from kontobahn.banking.payments import links, releases, store
from kontobahn.banking.payments.rules import AWAITING_PAYER, FINAL
from kontobahn.banking.payments.store import PAYMENTS, POLL, POLL_AFTER, PaymentRow, apply, apply_start, as_order
from kontobahn.banking.payments.wire import OrderWarning
from kontobahn.banking.provider import (
    CANCELLED,
    CANNOT_BE_KNOWN,
    Banking,
    BankProvider,
    PaymentReport,
    PaymentStatus,
    ProviderDown,
    ProviderRefused,
)
from kontobahn.clock import HOUR, MINUTE, berlin_date
from kontobahn.db import Tx
from kontobahn.errors import Conflict, DatabaseUnavailable, OutcomeUnknown, SetupError, Unavailable
from kontobahn.sentences import said

# --- Sent


async def send_to_bank(context: Context, row: PaymentRow) -> PaymentRow:
    """Hands the order to the provider and applies its answer, unless another process has done so or begun to.

    The payment is written already. If the database fails now, it is returned as it was written: polling finds out the rest.
    """
    try:
        return await _send(context, row)
    except (DatabaseUnavailable, OutcomeUnknown) as error:
        log.warning("payment_creation_not_recorded", payment_id=row.id, detail=error.operator)
        return row


async def _send(context: Context, row: PaymentRow) -> PaymentRow:
    provider = context.part(Banking).provider(row.provider)
    order = await context.db.read(as_order, row)
    callback_url, state = links.way_back(context, row)
    order = order._replace(callback_url=callback_url, state=state)
    # From here on it may be at the bank, whatever becomes of this process.
    if not await context.db.write(store.claim_sending, row.organization_id, row.id):
        return await context.db.read(store.get, row.organization_id, row.id)
    try:
        start = await provider.create_payment(order)
    except ProviderRefused as error:
        status: PaymentStatus = "rejected" if error.raw_status == "RJCT" else "failed"
        report = PaymentReport(status, error.raw_status, error.error_class, str(error))
        return await context.db.write(apply, row.organization_id, row.id, report, "creation")
    except (ProviderDown, Unavailable, TimeoutError) as error:
        # It is unknown whether the bank has it. It is neither sent again nor marked as failed: polling looks for it.
        log.warning("payment_creation_without_answer", payment_id=row.id, detail=str(error))
        return row
    return await context.db.write(apply_start, row, start, "creation")


# --- Asked about: when one is read, and by a job for those that nothing was reported on


# A payer who is at the bank when the address expires may finish a little later.
PAYER_GRACE = HOUR
# A creation without an answer is given up if the provider does not have it after this long.
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


async def recheck_unanswered(context: Context, row: PaymentRow) -> PaymentRow:
    """Returns a payment whose creation had no answer as the bank has it now, or as it is if the bank still does not answer."""
    try:
        return await ask_bank(context, row)
    except Unavailable as error:
        log.warning("payment_still_without_answer", payment_id=row.id, detail=str(error))
        return row


async def _find_at_bank(context: Context, provider: BankProvider, row: PaymentRow) -> PaymentRow:
    """Looks for a payment whose creation had no answer. It is never created again."""
    if row.waits_for_release:
        is_over = row.release_expires_at is not None and row.release_expires_at <= context.clock.now()
        return await context.db.write(releases.expire, row) if is_over else row
    if row.unsent:
        # Its process is about to send it, or has died before it could; a repeated call sends it as well.
        is_young = row.ordered_at > context.clock.now() - CREATION_GRACE
        return row if is_young else await context.db.write(_give_up_unsent, row)
    order = await context.db.read(as_order, row)
    start = await provider.find_payment(order)
    if start == CANNOT_BE_KNOWN:
        # Neither success nor failure: the booked debit decides, whenever it comes.
        return row
    if start is not None:
        return await context.db.write(apply_start, row, start, POLL)
    if row.ordered_at > context.clock.now() - CREATION_GRACE:
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


# --- Cancelled: as long as the bank has not begun to carry it out and its provider agrees


# Once the bank processes it, only the bank can stop it.
CANCELLABLE: frozenset[PaymentStatus] = AWAITING_PAYER | {"authorized"}


async def cancel(context: Context, row: PaymentRow, actor: Actor) -> PaymentRow:
    """Returns the cancelled payment; one that is already cancelled, as it is. Raises Conflict if it is too late."""
    if row.error_class == CANCELLED:
        return row
    _check_cancellable(row)
    if row.waits_for_release:
        report = PaymentReport("failed", None, CANCELLED, "The payment was cancelled before its release.")
        return await context.db.write(_apply_cancellation, row, report, actor, only_waiting=True)
    if row.provider_ref is None:
        row = await recheck_unanswered(context, row)
    if row.provider_ref is None:
        raise Conflict("It is not known yet whether the bank has this payment. Try again in a few minutes.")
    try:
        report = await context.part(Banking).provider(row.provider).cancel_payment(row.provider_ref)
    except ProviderRefused as error:
        raise Conflict(said("This payment cannot be cancelled: {why}.", why=error)) from None
    return await context.db.write(_apply_cancellation, row, report, actor)


def _apply_cancellation(
    tx: Tx, row: PaymentRow, report: PaymentReport, actor: Actor, *, only_waiting: bool = False
) -> PaymentRow:
    store.lock(tx, row.organization_id, row.id)
    row = store.get(tx, row.organization_id, row.id)
    if only_waiting and row.error_class != CANCELLED and not row.waits_for_release:
        raise Conflict("This payment has been released in the meantime. Try again.")
    # Decided again under the lock: a report or a booked debit may have come meanwhile.
    if row.error_class != CANCELLED:
        _check_cancellable(row)
        if store.is_at_bank(tx, row):
            raise Conflict("The file with this payment was sent to the bank. Cancel it there.")
        row = apply(tx, row.organization_id, row.id, report, "cancellation")
    audit.record(tx, row.organization_id, actor, "payment.cancel", str(row.id))
    return row


def _check_cancellable(row: PaymentRow) -> None:
    if row.status not in CANCELLABLE:
        raise Conflict(said("This payment is {status} and can no longer be cancelled.", status=row.status))


# --- Handed out: an order that the payer uploads at the bank as a file


async def hand_out(context: Context, row: PaymentRow) -> bytes:
    """Returns the order of a payment as a file. Raises Conflict if it has none, or it may no longer be uploaded."""
    provider = context.part(Banking).provider(row.provider)
    if not provider.orders_are_files:
        raise Conflict("This payment is authorised at its `payment_url`; there is no file for it.")
    return await context.db.write(_take_order, provider, row)


async def warnings_of(context: Context, row: PaymentRow) -> list[OrderWarning]:
    """Returns what to know before the order of a payment is uploaded by itself, as long as that can be."""
    provider = context.part(Banking).providers.get(row.provider)
    is_open = row.status in AWAITING_PAYER and row.provider_ref is not None and row.order_file_id is None
    if provider is None or not provider.orders_are_files or not is_open:
        return []
    order = await context.db.read(as_order, row)
    now = context.clock.now()
    taken_at = row.order_taken_at or now
    file = provider.order_file(order.end_to_end_id, taken_at, [order], row.order_issued_at)
    return store.order_warnings(file, [row], berlin_date(now))


def _take_order(tx: Tx, provider: BankProvider, row: PaymentRow) -> bytes:
    """Marks the order as handed out. The file is the same every time until its day has passed, and then issued again."""
    store.lock(tx, row.organization_id, row.id)
    row = store.get(tx, row.organization_id, row.id)
    if row.status in ("failed", "rejected"):
        raise Conflict(said("This payment is {status}: its order must no longer be uploaded.", status=row.status))
    releases.check_released(row)
    # The condition is in the UPDATE: a file with several orders takes them by another, without this lock.
    taken = tx.one(
        "UPDATE banking_payments SET order_taken_at = COALESCE(order_taken_at, ?)"
        " WHERE organization_id = ? AND id = ? AND order_file_id IS NULL RETURNING order_taken_at",
        tx.now, row.organization_id, row.id,
    )  # fmt: skip
    if taken is None:
        raise Conflict(said("This order is in the order file {id}, and is uploaded with it.", id=row.order_file_id))
    order, taken_at = as_order(tx, row), int(taken[0])
    # The message id is that of its one payment: a status report on the whole file is one on the payment.
    file = provider.order_file(order.end_to_end_id, taken_at, [order], row.order_issued_at)
    if file.first_day >= berlin_date(tx.now):
        return file.content
    PAYMENTS.update(tx, row, order_issued_at=tx.now)
    return provider.order_file(order.end_to_end_id, taken_at, [order], tx.now).content
