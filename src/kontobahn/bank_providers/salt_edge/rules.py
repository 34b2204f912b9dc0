"""Salt Edge's words translated: tables of states, errors and kinds; answers to the facts of the port; an order to a body. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args
from urllib.parse import urlencode

import msgspec

from kontobahn import log
from kontobahn.bank_providers.salt_edge.wire import (
    Account,
    BareTransaction,
    Connection,
    Consent,
    Meta,
    Page,
    Payment,
    Provider,
    Transaction,
    instant,
)
from kontobahn.banking.provider import (
    PERSON_NEEDED,
    AccountFacts,
    BankConnectionFacts,
    ListedBank,
    Mode,
    Nature,
    NotRead,
    PaymentOrder,
    PaymentReport,
    PaymentStatus,
    PersonNeeded,
    ProviderDown,
    ProviderRefused,
    Template,
    TransactionFacts,
)
from kontobahn.json_text import decode_foreign
from kontobahn.money import MAX_AMOUNT, amount_text
from kontobahn.sentences import said, shortened

if TYPE_CHECKING:
    pass


# The meaning of a class of error. `later`: this attempt only, so the same may be tried again; `ours`: this installation is set up
# wrongly or not allowed to; `access`: it says something about the access; `unknown`: nobody knows what became of it.
Meaning = Literal["later", "ours", "access", "unknown"]

PAYMENT_STATES: dict[str, PaymentStatus] = {
    "requested": "initiated",
    "initiated": "initiated",
    "initiated_info_required": "initiated_info_required",
    "authorizing": "authorizing",
    "authorized": "authorized",
    "executed": "executed",
    "settled": "settled",
    "failed": "failed",
}

_CLASSES: dict[Meaning, tuple[str, ...]] = {
    "later": (
        "BackgroundFetchLimitExceeded", "RateLimitExceeded", "TooManyRequests", "BatchSizeLimitExceeded", "ConnectionLimitReached",
        "ConnectionAlreadyProcessing", "ConnectionCannotBeRefreshed", "ConnectionFetchingStopped", "ConnectionFailed",
        "ConnectionLost", "FetchingTimeout", "ProviderUnavailable", "ProviderError", "InternalServerError",
    ),
    "ours": (
        "ApiKeyNotFound", "AppIdNotProvided", "SecretNotProvided", "ClientNotFound", "ClientPending", "ClientDisabled",
        "ClientRestricted", "MissingSignature", "MissingExpiresAt", "SignatureNotMatch", "ExpiresAtInvalid", "RequestExpired",
        "PublicKeyNotProvided", "ActionNotAllowed",
    ),
    "access": (
        "InvalidCredentials", "CredentialsNotMatch", "InvalidInteractiveCredentials", "InteractiveTimeout",
        "InteractiveAdapterTimeout", "ProviderAccessNotGranted", "AispConsentExpired", "AispConsentNotFound",
        "AispConsentRevoked", "AispConsentAlreadyRevoked", "ConnectionDisabled", "ProviderDisabled", "ProviderInactive",
    ),
    # A payment may have been made all the same.
    "unknown": ("PaymentStatusUnknown", "PaymentInitiationTimeout", "ExecutionTimeout"),
}  # fmt: skip
MEANINGS: dict[str, Meaning] = {name: meaning for meaning, names in _CLASSES.items() for name in names}

# Classes that have another name above the port.
_NAMES = {
    "CredentialsNotMatch": "InvalidCredentials",
    "InteractiveAdapterTimeout": "InteractiveTimeout",
    "AispConsentNotFound": "AispConsentExpired",
    "AispConsentAlreadyRevoked": "AispConsentRevoked",
    "InteractiveRequired": PERSON_NEEDED,
}


def class_of(theirs: str) -> str:
    return _NAMES.get(theirs, theirs)


# The operator's remedy for an error that is this installation's own.
REMEDIES = {
    "ApiKeyNotFound": "salt_edge_app_id or salt_edge_secret is wrong",
    "AppIdNotProvided": "salt_edge_app_id is missing",
    "SecretNotProvided": "salt_edge_secret is missing",
    "ClientNotFound": "salt_edge_app_id is unknown to Salt Edge",
    "ClientPending": "Salt Edge has not approved the account yet: only its test banks can be connected",
    "ClientDisabled": "Salt Edge has disabled the account",
    "ClientRestricted": "Salt Edge has restricted the account",
    "MissingSignature": "this account must sign: set salt_edge_private_key",
    "MissingExpiresAt": "this account must sign: set salt_edge_private_key",
    "SignatureNotMatch": "salt_edge_private_key is not the key whose public half is registered for this app",
    "PublicKeyNotProvided": "no public key is registered at Salt Edge for this app",
    "ExpiresAtInvalid": "this machine's clock is wrong",
    "RequestExpired": "this machine's clock is wrong",
    "ActionNotAllowed": "the contract with Salt Edge does not include this",
}

# The templates of payments, by the names that occur in lists of banks.
TEMPLATES: dict[str, Template] = {
    "SEPA": "SEPA",
    "SEPA_INSTANT": "SEPA_INSTANT",
    "SEPA_PAYMENT": "SEPA",
    "SEPA_INSTANT_PAYMENT": "SEPA_INSTANT",
}
NATURES: dict[str, Nature] = {name: name for name in get_args(Nature)}
MODES: dict[str | None, Mode] = {name: name for name in get_args(Mode)}

# The addresses that are set in Salt Edge's dashboard end with one of these: account information first, then payments.
CONNECTION_NEWS = ("success", "fail", "notify", "destroy")
PROVIDER_NEWS = "provider"
PAYMENT_NEWS = ("payment-success", "payment-fail", "payment-notify")


# --- Facts: what cannot be represented exactly is left out and logged, never rounded


# Codes of banks begin with it, so that no other provider's are the same.
PREFIX = "salt_edge_"
_NOTHING: dict[str, Any] = {}
_new: Any = tuple.__new__
_EXACT = Context(prec=40, traps=[Inexact, InvalidOperation, Overflow])
_MAX_CENTS = int(MAX_AMOUNT.scaleb(2))
_decode_page = msgspec.json.Decoder(Page[Transaction]).decode
_decode_rows = msgspec.json.Decoder(Page[msgspec.Raw]).decode
_decode_row = msgspec.json.Decoder(Transaction).decode
_decode_bare_row = msgspec.json.Decoder(BareTransaction).decode


class Bookings(NamedTuple):
    """A page of one of the lists that a connection's bookings are in."""

    facts: list[TransactionFacts]
    next_id: int | None
    last_id: int
    # Rows that could not be read; without an account, if not even that is legible.
    not_read: list[NotRead]


