"""The port: what reaches banks must offer. The sandbox bank and statement files are adapters of it; an aggregator is another.

A provider translates; it does not charge, serve or emit. What happens at the bank comes back as reports: from its webhooks,
from asking it, or from a file. A report is a claim about the bank's state, and may come late, twice or in the wrong order.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Literal, NamedTuple, Protocol

from kontobahn.banking.model import Api, Mode, Nature, PaymentStatus, Template, TransactionStatus
from kontobahn.errors import Unavailable

RefreshType = Literal["automatic", "manual"]
# The provider of accounts that are kept by statement files: what imports write belongs to it.
FILES = "files"


class ProviderDown(Unavailable):
    """The provider did not answer, or nothing that makes sense. Whether it did what was asked is not known."""


class ProviderRefused(Exception):
    """The provider answered, and the answer is no: what was asked was not done."""

    def __init__(self, error_class: str, message: str, raw_status: str | None = None) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.raw_status = raw_status


class BadSignature(Exception):
    """A delivery that the provider did not sign."""


# --- Connecting


class ConnectRequest(NamedTuple):
    """Our side of a connect flow. The token comes back in the report of its end."""

    pending_token: str
    api: Api
    provider_code: str | None
    scopes: tuple[str, ...]
    return_to: str | None
    # Of a reconnect: which connection of the provider's.
    provider_ref: str | None = None


class ConnectStart(NamedTuple):
    connect_url: str
    expires_at: int


class BankConnectionFacts(NamedTuple):
    """A connection as the provider knows it."""

    provider_ref: str
    provider_code: str
    provider_name: str
    country_code: str
    logo_url: str
    templates: tuple[Template, ...]
    consent_expires_at: int
    next_refresh_possible_at: int
    automatic_refresh: bool
    display_name: str | None = None


class AccountFacts(NamedTuple):
    provider_ref: str
    name: str
    nature: Nature
    balance_minor: int
    currency_code: str
    iban: str | None
    holder_name: str | None


class TransactionFacts(NamedTuple):
    """A booking as the bank tells it. What is not known is None; nothing is made up."""

    account_ref: str
    made_on: date
    amount_minor: int
    currency_code: str
    description: str
    status: TransactionStatus = "posted"
    # The bank's own id, where it has one.
    provider_ref: str | None = None
    mode: Mode = "normal"
    category: str = "uncategorized"
    end_to_end_id: str | None = None
    # Fields that the bank sent apart from the text; they win over what the text says.
    parsed: Mapping[str, str | None] = {}
    extra: Mapping[str, Any] = {}
    # The booked statement it stands in.
    statement: str | None = None


class Snapshot(NamedTuple):
    """What the bank tells of a connection now: accounts, and the transactions of some recent stretch."""

    connection: BankConnectionFacts
    accounts: list[AccountFacts]
    transactions: list[TransactionFacts]


# --- Paying


class PaymentOrder(NamedTuple):
    end_to_end_id: str
    connection_ref: str
    account_ref: str
    template_identifier: Template
    amount_minor: int
    currency_code: str
    creditor_name: str
    creditor_iban: str
    debtor_name: str
    debtor_iban: str
    description: str
    reference: str | None
    # creditor_country_code, creditor_address, creditor_agent, creditor_agent_name, date
    details: Mapping[str, Any]
    return_to: str | None
    customer_ip_address: str
    # Where the service itself would show the payer something for this payment.
    own_url: str


class PaymentReport(NamedTuple):
    """What somebody says of a payment. `status` None: said something, but nothing that we know how to read."""

    status: PaymentStatus | None
    raw_status: str | None = None
    error_class: str | None = None
    error_message: str | None = None


class PaymentStart(NamedTuple):
    provider_ref: str
    payment_url: str | None
    expires_at: int | None
    report: PaymentReport


# --- Reports by webhook


class ConnectionFinished(NamedTuple):
    """A connect, reconnect or refresh went well: there is something to fetch."""

    provider_ref: str
    pending_token: str | None = None


class ConnectionFailed(NamedTuple):
    error_class: str
    error_message: str
    provider_ref: str | None = None
    pending_token: str | None = None


class ConnectionGone(NamedTuple):
    provider_ref: str


class PaymentReported(NamedTuple):
    provider_ref: str
    report: PaymentReport


Report = ConnectionFinished | ConnectionFailed | ConnectionGone | PaymentReported


class BankProvider(Protocol):
    name: str
    # Whether a booked debit alone settles a payment, also one that the bank has said nothing else of.
    debit_settles: bool

    async def start_connect(self, request: ConnectRequest) -> ConnectStart: ...

    async def fetch(self, provider_ref: str) -> Snapshot:
        """What the bank tells now."""

    async def refresh(self, provider_ref: str, kind: RefreshType) -> None:
        """Ask the bank for news; a webhook says when they are there."""

    async def remove(self, provider_ref: str) -> None:
        """End the access. Done also when it had ended before."""

    async def create_payment(self, order: PaymentOrder) -> PaymentStart:
        """ProviderRefused where it was certainly not created; ProviderDown where that is not known."""

    async def find_payment(self, order: PaymentOrder) -> PaymentStart | None:
        """After a creation without an answer: the payment with our end-to-end id, None where there certainly is none."""

    async def payment_status(self, provider_ref: str) -> PaymentReport:
        """Asked at the bank now."""

    def order_file(self, order: PaymentOrder, created_at: int) -> bytes | None:
        """The order as a file for the payer to hand to the bank; None where the payer authorises at a page instead."""

    def read_webhook(self, headers: Mapping[str, str], body: bytes) -> str:
        """Check the signature over the raw body; the answer is the delivery's id. BadSignature otherwise."""

    def reports(self, body: bytes) -> list[Report]:
        """What a stored delivery says."""


class Banking(NamedTuple):
    """The banking area's part of the application."""

    providers: dict[str, BankProvider]
    # Which provider a connect flow goes to.
    connect_provider: str
