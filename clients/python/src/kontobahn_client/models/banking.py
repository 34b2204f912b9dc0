"""Bank connections, accounts, transactions and payments. Names are those of the API."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

from kontobahn_client.models.common import Answer, Body


class Connect(Body, kw_only=True):
    """Starts a connect flow; everything is optional."""

    provider_code: str | None = None
    email: str | None = None
    return_to: str | None = None
    scopes: list[Literal["accounts", "holder_info", "transactions"]] | None = None
    holder: Literal["personal", "business"] | None = None
    language: Literal["de", "en"] | None = None
    customer_ip_address: str | None = None
    customer_user_agent: str | None = None
    custom_fields: dict[str, Any] | None = None


class Reconnect(Body, kw_only=True):
    return_to: str | None = None
    language: Literal["de", "en"] | None = None
    customer_ip_address: str | None = None
    customer_user_agent: str | None = None


class Refresh(Body, kw_only=True):
    customer_ip_address: str | None = None
    customer_user_agent: str | None = None


class Address(Body, kw_only=True):
    street_name: str | None = None
    building_number: str | None = None
    post_code: str | None = None
    town_name: str


class NewPayment(Body, kw_only=True):
    account_id: str
    amount: Decimal
    creditor_name: str
    creditor_iban: str
    description: str
    currency_code: Literal["EUR"] | None = None
    template_identifier: Literal["SEPA", "SEPA_INSTANT"] | None = None
    reference: str | None = None
    creditor_country_code: str | None = None
    creditor_address: str | Address | None = None
    creditor_agent: str | None = None
    creditor_agent_name: str | None = None
    date: date | None = None
    return_to: str | None = None
    custom_fields: dict[str, Any] | None = None
    customer_ip_address: str | None = None


class NewAccountMerge(Body, kw_only=True):
    account_id: str
    merged_account_id: str


class NewOrderFile(Body, kw_only=True):
    account_id: str | None = None
    payment_ids: list[str] | None = None
    template_identifier: Literal["SEPA", "SEPA_INSTANT"] | None = None
    include_taken: bool | None = None


class NewPaymentLimit(Body, kw_only=True):
    amount: Decimal | None
    currency_code: Literal["EUR"] | None = None


class Bank(Answer, kw_only=True):
    code: str
    name: str
    country_code: str
    provider: str
    api: str
    bics: list[str]
    bank_codes: list[str]
    logo_url: str
    supports: list[str]
    consent_days: int | None = None


class BankConnection(Answer, kw_only=True):
    id: str
    provider_name: str
    provider_code: str
    country_code: str
    status: str
    owner_user_id: str | None = None
    automatic_refresh: bool
    next_refresh_possible_at: datetime
    created_at: datetime
    updated_at: datetime
    display_name: str | None = None
    logo_url: str
    consent_expires_at: datetime | None = None
    error_class: str | None = None
    error_message: str | None = None
    not_read: list[str] | None = None


class MergeCounts(Answer, kw_only=True):
    same: int
    moved: int
    left_out: int
    payments: int
    order_files: int
    connections: int
    statements: int


class ComparedBooking(Answer, kw_only=True):
    made_on: date
    amount: Decimal
    description: str
    kept_ids: list[str]
    removed_ids: list[str]


class AccountMergePreview(Answer, kw_only=True):
    account_id: str
    merged_account_id: str
    iban: str
    counts: MergeCounts
    matches: int
    batches: int
    balance: Decimal | None = None
    same: list[ComparedBooking]
    moved: list[ComparedBooking]
    left_out: list[ComparedBooking]
    problems: list[str]


class AccountMerge(Answer, kw_only=True):
    id: str
    account_id: str
    merged_account_id: str
    iban: str
    counts: MergeCounts
    made_by: str
    made_at: datetime
    undo_until: datetime | None = None
    undo_problem: str | None = None
    undone_by: str | None = None
    undone_at: datetime | None = None


class ConnectAnswer(Answer, kw_only=True):
    """Not wrapped in `data`."""

    connect_url: str
    expires_at: datetime
    owner_user_id: str | None = None
    pending_token: str


class Removed(Answer, kw_only=True):
    connection_id: str
    removed: bool


class TransactionsCount(Answer, kw_only=True):
    posted: int
    pending: int


class AccountExtra(Answer, kw_only=True):
    iban: str | None = None
    holder_name: str | None = None
    transactions_count: TransactionsCount
    is_sandbox: bool | None = None
    not_read: list[str] | None = None


class BankAccount(Answer, kw_only=True):
    can_hide: bool
    id: str
    name: str
    nature: str
    balance: Decimal | None
    currency_code: str
    created_at: datetime
    updated_at: datetime
    extra: AccountExtra


class DescriptionParsed(Answer, kw_only=True):
    cred: str | None = None
    mref: str | None = None
    kref: str | None = None
    debt: str | None = None
    svwz: str | None = None
    abwa: str | None = None
    abwe: str | None = None
    bic: str | None = None
    oamt: str | None = None
    coam: str | None = None
    purp: str | None = None


class TransactionDetail(Answer, kw_only=True):
    amount: Decimal
    description: str
    name: str | None = None
    account: str | None = None
    end_to_end_id: str | None = None


class TransactionExtra(Answer, kw_only=True):
    time: str | None = None
    payee: str | None = None
    payer: str | None = None
    additional: str | None = None
    merchant_id: str | None = None
    posting_date: date | None = None
    end_to_end_id: str | None = None
    payee_information: str | None = None
    payer_information: str | None = None
    account_balance_snapshot: Decimal | None = None
    categorization_confidence: Decimal | None = None
    bank_reference: str | None = None
    gvc: str | None = None
    primanota: str | None = None
    return_reason: str | None = None
    details: list[TransactionDetail] | None = None


class Transaction(Answer, kw_only=True):
    id: str
    account_id: str
    payment_id: str | None = None
    duplicated: bool
    mode: str
    status: str
    made_on: date
    amount: Decimal
    currency_code: str
    description: str
    description_parsed: DescriptionParsed
    category: str
    extra: TransactionExtra
    created_at: datetime
    updated_at: datetime


class Change(Answer, kw_only=True):
    """A change of a transaction since the cursor; several changes are reported as one."""

    change: str
    id: str
    account_id: str
    transaction: Transaction | None = None


class ChangesAnswer(Answer, kw_only=True):
    data: list[Change]
    cursor: str
    has_more: bool


class ImportWarning(Answer, kw_only=True):
    place: str
    found: str
    done: str


class StatementImportReport(Answer, kw_only=True):
    id: str
    organization_id: str
    status: str
    file: str
    sha256: str
    actor: str
    created_at: datetime
    error: str | None = None
    accounts: int
    statements: int
    repeated: int
    added: int
    modified: int
    removed: int
    left_out: int
    payments: int
    warnings: list[ImportWarning]


class PayeeCheck(Answer, kw_only=True):
    """The bank's check of the payee's name against that of the account's holder, beside the payment's status."""

    result: str
    submitted_name: str | None = None
    returned_name: str | None = None
    source: str | None = None
    checked_at: datetime | None = None


class Release(Answer, kw_only=True):
    """The release by a second person that a payment above the organisation's limit needs, beside its status."""

    state: str
    limit: Decimal
    expires_at: datetime | None = None
    released_at: datetime | None = None


