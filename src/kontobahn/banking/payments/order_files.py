"""Files that hold several orders from one account: made, listed, read, fetched, discarded; and which payments a report is about.

An order is in one file at a time, and not handed out by itself while it is: uploaded twice it would be paid twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, find_in_scope, in_scope
from kontobahn.api.answers import Data
from kontobahn.api.call import Call, Context
from kontobahn.api.declare import delete, get, post
from kontobahn.api.wire import Answer, Body, Download, ListQuery, Timestamp, Uuid
from kontobahn.banking import ids
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.payments import releases, store
from kontobahn.banking.payments.links import Link, url_of
from kontobahn.banking.payments.rules import AWAITING_PAYER
from kontobahn.banking.payments.store import PAYMENTS, PaymentRow, as_order
from kontobahn.banking.payments.wire import OrderWarning
from kontobahn.banking.provider import (
    Banking,
    BankProvider,
    OrderFile,
    OrderLine,
    PaymentOrder,
    Template,
)
from kontobahn.banking.wire import NumericId
from kontobahn.clock import DAY, MINUTE, berlin_date, optional_datetime, to_datetime
from kontobahn.db import Table, Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.formats.pain.sepa import place_reference
from kontobahn.formats.statements import ReportedStatus
from kontobahn.money import to_wire
from kontobahn.sentences import said


class OrderFilesQuery(ListQuery):
    account_id: Annotated[NumericId, Meta(description="Only files with orders from this account.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="At most so many, newest first.")] = 100


class NewOrderFile(Body, kw_only=True):
    account_id: NumericId | None = None
    payment_ids: Annotated[list[NumericId], Meta(min_length=1, max_length=MAX_PAYMENTS)] | None = None
    template_identifier: (
        Annotated[Template, Meta(description="Only orders of this kind: banks take one kind in a file.")] | None
    ) = None
    include_taken: bool = False


class PaymentOrderFile(Answer):
    id: str
    organization_id: Uuid
    account_id: str
    message_id: str
    status: OrderFileStatus
    payment_ids: list[str]
    # Null for a file from before each kind had one of its own.
    template_identifier: Template | None
    amount: Decimal
    currency_code: str
    # A page for a person; null when there is nothing left to upload.
    file_url: str | None
    expires_at: Timestamp | None
    created_at: Timestamp
    warnings: list[OrderWarning]


@post(
    "/v2/banking/order-files",
    scope="payments",
    one_of=("payment_ids", "account_id"),
    errors=(403, 404, 409),
    body_example={"payment_ids": ["17", "18"]},
)
async def create_order_file(call: Call, body: NewOrderFile) -> Data[PaymentOrderFile]:
    """Put several orders from one account into one pain.001 file: the payments named, or all open ones of the account.

    An order that is in a file, or was fetched by itself, is not put into another one. Transfers and instant transfers go into a
    file each: if the account has open orders of both, name the kind. A file with one payment is made with a warning.
    """
    if body.account_id is None and body.payment_ids is None:
        raise BadRequest("Send `payment_ids`, or `account_id` for all open orders.", field="payment_ids")
    return await call.commit(_create, call.context, call.principal, body, call.actor)


def _create(tx: Tx, context: Context, principal: Principal, body: NewOrderFile, actor: Actor) -> Data[PaymentOrderFile]:
    wanted = Selection(
        None if body.account_id is None else int(body.account_id),
        None if body.payment_ids is None else [int(one) for one in body.payment_ids],
        body.template_identifier,
        body.include_taken,
    )
    days = context.settings.order_file_days
    file = create(tx, principal, wanted, context.part(Banking), days)
    audit.record(tx, file.organization_id, actor, "order_file.create", str(file.id), payments=file.payments)
    return Data(_shown(tx, context, file))


@get("/v2/banking/order-files", scope=("banking:read", "payments"), errors=(403, 404))
async def list_order_files(call: Call, query: OrderFilesQuery) -> Data[list[PaymentOrderFile]]:
    """List the order files, newest first."""
    return await call.read(_listed, call.context, call.principal, query)


def _listed(tx: Tx, context: Context, principal: Principal, query: OrderFilesQuery) -> Data[list[PaymentOrderFile]]:
    organizations = principal.organizations(query.organization_id)
    account_id = None if query.account_id is None else accounts.find(tx, principal, query.account_id).id
    files = listing(tx, organizations, account_id, query.limit)
    return Data([_shown(tx, context, file) for file in files])


@get("/v2/banking/order-files/{id}", scope=("banking:read", "payments"), errors=(403, 404))
async def get_order_file(call: Call, id: NumericId) -> Data[PaymentOrderFile]:
    """Read one order file: what it holds, and whether it may still be uploaded."""

    def unit(tx: Tx) -> Data[PaymentOrderFile]:
        return Data(_shown(tx, call.context, find(tx, call.principal, id)))

    return await call.read(unit)


@get("/v2/banking/order-files/{id}/file", scope="payments", errors=(403, 404, 409), media_types=("application/xml",))
async def get_order_file_content(call: Call, id: NumericId) -> Download:
    """Fetch the pain.001 file: the same every time, until the day of an order in it has passed.

    Banks refuse such a file, so it is then issued again for the present day, with the same ids of message, instructions and orders.
    """
    file = await call.read(find, call.principal, id)
    return Download(await hand_out(call.context, file), "application/xml", file_name(file))


@delete("/v2/banking/order-files/{id}", scope="payments", errors=(403, 404, 409))
async def discard_order_file(call: Call, id: NumericId) -> Data[PaymentOrderFile]:
    """Discard a file that was not uploaded. Its orders are free for another one."""
    await forget_dead_claim(call.context, await call.read(find, call.principal, id))

    def unit(tx: Tx) -> Data[PaymentOrderFile]:
        file = discard(tx, find(tx, call.principal, id))
        audit.record(tx, file.organization_id, call.actor, "order_file.discard", str(file.id))
        return Data(_shown(tx, call.context, file))

    return await call.commit(unit)


async def hand_out(context: Context, file: OrderFileRow) -> bytes:
    check_not_at_bank(file)
    provider = context.part(Banking).provider(file.provider)
    written = await context.db.read(written_file, provider, file)
    if written.first_day >= berlin_date(context.clock.now()):
        return written.content
    return await context.db.write(_issue_again, provider, file)


def written_file(tx: Tx, provider: BankProvider, file: OrderFileRow) -> OrderFile:
    return provider.order_file(file.message_id, file.created_at, orders_of(tx, file), file.issued_at)


def _issue_again(tx: Tx, provider: BankProvider, file: OrderFileRow) -> bytes:
    # Decided again under the lock: somebody else may have fetched it at this moment.
    again = under_lock(tx, file)
    if written_file(tx, provider, again).first_day < berlin_date(tx.now):
        again = ORDER_FILES.update(tx, again, issued_at=tx.now)
    return written_file(tx, provider, again).content


def file_name(file: OrderFileRow) -> str:
    return f"orders-{file.id}.xml"


def _shown(tx: Tx, context: Context, file: OrderFileRow) -> PaymentOrderFile:
    rows = payments_of(tx, file)
    status = status_of(file, rows)
    is_of_use = status == "open" and file.expires_at > context.clock.now() and file.submitted_at is None
    kinds = {row.template_identifier for row in rows}
    link = Link("file", file.organization_id, file.id, file.expires_at)
    return PaymentOrderFile(
        id=str(file.id),
        organization_id=file.organization_id,
        account_id=str(file.account_id),
        message_id=file.message_id,
        status=status,
        payment_ids=[str(row.id) for row in rows],
        template_identifier=kinds.pop() if len(kinds) == 1 else None,
        amount=to_wire(file.amount_minor),
        currency_code="EUR",
        file_url=url_of(context, link) if is_of_use else None,
        expires_at=optional_datetime(file.expires_at) if is_of_use else None,
        created_at=to_datetime(file.created_at),
        warnings=warnings_of(tx, context, file, rows) if status == "open" else [],
    )


def warnings_of(tx: Tx, context: Context, file: OrderFileRow, rows: Sequence[PaymentRow]) -> list[OrderWarning]:
    """Returns what to know before an open file is uploaded."""
    if any(row.status not in AWAITING_PAYER for row in rows):
        return []
    written = written_file(tx, context.part(Banking).provider(file.provider), file)
    return store.order_warnings(written, rows, berlin_date(tx.now))


# --- Rows


MESSAGE_PREFIX = "KBF"
# Written by banks where they do not repeat an id.
NOT_PROVIDED = "NOTPROVIDED"
MAX_PAYMENTS = 1000
# With its values, as the index has them.
_IS_AWAITING = "status IN ('{}')".format("', '".join(sorted(AWAITING_PAYER)))


OrderFileStatus = Literal["open", "void", "discarded"]


class OrderFileRow(NamedTuple):
    organization_id: str
    id: int
    provider: str
    account_id: int
    message_id: str
    debtor_name: str
    payments: int
    amount_minor: int
    created_at: int
    expires_at: int
    discarded_at: int | None
    # The last time it was issued, if not the first time.
    issued_at: int | None = None
    # When it was sent to the bank by us.
    submitted_at: int | None = None


ORDER_FILES = Table("banking_order_files", OrderFileRow)


class Selection(NamedTuple):
    """The orders that are to be in a file: these payments, or all open ones of the account."""

    account_id: int | None
    payment_ids: Sequence[int] | None
    template: Template | None
    # Orders that were fetched one by one too; whoever says so knows that those files were not uploaded.
    include_taken: bool


def create(tx: Tx, principal: Principal, wanted: Selection, banking: Banking, days: int) -> OrderFileRow:
    """Puts orders into a new file. Raises Conflict, naming the payment, if one is not free for it."""
    rows = _open_of_account(tx, principal, wanted) if wanted.payment_ids is None else _named(tx, principal, wanted)
    _check_one_kind(rows, wanted)
    first = rows[0]
    provider = banking.provider(first.provider)
    if not provider.orders_are_files:
        raise Conflict("Payments from this account are authorised at their `payment_url`; there are no files for them.")
    orders = [as_order(tx, row) for row in rows]
    number = ids.take(tx, first.organization_id, "order_file")
    message_id = f"{MESSAGE_PREFIX}{number}-{secrets.token_hex(4).upper()}"
    written = provider.order_file(message_id, tx.now, orders)
    file = OrderFileRow(
        organization_id=first.organization_id, id=number, provider=first.provider, account_id=first.account_id,
        message_id=message_id, debtor_name=orders[0].debtor_name, payments=len(rows),
        amount_minor=sum(row.amount_minor for row in rows), created_at=tx.now,
        expires_at=max(tx.now + days * DAY, *(row.expires_at or 0 for row in rows)), discarded_at=None,
    )  # fmt: skip
    ORDER_FILES.insert(tx, file)
    tx.many(
        "INSERT INTO banking_order_file_payments (organization_id, order_file_id, payment_id, instruction_id)"
        " VALUES (?, ?, ?, ?)",
        [(file.organization_id, number, row.id, written.instruction_ids[row.end_to_end_id]) for row in rows],
    )
    # Decided again in the UPDATE: one of them may have been fetched, cancelled or put into another file meanwhile.
    taken = tx.run(
        "UPDATE banking_payments SET order_file_id = ?, order_taken_at = COALESCE(order_taken_at, ?)"
        f" WHERE organization_id = ? AND id IN ({', '.join('?' * len(rows))}) AND order_file_id IS NULL"
        f" AND (order_taken_at IS NULL OR ? = 1) AND {_IS_AWAITING}",
        number, tx.now, file.organization_id, *(row.id for row in rows), int(wanted.include_taken),
    )  # fmt: skip
    if taken != len(rows):
        raise Conflict("One of these payments has changed in the meantime. Try again.")
    return file


def _open_of_account(tx: Tx, principal: Principal, wanted: Selection) -> list[PaymentRow]:
    assert wanted.account_id is not None
    account = accounts.find(tx, principal, str(wanted.account_id))
    rows = free_of_account(tx, account, wanted.template, include_taken=wanted.include_taken)
    if not rows:
        raise Conflict("There are no open orders from this account that are not yet in a file.")
    return rows


def free_of_account(
    tx: Tx, account: AccountRow, template: Template | None = None, *, include_taken: bool = False
) -> list[PaymentRow]:
    """Returns the orders from an account that may go into a file now."""
    return PAYMENTS.all(
        tx,
        "organization_id = ? AND account_id = ? AND provider_ref IS NOT NULL AND order_file_id IS NULL"
        f" AND (order_taken_at IS NULL OR ? = 1) AND {_IS_AWAITING} AND (expires_at IS NULL OR expires_at > ?)"
        " AND template_identifier IN (?, ?) ORDER BY id LIMIT ?",
        account.organization_id, account.id, int(include_taken), tx.now,
        template or "SEPA", template or "SEPA_INSTANT", MAX_PAYMENTS,
    )  # fmt: skip


def _check_one_kind(rows: list[PaymentRow], wanted: Selection) -> None:
    """Raises BadRequest, naming the payments, if orders of both kinds are to be in a file: a bank takes one kind in a file."""
    instant = [str(row.id) for row in rows if row.template_identifier == "SEPA_INSTANT"]
    others = [str(row.id) for row in rows if row.template_identifier != "SEPA_INSTANT"]
    if wanted.template is not None and (others if wanted.template == "SEPA_INSTANT" else instant):
        raise BadRequest(
            said(
                "The field `payment_ids` names payments that are not {template}: {ids}.",
                template=wanted.template, ids=", ".join(others if wanted.template == "SEPA_INSTANT" else instant),
            ),
            field="payment_ids",
        )  # fmt: skip
    if instant and others:
        raise BadRequest(
            said(
                "Banks take transfers and instant transfers in a file each. Instant transfers: {instant}. Transfers: {others}."
                " Send `template_identifier` with one kind, or name the payments of one.",
                instant=", ".join(instant), others=", ".join(others),
            ),
            field="template_identifier" if wanted.payment_ids is None else "payment_ids",
        )  # fmt: skip


def _named(tx: Tx, principal: Principal, wanted: Selection) -> list[PaymentRow]:
    rows: list[PaymentRow] = []
    account_id = wanted.account_id and accounts.present_id(tx, principal, wanted.account_id)
    for payment_id in dict.fromkeys(wanted.payment_ids or ()):
        row = store.find(tx, principal, str(payment_id))
        if row.account_id != (account_id or (rows[0] if rows else row).account_id):
            raise BadRequest("The field `payment_ids` must name payments from one account.", field="payment_ids")
        _check_free(row, include_taken=wanted.include_taken)
        rows.append(row)
    return rows


def _check_free(row: PaymentRow, *, include_taken: bool) -> None:
    if row.status not in AWAITING_PAYER:
        raise Conflict(said("The payment {id} is {status}.", id=row.id, status=row.status))
    releases.check_released(row)
    if row.provider_ref is None:
        raise Conflict(said("The payment {id} has not been accepted yet. Try again in a few minutes.", id=row.id))
    if row.order_file_id is not None:
        raise Conflict(said("The payment {id} is in the order file {file}.", id=row.id, file=row.order_file_id))
    if row.order_taken_at is not None and not include_taken:
        raise Conflict(
            said(
                "The order of payment {id} was fetched on its own. If it was not uploaded, send `include_taken`.",
                id=row.id,
            )
        )


# --- Found, handed out, discarded


def find(tx: Tx, principal: Principal, order_file_id: str) -> OrderFileRow:
    return find_in_scope(tx, ORDER_FILES, principal, "Order file", int(order_file_id))


def look_up(tx: Tx, organization_id: str, order_file_id: int) -> OrderFileRow | None:
    return ORDER_FILES.one(tx, "organization_id = ? AND id = ?", organization_id, order_file_id)


def under_lock(tx: Tx, file: OrderFileRow) -> OrderFileRow:
    """Serialises what is decided about one file, and returns it as it is now."""
    tx.lock("banking_order_file", file.organization_id, str(file.id))
    found = look_up(tx, file.organization_id, file.id)
    assert found is not None
    return found


def ids_of_account(tx: Tx, organization_id: str, account_id: int) -> list[int]:
    rows = tx.all(
        "SELECT id FROM banking_order_files WHERE organization_id = ? AND account_id = ? ORDER BY id",
        organization_id, account_id,
    )  # fmt: skip
    return [number for (number,) in rows]


def move_to_account(tx: Tx, organization_id: str, file_ids: Iterable[int], account_id: int) -> None:
    """Says that these hold orders from another account, which is the same one at the bank."""
    tx.many(
        "UPDATE banking_order_files SET account_id = ? WHERE organization_id = ? AND id = ?",
        [(account_id, organization_id, number) for number in file_ids],
    )


def listing(tx: Tx, organizations: Sequence[str], account_id: int | None, limit: int) -> list[OrderFileRow]:
    """Returns order files, newest first."""
    only, params = ("", ()) if account_id is None else (" AND account_id = ?", (account_id,))
    return ORDER_FILES.all(
        tx,
        f"{in_scope(len(organizations))}{only} ORDER BY created_at DESC, id DESC LIMIT ?",
        *organizations, *params, limit,
    )  # fmt: skip


def latest(tx: Tx, organization_id: str, before: int | None, limit: int) -> list[OrderFileRow]:
    """An organisation's order files, the last one made first; from the one before the given id on."""
    only, params = ("", ()) if before is None else (" AND id < ?", (before,))
    return ORDER_FILES.all(tx, f"organization_id = ?{only} ORDER BY id DESC LIMIT ?", organization_id, *params, limit)


