"""Received invoices. Names are those of the API."""

from __future__ import annotations

import datetime as dt
from datetime import date, datetime
from decimal import Decimal

import msgspec

from kontobahn_client.models.common import Answer, Body


class PayableRuleSet(Answer, kw_only=True):
    name: str
    version: str
    valid_from: date
    is_outdated: bool


class PayableFinding(Answer, kw_only=True):
    finding_class: str = msgspec.field(name="class")
    rule: str
    rule_set: str
    path: str
    severity: str
    message: str


class PayableCreditor(Answer, kw_only=True):
    name: str
    vat_id: str | None
    iban: str | None
    konto: str | None


class SkontoTerm(Answer, kw_only=True):
    percent: Decimal
    days: int
    until: date
    amount: Decimal


class PayableProposal(Answer, kw_only=True):
    konto: str
    steuer: str
    reason: str
    category: str = ""


class Payable(Answer, kw_only=True):
    id: str
    organization_id: str
    status: str
    kind: str
    number: str
    issue_date: date
    due_date: date | None
    currency_code: str
    total: Decimal
    payable_amount: Decimal
    creditor: PayableCreditor
    terms: list[SkontoTerm]
    format: str
    profile: str
    findings: list[PayableFinding]
    rule_sets: list[PayableRuleSet]
    warnings: list[str]
    proposals: PayableProposal | None
    stops: list[str]
    hold_until: date | None
    to_be_paid: bool
    connection_id: str | None
    client_id: str | None
    payment_id: str | None
    match_id: str | None
    document_guid: str
    created_at: datetime
    updated_at: datetime


class PayableStep(Answer, kw_only=True):
    action: str
    actor: str
    comment: str
    created_at: datetime


class NewPayable(Body, kw_only=True):
    file_id: str
    creditor_name: str
    number: str
    issue_date: date
    total: Decimal
    kind: str = "invoice"
    due_date: date | None = None
    currency_code: str = "EUR"
    vat_amount: Decimal | None = None
    iban: str | None = None
    vat_id: str | None = None
    skonto_percent: Decimal | None = None
    skonto_days: int | None = None


class BookedAccount(Answer, kw_only=True):
    konto: str
    amount: Decimal
    steuer: str


class PayableBooking(Answer, kw_only=True):
    payable_id: str
    state: str
    accounts: list[BookedAccount]
    import_ids: list[str]
    booked_at: datetime | None
    handover_id: str | None


class BookingAccount(Body, kw_only=True):
    konto: str
    amount: Decimal
    steuer: str = ""


class NewPayableBooking(Body, kw_only=True):
    accounts: list[BookingAccount]


class DuePayable(Answer, kw_only=True):
    payable_id: str
    status: str
    number: str
    creditor_name: str
    konto: str | None
    currency_code: str
    due_date: date | None
    payable_amount: Decimal
    skonto: Decimal
    skonto_until: date | None
    pay_by: date
    amount: Decimal


class RunInvoice(Answer, kw_only=True):
    payable_id: str
    number: str
    amount: Decimal
    skonto: Decimal


class RunPayment(Answer, kw_only=True):
    payment_id: str | None
    status: str | None
    creditor_name: str
    creditor_iban: str
    amount: Decimal
    description: str
    waits_for_release: bool
    payment_url: str | None
    payables: list[RunInvoice]


class RunLeftOut(Answer, kw_only=True):
    payable_id: str
    number: str
    reason: str
    message: str


class PaymentRun(Answer, kw_only=True):
    id: str | None
    organization_id: str
    trial: bool
    account_id: str
    template_identifier: str
    date: dt.date | None
    amount: Decimal
    currency_code: str
    balance: Decimal | None
    payments: list[RunPayment]
    left_out: list[RunLeftOut]
    order_file_ids: list[str]
    created_at: datetime | None


class NewPaymentRun(Body, kw_only=True):
    account_id: str
    payable_ids: list[str] | None = None
    due_by: dt.date | None = None
    template_identifier: str = "SEPA"
    date: dt.date | None = None
    take_skonto: bool = True
    trial: bool = False


class NewFileAddress(Body, kw_only=True):
    address: str
    file_name: str | None = None


class NewRelease(Body, kw_only=True):
    comment: str = ""


class NewRejection(Body, kw_only=True):
    reason: str


class NewHold(Body, kw_only=True):
    until: date | None = None
    comment: str = ""


class NewCreditor(Body, kw_only=True):
    konto: str
    connection_id: str | None = None
    client_id: str | None = None


class NewConfirmation(Body, kw_only=True):
    stop: str
    comment: str = ""


class NewPayablesSettings(Body, kw_only=True):
    two_people_above: Decimal | None = None
    connection_id: str | None = None
    client_id: str | None = None
    book_on: str | None = None


class PayablesSettings(Answer, kw_only=True):
    two_people_above: Decimal | None
    connection_id: str | None
    client_id: str | None
    book_on: str | None


class NewHandover(Body, kw_only=True):
    connection_id: str
    client_id: str | None = None


class LeftOutInvoice(Answer, kw_only=True):
    payable_id: str
    reason: str


class Handover(Answer, kw_only=True):
    id: str
    organization_id: str
    connection_id: str
    client_id: str
    invoices: int
    total: Decimal
    file_name: str
    created_by: str
    created_at: datetime


class MadeHandover(Handover, kw_only=True):
    payable_ids: list[str]
    left_out: list[LeftOutInvoice]


class NewMailbox(Body, kw_only=True):
    host: str
    port: int = 993
    username: str
    password: str = ""
    folder: str = "INBOX"
    afterwards: str = "keep"
    moved_to: str = ""
    since: date | None = None


class PayablesMailbox(Answer, kw_only=True):
    organization_id: str
    host: str
    port: int
    username: str
    folder: str
    afterwards: str
    moved_to: str | None
    since: date
    trouble: str | None
    checked_at: datetime | None
    next_at: datetime


class NewMailboxReading(Body, kw_only=True):
    trial: bool = False


class MailboxReading(Answer, kw_only=True):
    trial: bool
    messages: int
    invoices: int
    trouble: str | None


class RemovedMailbox(Answer, kw_only=True):
    organization_id: str
    removed: bool
