"""Orders that wait at the bank: listed, signed and cancelled in the name of a person who has just shown a second factor.

Only what was sent from here is signed: of that it is known what it holds, and its hash says that the bank has the same.
"""

from __future__ import annotations

from typing import get_args

from kontobahn.bank_providers.ebics import store
from kontobahn.bank_providers.ebics.client import EbicsClient, Line
from kontobahn.bank_providers.ebics.store import OrderRow
from kontobahn.banking.bank_line import WaitingOrder
from kontobahn.banking.provider import ProviderRefused
from kontobahn.db import Database
from kontobahn.formats.ebics import payloads, requests, return_codes, waiting_orders
from kontobahn.formats.ebics.documents import EbicsError
from kontobahn.formats.ebics.requests import Upload, Waiting
from kontobahn.formats.ebics.rights import Rights
from kontobahn.formats.ebics.services import KNOWN, Kind, Order, is_of_kind
from kontobahn.formats.ebics.waiting_orders import WaitingOrder as Listed
from kontobahn.sentences import without_stop

SWITCHED_OFF = "Signing is switched off for this connection"
NOT_OURS = "This order was not sent from here, so nobody here can say what it holds. Sign it in the bank's app"
CLASS_T = "The bank takes no signature from this user (class T). Sign it in the bank's app"
GONE = "This order no longer waits at the bank"
CHANGED = "The bank has other data for this order than were shown. Nothing was signed"


async def listed(db: Database, client: EbicsClient, line: Line, *, signs: bool) -> list[WaitingOrder]:
    own = await _own(db, line)
    return [_shown(found, own.get(found.order_id), line, signs=signs) for found in await _ask(client, line)]


async def one(db: Database, client: EbicsClient, line: Line, order_id: str, *, signs: bool) -> WaitingOrder:
    found, row = await _find(db, client, line, order_id)
    return _shown(found, row, line, signs=signs)


async def sign(db: Database, client: EbicsClient, line: Line, order_id: str, digest: str) -> None:
    found, row = await _find(db, client, line, order_id)
    reason = _shown(found, row, line, signs=True).why_not
    if reason:
        raise ProviderRefused("ActionNotSupported", reason)
    if found.digest.hex() != digest:
        raise ProviderRefused("ActionNotSupported", CHANGED)
    about = Waiting(line.access.partner_id, found.order, found.order_id)
    await client.send_signature(line.access, Upload(Order("HVE"), found.digest, payloads.new_key(), 0, about=about))


async def cancel(db: Database, client: EbicsClient, line: Line, order_id: str, digest: str) -> None:
    found, _ = await _find(db, client, line, order_id)
    if found.digest.hex() != digest:
        raise ProviderRefused("ActionNotSupported", CHANGED)
    access = line.access
    data = waiting_orders.cancellation_data(access.protocol, found.digest, access.signature.version)
    about = Waiting(access.partner_id, found.order, found.order_id)
    await client.upload(
        access, Upload(Order("HVS"), requests.signed_digest(data), payloads.new_key(), 1, about=about), data
    )


async def _ask(client: EbicsClient, line: Line) -> list[Listed]:
    """Returns what waits: with sums (HVZ), or without where the bank has no such list (HVU)."""
    try:
        told = await client.fetch_small(line, "HVZ")
    except ProviderRefused as error:
        if error.raw_status not in return_codes.NOT_OFFERED:
            raise
        told = await client.fetch_small(line, "HVU")
    try:
        found = [] if told is None else waiting_orders.read_waiting(told)
    except EbicsError as error:
        raise ProviderRefused("ProviderError", without_stop(str(error))) from None
    return [order for order in found if waiting_orders.is_order_id(order.order_id)]


async def _find(db: Database, client: EbicsClient, line: Line, order_id: str) -> tuple[Listed, OrderRow | None]:
    """Returns a waiting order with the hash that the bank tells by HVD, and our own row of it."""
    found = next((one for one in await _ask(client, line) if one.order_id == order_id), None)
    if found is None:
        raise ProviderRefused("ActionNotSupported", GONE)
    told = await client.fetch_small(line, "HVD", about=Waiting(line.access.partner_id, found.order, order_id))
    try:
        state = waiting_orders.read_order_state(told or b"")
    except EbicsError as error:
        raise ProviderRefused("ProviderError", without_stop(str(error))) from None
    if found.digest and found.digest != state.digest:
        raise ProviderRefused("ProviderError", CHANGED)
    return found._replace(digest=state.digest, signers=state.signers), (await _own(db, line)).get(order_id)


async def _own(db: Database, line: Line) -> dict[str, OrderRow]:
    rows = await db.read(store.open_orders, line.organization_id, line.ref)
    return {row.order_id: row for row in rows if row.order_id}


def _shown(found: Listed, row: OrderRow | None, line: Line, *, signs: bool) -> WaitingOrder:
    # A list without hashes cannot say whether it is ours; the order by itself can.
    is_ours = row is not None and (not found.digest or row.digest == found.digest.hex())
    is_t = _classes(line.access.told_rights(), found.order) == {"T"}
    why_not = SWITCHED_OFF if not signs else NOT_OURS if not is_ours else CLASS_T if is_t else ""
    return WaitingOrder(
        order_id=found.order_id, kind=str(found.order.service or found.order.type), amount=found.amount,
        currency_code=found.currency, payments=found.payments, needed=found.needed, done=found.done, sender=found.sender,
        signers=found.signers, digest=found.digest.hex(), message_id=row.message_id if row and is_ours else None, why_not=why_not,
    )  # fmt: skip


def _classes(rights: Rights | None, order: Order) -> set[str]:
    if rights is None:
        return set()
    kinds: list[Kind] = [
        kind for kind in get_args(Kind) if KNOWN[kind].direction == "upload" and is_of_kind(order, kind)
    ]
    return {level for kind in kinds for level in rights.classes_of(kind)}
