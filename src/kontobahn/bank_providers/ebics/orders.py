"""Order files on their way to the bank, where they wait for people to sign them; and the bank's protocol, which says where they are.

The data follow only after the bank has given the order a number, so an order without one was never there. Once the data are on their way,
the protocol alone decides: nothing is sent a second time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple, get_args

from kontobahn import log
from kontobahn.bank_providers.ebics import store
from kontobahn.bank_providers.ebics.client import EbicsClient, Line
from kontobahn.bank_providers.ebics.store import OrderRow
from kontobahn.banking.bank_line import WaitingOrder
from kontobahn.banking.payments import order_files
from kontobahn.banking.provider import OrderFile, ProviderDown, ProviderRefused, Submission, SubmissionState, Template
from kontobahn.clock import MINUTE, berlin_date, to_datetime
from kontobahn.db import Database, Tx
from kontobahn.formats.ebics import answers, documents, requests
from kontobahn.formats.ebics.answers import FINAL, Entry, read_protocol
from kontobahn.formats.ebics.answers import WaitingOrder as Listed
from kontobahn.formats.ebics.documents import EbicsError
from kontobahn.formats.ebics.requests import Period, Upload, Waiting
from kontobahn.formats.ebics.services import KNOWN, Kind, Order, Rights, is_of_kind
from kontobahn.sentences import said, without_stop

# By kind of payment: with a check of the payees where the bank offers it, else without.
_KINDS: dict[Template, tuple[Kind, Kind]] = {
    "SEPA": ("checked_transfers", "transfers"),
    "SEPA_INSTANT": ("checked_instant_transfers", "instant_transfers"),
}
# An order whose data were on their way, and that the protocol does not know after this long, has not arrived.
SILENCE = 15 * MINUTE
IN_DOUBT = "The bank's answer is missing. Its protocol decides, at the next fetch; nothing is sent again until then."


class Way(NamedTuple):
    """The order by which a file is sent, and whether our signature could release it, so that the request must say that it does not."""

    order: Order
    could_release: bool


def way_for(rights: Rights | None, template: Template, *, signs: bool) -> Way:
    """Raises ProviderRefused unless the user can send the file; and cannot release it, if people do not sign here."""
    if rights is None:
        raise ProviderRefused("ActionNotSupported", "The bank does not tell this user's rights (HTD)")
    for kind in _KINDS[template]:
        found = rights.orders_of(kind)
        if not found:
            continue
        could_release = rights.classes_of(kind) != {"T"}
        if could_release and not signs:
            raise ProviderRefused(
                "ActionNotSupported",
                "The bank lets this user sign orders. We send only for users of signature class T, who cannot: ask the bank for one,"
                " or switch signing on for this connection",
            )
        return Way(found[0], could_release)
    name = "SCT:::pain.001 / CCT" if template == "SEPA" else "SCI:::pain.001 / CIP"
    raise ProviderRefused(
        "ActionNotSupported",
        said("Your bank has not allowed this user to send such orders: ask it for the right {name}", name=name),
    )


async def send(db: Database, client: EbicsClient, line: Line, file: OrderFile, way: Way) -> Submission:
    """Sends a file. Raises ProviderRefused if the bank certainly does not have it."""
    # In one line: banks differ in whether line ends count for the hash.
    content = b"".join(part.strip() for part in file.content.splitlines())
    digest = requests.signed_digest(content)
    new = await db.write(store.begin_order, line.organization_id, line.ref, file.message_id, digest.hex())
    if new is None:
        raise ProviderRefused("ActionNotSupported", "This file was sent before, and the bank may have it")
    row: OrderRow = new
    upload = Upload(
        way.order, digest, documents.new_key(), 0, f"{file.message_id}.xml", can_release=not way.could_release
    )
    segments = documents.segments(content, upload.transaction_key)
    try:
        begun = await client.begin_upload(line.access, upload._replace(segments=len(segments)))
    except (ProviderRefused, ProviderDown) as error:
        # No data were on their way, so whatever the bank did, it has no order.
        await db.write(store.change_order, row, state="missing", said=str(error))
        raise ProviderRefused("ProviderError", str(error).rstrip(".")) from None
    row = await db.write(
        store.change_order, row, transaction_id=begun.transaction_id or "", order_id=begun.order_id or ""
    )
    try:
        for number, segment in enumerate(segments, 1):
            await client.send_segment(line.access, row.transaction_id, number, segment, is_last=number == len(segments))
    except ProviderRefused as error:
        await db.write(store.change_order, row, state="refused", said=str(error))
        raise
    except ProviderDown as error:
        log.warning("order_in_doubt", order_id=row.order_id, detail=str(error))
        row = await db.write(store.change_order, row, state="unknown", said=IN_DOUBT)
        return as_submission(row)
    return as_submission(await db.write(store.change_order, row, state="waiting"))


def as_submission(row: OrderRow, now: int | None = None) -> Submission:
    may_be_decided = now is not None and row.state in ("sending", "unknown") and row.updated_at <= now - SILENCE
    return Submission(row.state, row.order_id, row.said, may_be_decided)


def decide(tx: Tx, organization_id: str, message_id: str, note: Callable[[Tx], None], *, has_it: bool) -> None:
    """Takes a person's word for an order that the protocol says nothing about."""
    tx.lock("ebics_order", organization_id, message_id)
    row = store.find_order(tx, organization_id, message_id)
    if row is None or not as_submission(row, tx.now).may_be_decided:
        raise ProviderRefused(
            "ActionNotSupported", "It is known where this file is, or the bank's protocol may still tell"
        )
    state: SubmissionState = "waiting" if has_it else "missing"
    _settle(tx, row, state, "A person has looked at the bank.")
    note(tx)


