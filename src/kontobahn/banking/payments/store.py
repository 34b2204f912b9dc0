"""The rows of payments and of what was reported on them; and `apply`, the one entry point through which a report changes a payment.

Creation, webhook, poll, imported file and booked debit all go through it: status, credits, history and event change together
or not at all. Which change is allowed is decided in `rules.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any, Literal, NamedTuple

import msgspec

from kontobahn import credits, log
from kontobahn.access import audit, organizations
from kontobahn.access.principal import Principal, ask_in_scope, in_scope
from kontobahn.api.request_log import charge_later
from kontobahn.banking.connections import accounts
from kontobahn.banking.payments.rules import AWAITING_PAYER, CHECKS_COUNT, FINAL, outcome_of
from kontobahn.banking.payments.wire import EVERYTHING, OrderWarning, PaymentEvent, PaymentsQuery
from kontobahn.banking.provider import (
    CANCELLED,
    OrderFile,
    PayeeFinding,
    PayeeResult,
    PaymentOrder,
    PaymentReport,
    PaymentStart,
    PaymentStatus,
    Template,
)
from kontobahn.banking.wire import EVENTS, LOOKED_THROUGH, PayeeCheck, PaymentPayeeCheck, Word, fits
from kontobahn.clock import HOUR, MINUTE, end_of_day, optional_datetime, start_of_day, to_datetime
from kontobahn.db import Rounds, Table, Tx, chunked, short_read
from kontobahn.errors import Conflict, NotFound
from kontobahn.money import amount_text
from kontobahn.sentences import said
from kontobahn.webhooks.outbox import emit


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
    idempotency_fingerprint: str | None
    next_poll_at: int | None
    polls: int
    order_taken_at: int | None
    order_file_id: int | None
    # The key it was made with: the first one of its row of rotations.
    first_key_id: str | None
    created_at: int
    updated_at: int
    # 1 until a process is about to send it to the bank.
    unsent: int = 0
    # The last time its order was issued as a file by itself, if not the first time.
    order_issued_at: int | None = None
    # The last check of the payee that was reported; None if none was.
    payee_result: PayeeResult | None = None
    payee_submitted_name: str | None = None
    payee_returned_name: str | None = None
    payee_source: str | None = None
    payee_checked_at: int | None = None
    # The second person's release: waited for, or given; None if it needed none.
    release_state: Literal["waiting", "released"] | None = None
    release_limit_minor: int | None = None
    release_expires_at: int | None = None
    # The person who made it, also by a key of theirs; None for a key of nobody.
    maker_user_id: str | None = None
    released_by: str | None = None
    released_at: int | None = None

    @property
    def waits_for_release(self) -> bool:
        return self.release_state == "waiting" and self.status not in FINAL

    @property
    def ordered_at(self) -> int:
        """The moment from which it might be sent to the bank."""
        return self.released_at or self.created_at


PAYMENTS = Table("banking_payments", PaymentRow)
_FINAL = tuple(sorted(FINAL))
_IS_UNDER_WAY = f"status NOT IN ({', '.join('?' * len(_FINAL))})"
# A search reads this many payments at a time.
_CHUNK = 500
_LAST = 2**62


def get(tx: Tx, organization_id: str, payment_id: int) -> PaymentRow:
    row = PAYMENTS.one(tx, "organization_id = ? AND id = ?", organization_id, payment_id)
    if row is None:
        raise NotFound("Payment not found.")
    return row


def is_at_bank(tx: Tx, row: PaymentRow) -> bool:
    """Returns whether the payment is in a file that was sent to the bank by us."""
    found = tx.one(
        "SELECT 1 FROM banking_order_files WHERE organization_id = ? AND id = ? AND submitted_at IS NOT NULL",
        row.organization_id, row.order_file_id or 0,
    )  # fmt: skip
    return found is not None


def lock(tx: Tx, organization_id: str, payment_id: int) -> None:
    """Serialises what is decided about one payment."""
    tx.lock("banking_payment", organization_id, str(payment_id))


def claim_sending(tx: Tx, organization_id: str, payment_id: int) -> bool:
    """Returns whether the caller is the one who may send this payment to the bank, or ensure that nobody does.

    In the UPDATE: of all processes and for all time, one gets it.
    """
    return bool(
        tx.run(
            "UPDATE banking_payments SET unsent = 0"
            " WHERE organization_id = ? AND id = ? AND unsent = 1 AND status = 'initiated'"
            " AND COALESCE(release_state, 'released') = 'released'",
            organization_id, payment_id,
        )
    )  # fmt: skip


@short_read
def find(principal: Principal, payment_id: str) -> Rounds[PaymentRow]:
    return ask_in_scope(PAYMENTS, principal, "Payment", int(payment_id))


def by_provider_ref(tx: Tx, provider: str, provider_ref: str) -> PaymentRow | None:
    return PAYMENTS.one(tx, "provider = ? AND provider_ref = ?", provider, provider_ref)


def ordered_since(tx: Tx, organization_id: str, account_id: int, since: int, limit: int) -> list[PaymentRow]:
    """The latest payments that were ordered from an account, but for those that failed."""
    return PAYMENTS.all(
        tx,
        "organization_id = ? AND account_id = ? AND created_at >= ? AND status NOT IN ('failed', 'rejected')"
        " ORDER BY created_at DESC, id DESC LIMIT ?",
        organization_id, account_id, since, limit,
    )  # fmt: skip


def by_end_to_end_id(tx: Tx, organization_id: str, end_to_end_id: str) -> PaymentRow | None:
    return PAYMENTS.one(tx, "organization_id = ? AND end_to_end_id = ?", organization_id, end_to_end_id)


def final_among(tx: Tx, organization_id: str, payment_ids: Iterable[int]) -> dict[int, PaymentStatus]:
    """Returns the statuses of those of these payments that are final."""
    return {
        int(payment_id): status
        for some, is_one in chunked(payment_ids)
        for payment_id, status in tx.all(
            f"SELECT id, status FROM banking_payments WHERE organization_id = ? AND id {is_one}"
            f" AND status IN ({', '.join('?' * len(_FINAL))})",
            organization_id, *some, *_FINAL,
        )
    }  # fmt: skip


def listing(tx: Tx, principal: Principal, query: PaymentsQuery) -> list[PaymentRow]:
    organizations = principal.organizations(query.organization_id)
    where, params = [in_scope(len(organizations))], list[object](organizations)

    def only(condition: str, value: object) -> None:
        where.append(condition)
        params.append(value)

    if query.connection_id not in (None, EVERYTHING):
        _check_known(tx, principal, "Connection", "connection_id", "banking_connections", query.connection_id)
        only("connection_id = ?", query.connection_id)
    if query.account_id is not None and query.account_id != EVERYTHING:
        account_id = accounts.present_id(tx, principal, int(query.account_id))
        _check_known(tx, principal, "Account", "account_id", "banking_accounts", account_id)
        only("account_id = ?", account_id)
    if query.from_date is not None:
        only("created_at >= ?", start_of_day(query.from_date))
    if query.to_date is not None:
        only("created_at < ?", end_of_day(query.to_date))
    if query.from_id is not None:
        only("id > ?", int(query.from_id))
    if query.payee_check is not None:
        only("COALESCE(payee_result, 'not_asked') = ?", query.payee_check)
    order = "id" if query.sort == "id" else "created_at DESC, id DESC"
    limit = " LIMIT ?" if query.limit else ""
    if query.limit:
        # Walked by id, one row more tells whether there is a next page.
        params.append(int(query.limit) + (query.sort == "id"))
    return PAYMENTS.all(tx, f"{' AND '.join(where)} ORDER BY {order}{limit}", *params)


def ids_of_account(tx: Tx, organization_id: str, account_id: int) -> list[int]:
    rows = tx.all(
        "SELECT id FROM banking_payments WHERE organization_id = ? AND account_id = ? ORDER BY id",
        organization_id, account_id,
    )  # fmt: skip
    return [number for (number,) in rows]


def move_to_account(tx: Tx, organization_id: str, payment_ids: Iterable[int], account_id: int) -> None:
    """Says that these were made from another account, which is the same one at the bank."""
    tx.many(
        "UPDATE banking_payments SET account_id = ? WHERE organization_id = ? AND id = ?",
        [(account_id, organization_id, number) for number in payment_ids],
    )


def move_of_connections(
    tx: Tx, organization_id: str, connection_ids: Iterable[str], before: int, after: int, *, since: int
) -> None:
    """The same for what was made by these connections since an instant."""
    tx.many(
        "UPDATE banking_payments SET account_id = ? WHERE organization_id = ? AND account_id = ? AND connection_id = ?"
        " AND created_at >= ?",
        [(after, organization_id, before, connection_id, since) for connection_id in connection_ids],
    )


def _check_known(tx: Tx, principal: Principal, what: str, column: str, table: str, wanted: object) -> None:
    """Raises NotFound if a filter names nothing that exists or that payments still refer to."""
    scope = in_scope(len(principal.scope))
    if tx.one(f"SELECT 1 FROM {table} WHERE {scope} AND id = ?", *principal.scope, wanted):
        return
    if not tx.one(f"SELECT 1 FROM banking_payments WHERE {scope} AND {column} = ? LIMIT 1", *principal.scope, wanted):
        raise principal.missing(what)


def history(tx: Tx, principal: Principal, payment_id: str) -> list[PaymentEvent]:
    """Returns what was reported on a payment, in order of arrival."""
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


def as_order(tx: Tx, row: PaymentRow) -> PaymentOrder:
    """Returns the order in the form that providers accept."""
    # A payment outlives its connection; then the payer is known by the organisation's name only.
    connection_ref, account_ref, holder_name = tx.one(
        "SELECT c.provider_ref, COALESCE(d.provider_ref, ''), a.holder_name FROM banking_connections c"
        " LEFT JOIN banking_account_sources d ON d.organization_id = c.organization_id AND d.connection_id = c.id"
        " AND d.account_id = ? LEFT JOIN banking_accounts a ON a.organization_id = d.organization_id AND a.id = d.account_id"
        " WHERE c.organization_id = ? AND c.id = ? ORDER BY d.provider_ref LIMIT 1",
        row.account_id, row.organization_id, row.connection_id,
    ) or ("", "", None)  # fmt: skip
    details = msgspec.json.decode(row.order_details, type=dict[str, object])
    return_to = details.pop("return_to", None)
    return PaymentOrder(
        end_to_end_id=row.end_to_end_id,
        connection_ref=connection_ref,
        account_ref=account_ref,
        template_identifier=row.template_identifier,
        amount_minor=row.amount_minor,
        currency_code=row.currency_code,
        creditor_name=row.creditor_name,
        creditor_iban=row.creditor_iban,
        debtor_name=organizations.get(tx, row.organization_id).name if holder_name is None else holder_name,
        debtor_iban=row.debtor_iban,
        description=row.description,
        reference=row.reference,
        details=details,
        return_to=return_to if isinstance(return_to, str) else None,
        customer_ip_address=row.customer_ip_address,
        created_at=row.ordered_at,
    )


def order_warnings(file: OrderFile, rows: Sequence[PaymentRow], today: date) -> list[OrderWarning]:
    """Returns what to know before a file with these orders is uploaded."""
    warnings = []
    if len(rows) == 1:
        warnings.append(
            OrderWarning(
                "one_payment",
                "Several banks refuse a file with one payment, because the payee of a single one must be checked: put several orders"
                " into one file, or enter this one in online banking.",
            )
        )
    if file.first_day < today:
        warnings.append(
            OrderWarning(
                "day_passed",
                said(
                    "The file is for {day}, which has passed, so banks refuse it. Fetched again, it is for today and has the same"
                    " ids. Upload it only if the first one was not uploaded.",
                    day=file.first_day.isoformat(),
                ),
            )
        )
    warnings += [
        OrderWarning("left_out", said("A file has no place for `{field}`: the bank does not learn it.", field=field))
        for row in rows
        for field in file.left_out.get(row.end_to_end_id, ())
    ]
    return warnings


# --- Reports


END_TO_END_PREFIX = "KB"
# The source of a report that we asked for ourselves.
POLL = "asked"
PAYEE_EVENT = "payment.payee_check"
# A payment is polled this long after its last change: soon at first, then less and less often.
POLL_AFTER = (MINUTE, 2 * MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR)
_AUDIT_ACTOR = audit.Actor("bank")


def apply(tx: Tx, organization_id: str, payment_id: int, report: PaymentReport, source: str) -> PaymentRow:
    """Applies a report: moves the payment, or records why not. Returns the payment as it is afterwards."""
    lock(tx, organization_id, payment_id)
    row = get(tx, organization_id, payment_id)
    if report.payee is not None:
        row = _note_payee(tx, row, report.payee, source)
        if report.status is None and report.raw_status is None:
            return row
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
    if report.is_last and row.next_poll_at is not None:
        row = PAYMENTS.update(tx, row, next_poll_at=None)
    if outcome == "moved" and row.status == "executed" and _has_booked_debit(tx, row):
        return apply(tx, organization_id, payment_id, PaymentReport("settled", row.raw_provider_status), "booked debit")
    return row


def _note_payee(tx: Tx, row: PaymentRow, finding: PayeeFinding, source: str) -> PaymentRow:
    """Notes a check of the payee beside the status, which it never changes. Once the bank has begun, it comes too late."""
    submitted = finding.submitted_name or row.creditor_name
    known = (row.payee_result, row.payee_submitted_name, row.payee_returned_name)
    if row.status not in CHECKS_COUNT or known == (finding.result, submitted, finding.returned_name):
        return row
    row = PAYMENTS.update(
        tx, row, payee_result=finding.result, payee_submitted_name=submitted, payee_returned_name=finding.returned_name,
        payee_source=source, payee_checked_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    checked = PaymentPayeeCheck(payment_id=str(row.id), payee_check=payee_check(row))
    if row.custom_fields is not None:
        checked.custom_fields = msgspec.Raw(row.custom_fields.encode())  # type: ignore[assignment]
    emit(tx, row.organization_id, PAYEE_EVENT, f"payment:{row.id}", checked)
    return row


def payee_check(row: PaymentRow) -> PayeeCheck:
    return PayeeCheck(
        result=row.payee_result or "not_asked", submitted_name=row.payee_submitted_name,
        returned_name=row.payee_returned_name, source=row.payee_source,
        checked_at=optional_datetime(row.payee_checked_at),
    )  # fmt: skip


def take_payee_name(tx: Tx, row: PaymentRow, actor: audit.Actor) -> None:
    """Keeps the name that the bank returned as that of the account's holder, for payments to come. Raises Conflict without one."""
    if row.payee_result != "close_match" or row.payee_returned_name is None:
        raise Conflict("The bank has not returned another name of this payee.")
    tx.run(
        "INSERT INTO banking_payees (organization_id, iban, name, taken_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (organization_id, iban) DO UPDATE SET name = excluded.name, taken_at = excluded.taken_at",
        row.organization_id, row.creditor_iban, row.payee_returned_name, tx.now,
    )  # fmt: skip
    audit.record(
        tx, row.organization_id, actor, "payment.take_payee_name", str(row.id),
        iban=row.creditor_iban, old=row.creditor_name, new=row.payee_returned_name,
    )  # fmt: skip


