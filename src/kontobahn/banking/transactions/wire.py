"""A transaction on the wire. It is also stored in this form, so listing it costs no more than joining texts."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from kontobahn.api.wire import Answer, Timestamp
from kontobahn.banking.provider import Mode, TransactionStatus


class DescriptionParsed(Answer, gc=False):
    # Named as in a Purpose.
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


class TransactionExtra(Answer, gc=False):
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
    # Choice 40: null means not known. These four come from statement files.
    bank_reference: str | None = None
    gvc: str | None = None
    primanota: str | None = None
    return_reason: str | None = None


class Transaction(Answer, gc=False):
    id: str
    account_id: str
    payment_id: str | None
    duplicated: bool
    mode: Mode
    status: TransactionStatus
    made_on: date
    amount: Decimal
    currency_code: str
    description: str
    description_parsed: DescriptionParsed
    category: str
    extra: TransactionExtra
    created_at: Timestamp
    updated_at: Timestamp