async def look_up(db: Database, client: EbicsClient, line: Line, now: int) -> None:
    """Asks the bank's protocol about the orders that it has not said its last word on."""
    rows = await db.read(store.open_orders, line.organization_id, line.ref)
    if not rows:
        return
    # A day more at both ends: the bank's day may be another one than ours.
    first, last = berlin_date(min(row.created_at for row in rows)), berlin_date(now)
    try:
        told = await client.fetch_small(line, "HAC", Period(first - timedelta(days=1), last + timedelta(days=1)))
        entries = read_protocol(told) if told else []
    except EbicsError as error:
        log.warning("protocol_not_read", detail=str(error))
        return
    except ProviderRefused as error:
        # Statements come nevertheless; the order stays in doubt.
        log.warning("protocol_not_read", detail=str(error))
        return
    for row in rows:
        state, words = _judged(row, entries, now)
        if state != row.state:
            await db.write(_settle, row, state, words)


def _judged(row: OrderRow, entries: list[Entry], now: int) -> tuple[SubmissionState, str]:
    own = [entry for entry in entries if row.order_id and entry.order_id == row.order_id]
    final = next((entry for entry in reversed(own) if entry.action in FINAL), None)
    if final is not None:
        return FINAL[final.action], final.text
    if own:
        return "waiting", ""
    # Without a number no data were sent. Otherwise the protocol must go on beyond the order, and not know it.
    is_silent = row.updated_at <= now - SILENCE and any(_is_later(entry, row) for entry in entries)
    if row.state != "waiting" and (not row.order_id or is_silent):
        return "missing", "The bank's protocol does not know the order."
    return row.state, row.said


def _is_later(entry: Entry, row: OrderRow) -> bool:
    try:
        happened_at = datetime.fromisoformat(entry.happened_at or "")
    except ValueError:
        return False
    return happened_at.tzinfo is not None and happened_at >= to_datetime(row.updated_at) + timedelta(minutes=5)


def _settle(tx: Tx, row: OrderRow, state: SubmissionState, words: str) -> None:
    store.change_order(tx, row, state=state, said=words)
    if state in ("refused", "missing"):
        order_files.not_submitted(tx, row.organization_id, row.message_id)


# Orders that wait at the bank: listed, signed and cancelled in the name of a person who has just shown a second factor.
#
# Only what was sent from here is signed: of that it is known what it holds, and its hash says that the bank has the
# same.


