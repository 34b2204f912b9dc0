"""The events of banking: what each one's `data` contains. Whoever emits one fills in these structs, and OpenAPI shows them."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from kontobahn.api.wire import Answer, Timestamp
from kontobahn.banking.provider import PaymentStatus, Template

RefreshType = Annotated[str, Meta(description="`automatic` or `manual`.", examples=["automatic"])]
CustomFields = Annotated[
    dict[str, Any], Meta(description="Only when set at creation.", examples=[{"invoice": "RE-2026-0042"}])
]
PaymentId = Annotated[str, Meta(examples=["1000000000001"])]


class _OfConnection(Answer):
    connection_id: Annotated[str, Meta(examples=["1000000000001"])]
    provider_name: Annotated[str, Meta(examples=["Sandbox Sparkasse"])]
    provider_code: Annotated[str, Meta(examples=["sandbox_sparkasse_de"])]
    country_code: str


class RefreshedAccount(Answer):
    id: Annotated[str, Meta(examples=["1000000000001"])]
    name: Annotated[str, Meta(examples=["Girokonto"])]
    holder_name: str | None
    nature: Annotated[str, Meta(examples=["checking"])]
    balance: Decimal | None
    currency_code: str
    iban: str | None


class RefreshComplete(_OfConnection, kw_only=True):
    """A refresh of a connection has finished, automatic or manual, and there are new account data."""

    status: Annotated[str, Meta(description="`active` or `inactive`.", examples=["active"])]
    refresh_type: RefreshType
    accounts: list[RefreshedAccount]


class ConnectionErrorReport(_OfConnection, kw_only=True):
    """A connection fails: a PSD2 consent that has expired, or a technical problem."""

    refresh_type: RefreshType
    error_class: Annotated[str | None, Meta(examples=["InvalidCredentials"])]
    error_message: Annotated[str | None, Meta(examples=["The consent has expired."])]


class ConnectionDestroyed(_OfConnection, kw_only=True):
    """A connection was deleted, by a call or by the bank."""

    refresh_type: RefreshType


class ConsentExpiring(_OfConnection, kw_only=True):
    """The consent for a connection ends soon: renew it by reconnecting. Only further webhook endpoints get this event."""

    consent_expires_at: Timestamp
    days: Annotated[int, Meta(description="Announced 14 and 3 days before.", examples=[14])]


class PaymentAttributes(Answer):
    amount: Annotated[str, Meta(description="A string here, a number elsewhere.", examples=["119.00"])]
    currency_code: str
    description: str
    creditor_iban: str
    creditor_name: str
    debtor_iban: Annotated[str, Meta(examples=["DE02120300000000202051"])]
    end_to_end_id: Annotated[str, Meta(examples=["KB1000000000001"])]
    customer_ip_address: Annotated[str | None, Meta(examples=["203.0.113.7"])]


class PaymentUpdate(Answer):
    """The status of a payment has changed."""

    payment_id: PaymentId
    status: Annotated[PaymentStatus, Meta(examples=["executed"])]
    raw_provider_status: Annotated[str | None, Meta(examples=["ACSC"])]
    template_identifier: Template
    payment_attributes: PaymentAttributes
    custom_fields: CustomFields | UnsetType = UNSET


class PaymentProgress(Answer):
    """A payment has reached `initiated_info_required`. Not the final result: wait for `payment_update`."""

    payment_id: PaymentId
    status: Literal["initiated_info_required"]
    custom_fields: CustomFields | UnsetType = UNSET


EVENTS: dict[str, type[Answer]] = {
    "refresh_complete": RefreshComplete,
    "connection_error": ConnectionErrorReport,
    "connection_destroyed": ConnectionDestroyed,
    "payment_update": PaymentUpdate,
    "payment_progress": PaymentProgress,
    "consent_expiring": ConsentExpiring,
}
