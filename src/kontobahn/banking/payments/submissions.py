"""Order files sent to the bank by us, each once: over HTTP, and from their page. They wait there until people have signed them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.api.answers import Data
from kontobahn.api.call import Call, Context
from kontobahn.api.declare import get, post
from kontobahn.api.wire import Answer
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
    SubmissionState,
    Template,
)
from kontobahn.banking.wire import NumericId
from kontobahn.clock import berlin_date
from kontobahn.db import Tx
from kontobahn.errors import Conflict, Unavailable
from kontobahn.sentences import said, without_stop


class OrderFileSubmission(Answer):
    order_file_id: str
    # `unknown`: the bank's answer was lost. Nothing is sent again until its protocol, or a person, has said where the file is.
    state: Literal[SubmissionState, "not_sent"]
    order_id: Annotated[str | None, Meta(description="The bank's number of the order.", examples=["N00A"])]
    message: str | None


@post("/v2/banking/order-files/{id}/submission", scope="payments", statuses=(200,), errors=(403, 404, 409))
async def submit_order_file(call: Call, id: NumericId) -> Data[OrderFileSubmission]:
    """Send an order file to the bank, where the account's connection can do so (EBICS).

    It goes there once and unsigned, and waits until people have signed it. A file that the bank has, or may have, is refused.
    """
    file = await call.read(order_files.find, call.principal, id)
    return Data(_shown(file, await submit(call.context, file, call.actor)))


@get("/v2/banking/order-files/{id}/submission", scope=("banking:read", "payments"), errors=(403, 404))
async def get_order_file_submission(call: Call, id: NumericId) -> Data[OrderFileSubmission]:
    """Read what became of an order file that was sent to the bank from here."""
    file = await call.read(order_files.find, call.principal, id)
    return Data(_shown(file, await find(call.context, file)))


def _shown(file: OrderFileRow, found: Submission | None) -> OrderFileSubmission:
    if found is None:
        return OrderFileSubmission(str(file.id), "not_sent", None, None)
    return OrderFileSubmission(str(file.id), found.state, found.order_id or None, found.said or None)


async def find(context: Context, file: OrderFileRow) -> Submission | None:
    """Returns what became of a file; None if nothing was ever sent."""
    provider = context.part(Banking).provider(file.provider)
    return await provider.submission(file.organization_id, file.message_id) if isinstance(provider, OrderLine) else None


async def decide(context: Context, file: OrderFileRow, actor: Actor, *, has_it: bool) -> None:
    """Takes a person's word for a file whose answer was lost. Raises Conflict if it is known, or may soon be, where it is."""
    provider = context.part(Banking).provider(file.provider)
    if not isinstance(provider, OrderLine):
        raise Conflict("Orders from this account are not sent by us: upload the file at the bank.")

    def note(tx: Tx) -> None:
        audit.record(tx, file.organization_id, actor, "order_file.decide", str(file.id), at_bank=has_it)

    try:
        await provider.decide(file.organization_id, file.message_id, note, has_it=has_it)
    except ProviderRefused as error:
        raise Conflict(said("{reason}.", reason=without_stop(str(error)))) from None


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
