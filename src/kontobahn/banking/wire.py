"""Types that several calls of the area share, checks that name the field they refuse, and the `data` of the area's events."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from msgspec import UNSET, Meta, UnsetType

from kontobahn.api.answers import Error
from kontobahn.api.wire import Answer, Timestamp, form
from kontobahn.banking.provider import PayeeResult, PaymentStatus, Template
from kontobahn.errors import BadRequest
from kontobahn.json_text import encode
from kontobahn.sentences import said

NumericId = Annotated[str, form("a number", r"^[0-9]{1,18}$", examples=["1000000000001"])]
ConnectionId = Annotated[str, Meta(min_length=1, max_length=64, examples=["1000000000001"])]
FromId = Annotated[str, form("a number", r"^[0-9]{1,18}$", description="Only what has a higher id: the last id seen.")]
# Of the person for whom something is done, where a server calls on their behalf.
CustomerAddress = Annotated[str, Meta(min_length=2, max_length=45)]
CustomerAgent = Annotated[str, Meta(max_length=300)]
# Choice 7: custom_fields to 4 KiB.
CUSTOM_FIELDS_BYTES = 4096


class BankingError(Error, kw_only=True):
    """An error of the banking area."""

    limit: (
        Annotated[Literal["payment", "daily"], Meta(description="403: which limit of the key the payment exceeds.")]
        | UnsetType
    ) = UNSET
    limit_amount: Annotated[str, Meta(description="403: that limit, in EUR.")] | UnsetType = UNSET
    left: Annotated[str, Meta(description="403: what is left of the daily limit, in EUR.")] | UnsetType = UNSET
    next_refresh_possible_at: (
        Annotated[Timestamp, Meta(description="409 of a refresh: when the bank may be asked again.")] | UnsetType
    ) = UNSET
    connect_url: (
        Annotated[str, Meta(description="409 of a refresh: where the person renews the access.")] | UnsetType
    ) = UNSET


def parse_ip_address(text: str | None) -> str | None:
    """Returns the address in its usual spelling. Raises BadRequest if it is none."""
    if text is None:
        return None
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise BadRequest("The field `customer_ip_address` is not an IP address.", field="customer_ip_address") from None


def check_custom_fields(fields: dict[str, Any] | None) -> None:
    if fields is not None and len(encode(fields)) > CUSTOM_FIELDS_BYTES:
        raise BadRequest(
            said("The field `custom_fields` must be at most {most} bytes of JSON.", most=CUSTOM_FIELDS_BYTES),
            field="custom_fields",
        )


def check_return_to(url: str | None) -> None:
    """Raises BadRequest if a browser must not be sent there: only plain http and https addresses are allowed."""
    if url is None:
        return
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
        is_valid = is_valid and url.isprintable() and " " not in url and "\\" not in url
    except ValueError:
        is_valid = False
    if not is_valid:
        raise BadRequest("The field `return_to` must be an http or https address.", field="return_to")


# --- Events: whoever emits one fills in these structs, and OpenAPI shows them


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


class PayeeCheck(Answer):
    """The bank's check of the payee's name against that of the account's holder, beside the payment's status."""

    result: Annotated[
        PayeeResult,
        Meta(
            description="`match`, `close_match`, `no_match`, `not_possible` (which is no bad sign), `pending`, or `not_asked` where no"
            " check was reported.",
            examples=["close_match"],
        ),
    ]
    submitted_name: Annotated[str | None, Meta(examples=["Moebel Krueger"])]
    returned_name: Annotated[
        str | None,
        Meta(description="The holder's name, which banks tell for a close match.", examples=["Möbel Krüger GmbH"]),
    ]
    source: Annotated[str | None, Meta(examples=["pain.002 B-1"])]
    checked_at: Timestamp | None


class PaymentPayeeCheck(Answer, kw_only=True):
    """The bank has checked the payee's name. Only webhook endpoints that name this event get it."""

    payment_id: PaymentId
    payee_check: PayeeCheck
    custom_fields: CustomFields | UnsetType = UNSET


EVENTS: dict[str, type[Answer]] = {
    "refresh_complete": RefreshComplete,
    "connection_error": ConnectionErrorReport,
    "connection_destroyed": ConnectionDestroyed,
    "payment_update": PaymentUpdate,
    "payment_progress": PaymentProgress,
    "consent_expiring": ConsentExpiring,
    "payment.payee_check": PaymentPayeeCheck,
}


# The words of a search, and where they are found. Pure.


ESCAPE = "!"
# One unit of work looks through at most this many rows; then it says how far it got.
LOOKED_THROUGH = 5_000


class Word(NamedTuple):
    """One thing that must be found: as text, or as one of these amounts in cents."""

    text: str
    # For LIKE with ESCAPE, on text in lower case. Finds too much rather than too little; what it finds is then looked at closely.
    pattern: str
    amounts: tuple[int, ...] = ()


def fits(words: Sequence[Word], texts: Iterable[str | None], amount_minor: int, number: str) -> bool:
    """Returns whether every word is in a text, is the amount, or is the whole number of what is looked at."""
    said = "\n".join(filter(None, texts)).casefold()
    compact = "".join(said.split())
    return all(
        word.text in said or word.text in compact or amount_minor in word.amounts or word.text == number
        for word in words
    )