def code_at_salt_edge(code: str) -> str | None:
    return code.removeprefix(PREFIX) if code.startswith(PREFIX) else None


def templates_of(provider: Provider) -> tuple[Template, ...]:
    found = {TEMPLATES.get(name.upper()) for name in provider.payment_templates or ()}
    return tuple(name for name in ("SEPA", "SEPA_INSTANT") if name in found)


def listed_bank(provider: Provider) -> ListedBank:
    return ListedBank(
        PREFIX + provider.code, provider.name, provider.country_code,
        "openbanking" if provider.regulated is False else "partner",
        tuple(provider.bic_codes or ()), tuple(provider.identification_codes or ()), provider.logo_url or "",
        templates_of(provider), provider.max_consent_days,
    )  # fmt: skip


def connection_facts(
    connection: Connection, provider: Provider | None, consent: Consent | None, now: int
) -> BankConnectionFacts:
    return BankConnectionFacts(
        provider_ref=str(connection.id),
        provider_code=PREFIX + connection.provider_code,
        provider_name=connection.provider_name,
        country_code=connection.country_code,
        logo_url=(provider.logo_url if provider else None) or "",
        templates=templates_of(provider) if provider else (),
        consent_expires_at=instant(consent.expires_at) if consent else None,
        next_refresh_possible_at=instant(connection.next_refresh_possible_at) or now,
        # By our own schedule, which keeps to four times a day: Salt Edge is asked not to do it as well.
        automatic_refresh=True,
    )


def consent_of(connection: Connection, consents: Sequence[Consent]) -> Consent | None:
    """Returns the consent in force: the one the connection names, otherwise the one that lasts longest."""
    for consent in consents:
        if connection.last_consent_id is not None and str(consent.id) == str(connection.last_consent_id):
            return consent
    active = [consent for consent in consents if consent.status in (None, "active")]
    return max(active or consents, key=lambda consent: instant(consent.expires_at) or 0, default=None)