def payments_of(tx: Tx, file: OrderFileRow) -> list[PaymentRow]:
    """Returns the payments that the file holds, in its order."""
    return PAYMENTS.all(
        tx,
        "organization_id = ? AND id IN (SELECT payment_id FROM banking_order_file_payments"
        " WHERE organization_id = ? AND order_file_id = ?) ORDER BY id",
        file.organization_id, file.organization_id, file.id,
    )  # fmt: skip


def status_of(file: OrderFileRow, rows: list[PaymentRow]) -> OrderFileStatus:
    """Returns whether a file with these payments is still to be uploaded."""
    if file.discarded_at is not None:
        return "discarded"
    return "void" if is_void(rows) else "open"


def is_void(rows: Iterable[PaymentRow]) -> bool:
    """Returns whether the file may no longer be uploaded, because one of its payments has failed or was cancelled."""
    return any(row.status in ("failed", "rejected") for row in rows)


def orders_of(tx: Tx, file: OrderFileRow) -> list[PaymentOrder]:
    """Returns the orders as they stand in the file. Raises Conflict if it may no longer be uploaded."""
    rows = payments_of(tx, file)
    if file.discarded_at is not None:
        raise Conflict("This order file was discarded.")
    if is_void(rows):
        raise Conflict(
            "A payment in this order file has failed or was cancelled. If the file was not uploaded, discard it and make another."
        )
    return [as_order(tx, row)._replace(debtor_name=file.debtor_name) for row in rows]