SWITCHED_OFF = "Signing is switched off for this connection"
NOT_OURS = "This order was not sent from here, so nobody here can say what it holds. Sign it in the bank's app"
CLASS_T = "The bank takes no signature from this user (class T). Sign it in the bank's app"
GONE = "This order no longer waits at the bank"
CHANGED = "The bank has other data for this order than were shown. Nothing was signed"


async def list_waiting(db: Database, client: EbicsClient, line: Line, *, signs: bool) -> list[WaitingOrder]:
    own = await _own(db, line)
    return [_shown(found, own.get(found.order_id), line, signs=signs) for found in await _ask(client, line)]


async def find_waiting(db: Database, client: EbicsClient, line: Line, order_id: str, *, signs: bool) -> WaitingOrder:
    found, row = await _find(db, client, line, order_id)
    return _shown(found, row, line, signs=signs)


async def sign_waiting(db: Database, client: EbicsClient, line: Line, order_id: str, digest: str) -> None:
    found, row = await _find(db, client, line, order_id)
    reason = _shown(found, row, line, signs=True).why_not
    if reason:
        raise ProviderRefused("ActionNotSupported", reason)
    if found.digest.hex() != digest:
        raise ProviderRefused("ActionNotSupported", CHANGED)
    about = Waiting(line.access.partner_id, found.order, found.order_id)
    await client.send_signature(line.access, Upload(Order("HVE"), found.digest, documents.new_key(), 0, about=about))


async def cancel_waiting(db: Database, client: EbicsClient, line: Line, order_id: str, digest: str) -> None:
    found, _ = await _find(db, client, line, order_id)
    if found.digest.hex() != digest:
        raise ProviderRefused("ActionNotSupported", CHANGED)
    access = line.access
    data = requests.cancellation_data(access.protocol, found.digest, access.signature.version)
    about = Waiting(access.partner_id, found.order, found.order_id)
    await client.upload(
        access, Upload(Order("HVS"), requests.signed_digest(data), documents.new_key(), 1, about=about), data
    )


async def _ask(client: EbicsClient, line: Line) -> list[Listed]:
    """Returns what waits: with sums (HVZ), or without where the bank has no such list (HVU)."""
    try:
        told = await client.fetch_small(line, "HVZ")
    except ProviderRefused as error:
        if error.raw_status not in answers.NOT_OFFERED:
            raise
        told = await client.fetch_small(line, "HVU")
    try:
        found = [] if told is None else answers.read_waiting(told)
    except EbicsError as error:
        raise ProviderRefused("ProviderError", without_stop(str(error))) from None
    return [order for order in found if answers.is_order_id(order.order_id)]


async def _find(db: Database, client: EbicsClient, line: Line, order_id: str) -> tuple[Listed, OrderRow | None]:
    """Returns a waiting order with the hash that the bank tells by HVD, and our own row of it."""
    found = next((one for one in await _ask(client, line) if one.order_id == order_id), None)
    if found is None:
        raise ProviderRefused("ActionNotSupported", GONE)
    told = await client.fetch_small(line, "HVD", about=Waiting(line.access.partner_id, found.order, order_id))
    try:
        state = answers.read_order_state(told or b"")
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
        order_id=found.order_id, kind=_named(found.order), amount=found.amount,
        currency_code=found.currency, payments=found.payments, needed=found.needed, done=found.done, sender=found.sender,
        signers=found.signers, digest=found.digest.hex(), message_id=row.message_id if row and is_ours else None, why_not=why_not,
    )  # fmt: skip


def _named(order: Order) -> str:
    """The kind of an order, or its service or type as the bank writes it."""
    return next(iter(_kinds(order)), str(order.service or order.type))


def _kinds(order: Order) -> list[Kind]:
    return [kind for kind in get_args(Kind) if KNOWN[kind].direction == "upload" and is_of_kind(order, kind)]


def _classes(rights: Rights | None, order: Order) -> set[str]:
    if rights is None:
        return set()
    return {level for kind in _kinds(order) for level in rights.classes_of(kind)}