def payee_name(tx: Tx, organization_id: str, iban: str) -> str | None:
    """Returns the name of an account's holder that a bank has reported and somebody has accepted."""
    row = tx.one("SELECT name FROM banking_payees WHERE organization_id = ? AND iban = ?", organization_id, iban)
    return None if row is None else str(row[0])


def apply_start(tx: Tx, row: PaymentRow, start: PaymentStart, source: str) -> PaymentRow:
    """Stores that the provider accepted the order, with the payer's address, and applies its first report."""
    lock(tx, row.organization_id, row.id)
    tx.run(
        "UPDATE banking_payments SET provider_ref = ?, payment_url = ?, expires_at = ?, unsent = 0"
        " WHERE organization_id = ? AND id = ? AND provider_ref IS NULL",
        start.provider_ref, start.payment_url, start.expires_at, row.organization_id, row.id,
    )  # fmt: skip
    return apply(tx, row.organization_id, row.id, start.report, source)


# Choice 27: a posted debit with the same end-to-end id and amount settles an executed payment.
def find_paid(
    tx: Tx, organization_id: str, account_id: int, iban: str | None, end_to_end_id: str | None, amount_minor: int
) -> int | None:
    """Returns the id of the payment that a debit on this account belongs to."""
    if amount_minor >= 0 or end_to_end_id is None or not end_to_end_id.startswith(END_TO_END_PREFIX):
        return None
    row = tx.one(
        "SELECT id FROM banking_payments WHERE organization_id = ? AND end_to_end_id = ? AND (account_id = ? OR debtor_iban = ?)",
        organization_id, end_to_end_id, account_id, iban or "",
    )  # fmt: skip
    return None if row is None else int(row[0])