class PaymentLimit(Answer, kw_only=True):
    amount: Decimal | None
    currency_code: str
    changed_at: datetime | None = None


class Payment(Answer, kw_only=True):
    id: str
    organization_id: str
    status: str
    raw_provider_status: str | None = None
    connection_id: str
    account_id: str
    provider_code: str
    provider_name: str
    template_identifier: str
    amount: Decimal
    currency_code: str
    creditor_name: str
    creditor_iban: str
    debtor_iban: str
    end_to_end_id: str
    description: str
    reference: str | None = None
    created_at: datetime
    updated_at: datetime
    payee_check: PayeeCheck
    release: Release | None = None
    custom_fields: dict[str, Any] | None = None


class OrderWarning(Answer, kw_only=True):
    """Something to know before an order is uploaded as a file."""

    code: str
    message: str


class CreatedPayment(Payment, kw_only=True):
    payment_id: str
    payment_url: str | None = None
    expires_at: datetime | None = None
    warnings: list[OrderWarning]


class CurrentPayment(Payment, kw_only=True):
    payment_url: str | None = None
    expires_at: datetime | None = None
    warnings: list[OrderWarning]


class PaymentEvent(Answer, kw_only=True):
    """A report about a payment, and its outcome."""

    at: datetime
    source: str
    status: str | None = None
    raw_provider_status: str | None = None
    error_class: str | None = None
    error_message: str | None = None
    outcome: str


class PaymentOrderFile(Answer, kw_only=True):
    id: str
    organization_id: str
    account_id: str
    message_id: str
    status: str
    payment_ids: list[str]
    template_identifier: str | None = None
    amount: Decimal
    currency_code: str
    file_url: str | None = None
    expires_at: datetime | None = None
    created_at: datetime
    warnings: list[OrderWarning]


class OrderFileSubmission(Answer, kw_only=True):
    order_file_id: str
    state: str
    order_id: str | None = None
    message: str | None = None


class Received(Answer, kw_only=True):
    """A provider's delivery was received."""

    received: bool
