"""The port: what anything that reaches banks must offer, and the words both sides use.

A provider translates; it does not charge, serve or emit. What happens at the bank comes back as reports: from its webhooks,
from polling it, or from a file. A report is a claim about the bank's state, and may arrive late, twice or out of order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from kontobahn.banking.interaction import Given, Interaction, Language
from kontobahn.errors import SetupError, Unavailable
from kontobahn.sentences import said

Api = Literal["partner", "openbanking"]
Holder = Literal["personal", "business"]
RefreshType = Literal["automatic", "manual"]
Template = Literal["SEPA", "SEPA_INSTANT"]
# Choice 21: the natures, modes and statuses that occur.
Nature = Literal[
    "account", "bonus", "card", "checking", "credit", "credit_card", "debit_card", "ewallet", "insurance", "investment",
    "loan", "mortgage", "savings",
]  # fmt: skip
Mode = Literal["normal", "fee", "transfer"]
TransactionStatus = Literal["posted", "pending"]
PaymentStatus = Literal[
    "initiated", "initiated_info_required", "authorizing", "authorized", "processing", "executed", "settled", "failed", "rejected"
]  # fmt: skip
# Choice 46: how a check of the payee ended; `not_asked` if nobody has reported one.
PayeeResult = Literal["match", "close_match", "no_match", "not_possible", "pending", "not_asked"]
# The provider of accounts that are kept by statement files; statement imports write its connections.
FILES = "files"
# The provider whose banks do not exist: no money moves there.
SANDBOX = "sandbox"
# The error class of a payment that was cancelled, by the payer or by a call.
CANCELLED = "Cancelled"
# The error classes of an access that only its person can use again: the bank wants a confirmation, or has locked it. No machine
# tries again, because each attempt may make it worse.
PERSON_NEEDED, LOCKED = "InteractionRequired", "LockedAtBank"
# The class with which a provider refuses a flow that names no bank: the person then chooses one on our page.
BANK_NEEDED = "BankNeeded"
# Transactions from this long before the last fetch are asked for again: banks book late and back-date.
OVERLAP = timedelta(days=14)
# Said by a provider that cannot look for a payment, about one whose creation had no answer: then only the statement shows it.
CANNOT_BE_KNOWN: Literal["cannot be known"] = "cannot be known"


class ProviderDown(Unavailable):
    """The provider did not answer, or not intelligibly. It is unknown whether it did what was asked."""


class ProviderRefused(Exception):
    """The provider refused: what was asked was not done."""

    def __init__(self, error_class: str, message: str, raw_status: str | None = None) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.raw_status = raw_status


class PersonNeeded(ProviderRefused):
    """The bank wants the person before it does anything. `url` is where, if the provider names a page; otherwise by reconnecting."""

    def __init__(self, message: str, url: str | None = None) -> None:
        super().__init__(PERSON_NEEDED, message)
        self.url = url


class BadSignature(Exception):
    """A delivery that the provider did not sign."""


# --- Connecting


class ListedBank(NamedTuple):
    """A bank to choose from. Its code is unique over all providers: a new provider begins its codes with its name."""

    code: str
    name: str
    country_code: str
    api: Api
    bics: tuple[str, ...] = ()
    # National bank codes: Bankleitzahlen.
    bank_codes: tuple[str, ...] = ()
    logo_url: str = ""
    templates: tuple[Template, ...] = ()
    # The days that a consent lasts at most; None if that is not known.
    consent_days: int | None = None


class ConnectRequest(NamedTuple):
    """Our side of a connect flow. The report of how the flow ended carries the token."""

    pending_token: str
    api: Api
    provider_code: str | None
    scopes: tuple[str, ...]
    return_to: str | None
    # For a reconnect: the provider's id of the connection.
    provider_ref: str | None = None
    # The person who connects: whose customer it is at an aggregator, the kind of access, and the person's language, address and browser.
    organization_id: str = ""
    holder: Holder = "business"
    language: Language | None = None
    ip_address: str = ""
    user_agent: str = ""
    # The address to which a page of the bank or the provider sends the person back to, with the pending token as `state`.
    callback_url: str = ""


class PersonHere(NamedTuple):
    """Somebody who waits for what the bank says. Banks count readings that nobody waits for, and want to know who does."""

    ip_address: str
    user_agent: str


class ConnectStart(NamedTuple):
    """The beginning of a flow: at a page of the provider, or with a step on our own pages."""

    connect_url: str | None
    expires_at: int
    # The bank, if the request names it and the provider knows it already.
    provider_name: str = ""
    country_code: str = ""
    logo_url: str = ""
    interaction: Interaction | None = None


class BankConnectionFacts(NamedTuple):
    """A connection as the provider knows it."""

    provider_ref: str
    provider_code: str
    provider_name: str
    country_code: str
    logo_url: str
    templates: tuple[Template, ...]
    # None if the provider does not say.
    consent_expires_at: int | None
    next_refresh_possible_at: int
    automatic_refresh: bool
    display_name: str | None = None


class AccountFacts(NamedTuple):
    provider_ref: str
    name: str
    nature: Nature
    # None if the bank does not report it, or not in whole cents: never a guess.
    balance_minor: int | None
    currency_code: str
    iban: str | None
    holder_name: str | None
    # Something of the account that stays the same where `provider_ref` changes from session to session.
    identity: str | None = None
    # The day of the balance; None for today.
    balance_on: date | None = None


class TransactionFacts(NamedTuple):
    """A booking as the bank reports it. What is unknown is None; nothing is made up."""

    account_ref: str
    made_on: date
    amount_minor: int
    currency_code: str
    description: str
    status: TransactionStatus = "posted"
    # The bank's own id, if it has one.
    provider_ref: str | None = None
    mode: Mode = "normal"
    category: str = "uncategorized"
    end_to_end_id: str | None = None
    # Fields that the bank sent separately; they take precedence over those parsed from the description.
    parsed: Mapping[str, str | None] = {}
    extra: Mapping[str, Any] = {}
    # The booked statement that contains it, and the account's balance after it there.
    statement: str | None = None
    balance_minor: int | None = None
    # True if the provider takes it for a duplicate; None if it does not say.
    duplicated: bool | None = None
    # The parts of a batch, which others report as one sum, have the same name for it here, and follow on each other.
    batch: str | None = None


class NotRead(NamedTuple):
    """Something of an account that the bank does not hand out, or that cannot be read: it is reported, and nothing is guessed.

    `is_lost`: it may be readable next time, so that what is missing now is asked for again, and what is not here is not gone.
    """

    account_ref: str
    sentence: str
    is_lost: bool = True


class Snapshot(NamedTuple):
    """A connection as the bank reports it now: accounts, and the transactions of a recent period."""

    connection: BankConnectionFacts
    accounts: list[AccountFacts]
    # Of one page; a long history is gathered on disk (`reports/intake.py`), so read it more than once rather than copy it.
    transactions: Collection[TransactionFacts]
    # Something may be missing, so what is not here is not gone.
    is_partial: bool = False
    # The page on which the transactions continue, as `fetch` takes it.
    next_page: str | None = None
    # The day from which transactions were asked for; None for as far back as the bank allows. Set above the port.
    since: date | None = None
    # Of the accounts on this page, even if it came on another.
    not_read: Sequence[NotRead] = ()


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
    created_at: int
    # The address to which a page of the provider sends the payer back, and what it says there as `state`.
    callback_url: str = ""
    state: str = ""


class OrderFile(NamedTuple):
    content: bytes
    # The instruction that each order stands in, by end-to-end id: banks report on files, instructions and single orders.
    instruction_ids: Mapping[str, str]
    # The first day on which the bank is to carry out one of them. Banks refuse a file when it has passed.
    first_day: date
    # The fields of orders, by end-to-end id, that the file does not carry.
    left_out: Mapping[str, Sequence[str]] = {}
    message_id: str = ""


class PayeeFinding(NamedTuple):
    """A bank's word on the payee before the payer authorises: whether the name is that of the account's holder."""

    result: PayeeResult
    # As the bank was given it; None if it does not repeat it.
    submitted_name: str | None = None
    # The holder's name, which banks tell for a close match.
    returned_name: str | None = None


class PaymentReport(NamedTuple):
    """A claim about a payment. `status` is None if the provider said something that we cannot interpret."""

    status: PaymentStatus | None
    raw_status: str | None = None
    error_class: str | None = None
    error_message: str | None = None
    # True if the provider says that no other status follows: then it is not asked again.
    is_last: bool = False
    payee: PayeeFinding | None = None


class PaymentStart(NamedTuple):
    provider_ref: str
    # The provider's page for the payer; None if orders are files, which have a page of ours.
    payment_url: str | None
    expires_at: int | None
    report: PaymentReport


# sending: under way, or cut off while it was; unknown: whether the bank has it, nobody here knows yet; waiting: for people's signatures at
# the bank; accepted and refused: the bank's last word; missing: the bank never had it.
SubmissionState = Literal["sending", "unknown", "waiting", "accepted", "refused", "missing"]


class Submission(NamedTuple):
    """An order file that was sent to the bank, where it waits for people to sign it."""

    state: SubmissionState
    # The bank's number of the order.
    order_id: str
    said: str = ""
    # The answer was lost so long ago that a person may say what the bank shows.
    may_be_decided: bool = False


@runtime_checkable
class OrderLine(Protocol):
    """A provider that also sends order files to the bank. None of them is carried out before people have signed it there."""

    async def submit(
        self, organization_id: str, connection_ref: str, file: OrderFile, template: Template
    ) -> Submission:
        """Raises ProviderRefused if the bank certainly does not have it. `unknown` is an answer, and nothing is sent twice."""

    async def submission(self, organization_id: str, message_id: str) -> Submission | None:
        """Returns what is known of a file; None if nothing was ever sent."""

    async def decide(self, organization_id: str, message_id: str, note: Callable[[Any], None], *, has_it: bool) -> None:
        """Takes a person's word for whether the bank has a file whose answer was lost, with a note in the same transaction.

        Raises ProviderRefused if it is known where the file is, or the bank may still tell.
        """


# --- Reports


class Delivery(NamedTuple):
    """A message that a provider sent to our webhook address."""

    # The address as it is configured at the provider, which signs it; behind a proxy the request has another.
    url: str
    # The last part of its path, if providers have several: what kind of news it is.
    kind: str
    headers: Mapping[str, str]
    body: bytes


class ConnectionFinished(NamedTuple):
    """A connect, reconnect or refresh succeeded: there is something to fetch."""

    provider_ref: str
    pending_token: str | None = None
    # The data itself, if the provider has fetched it already.
    snapshot: Snapshot | None = None


class ConnectionFailed(NamedTuple):
    error_class: str
    error_message: str
    provider_ref: str | None = None
    pending_token: str | None = None
    # False if a success may have overtaken it: then the connection is fetched, and only what that says counts.
    is_certain: bool = True


class ConnectionGone(NamedTuple):
    provider_ref: str


class PaymentReported(NamedTuple):
    provider_ref: str
    report: PaymentReport


Report = ConnectionFinished | ConnectionFailed | ConnectionGone | PaymentReported


class BankProvider(Protocol):
    name: str
    # True if a booked debit alone settles a payment, even if the bank has reported nothing else about it.
    debit_settles: bool
    # True if the payer uploads orders at the bank as files, instead of authorising them on a page of the provider.
    orders_are_files: bool

    async def close(self) -> None:
        """Closes connections and threads; nothing is asked afterwards."""

    async def banks(self) -> Sequence[ListedBank]:
        """Returns the banks that can be connected. Called often: what comes from the network is kept for a while."""

    async def start_connect(self, request: ConnectRequest) -> ConnectStart:
        """Returns where the person begins. Raises ProviderRefused, for an unknown bank with the class ProviderNotFound.

        A provider without a page to choose a bank on refuses a request that names none with the class `BANK_NEEDED`.
        """

    async def proceed(self, state: bytes, given: Given) -> Interaction | Sequence[Report]:
        """Goes on from a step with what the person entered: to the next step, or to how the flow ended.

        Without anything entered it is a poll for a confirmation elsewhere. Raises ProviderRefused if the flow has failed, and
        ProviderDown only if the same step may be tried again.
        """

    async def abandon(self, state: bytes) -> None:
        """Ends what is still open at the bank, because the person has given up."""

    async def fetch(
        self, provider_ref: str, since: date | None = None, page: str | None = None, person: PersonHere | None = None
    ) -> Snapshot:
        """Returns what the bank reports now: transactions from a day on and everything pending, or as far back as it goes.

        A page is one that the answer before named as `next_page`. Its accounts are the same again, or none. Without `person` nobody
        waits for it: then nothing may say to the bank that somebody does.
        """

    async def refresh(
        self, provider_ref: str, kind: RefreshType, since: date | None = None, person: PersonHere | None = None
    ) -> Sequence[Report]:
        """Asks the bank for new data. Returns what it reports; nothing if a delivery will report when the data is there.

        Raises PersonNeeded if the bank wants the person, which an automatic refresh never tries to get around.
        """

    async def remove(self, provider_ref: str) -> None:
        """Ends the access. Succeeds if it had already ended."""

    async def create_payment(self, order: PaymentOrder) -> PaymentStart:
        """Raises ProviderRefused if it was certainly not created, ProviderDown if that is unknown."""

    async def find_payment(self, order: PaymentOrder) -> PaymentStart | Literal["cannot be known"] | None:
        """After a creation without an answer: returns the payment with our end-to-end id, None if there certainly is none.

        A provider that cannot look for payments returns `CANNOT_BE_KNOWN`.
        """

    async def payment_status(self, provider_ref: str) -> PaymentReport:
        """Asks the bank now."""

    async def cancel_payment(self, provider_ref: str) -> PaymentReport:
        """Cancels a payment and reports that, with the error class `CANCELLED`. Raises ProviderRefused if it is too late."""

    def order_file(
        self, message_id: str, created_at: int, orders: Sequence[PaymentOrder], issued_at: int | None = None
    ) -> OrderFile:
        """Returns orders from one account as a file to upload. Raises ProviderRefused unless `orders_are_files`.

        Issued again, it asks for no day before the new issue; message, instructions and orders keep their ids.
        """

    async def returned(self, fields: Mapping[str, str]) -> Sequence[Report]:
        """Returns what it means that a person came back from a page of the bank, with these fields in the address.

        `state` is the pending token of a flow that is known. A flow that failed is reported as such, not raised.
        """

    def read_webhook(self, delivery: Delivery) -> str:
        """Checks the signature over the raw body and returns the delivery's id. Raises BadSignature if it is wrong."""

    def reports(self, kind: str, body: bytes) -> list[Report]:
        """Returns what a stored delivery reports."""


class Banking(NamedTuple):
    """The banking area's part of the application."""

    providers: dict[str, BankProvider]
    # The providers of bank connections. A flow without a bank goes to the first one.
    connect_providers: tuple[str, ...]
    # Tasks that go on after their call was answered.
    running: set[asyncio.Task[Any]]
    # Called with a transaction and a principal: the cents that other areas have ordered for it today, which its limits count.
    ordered_elsewhere: tuple[Callable[[Any, Any], int], ...] = ()

    def provider(self, name: str) -> BankProvider:
        found = self.providers.get(name)
        if found is None:
            raise SetupError(said("The banking provider “{name}” is not set up in this installation.", name=name))
        return found

    async def finish(self, seconds: float) -> None:
        """Waits for what is still going on, gives up on what takes longer (its claim expires), and closes all providers."""
        if self.running:
            _, late = await asyncio.wait(self.running, timeout=seconds)
            for task in late:
                task.cancel()
        for provider in self.providers.values():
            await provider.close()