def apply_debits(tx: Tx, organization_id: str, debits: Iterable[tuple[int, int]]) -> None:
    """Settles the payments (id, amount of the debit) whose debits the bank has booked, where the debit decides that.

    Called once the debits are written: a report of `executed` that waits for the lock finds them.
    """
    ordered = sorted(debits)
    # All locks first and in one order: two transactions with several payments each would deadlock over the credits.
    for payment_id in dict.fromkeys(payment_id for payment_id, _ in ordered):
        lock(tx, organization_id, payment_id)
    for payment_id, amount_minor in ordered:
        _apply_debit(tx, organization_id, payment_id, amount_minor)


def _apply_debit(tx: Tx, organization_id: str, payment_id: int, amount_minor: int) -> None:
    """Also notes the debit of a payment that has ended otherwise."""
    row = get(tx, organization_id, payment_id)
    if row.amount_minor != -amount_minor or row.status == "settled":
        return
    # Nobody knows what became of an order without an answer, until its debit is booked.
    is_unanswered = row.provider_ref is None
    if row.status in FINAL or row.status == "executed" or row.debit_settles or is_unanswered:
        apply(tx, organization_id, payment_id, PaymentReport("settled", row.raw_provider_status), "booked debit")


def _has_booked_debit(tx: Tx, row: PaymentRow) -> bool:
    found = tx.one(
        # In this order: an organisation has few accounts, and an account has many transactions.
        "SELECT 1 FROM banking_accounts a CROSS JOIN banking_transactions t WHERE a.organization_id = ? AND (a.id = ? OR a.iban = ?)"
        " AND t.account_id = a.id AND t.end_to_end_id = ? AND t.amount_minor = ? AND t.status = 'posted'",
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
        charge_later(tx, row.payer_organization_id, row.hold_id)
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


def count_under_way(tx: Tx, organization_id: str) -> int:
    """Returns how many payments of this organisation, ordered or paid by it, are not final."""
    row = tx.one(
        "SELECT COUNT(*) FROM banking_payments WHERE (organization_id = ? OR payer_organization_id = ?)"
        f" AND {_IS_UNDER_WAY}",
        organization_id, organization_id, *_FINAL,
    )  # fmt: skip
    return int(row[0]) if row else 0


def under_way(tx: Tx, organization_id: str, provider: str, limit: int) -> list[PaymentRow]:
    """Payments that this provider has and that are not final, the latest first."""
    return PAYMENTS.all(
        tx,
        f"organization_id = ? AND provider = ? AND provider_ref IS NOT NULL AND {_IS_UNDER_WAY}"
        " ORDER BY created_at DESC, id DESC LIMIT ?",
        organization_id, provider, *_FINAL, limit,
    )  # fmt: skip


def remove_of_provider(tx: Tx, organization_id: str, provider: str) -> int:
    """Removes the payments at a provider whose money is not real, and returns how many. What is under way fails first, which
    gives its credits back."""
    condition = "organization_id = ? AND provider = ?"
    for row in PAYMENTS.all(tx, f"{condition} AND {_IS_UNDER_WAY} ORDER BY id", organization_id, provider, *_FINAL):
        apply(tx, organization_id, row.id, PaymentReport("failed", error_class=CANCELLED), "removal")
    tx.run(
        "DELETE FROM banking_payment_reports WHERE organization_id = ? AND payment_id IN"
        f" (SELECT id FROM banking_payments WHERE {condition})",
        organization_id, organization_id, provider,
    )  # fmt: skip
    return tx.run(f"DELETE FROM banking_payments WHERE {condition}", organization_id, provider)


# --- As people look for them

STATES: dict[str, frozenset[str]] = {
    "waiting": frozenset(AWAITING_PAYER),
    "underway": frozenset({"authorized", "processing", "executed"}),
    "settled": frozenset({"settled"}),
    "failed": frozenset({"failed", "rejected"}),
}


class Key(NamedTuple):
    created_at: int
    id: int


class PaymentSearch(NamedTuple):
    since: date | None = None
    until: date | None = None
    state: str = ""
    account_id: str = ""
    words: Sequence[Word] = ()
    # The last one of the page before.
    after: Key | None = None


class FoundPayments(NamedTuple):
    rows: list[PaymentRow]
    # The place where the search stopped, if it did not get to the end.
    stopped_at: Key | None


def search(tx: Tx, organization_id: str, wanted: PaymentSearch, limit: int) -> FoundPayments:
    """The latest first, with a bound on what is looked through."""
    since = start_of_day(wanted.since) if wanted.since else 0
    before = wanted.after or Key(end_of_day(wanted.until) if wanted.until else _LAST, 0)
    found: list[PaymentRow] = []
    size = limit
    for _ in range(LOOKED_THROUGH // _CHUNK + 2):
        rows = PAYMENTS.all(
            tx, "organization_id = ? AND created_at >= ? AND (created_at, id) < (?, ?)"
            " ORDER BY created_at DESC, id DESC LIMIT ?",
            organization_id, since, *before, size,
        )  # fmt: skip
        found += [row for row in rows if _fits(row, wanted)]
        if len(found) >= limit or len(rows) < size:
            return FoundPayments(found[:limit], None)
        before, size = Key(rows[-1].created_at, rows[-1].id), _CHUNK
    return FoundPayments(found, before)


def _fits(row: PaymentRow, wanted: PaymentSearch) -> bool:
    if wanted.state and row.status not in STATES.get(wanted.state, ()):
        return False
    if wanted.account_id and str(row.account_id) != wanted.account_id:
        return False
    if not wanted.words:
        return True
    texts = (row.creditor_name, row.creditor_iban, row.description, row.reference, row.end_to_end_id)
    return fits(wanted.words, texts, row.amount_minor, str(row.id))


# --- Events, with exactly the contract's fields, in the transaction of the change they report


def emit_payment_changed(tx: Tx, row: PaymentRow) -> None:
    """Emits `payment_progress` for an extra confirmation, `payment_update` for every other status."""
    data: dict[str, Any] = {"payment_id": str(row.id), "status": row.status}
    event = "payment_progress"
    if row.status != "initiated_info_required":
        event = "payment_update"
        data |= {
            "raw_provider_status": row.raw_provider_status,
            "template_identifier": row.template_identifier,
            "payment_attributes": {
                "amount": amount_text(row.amount_minor),
                "currency_code": row.currency_code,
                "description": row.description,
                "creditor_iban": row.creditor_iban,
                "creditor_name": row.creditor_name,
                "debtor_iban": row.debtor_iban,
                "end_to_end_id": row.end_to_end_id,
                "customer_ip_address": row.customer_ip_address,
            },
        }
    if row.custom_fields is not None:
        data["custom_fields"] = msgspec.Raw(row.custom_fields)
    emit(tx, row.organization_id, event, f"payment:{row.id}", EVENTS[event](**data))
