"""`apply`: the one entry point through which a report changes a payment.

Creation, webhook, poll, imported file and booked debit all go through it: status, credits, history and event change together
or not at all. Which change is allowed is decided in `transitions.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kontobahn import credits, log
from kontobahn.access import audit
from kontobahn.banking.accounts import AccountRow
from kontobahn.banking.payments import store
from kontobahn.banking.payments.store import PAYMENTS, PaymentRow, emit_payment_changed
from kontobahn.banking.payments.transitions import FINAL, outcome_of
from kontobahn.banking.provider import PaymentReport, PaymentStart
from kontobahn.clock import HOUR, MINUTE
from kontobahn.db import Tx

END_TO_END_PREFIX = "KB"
# The source of a report that we asked for ourselves.
POLL = "asked"
# How long after its last change a payment is polled: soon at first, then less and less often.
POLL_AFTER = (MINUTE, 2 * MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR)
_AUDIT_ACTOR = audit.Actor("bank")


def apply(tx: Tx, organization_id: str, payment_id: int, report: PaymentReport, source: str) -> PaymentRow:
    """Applies a report: moves the payment, or records why not. Returns the payment as it is afterwards."""
    store.lock(tx, organization_id, payment_id)
    row = store.get(tx, organization_id, payment_id)
    outcome = outcome_of(report, row.status, row.raw_provider_status)
    if outcome == "moved":
        row = _move(tx, row, report)
    elif outcome == "noted":
        row = PAYMENTS.update(tx, row, raw_provider_status=report.raw_status, updated_at=tx.now)
    elif outcome == "contradicts":
        # A final status is never changed silently: a person must look at it.
        audit.record(
            tx, organization_id, _AUDIT_ACTOR, "payment.contradiction", str(payment_id),
            final=row.status, reported=report.status, source=source,
        )  # fmt: skip
        log.warning(
            "payment_contradiction", payment_id=payment_id, final=row.status, reported=report.status, source=source
        )
    if source != POLL or outcome not in ("repeated", "not understood"):
        # Polling again and again must not fill the history with the same answer.
        _record(tx, row, report, source, outcome)
    if outcome == "moved" and row.status == "executed" and _has_booked_debit(tx, row):
        return apply(tx, organization_id, payment_id, PaymentReport("settled", row.raw_provider_status), "booked debit")
    return row


def apply_start(tx: Tx, row: PaymentRow, start: PaymentStart, source: str) -> PaymentRow:
    """Stores that the provider accepted the order, with the payer's address, and applies its first report."""
    store.lock(tx, row.organization_id, row.id)
    tx.run(
        "UPDATE banking_payments SET provider_ref = ?, payment_url = ?, expires_at = ?, unsent = 0"
        " WHERE organization_id = ? AND id = ? AND provider_ref IS NULL",
        start.provider_ref, start.payment_url, start.expires_at, row.organization_id, row.id,
    )  # fmt: skip
    return apply(tx, row.organization_id, row.id, start.report, source)


# Choice 27: a posted debit with the same end-to-end id and amount settles an executed payment.
def find_paid(tx: Tx, account: AccountRow, end_to_end_id: str | None, amount_minor: int) -> int | None:
    """Returns the id of the payment that a debit on this account belongs to."""
    if amount_minor >= 0 or end_to_end_id is None or not end_to_end_id.startswith(END_TO_END_PREFIX):
        return None
    row = tx.one(
        "SELECT id FROM banking_payments WHERE organization_id = ? AND end_to_end_id = ? AND (account_id = ? OR debtor_iban = ?)",
        account.organization_id, end_to_end_id, account.id, account.iban or "",
    )  # fmt: skip
    return None if row is None else int(row[0])


def apply_debits(tx: Tx, organization_id: str, debits: Iterable[tuple[int, int]]) -> None:
    """Settles the payments (id, amount of the debit) whose debits the bank has booked, where the debit decides that.

    Called once the debits are written: a report of `executed` that waits for the lock finds them.
    """
    ordered = sorted(debits)
    # All locks first and in one order: two transactions with several payments each would deadlock over the credits.
    for payment_id in dict.fromkeys(payment_id for payment_id, _ in ordered):
        store.lock(tx, organization_id, payment_id)
    for payment_id, amount_minor in ordered:
        _apply_debit(tx, organization_id, payment_id, amount_minor)


def _apply_debit(tx: Tx, organization_id: str, payment_id: int, amount_minor: int) -> None:
    """Also notes the debit of a payment that has ended otherwise."""
    row = store.get(tx, organization_id, payment_id)
    if row.amount_minor != -amount_minor or row.status == "settled":
        return
    # Nobody knows what became of an order without an answer, until its debit is booked.
    is_unanswered = row.provider_ref is None
    if row.status in FINAL or row.status == "executed" or row.debit_settles or is_unanswered:
        apply(tx, organization_id, payment_id, PaymentReport("settled", row.raw_provider_status), "booked debit")


def _has_booked_debit(tx: Tx, row: PaymentRow) -> bool:
    found = tx.one(
        "SELECT 1 FROM banking_transactions t JOIN banking_accounts a ON a.id = t.account_id"
        " WHERE a.organization_id = ? AND (a.id = ? OR a.iban = ?) AND t.end_to_end_id = ? AND t.amount_minor = ?"
        " AND t.status = 'posted'",
        row.organization_id, row.account_id, row.debtor_iban, row.end_to_end_id, -row.amount_minor,
    )  # fmt: skip
    return found is not None


def _move(tx: Tx, row: PaymentRow, report: PaymentReport) -> PaymentRow:
    is_final = report.status in FINAL
    row = PAYMENTS.update(
        tx, row,
        status=report.status,
        raw_provider_status=report.raw_status or row.raw_provider_status,
        error_class=report.error_class,
        error_message=report.error_message,
        polls=0,
        next_poll_at=None if is_final else tx.now + POLL_AFTER[0],
        updated_at=tx.now,
    )  # fmt: skip
    if is_final:
        _settle_credits(tx, row)
    emit_payment_changed(tx, row)
    return row


def _settle_credits(tx: Tx, row: PaymentRow) -> None:
    if row.hold_id is None:
        return
    if row.status != "settled":
        credits.expire(tx, row.payer_organization_id, row.hold_id)
        return
    try:
        credits.confirm(tx, row.payer_organization_id, row.hold_id)
    except credits.HoldLapsed:
        # It took longer to settle than any reservation is kept; the money has moved all the same.
        log.warning("payment_settled_after_its_reservation", payment_id=row.id)


def _record(tx: Tx, row: PaymentRow, report: PaymentReport, source: str, outcome: str) -> None:
    tx.run(
        "INSERT INTO banking_payment_reports (organization_id, payment_id, position, source, status, raw_provider_status,"
        " error_class, error_message, outcome, at)"
        " SELECT ?, ?, COALESCE(MAX(position), 0) + 1, ?, ?, ?, ?, ?, ?, ? FROM banking_payment_reports"
        " WHERE organization_id = ? AND payment_id = ?",
        row.organization_id, row.id, source, report.status, report.raw_status, report.error_class, report.error_message,
        outcome, tx.now, row.organization_id, row.id,
    )  # fmt: skip
