"""Words for bank accounts: whom a transaction is with, how a connection stands, what the state of a payment means, and why a
transaction is matched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

from markupsafe import Markup, escape

from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.connections.store import ConnectionRow
from kontobahn.banking.payments.store import PaymentRow
from kontobahn.banking.provider import FILES, PaymentStatus
from kontobahn.banking.transactions.wire import Transaction
from kontobahn.clock import DAY
from kontobahn.dashboard import figures
from kontobahn.dashboard.lists import Chip, Filters
from kontobahn.dashboard.todo import CONSENT_DAYS
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.reconciliation.wire import MatchProposal, MatchReason

Kind = Literal["good", "warn", "bad", "plain"]


class Shown(NamedTuple):
    """A badge with a sentence beside it."""

    badge: str
    kind: Kind
    sentence: str


# --- Transactions


def other_side(transaction: Transaction) -> str:
    """Returns the name of the payer or payee, as far as it is known."""
    extra, parsed = transaction.extra, transaction.description_parsed
    named = (
        (parsed.abwe, extra.payee, extra.payer) if transaction.amount < 0 else (parsed.abwa, extra.payer, extra.payee)
    )
    return next(filter(None, named), "")


def other_iban(transaction: Transaction) -> str:
    extra = transaction.extra
    named = (extra.payee_information, extra.payer_information)
    return next(filter(None, named if transaction.amount < 0 else reversed(named)), "")


def purpose(transaction: Transaction) -> str:
    """Returns the purpose without the tags of the bank."""
    return transaction.description_parsed.svwz or transaction.description or transaction.extra.additional or ""


# --- Filters that lists of transactions and of payments share


def chips(filters: Filters[Any], accounts: Mapping[str, str], states: Mapping[str, str]) -> list[Chip]:
    """The filters that are set. `accounts` has names by id, `states` words by state."""
    labels = {
        "q": _("Search"), "account": _("Account"), "state": _("Status"), "from_date": _("From"), "to_date": _("To")
    }  # fmt: skip

    def shown(name: str, text: str) -> str:
        if name == "state":
            return _(states.get(text, text))
        if name == "account":
            return accounts.get(text, text)
        return text

    return filters.chips(labels, shown)


# --- Connections

_ERRORS = {
    "InvalidCredentials": N_("The bank does not accept the user name or the password."),
    "InvalidInteractiveCredentials": N_("The TAN was wrong."),
    "AispConsentExpired": N_("The consent has ended."),
    "AispConsentRevoked": N_("The consent was withdrawn at the bank."),
    "ProviderAccessNotGranted": N_("The bank did not grant access."),
    "InteractiveTimeout": N_("Nobody confirmed at the bank in time."),
    "ApprovalDeclined": N_("It was declined in the bank's app."),
    "ApprovalExpired": N_("It was not confirmed in the bank's app in time."),
    "ProviderError": N_("The bank has a technical problem. Please try again later."),
    "ProviderDisabled": N_("The bank has switched off this access."),
    "ProviderInactive": N_("The bank does not answer at the moment."),
    "ConnectionDisabled": N_("The bank has switched off this connection."),
    "InteractionRequired": N_("The bank needs a confirmation from you, for example a TAN."),
    "LockedAtBank": N_("The bank has locked this access. Please have it unlocked at the bank first."),
    "Cancelled": N_("You cancelled it."),
}
_CONSENT_OVER = ("AispConsentExpired", "AispConsentRevoked")


def bank_name(row: ConnectionRow) -> str:
    return row.display_name or row.provider_name or row.provider_code or _("A bank that is not chosen yet")


def account_name(account: AccountRow, *, is_sandbox: bool) -> str:
    """The name of an account, marked if it is at the sandbox bank."""
    return _("%(name)s (sandbox)", name=account.name) if is_sandbox else account.name


def error_words(error_class: str | None, message: str | None = None) -> str:
    """Explains an error at the bank; in the bank's words if we have none."""
    if error_class in _ERRORS:
        return _(_ERRORS[error_class])
    return message or (_("The bank reports: %(error)s.", error=error_class) if error_class else "")


