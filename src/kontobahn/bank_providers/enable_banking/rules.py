"""Enable Banking's words translated: errors and states as tables, banks, accounts, transactions, orders. Pure."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from datetime import date
from ipaddress import ip_address
from typing import Any

import msgspec

from kontobahn import log
from kontobahn.bank_providers.enable_banking.wire import (
    Account,
    AccountId,
    Amount,
    Balance,
    Bank,
    Named,
    PaymentKind,
    RawTransactions,
    Reason,
    Refusal,
    RemittanceLine,
    Transaction,
    Transactions,
)
from kontobahn.banking.provider import (
    CANCELLED,
    PERSON_NEEDED,
    AccountFacts,
    Holder,
    ListedBank,
    Mode,
    Nature,
    PaymentOrder,
    PaymentReport,
    PaymentStatus,
    PersonHere,
    PersonNeeded,
    ProviderDown,
    ProviderRefused,
    Template,
    TransactionFacts,
    TransactionStatus,
)
from kontobahn.clock import DAY, SECOND
from kontobahn.errors import BadRequest
from kontobahn.formats.pain.sepa import Remittance, place_reference
from kontobahn.formats.statements.purpose import join_lines
from kontobahn.json_text import decode_foreign
from kontobahn.money import amount_text, from_minor
from kontobahn.sentences import said, shortened, without_stop

RATE_LIMIT = "ASPSP_RATE_LIMIT_EXCEEDED"
# Something the operator has to put right: it says nothing about anybody's access, so connections stay as they are.
_OURS = frozenset({
    "ACCESS_DENIED", "AUTHORIZATION_NOT_PROVIDED", "INVALID_HOST", "NO_ACCOUNTS_ADDED", "REDIRECT_URI_NOT_ALLOWED",
    "UNAUTHORIZED_ACCESS", "UNAUTHORIZED_IP", "WEBHOOK_URI_NOT_ALLOWED",
})  # fmt: skip
# Later the same may succeed. A continuation key that is refused was good a moment ago: then the list is read from its beginning.
_LATER = frozenset({"ASPSP_ERROR", "ASPSP_TIMEOUT", RATE_LIMIT, "WRONG_CONTINUATION_KEY"})
# Anything that is in none of the tables is an error of this one attempt.
_CLASSES = {
    "EXPIRED_SESSION": "AispConsentExpired",
    "REVOKED_SESSION": "AispConsentRevoked",
    "CLOSED_SESSION": PERSON_NEEDED,
    "SESSION_DOES_NOT_EXIST": PERSON_NEEDED,
    "WRONG_SESSION_STATUS": PERSON_NEEDED,
    "ASPSP_PSU_ACTION_REQUIRED": PERSON_NEEDED,
    "WRONG_CREDENTIALS_PROVIDED": "InvalidCredentials",
    "EXPIRED_AUTHORIZATION_CODE": "InteractiveTimeout",
    "WRONG_ASPSP_PROVIDED": "ProviderNotFound",
    "PAYMENT_NOT_FOUND": "PaymentNotFound",
    "PAYMENT_LIMIT_EXCEEDED": "PaymentLimitReached",
    "INVALID_PAYMENT": "InvalidPaymentAttributes",
    "UNTRUSTED_PAYMENT_PARTY": "InvalidPaymentAttributes",
}
# Sessions that give no access any more: to end one again is no failure.
ENDED = frozenset({"CLOSED_SESSION", "EXPIRED_SESSION", "REVOKED_SESSION", "SESSION_DOES_NOT_EXIST"})
_SESSIONS = {
    "EXPIRED": "AispConsentExpired",
    "REVOKED": "AispConsentRevoked",
    "CLOSED": PERSON_NEEDED,
    "CANCELLED": PERSON_NEEDED,
    "INVALID": PERSON_NEEDED,
}
AUTHORIZED = "AUTHORIZED"
# Said by the person's return instead of a code.
_RETURNS = {"access_denied": CANCELLED, "expired": "InteractiveTimeout"}

# None: neither success nor failure. RCVD and PDNG are what a payment has before its payer has seen it, and keeps at some banks.
PAYMENTS: dict[str, PaymentStatus | None] = {
    "RCVD": None,
    "PDNG": None,
    "NULL": None,
    "PART": None,
    "PATC": "authorizing",
    "ACTC": "authorized",
    "ACCP": "authorized",
    "ACFC": "authorized",
    "ACWC": "authorized",
    "ACPT": "authorized",
    "ACSP": "processing",
    "ACWP": "executed",
    "ACSC": "executed",
    "ACCC": "settled",
    "RJCT": "rejected",
    "CNCL": "failed",
    "CANC": "failed",
    "ACCR": "failed",
    # The outcome of a request to cancel, while the payment goes on.
    "RJCR": None,
    "PACR": None,
    "PDCR": None,
}
_CANCELLED = frozenset({"CNCL", "CANC", "ACCR"})
# A transaction that is only planned, or that never happened, is none. One of an unknown kind is not booked.
TRANSACTIONS: dict[str, TransactionStatus | None] = {
    "BOOK": "posted",
    "PDNG": "pending",
    "HOLD": "pending",
    "OTHR": "pending",
    "INFO": None,
    "SCHD": None,
    "CNCL": None,
    "RJCT": None,
}
NATURES: dict[str, Nature] = {
    "CACC": "checking",
    "CARD": "card",
    "LOAN": "loan",
    "SVGS": "savings",
}
# The balance that is the account's, best first: booked before available, of today before of yesterday evening.
BALANCES = ("ITBD", "CLBD", "XPCD", "ITAV", "CLAV", "VALU", "PRCD", "OPBD", "OPAV", "FWAV", "OTHR", "INFO")


def failure(status: int, refusal: Refusal) -> ProviderRefused | ProviderDown:
    """Returns what to raise for an answer with this status."""
    code = refusal.error or ""
    words = _said(refusal) or f"HTTP status {status}"
    if code in _OURS or (status == 401 and code not in _CLASSES):
        return ProviderDown(
            said("Enable Banking refuses this installation: {why}.", why=words),
            operator=f"enable_banking: {status} {words}",
        )
    if code in _LATER or (code not in _CLASSES and (status in (408, 425, 429) or status >= 500)):
        return ProviderDown(said("Enable Banking, or the bank behind it, cannot answer now: {why}.", why=words))
    if _CLASSES.get(code) == PERSON_NEEDED:
        return PersonNeeded(words)
    return ProviderRefused(_CLASSES.get(code, "ProviderError"), words, code or None)


def not_created(refusal: Refusal, status: int) -> ProviderRefused:
    """Returns what to raise if a payment was refused: nobody has an address to authorise it at."""
    code = refusal.error or ""
    return ProviderRefused(_CLASSES.get(code, "PaymentFailed"), _said(refusal) or f"HTTP status {status}", code or None)


def session_failure(status: str) -> ProviderRefused | ProviderDown:
    """Returns what to raise for a session that is not authorised."""
    error_class = _SESSIONS.get(status)
    if error_class is None:
        return ProviderDown(said("The session at Enable Banking is {state}.", state=status[:40]))
    words = said("The session at Enable Banking is {state}", state=status)
    return PersonNeeded(words) if error_class == PERSON_NEEDED else ProviderRefused(error_class, words, status)


def return_failure(error: str, description: str) -> tuple[str, str]:
    """Class and words of a return without a code."""
    words = " ".join(filter(None, (error, description)))[:300].rstrip(". ")
    return _RETURNS.get(error.lower(), "ProviderError"), words or "The bank did not say why"


def payment_report(status: str, reason: Reason | None, *, is_last: bool = False) -> PaymentReport:
    """A status that is not in the table is neither success nor failure. `is_last`: no other follows."""
    code = status.upper()[:20]
    found = PAYMENTS.get(code)
    if found not in ("failed", "rejected"):
        return PaymentReport(found, code, is_last=is_last)
    error_class = CANCELLED if code in _CANCELLED else (reason.status_reason_code if reason else "") or "PaymentFailed"
    message = (reason.status_reason_description if reason else "") or said("The bank reports {code}", code=code)
    return PaymentReport(found, code, error_class[:100], shortened(message, 500), is_last)


def _said(refusal: Refusal) -> str:
    """Their words, without a stop at the end. Not `detail`, which may repeat what was sent."""
    text = refusal.message.strip().rstrip(".")[:300]
    return f"{text} ({refusal.error[:60]})" if refusal.error and text else text or (refusal.error or "")[:60]


# --- Banks: named by codes made from their name and country

PREFIX = "enable_banking_"
PAYMENT_TYPES: dict[Template, str] = {"SEPA": "SEPA", "SEPA_INSTANT": "INST_SEPA"}
_DASHES = re.compile(r"[^a-z0-9]+")


def code_of(name: str, country: str) -> str:
    """A bank's code: readable, and the same for as long as Enable Banking calls the bank so."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    digest = hashlib.sha256(f"{country}/{name}".encode()).hexdigest()[:6]
    return f"{PREFIX}{country.lower()}_{_DASHES.sub('_', plain).strip('_')[:60]}_{digest}"


