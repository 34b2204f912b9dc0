"""Orders that the payer uploads at the bank as files: handed out, and recorded as handed out."""

from __future__ import annotations

from kontobahn.api.call import Context
from kontobahn.banking.payments import store
from kontobahn.banking.payments.create import as_order
from kontobahn.banking.payments.store import PaymentRow
from kontobahn.banking.provider import Banking, PaymentOrder
from kontobahn.db import Tx
from kontobahn.errors import Conflict


async def hand_out(context: Context, row: PaymentRow) -> bytes:
    """Returns the order of a payment as a file. Raises Conflict if it has none, or must not be uploaded any more."""
    provider = context.part(Banking).provider(row.provider)
    if not provider.orders_are_files:
        raise Conflict("This payment is authorised at its `payment_url`; there is no file for it.")
    order, taken_at = await context.db.write(_take, row)
    # The message id is that of its one payment: a status report on the whole file is one on the payment.
    return provider.order_file(order.end_to_end_id, taken_at, [order]).content


def _take(tx: Tx, row: PaymentRow) -> tuple[PaymentOrder, int]:
    """Marks the order as handed out. The first time is the time in the file, so that the file is always the same."""
    store.lock(tx, row.organization_id, row.id)
    row = store.get(tx, row.organization_id, row.id)
    if row.status in ("failed", "rejected"):
        raise Conflict(f"This payment is {row.status}: its order must no longer be uploaded.")
    # The condition is in the UPDATE: a file with several orders takes them by another, without this lock.
    taken = tx.one(
        "UPDATE banking_payments SET order_taken_at = COALESCE(order_taken_at, ?)"
        " WHERE organization_id = ? AND id = ? AND order_file_id IS NULL RETURNING order_taken_at",
        tx.now, row.organization_id, row.id,
    )  # fmt: skip
    if taken is None:
        raise Conflict(f"This order is in the order file {row.order_file_id}, and is uploaded with it.")
    return as_order(tx, row), int(taken[0])
