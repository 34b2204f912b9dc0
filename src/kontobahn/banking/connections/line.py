"""The line of a connection to its bank, with a person at it: rights, orders that wait for signatures, keys.

Every step is in the audit log before the bank hears of it. Signing is off until the organisation has switched it on.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Literal, TypeVar

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.api.call import Context
from kontobahn.banking.bank_line import BankLine, LineFacts, WaitingOrder
from kontobahn.banking.connections import store
from kontobahn.banking.connections.store import ConnectionRow
from kontobahn.banking.provider import LOCKED, Banking, ProviderDown, ProviderRefused
from kontobahn.db import Tx
from kontobahn.errors import Conflict, NotFound
from kontobahn.sentences import said, without_stop

T = TypeVar("T")
# Unknown: the answer was lost. The bank takes a signature and a cancellation once, so that asking again does no harm.
Outcome = Literal["done", "unknown"]


def line_of(context: Context, row: ConnectionRow) -> BankLine:
    """Raises NotFound if the connection has no line of the organisation's own, or is not finished."""
    provider: object = context.part(Banking).providers.get(row.provider)
    if row.provider_ref and isinstance(provider, BankLine):
        return provider
    raise NotFound("There is no such page.")


def has_line(context: Context, row: ConnectionRow) -> bool:
    return bool(row.provider_ref) and isinstance(context.part(Banking).providers.get(row.provider), BankLine)


async def facts(context: Context, row: ConnectionRow) -> LineFacts:
    return await _told(line_of(context, row).line(row.organization_id, row.provider_ref))


async def ask_rights(context: Context, row: ConnectionRow) -> None:
    await _told(line_of(context, row).ask_rights(row.organization_id, row.provider_ref))


async def waiting(context: Context, row: ConnectionRow) -> list[WaitingOrder]:
    return await _told(line_of(context, row).waiting(row.organization_id, row.provider_ref))


async def waiting_order(context: Context, row: ConnectionRow, order_id: str) -> WaitingOrder:
    return await _told(line_of(context, row).waiting_order(row.organization_id, row.provider_ref, order_id))


async def _told(asked: Awaitable[T]) -> T:
    """Raises Conflict, in the bank's words, for what it refuses."""
    try:
        return await asked
    except ProviderRefused as error:
        raise Conflict(said("The bank did not do it: {reason}.", reason=without_stop(str(error)))) from None


async def allow_signing(context: Context, row: ConnectionRow, actor: Actor, *, allowed: bool) -> None:
    line = line_of(context, row)

    def unit(tx: Tx) -> None:
        line.allow_signing(tx, row.organization_id, row.provider_ref, allowed=allowed)
        audit.record(tx, row.organization_id, actor, "bank_line.signing", row.id, allowed=allowed)

    await context.db.write(unit)


async def sign(context: Context, row: ConnectionRow, order: WaitingOrder, digest: str, actor: Actor) -> Outcome:
    """Signs an order with the data that the person has seen. Raises Conflict if the bank did not take the signature."""
    asked = line_of(context, row).sign(row.organization_id, row.provider_ref, order.order_id, digest)
    return await _done(context, row, actor, "bank_line.sign", asked, **_details(order, digest))


async def cancel(context: Context, row: ConnectionRow, order: WaitingOrder, digest: str, actor: Actor) -> Outcome:
    asked = line_of(context, row).cancel(row.organization_id, row.provider_ref, order.order_id, digest)
    return await _done(context, row, actor, "bank_line.cancel", asked, **_details(order, digest))


def _details(order: WaitingOrder, digest: str) -> dict[str, Any]:
    amount = None if order.amount is None else str(order.amount)
    return {"order_id": order.order_id, "message_id": order.message_id, "amount": amount, "digest": digest}


async def change_keys(context: Context, row: ConnectionRow, actor: Actor) -> bool:
    """Gives the bank new keys. False if it has not confirmed them: the old ones hold until it has."""
    line, found = line_of(context, row), list[bool]()

    async def asked() -> None:
        found.append(await line.change_keys(row.organization_id, row.provider_ref))

    outcome = await _done(context, row, actor, "bank_line.keys", asked())
    return outcome == "done" and found == [True]


async def suspend(context: Context, row: ConnectionRow, actor: Actor) -> Outcome:
    """Has the bank lock the access. Nothing is fetched by it from then on."""
    asked = line_of(context, row).suspend(row.organization_id, row.provider_ref)
    outcome = await _done(context, row, actor, "bank_line.suspend", asked)
    if outcome == "done":
        await context.db.write(_locked, row)
    return outcome


def _locked(tx: Tx, row: ConnectionRow) -> None:
    again = store.look_up_locked(tx, row.organization_id, row.id)
    if again is not None:
        store.fail(tx, again, LOCKED, "The access was locked at the bank by a person here.")


async def _done(
    context: Context, row: ConnectionRow, actor: Actor, action: str, asked: Awaitable[None], **details: Any
) -> Outcome:
    # Before anything is sent: whatever happens then, it is known who wanted it.
    await context.db.write(_record, row, actor, action, details)
    try:
        await asked
    except ProviderDown:
        return "unknown"
    except ProviderRefused as error:
        reason = without_stop(str(error))
        await context.db.write(_record, row, actor, f"{action}_refused", {**details, "reason": reason})
        raise Conflict(said("The bank did not do it: {reason}.", reason=reason)) from None
    return "done"


def _record(tx: Tx, row: ConnectionRow, actor: Actor, action: str, details: dict[str, Any]) -> None:
    audit.record(tx, row.organization_id, actor, action, row.id, **details)
