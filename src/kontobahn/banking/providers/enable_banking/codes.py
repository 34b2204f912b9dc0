"""What Enable Banking's words mean here, as tables: errors, states of sessions, payments and transactions, kinds of accounts."""

from __future__ import annotations

from kontobahn.banking.provider import (
    CANCELLED,
    PERSON_NEEDED,
    Nature,
    PaymentReport,
    PaymentStatus,
    PersonNeeded,
    ProviderDown,
    ProviderRefused,
    TransactionStatus,
)
from kontobahn.banking.providers.enable_banking.wire import Reason, Refusal

RATE_LIMIT = "ASPSP_RATE_LIMIT_EXCEEDED"
# Something the operator has to put right: it says nothing about anybody's access, so connections stay as they are.
_OURS = frozenset({
    "ACCESS_DENIED", "AUTHORIZATION_NOT_PROVIDED", "INVALID_HOST", "NO_ACCOUNTS_ADDED", "REDIRECT_URI_NOT_ALLOWED",
    "UNAUTHORIZED_ACCESS", "UNAUTHORIZED_IP", "WEBHOOK_URI_NOT_ALLOWED",
})  # fmt: skip
# Later the same may succeed. A continuation key that is refused was good a moment ago: then the list is read from its beginning.
_LATER = frozenset({"ASPSP_ERROR", "ASPSP_TIMEOUT", RATE_LIMIT, "WRONG_CONTINUATION_KEY"})
# What is not in any of the tables is an error of this one attempt.
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
# What the person's return says instead of a code.
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
    # What became of the wish to cancel, while the payment goes on.
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
# Which balance is the account's: booked before available, of today before of yesterday evening.
BALANCES = ("ITBD", "CLBD", "XPCD", "ITAV", "CLAV", "VALU", "PRCD", "OPBD", "OPAV", "FWAV", "OTHR", "INFO")


def failure(status: int, refusal: Refusal) -> ProviderRefused | ProviderDown:
    """Returns what to raise for an answer with this status."""
    code = refusal.error or ""
    said = _said(refusal) or f"HTTP status {status}"
    if code in _OURS or (status == 401 and code not in _CLASSES):
        return ProviderDown(
            f"Enable Banking refuses this installation: {said}.", operator=f"enable_banking: {status} {said}"
        )
    if code in _LATER or (code not in _CLASSES and (status in (408, 425, 429) or status >= 500)):
        return ProviderDown(f"Enable Banking, or the bank behind it, cannot answer now: {said}.")
    if _CLASSES.get(code) == PERSON_NEEDED:
        return PersonNeeded(said)
    return ProviderRefused(_CLASSES.get(code, "ProviderError"), said, code or None)


def not_created(refusal: Refusal, status: int) -> ProviderRefused:
    """What to raise if a payment was refused: nobody has an address to authorise it at."""
    code = refusal.error or ""
    return ProviderRefused(_CLASSES.get(code, "PaymentFailed"), _said(refusal) or f"HTTP status {status}", code or None)


def session_failure(status: str) -> ProviderRefused | ProviderDown:
    """What to raise for a session that is not authorised."""
    error_class = _SESSIONS.get(status)
    if error_class is None:
        return ProviderDown(f"The session at Enable Banking is {status[:40]}.")
    said = f"The session at Enable Banking is {status}"
    return PersonNeeded(said) if error_class == PERSON_NEEDED else ProviderRefused(error_class, said, status)


def return_failure(error: str, description: str) -> tuple[str, str]:
    """Class and words of a return without a code."""
    said = " ".join(filter(None, (error, description)))[:300].rstrip(". ")
    return _RETURNS.get(error.lower(), "ProviderError"), said or "The bank did not say why"


def payment_report(status: str, reason: Reason | None) -> PaymentReport:
    """A status that is not in the table is neither success nor failure."""
    code = status.upper()[:20]
    found = PAYMENTS.get(code)
    if found not in ("failed", "rejected"):
        return PaymentReport(found, code)
    error_class = CANCELLED if code in _CANCELLED else (reason.status_reason_code if reason else "") or "PaymentFailed"
    message = (reason.status_reason_description if reason else "") or f"The bank reports {code}"
    return PaymentReport(found, code, error_class[:100], message[:500])


def _said(refusal: Refusal) -> str:
    """Their words, without a stop at the end. Not `detail`, which may repeat what was sent."""
    text = refusal.message.strip().rstrip(".")[:300]
    return f"{text} ({refusal.error[:60]})" if refusal.error and text else text or (refusal.error or "")[:60]