def kind_of(bank: Bank, template: Template, psu_type: str) -> PaymentKind | None:
    """Returns how the bank takes a kind of payment from this kind of holder; None if it does not."""
    wanted = PAYMENT_TYPES[template]
    found = [kind for kind in bank.payments or () if kind.payment_type == wanted and kind.psu_type == psu_type]
    return found[0] if found else None


def templates(bank: Bank, psu_types: Iterable[str]) -> tuple[Template, ...]:
    return tuple(name for name in PAYMENT_TYPES if any(kind_of(bank, name, psu_type) for psu_type in psu_types))


def psu_type_for(bank: Bank, holder: Holder) -> str:
    """The kind of holder, or the only kind that the bank has."""
    return holder if not bank.psu_types or holder in bank.psu_types else bank.psu_types[0]


def listed_bank(code: str, bank: Bank, *, can_pay: bool) -> ListedBank:
    validity = bank.maximum_consent_validity
    return ListedBank(
        code=code,
        name=bank.name,
        country_code=bank.country,
        api="partner",
        bics=(bank.bic,) if bank.bic else (),
        logo_url=bank.logo,
        templates=templates(bank, bank.psu_types) if can_pay else (),
        consent_days=None if validity is None else validity * SECOND // DAY,
    )


# --- Amounts; the part that runs for every booking is written to be quick