def check_works(connection: Connection, consent: Consent | None) -> None:
    """Raises ProviderRefused if the access has failed, ended or been switched off."""
    attempt = connection.last_attempt
    if connection.status == "disabled":
        raise ProviderRefused("ConnectionDisabled", "The connection is switched off at Salt Edge")
    if consent is not None and (consent.status == "revoked" or consent.revoked_at):
        raise ProviderRefused("AispConsentRevoked", "The consent was revoked")
    if consent is not None and consent.status == "expired":
        raise ProviderRefused("AispConsentExpired", "The consent has expired")
    if attempt is not None and attempt.fail_at and not attempt.success_at:
        failed = class_of(attempt.fail_error_class or "ProviderError")
        raise ProviderRefused(failed, (attempt.fail_message or failed).rstrip("."))
    if connection.status == "inactive":
        raise PersonNeeded("The connection is inactive at Salt Edge")


def account_facts(accounts: Sequence[Account]) -> list[AccountFacts]:
    """Returns the accounts. The balance is not known of those that have none in whole cents."""
    found = []
    for account in accounts:
        cents = None if account.balance is None else _cents(account.balance)
        if cents is None:
            log.warning("balance_not_told", provider="salt_edge", account=str(account.id))
        extra = account.extra
        iban = (extra.iban or "").replace(" ", "").upper() if extra else ""
        holder = (extra.holder_name or extra.client_name) if extra else None
        found.append(
            AccountFacts(
                str(account.id), account.name, NATURES.get(account.nature, "account"), cents, account.currency_code,
                iban or None, holder or None,
            )
        )  # fmt: skip
    return found


# Each booking is taken from one list only, by what it says of itself: some services repeat one list's rows in another.
BELONGS: dict[str, Callable[[Transaction], bool]] = {
    "posted": lambda row: row.status != "pending" and not row.duplicated,
    "pending": lambda row: row.status != "posted" and not row.duplicated,
    "duplicated": lambda row: row.duplicated is not False,
}


def bookings(content: bytes, name: str, after: int) -> Bookings:
    """Reads a page of a list, without what came on earlier pages: up to the id `after`, because ids only rise.

    Raises ProviderDown if they do not, and msgspec errors if it is no page at all.
    """
    not_read: list[NotRead] = []
    try:
        page = _decode_page(content)
        rows, meta = page.data, page.meta
    except msgspec.ValidationError:
        rows, meta = _read_singly(content, not_read)
    facts = []
    belongs, last = BELONGS[name], after
    is_pending, is_duplicate = name == "pending", name == "duplicated"
    for row in rows:
        number = int(row.id)
        if number <= last:
            if after < number < last:
                raise ProviderDown("Salt Edge's list of transactions is not in the order of ids.")
            continue
        last = number
        if not belongs(row):
            continue
        cents = _cents(row.amount)
        if cents is None:
            log.warning("salt_edge_booking_left_out", booking=number, reason="its amount has no whole cents")
            not_read.append(_laid_aside(row))
            continue
        facts.append(_transaction_facts(row, cents, is_pending, is_duplicate))
    return Bookings(facts, None if meta is None or meta.next_id is None else int(meta.next_id), last, not_read)


def _laid_aside(row: Transaction) -> NotRead:
    sentence = said(
        "A transaction was laid aside, because {why}: {day}, {text} {currency}, {description}.",
        why="its amount is not in whole cents",
        day=row.made_on,
        text=str(row.amount)[:40],
        currency=row.currency_code[:3],
        description=shortened(row.description or "–", 80),
    )
    return NotRead(str(row.account_id), sentence)


def _transaction_facts(row: Transaction, cents: int, is_pending: bool, is_duplicate: bool) -> TransactionFacts:
    extra = row.extra
    # By position and past the constructor, because it runs for every booking: in the order of the fields of TransactionFacts.
    facts: TransactionFacts = _new(
        TransactionFacts,
        (
            str(row.account_id), row.made_on, cents, row.currency_code, row.description or "",
            "pending" if is_pending or row.status == "pending" else "posted", str(row.id), MODES.get(row.mode, "normal"),
            row.category or "uncategorized", extra.end_to_end_id if extra is not None else None, _NOTHING,
            extra if extra is not None else _NOTHING, None, None, is_duplicate, None,
        ),
    )  # fmt: skip
    return facts


