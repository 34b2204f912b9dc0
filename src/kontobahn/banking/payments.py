"""Payments: how they are kept, and `apply`, the one door through which a report changes one.

Route, webhook, poller, imported file and booked debit all come through `apply`: status, credits and event change together or
not at all. Which change is allowed is a table.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from kontobahn import credits, log
from kontobahn.access import audit
from kontobahn.access.principal import Principal
from kontobahn.access.scope import in_scope
from kontobahn.banking import announce
from kontobahn.banking.accounts import Account
from kontobahn.banking.model import EVERYTHING, Payment, PaymentEvent, PaymentsQuery, PaymentStatus, Template
from kontobahn.banking.provider import PaymentReport, PaymentStart
from kontobahn.clock import HOUR, MINUTE, start_of_day, to_datetime
from kontobahn.db import Tx
from kontobahn.errors import NotFound
from kontobahn.money import to_wire

END_TO_END_PREFIX = "KB"
# The source of a report that we asked for ourselves.
ASKED = "asked"
_AUDIT_ACTOR = audit.Actor("bank")

# Choice 27: what may follow what, as data. Steps may be skipped; nothing goes back but to one more confirmation; a final
# status has no way out.
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
UNFINISHED: frozenset[PaymentStatus] = frozenset({"initiated", "initiated_info_required", "authorizing"})
# After how long a payment that says nothing is asked about: the first times soon, then less and less often.
POLL_AFTER = (MINUTE, 2 * MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR)


class PaymentRow(NamedTuple):
    organization_id: str
    id: int
    provider: str
    provider_ref: str | None
    connection_id: str
    account_id: int
    provider_code: str
    provider_name: str
    status: PaymentStatus
    raw_provider_status: str | None
    error_class: str | None
    error_message: str | None
    template_identifier: Template
    amount_minor: int
    currency_code: str
    creditor_name: str
    creditor_iban: str
    debtor_iban: str
    end_to_end_id: str
    description: str
    reference: str | None
    order_details: str
    custom_fields: str | None
    customer_ip_address: str
    payment_url: str | None
    expires_at: int | None
    payer_organization_id: str
    hold_id: str | None
    debit_settles: int
    idempotency_key: str | None
    next_poll_at: int | None
    polls: int
    created_at: int
    updated_at: int


COLUMNS = ", ".join(PaymentRow._fields)


def wire(row: PaymentRow) -> Payment:
    return Payment(**wire_fields(row))


def wire_fields(row: PaymentRow) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(row, name) for name in Payment.__struct_fields__ if name in row._fields}
    fields |= {
        "id": str(row.id),
        "account_id": str(row.account_id),
        "amount": to_wire(row.amount_minor),
        "created_at": to_datetime(row.created_at),
        "updated_at": to_datetime(row.updated_at),
    }
    del fields["custom_fields"]
    if row.custom_fields is not None:
        fields["custom_fields"] = msgspec.Raw(row.custom_fields.encode())
    return fields


# --- Finding


def get(tx: Tx, organization_id: str, payment_id: int) -> PaymentRow:
    row = tx.one(
        f"SELECT {COLUMNS} FROM banking_payments WHERE organization_id = ? AND id = ?", organization_id, payment_id
    )
    if row is None:
        raise NotFound("Payment not found.")
    return PaymentRow(*row)


def find(tx: Tx, principal: Principal, payment_id: str) -> PaymentRow:
    row = tx.one(
        f"SELECT {COLUMNS} FROM banking_payments WHERE {in_scope(len(principal.scope))} AND id = ?",
        *principal.scope, int(payment_id),
    )  # fmt: skip
    if row is None:
        raise principal.missing("Payment")
    return PaymentRow(*row)


def by_provider_ref(tx: Tx, provider: str, provider_ref: str) -> PaymentRow | None:
    row = tx.one(
        f"SELECT {COLUMNS} FROM banking_payments WHERE provider = ? AND provider_ref = ?", provider, provider_ref
    )
    return None if row is None else PaymentRow(*row)


def by_end_to_end_id(tx: Tx, organization_id: str, end_to_end_id: str) -> PaymentRow | None:
    row = tx.one(
        f"SELECT {COLUMNS} FROM banking_payments WHERE organization_id = ? AND end_to_end_id = ?",
        organization_id, end_to_end_id,
    )  # fmt: skip
    return None if row is None else PaymentRow(*row)


def listing(tx: Tx, principal: Principal, query: PaymentsQuery) -> list[PaymentRow]:
    organizations = principal.organizations(query.organization_id)
    where, params = [in_scope(len(organizations))], list[object](organizations)

    def only(condition: str, value: object) -> None:
        where.append(condition)
        params.append(value)

    if query.connection_id not in (None, EVERYTHING):
        _must_be_known(tx, principal, "Connection", "connection_id", "banking_connections", query.connection_id)
        only("connection_id = ?", query.connection_id)
    if query.account_id is not None and query.account_id != EVERYTHING:
        _must_be_known(tx, principal, "Account", "account_id", "banking_accounts", int(query.account_id))
        only("account_id = ?", int(query.account_id))
    if query.from_date is not None:
        only("created_at >= ?", start_of_day(query.from_date))
    if query.to_date is not None:
        only("created_at < ?", start_of_day(query.to_date + timedelta(days=1)))
    if query.from_id is not None:
        only("id > ?", int(query.from_id))
    order = "id" if query.sort == "id" else "created_at DESC, id DESC"
    limit = " LIMIT ?" if query.limit else ""
    if query.limit:
        params.append(int(query.limit))
    rows = tx.all(
        f"SELECT {COLUMNS} FROM banking_payments WHERE {' AND '.join(where)} ORDER BY {order}{limit}", *params
    )
    return [PaymentRow(*row) for row in rows]


def _must_be_known(tx: Tx, principal: Principal, what: str, column: str, table: str, wanted: object) -> None:
    """A filter that names nothing is refused, not answered with nothing. What is gone is known by its payments."""
    scope = in_scope(len(principal.scope))
    if tx.one(f"SELECT 1 FROM {table} WHERE {scope} AND id = ?", *principal.scope, wanted):
        return
    if not tx.one(f"SELECT 1 FROM banking_payments WHERE {scope} AND {column} = ? LIMIT 1", *principal.scope, wanted):
        raise principal.missing(what)


# --- Changing


def apply(tx: Tx, organization_id: str, payment_id: int, report: PaymentReport, source: str) -> PaymentRow:
    """Take a report on a payment: move it, or note why not. Answers the payment as it is afterwards."""
    tx.lock("banking_payment", organization_id, str(payment_id))
    row = get(tx, organization_id, payment_id)
    outcome = _outcome(row, report)
    if outcome == "moved":
        assert report.status is not None
        row = _move(tx, row, report)
    elif outcome == "noted":
        row = _update(tx, row, raw_provider_status=report.raw_status)
    elif outcome == "contradicts":
        # Never flipped in silence: people must look at it.
        audit.record(
            tx, organization_id, _AUDIT_ACTOR, "payment.contradiction", str(payment_id),
            final=row.status, reported=report.status, source=source,
        )  # fmt: skip
        log.warning(
            "payment_contradiction", payment_id=payment_id, final=row.status, reported=report.status, source=source
        )
    if source != ASKED or outcome not in ("repeated", "not understood"):
        # Whoever asks again and again must not fill the history with the same answer.
        _record(tx, row, report, source, outcome)
    if outcome == "moved" and row.status == "executed" and _has_booked_debit(tx, row):
        return apply(tx, organization_id, payment_id, PaymentReport("settled", row.raw_provider_status), "booked debit")
    return row


def started(tx: Tx, row: PaymentRow, start: PaymentStart, source: str) -> PaymentRow:
    """The provider has taken the order: where the payer goes, and what it says already."""
    tx.lock("banking_payment", row.organization_id, str(row.id))
    tx.run(
        "UPDATE banking_payments SET provider_ref = ?, payment_url = ?, expires_at = ?"
        " WHERE organization_id = ? AND id = ? AND provider_ref IS NULL",
        start.provider_ref, start.payment_url, start.expires_at, row.organization_id, row.id,
    )  # fmt: skip
    return apply(tx, row.organization_id, row.id, start.report, source)


# Choice 27: a posted debit with the same end-to-end id and amount settles an executed payment.
def paid_by(tx: Tx, account: Account, end_to_end_id: str | None, amount_minor: int) -> int | None:
    """The payment that a debit on this account belongs to."""
    if amount_minor >= 0 or end_to_end_id is None or not end_to_end_id.startswith(END_TO_END_PREFIX):
        return None
    row = tx.one(
        "SELECT id FROM banking_payments WHERE organization_id = ? AND end_to_end_id = ? AND (account_id = ? OR debtor_iban = ?)",
        account.organization_id, end_to_end_id, account.id, account.iban or "",
    )  # fmt: skip
    return None if row is None else int(row[0])


def note_debit(tx: Tx, organization_id: str, payment_id: int, amount_minor: int) -> None:
    """The bank has booked it."""
    row = get(tx, organization_id, payment_id)
    if row.amount_minor != -amount_minor or row.status in FINAL:
        return
    if row.status == "executed" or row.debit_settles:
        apply(tx, organization_id, payment_id, PaymentReport("settled", row.raw_provider_status), "booked debit")


def poll_later(tx: Tx, row: PaymentRow) -> None:
    """Asked about now; the next time is further away."""
    wait = POLL_AFTER[min(row.polls, len(POLL_AFTER) - 1)]
    tx.run(
        "UPDATE banking_payments SET polls = polls + 1, next_poll_at = ?"
        " WHERE organization_id = ? AND id = ? AND next_poll_at IS NOT NULL",
        tx.now + wait, row.organization_id, row.id,
    )  # fmt: skip


def _outcome(row: PaymentRow, report: PaymentReport) -> str:
    if report.status is None:
        # An unknown status never becomes success or failure.
        is_news = report.raw_status is not None and report.raw_status != row.raw_provider_status
        return "noted" if is_news and row.status not in FINAL else "not understood"
    if report.status == row.status:
        is_news = report.raw_status is not None and report.raw_status != row.raw_provider_status
        return "noted" if is_news else "repeated"
    if row.status in FINAL:
        return "contradicts" if report.status in FINAL else "stale"
    return "moved" if report.status in TRANSITIONS[row.status] else "stale"


def _move(tx: Tx, row: PaymentRow, report: PaymentReport) -> PaymentRow:
    assert report.status is not None
    is_final = report.status in FINAL
    row = _update(
        tx, row,
        status=report.status,
        raw_provider_status=report.raw_status or row.raw_provider_status,
        error_class=report.error_class,
        error_message=report.error_message,
        polls=0,
        next_poll_at=None if is_final else tx.now + POLL_AFTER[0],
    )  # fmt: skip
    if is_final and row.hold_id is not None:
        _settle_credits(tx, row)
    announce.payment_changed(tx, row)
    return row


def _settle_credits(tx: Tx, row: PaymentRow) -> None:
    assert row.hold_id is not None
    if row.status != "settled":
        credits.expire(tx, row.payer_organization_id, row.hold_id)
        return
    try:
        credits.confirm(tx, row.payer_organization_id, row.hold_id)
    except credits.HoldLapsed:
        # It was settled after longer than any reservation is kept: the money has moved all the same.
        log.warning("payment_settled_after_its_reservation", payment_id=row.id)


def _update(tx: Tx, row: PaymentRow, **values: object) -> PaymentRow:
    values["updated_at"] = tx.now
    assignments = ", ".join(f"{name} = ?" for name in values)
    tx.run(
        f"UPDATE banking_payments SET {assignments} WHERE organization_id = ? AND id = ?",
        *values.values(), row.organization_id, row.id,
    )  # fmt: skip
    return row._replace(**values)  # type: ignore[arg-type]


def _record(tx: Tx, row: PaymentRow, report: PaymentReport, source: str, outcome: str) -> None:
    tx.run(
        "INSERT INTO banking_payment_reports (organization_id, payment_id, position, source, status, raw_provider_status,"
        " error_class, error_message, outcome, at)"
        " SELECT ?, ?, COALESCE(MAX(position), 0) + 1, ?, ?, ?, ?, ?, ?, ? FROM banking_payment_reports"
        " WHERE organization_id = ? AND payment_id = ?",
        row.organization_id, row.id, source, report.status, report.raw_status, report.error_class, report.error_message,
        outcome, tx.now, row.organization_id, row.id,
    )  # fmt: skip


def history(tx: Tx, principal: Principal, payment_id: str) -> list[PaymentEvent]:
    """What was reported on a payment, in the order of arrival."""
    row = find(tx, principal, payment_id)
    return [
        PaymentEvent(
            at=to_datetime(at), source=source, status=status, raw_provider_status=raw, error_class=error_class,
            error_message=error_message, outcome=outcome,
        )
        for at, source, status, raw, error_class, error_message, outcome in tx.all(
            "SELECT at, source, status, raw_provider_status, error_class, error_message, outcome"
            " FROM banking_payment_reports WHERE organization_id = ? AND payment_id = ? ORDER BY position",
            row.organization_id, row.id,
        )
    ]  # fmt: skip


def _has_booked_debit(tx: Tx, row: PaymentRow) -> bool:
    found = tx.one(
        "SELECT 1 FROM banking_transactions t JOIN banking_accounts a ON a.id = t.account_id"
        " WHERE a.organization_id = ? AND (a.id = ? OR a.iban = ?) AND t.end_to_end_id = ? AND t.amount_minor = ?"
        " AND t.status = 'posted'",
        row.organization_id, row.account_id, row.debtor_iban, row.end_to_end_id, -row.amount_minor,
    )  # fmt: skip
    return found is not None
