"""Status reports of banks (pain.002): which payments each line is about, and whether it is about the payment or its payee.

Banks check payees before an order is released. They report the results in the same kind of file, with codes of their own, and list
a payee that matches often only as a count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kontobahn.banking.payments import order_files
from kontobahn.banking.payments.rules import PAYEE_RESULT_BY_CODE, STATUS_BY_ISO_CODE
from kontobahn.banking.payments.store import apply
from kontobahn.banking.provider import PayeeFinding, PayeeResult, PaymentReport
from kontobahn.db import Tx
from kontobahn.formats.pain.pain002 import MIXED
from kontobahn.formats.statements import ReportedStatus, StatementError, StatementWarning, StatusReport
from kontobahn.sentences import said

MATCH = "RCVC"
_CODE_IN_FRONT = re.compile(rf"^(?:{'|'.join((*PAYEE_RESULT_BY_CODE, MIXED))})\b[\s:;,/-]*")


class Applied(NamedTuple):
    payments: int
    warnings: list[StatementWarning]


def apply_report(tx: Tx, organization_id: str, report: StatusReport) -> Applied:
    """Applies what a report says to its payments. Others' payments among them are left out.

    Raises StatementError if it reports on none of this organisation's.
    """
    unknown: list[StatementWarning] = []
    # A status of an instruction or an order itself counts more than what is said of the file around it, and comes later.
    latest: dict[int, ReportedStatus] = {}
    mixed: list[tuple[ReportedStatus, list[int]]] = []
    for item in report.items:
        found = order_files.reported_on(tx, organization_id, item)
        if not found:
            unknown.append(_unknown(report, item))
        elif item.status == MIXED:
            mixed.append((item, found))
        else:
            latest |= dict.fromkeys(found, item)
    if len(unknown) == len(report.items):
        raise StatementError(unknown[0].found, file=report.file, place=unknown[0].place)
    for item, found in mixed:
        matched, warning = _counted_as_match(item, found, latest)
        latest |= dict.fromkeys(matched, item._replace(status=MATCH, reasons=()))
        unknown += [warning] if warning is not None else []
    is_about_payees = any(item.status == MIXED or _payee_code(item) is not None for item in report.items)
    for payment_id, item in latest.items():
        reported = _report(item, is_about_payees=is_about_payees)
        apply(tx, organization_id, payment_id, reported, f"pain.002 {report.message_id}")
    return Applied(len(latest), unknown)


def _unknown(report: StatusReport, item: ReportedStatus) -> StatementWarning:
    name = (item.end_to_end_id or "") if item.level == "transaction" else report.original_message_id
    sentence = said("It reports on “{name}”, which is not a payment of this organisation.", name=name)
    return StatementWarning(f"line {item.line}", sentence, "This report was left out.")


def _counted_as_match(
    item: ReportedStatus, found: Sequence[int], latest: dict[int, ReportedStatus]
) -> tuple[list[int], StatementWarning | None]:
    """Returns the payments of a level that are not listed, if the counts say that each of them matches; else a warning."""
    listed = {one: latest[one] for one in found if one in latest and latest[one].level == "transaction"}
    rest = [one for one in found if one not in listed]
    counts = dict(item.counts)
    matches = counts.get(MATCH, 0) - sum(_payee_code(one) == MATCH for one in listed.values())
    if not rest or (sum(counts.values()) == len(found) and matches == len(rest)):
        return rest, None
    sentence = said(
        "It lists {listed} of {all} payments and counts {matches} more that match.",
        listed=str(len(listed)), all=str(len(found)), matches=str(max(0, matches)),
    )  # fmt: skip
    return [], StatementWarning(f"line {item.line}", sentence, "Payments that are not listed count as not checked.")


def _payee_code(item: ReportedStatus) -> str | None:
    """The code of a check of the payee: as the status, or as the reason beside one that says nothing new."""
    return next(
        (code for code in (item.status, *(reason.code for reason in item.reasons)) if code in PAYEE_RESULT_BY_CODE),
        None,
    )


def _report(item: ReportedStatus, *, is_about_payees: bool) -> PaymentReport:
    status, reason = STATUS_BY_ISO_CODE.get(item.status), item.reasons[0] if item.reasons else None
    code = _payee_code(item)
    payee = None if code is None else _finding(item, PAYEE_RESULT_BY_CODE[code])
    if payee is None and is_about_payees and item.status == "PDNG":
        # The bank is still checking: the order is not on its way, it has not even been released.
        payee = _finding(item, "pending")
    if payee is not None and status not in ("rejected", "failed"):
        return PaymentReport(None, payee=payee)
    return PaymentReport(status, item.status, reason and reason.code, reason and reason.text, payee=payee)


def _finding(item: ReportedStatus, result: PayeeResult) -> PayeeFinding:
    texts = [reason.text for reason in item.reasons if reason.text] if result == "close_match" else []
    returned = _CODE_IN_FRONT.sub("", texts[0]).strip() if texts else ""
    return PayeeFinding(result, item.creditor_name, returned or None)
