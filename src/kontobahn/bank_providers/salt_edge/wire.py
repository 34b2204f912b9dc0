"""Answers of Salt Edge, as structs: only what we read. Numbers are exact decimals, ids texts even where they come as numbers.

The published descriptions leave some shapes open; where two occur, both are read.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from kontobahn.clock import from_datetime
from kontobahn.json_text import decode_foreign

T = TypeVar("T")
Id = str | int
CustomFields = dict[str, Any] | str | None


class Meta(Struct):
    next_id: Id | None = None


class One(Struct, Generic[T]):
    data: T


class Page(Struct, Generic[T]):
    data: list[T]
    meta: Meta | None = None


class Customer(Struct):
    customer_id: Id | None = None
    id: Id | None = None
    identifier: str | None = None


class ConnectPage(Struct):
    connect_url: str
    expires_at: str | None = None


class Stage(Struct):
    name: str | None = None


class Attempt(Struct):
    finished: bool | None = None
    success_at: str | None = None
    fail_at: str | None = None
    fail_error_class: str | None = None
    fail_message: str | None = None
    last_stage: Stage | None = None


class Connection(Struct):
    id: Id
    customer_id: Id
    provider_code: str
    provider_name: str
    country_code: str
    status: str
    next_refresh_possible_at: str | None = None
    last_consent_id: Id | None = None
    last_attempt: Attempt | None = None


class Refreshed(Struct):
    """A refresh begins, or wants the person at a page."""

    connect_url: str | None = None


class Consent(Struct):
    id: Id
    status: str | None = None
    expires_at: str | None = None
    revoked_at: str | None = None


class AccountExtra(Struct):
    iban: str | None = None
    holder_name: str | None = None
    client_name: str | None = None


class Account(Struct):
    id: Id
    name: str
    nature: str
    balance: Decimal | None
    currency_code: str
    extra: AccountExtra | None = None


class TransactionExtra(Struct, gc=False):
    """The extra fields of a booking, as they become ours. It serves as a mapping of those that are there: one for each booking
    would cost more than everything else."""

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

    def keys(self) -> list[str]:
        return [name for name in self.__struct_fields__ if getattr(self, name) is not None]

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)


class Transaction(Struct, gc=False):
    id: Id
    account_id: Id
    made_on: date
    amount: Decimal
    currency_code: str
    description: str | None = None
    status: str | None = None
    mode: str | None = None
    category: str | None = None
    duplicated: bool | None = None
    extra: TransactionExtra | None = None


class BareTransaction(Transaction, gc=False):
    """A booking whose extra fields have unexpected types: what counts is read all the same."""

    extra: None = msgspec.field(default=None, name="no_extra")


class Provider(Struct):
    code: str
    name: str
    country_code: str
    mode: str | None = None
    status: str | None = None
    regulated: bool | None = None
    logo_url: str | None = None
    max_consent_days: int | None = None
    max_fetch_interval: int | None = None
    identification_codes: list[str] | None = None
    bic_codes: list[str] | None = None
    payment_templates: list[str] | None = None


class Payment(Struct):
    """A payment, as it is answered by its creation, listed, and reported in a callback."""

    id: Id | None = None
    payment_id: Id | None = None
    status: str | None = None
    raw_provider_status: str | None = None
    payment_url: str | None = None
    expires_at: str | None = None
    payment_attributes: dict[str, Any] | None = None
    custom_fields: CustomFields = None
    error_class: str | None = None
    error_message: str | None = None
    fail_error_class: str | None = None
    fail_message: str | None = None
    last_attempt: Attempt | None = None

    @property
    def ref(self) -> str | None:
        found = self.payment_id if self.payment_id is not None else self.id
        return None if found is None else str(found)


class Callback(Struct):
    """The data of a callback. Its fields depend on its kind, which only its address shows."""

    connection_id: Id | None = None
    customer_id: Id | None = None
    payment_id: Id | None = None
    custom_fields: CustomFields = None
    stage: str | None = None
    status: str | None = None
    raw_provider_status: str | None = None
    error_class: str | None = None
    error_message: str | None = None


class CallbackMeta(Struct):
    time: str | None = None


class CallbackBody(Struct):
    data: Callback
    meta: CallbackMeta | None = None


class ErrorText(Struct):
    message: str | None = None
    class_: str | None = msgspec.field(default=None, name="class")


class ErrorBody(Struct):
    error: ErrorText | str | None = None
    error_class: str | None = None
    error_message: str | None = None


def custom(fields: CustomFields) -> dict[str, Any]:
    """Returns what we gave along and Salt Edge repeats: an object, or the text of one."""
    if isinstance(fields, str):
        try:
            return decode_foreign(fields, dict[str, Any])
        except msgspec.MsgspecError:
            return {}
    return fields or {}


def error_of(content: bytes) -> tuple[str, str]:
    """Returns class and message of an error, in any of the shapes that occur; empty where it has none."""
    try:
        found = decode_foreign(content, ErrorBody | str)
    except msgspec.MsgspecError:
        return "", ""
    if isinstance(found, str):
        return "", found
    if isinstance(found.error, ErrorText):
        return found.error.class_ or "", found.error.message or ""
    return found.error_class or "", found.error_message or found.error or ""


def instant(text: str | None) -> int | None:
    """Returns the instant that a text names; None if it names none. Without a zone it is UTC, as all of Salt Edge's times are."""
    if not text:
        return None
    try:
        value = datetime.fromisoformat(text.replace(" UTC", "+00:00"))
    except ValueError:
        return None
    return from_datetime(value if value.tzinfo else value.replace(tzinfo=UTC))
