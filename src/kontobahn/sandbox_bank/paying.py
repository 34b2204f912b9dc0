"""Payments at the sandbox bank: taken, authorised by the payer on a page, then moved on by the bank's clock.

What becomes of one is its plan. Every change queues the report of it.
"""

from __future__ import annotations

import secrets
from datetime import date
from typing import Any, NamedTuple

from kontobahn.banking.payments.transitions import TRANSITIONS
from kontobahn.banking.provider import PaymentOrder, PaymentReport, ProviderRefused, Template
from kontobahn.clock import HOUR, SECOND, berlin_date, berlin_datetime, start_of_day
from kontobahn.db import Tx
from kontobahn.ids import new_id
from kontobahn.sandbox_bank import bank, deliveries, store
from kontobahn.sandbox_bank.people import MESSAGES
from kontobahn.sandbox_bank.plans import PLANS, Plan, Step, choose
from kontobahn.sandbox_bank.texts import Booking, purpose

PAGE_LIFE = HOUR
FINAL = ("settled", "failed", "rejected")


class Payment(NamedTuple):
    ref: str
    token: str
    end_to_end_id: str
    connection_ref: str
    account_ref: str
    template_identifier: Template
    amount_minor: int
    currency_code: str
    creditor_name: str
    creditor_iban: str
    debtor_iban: str
    description: str
    execute_on: str | None
    return_to: str | None
    plan: str
    position: int
    next_at: int | None
    status: str
    raw_status: str
    error_class: str | None
    error_message: str | None
    step: str
    wrong_entries: int
    created_at: int
    expires_at: int


_COLUMNS = ", ".join(Payment._fields)


def _one(tx: Tx, where: str, *params: Any) -> Payment | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM sandbox_payments WHERE {where}", *params)
    return None if row is None else Payment(*row)


def by_ref(tx: Tx, ref: str) -> Payment | None:
    return _one(tx, "ref = ?", ref)


def by_token(tx: Tx, token: str) -> Payment | None:
    return _one(tx, "token = ?", token)


def by_order(tx: Tx, order: PaymentOrder) -> Payment | None:
    return _one(tx, "connection_ref = ? AND end_to_end_id = ?", order.connection_ref, order.end_to_end_id)


def by_any_name(tx: Tx, name: str) -> Payment | None:
    """By the bank's ref, by the end-to-end id, or by the number that the end-to-end id begins with."""
    return _one(tx, "ref = ? OR end_to_end_id = ? OR end_to_end_id LIKE ?", name, name, f"KB{name}-%")


def report(row: Payment) -> PaymentReport:
    # A status that is not in the table is not guessed at.
    status: Any = row.status if row.status in TRANSITIONS else None
    return PaymentReport(status, row.raw_status, row.error_class, row.error_message)


def create(tx: Tx, order: PaymentOrder) -> Payment:
    """Take an order; the same one again is the one that is there."""
    store.begin(tx)
    known = by_order(tx, order)
    if known is not None:
        return known
    connection = store.connection(tx, order.connection_ref)
    account = store.account(tx, order.account_ref)
    if connection is None or connection.status != "open" or account is None or account.connection_ref != connection.ref:
        raise ProviderRefused("ConnectionNotFound", "The bank knows no such connection or account")
    if order.template_identifier not in connection.bank.templates:
        raise ProviderRefused("PaymentTemplateNotSupported", f"The bank has no {order.template_identifier} payments")
    plan = choose(order.creditor_name, order.amount_minor, order.template_identifier)
    if plan.creation == "refused":
        raise ProviderRefused("PaymentFailed", "The bank refused the order", "RJCT")
    row = Payment(
        ref=f"pay_{new_id().replace('-', '')}", token=secrets.token_urlsafe(32), end_to_end_id=order.end_to_end_id,
        connection_ref=connection.ref, account_ref=account.ref, template_identifier=order.template_identifier,
        amount_minor=order.amount_minor, currency_code=order.currency_code, creditor_name=order.creditor_name,
        creditor_iban=order.creditor_iban, debtor_iban=order.debtor_iban, description=order.description,
        execute_on=order.details.get("date"), return_to=order.return_to, plan=plan.name, position=0, next_at=None,
        status="initiated", raw_status="RCVD", error_class=None, error_message=None, step="login", wrong_entries=0,
        created_at=tx.now, expires_at=tx.now + PAGE_LIFE,
    )  # fmt: skip
    tx.run(f"INSERT INTO sandbox_payments ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})", *row)
    return row


# --- The payer


def signed_in(tx: Tx, row: Payment, *, needs_tan: bool) -> Payment:
    """The payer is at the bank."""
    store.begin(tx)
    row = _change(tx, row, step="tan" if needs_tan or PLANS[row.plan].asks_for_more else "confirm", wrong_entries=0)
    if PLANS[row.plan].asks_for_more:
        return _move(tx, row, "initiated_info_required", "PATC")
    return _move(tx, row, "authorizing", "PDNG")


def gave_tan(tx: Tx, row: Payment) -> Payment:
    store.begin(tx)
    row = _change(tx, row, step="confirm", wrong_entries=0)
    return _move(tx, row, "authorizing", "ACTC") if row.status == "initiated_info_required" else row