_AMOUNT = re.compile(r"-?[0-9]{1,13}(\.[0-9]{1,10})?", re.ASCII)
_FEES = frozenset({"CHRG", "COMM", "FEES"})
# No field carries the end-to-end id. Ours is recognised wherever a bank puts it.
_OUR_ID = re.compile(r"\bKB[0-9]+-[0-9A-F]{8}\b")
# ISO 4217: three times the letter, for no currency.
_NO_CURRENCY = 3 * "X"


def minor(amount: Amount) -> int:
    """Returns whole cents, exactly. Raises ProviderRefused if there are fractions of one: nothing is rounded."""
    text = amount.amount
    # Nearly all: whole euros, a dot and two digits.
    if text[-3:-2] == "." and len(text) < 17 and (digits := text[:-3] + text[-2:]).isdecimal() and digits.isascii():
        return int(digits)
    if _AMOUNT.fullmatch(text) is None:
        raise ProviderRefused("ProviderError", f"An amount of the bank is not a number: “{text[:40]}”")
    whole, _, fraction = text.partition(".")
    if len(fraction) != 2:
        fraction = fraction.rstrip("0").ljust(2, "0")
        if len(fraction) > 2:
            raise ProviderRefused("ProviderError", f"An amount of the bank has fractions of a cent: “{text}”")
    return int(whole + fraction)


def exact(amount: Amount) -> int | None:
    """Returns whole cents; None if there are fractions of one."""
    try:
        return minor(amount)
    except ProviderRefused:
        return None


# --- Accounts


def account_facts(account: Account, uid: str, balances: list[Balance]) -> AccountFacts:
    balance = _balance(account.currency, balances)
    cents = None if balance is None else exact(balance.balance_amount)
    if cents is None:
        log.warning("balance_not_told", provider="enable_banking", account=uid)
    currency = account.currency
    if currency == _NO_CURRENCY and balance is not None:
        currency = balance.balance_amount.currency
    iban = iban_of(account)
    other = account.account_id.other.identification if account.account_id and account.account_id.other else None
    return AccountFacts(
        provider_ref=uid,
        name=account.details or account.product or iban or other or "Konto",
        nature=NATURES.get(account.cash_account_type, "account"),
        balance_minor=cents,
        currency_code=currency,
        iban=iban,
        holder_name=account.name,
        # The hash is of the account's number, which accounts in several currencies share.
        identity=f"{account.identification_hash}/{account.currency}",
    )