def check_not_at_bank(file: OrderFileRow) -> None:
    """Raises Conflict if the file was sent to the bank: handed out or made anew, it could be paid twice."""
    if file.submitted_at is not None:
        raise Conflict("This order file was sent to the bank. Sign it or cancel it there.")


def discard(tx: Tx, file: OrderFileRow) -> OrderFileRow:
    """Frees the orders of a file that was not uploaded. Raises Conflict if the bank has reported on one of them."""
    again = under_lock(tx, file)
    if again.discarded_at is not None:
        return again
    check_not_at_bank(again)
    # In the UPDATE: the bank may report on one of them at this moment.
    tx.run(
        "UPDATE banking_payments SET order_file_id = NULL, order_taken_at = NULL, order_issued_at = NULL"
        " WHERE organization_id = ? AND id IN (SELECT payment_id FROM banking_order_file_payments WHERE organization_id = ?"
        f" AND order_file_id = ?) AND order_file_id = ? AND ({_IS_AWAITING} OR error_class IS NOT NULL)",
        file.organization_id, file.organization_id, file.id, file.id,
    )  # fmt: skip
    for row in payments_of(tx, again):
        if row.order_file_id == file.id:
            raise Conflict(
                said("The payment {id} of this file is {status}: the bank has the file.", id=row.id, status=row.status)
            )
    return ORDER_FILES.update(tx, again, discarded_at=tx.now)


