"""The banking area on the wire, in the contract's spelling. Events have their own structs in `events/`."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from kontobahn.api.wire import Answer, Body, ListQuery, Query, Timestamp, form

Api = Literal["partner", "openbanking"]
ConnectionStatus = Literal["active", "inactive", "disabled", "pending", "pending_connect"]
PaymentStatus = Literal[
    "initiated", "initiated_info_required", "authorizing", "authorized", "processing", "executed", "settled", "failed", "rejected"
]  # fmt: skip
Template = Literal["SEPA", "SEPA_INSTANT"]
# Choice 21: the natures, modes and statuses that occur.
Nature = Literal[
    "account", "bonus", "card", "checking", "credit", "credit_card", "debit_card", "ewallet", "insurance", "investment",
    "loan", "mortgage", "savings",
]  # fmt: skip
Mode = Literal["normal", "fee", "transfer"]
TransactionStatus = Literal["posted", "pending"]
Scope = Literal["accounts", "holder_info", "transactions"]
Day = date
NumericId = Annotated[str, form("a number", r"^[0-9]{1,18}$", examples=["1000000000001"])]
ConnectionId = Annotated[str, Meta(min_length=1, max_length=64, examples=["1000000000001"])]
FromId = Annotated[str, form("a number", r"^[0-9]{1,18}$", description="Only what has a higher id: the last id seen.")]
EVERYTHING = "__all__"


# --- What is asked


class ApiQuery(Query):
    api: Annotated[Api, Meta(description="`partner`: regulated banks; `openbanking`: the others.")] = "partner"


class AccountsQuery(ListQuery):
    api: Annotated[Api, Meta(description="Only accounts at regulated banks, or only at the others.")] | None = None
    connection_id: Annotated[ConnectionId, Meta(description="Only accounts of this connection.")] | None = None
    # Choice 20: the name of the payment filter.
    payments_supported: (
        Annotated[
            bool, Meta(description="Only accounts that can be the source of a payment, or only those that cannot.")
        ]
        | None
    ) = None


class TransactionsQuery(Query):
    connection_id: Annotated[ConnectionId, Meta(description="All accounts of this connection.")] | None = None
    account_id: Annotated[NumericId, Meta(description="This account only.")] | None = None
    # Choice 20: `to_date` is inclusive, as `from_date` is.
    from_date: Annotated[date, Meta(description="First value date.")] | None = None
    to_date: Annotated[date, Meta(description="Last value date.")] | None = None
    from_id: FromId | None = None
    sort: Annotated[
        Literal["made_on", "id"],
        Meta(description="`made_on`: by value date, then id. `id`: by id, for a running sync with `from_id`."),
    ] = "made_on"
    limit: (
        Annotated[
            int,
            Meta(ge=1, le=100_000, description="At most so many; all when omitted, up to 100,000.", examples=[1000]),
        ]
        | None
    ) = None


class TransactionQuery(Query, kw_only=True):
    account_id: Annotated[NumericId, Meta(description="The account it belongs to.")]


class ChangesQuery(ListQuery):
    cursor: Annotated[
        str,
        form("a cursor", r"^[0-9]{0,18}$", description="The `cursor` of the answer before; empty for the beginning."),
    ] = ""
    connection_id: Annotated[ConnectionId, Meta(description="Only accounts of this connection.")] | None = None
    account_id: Annotated[NumericId, Meta(description="Only this account.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000


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
    limit: Annotated[
        str,
        form(
            "a number from 1 to 100000, or empty",
            r"^([1-9][0-9]{0,4}|100000)?$",
            description="At most so many; empty for all.",
        ),
    ] = ""


# --- Connections and accounts


class BankConnection(Answer):
    id: str
    provider_name: str
    provider_code: str
    country_code: str
    status: ConnectionStatus
    owner_user_id: str | None
    automatic_refresh: bool
    next_refresh_possible_at: Timestamp
    created_at: Timestamp
    updated_at: Timestamp
    display_name: str | None
    logo_url: str
    consent_expires_at: Timestamp
    error_class: str | None
    error_message: str | None


class ConnectionAnswer(Answer):
    data: BankConnection


class ConnectionsAnswer(Answer):
    data: list[BankConnection]


class Removed(Answer):
    connection_id: str
    removed: bool


class RemovedAnswer(Answer):
    data: Removed


class Connect(Body):
    """Starts a connect flow; everything is optional."""

    # Choice 23: the body of a connect flow.
    provider_code: (
        Annotated[str, Meta(min_length=1, max_length=100, description="The bank; otherwise the person chooses.")] | None
    ) = None
    email: (
        Annotated[
            str,
            Meta(min_length=3, max_length=254, description="The user whose bank access it is; by default the key's."),
        ]
        | None
    ) = None
    return_to: (
        Annotated[str, Meta(min_length=8, max_length=2000, description="Where the person goes afterwards.")] | None
    ) = None
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=3)] | None = None
    custom_fields: dict[str, Any] | None = None


class Reconnect(Body):
    return_to: Annotated[str, Meta(min_length=8, max_length=2000)] | None = None


class ConnectAnswer(Answer):
    """Not wrapped in `data`."""

    connect_url: str
    expires_at: Timestamp
    owner_user_id: str | None
    pending_token: str


class TransactionsCount(Answer):
    posted: int
    pending: int


class AccountExtra(Answer):
    iban: str | None
    holder_name: str | None
    transactions_count: TransactionsCount


class BankAccount(Answer):
    can_hide: bool
    id: str
    name: str
    nature: Nature
    balance: Decimal
    currency_code: str
    created_at: Timestamp
    updated_at: Timestamp
    extra: AccountExtra


class AccountAnswer(Answer):
    data: BankAccount


class AccountsAnswer(Answer):
    data: list[BankAccount]


# --- Transactions


class DescriptionParsed(Answer, gc=False):
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


class TransactionAnswer(Answer):
    data: Transaction


class TransactionsAnswer(Answer):
    data: list[Transaction]


class Change(Answer):
    """What became of a transaction since the cursor; several changes of one are told as one."""

    change: Literal["added", "modified", "removed"]
    id: str
    account_id: str
    # Null when it was removed.
    transaction: Transaction | None


class ChangesAnswer(Answer):
    data: list[Change]
    # For the next call; the same as before when nothing has changed.
    cursor: str
    has_more: bool


# --- Payments


class Address(Body, kw_only=True):
    street_name: Annotated[str, Meta(max_length=70)] | None = None
    building_number: Annotated[str, Meta(max_length=16)] | None = None
    post_code: Annotated[str, Meta(max_length=16)] | None = None
    town_name: Annotated[str, Meta(min_length=1, max_length=35)]


class NewPayment(Body, kw_only=True):
    # Choice 26: the body of a payment.
    account_id: NumericId
    amount: Decimal
    creditor_name: Annotated[str, Meta(min_length=1, max_length=200)]
    creditor_iban: Annotated[str, Meta(min_length=1, max_length=60)]
    description: Annotated[str, Meta(min_length=1, max_length=1000)]
    currency_code: Literal["EUR"] = "EUR"
    template_identifier: Template = "SEPA"
    reference: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    creditor_country_code: Annotated[str, form("two capital letters", r"^[A-Z]{2}$")] | None = None
    creditor_address: Address | Annotated[str, Meta(min_length=1, max_length=140)] | None = None
    creditor_agent: Annotated[str, form("a BIC", r"^[A-Z]{6}[A-Z0-9]{2}([A-Z0-9]{3})?$")] | None = None
    creditor_agent_name: Annotated[str, Meta(min_length=1, max_length=70)] | None = None
    date: Annotated[Day, Meta(description="Day of execution; as soon as possible when omitted.")] | None = None
    return_to: Annotated[str, Meta(min_length=8, max_length=2000)] | None = None
    custom_fields: dict[str, Any] | None = None
    customer_ip_address: Annotated[str, Meta(min_length=2, max_length=45)] | None = None


class Payment(Answer):
    id: str
    organization_id: str
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
    custom_fields: dict[str, Any] | UnsetType = UNSET


class CreatedPayment(Payment, kw_only=True):
    payment_id: str
    # Null while the bank has not answered, and when it refused at once.
    payment_url: str | None
    expires_at: Timestamp | None


class PaymentAnswer(Answer):
    data: Payment


class CreatedPaymentAnswer(Answer):
    data: CreatedPayment


class PaymentEvent(Answer):
    """What somebody reported on a payment, and what came of it."""

    at: Timestamp
    source: str
    status: PaymentStatus | None
    raw_provider_status: str | None
    error_class: str | None
    error_message: str | None
    outcome: Annotated[
        str, Meta(description="moved, noted, repeated, stale, contradicts, or not understood", examples=["moved"])
    ]


class PaymentHistoryAnswer(Answer):
    data: list[PaymentEvent]


class PaymentsAnswer(Answer):
    data: list[Payment]


class Received(Answer):
    """A provider's delivery was taken."""

    received: bool