def connection_state(row: ConnectionRow, now: int) -> Shown:
    if row.provider == FILES:
        return Shown(_("statement files"), "plain", _("Statement files are read into it. There is nothing to renew."))
    error = error_words(row.error_class, row.error_message)
    if row.status == "pending_connect":
        return Shown(_("not finished"), "warn", error or _("Somebody is connecting it at the bank at the moment."))
    if row.status == "pending":
        return Shown(_("being renewed"), "warn", _("Somebody is renewing it at the bank at the moment."))
    if row.status == "disabled":
        return Shown(_("switched off"), "bad", error or _("The bank has switched off this connection."))
    if row.status == "inactive":
        return Shown(
            _("sign in again"), "bad", (error + " " if error else "") + _("Sign in at the bank again to renew it.")
        )
    if row.refresh_started_at is not None:
        return Shown(_("works"), "good", _("The bank is being asked for new data at the moment."))
    if error:
        return Shown(_("works"), "warn", error)
    return Shown(_("works"), "good", _("New data arrives automatically, about four times a day."))


def consent(row: ConnectionRow, now: int) -> Shown | None:
    """Returns how long the consent still lasts; None if nothing ends."""
    if row.consent_expires_at is None or row.status == "pending_connect":
        return None
    if row.error_class in _CONSENT_OVER and row.status in ("inactive", "pending"):
        # Whatever the bank had said before about its end.
        return Shown(_("ended"), "bad", _(_ERRORS[row.error_class]))
    left = row.consent_expires_at - now
    day = figures.in_one_line(figures.day(row.consent_expires_at))
    if left <= 0:
        return Shown(_("ended"), "bad", _("ended on %(day)s", day=day))
    count = left // DAY
    days = ngettext("one more day", "%(num)s more days", count) if count else _("ends today")
    return Shown(days, "warn" if left < CONSENT_DAYS * DAY else "good", _("until %(day)s", day=day))


# --- Payments

PAYMENT_STATES: dict[PaymentStatus, tuple[str, Kind, str]] = {
    "initiated": (N_("to be authorised"), "warn", N_("The bank is waiting for you to authorise it.")),
    "initiated_info_required": (N_("to be confirmed"), "warn", N_("The bank needs something confirmed first.")),
    "authorizing": (N_("being authorised"), "warn", N_("The bank is waiting for your confirmation.")),
    "authorized": (N_("authorised"), "plain", N_("You have authorised it. The bank has not begun yet.")),
    "processing": (N_("in progress"), "plain", N_("The bank is carrying it out.")),
    "executed": (N_("sent"), "plain", N_("The bank has sent the money.")),
    "settled": (N_("paid"), "good", N_("The payment is complete.")),
    "failed": (N_("failed"), "bad", N_("Nothing was paid.")),
    "rejected": (N_("rejected"), "bad", N_("The bank has rejected it. Nothing was paid.")),
}


def payment_state(status: PaymentStatus) -> Shown:
    badge, kind, sentence = PAYMENT_STATES[status]
    return Shown(_(badge), kind, _(sentence))


def shown_payment(row: PaymentRow, *, may_release: bool = False) -> Shown:
    """The state of a payment: that of its status, unless it waits for a second person, who may be the one that looks."""
    if row.waits_for_release:
        return Shown(
            _("waits for release"),
            "warn",
            _("It waits for your release. Until then, no bank gets it.")
            if may_release
            else _("Another person must release it. Until then, no bank gets it."),
        )
    return payment_state(row.status)


PAYEE_RESULTS: dict[str, tuple[str, Kind, str]] = {
    "match": (N_("name fits"), "good", N_("The name is that of the account's holder.")),
    "close_match": (N_("name nearly fits"), "warn", N_("The name differs a little from that of the account's holder.")),
    "no_match": (
        N_("name does not fit"),
        "bad",
        N_("Somebody else holds the account. Ask the payee before you release it."),
    ),
    "not_possible": (
        N_("could not be checked"),
        "plain",
        N_("The bank of the payee gave no answer for this account. That alone is no bad sign."),
    ),
    "pending": (N_("being checked"), "plain", N_("The bank of the payee has not answered yet.")),
}


def payee_result(result: str) -> Shown:
    badge, kind, sentence = PAYEE_RESULTS[result]
    return Shown(_(badge), kind, _(sentence))


def differences(name: str, other: str) -> list[tuple[str, bool]]:
    """The parts of a name, and whether each is not in the other one."""
    parts = []
    for kind, start, end, _start, _end in SequenceMatcher(None, name, other, autojunk=False).get_opcodes():
        if start < end:
            parts.append((name[start:end], kind != "equal"))
    return parts


# --- Matches: kinds of lines, classes of evidence, reasons; and a purpose with what was found in it marked