# --- Sent to the bank by us


# A process that claimed a file, and sent nothing for this long, has died.
CLAIM_TIME = 10 * MINUTE


async def forget_dead_claim(context: Context, file: OrderFileRow) -> None:
    """Frees a file that a process claimed, and died before it sent anything."""
    provider = context.part(Banking).provider(file.provider)
    is_old = file.submitted_at is not None and file.submitted_at <= context.clock.now() - CLAIM_TIME
    if not is_old or not isinstance(provider, OrderLine):
        return
    if await provider.submission(file.organization_id, file.message_id) is None:
        await context.db.write(not_submitted, file.organization_id, file.message_id)


def not_submitted(tx: Tx, organization_id: str, message_id: str) -> None:
    """Says that the bank does not have a file: it may be sent again, handed out or discarded."""
    tx.run(
        "UPDATE banking_order_files SET submitted_at = NULL WHERE organization_id = ? AND message_id = ?",
        organization_id, message_id,
    )  # fmt: skip


def by_message_id(tx: Tx, organization_id: str, message_id: str) -> OrderFileRow | None:
    return ORDER_FILES.one(tx, "organization_id = ? AND message_id = ?", organization_id, message_id)


# --- Reported on


def reported_on(tx: Tx, organization_id: str, item: ReportedStatus) -> list[int]:
    """Returns the ids of the payments that an item of a status report is about: one, those of an instruction, or a whole file."""
    if item.level != "transaction":
        return _in_message(tx, organization_id, item, whole=item.level == "group")
    if item.end_to_end_id in (None, NOT_PROVIDED):
        return _by_facts(tx, organization_id, item)
    row = store.by_end_to_end_id(tx, organization_id, item.end_to_end_id or "")
    return [] if row is None else [row.id]