def iban_of(account: Account) -> str | None:
    if account.account_id is not None and account.account_id.iban:
        return account.account_id.iban.replace(" ", "")
    named = [one.identification for one in account.all_account_ids or () if one.scheme_name == "IBAN"]
    return named[0].replace(" ", "") if named else None


def _balance(currency: str, balances: list[Balance]) -> Balance | None:
    own = [one for one in balances if currency in (one.balance_amount.currency, _NO_CURRENCY)]
    ranked = sorted(
        own,
        key=lambda one: (_rank(one.balance_type), -(one.reference_date or date.min).toordinal()),
    )
    return ranked[0] if ranked else None


def _rank(kind: str) -> int:
    return BALANCES.index(kind) if kind in BALANCES else len(BALANCES)


# --- Transactions


def transaction_facts(
    transactions: list[Transaction],
    account_ref: str,
    own_ibans: Collection[str | None],
    today: date,
    not_read: list[str],
) -> list[TransactionFacts]:
    """Returns what happened or is about to. A row that cannot be booked rightly is laid aside, with a sentence in `not_read`."""
    found: list[TransactionFacts] = []
    for one in transactions:
        status = TRANSACTIONS.get(one.status, "pending")
        if status is None:
            continue
        made_on = one.value_date or one.booking_date or one.transaction_date
        is_debit = one.credit_debit_indicator == "DBIT"
        amount = exact(one.transaction_amount)
        why = _fault(one, amount, is_dated=made_on is not None or status == "pending")
        if why or amount is None:
            not_read.append(_laid_aside(one, why))
            continue
        # With a debit the sign is said twice, by some banks.
        amount = -abs(amount) if is_debit else amount
        other = one.creditor_account if is_debit else one.debtor_account
        description = _description(one)
        ours = _OUR_ID.search(description) if is_debit and "KB" in description else None
        # By position and past the constructor, in the order of the fields of TransactionFacts.
        found.append(
            _new(TransactionFacts, (
                account_ref, made_on or today, amount, one.transaction_amount.currency, description, status,
                one.entry_reference or None, _mode(one, other, own_ibans), "uncategorized", ours[0] if ours else None, _NOTHING,
                _extra(one), None, None, None, None,
            ))
        )  # fmt: skip
    return found


def _fault(one: Transaction, amount: int | None, *, is_dated: bool) -> str:
    if amount is None:
        return "its amount is not in whole cents"
    if not is_dated:
        return "it is booked, and has no date"
    if one.credit_debit_indicator not in ("DBIT", "CRDT") or (one.credit_debit_indicator == "CRDT" and amount < 0):
        return "it is not clear who was paid"
    return ""


def _laid_aside(one: Transaction, why: str) -> str:
    day = one.value_date or one.booking_date or one.transaction_date
    money = one.transaction_amount
    return said(
        "A transaction was laid aside, because {why}: {day}, {text} {currency}, {description}.",
        why=why,
        day=day or "–",
        text=f"{money.amount[:40]} {one.credit_debit_indicator[:4]}",
        currency=money.currency[:3],
        description=shortened(_description(one), 80) or "–",
    )


def read_page(content: bytes, not_read: list[str]) -> Transactions:
    """Reads a page of transactions. Where a row is not as it should be, each is read for itself: an empty text is none, and what is
    still odd is laid aside, with a sentence in `not_read`. Raises msgspec errors if it is no page at all.
    """
    try:
        return decode_foreign(content, Transactions)
    except msgspec.ValidationError:
        page = decode_foreign(content, RawTransactions)
    found = []
    for raw in page.transactions:
        try:
            found.append(msgspec.convert(_without_blanks(decode_foreign(bytes(raw), Any)), Transaction, strict=True))
        except msgspec.MsgspecError as error:
            not_read.append(
                said(
                    "A transaction was laid aside, because it cannot be read: {reason}; {text}.",
                    reason=str(error).rstrip("."),
                    text=shortened(bytes(raw).decode(errors="replace"), 600),
                )
            )
    return Transactions(found, page.continuation_key)


def _without_blanks(value: Any) -> Any:
    """Returns an object without fields and rows that say nothing: an empty date is none, and so is a line that is null."""
    if isinstance(value, dict):
        return {name: _without_blanks(item) for name, item in value.items() if item is not None and item != ""}
    return [_without_blanks(item) for item in value if item is not None] if isinstance(value, list) else value


