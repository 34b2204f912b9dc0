"""The statuses of a payment: which may follow which, and what banks' own codes mean. Pure data and decisions."""

from __future__ import annotations

from typing import Literal

from kontobahn.banking.provider import PayeeResult, PaymentReport, PaymentStatus

Outcome = Literal["moved", "noted", "repeated", "stale", "contradicts", "not understood"]

# Choice 27: what may follow what, as data. Steps may be skipped; nothing goes back except to one more confirmation; nothing
# follows a final status.
_LATE: tuple[PaymentStatus, ...] = ("settled", "failed", "rejected")
TRANSITIONS: dict[PaymentStatus, tuple[PaymentStatus, ...]] = {
    "initiated": ("initiated_info_required", "authorizing", "authorized", "processing", "executed", *_LATE),
    "initiated_info_required": ("authorizing", "authorized", "processing", "executed", *_LATE),
    "authorizing": ("initiated_info_required", "authorized", "processing", "executed", *_LATE),
    "authorized": ("processing", "executed", *_LATE),
    "processing": ("executed", *_LATE),
    "executed": _LATE,
    "settled": (),
    "failed": (),
    "rejected": (),
}
FINAL: frozenset[PaymentStatus] = frozenset(status for status, following in TRANSITIONS.items() if not following)
AWAITING_PAYER: frozenset[PaymentStatus] = frozenset({"initiated", "initiated_info_required", "authorizing"})

# Choice 27: what an ISO 20022 code means once the payer has authorised. Any other code is neither success nor failure.
STATUS_BY_ISO_CODE: dict[str, PaymentStatus] = {
    "RCVD": "authorized",
    "PDNG": "processing",
    "PATC": "authorizing",
    "ACTC": "authorized",
    "ACCP": "authorized",
    "ACFC": "authorized",
    "ACWC": "authorized",
    "ACSP": "processing",
    "BLCK": "processing",
    "ACWP": "executed",
    "ACSC": "executed",
    "ACCC": "settled",
    "RJCT": "rejected",
    "CANC": "failed",
}


# Choice 46: checks of payees are reported with codes of their own, which are no status of the payment.
PAYEE_RESULT_BY_CODE: dict[str, PayeeResult] = {
    "RCVC": "match",
    "RVMC": "close_match",
    "RVNM": "no_match",
    "RVNA": "not_possible",
}
# Until the bank has begun, a check may still matter.
CHECKS_COUNT: frozenset[PaymentStatus] = AWAITING_PAYER | {"authorized"}


def outcome_of(report: PaymentReport, status: PaymentStatus, raw_status: str | None) -> Outcome:
    """Decides what a report does to a payment with this status and this last code of the bank."""
    has_new_code = report.raw_status is not None and report.raw_status != raw_status
    if report.status is None:
        # A status that we cannot interpret never becomes success or failure.
        return "noted" if has_new_code and status not in FINAL else "not understood"
    if report.status == status:
        return "noted" if has_new_code else "repeated"
    if status in FINAL:
        return "contradicts" if report.status in FINAL else "stale"
    return "moved" if report.status in TRANSITIONS[status] else "stale"
