"""Payment orders: checking one to the last character before anything is written, and writing the intent to pay.

The intent and the reservation of its credits are one transaction; the bank is asked after it, outside any.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

import msgspec

from kontobahn import credits
from kontobahn.api.call import Call
from kontobahn.banking import accounts, announce, connections, numbers, payments
from kontobahn.banking.accounts import Account
from kontobahn.banking.connections import Connection
from kontobahn.banking.fields import check_custom_fields, check_return_to
from kontobahn.banking.model import Api, NewPayment
from kontobahn.banking.payments import PaymentRow
from kontobahn.banking.provider import BankProvider, PaymentOrder
from kontobahn.clock import DAY, SECOND
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.formats.pain import sepa
from kontobahn.json_text import encode_text
from kontobahn.money import to_minor

MOST_DAYS_AHEAD = 365
# Longer than any payment stays open; a lapsed reservation would let the credits be spent twice.
HOLD_SECONDS = 2 * 365 * DAY // SECOND
CANNOT_PAY = frozenset({"bonus", "credit", "insurance", "investment", "loan", "mortgage", "savings"})
_DETAILS = ("creditor_country_code", "creditor_address", "creditor_agent", "creditor_agent_name")


class Checked(NamedTuple):
    """An order whose every field holds."""

    body: NewPayment
    amount_minor: int
    creditor_iban: str
    customer_ip_address: str


def check(body: NewPayment, caller_ip: str, today: date) -> Checked:
    """BadRequest that names the field. Nothing is cut, nothing replaced."""
    # Choice 26: check digits, character set and lengths; nothing is cut silently.
    amount_minor = to_minor(body.amount)
    _held("amount", sepa.check_amount, amount_minor)
    iban = str(_held("creditor_iban", sepa.check_iban, body.creditor_iban))
    if body.creditor_country_code and body.creditor_country_code != iban[:2]:
        raise _refused("creditor_country_code", f"must be the IBAN's country, {iban[:2]}")
    _held("creditor_name", sepa.check_text, body.creditor_name, sepa.LONGEST_NAME)
    _held("description", sepa.check_text, body.description, sepa.LONGEST_REMITTANCE)
    if body.reference is not None:
        _held("reference", sepa.check_text, body.reference, sepa.LONGEST_ID)
    if body.creditor_agent_name is not None:
        _held("creditor_agent_name", sepa.check_text, body.creditor_agent_name, sepa.LONGEST_NAME)
    if isinstance(body.creditor_address, str):
        _held("creditor_address", sepa.check_text, body.creditor_address, sepa.LONGEST_REMITTANCE)
    elif body.creditor_address is not None:
        for name in body.creditor_address.__struct_fields__:
            text = getattr(body.creditor_address, name)
            if text is not None:
                _held(f"creditor_address.{name}", sepa.check_text, text, sepa.LONGEST_NAME)
    if body.date is not None:
        if body.date < today:
            raise _refused("date", "must not be in the past")
        if body.date > today + timedelta(days=MOST_DAYS_AHEAD):
            raise _refused("date", "must lie within a year")
        if body.template_identifier == "SEPA_INSTANT" and body.date > today:
            raise _refused("date", "cannot be given for SEPA_INSTANT, which is executed at once")
    check_return_to(body.return_to)
    check_custom_fields(body.custom_fields)
    return Checked(body, amount_minor, iban, _address(body.customer_ip_address) or caller_ip)


def source(tx: Tx, call: Call, account_id: str, api: Api | None) -> tuple[Account, Connection]:
    """The account to pay from, with its connection."""
    account = accounts.find(tx, call.principal, account_id)
    connection = connections.get(tx, account.organization_id, account.connection_id)
    if api is not None and api != connection.api:
        raise BadRequest(f"The query parameter `api` must be `{connection.api}` for this account.", field="api")
    return account, connection


def check_source(checked: Checked, account: Account, connection: Connection) -> None:
    body = checked.body
    if (
        account.iban is None
        or account.nature in CANNOT_PAY
        or account.currency_code != "EUR"
        or not connection.templates
    ):
        raise _refused("account_id", "is an account that payments cannot be made from (see `payments_supported`)")
    if body.template_identifier not in connection.templates.split():
        raise _refused("template_identifier", f"must be {' or '.join(connection.templates.split())} at this bank")
    if account.iban == checked.creditor_iban:
        raise _refused("creditor_iban", "is the account that is paid from")
    if connection.status != "active":
        raise Conflict(f"The bank connection is {connection.status}: reconnect it before paying.")


def intend(
    tx: Tx, call: Call, checked: Checked, api: Api | None, providers: dict[str, BankProvider]
) -> tuple[PaymentRow, bool]:
    """Write the payment with its reservation. False: a repeat of a call that did so before, and was cut off."""
    claimed = _claimed_before(tx, call)
    if claimed is not None:
        return claimed, False
    account, connection = source(tx, call, checked.body.account_id, api)
    check_source(checked, account, connection)
    organization_id, payer = account.organization_id, call.principal.organization_id
    # Numbers before credits, as ingest does: two that wait for each other would have to start anew.
    number = numbers.take(tx, organization_id, "payment")
    hold_id = None
    if call.price:
        hold_id = credits.reserve(tx, payer, call.price, hold_seconds=HOLD_SECONDS, cause=call.cause).id
    body = checked.body
    row = PaymentRow(
        organization_id=organization_id, id=number, provider=connection.provider, provider_ref=None,
        connection_id=connection.id, account_id=account.id, provider_code=connection.provider_code,
        provider_name=connection.provider_name, status="initiated", raw_provider_status=None, error_class=None,
        error_message=None, template_identifier=body.template_identifier, amount_minor=checked.amount_minor,
        currency_code=body.currency_code, creditor_name=body.creditor_name, creditor_iban=checked.creditor_iban,
        debtor_iban=account.iban or "", end_to_end_id=_end_to_end_id(number), description=body.description,
        reference=body.reference, order_details=_details(body),
        custom_fields=None if body.custom_fields is None else encode_text(body.custom_fields),
        customer_ip_address=checked.customer_ip_address, payment_url=None, expires_at=None,
        payer_organization_id=payer, hold_id=hold_id, debit_settles=int(providers[connection.provider].debit_settles),
        idempotency_key=call.claim.key if call.claim else None, next_poll_at=tx.now + payments.POLL_AFTER[0], polls=0,
        created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    tx.run(f"INSERT INTO banking_payments ({payments.COLUMNS}) VALUES ({', '.join('?' * len(row))})", *row)
    announce.payment_changed(tx, row)
    return row, True


def as_order(tx: Tx, row: PaymentRow, base_url: str) -> PaymentOrder:
    """The order as the provider takes it."""
    refs = tx.one(
        "SELECT c.provider_ref, a.provider_ref, COALESCE(a.holder_name, o.name) FROM banking_connections c"
        " JOIN banking_accounts a ON a.organization_id = c.organization_id AND a.connection_id = c.id"
        " JOIN organizations o ON o.id = c.organization_id"
        " WHERE c.organization_id = ? AND c.id = ? AND a.id = ?",
        row.organization_id, row.connection_id, row.account_id,
    )  # fmt: skip
    details = msgspec.json.decode(row.order_details, type=dict[str, object])
    return_to = details.pop("return_to", None)
    return PaymentOrder(
        end_to_end_id=row.end_to_end_id,
        connection_ref=refs[0] if refs else "",
        account_ref=refs[1] if refs else "",
        template_identifier=row.template_identifier,
        amount_minor=row.amount_minor,
        currency_code=row.currency_code,
        creditor_name=row.creditor_name,
        creditor_iban=row.creditor_iban,
        debtor_name=refs[2] if refs else "",
        debtor_iban=row.debtor_iban,
        description=row.description,
        reference=row.reference,
        details=details,
        return_to=return_to if isinstance(return_to, str) else None,
        customer_ip_address=row.customer_ip_address,
        own_url=f"{base_url}/v2/banking/payments/{row.id}/order",
    )


def _claimed_before(tx: Tx, call: Call) -> PaymentRow | None:
    """The payment of this idempotency key: its first call wrote it and died before it could answer."""
    if call.claim is None:
        return None
    row = tx.one(
        f"SELECT {payments.COLUMNS} FROM banking_payments WHERE payer_organization_id = ? AND idempotency_key = ?"
        " AND created_at > ? ORDER BY id DESC LIMIT 1",
        call.principal.organization_id, call.claim.key, tx.now - call.claim.keep_microseconds,
    )  # fmt: skip
    return None if row is None else PaymentRow(*row)


def _end_to_end_id(number: int) -> str:
    """Ours, and nobody else's: another installation counts from one as well."""
    return f"{payments.END_TO_END_PREFIX}{number}-{secrets.token_hex(4).upper()}"


def _details(body: NewPayment) -> str:
    details = {name: getattr(body, name) for name in _DETAILS if getattr(body, name) is not None}
    if body.date is not None:
        details["date"] = body.date.isoformat()
    if body.return_to is not None:
        details["return_to"] = body.return_to
    return encode_text(details)


def _held(field: str, rule: Callable[..., object], *given: object) -> object:
    """What SEPA makes of a field; its refusal in the words of ours."""
    try:
        return rule(field, *given)
    except BadRequest as error:
        raise _refused(field, str(error).removeprefix(field).strip().rstrip(".")) from None


def _address(given: str | None) -> str | None:
    if given is None:
        return None
    try:
        return str(ipaddress.ip_address(given))
    except ValueError:
        raise _refused("customer_ip_address", "is not an IP address") from None


def _refused(field: str, why: str) -> BadRequest:
    return BadRequest(f"The field `{field}` {why}.", field=field)