_NOTHING: dict[str, str | None] = {}
_new: Any = tuple.__new__


def _description(one: Transaction) -> str:
    lines = one.remittance_information
    text = (lines[0] if len(lines) == 1 else join_lines(lines)) if lines else ""
    if one.reference_number and one.reference_number not in text:
        text = f"{text} {one.reference_number}".strip()
    if not text and one.bank_transaction_code is not None:
        text = one.bank_transaction_code.description or ""
    return text


def _mode(one: Transaction, other: AccountId | None, own_ibans: Collection[str | None]) -> Mode:
    code = one.bank_transaction_code
    if code is not None and (code.code in _FEES or code.sub_code in _FEES):
        return "fee"
    return "transfer" if other is not None and other.iban and other.iban in own_ibans else "normal"


def _extra(one: Transaction) -> dict[str, Any]:
    extra: dict[str, Any] = {"posting_date": one.booking_date, "bank_reference": one.entry_reference}
    if one.debtor is not None:
        extra["payer"] = one.debtor.name
    if one.creditor is not None:
        extra["payee"] = one.creditor.name
    if (account := one.debtor_account) is not None:
        extra["payer_information"] = account.iban or _number(account)
    if (account := one.creditor_account) is not None:
        extra["payee_information"] = account.iban or _number(account)
    code = one.bank_transaction_code
    if code is not None or one.note:
        described = code.description if code is not None else None
        extra["additional"] = f"{described} {one.note}" if described and one.note else described or one.note or None
    if one.balance_after_transaction is not None:
        cents = exact(one.balance_after_transaction)
        extra["account_balance_snapshot"] = None if cents is None else from_minor(cents)
    return extra


def _number(account: AccountId) -> str | None:
    return (account.other.identification if account.other is not None else None) or None


# --- Orders, within what the bank takes: nothing is truncated, and no day is ignored


def payment_body(
    order: PaymentOrder, bank: Bank, psu_type: str, *, redirect_url: str, state: str, webhook_url: str | None
) -> dict[str, Any]:
    """Raises ProviderRefused if the bank does not take such an order."""
    kind = kind_of(bank, order.template_identifier, psu_type)
    if kind is None:
        raise ProviderRefused(
            "PaymentTemplateNotSupported", f"{bank.name} takes no {order.template_identifier} payments"
        )
    body: dict[str, Any] = {
        "payment_type": PAYMENT_TYPES[order.template_identifier],
        "payment_request": {
            "debtor_account": _iban(order.debtor_iban),
            "credit_transfer_transaction": [_transfer(order, kind)],
        },
        "aspsp": named(bank),
        "state": state,
        "redirect_url": redirect_url,
        "psu_type": psu_type,
    }
    if webhook_url is not None:
        body["webhook_url"] = webhook_url
    return body


def named(bank: Bank | Named) -> dict[str, str]:
    return {"name": bank.name, "country": bank.country}


def _transfer(order: PaymentOrder, kind: PaymentKind) -> dict[str, Any]:
    try:
        remittance = place_reference(order.description, order.reference)
    except BadRequest as error:
        raise ProviderRefused("InvalidPaymentAttributes", without_stop(str(error))) from None
    ids = {"end_to_end_id": order.end_to_end_id}
    if remittance.instruction_id is not None:
        ids["instruction_id"] = remittance.instruction_id
    beneficiary = _beneficiary(order, kind)
    transfer: dict[str, Any] = {
        "instructed_amount": {"amount": amount_text(order.amount_minor), "currency": order.currency_code},
        "beneficiary": beneficiary,
        "payment_id": ids,
        **_texts(remittance, kind),
    }
    day = order.details.get("date")
    if day is not None:
        if not kind.requested_execution_date_supported:
            raise ProviderRefused("InvalidPaymentAttributes", "The bank takes no day of execution: leave out `date`")
        transfer["requested_execution_date"] = day
    return transfer


