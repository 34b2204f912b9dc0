"""Payments over HTTP. A payment is three paragraphs: the intent and its reservation written; the bank asked; its answer applied."""

from __future__ import annotations

from kontobahn import log
from kontobahn.api.call import Call
from kontobahn.api.declare import get, post
from kontobahn.api.wire import Download, Query, check_date_range
from kontobahn.banking import orders, payments, sync
from kontobahn.banking.model import (
    Api,
    CreatedPayment,
    CreatedPaymentAnswer,
    NewPayment,
    NumericId,
    PaymentAnswer,
    PaymentHistoryAnswer,
    PaymentsAnswer,
    PaymentsQuery,
)  # fmt: skip
from kontobahn.banking.payments import PaymentRow
from kontobahn.banking.provider import Banking, PaymentReport, ProviderDown, ProviderRefused
from kontobahn.clock import berlin_date, optional_datetime
from kontobahn.errors import Conflict, Unavailable


class PaymentApiQuery(Query):
    # Derived from the account; one that contradicts it is refused.
    api: Api | None = None


@get("/v2/banking/payments", errors=(403, 404))
async def list_payments(call: Call, query: PaymentsQuery) -> PaymentsAnswer:
    """List the payments, as they are stored and kept current by the bank's reports.

    For a running sync use `sort=id`, and the last id you have seen as `from_id`.
    """
    check_date_range(query.from_date, query.to_date)
    rows = await call.read(payments.listing, call.principal, query)
    return PaymentsAnswer(data=[payments.wire(row) for row in rows])


@post("/v2/banking/payments", cost=3, moves_money=True, errors=(403, 404, 409))
async def create_payment(call: Call, query: PaymentApiQuery, body: NewPayment) -> CreatedPaymentAnswer:
    """Initiate a payment.

    Send the payer to `payment_url` to authorise it. The credits are reserved now, charged when the payment is `settled` and
    given back when it is `failed` or `rejected`. Send an `Idempotency-Key`: repeated with it, the payment is made once.
    """
    banking = call.context.part(Banking)
    checked = orders.check(body, call.ip, berlin_date(call.context.clock.now()))
    row, is_new = await call.context.db.write(orders.intend, call, checked, query.api, banking.providers)
    if is_new:
        row = await _ask_the_bank(call, row)
    return CreatedPaymentAnswer(data=_created(row))


async def _ask_the_bank(call: Call, row: PaymentRow) -> PaymentRow:
    context = call.context
    provider = sync.provider_of(context, row.provider)
    order = await context.db.read(orders.as_order, row, context.settings.base_url)
    try:
        start = await provider.create_payment(order)
    except ProviderRefused as error:
        status = "rejected" if error.raw_status == "RJCT" else "failed"
        report = PaymentReport(status, error.raw_status, error.error_class, str(error))  # type: ignore[arg-type]
        return await context.db.write(payments.apply, row.organization_id, row.id, report, "creation")
    except (ProviderDown, Unavailable, TimeoutError) as error:
        # Whether the bank has it is not known. It is neither sent again nor called failed: the poller looks for it.
        log.warning("payment_creation_without_answer", payment_id=row.id, detail=str(error))
        return row
    return await context.db.write(payments.started, row, start, "creation")


@get("/v2/banking/payments/{id}", errors=(403, 404))
async def get_payment(call: Call, id: NumericId) -> PaymentAnswer:
    """Read one payment, after asking the bank for its status now.

    503 where the bank cannot be asked: the list of payments has what is known.
    """
    row = await call.read_inline(payments.find, call.principal, id)
    return PaymentAnswer(data=payments.wire(await sync.ask_now(call.context, row)))


@get("/v2/banking/payments/{id}/history", errors=(403, 404))
async def get_payment_history(call: Call, id: NumericId) -> PaymentHistoryAnswer:
    """Read what was reported on a payment: by whom, when, and what came of it.

    Where a payment failed, the bank's reason stands here.
    """
    return PaymentHistoryAnswer(data=await call.read(payments.history, call.principal, id))


@get("/v2/banking/payments/{id}/order", errors=(403, 404, 409), media_types=("application/xml",))
async def get_payment_order(call: Call, id: NumericId) -> Download:
    """Read the order of a payment from an account that is kept by statement files: a pain.001 file to upload at the bank."""
    row = await call.read_inline(payments.find, call.principal, id)
    provider = sync.provider_of(call.context, row.provider)
    order = await call.read(orders.as_order, row, call.context.settings.base_url)
    content = provider.order_file(order, row.created_at)
    if content is None:
        raise Conflict("This payment is authorised at its `payment_url`; there is no file for it.")
    return Download(content, "application/xml", f"payment-{row.id}.xml")


def _created(row: PaymentRow) -> CreatedPayment:
    return CreatedPayment(
        **payments.wire_fields(row),
        payment_id=str(row.id),
        payment_url=row.payment_url,
        expires_at=optional_datetime(row.expires_at),
    )
