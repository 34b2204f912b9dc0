"""Answers of Enable Banking, as far as they are needed: the rest is skipped while it is parsed. Fields that banks leave out are None."""

from __future__ import annotations

from datetime import date, datetime

import msgspec


class Answer(msgspec.Struct, gc=False):
    """Of what is read once and taken apart."""


class Named(Answer):
    """A bank as it is named: by name and country, there is no id."""

    name: str
    country: str


class Amount(Answer):
    amount: str
    currency: str


class Identification(Answer):
    identification: str = ""
    scheme_name: str = ""


class AccountId(Answer):
    iban: str | None = None
    other: Identification | None = None


class Party(Answer):
    name: str | None = None


class TransactionCode(Answer):
    description: str | None = None
    code: str | None = None
    sub_code: str | None = None


class Transaction(Answer):
    transaction_amount: Amount
    credit_debit_indicator: str
    status: str
    entry_reference: str | None = None
    booking_date: date | None = None
    value_date: date | None = None
    transaction_date: date | None = None
    remittance_information: list[str] | None = None
    reference_number: str | None = None
    creditor: Party | None = None
    creditor_account: AccountId | None = None
    debtor: Party | None = None
    debtor_account: AccountId | None = None
    bank_transaction_code: TransactionCode | None = None
    balance_after_transaction: Amount | None = None
    note: str | None = None


class Transactions(Answer):
    transactions: list[Transaction]
    continuation_key: str | None = None


class RawTransactions(Answer):
    """A page in which a row is not as it should be: each is read for itself."""

    transactions: list[msgspec.Raw]
    continuation_key: str | None = None


class Balance(Answer):
    balance_amount: Amount
    balance_type: str
    reference_date: date | None = None


class Balances(Answer):
    balances: list[Balance]


class Account(Answer):
    """An account as a session began with it. Without a uid nothing can be asked about it: it is blocked or closed."""

    identification_hash: str
    currency: str
    uid: str | None = None
    cash_account_type: str = ""
    account_id: AccountId | None = None
    all_account_ids: list[Identification] | None = None
    name: str | None = None
    details: str | None = None
    product: str | None = None


class Access(Answer):
    valid_until: datetime


class NewSession(Answer):
    session_id: str
    accounts: list[Account]
    aspsp: Named
    psu_type: str
    access: Access


class Session(Answer):
    status: str
    accounts: list[str]
    aspsp: Named
    psu_type: str
    access: Access


class Authorization(Answer):
    url: str


class RemittanceLine(Answer):
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None


class PaymentKind(Answer):
    """A kind of payment, and what a bank takes with it."""

    payment_type: str
    psu_type: str
    requested_execution_date_supported: bool | None = None
    remittance_information_lines: list[RemittanceLine] | None = None
    reference_number_supported: bool | None = None
    creditor_country_required: bool | None = None
    creditor_postal_address_required: bool | None = None
    creditor_agent_bic_fi_required: bool | None = None


class Bank(Answer):
    name: str
    country: str
    logo: str = ""
    psu_types: list[str] = []
    maximum_consent_validity: int | None = None
    bic: str | None = None
    # All of them or none, by which the bank knows whether the person is there.
    required_psu_headers: list[str] | None = None
    payments: list[PaymentKind] | None = None


class Banks(Answer):
    aspsps: list[Bank]


class Application(Answer):
    name: str
    environment: str
    active: bool
    redirect_urls: list[str] = []
    countries: list[str] = []
    services: list[str] = []


class CreatedPayment(Answer):
    payment_id: str
    status: str
    url: str


class Reason(Answer):
    status_reason_code: str = ""
    status_reason_description: str = ""


class Payment(Answer):
    payment_id: str
    status: str
    status_reason_information: Reason | None = None
    # True if no other status follows, whatever this one is.
    final_status: bool | None = None


class Refusal(Answer):
    message: str = ""
    error: str | None = None


class PaymentNews(Answer):
    """News of a payment, from a webhook. The documents do not show its body: the payment may be the body, or be in it."""

    payment_id: str | None = None
    status: str | None = None
    status_reason_information: Reason | None = None
    payment: Payment | None = None
    final_status: bool | None = None
