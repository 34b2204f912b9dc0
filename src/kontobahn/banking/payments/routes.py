"""Payments over HTTP. Creating one has three steps: write it with its reservation, ask the bank, apply the bank's answer."""

from __future__ import annotations

import asyncio
from operator import attrgetter
from typing import Any

import msgspec

from kontobahn.api.call import Call, Context
from kontobahn.api.declare import get, post
from kontobahn.api.paging import page
from kontobahn.api.wire import Download, check_date_range
from kontobahn.banking.fields import NumericId
from kontobahn.banking.payments import cancel, create, orders, poll, store
from kontobahn.banking.payments.links import payer_address
from kontobahn.banking.payments.store import PaymentRow
from kontobahn.banking.payments.transitions import FINAL
from kontobahn.banking.payments.wire import (
    CreatedPayment,
    CreatedPaymentAnswer,
    CurrentPayment,
    CurrentPaymentAnswer,
    NewPayment,
    Payment,
    PaymentApiQuery,
    PaymentHistoryAnswer,
    PaymentsAnswer,
    PaymentsQuery,
)  # fmt: skip
from kontobahn.banking.provider import Banking
from kontobahn.clock import berlin_date, optional_datetime, to_datetime
from kontobahn.money import to_wire


@get("/v2/banking/payments", scope=("banking:read", "payments"), pages_by="from_id", errors=(403, 404))
async def list_payments(call: Call, query: PaymentsQuery) -> PaymentsAnswer:
    """List the payments, as they are stored and kept current by the bank's reports.

    For a running sync use `sort=id`, and the last id you have seen as `from_id`. With a `limit`, `Link` is the address of the next
    page.
    """
    check_date_range(query.from_date, query.to_date)
    rows = await call.read(store.listing, call.principal, query)
    if query.sort == "id":
        # By date an id says nothing about what follows.
        rows = page(call, rows, int(query.limit or len(rows)), attrgetter("id"))
    return PaymentsAnswer(data=[Payment(**_fields(row)) for row in rows])


@post("/v2/banking/payments", scope="payments", cost=3, moves_money=True, errors=(403, 404, 409))
async def create_payment(call: Call, query: PaymentApiQuery, body: NewPayment) -> CreatedPaymentAnswer:
    """Initiate a payment.

    Send the payer to `payment_url` to authorise it. The credits are reserved now, charged when the payment is `settled` and
    released when it is `failed` or `rejected`. Send an `Idempotency-Key`: repeated with it, the payment is made once.
    """
    # In a thread: the first check of an IBAN loads the register of banks.
    order = await asyncio.to_thread(create.check, body, call.ip, berlin_date(call.context.clock.now()))
    providers = call.context.part(Banking).providers
    row, is_new = await call.context.db.write(
        create.create_pending, call.principal, order, query.api, providers,
        price=call.price, cause=call.cause, claim=call.claim,
    )  # fmt: skip
    if is_new or row.unsent:
        # Also for a call that died before it could send anything.
        row = await create.send_to_bank(call.context, row)
    elif row.provider_ref is None:
        row = await poll.look_again(call.context, row)
    if row.provider_ref is None and row.status not in FINAL:
        # It is not known yet whether the bank has it: a repeat looks again, instead of getting this answer for weeks.
        await call.leave_key_open()
    url, expires_at = payer_address(call.context, row)
    created = CreatedPayment(
        **_fields(row), payment_id=str(row.id), payment_url=url, expires_at=optional_datetime(expires_at)
    )
    return CreatedPaymentAnswer(data=created)


@get("/v2/banking/payments/{id}", scope=("banking:read", "payments"), errors=(403, 404))
async def get_payment(call: Call, id: NumericId) -> CurrentPaymentAnswer:
    """Read one payment, after asking the bank for its status now.

    `payment_url` is there as long as the payer has something to do. 503 if the bank cannot be asked: the list of payments has
    what is known.
    """
    row = await poll.ask_bank(call.context, await call.read_inline(store.find, call.principal, id))
    return CurrentPaymentAnswer(data=_current(call.context, row))


@post("/v2/banking/payments/{id}/cancel", scope="payments", statuses=(200,), errors=(403, 404, 409))
async def cancel_payment(call: Call, id: NumericId) -> CurrentPaymentAnswer:
    """Cancel a payment that the bank has not begun to carry out. Its credits are given back.

    An order file can be cancelled until the bank has reported that it is processed. If you have uploaded the file, cancel the
    order at the bank first: what the bank has, only the bank can stop.
    """
    row = await call.read_inline(store.find, call.principal, id)
    return CurrentPaymentAnswer(data=_current(call.context, await cancel.cancel(call.context, row, call.actor)))


@get("/v2/banking/payments/{id}/history", scope=("banking:read", "payments"), errors=(403, 404))
async def get_payment_history(call: Call, id: NumericId) -> PaymentHistoryAnswer:
    """Read what was reported about a payment: by whom, when, and with what outcome.

    If a payment failed, the bank's reason is here.
    """
    return PaymentHistoryAnswer(data=await call.read(store.history, call.principal, id))


@get("/v2/banking/payments/{id}/order", scope="payments", errors=(403, 404, 409), media_types=("application/xml",))
async def get_payment_order(call: Call, id: NumericId) -> Download:
    """Read the order of a payment from an account that is kept by statement files: a pain.001 file to upload at the bank."""
    row = await call.read_inline(store.find, call.principal, id)
    return Download(await orders.hand_out(call.context, row), "application/xml", f"payment-{row.id}.xml")


def _current(context: Context, row: PaymentRow) -> CurrentPayment:
    url, expires_at = payer_address(context, row)
    if url is None:
        return CurrentPayment(**_fields(row))
    return CurrentPayment(**_fields(row), payment_url=url, expires_at=optional_datetime(expires_at))


def _fields(row: PaymentRow) -> dict[str, Any]:
    """The fields of a `Payment`."""
    fields: dict[str, Any] = {name: getattr(row, name) for name in Payment.__struct_fields__ if name in row._fields}
    fields |= {
        "id": str(row.id),
        "account_id": str(row.account_id),
        "amount": to_wire(row.amount_minor),
        "created_at": to_datetime(row.created_at),
        "updated_at": to_datetime(row.updated_at),
    }
    del fields["custom_fields"]
    if row.custom_fields is not None:
        fields["custom_fields"] = msgspec.Raw(row.custom_fields.encode())
    return fields
