"""Cancelling a payment, as long as the bank has not begun to carry it out and its provider agrees."""

from __future__ import annotations

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.api.call import Context
from kontobahn.banking.payments import poll, store
from kontobahn.banking.payments.apply import apply
from kontobahn.banking.payments.store import PaymentRow
from kontobahn.banking.payments.transitions import AWAITING_PAYER
from kontobahn.banking.provider import CANCELLED, Banking, PaymentReport, PaymentStatus, ProviderRefused
from kontobahn.db import Tx
from kontobahn.errors import Conflict

# Once the bank processes it, only the bank can stop it.
CANCELLABLE: frozenset[PaymentStatus] = AWAITING_PAYER | {"authorized"}


async def cancel(context: Context, row: PaymentRow, actor: Actor) -> PaymentRow:
    """Returns the cancelled payment; one that is cancelled already, as it is. Raises Conflict if it cannot be any more."""
    if row.error_class == CANCELLED:
        return row
    _check(row)
    if row.provider_ref is None:
        row = await poll.look_again(context, row)
    if row.provider_ref is None:
        raise Conflict("It is not known yet whether the bank has this payment. Try again in a few minutes.")
    try:
        report = await context.part(Banking).provider(row.provider).cancel_payment(row.provider_ref)
    except ProviderRefused as error:
        raise Conflict(f"This payment cannot be cancelled: {error}.") from None
    return await context.db.write(_apply, row, report, actor)


def _apply(tx: Tx, row: PaymentRow, report: PaymentReport, actor: Actor) -> PaymentRow:
    store.lock(tx, row.organization_id, row.id)
    row = store.get(tx, row.organization_id, row.id)
    # Decided again under the lock: a report or a booked debit may have come meanwhile.
    if row.error_class != CANCELLED:
        _check(row)
        row = apply(tx, row.organization_id, row.id, report, "cancellation")
    audit.record(tx, row.organization_id, actor, "payment.cancel", str(row.id))
    return row


def _check(row: PaymentRow) -> None:
    if row.status not in CANCELLABLE:
        raise Conflict(f"This payment is {row.status} and can no longer be cancelled.")