def _beneficiary(order: PaymentOrder, kind: PaymentKind) -> dict[str, Any]:
    """The payee with all that the bank requires. Raises ProviderRefused, naming the field, for what the order does not say."""
    details = order.details
    country = details.get("creditor_country_code") or order.creditor_iban[:2]
    given = details.get("creditor_address")
    agent = details.get("creditor_agent")
    if kind.creditor_postal_address_required and not given:
        raise _missing("The bank requires the payee's address: give `creditor_address`")
    if kind.creditor_agent_bic_fi_required and not agent:
        agent = _bic_of(order.creditor_iban)
        if agent is None:
            raise _missing("The bank requires the BIC of the payee's bank: give `creditor_agent`")
    creditor: dict[str, Any] = {"name": order.creditor_name}
    address = _address_of(given, country)
    if given or kind.creditor_country_required or kind.creditor_postal_address_required:
        creditor["postal_address"] = address
    beneficiary: dict[str, Any] = {"creditor": creditor, "creditor_account": _iban(order.creditor_iban)}
    if isinstance(agent, str):
        beneficiary["creditor_agent"] = {"bic_fi": agent}
    return beneficiary


def _missing(sentence: str) -> ProviderRefused:
    return ProviderRefused("InvalidPaymentAttributes", sentence)


def _address_of(given: Any, country: str) -> dict[str, Any]:
    if isinstance(given, dict):
        parts = {name: given.get(name) for name in ("street_name", "building_number", "post_code", "town_name")}
        return {name: value for name, value in parts.items() if value} | {"country": given.get("country") or country}
    return ({"address_line": [given]} if given else {}) | {"country": country}


def _bic_of(iban: str) -> str | None:
    from schwifty import IBAN
    from schwifty.exceptions import SchwiftyException

    try:
        found = IBAN(iban).bic
    except SchwiftyException:
        return None
    return None if found is None else str(found)


def _texts(remittance: Remittance, kind: PaymentKind) -> dict[str, Any]:
    if remittance.unstructured is None:
        assert remittance.creditor_reference is not None
        if kind.reference_number_supported:
            return {"reference_number": remittance.creditor_reference}
    text = remittance.unstructured or remittance.creditor_reference or ""
    lines = []
    for line in kind.remittance_information_lines or ():
        if text:
            lines.append(text[: line.max_length] if line.max_length else text)
            text = text[len(lines[-1]) :]
    if text and kind.remittance_information_lines:
        room = sum(line.max_length or 0 for line in kind.remittance_information_lines)
        raise ProviderRefused("InvalidPaymentAttributes", f"The bank takes a description of at most {room} characters")
    for part, form in zip(lines, kind.remittance_information_lines or (), strict=False):
        _check_form(part, form)
    return {"remittance_information": lines or [text]}


def _check_form(text: str, form: RemittanceLine) -> None:
    """Raises ProviderRefused for a text that the bank would refuse, before anything is sent."""
    if form.min_length is not None and len(text) < form.min_length:
        raise _missing(said("The bank takes a description of at least {count} characters", count=form.min_length))
    if form.pattern is None:
        return
    try:
        # Of the bank's list: a short text against a pattern that we cannot read is left to the bank.
        fits = len(form.pattern) > 200 or re.search(form.pattern, text) is not None
    except re.error:
        fits = True
    if not fits:
        raise _missing(said("The bank does not take this description; it must match {pattern}", pattern=form.pattern))


def _iban(iban: str) -> dict[str, str]:
    return {"scheme_name": "IBAN", "identification": iban}


# --- Headers that say that the person is there: all that the bank requires or none at all


_NOBODY: dict[str, str] = {}


def psu_headers(person: PersonHere | None, bank: Bank | None) -> Mapping[str, str]:
    """Returns what to send along when data is read. A bank that requires more than is known gets none of it."""
    if person is None:
        return _NOBODY
    # A browser sends what it likes, and a line break would begin another header.
    agent = "".join(letter for letter in person.user_agent if " " <= letter <= "~")
    known = {"Psu-Ip-Address": _address(person.ip_address), "Psu-User-Agent": agent}
    sent = {name: value for name, value in known.items() if value}
    if "Psu-Ip-Address" not in sent:
        return _NOBODY
    required = {name.lower() for name in (bank.required_psu_headers or () if bank is not None else ())}
    return sent if required <= {name.lower() for name in sent} else _NOBODY


def _address(text: str) -> str:
    """Returns nothing where there is no address: behind a socket of this machine."""
    try:
        return str(ip_address(text))
    except ValueError:
        return ""