def _read_singly(content: bytes, not_read: list[NotRead]) -> tuple[list[Transaction], Meta | None]:
    """Reads a page in which something is unexpected: each row by itself; one that cannot be read is left out and reported."""
    page = _decode_rows(content)
    rows: list[Transaction] = []
    for raw in page.data:
        reason = ""
        for decode in (_decode_row, _decode_bare_row):
            try:
                rows.append(decode(raw))
                break
            except msgspec.ValidationError as error:
                reason = str(error)
        else:
            log.warning("salt_edge_booking_left_out", reason=reason)
            text = shortened(bytes(raw).decode(errors="replace"), 600)
            sentence = said(
                "A transaction was laid aside, because it cannot be read: {reason}; {text}.", reason=reason, text=text
            )
            not_read.append(NotRead(_account_of(raw), sentence))
    return rows, page.meta


def _account_of(raw: msgspec.Raw) -> str:
    """Returns the account of a row that cannot be read, if that can."""
    try:
        return str(decode_foreign(bytes(raw), dict[str, Any]).get("account_id", ""))
    except msgspec.MsgspecError:
        return ""


def _cents(value: Decimal) -> int | None:
    """Returns an amount in whole cents; None if it has none, or more digits than money has. Never rounded."""
    try:
        scaled = value.scaleb(2, _EXACT)
        cents = int(scaled)
    except (ArithmeticError, ValueError):
        return None
    return cents if cents == scaled and -_MAX_CENTS <= cents <= _MAX_CENTS else None


# --- Payments


# Sent along by us when a flow or a payment begins, and returned with its news.
TOKEN_FIELD, ORDER_FIELD = "pending_token", "end_to_end_id"


def payment_report(payment: Payment) -> PaymentReport:
    """Returns what a payment's state means. A state that we do not know, or whose outcome nobody knows, is neither success nor failure."""
    attempt = payment.last_attempt
    error_class = payment.error_class or payment.fail_error_class or (attempt.fail_error_class if attempt else None)
    message = payment.error_message or payment.fail_message or (attempt.fail_message if attempt else None)
    raw = payment.raw_provider_status or payment.status
    status = PAYMENT_STATES.get(payment.status or "")
    if status == "failed" and MEANINGS.get(error_class or "") == "unknown":
        status = None
    if status is None or status == "failed":
        return PaymentReport(status, raw, error_class, message)
    return PaymentReport(status, raw)


def payment_body(order: PaymentOrder, customer: str, provider_code: str) -> dict[str, Any]:
    details = order.details
    attributes = {
        "end_to_end_id": order.end_to_end_id,
        "customer_ip_address": order.customer_ip_address,
        "creditor_name": order.creditor_name,
        "creditor_country_code": details.get("creditor_country_code") or order.creditor_iban[:2],
        "creditor_iban": order.creditor_iban,
        "amount": amount_text(order.amount_minor),
        "currency_code": order.currency_code,
        "description": order.description,
        "reference": order.reference,
        "debtor_iban": order.debtor_iban or None,
        "debtor_name": order.debtor_name or None,
        "date": details.get("date"),
        **_address(details.get("creditor_address")),
    }
    attempt: dict[str, Any] = {"custom_fields": {ORDER_FIELD: order.end_to_end_id}}
    if order.callback_url:
        # Our page, which leads on to the application, or says that the payer is done.
        attempt["return_to"] = f"{order.callback_url}?{urlencode({'state': order.state})}"
    return {
        "customer_id": customer,
        "provider": {"code": provider_code},
        "template_identifier": order.template_identifier,
        "payment_attributes": {name: value for name, value in attributes.items() if value is not None},
        "attempt": attempt,
    }


# Our parts of an address, as Salt Edge calls them. Since November 2026 banks take no other form across borders.
_ADDRESS = {
    "street_name": "creditor_street_name",
    "building_number": "creditor_building_number",
    "post_code": "creditor_post_code",
    "town_name": "creditor_town",
}


def _address(given: Any) -> dict[str, str | None]:
    """Returns the payee's address in its parts, or as one text if it was given as one."""
    if not isinstance(given, dict):
        return {"creditor_address": given or None}
    return {theirs: given.get(ours) or None for ours, theirs in _ADDRESS.items()}
