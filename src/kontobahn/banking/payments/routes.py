"""Payments over HTTP. Creating one has three steps: write it with its reservation, ask the bank, apply the bank's answer.

The payment and the reservation of its credits are one transaction; the bank is asked after it, outside any.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from datetime import date, timedelta
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from kontobahn import credits
from kontobahn.access.principal import Principal
from kontobahn.api.answers import Data
from kontobahn.api.call import Call, Context, page
from kontobahn.api.declare import get, post
from kontobahn.api.idempotency import Claim
from kontobahn.api.wire import Download, check_date_range
from kontobahn.banking import ids
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.connections.store import ConnectionRow, check_active
from kontobahn.banking.payments import bank, releases, store
from kontobahn.banking.payments.links import payer_address
from kontobahn.banking.payments.rules import FINAL
from kontobahn.banking.payments.store import (
    END_TO_END_PREFIX,
    PAYMENTS,
    POLL_AFTER,
    PaymentRow,
    as_order,
    emit_payment_changed,
)
from kontobahn.banking.payments.wire import (
    CreatedPayment,
    CurrentPayment,
    NewPayment,
    Payment,
    PaymentApiQuery,
    PaymentEvent,
    PaymentsQuery,
)
from kontobahn.banking.provider import Api, Banking, BankProvider, PaymentOrder
from kontobahn.banking.wire import NumericId, check_custom_fields, check_return_to, parse_ip_address
from kontobahn.clock import DAY, SECOND, berlin_date, optional_datetime, start_of_day, to_datetime
from kontobahn.credits import Cause
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Forbidden, KeyReused
from kontobahn.formats.pain import sepa
from kontobahn.formats.pain.sepa import check_reference, country_in
from kontobahn.json_text import encode
from kontobahn.money import amount_text, to_minor, to_wire
from kontobahn.sentences import said


@get(
    "/v2/banking/payments",
    scope=("banking:read", "payments"),
    pages_by="from_id",
    walk_warning="A walk by from_id without sort=id misses payments: the list begins with the newest. Send sort=id.",
    errors=(403, 404),
)
async def list_payments(call: Call, query: PaymentsQuery) -> Data[list[Payment]]:
    """List the payments, as they are stored and kept current by the bank's reports.

    For a running sync use `sort=id`, and the last id you have seen as `from_id`. With a `limit`, `Link` is the address of the next
    page.
    """
    check_date_range(query.from_date, query.to_date)
    rows = await call.read(store.listing, call.principal, query)
    if query.sort == "id":
        # By date an id says nothing about what follows.
        rows = page(call, rows, int(query.limit or len(rows)), attrgetter("id"))
    return Data([Payment(**_fields(row)) for row in rows])


@post("/v2/banking/payments", scope="payments", cost=3, moves_money=True, errors=(403, 404, 409))
async def create_payment(call: Call, query: PaymentApiQuery, body: NewPayment) -> Data[CreatedPayment]:
    """Initiate a payment.

    Send the payer to `payment_url` to authorise it. The credits are reserved now, charged when the payment is `settled` and
    released when it is `failed` or `rejected`. Send an `Idempotency-Key`: repeated with it, the payment is made once.

    A payment above the organisation's limit stays `initiated` without a `payment_url`, and its `release` is `waiting`, until another
    person releases it in the dashboard.
    """
    # In a thread: the first check of an IBAN loads the register of banks.
    order = await asyncio.to_thread(check_order, body, call.ip, berlin_date(call.context.clock.now()))
    row, is_new = await call.context.db.write(
        create_pending, call.principal, order, query.api, call.context.part(Banking),
        price=call.price, cause=call.cause, claim=call.claim,
    )  # fmt: skip
    if (is_new or row.unsent) and not row.waits_for_release:
        # Also for a call that died before it could send anything.
        row = await bank.send_to_bank(call.context, row)
    elif row.provider_ref is None and not row.waits_for_release:
        row = await bank.recheck_unanswered(call.context, row)
    if row.provider_ref is None and row.status not in FINAL:
        # It is not known yet whether the bank has it: a repeat looks again, instead of getting this answer for weeks.
        await call.leave_key_open()
    url, expires_at = payer_address(call.context, row)
    created = CreatedPayment(
        **_fields(row), payment_id=str(row.id), payment_url=url, expires_at=optional_datetime(expires_at),
        warnings=await bank.warnings_of(call.context, row),
    )  # fmt: skip
    return Data(created)


@get("/v2/banking/payments/{id}", scope=("banking:read", "payments"), errors=(403, 404))
async def get_payment(call: Call, id: NumericId) -> Data[CurrentPayment]:
    """Read one payment, after asking the bank for its status now.

    `payment_url` is there as long as the payer has something to do. 503 if the bank cannot be asked: the list of payments has
    what is known.
    """
    row = await bank.ask_bank(call.context, await call.read_inline(store.find, call.principal, id))
    return Data(await _current(call.context, row))


@post("/v2/banking/payments/{id}/cancel", scope="payments", statuses=(200,), errors=(403, 404, 409))
async def cancel_payment(call: Call, id: NumericId) -> Data[CurrentPayment]:
    """Cancel a payment that the bank has not begun to carry out. Its credits are given back.

    An order file can be cancelled until the bank has reported that it is processed. If you have uploaded the file, cancel the
    order at the bank first: what the bank has, only the bank can stop.
    """
    row = await call.read_inline(store.find, call.principal, id)
    return Data(await _current(call.context, await bank.cancel(call.context, row, call.actor)))


@get("/v2/banking/payments/{id}/history", scope=("banking:read", "payments"), errors=(403, 404))
async def get_payment_history(call: Call, id: NumericId) -> Data[list[PaymentEvent]]:
    """Read what was reported about a payment: by whom, when, and with what outcome.

    If a payment failed, the bank's reason is here.
    """
    return Data(await call.read(store.history, call.principal, id))


@get("/v2/banking/payments/{id}/order", scope="payments", errors=(403, 404, 409), media_types=("application/xml",))
async def get_payment_order(call: Call, id: NumericId) -> Download:
    """Read the order of a payment from an account that is kept by statement files: a pain.001 file to upload at the bank.

    Several orders are better put into one order file: banks may refuse a file with one payment. The file is the same every time until
    its day has passed. Then it is issued again for the present day, with the same ids.
    """
    row = await call.read_inline(store.find, call.principal, id)
    return Download(await bank.hand_out(call.context, row), "application/xml", f"payment-{row.id}.xml")


async def _current(context: Context, row: PaymentRow) -> CurrentPayment:
    url, expires_at = payer_address(context, row)
    warnings = await bank.warnings_of(context, row)
    if url is None:
        return CurrentPayment(**_fields(row), warnings=warnings)
    return CurrentPayment(**_fields(row), payment_url=url, expires_at=optional_datetime(expires_at), warnings=warnings)


def _fields(row: PaymentRow) -> dict[str, Any]:
    """The fields of a `Payment`."""
    fields: dict[str, Any] = {name: getattr(row, name) for name in Payment.__struct_fields__ if name in row._fields}
    fields |= {
        "id": str(row.id),
        "account_id": str(row.account_id),
        "amount": to_wire(row.amount_minor),
        "created_at": to_datetime(row.created_at),
        "updated_at": to_datetime(row.updated_at),
        "payee_check": store.payee_check(row),
        "release": releases.shown(row),
    }
    del fields["custom_fields"]
    if row.custom_fields is not None:
        fields["custom_fields"] = msgspec.Raw(row.custom_fields.encode())
    return fields


# --- An order: checked to the last character, and written with its reservation


MAX_DAYS_AHEAD = 365
# Longer than any payment stays open: after a lapsed reservation the credits could be spent twice.
HOLD_SECONDS = 2 * 365 * DAY // SECOND
_DETAILS = ("creditor_country_code", "creditor_address", "creditor_agent", "creditor_agent_name")


class CheckedOrder(NamedTuple):
    """An order whose every field is valid."""

    body: NewPayment
    amount_minor: int
    creditor_iban: str
    customer_ip_address: str


def check_order(body: NewPayment, caller_ip: str, today: date) -> CheckedOrder:
    """Raises BadRequest naming the field if one is invalid. Nothing is truncated or replaced."""
    # Choice 26: check digits, character set and lengths; nothing is truncated silently.
    amount_minor = to_minor(body.amount)
    _check_field("amount", sepa.check_amount, amount_minor)
    iban = str(_check_field("creditor_iban", sepa.check_iban, body.creditor_iban))
    _check_field("creditor_name", sepa.check_text, body.creditor_name, sepa.MAX_NAME)
    _check_field("description", sepa.check_text, body.description, sepa.MAX_REMITTANCE)
    if body.reference is not None:
        _check_field("reference", sepa.check_text, body.reference, sepa.MAX_ID)
        _check_field("reference", check_reference, body.reference)
    if body.creditor_agent_name is not None:
        _check_field("creditor_agent_name", sepa.check_text, body.creditor_agent_name, sepa.MAX_NAME)
    if isinstance(body.creditor_address, str):
        _check_field("creditor_address", sepa.check_text, body.creditor_address, sepa.MAX_REMITTANCE)
        _check_one_country(body.creditor_address, body.creditor_country_code)
    elif body.creditor_address is not None:
        for name in body.creditor_address.__struct_fields__:
            text = getattr(body.creditor_address, name)
            if text is not None:
                _check_field(f"creditor_address.{name}", sepa.check_text, text, sepa.MAX_NAME)
    if body.date is not None:
        if body.date < today:
            raise _refused("date", "must not be in the past")
        if body.date > today + timedelta(days=MAX_DAYS_AHEAD):
            raise _refused("date", "must lie within a year")
        if body.template_identifier == "SEPA_INSTANT" and body.date > today:
            raise _refused("date", "cannot be given for SEPA_INSTANT, which is executed at once")
    check_return_to(body.return_to)
    check_custom_fields(body.custom_fields)
    return CheckedOrder(body, amount_minor, iban, parse_ip_address(body.customer_ip_address) or caller_ip)


def create_pending(
    tx: Tx, principal: Principal, order: CheckedOrder, api: Api | None, banking: Banking, *,
    price: int, cause: Cause, claim: Claim | None,
) -> tuple[PaymentRow, bool]:  # fmt: skip
    """Writes the payment with its reservation. Returns False with it if an earlier call with the same key wrote it."""
    earlier = None if claim is None else _find_by_claim(tx, principal, claim)
    if earlier is not None:
        return earlier, False
    account, connection = _find_source(tx, principal, order.body.account_id, api)
    _check_source(order, account, connection)
    check_key_limits(tx, principal, order.amount_minor, order.body.currency_code, banking)
    organization_id, payer = account.organization_id, principal.organization_id
    # Numbers before credits, as in the ingest: two transactions in opposite order would deadlock.
    number = ids.take(tx, organization_id, "payment")
    hold = credits.reserve(tx, payer, price, hold_seconds=HOLD_SECONDS, cause=cause) if price else None
    body, provider = order.body, banking.providers[connection.provider]
    row = PaymentRow(
        organization_id=organization_id, id=number, provider=connection.provider, provider_ref=None,
        connection_id=connection.id, account_id=account.id, provider_code=connection.provider_code,
        provider_name=connection.provider_name, status="initiated", raw_provider_status=None, error_class=None,
        error_message=None, template_identifier=body.template_identifier, amount_minor=order.amount_minor,
        currency_code=body.currency_code, creditor_name=body.creditor_name, creditor_iban=order.creditor_iban,
        debtor_iban=account.iban or "", end_to_end_id=_end_to_end_id(number), description=body.description,
        reference=body.reference, order_details=_details(body),
        custom_fields=None if body.custom_fields is None else encode(body.custom_fields).decode(),
        customer_ip_address=order.customer_ip_address, payment_url=None, expires_at=None,
        payer_organization_id=payer, hold_id=hold.id if hold else None,
        debit_settles=int(provider.debit_settles), idempotency_key=claim.key if claim else None,
        idempotency_fingerprint=claim.fingerprint if claim else None,
        next_poll_at=tx.now + POLL_AFTER[0], polls=0, order_taken_at=None, order_file_id=None,
        first_key_id=principal.first_key_id, created_at=tx.now, updated_at=tx.now, unsent=1,
        maker_user_id=principal.user_id,
    )  # fmt: skip
    row = releases.held_back(tx, row, body.date)
    if provider.orders_are_files:
        _check_country_known(order, row.debtor_iban)
        _check_fits_file(provider, as_order(tx, row))
    PAYMENTS.insert(tx, row)
    emit_payment_changed(tx, row)
    return row, True


def _find_by_claim(tx: Tx, principal: Principal, claim: Claim) -> PaymentRow | None:
    """Returns the payment of this idempotency key, if its first call wrote it and died before it could answer.

    Raises KeyReused if that was another payment.
    """
    earlier = PAYMENTS.one(
        tx,
        "payer_organization_id = ? AND idempotency_key = ? AND created_at > ? ORDER BY id DESC LIMIT 1",
        principal.organization_id, claim.key, tx.now - claim.keep_microseconds,
    )  # fmt: skip
    if earlier is not None and not (
        earlier.organization_id in principal.scope and earlier.idempotency_fingerprint == claim.fingerprint
    ):
        raise KeyReused("This idempotency key was used for another payment.")
    return earlier


def _find_source(tx: Tx, principal: Principal, account_id: str, api: Api | None) -> tuple[AccountRow, ConnectionRow]:
    """Returns the account to pay from, with its connection."""
    account = accounts.find(tx, principal, account_id)
    connection = connections.get(tx, account.organization_id, account.connection_id)
    if api is not None and api != connection.api:
        raise BadRequest(
            said("The query parameter `api` must be `{api}` for this account.", api=connection.api), field="api"
        )
    return account, connection


def _check_source(order: CheckedOrder, account: AccountRow, connection: ConnectionRow) -> None:
    body = order.body
    if not accounts.can_pay(account, connection.templates):
        raise _refused("account_id", "is an account that payments cannot be made from (see `payments_supported`)")
    if body.template_identifier not in connection.templates.split():
        raise _refused(
            "template_identifier", said("must be {what} at this bank", what=" or ".join(connection.templates.split()))
        )
    if account.iban == order.creditor_iban:
        raise _refused("creditor_iban", "is the account that is paid from")
    check_active(connection, "paying")


def _check_fits_file(provider: BankProvider, order: PaymentOrder) -> None:
    """Raises BadRequest, naming the field, if the order cannot be written as a file: nothing is accepted that cannot be paid."""
    try:
        provider.order_file(order.end_to_end_id, order.created_at, [order])
    except sepa.NotSepa as error:
        raise _refused(error.field, error.reason) from None


def _check_one_country(address: str, code: str | None) -> None:
    named = country_in(address)
    if code is not None and named is not None and named != code:
        raise _refused("creditor_country_code", said("contradicts the address, which names {country}", country=named))


def _check_country_known(order: CheckedOrder, debtor_iban: str) -> None:
    """Raises BadRequest if an address does not say its country and the payee's bank is abroad: its country need not be the payee's."""
    body = order.body
    if body.creditor_address is None or body.creditor_country_code is not None:
        return
    if isinstance(body.creditor_address, str) and country_in(body.creditor_address) is not None:
        return
    if order.creditor_iban[:2] != debtor_iban[:2]:
        raise _refused(
            "creditor_country_code",
            said(
                "is needed with this address: the IBAN's country, {country}, need not be the payee's",
                country=order.creditor_iban[:2],
            ),
        )


def _end_to_end_id(number: int) -> str:
    """Unique beyond this installation: another one counts from one as well."""
    return f"{END_TO_END_PREFIX}{number}-{secrets.token_hex(4).upper()}"


def _details(body: NewPayment) -> str:
    details = {name: getattr(body, name) for name in _DETAILS if getattr(body, name) is not None}
    if body.date is not None:
        details["date"] = body.date.isoformat()
    if body.return_to is not None:
        details["return_to"] = body.return_to
    return encode(details).decode()


def _check_field(field: str, rule: Callable[..., object], *values: object) -> object:
    """Returns what the SEPA rule makes of the field. Raises BadRequest, in our wording, if the rule refuses it."""
    try:
        return rule(field, *values)
    except sepa.NotSepa as error:
        raise _refused(field, error.reason) from None


def _refused(field: str, reason: str) -> BadRequest:
    return BadRequest(said("The field `{path}` {reason}.", path=field, reason=reason), field=field)


# --- Limits of API keys: by one payment, and on one day by all of them


CURRENCY = "EUR"


def check_key_limits(tx: Tx, principal: Principal, amount_minor: int, currency_code: str, banking: Banking) -> None:
    """Raises Forbidden, with the limit and what is left of it, if the caller's key may not make this payment.

    An assistant that a person has connected may have a limit too, for what it prepares.

    Holds the key's lock to the commit: two payments at once cannot exceed the limit together.
    """
    limits = principal.limits
    if limits.payment_minor is None and limits.daily_minor is None:
        return
    if currency_code != CURRENCY:
        raise BadRequest("The field `currency_code` must be EUR: this key has limits in euros.", field="currency_code")
    if limits.payment_minor is not None and amount_minor > limits.payment_minor:
        raise Forbidden(
            said("This key may pay at most {amount} EUR by one payment.", amount=amount_text(limits.payment_minor)),
            field="amount", limit="payment", limit_amount=amount_text(limits.payment_minor),
        )  # fmt: skip
    if limits.daily_minor is None:
        return
    tx.lock("key_payments", principal.first_key_id or principal.grant_id or "")
    elsewhere = sum(ordered(tx, principal) for ordered in banking.ordered_elsewhere)
    left = max(0, limits.daily_minor - paid_today(tx, principal) - elsewhere)
    if amount_minor > left:
        amounts = {"amount": amount_text(limits.daily_minor), "amount_left": amount_text(left)}
        by_key = said("This key may pay at most {amount} EUR a day; {amount_left} EUR are left today.", **amounts)
        by_assistant = said(
            "This assistant may prepare payments of at most {amount} EUR a day; {amount_left} EUR are left today.",
            **amounts,
        )
        # Tomorrow, or when one of today's payments has failed, the same call may succeed.
        raise Forbidden(
            by_assistant if principal.grant_id else by_key,
            field="amount", limit="daily", limit_amount=amount_text(limits.daily_minor), left=amount_text(left),
        ).retryable()  # fmt: skip


def paid_today(tx: Tx, principal: Principal) -> int:
    """Returns the cents ordered with the key, and with those it replaced, on this day in Berlin, without what failed or was rejected.

    An order that was fetched counts whatever became of it here: nobody knows whether the file reached the bank.
    """
    row = tx.one(
        "SELECT COALESCE(SUM(amount_minor), 0) FROM banking_payments p WHERE payer_organization_id = ? AND first_key_id = ?"
        " AND created_at >= ? AND ((status <> 'failed' AND status <> 'rejected') OR order_taken_at IS NOT NULL OR EXISTS (SELECT 1"
        " FROM banking_order_file_payments f WHERE f.organization_id = p.organization_id AND f.payment_id = p.id))",
        principal.organization_id, principal.first_key_id, start_of_day(berlin_date(tx.now)),
    )  # fmt: skip
    return int(row[0]) if row else 0
