"""Webhooks and the log of events. Names are those of the API."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

from kontobahn_client.models.banking import PayeeCheck
from kontobahn_client.models.common import Answer, Body


class NewWebhookUrl(Body, kw_only=True):
    webhook_url: str | None


class NewWebhookEndpoint(Body, kw_only=True):
    url: str
    events: (
        list[
            Literal[
                "batch_created",
                "connection_destroyed",
                "connection_error",
                "consent_expiring",
                "match_confirmed",
                "match_proposed",
                "match_undone",
                "payable.paid",
                "payable.received",
                "payable.rejected",
                "payable.released",
                "payment.payee_check",
                "payment_progress",
                "payment_update",
                "refresh_complete",
                "webhook_test",
            ]
        ]
        | None
    ) = None
    description: str | None = None


class RefreshedAccount(Answer, kw_only=True):
    id: str
    name: str
    holder_name: str | None = None
    nature: str
    balance: Decimal | None
    currency_code: str
    iban: str | None = None


class RefreshComplete(Answer, kw_only=True):
    """A refresh of a connection has finished, automatic or manual, and there are new account data."""

    connection_id: str
    provider_name: str
    provider_code: str
    country_code: str
    status: str
    refresh_type: str
    accounts: list[RefreshedAccount]


class ConnectionErrorReport(Answer, kw_only=True):
    """A connection fails: a PSD2 consent that has expired, or a technical problem."""

    connection_id: str
    provider_name: str
    provider_code: str
    country_code: str
    refresh_type: str
    error_class: str | None = None
    error_message: str | None = None


class ConnectionDestroyed(Answer, kw_only=True):
    """A connection was deleted, by a call or by the bank."""

    connection_id: str
    provider_name: str
    provider_code: str
    country_code: str
    refresh_type: str


class ConsentExpiring(Answer, kw_only=True):
    """The consent for a connection ends soon: renew it by reconnecting. Only further webhook endpoints get this event."""

    connection_id: str
    provider_name: str
    provider_code: str
    country_code: str
    consent_expires_at: datetime
    days: int


class EmittedLine(Answer, kw_only=True):
    kind: str
    konto: str
    beleg: str
    amount: Decimal


class MatchProposed(Answer, kw_only=True):
    """A run has new proposals that a person must decide about. Only further webhook endpoints get this event."""

    run_id: str
    account_id: str
    proposed: int
    new: int
    matched: int


class MatchConfirmed(Answer, kw_only=True):
    """A transaction was matched. Only further webhook endpoints get this event."""

    match_id: str
    transaction_id: str
    account_id: str
    made_on: date
    amount: Decimal
    evidence_class: str | None
    lines: list[EmittedLine]
    automatic: bool


class BatchCreated(Answer, kw_only=True):
    """Matches were handed over: booked, or listed for the office. Only further webhook endpoints get this event."""

    batch_id: str
    account_id: str
    booked_by: str
    matches: int
    reversals: int


class MatchUndone(Answer, kw_only=True):
    """A match was undone. Only further webhook endpoints get this event."""

    match_id: str
    transaction_id: str
    account_id: str
    made_on: date
    amount: Decimal
    evidence_class: str | None
    lines: list[EmittedLine]
    reason: str


class PayableReceived(Answer, kw_only=True):
    """An invoice came in that was not known. Only further webhook endpoints get this event."""

    payable_id: str
    number: str
    creditor_name: str
    payable_amount: Decimal
    currency_code: str
    due_date: date | None
    status: str


class PayableReleased(Answer, kw_only=True):
    """An invoice was released for payment. Only further webhook endpoints get this event."""

    payable_id: str
    number: str
    creditor_name: str
    payable_amount: Decimal
    currency_code: str
    due_date: date | None


class PayableRejected(Answer, kw_only=True):
    """An invoice was rejected. Only further webhook endpoints get this event."""

    payable_id: str
    number: str
    creditor_name: str
    payable_amount: Decimal
    currency_code: str
    due_date: date | None
    reason: str


class PayablePaid(Answer, kw_only=True):
    """An invoice was paid: the bank has booked its payment, or one was matched to it. Only further webhook endpoints get this event."""

    payable_id: str
    number: str
    creditor_name: str
    payable_amount: Decimal
    currency_code: str
    due_date: date | None
    payment_id: str | None
    match_id: str | None


class PaymentAttributes(Answer, kw_only=True):
    amount: str
    currency_code: str
    description: str
    creditor_iban: str
    creditor_name: str
    debtor_iban: str
    end_to_end_id: str
    customer_ip_address: str | None = None


class PaymentUpdate(Answer, kw_only=True):
    """The status of a payment has changed."""

    payment_id: str
    status: str
    raw_provider_status: str | None = None
    template_identifier: str
    payment_attributes: PaymentAttributes
    custom_fields: dict[str, Any] | None = None


class PaymentProgress(Answer, kw_only=True):
    """A payment has reached `initiated_info_required`. Not the final result: wait for `payment_update`."""

    payment_id: str
    status: str
    custom_fields: dict[str, Any] | None = None


class PaymentPayeeCheck(Answer, kw_only=True):
    """The bank has checked the payee's name. Only webhook endpoints that name this event get it."""

    payment_id: str
    payee_check: PayeeCheck
    custom_fields: dict[str, Any] | None = None


class WebhookUrl(Answer, kw_only=True):
    webhook_url: str | None = None
    updated_at: datetime | None = None
    secret: str | None = None
    status: str | None = None
    stopped_at: datetime | None = None


class WebhookSecret(Answer, kw_only=True):
    secret: str
    previous_valid_until: datetime


class DeliveryAttempt(Answer, kw_only=True):
    at: datetime
    milliseconds: int
    status: int | None = None
    reason: str | None = None


class Delivery(Answer, kw_only=True):
    state: str
    next_attempt_at: datetime | None = None
    settled_at: datetime | None = None
    attempts: list[DeliveryAttempt]


class Event(Answer, kw_only=True):
    id: str
    event: str
    subject: str
    data: dict[str, Any]
    received_at: datetime
    delivery: Delivery


class WebhookEndpoint(Answer, kw_only=True):
    id: str
    organization_id: str
    url: str
    events: list[str] | None = None
    description: str | None = None
    status: str
    stopped_at: datetime | None = None
    failing_since: datetime | None = None
    created_at: datetime
    updated_at: datetime
    secret: str | None = None


class RemovedWebhookEndpoint(Answer, kw_only=True):
    id: str
    removed: bool


class EventList(Answer, kw_only=True):
    data: list[Event]
    next_cursor: str


class ResendFailed(Body, kw_only=True):
    since: datetime


class Resent(Answer, kw_only=True):
    resent: int
    has_more: bool
