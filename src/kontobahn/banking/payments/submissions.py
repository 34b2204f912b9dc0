"""Order files sent to the bank by us, each once: over HTTP, and from their page. They wait there until people have signed them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.api.answers import Data
from kontobahn.api.call import Call, Context
from kontobahn.api.declare import get, post
from kontobahn.api.wire import Answer
from kontobahn.banking.payments import order_files, store
from kontobahn.banking.payments.order_files import OrderFileRow
from kontobahn.banking.payments.rules import AWAITING_PAYER, PAYEE_RESULT_BY_CODE, STATUS_BY_ISO_CODE
from kontobahn.banking.payments.store import apply
from kontobahn.banking.provider import (
    Banking,
    BankProvider,
    OrderFile,
    OrderLine,
    PayeeFinding,
    PayeeResult,
    PaymentReport,
    ProviderRefused,
    Submission,
    SubmissionState,
    Template,
)
from kontobahn.banking.wire import NumericId
from kontobahn.clock import berlin_date
from kontobahn.db import Tx
from kontobahn.errors import Conflict, Unavailable
from kontobahn.formats.pain.messages import MIXED
from kontobahn.formats.statements import ReportedStatus, StatementError, StatementWarning, StatusReport
from kontobahn.sentences import said, without_stop


class OrderFileSubmission(Answer):
    order_file_id: str
    # `unknown`: the bank's answer was lost. Nothing is sent again until its protocol, or a person, has said where the file is.
    state: Literal[SubmissionState, "not_sent"]
    order_id: Annotated[str | None, Meta(description="The bank's number of the order.", examples=["N00A"])]
    message: str | None


@post("/v2/banking/order-files/{id}/submission", scope="payments", statuses=(200,), errors=(403, 404, 409))
async def submit_order_file(call: Call, id: NumericId) -> Data[OrderFileSubmission]:
    """Send an order file to the bank, where the account's connection can do so (EBICS).

    It goes there once and unsigned, and waits until people have signed it. A file that the bank has, or may have, is refused.
    """
    file = await call.read(order_files.find, call.principal, id)
    return Data(_shown(file, await submit(call.context, file, call.actor)))


@get("/v2/banking/order-files/{id}/submission", scope=("banking:read", "payments"), errors=(403, 404))
async def get_order_file_submission(call: Call, id: NumericId) -> Data[OrderFileSubmission]:
    """Read what became of an order file that was sent to the bank from here."""
    file = await call.read(order_files.find, call.principal, id)
    return Data(_shown(file, await find(call.context, file)))


def _shown(file: OrderFileRow, found: Submission | None) -> OrderFileSubmission:
    if found is None:
        return OrderFileSubmission(str(file.id), "not_sent", None, None)
    return OrderFileSubmission(str(file.id), found.state, found.order_id or None, found.said or None)


async def find(context: Context, file: OrderFileRow) -> Submission | None:
    """Returns what became of a file; None if nothing was ever sent."""
    provider = context.part(Banking).provider(file.provider)
    return await provider.submission(file.organization_id, file.message_id) if isinstance(provider, OrderLine) else None


async def decide(context: Context, file: OrderFileRow, actor: Actor, *, has_it: bool) -> None:
    """Takes a person's word for a file whose answer was lost. Raises Conflict if it is known, or may soon be, where it is."""
    provider = context.part(Banking).provider(file.provider)
    if not isinstance(provider, OrderLine):
        raise Conflict("Orders from this account are not sent by us: upload the file at the bank.")

    def note(tx: Tx) -> None:
        audit.record(tx, file.organization_id, actor, "order_file.decide", str(file.id), at_bank=has_it)

    try:
        await provider.decide(file.organization_id, file.message_id, note, has_it=has_it)
    except ProviderRefused as error:
        raise Conflict(said("{reason}.", reason=without_stop(str(error)))) from None


async def submit(context: Context, file: OrderFileRow, actor: Actor) -> Submission:
    """Sends a file to its bank, once. Raises Conflict if the bank has it, may have it, or refuses it."""
    provider = context.part(Banking).provider(file.provider)
    if not isinstance(provider, OrderLine):
        raise Conflict("Orders from this account are not sent by us: upload the file at the bank.")
    known = await provider.submission(file.organization_id, file.message_id)
    if known is not None and known.state not in ("refused", "missing"):
        order_files.check_not_at_bank(file._replace(submitted_at=file.created_at))
    claimed, written, ref, template = await context.db.write(_claim, provider, file, actor)
    try:
        return await provider.submit(file.organization_id, ref, written, template)
    except (ProviderRefused, Unavailable) as error:
        # Only if nothing was sent that the bank may have.
        known = await provider.submission(file.organization_id, file.message_id)
        if known is None or known.state in ("refused", "missing"):
            await context.db.write(order_files.not_submitted, file.organization_id, claimed.message_id)
        if isinstance(error, Unavailable):
            raise
        reason = without_stop(str(error))
        raise Conflict(said("The bank did not take the order file: {reason}.", reason=reason)) from None


def _claim(
    tx: Tx, provider: BankProvider, file: OrderFileRow, actor: Actor
) -> tuple[OrderFileRow, OrderFile, str, Template]:
    again = order_files.under_lock(tx, file)
    if again.submitted_at is not None and again.submitted_at > tx.now - order_files.CLAIM_TIME:
        order_files.check_not_at_bank(again)
    for row in order_files.payments_of(tx, again):
        # Nobody cancels it meanwhile.
        store.lock(tx, row.organization_id, row.id)
    rows, orders = order_files.payments_of(tx, again), order_files.orders_of(tx, again)
    for row in rows:
        if row.status not in AWAITING_PAYER:
            raise Conflict(said("The payment {id} is {status}.", id=row.id, status=row.status))
    kinds = {row.template_identifier for row in rows}
    if len(kinds) != 1:
        raise Conflict("Banks take transfers and instant transfers in a file each: make one file of each kind.")
    if order_files.written_file(tx, provider, again).first_day < berlin_date(tx.now):
        again = order_files.ORDER_FILES.update(tx, again, issued_at=tx.now)
    again = order_files.ORDER_FILES.update(tx, again, submitted_at=tx.now)
    audit.record(tx, again.organization_id, actor, "order_file.submit", str(again.id), payments=again.payments)
    return again, order_files.written_file(tx, provider, again), orders[0].connection_ref, kinds.pop()


# Status reports of banks (pain.002): which payments each line is about, and whether it is about the payment or its
# payee.
#
# Banks check payees before an order is released. They report the results in the same kind of file, with codes of their
# own, and list a payee that matches often only as a count.


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
