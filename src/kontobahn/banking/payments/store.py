"""The rows of payments and of what was reported on them: found and listed. `apply.py` is the only module that moves one."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kontobahn.access.principal import Principal, find_in_scope, in_scope
from kontobahn.banking.emitted import EVENTS
from kontobahn.banking.payments.wire import EVERYTHING, PaymentEvent, PaymentsQuery
from kontobahn.banking.provider import PaymentStatus, Template
from kontobahn.clock import end_of_day, start_of_day, to_datetime
from kontobahn.db import Table, Tx
from kontobahn.errors import NotFound
from kontobahn.money import amount_text
from kontobahn.webhooks.outbox import emit


class PaymentRow(NamedTuple):
    organization_id: str
    id: int
    provider: str
    provider_ref: str | None
    connection_id: str
    account_id: int
    provider_code: str
    provider_name: str
    status: PaymentStatus
    raw_provider_status: str | None
    error_class: str | None
    error_message: str | None
    template_identifier: Template
    amount_minor: int
    currency_code: str
    creditor_name: str
    creditor_iban: str
    debtor_iban: str
    end_to_end_id: str
    description: str
    reference: str | None
    order_details: str
    custom_fields: str | None
    customer_ip_address: str
    payment_url: str | None
    expires_at: int | None
    payer_organization_id: str
    hold_id: str | None
    debit_settles: int
    idempotency_key: str | None
    idempotency_fingerprint: str | None
    next_poll_at: int | None
    polls: int
    order_taken_at: int | None
    order_file_id: int | None
    # The key it was made with: the first one of its row of rotations.
    first_key_id: str | None
    created_at: int
    updated_at: int
    # 1 until a process is about to send it to the bank.
    unsent: int = 0


PAYMENTS = Table("banking_payments", PaymentRow)


def get(tx: Tx, organization_id: str, payment_id: int) -> PaymentRow:
    row = PAYMENTS.one(tx, "organization_id = ? AND id = ?", organization_id, payment_id)
    if row is None:
        raise NotFound("Payment not found.")
    return row


def lock(tx: Tx, organization_id: str, payment_id: int) -> None:
    """Serialises what is decided about one payment."""
    tx.lock("banking_payment", organization_id, str(payment_id))


def claim_sending(tx: Tx, organization_id: str, payment_id: int) -> bool:
    """Returns whether the caller is the one who may send this payment to the bank, or see to it that nobody does.

    In the UPDATE: of all processes and for all time, one gets it.
    """
    return bool(
        tx.run(
            "UPDATE banking_payments SET unsent = 0"
            " WHERE organization_id = ? AND id = ? AND unsent = 1 AND status = 'initiated'",
            organization_id, payment_id,
        )
    )  # fmt: skip


def find(tx: Tx, principal: Principal, payment_id: str) -> PaymentRow:
    return find_in_scope(tx, PAYMENTS, principal, "Payment", int(payment_id))


def by_provider_ref(tx: Tx, provider: str, provider_ref: str) -> PaymentRow | None:
    return PAYMENTS.one(tx, "provider = ? AND provider_ref = ?", provider, provider_ref)


def ordered_since(tx: Tx, organization_id: str, account_id: int, since: int, limit: int) -> list[PaymentRow]:
    """The latest payments that were ordered from an account, but for those that failed."""
    return PAYMENTS.all(
        tx,
        "organization_id = ? AND account_id = ? AND created_at >= ? AND status NOT IN ('failed', 'rejected')"
        " ORDER BY id DESC LIMIT ?",
        organization_id, account_id, since, limit,
    )  # fmt: skip


def by_end_to_end_id(tx: Tx, organization_id: str, end_to_end_id: str) -> PaymentRow | None:
    return PAYMENTS.one(tx, "organization_id = ? AND end_to_end_id = ?", organization_id, end_to_end_id)


def listing(tx: Tx, principal: Principal, query: PaymentsQuery) -> list[PaymentRow]:
    organizations = principal.organizations(query.organization_id)
    where, params = [in_scope(len(organizations))], list[object](organizations)

    def only(condition: str, value: object) -> None:
        where.append(condition)
        params.append(value)

    if query.connection_id not in (None, EVERYTHING):
        _check_known(tx, principal, "Connection", "connection_id", "banking_connections", query.connection_id)
        only("connection_id = ?", query.connection_id)
    if query.account_id is not None and query.account_id != EVERYTHING:
        _check_known(tx, principal, "Account", "account_id", "banking_accounts", int(query.account_id))
        only("account_id = ?", int(query.account_id))
    if query.from_date is not None:
        only("created_at >= ?", start_of_day(query.from_date))
    if query.to_date is not None:
        only("created_at < ?", end_of_day(query.to_date))
    if query.from_id is not None:
        only("id > ?", int(query.from_id))
    order = "id" if query.sort == "id" else "created_at DESC, id DESC"
    limit = " LIMIT ?" if query.limit else ""
    if query.limit:
        # Walked by id, one row more tells whether there is a next page.
        params.append(int(query.limit) + (query.sort == "id"))
    return PAYMENTS.all(tx, f"{' AND '.join(where)} ORDER BY {order}{limit}", *params)


def _check_known(tx: Tx, principal: Principal, what: str, column: str, table: str, wanted: object) -> None:
    """Raises NotFound if a filter names nothing that exists or that payments still refer to."""
    scope = in_scope(len(principal.scope))
    if tx.one(f"SELECT 1 FROM {table} WHERE {scope} AND id = ?", *principal.scope, wanted):
        return
    if not tx.one(f"SELECT 1 FROM banking_payments WHERE {scope} AND {column} = ? LIMIT 1", *principal.scope, wanted):
        raise principal.missing(what)


def history(tx: Tx, principal: Principal, payment_id: str) -> list[PaymentEvent]:
    """Returns what was reported on a payment, in order of arrival."""
    row = find(tx, principal, payment_id)
    return [
        PaymentEvent(
            at=to_datetime(at), source=source, status=status, raw_provider_status=raw, error_class=error_class,
            error_message=error_message, outcome=outcome,
        )
        for at, source, status, raw, error_class, error_message, outcome in tx.all(
            "SELECT at, source, status, raw_provider_status, error_class, error_message, outcome"
            " FROM banking_payment_reports WHERE organization_id = ? AND payment_id = ? ORDER BY position",
            row.organization_id, row.id,
        )
    ]  # fmt: skip


# --- Events, with exactly the contract's fields, in the transaction of the change they report


def emit_payment_changed(tx: Tx, row: PaymentRow) -> None:
    """Emits `payment_progress` for an extra confirmation, `payment_update` for every other status."""
    data: dict[str, Any] = {"payment_id": str(row.id), "status": row.status}
    event = "payment_progress"
    if row.status != "initiated_info_required":
        event = "payment_update"
        data |= {
            "raw_provider_status": row.raw_provider_status,
            "template_identifier": row.template_identifier,
            "payment_attributes": {
                "amount": amount_text(row.amount_minor),
                "currency_code": row.currency_code,
                "description": row.description,
                "creditor_iban": row.creditor_iban,
                "creditor_name": row.creditor_name,
                "debtor_iban": row.debtor_iban,
                "end_to_end_id": row.end_to_end_id,
                "customer_ip_address": row.customer_ip_address,
            },
        }
    if row.custom_fields is not None:
        data["custom_fields"] = msgspec.Raw(row.custom_fields)
    emit(tx, row.organization_id, event, f"payment:{row.id}", EVENTS[event](**data))
