"""Creating a payment: the order checked to the last character, written with its reservation, then sent to the bank.

The payment and the reservation of its credits are one transaction; the bank is asked after it, outside any.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

import msgspec

from kontobahn import credits, log
from kontobahn.access.principal import Principal
from kontobahn.api.call import Context
from kontobahn.api.idempotency import Claim
from kontobahn.banking import accounts, numbers
from kontobahn.banking.accounts import AccountRow
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.store import ConnectionRow, check_active
from kontobahn.banking.fields import check_custom_fields, check_return_to, parse_ip_address
from kontobahn.banking.payments import key_limits, links, store
from kontobahn.banking.payments.apply import END_TO_END_PREFIX, POLL_AFTER, apply, apply_start
from kontobahn.banking.payments.store import PAYMENTS, PaymentRow, emit_payment_changed
from kontobahn.banking.payments.wire import NewPayment
from kontobahn.banking.provider import (
    Api,
    Banking,
    BankProvider,
    PaymentOrder,
    PaymentReport,
    PaymentStatus,
    ProviderDown,
    ProviderRefused,
)
from kontobahn.clock import DAY, SECOND
from kontobahn.credits import Cause
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, DatabaseUnavailable, KeyReused, OutcomeUnknown, Unavailable
from kontobahn.formats.pain import sepa
from kontobahn.json_text import encode
from kontobahn.money import to_minor

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


def check(body: NewPayment, caller_ip: str, today: date) -> CheckedOrder:
    """Raises BadRequest naming the field if one is invalid. Nothing is truncated or replaced."""
    # Choice 26: check digits, character set and lengths; nothing is truncated silently.
    amount_minor = to_minor(body.amount)
    _check_field("amount", sepa.check_amount, amount_minor)
    iban = str(_check_field("creditor_iban", sepa.check_iban, body.creditor_iban))
    if body.creditor_country_code and body.creditor_country_code != iban[:2]:
        raise _refused("creditor_country_code", f"must be the IBAN's country, {iban[:2]}")
    _check_field("creditor_name", sepa.check_text, body.creditor_name, sepa.MAX_NAME)
    _check_field("description", sepa.check_text, body.description, sepa.MAX_REMITTANCE)
    if body.reference is not None:
        _check_field("reference", sepa.check_text, body.reference, sepa.MAX_ID)
    if body.creditor_agent_name is not None:
        _check_field("creditor_agent_name", sepa.check_text, body.creditor_agent_name, sepa.MAX_NAME)
    if isinstance(body.creditor_address, str):
        _check_field("creditor_address", sepa.check_text, body.creditor_address, sepa.MAX_REMITTANCE)
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
    tx: Tx, principal: Principal, order: CheckedOrder, api: Api | None, providers: dict[str, BankProvider], *,
    price: int, cause: Cause, claim: Claim | None,
) -> tuple[PaymentRow, bool]:  # fmt: skip
    """Writes the payment with its reservation. Returns False with it if an earlier call with the same key wrote it."""
    earlier = None if claim is None else _find_by_claim(tx, principal, order, claim)
    if earlier is not None:
        return earlier, False
    account, connection = _find_source(tx, principal, order.body.account_id, api)
    _check_source(order, account, connection)
    key_limits.check(tx, principal, order.amount_minor, order.body.currency_code)
    organization_id, payer = account.organization_id, principal.organization_id
    # Numbers before credits, as in the ingest: two transactions in opposite order would deadlock.
    number = numbers.take(tx, organization_id, "payment")
    hold = credits.reserve(tx, payer, price, hold_seconds=HOLD_SECONDS, cause=cause) if price else None
    body, provider = order.body, providers[connection.provider]
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
    )  # fmt: skip
    if provider.orders_are_files:
        _check_fits_file(provider, as_order(tx, row))
    PAYMENTS.insert(tx, row)
    emit_payment_changed(tx, row)
    return row, True


def _find_by_claim(tx: Tx, principal: Principal, order: CheckedOrder, claim: Claim) -> PaymentRow | None:
    """Returns the payment of this idempotency key, if its first call wrote it and died before it could answer.

    Raises KeyReused if that was another payment.
    """
    earlier = PAYMENTS.one(
        tx,
        "payer_organization_id = ? AND idempotency_key = ? AND created_at > ? ORDER BY id DESC LIMIT 1",
        principal.organization_id, claim.key, tx.now - claim.keep_microseconds,
    )  # fmt: skip
    if earlier is not None and not _is_same(earlier, order, claim, principal):
        raise KeyReused("This idempotency key was used for another payment.")
    return earlier


def _is_same(earlier: PaymentRow, order: CheckedOrder, claim: Claim, principal: Principal) -> bool:
    if earlier.organization_id not in principal.scope:
        return False
    if earlier.idempotency_fingerprint is not None:
        return earlier.idempotency_fingerprint == claim.fingerprint
    # Written before the fingerprint was kept.
    return (earlier.account_id, earlier.amount_minor, earlier.creditor_iban) == (
        int(order.body.account_id), order.amount_minor, order.creditor_iban,
    )  # fmt: skip


def _find_source(tx: Tx, principal: Principal, account_id: str, api: Api | None) -> tuple[AccountRow, ConnectionRow]:
    """Returns the account to pay from, with its connection."""
    account = accounts.find(tx, principal, account_id)
    connection = connections.get(tx, account.organization_id, account.connection_id)
    if api is not None and api != connection.api:
        raise BadRequest(f"The query parameter `api` must be `{connection.api}` for this account.", field="api")
    return account, connection


def _check_source(order: CheckedOrder, account: AccountRow, connection: ConnectionRow) -> None:
    body = order.body
    if not accounts.can_pay(account, connection.templates):
        raise _refused("account_id", "is an account that payments cannot be made from (see `payments_supported`)")
    if body.template_identifier not in connection.templates.split():
        raise _refused("template_identifier", f"must be {' or '.join(connection.templates.split())} at this bank")
    if account.iban == order.creditor_iban:
        raise _refused("creditor_iban", "is the account that is paid from")
    check_active(connection, "paying")


def _check_fits_file(provider: BankProvider, order: PaymentOrder) -> None:
    """Raises BadRequest, naming the field, if the order cannot be written as a file: nothing is accepted that cannot be paid."""
    try:
        provider.order_file(order.end_to_end_id, order.created_at, [order])
    except BadRequest as error:
        field, _, reason = str(error).partition(" ")
        raise _refused(field, reason.rstrip(".")) from None


async def send_to_bank(context: Context, row: PaymentRow) -> PaymentRow:
    """Hands the order to the provider and applies its answer, unless another process has done so or begun to.

    The payment is written already. If the database fails now, it is returned as it was written: polling finds out the rest.
    """
    try:
        return await _send(context, row)
    except (DatabaseUnavailable, OutcomeUnknown) as error:
        log.warning("payment_creation_not_recorded", payment_id=row.id, detail=error.operator)
        return row


async def _send(context: Context, row: PaymentRow) -> PaymentRow:
    provider = context.part(Banking).provider(row.provider)
    order = await context.db.read(as_order, row)
    callback_url, state = links.way_back(context, row)
    order = order._replace(callback_url=callback_url, state=state)
    # From here on it may be at the bank, whatever becomes of this process.
    if not await context.db.write(store.claim_sending, row.organization_id, row.id):
        return await context.db.read(store.get, row.organization_id, row.id)
    try:
        start = await provider.create_payment(order)
    except ProviderRefused as error:
        status: PaymentStatus = "rejected" if error.raw_status == "RJCT" else "failed"
        report = PaymentReport(status, error.raw_status, error.error_class, str(error))
        return await context.db.write(apply, row.organization_id, row.id, report, "creation")
    except (ProviderDown, Unavailable, TimeoutError) as error:
        # It is unknown whether the bank has it. It is neither sent again nor marked as failed: polling looks for it.
        log.warning("payment_creation_without_answer", payment_id=row.id, detail=str(error))
        return row
    return await context.db.write(apply_start, row, start, "creation")


def as_order(tx: Tx, row: PaymentRow) -> PaymentOrder:
    """Returns the order in the form that providers accept."""
    # A payment outlives its connection; then the payer is known by the organisation's name only.
    refs = tx.one(
        "SELECT COALESCE(c.provider_ref, ''), COALESCE(a.provider_ref, ''), COALESCE(a.holder_name, o.name)"
        " FROM organizations o"
        " LEFT JOIN banking_connections c ON c.organization_id = o.id AND c.id = ?"
        " LEFT JOIN banking_accounts a ON a.organization_id = o.id AND a.connection_id = c.id AND a.id = ?"
        " WHERE o.id = ?",
        row.connection_id, row.account_id, row.organization_id,
    )  # fmt: skip
    assert refs is not None
    details = msgspec.json.decode(row.order_details, type=dict[str, object])
    return_to = details.pop("return_to", None)
    return PaymentOrder(
        end_to_end_id=row.end_to_end_id,
        connection_ref=refs[0],
        account_ref=refs[1],
        template_identifier=row.template_identifier,
        amount_minor=row.amount_minor,
        currency_code=row.currency_code,
        creditor_name=row.creditor_name,
        creditor_iban=row.creditor_iban,
        debtor_name=refs[2],
        debtor_iban=row.debtor_iban,
        description=row.description,
        reference=row.reference,
        details=details,
        return_to=return_to if isinstance(return_to, str) else None,
        customer_ip_address=row.customer_ip_address,
        created_at=row.created_at,
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
    except BadRequest as error:
        raise _refused(field, str(error).removeprefix(field).strip().rstrip(".")) from None


def _refused(field: str, reason: str) -> BadRequest:
    return BadRequest(f"The field `{field}` {reason}.", field=field)
