"""Order files sent to the bank by us, each once. They wait there until people have signed them."""

from __future__ import annotations

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.api.call import Context
from kontobahn.banking.payments import order_files, store
from kontobahn.banking.payments.order_files import OrderFileRow
from kontobahn.banking.payments.rules import AWAITING_PAYER
from kontobahn.banking.provider import (
    Banking,
    BankProvider,
    OrderFile,
    OrderLine,
    ProviderRefused,
    Submission,
    Template,
)
from kontobahn.clock import berlin_date
from kontobahn.db import Tx
from kontobahn.errors import Conflict, Unavailable
from kontobahn.sentences import said, without_stop


async def submit(context: Context, file: OrderFileRow, actor: Actor) -> Submission:
    """Sends a file to its bank, once. Raises Conflict if the bank has it, may have it, or refuses it."""
    provider = context.part(Banking).provider(file.provider)
    if not isinstance(provider, OrderLine):
        raise Conflict("Orders from this account are not sent by us: upload the file at the bank.")
    known = await provider.submission(file.organization_id, file.message_id)
    if known is not None and known.state not in ("refused", "missing"):
        order_files.check_not_at_bank(file._replace(submitted_at=file.created_at))
    claimed, written, ref, template = await context.db.write(_claim, provider, file, actor)
    try:
        return await provider.submit(file.organization_id, ref, written, template)
    except (ProviderRefused, Unavailable) as error:
        # Only if nothing was sent that the bank may have.
        known = await provider.submission(file.organization_id, file.message_id)
        if known is None or known.state in ("refused", "missing"):
            await context.db.write(order_files.not_submitted, file.organization_id, claimed.message_id)
        if isinstance(error, Unavailable):
            raise
        reason = without_stop(str(error))
        raise Conflict(said("The bank did not take the order file: {reason}.", reason=reason)) from None


def _claim(
    tx: Tx, provider: BankProvider, file: OrderFileRow, actor: Actor
) -> tuple[OrderFileRow, OrderFile, str, Template]:
    again = order_files.under_lock(tx, file)
    if again.submitted_at is not None and again.submitted_at > tx.now - order_files.CLAIM_TIME:
        order_files.check_not_at_bank(again)
    for row in order_files.payments_of(tx, again):
        # Nobody cancels it meanwhile.
        store.lock(tx, row.organization_id, row.id)
    rows, orders = order_files.payments_of(tx, again), order_files.orders_of(tx, again)
    for row in rows:
        if row.status not in AWAITING_PAYER:
            raise Conflict(said("The payment {id} is {status}.", id=row.id, status=row.status))
    kinds = {row.template_identifier for row in rows}
    if len(kinds) != 1:
        raise Conflict("Banks take transfers and instant transfers in a file each: make one file of each kind.")
    if order_files.written_file(tx, provider, again).first_day < berlin_date(tx.now):
        again = order_files.ORDER_FILES.update(tx, again, issued_at=tx.now)
    again = order_files.ORDER_FILES.update(tx, again, submitted_at=tx.now)
    audit.record(tx, again.organization_id, actor, "order_file.submit", str(again.id), payments=again.payments)
    return again, order_files.written_file(tx, provider, again), orders[0].connection_ref, kinds.pop()