def _by_facts(tx: Tx, organization_id: str, item: ReportedStatus) -> list[int]:
    """Returns the payment of a file that a line without its id means: the only one with this instruction id, amount and payee."""
    whole = item.payment_information_id in (None, NOT_PROVIDED)
    numbers = _in_message(tx, organization_id, item, whole=whole)
    rows = [store.get(tx, organization_id, number) for number in numbers]
    if item.instruction_id not in (None, NOT_PROVIDED):
        placed = [(row, place_reference(row.description, row.reference).instruction_id) for row in rows]
        rows = [row for row, instruction_id in placed if instruction_id == item.instruction_id]
    if item.amount is not None:
        rows = [row for row in rows if row.amount_minor == item.amount.amount_minor]
    if item.creditor_iban is not None:
        rows = [row for row in rows if row.creditor_iban == item.creditor_iban]
    # Of several that look alike none is chosen.
    return [rows[0].id] if len(rows) == 1 else []


def _in_message(tx: Tx, organization_id: str, item: ReportedStatus, *, whole: bool) -> list[int]:
    """Returns the payments in the file, or in one instruction of it."""
    # A file with one order has the end-to-end id of its payment as message id.
    single = store.by_end_to_end_id(tx, organization_id, item.message_id)
    if single is not None:
        return [single.id]
    only, params = ("", ()) if whole else (" AND p.instruction_id = ?", (item.payment_information_id,))
    found = tx.all(
        "SELECT p.payment_id FROM banking_order_files f JOIN banking_order_file_payments p"
        " ON p.organization_id = f.organization_id AND p.order_file_id = f.id"
        f" WHERE f.organization_id = ? AND f.message_id = ?{only} ORDER BY p.payment_id",
        organization_id, item.message_id, *params,
    )  # fmt: skip
    return [int(payment_id) for (payment_id,) in found]
