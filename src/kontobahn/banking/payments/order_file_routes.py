"""Order files with several orders over HTTP: made, listed, read, fetched, discarded."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from msgspec import Meta

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.call import Call, Context
from kontobahn.api.declare import delete, get, post
from kontobahn.api.wire import Answer, Body, Download, ListQuery, Timestamp, Uuid
from kontobahn.banking import accounts
from kontobahn.banking.fields import NumericId
from kontobahn.banking.payments import order_files
from kontobahn.banking.payments.links import Link, url_of
from kontobahn.banking.payments.order_files import MAX_PAYMENTS, OrderFileRow, OrderFileStatus, Selection
from kontobahn.banking.provider import Banking
from kontobahn.clock import optional_datetime, to_datetime
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.money import to_wire


class OrderFilesQuery(ListQuery):
    account_id: Annotated[NumericId, Meta(description="Only files with orders from this account.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="At most so many, newest first.")] = 100


class NewOrderFile(Body, kw_only=True):
    account_id: NumericId | None = None
    payment_ids: Annotated[list[NumericId], Meta(min_length=1, max_length=MAX_PAYMENTS)] | None = None
    include_taken: bool = False


class PaymentOrderFile(Answer):
    id: str
    organization_id: Uuid
    account_id: str
    message_id: str
    status: OrderFileStatus
    payment_ids: list[str]
    amount: Decimal
    currency_code: str
    # A page for a person; null when there is nothing to upload any more.
    file_url: str | None
    expires_at: Timestamp | None
    created_at: Timestamp


class OrderFileAnswer(Answer):
    data: PaymentOrderFile


class OrderFilesAnswer(Answer):
    data: list[PaymentOrderFile]


@post(
    "/v2/banking/order-files",
    scope="payments",
    one_of=("payment_ids", "account_id"),
    errors=(403, 404, 409),
    body_example={"payment_ids": ["17", "18"]},
)
async def create_order_file(call: Call, body: NewOrderFile) -> OrderFileAnswer:
    """Put several orders from one account into one pain.001 file: the payments named, or all open ones of the account.

    An order that is in a file, or was fetched by itself, is not put into another one.
    """
    if body.account_id is None and body.payment_ids is None:
        raise BadRequest("Send `payment_ids`, or `account_id` for all open orders.", field="payment_ids")
    return await call.commit(_create, call.context, call.principal, body, call.actor)


def _create(tx: Tx, context: Context, principal: Principal, body: NewOrderFile, actor: Actor) -> OrderFileAnswer:
    wanted = Selection(
        None if body.account_id is None else int(body.account_id),
        None if body.payment_ids is None else [int(one) for one in body.payment_ids],
        body.include_taken,
    )
    days = context.settings.order_file_days
    file = order_files.create(tx, principal, wanted, context.part(Banking), days)
    audit.record(tx, file.organization_id, actor, "order_file.create", str(file.id), payments=file.payments)
    return OrderFileAnswer(data=_shown(tx, context, file))


@get("/v2/banking/order-files", scope=("banking:read", "payments"), errors=(403, 404))
async def list_order_files(call: Call, query: OrderFilesQuery) -> OrderFilesAnswer:
    """List the order files, newest first."""
    return await call.read(_listed, call.context, call.principal, query)


def _listed(tx: Tx, context: Context, principal: Principal, query: OrderFilesQuery) -> OrderFilesAnswer:
    organizations = principal.organizations(query.organization_id)
    account_id = None if query.account_id is None else accounts.find(tx, principal, query.account_id).id
    files = order_files.listing(tx, organizations, account_id, query.limit)
    return OrderFilesAnswer(data=[_shown(tx, context, file) for file in files])


@get("/v2/banking/order-files/{id}", scope=("banking:read", "payments"), errors=(403, 404))
async def get_order_file(call: Call, id: NumericId) -> OrderFileAnswer:
    """Read one order file: what it holds, and whether it may still be uploaded."""

    def unit(tx: Tx) -> OrderFileAnswer:
        return OrderFileAnswer(data=_shown(tx, call.context, order_files.find(tx, call.principal, id)))

    return await call.read(unit)


@get("/v2/banking/order-files/{id}/file", scope="payments", errors=(403, 404, 409), media_types=("application/xml",))
async def get_order_file_content(call: Call, id: NumericId) -> Download:
    """Fetch the pain.001 file, the same every time."""
    file = await call.read(order_files.find, call.principal, id)
    return Download(await hand_out(call.context, file), "application/xml", file_name(file))


@delete("/v2/banking/order-files/{id}", scope="payments", errors=(403, 404, 409))
async def discard_order_file(call: Call, id: NumericId) -> OrderFileAnswer:
    """Discard a file that was not uploaded. Its orders are free for another one."""

    def unit(tx: Tx) -> OrderFileAnswer:
        file = order_files.discard(tx, order_files.find(tx, call.principal, id))
        audit.record(tx, file.organization_id, call.actor, "order_file.discard", str(file.id))
        return OrderFileAnswer(data=_shown(tx, call.context, file))

    return await call.commit(unit)


async def hand_out(context: Context, file: OrderFileRow) -> bytes:
    orders = await context.db.read(order_files.orders_of, file)
    provider = context.part(Banking).provider(file.provider)
    return provider.order_file(file.message_id, file.created_at, orders).content


def file_name(file: OrderFileRow) -> str:
    return f"orders-{file.id}.xml"


def _shown(tx: Tx, context: Context, file: OrderFileRow) -> PaymentOrderFile:
    rows = order_files.payments_of(tx, file)
    status = order_files.status_of(file, rows)
    is_of_use = status == "open" and file.expires_at > context.clock.now()
    link = Link("file", file.organization_id, file.id, file.expires_at)
    return PaymentOrderFile(
        id=str(file.id),
        organization_id=file.organization_id,
        account_id=str(file.account_id),
        message_id=file.message_id,
        status=status,
        payment_ids=[str(row.id) for row in rows],
        amount=to_wire(file.amount_minor),
        currency_code="EUR",
        file_url=url_of(context, link) if is_of_use else None,
        expires_at=optional_datetime(file.expires_at) if is_of_use else None,
        created_at=to_datetime(file.created_at),
    )