MATCH_STATES = {
    "proposed": (N_("to confirm"), "warn"),
    "open": (N_("unmatched"), "bad"),
    "matched": (N_("matched"), "good"),
    "ignored": (N_("left out"), "plain"),
    "booked": (N_("in the books"), "plain"),
}
MATCH_KINDS = {
    "item": N_("Document"),
    "skonto": N_("Skonto"),
    "fee": N_("Fee"),
    "difference": N_("Difference"),
    "on_account": N_("On account"),
    "return": N_("Return"),
    "transfer": N_("Transfer between own accounts"),
    "ledger_account": N_("Ledger account"),
}
CLASSES = {
    "A1": N_("A payment that you ordered here"),
    "A2": N_("Number, amount and payer fit"),
    "A3": N_("Number and payer fit, less Skonto in time"),
    "A4": N_("Several numbers, and their sum fits"),
    "A5": N_("The return of a payment that was matched"),
    "B1": N_("The number fits, the rest needs a look"),
    "B2": N_("A known payer, and one amount that fits"),
    "B3": N_("A known payer, and one sum that fits"),
    "B4": N_("Only a name, or a number with a slip"),
    "C": N_("Candidates, rules, transfers between own accounts"),
}
# The evidence that a proposal rests on, by the reason that says so, where the class does not tell.
_CAUSES = {
    "occasion": N_("The month or the object, the amount and the payer fit"),
    "everything": N_("Everything that is open, and the payer fits"),
    "credit_note": N_("The number fits, less a credit note"),
    "rule": N_("Proposed by one of your rules"),
    "own_account": N_("A transfer between your own accounts"),
}
_REASONS = {
    "number": N_("number %(value)s"),
    "number_labelled": N_("%(value)s, which the text calls something else"),
    "number_shared": N_("others have the number %(value)s too"),
    "amount": N_("the open amount"),
    "amount_less_skonto": N_("the open amount less Skonto"),
    "amount_only": N_("only the amount"),
    "sum": N_("the exact sum"),
    "part": N_("a part of the open amount"),
    "over": N_("more than is open"),
    "occasion": N_("it says “%(value)s”"),
    "everything": N_("all %(value)s open documents"),
    "credit_note": N_("less credit note %(value)s"),
    "named_before": N_("an earlier payment names %(value)s too"),
    "paid_before": N_("%(value)s is paid already"),
    "other_direction": N_("the money goes the other way"),
    "skonto_late": N_("Skonto, but too late"),
    "twins": N_("%(value)s items of the same amount"),
    "iban": N_("IBAN …%(value)s"),
    "iban_seen": N_("IBAN seen before …%(value)s"),
    "mandate": N_("mandate %(value)s"),
    "customer_number": N_("customer number %(value)s"),
    "name": N_("name %(value)s"),
    "end_to_end_id": N_("your order %(value)s"),
    "return_of": N_("return of transaction %(value)s"),
    "reference": N_("reference %(value)s"),
    "own_account": N_("your own account …%(value)s"),
    "other_side": N_("its other side is transaction %(value)s"),
    "rule": N_("one of your rules"),
}
_MAX_SHOWN = 60


def evidence(proposal: MatchProposal) -> str:
    causes = [_CAUSES[found.signal] for found in proposal.reasons if found.signal in _CAUSES]
    if causes:
        return _(causes[0])
    return _(CLASSES[proposal.evidence_class]) if proposal.evidence_class != "C" else _("One of several candidates")


def reason(found: MatchReason) -> str:
    words = _REASONS.get(found.signal)
    value = found.value[:_MAX_SHOWN]
    # With where it comes from: 2051 (master data).
    told, bracket, source = found.value.rpartition(" (")
    if bracket and source.endswith(")"):
        value = f"{told[:_MAX_SHOWN]}{_source(found.signal, source[:-1])}"
    return _(words, value=value) if words else _("similar number %(value)s", value=value)


def _source(signal: str, source: str) -> str:
    """Returns where an IBAN is known from, or how far a name is alike; nothing of a name that is the same."""
    if signal == "name":
        return "" if source == "100" else f" ({_('%(percent)s %% alike', percent=source)})"
    if signal not in ("iban", "iban_seen"):
        return f" ({source})"
    times = source.partition(" ")[0]
    if times.isdigit():
        return f" ({ngettext('confirmed once', 'confirmed %(num)s times', int(times))})"
    return f" ({_('master data')})"


def marked(text: str, reasons: Sequence[MatchReason]) -> Markup:
    """The purpose, with the places marked that reasons point to."""
    spans = sorted({(it.start, it.end) for it in reasons if it.field == "svwz" and it.start is not None and it.end})
    parts, at = [], 0
    for start, end in spans:
        if at <= (start or 0) < (end or 0) <= len(text):
            parts += [escape(text[at:start]), Markup("<mark>{}</mark>").format(text[start:end])]
            at = end or 0
    return Markup("").join([*parts, escape(text[at:])])
