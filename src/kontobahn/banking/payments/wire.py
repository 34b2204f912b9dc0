"""Payments on the wire: what is asked, what is sent, what is answered."""

from __future__ import annotations

import datetime
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from kontobahn.api.wire import Answer, Body, ListQuery, Query, Timestamp, Uuid, form, or_text
from kontobahn.banking.provider import Api, PayeeResult, PaymentStatus, Template
from kontobahn.banking.wire import ConnectionId, CustomerAddress, FromId, NumericId, PayeeCheck
from kontobahn.formats.pain import sepa

# The value of a filter that selects everything, like leaving it out.
EVERYTHING = "__all__"


class PaymentApiQuery(Query):
    # Derived from the account; one that contradicts it is refused.
    api: Annotated[Api, Meta(examples=["partner"])] | None = None


class PaymentsQuery(ListQuery):
    # Choice 20: names of the filters; `__all__` or nothing is all.
    connection_id: Annotated[ConnectionId, Meta(description="Only of this connection; `__all__` for all.")] | None = (
        None
    )
    account_id: (
        Annotated[
            str,
            form(
                "a number or __all__",
                r"^([0-9]{1,18}|__all__)$",
                description="Only from this account; `__all__` for all.",
            ),
        ]
        | None
    ) = None
    from_date: Annotated[date, Meta(description="Created on this day or later.")] | None = None
    to_date: Annotated[date, Meta(description="Created on this day or before.")] | None = None
    sort: Annotated[
        Literal["date", "id"], Meta(description="`date`: newest first. `id`: by id, for a running sync with `from_id`.")
    ] = "date"
    from_id: FromId | None = None
    payee_check: (
        Annotated[PayeeResult, Meta(description="Only payments whose payee was checked with this result.")] | None
    ) = None
    limit: Annotated[
        str,
        form(
            "a number from 1 to 100000, or empty",
            r"^([1-9][0-9]{0,4}|100000)?$",
            description="At most so many; empty for all.",
        ),
    ] = ""


# Choice 51: as a text too, because some platforms have no exact numbers; then digits and a point, without sign or exponent. The
# published form leaves out what `sepa.check_amount` refuses as well: zero, and more than nine digits.
_AMOUNT_TEXT = form("an amount such as 119.00", r"^[0-9]{1,11}(\.[0-9]{1,2})?$")
Amount = Annotated[
    Decimal,
    or_text(_AMOUNT_TEXT),
    Meta(
        description="Euros, exact to the cent; a number or a string.",
        examples=["119.00"],
        extra_json_schema={
            "anyOf": [
                {"type": "number", "minimum": 0.01, "maximum": 999999999.99},
                {"type": "string", "pattern": r"^(?!.*\n)(?!0*(\.0*)?$)0{0,2}[0-9]{1,9}(\.[0-9]{1,2})?$"},
            ]
        },
    ),
]


class Address(Body, kw_only=True):
    street_name: Annotated[str, Meta(max_length=sepa.MAX_NAME)] | None = None
    building_number: Annotated[str, Meta(max_length=16)] | None = None
    post_code: Annotated[str, Meta(max_length=16)] | None = None
    town_name: Annotated[str, Meta(min_length=1, max_length=35)]


class NewPayment(Body, kw_only=True):
    # Choice 26: the body of a payment.
    account_id: NumericId
    amount: Amount
    creditor_name: Annotated[str, Meta(min_length=1, max_length=sepa.MAX_NAME)]
    creditor_iban: Annotated[str, Meta(min_length=1, max_length=60, examples=["DE02120300000000202051"])]
    description: Annotated[str, Meta(min_length=1, max_length=sepa.MAX_REMITTANCE)]
    currency_code: Literal["EUR"] = "EUR"
    template_identifier: Template = "SEPA"
    reference: Annotated[str, Meta(min_length=1, max_length=sepa.MAX_ID)] | None = None
    creditor_country_code: Annotated[str, form("a country code of two capital letters", r"^[A-Z]{2}$")] | None = None
    creditor_address: Address | Annotated[str, Meta(min_length=1, max_length=sepa.MAX_REMITTANCE)] | None = None
    creditor_agent: Annotated[str, form("a BIC", r"^[A-Z]{6}[A-Z0-9]{2}([A-Z0-9]{3})?$")] | None = None
    creditor_agent_name: Annotated[str, Meta(min_length=1, max_length=sepa.MAX_NAME)] | None = None
    date: Annotated[datetime.date, Meta(description="Day of execution; as soon as possible when omitted.")] | None = (
        None
    )
    return_to: Annotated[str, Meta(min_length=8, max_length=2000)] | None = None
    custom_fields: dict[str, Any] | None = None
    customer_ip_address: CustomerAddress | None = None


class Release(Answer):
    """The release by a second person that a payment above the organisation's limit needs, beside its status."""

    state: Annotated[
        Literal["waiting", "released", "refused", "expired", "withdrawn"],
        Meta(
            description="`waiting`: the payment is `initiated`, in no file and at no bank. `refused`, `expired`, `withdrawn` (cancelled"
            " before): it has failed.",
            examples=["waiting"],
        ),
    ]
    limit: Annotated[Decimal, Meta(description="The limit that the payment was above.")]
    expires_at: Timestamp | None
    released_at: Timestamp | None


class Payment(Answer):
    id: str
    organization_id: Uuid
    status: PaymentStatus
    raw_provider_status: str | None
    connection_id: str
    account_id: str
    provider_code: str
    provider_name: str
    template_identifier: Template
    amount: Decimal
    currency_code: str
    creditor_name: str
    creditor_iban: str
    debtor_iban: str
    end_to_end_id: str
    description: str
    reference: str | None
    created_at: Timestamp
    updated_at: Timestamp
    payee_check: PayeeCheck
    # Null if it needed none.
    release: Release | None
    custom_fields: dict[str, Any] | UnsetType = UNSET


class OrderWarning(Answer):
    """Something to know before an order is uploaded as a file."""

    code: Annotated[
        Literal["one_payment", "day_passed", "left_out"],
        Meta(
            description="`one_payment`: the file holds one payment, which some banks refuse. `day_passed`: the file that was fetched"
            " is out of date. `left_out`: the file has no place for something that was sent."
        ),
    ]
    message: str


class CreatedPayment(Payment, kw_only=True):
    payment_id: str
    # Null while the bank has not answered, and if it refused at once.
    payment_url: str | None
    expires_at: Timestamp | None
    warnings: list[OrderWarning]


class CurrentPayment(Payment, kw_only=True):
    # Only while the payer has something to do.
    payment_url: str | UnsetType = UNSET
    expires_at: Timestamp | UnsetType | None = UNSET
    warnings: list[OrderWarning]


class PaymentEvent(Answer):
    """A report about a payment, and its outcome."""

    at: Timestamp
    source: str
    status: PaymentStatus | None
    raw_provider_status: str | None
    error_class: str | None
    error_message: str | None
    outcome: Annotated[
        str, Meta(description="moved, noted, repeated, stale, contradicts, or not understood", examples=["moved"])
    ]
