"""The world of the sandbox bank, as constants: banks, people who sign in, plans of payments, and how bookings are written. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from html import escape
from typing import Any, Literal, NamedTuple

from kontobahn.banking.provider import Api, Mode, Nature, PayeeFinding, PayeeResult, Template, TransactionStatus
from kontobahn.clock import DAY, MINUTE, SECOND

# The style of a bank's purpose texts: `EREF+…SVWZ+…` in one piece, text first and then `EREF: …`, or the first one wrapped into
# lines of 27 characters.
TextStyle = Literal["plus", "colon", "wrapped"]
Kind = Literal["bank", "card", "wallet", "broker"]


class Bank(NamedTuple):
    code: str
    name: str
    api: Api
    country_code: str
    # The part of an IBAN that identifies the bank; empty if its accounts have no IBAN.
    bank_number: str
    bic: str
    templates: tuple[Template, ...]
    kind: Kind
    style: TextStyle
    # Background of the logo, dark enough for white letters.
    tint: str
    # The next refresh is possible this long after one.
    refresh_after: int = MINUTE
    consent_life: int = 180 * DAY

    @property
    def logo_path(self) -> str:
        return f"/sandbox/logos/{self.code}.svg"


_BOTH: tuple[Template, ...] = ("SEPA", "SEPA_INSTANT")
BANKS = {
    bank.code: bank
    for bank in (
        Bank("musterbank", "Musterbank", "partner", "DE", "99910010", "MUSBDEZZXXX", _BOTH, "bank", "plus", "#0b5a54"),
        Bank("sparkasse_beispielstadt", "Sparkasse Beispielstadt", "partner", "DE", "99950020", "SPBEDEZZXXX",
             _BOTH, "bank", "wrapped", "#9b1c1c"),
        Bank("volksbank_muster", "Volksbank Muster", "partner", "DE", "99960030", "VOMUDEZZXXX", ("SEPA",), "bank", "colon",
             "#1d4f91"),
        Bank("direktbank", "Direktbank Nordlicht", "partner", "DE", "99930040", "DINODEZZXXX", (), "bank", "plus", "#7a4300",
             15 * MINUTE),
        Bank("alpenbank", "Alpenbank Beispiel", "partner", "AT", "99050", "ALBEATZZXXX", ("SEPA",), "bank", "plus", "#3d5a1e"),
        Bank("kartenhaus", "Kartenhaus Kreditkarten", "openbanking", "DE", "", "", (), "card", "plus", "#4a2f7a"),
        Bank("taschengeld", "Taschengeld Wallet", "openbanking", "DE", "", "", (), "wallet", "plus", "#0a5c87"),
        Bank("depotwerk", "Depotwerk Broker", "openbanking", "DE", "", "", (), "broker", "plus", "#54433a"),
    )
}  # fmt: skip
# The time that a slow bank takes to answer.
SLOW = 20 * SECOND


def offered(api: Api) -> list[Bank]:
    return [bank for bank in BANKS.values() if bank.api == api]


def iban(bank: Bank, account_number: int) -> str | None:
    """Returns an IBAN with valid check digits, of a bank that does not exist."""
    if not bank.bank_number:
        return None
    body = f"{bank.bank_number}{account_number:0{18 - len(bank.bank_number) if bank.country_code == 'DE' else 11}d}"
    letters = "".join(str(ord(letter) - 55) for letter in bank.country_code)
    check = 98 - int(f"{body}{letters}00") % 97
    return f"{bank.country_code}{check:02d}{body}"


def logo(bank: Bank) -> str:
    words = bank.name.split()
    initials = escape("".join(word[0] for word in words[:2]).upper())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" role="img" aria-label="{escape(bank.name)}">'
        f'<rect width="64" height="64" rx="14" fill="{bank.tint}"/>'
        '<text x="32" y="33" fill="#fff" font-family="system-ui, sans-serif" font-size="26" font-weight="700"'
        f' text-anchor="middle" dominant-baseline="central">{initials}</text></svg>\n'
    )


# --- People: who can sign in, and what the bank does then


RefreshEffect = Literal["nothing special", "post_pending", "backdated", "duplicate", "destroy"]
# The way in which a login or a payment is approved; if in the banking app, what the person does there.
Approval = Literal["tan", "none", "confirmed in the app", "declined in the app", "ignored in the app"]


class Person(NamedTuple):
    name: str
    about: str
    # The same, for the login page.
    german: str
    # The error that the login fails with.
    login_error: str | None = None
    # The error that every refresh, or the first one only, fails with.
    refresh_error: str | None = None
    first_refresh_error: str | None = None
    on_refresh: RefreshEffect = "nothing special"
    approval: Approval = "tan"
    is_slow: bool = False
    # Seconds that the consent lasts; otherwise as long as the bank gives it.
    consent_seconds: int | None = None
    bookings: Literal["some", "none", "many"] = "some"


PEOPLE = {
    person.name: person
    for person in (
        Person("demo", "works: a current account, savings, a card, four months of bookings",
               "gewöhnlicher Zugang: Girokonto, Tagesgeld, Karte, einige Monate Umsätze"),
        Person("sandbox", "the same as demo",
               "dasselbe wie demo"),
        Person("notan", "the same, without a TAN",
               "wie demo, aber ohne TAN", approval="none"),
        Person("app", "the same, but confirms in the banking app instead, after ten seconds",
               "wie demo, aber mit Bestätigung in der App: sie kommt nach zehn Sekunden", approval="confirmed in the app"),
        Person("declines", "declines in the banking app, after ten seconds: ApprovalDeclined",
               "lehnt in der App nach zehn Sekunden ab", approval="declined in the app"),
        Person("ignores", "never answers in the banking app: ApprovalExpired after five minutes",
               "antwortet in der App nicht, die Anfrage läuft nach fünf Minuten ab", approval="ignored in the app"),
        Person("empty", "one account without bookings",
               "ein Konto ohne Umsätze", bookings="none"),
        Person("many", "one account with 5,000 bookings",
               "ein Konto mit 5.000 Umsätzen", bookings="many"),
        Person("wrong", "the login is refused: InvalidCredentials",
               "die Bank nimmt die Zugangsdaten nicht an", login_error="InvalidCredentials"),
        Person("technical", "the login fails: ProviderError",
               "die Bank hat eine technische Störung", login_error="ProviderError"),
        Person("flaky", "the first refresh fails with ProviderError, the next works",
               "die erste Aktualisierung scheitert technisch, die nächste gelingt",
               first_refresh_error="ProviderError"),
        Person("expired", "the consent lasts one minute",
               "die Einwilligung läuft nach einer Minute ab", consent_seconds=60),
        Person("revoked", "every refresh fails with AispConsentRevoked",
               "die Einwilligung ist bei der nächsten Aktualisierung widerrufen",
               refresh_error="AispConsentRevoked"),
        Person("disabled", "every refresh fails with ProviderDisabled",
               "die Bank ist bei der nächsten Aktualisierung abgeschaltet", refresh_error="ProviderDisabled"),
        Person("slow", "answers 20 seconds after it was asked",
               "die Bank antwortet erst nach 20 Sekunden", is_slow=True),
        Person("pending", "pending bookings, posted by the next refresh",
               "vorgemerkte Umsätze, die bei der nächsten Aktualisierung gebucht sind",
               on_refresh="post_pending"),
        Person("backdated", "every refresh brings a booking dated twelve days back",
               "jede Aktualisierung bringt einen Umsatz, der zwölf Tage zurückliegt", on_refresh="backdated"),
        Person("duplicate", "every refresh repeats the last booking",
               "jede Aktualisierung meldet einen Umsatz ein zweites Mal", on_refresh="duplicate"),
        Person("destroy", "the bank destroys the connection at the next refresh",
               "die Bank löscht die Verbindung bei der nächsten Aktualisierung", on_refresh="destroy"),
    )
}  # fmt: skip
# Wrong for everyone; anything else is accepted.
WRONG_PASSWORD, WRONG_TAN = "wrong", "000000"
MAX_WRONG_ENTRIES = 3
# After how many seconds an approval in the app has an outcome, and the error that it is.
APP_SECONDS: dict[Approval, int] = {
    "confirmed in the app": 10,
    "declined in the app": 10,
    "ignored in the app": 300,
}
APP_ERRORS: dict[Approval, str] = {"declined in the app": "ApprovalDeclined", "ignored in the app": "ApprovalExpired"}
MESSAGES = {
    "InvalidCredentials": "The bank does not accept the user name or the password.",
    "InvalidInteractiveCredentials": "The TAN was wrong three times.",
    "ApprovalDeclined": "It was declined in the banking app.",
    "ApprovalExpired": "It was not confirmed in the banking app in time.",
    "ProviderError": "The bank has a technical problem.",
    "ProviderDisabled": "The bank is switched off.",
    "AispConsentExpired": "The consent given at the bank has expired.",
    "AispConsentRevoked": "The consent was revoked at the bank.",
    "Cancelled": "The person cancelled at the bank.",
}


def page_of(step: str, approval_at: int | None) -> str:
    """The page that the person sees: the step, or that the bank waits for the app."""
    return "wait" if step == "tan" and approval_at is not None else step


# The company whose accounts these are, as the demo's organisation is called.
COMPANY = "Demo Handels GmbH"


class AccountPlan(NamedTuple):
    name: str
    nature: Nature
    holder_name: str
    opening_minor: int


def accounts_of(person: Person, bank: Bank) -> tuple[AccountPlan, ...]:
    match bank.kind:
        case "card":
            return (AccountPlan("Firmenkreditkarte", "credit_card", "Dana Demo", 0),)
        case "wallet":
            return (AccountPlan("Guthaben", "ewallet", "Dana Demo", 85_000),)
        case "broker":
            return (AccountPlan("Verrechnungskonto", "investment", COMPANY, 1_250_000),)
    if person.bookings != "some":
        return (
            AccountPlan("Geschäftskonto", "checking", COMPANY, 250_000 if person.bookings == "none" else 9_000_000),
        )
    return (
        AccountPlan("Geschäftskonto", "checking", COMPANY, 2_450_000),
        AccountPlan("Tagesgeld", "savings", COMPANY, 4_000_000),
        AccountPlan("Firmenkarte", "card", COMPANY, 0),
    )


# --- Plans: what happens to a payment, chosen by the creditor's name or the amount


HOUR_SECONDS, DAY_SECONDS = 3600, 86_400


class PlanStep(NamedTuple):
    """One thing the bank does after the payer has confirmed."""

    after_seconds: int
    # None: nothing is reported.
    status: str | None
    raw_status: str = ""
    error_class: str | None = None
    error_message: str | None = None
    # True if the debit is booked on the payer's account, and if the bank announces new data.
    books_debit: bool = False
    notifies: bool = False
    # Only reported: asked directly, the bank gives the true status.
    is_untrue: bool = False


_PROCESSING = PlanStep(0, "processing", "ACSP")
_SETTLED = PlanStep(5, "settled", "ACCC", books_debit=True)
_RETURNED = ("PaymentFailed", "The receiving bank sent the payment back.")


class Plan(NamedTuple):
    name: str
    about: str
    steps: tuple[PlanStep, ...] = (_PROCESSING, _SETTLED)
    # One more confirmation is required after the login: initiated_info_required.
    needs_extra_confirmation: bool = False
    # Every report is delivered twice, under two ids.
    repeats: bool = False
    # The outcome of the call that creates it.
    creation: str = "answered"


PLANS = {
    plan.name: plan
    for plan in (
        Plan("usual", "authorizing, processing, settled after 5 seconds; the debit is booked with it"),
        Plan("at_once", "settled as soon as the payer has confirmed; so is every SEPA_INSTANT payment",
             (PlanStep(0, "settled", "ACCC", books_debit=True),)),
        Plan("tan", "initiated_info_required until the TAN is entered, then as usual", needs_extra_confirmation=True),
        Plan("rejected", "rejected (RJCT) after the payer has confirmed",
             (PlanStep(0, "rejected", "RJCT", "PaymentFailed", "The bank refused the payment."),)),
        Plan("refused", "the bank refuses the order at once: rejected (RJCT), there is no payment page", creation="refused"),
        Plan("returned", "executed, and failed an hour later",
             (_PROCESSING, PlanStep(5, "executed", "ACSC"), PlanStep(HOUR_SECONDS, "failed", "RJCT", *_RETURNED))),
        Plan("executed", "stops at executed (ACSC); a day later its debit is booked, which settles it",
             (_PROCESSING, PlanStep(5, "executed", "ACSC"), PlanStep(DAY_SECONDS, None, books_debit=True, notifies=True))),
        Plan("lost_answer", "the call to create it ends without an answer, though the bank has it",
             creation="created, no answer"),
        Plan("lost_order", "the call to create it ends without an answer, and the bank does not have it",
             creation="not created, no answer"),
        Plan("contradiction", "settled, and afterwards a report that it failed",
             (_PROCESSING, _SETTLED, PlanStep(1, "failed", "RJCT", *_RETURNED, is_untrue=True))),
        Plan("repeats", "every report is delivered twice", repeats=True),
        Plan("disorder", "settled is reported first, then processing, then authorized",
             (PlanStep(0, "settled", "ACCC", books_debit=True), PlanStep(0, "processing", "ACSP", is_untrue=True),
              PlanStep(0, "authorized", "ACTC", is_untrue=True))),
        Plan("unknown", "an unknown status (on_hold, BLCK), settled ten seconds later",
             (PlanStep(0, "on_hold", "BLCK"), PlanStep(10, "settled", "ACCC", books_debit=True))),
    )
}  # fmt: skip
# Creditors with this first word, and amounts from 13.01 on, choose a plan in the order of the table.
CREDITOR_WORD = "sandbox"
FIRST_AMOUNT_MINOR = 13_00


def amount_of(name: str) -> int:
    """Returns the amount in cents that chooses a plan."""
    return FIRST_AMOUNT_MINOR + list(PLANS).index(name)


def choose_plan(creditor_name: str, amount_minor: int, template: Template) -> Plan:
    word, _, rest = creditor_name.strip().lower().partition(" ")
    name = rest.strip().replace(" ", "_").replace("-", "_")
    if word == CREDITOR_WORD and name in PLANS:
        return PLANS[name]
    names = list(PLANS)
    position = amount_minor - FIRST_AMOUNT_MINOR
    if 0 < position < len(names):
        return PLANS[names[position]]
    return PLANS["at_once" if template == "SEPA_INSTANT" else "usual"]


# --- Payees: what the check of the name says, before the payer authorises


class PayeePlan(NamedTuple):
    name: str
    about: str
    result: PayeeResult
    # Put behind the name, or instead of letters in it, in the name that the bank returns.
    holder: Callable[[str], str] | None = None
    # Says `pending` until the payer has been approved, and the result afterwards.
    is_slow: bool = False


PAYEE_PLANS = {
    plan.name: plan
    for plan in (
        PayeePlan("exact", "the name is that of the account's holder: match", "match"),
        PayeePlan("umlaut", "the holder is written with an umlaut: close match", "close_match",
                  lambda name: re.sub("a", "ä", name, count=1)),
        PayeePlan("legal_form", "the holder's legal form is missing: close match", "close_match", lambda name: f"{name} GmbH"),
        PayeePlan("other", "somebody else holds the account: no match", "no_match"),
        PayeePlan("unknown_iban", "the bank of the payee does not answer for this account: not possible", "not_possible"),
        PayeePlan("slow", "pending until the TAN or the app has confirmed, then match", "match", is_slow=True),
    )
}  # fmt: skip
# Creditors whose name begins so are checked, by the plan that the rest of the name names.
PAYEE_WORDS = f"{CREDITOR_WORD} payee "


def check_payee(creditor_name: str, *, is_approved: bool) -> PayeeFinding | None:
    """Returns what the check of a payee says at this moment; None for whoever is not checked."""
    name = creditor_name.strip()
    rest = name.lower().removeprefix(PAYEE_WORDS).strip().replace(" ", "_").replace("-", "_")
    plan = PAYEE_PLANS.get(rest) if name.lower().startswith(PAYEE_WORDS) else None
    if plan is None:
        return None
    if plan.is_slow and not is_approved:
        return PayeeFinding("pending", name)
    return PayeeFinding(plan.result, name, plan.holder(name) if plan.holder else None)


# --- Bookings: purpose texts with SEPA tags in three styles, and the other party


LINE = 27


class Booking(NamedTuple):
    made_on: date
    amount_minor: int
    description: str
    category: str = "uncategorized"
    mode: Mode = "normal"
    status: TransactionStatus = "posted"
    end_to_end_id: str | None = None
    # Fields of the transaction's `extra`, without the balance, which is added when it is written.
    extra: Mapping[str, Any] = {}


class Party(NamedTuple):
    """Someone who pays the account holder or is paid."""

    name: str
    number: int
    category: str = "uncategorized"
    # The IBAN; one is made from the number when it is empty.
    account: str = ""

    @property
    def iban(self) -> str:
        return self.account or iban(BANKS["volksbank_muster"], 7_000_000 + self.number) or ""

    @property
    def creditor_id(self) -> str:
        national = f"0{9_000_000_000 + self.number}"
        return f"DE{98 - int(f'{national}131400') % 97:02d}ZZZ{national}"


def purpose(style: TextStyle, text: str, **tags: str | None) -> str:
    """Returns the text with its tags, as this bank would write it."""
    present = {tag: value for tag, value in tags.items() if value}
    if style == "colon":
        return " ".join([text, *(f"{tag}: {value}" for tag, value in present.items())])
    whole = "".join(f"{tag}+{value} " for tag, value in present.items()) + f"SVWZ+{text}"
    if style == "plus":
        return whole
    return " ".join(whole[start : start + LINE] for start in range(0, len(whole), LINE))


def direct_debit(
    bank: Bank, day: date, amount_minor: int, party: Party, text: str, *, holder: str, time: str = "00:00:00"
) -> Booking:
    mandate, reference = f"MND-{party.number:05d}", f"{party.number}-{day:%Y%m%d}"
    written = purpose(bank.style, text, EREF=reference, MREF=mandate, CRED=party.creditor_id)
    return _with_party(day, -amount_minor, written, party, holder, time, "SEPA-Lastschrift", reference)


def transfer(
    bank: Bank, day: date, amount_minor: int, party: Party, text: str, *, holder: str, reference: str | None = None,
    time: str = "00:00:00", mode: Mode = "normal", original_party: str | None = None,
) -> Booking:  # fmt: skip
    """A transfer; a negative amount is outgoing."""
    tags = {"EREF": reference or "NOTPROVIDED", "IBAN": party.iban, "BIC": BANKS["volksbank_muster"].bic}
    written = purpose(bank.style, text, **tags, ABWA=original_party)
    kind = "Gutschrift" if amount_minor > 0 else "Überweisung"
    return _with_party(day, amount_minor, written, party, holder, time, kind, reference)._replace(mode=mode)


def card_purchase(day: date, amount_minor: int, merchant: Party, place: str, time: str) -> Booking:
    """No tags at all, as with many card payments."""
    text = f"{merchant.name.upper()}//{place.upper()}/DE {day.isoformat()}T{time} Debitk.1 2028-12"
    extra = {"time": time, "payee": merchant.name, "merchant_id": f"{44_000_000 + merchant.number}",
             "additional": "Kartenzahlung", "categorization_confidence": "0.87"}  # fmt: skip
    return Booking(day, -amount_minor, text, merchant.category, extra=extra)


def fee(day: date, amount_minor: int, text: str) -> Booking:
    return Booking(day, -amount_minor, text, "fees", "fee", extra={"additional": "Abschluss"})


def _with_party(
    day: date, amount_minor: int, text: str, party: Party, holder: str, time: str, kind: str, reference: str | None
) -> Booking:
    is_in = amount_minor > 0
    extra = {
        "time": time,
        "payee": holder if is_in else party.name,
        "payer": party.name if is_in else holder,
        "payer_information" if is_in else "payee_information": party.iban,
        "additional": kind,
        "categorization_confidence": "0.93",
    }
    return Booking(day, amount_minor, text, party.category, end_to_end_id=reference, extra=extra)