def wrong_entry(tx: Tx, row: Payment, error_class: str, most: int) -> Payment:
    store.begin(tx)
    row = _change(tx, row, wrong_entries=row.wrong_entries + 1)
    return row if row.wrong_entries < most else give_up(tx, row, error_class, MESSAGES[error_class], "RJCT")


def give_up(tx: Tx, row: Payment, error_class: str, message: str, raw_status: str) -> Payment:
    store.begin(tx)
    return _move(tx, _change(tx, row, step="done"), "failed", raw_status, error_class, message)


def confirm(tx: Tx, row: Payment) -> Payment:
    """Authorised. From here on the bank acts by itself."""
    store.begin(tx)
    row, now = _change(tx, row, step="done"), store.bank_now(tx)
    account = store.account(tx, row.account_ref)
    if account is None or account.balance_minor < row.amount_minor:
        return _move(tx, row, "rejected", "RJCT", "PaymentFailed", "There is not enough money on the account.")
    starts_at, day = now, date.fromisoformat(row.execute_on) if row.execute_on else None
    if day is not None and day > berlin_date(now):
        row, starts_at = _move(tx, row, "authorized", "ACTC"), start_of_day(day)
    first = PLANS[row.plan].steps[0]
    return advance_one(tx, _change(tx, row, next_at=starts_at + first.after_seconds * SECOND), now)


# --- The bank


def advance(tx: Tx, now: int) -> None:
    """Everything whose time has come by the bank's clock."""
    for columns in tx.all(f"SELECT {_COLUMNS} FROM sandbox_payments WHERE next_at <= ? ORDER BY next_at, ref", now):
        advance_one(tx, Payment(*columns), now)


def advance_one(tx: Tx, row: Payment, now: int) -> Payment:
    steps = PLANS[row.plan].steps
    while row.next_at is not None and row.next_at <= now:
        done_at, step = row.next_at, steps[row.position]
        position = row.position + 1
        next_at = None if position == len(steps) else done_at + steps[position].after_seconds * SECOND
        row = _take_step(tx, _change(tx, row, position=position, next_at=next_at), step, done_at)
    return row


def _take_step(tx: Tx, row: Payment, step: Step, at: int) -> Payment:
    if step.books_debit:
        _book_debit(tx, row, at)
    if step.tells_news:
        connection = store.connection(tx, row.connection_ref)
        if connection is not None and connection.status == "open":
            bank.tell_news(tx, connection)
    if step.status is None:
        return row
    if step.is_untrue:
        told = row._replace(status=step.status, raw_status=step.raw_status, error_class=step.error_class)
        _tell(tx, told._replace(error_message=step.error_message))
        return row
    return _move(tx, row, step.status, step.raw_status, step.error_class, step.error_message)


def _book_debit(tx: Tx, row: Payment, at: int) -> None:
    """On the payer's account, under our end-to-end id."""
    account, connection = store.account(tx, row.account_ref), store.connection(tx, row.connection_ref)
    if account is None or connection is None or _is_booked(tx, row):
        return
    text = purpose(connection.bank.style, row.description, EREF=row.end_to_end_id, IBAN=row.creditor_iban)
    extra = {
        "time": f"{berlin_datetime(at):%H:%M:%S}", "payee": row.creditor_name, "payer": account.holder_name,
        "payee_information": row.creditor_iban, "additional": "Überweisung",
    }  # fmt: skip
    booking = Booking(
        berlin_date(at), -row.amount_minor, text, "transfer", end_to_end_id=row.end_to_end_id, extra=extra
    )
    store.book(tx, account, [booking])


def _is_booked(tx: Tx, row: Payment) -> bool:
    sql = "SELECT 1 FROM sandbox_bookings WHERE account_ref = ? AND end_to_end_id = ?"
    return tx.one(sql, row.account_ref, row.end_to_end_id) is not None


def set_status(tx: Tx, row: Payment, status: str, raw_status: str) -> Payment:
    """By command: whatever the plan was, this is what the bank says now."""
    store.begin(tx)
    row = _change(tx, row, next_at=None, step="done")
    if status == "settled":
        _book_debit(tx, row, store.bank_now(tx))
    error = ("PaymentFailed", "By command.") if status in ("failed", "rejected") else (None, None)
    return _move(tx, row, status, raw_status, *error)


def _move(
    tx: Tx, row: Payment, status: str, raw_status: str, error_class: str | None = None, error_message: str | None = None
) -> Payment:
    row = _change(tx, row, status=status, raw_status=raw_status, error_class=error_class, error_message=error_message)
    _tell(tx, row)
    return row


def _tell(tx: Tx, row: Payment) -> None:
    data = {
        "payment_ref": row.ref,
        "status": row.status,
        "raw_status": row.raw_status,
        "error_class": row.error_class,
        "error_message": row.error_message,
    }
    for _ in range(2 if plan_of(row).repeats else 1):
        deliveries.queue(tx, row.ref, data)


def plan_of(row: Payment) -> Plan:
    return PLANS[row.plan]


def _change(tx: Tx, row: Payment, **values: Any) -> Payment:
    assignments = ", ".join(f"{name} = ?" for name in values)
    tx.run(f"UPDATE sandbox_payments SET {assignments} WHERE ref = ?", *values.values(), row.ref)
    return row._replace(**values)
