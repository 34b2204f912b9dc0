"""Payments at the sandbox bank: ordered, authorised by the payer on a page, then executed by the bank's clock.

A payment's plan decides what happens to it. Every change queues a report.
"""

from __future__ import annotations

import secrets
from datetime import date
from typing import Any, NamedTuple

from kontobahn.bank_providers.file_payments import address_of
from kontobahn.bank_providers.sandbox import bank, store, webhooks
from kontobahn.bank_providers.sandbox.order_files import Payee, refusal
from kontobahn.bank_providers.sandbox.rules import (
    APP_ERRORS,
    MESSAGES,
    PLANS,
    Booking,
    Person,
    Plan,
    PlanStep,
    check_payee,
    choose_plan,
    page_of,
    purpose,
)
from kontobahn.banking.payments.rules import TRANSITIONS
from kontobahn.banking.provider import (
    CANCELLED,
    PayeeFinding,
    PaymentOrder,
    PaymentReport,
    ProviderRefused,
    Template,
)
from kontobahn.clock import HOUR, SECOND, berlin_date, berlin_datetime, start_of_day
from kontobahn.db import Table, Tx
from kontobahn.ids import new_id

PAGE_LIFETIME = HOUR
FINAL = ("settled", "failed", "rejected")


class SandboxPayment(NamedTuple):
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
    # In the bank's time: when the banking app answers, if the payment is approved there.
    approval_at: int | None

    @property
    def page(self) -> str:
        return page_of(self.step, self.approval_at)


PAYMENTS = Table("sandbox_payments", SandboxPayment, key=("ref",))


def by_ref(tx: Tx, ref: str) -> SandboxPayment | None:
    return PAYMENTS.one(tx, "ref = ?", ref)


def by_token(tx: Tx, token: str) -> SandboxPayment | None:
    return PAYMENTS.one(tx, "token = ?", token)


def by_order(tx: Tx, order: PaymentOrder) -> SandboxPayment | None:
    return PAYMENTS.one(tx, "connection_ref = ? AND end_to_end_id = ?", order.connection_ref, order.end_to_end_id)


def find_by_any_id(tx: Tx, name: str) -> SandboxPayment | None:
    """Finds a payment by the bank's ref, its end-to-end id, or the number that the end-to-end id begins with."""
    return PAYMENTS.one(tx, "ref = ? OR end_to_end_id = ? OR end_to_end_id LIKE ?", name, name, f"KB{name}-%")


def report_of(row: SandboxPayment) -> PaymentReport:
    # An unknown status is not guessed at.
    status: Any = row.status if row.status in TRANSITIONS else None
    return PaymentReport(status, row.raw_status, row.error_class, row.error_message, payee=payee_of(row))


def payee_of(row: SandboxPayment) -> PayeeFinding | None:
    """The check of the payee, which the bank makes as soon as the payer has signed in."""
    return None if row.step == "login" else check_payee(row.creditor_name, is_approved=row.step != "tan")


def create(tx: Tx, order: PaymentOrder) -> SandboxPayment:
    """Accepts an order; a repeated one returns the existing payment."""
    store.begin_change(tx)
    known = by_order(tx, order)
    if known is not None:
        return known
    connection = store.find_connection(tx, order.connection_ref)
    account = store.find_account(tx, order.account_ref)
    if connection is None or connection.status != "open" or account is None or account.connection_ref != connection.ref:
        raise ProviderRefused("ConnectionNotFound", "The bank knows no such connection or account")
    if order.template_identifier not in connection.bank.templates:
        raise ProviderRefused("PaymentTemplateNotSupported", f"The bank has no {order.template_identifier} payments")
    _check_payee(order)
    plan = choose_plan(order.creditor_name, order.amount_minor, order.template_identifier)
    if plan.creation == "refused":
        raise ProviderRefused("PaymentFailed", "The bank refused the order", "RJCT")
    row = SandboxPayment(
        ref=f"pay_{new_id().replace('-', '')}", token=secrets.token_urlsafe(32), end_to_end_id=order.end_to_end_id,
        connection_ref=connection.ref, account_ref=account.ref, template_identifier=order.template_identifier,
        amount_minor=order.amount_minor, currency_code=order.currency_code, creditor_name=order.creditor_name,
        creditor_iban=order.creditor_iban, debtor_iban=order.debtor_iban, description=order.description,
        execute_on=order.details.get("date"), return_to=order.return_to, plan=plan.name, position=0, next_at=None,
        status="initiated", raw_status="RCVD", error_class=None, error_message=None, step="login", wrong_entries=0,
        created_at=tx.now, expires_at=tx.now + PAGE_LIFETIME, approval_at=None,
    )  # fmt: skip
    PAYMENTS.insert(tx, row)
    return row


def _check_payee(order: PaymentOrder) -> None:
    """Raises ProviderRefused for a payee whom banks refuse to pay, with their reason code."""
    agent = order.details.get("creditor_agent")
    payee = Payee(order.creditor_iban, agent if isinstance(agent, str) else None, address_of(order))
    if (found := refusal(payee)) is not None:
        raise ProviderRefused("PaymentFailed", f"{found.code}: {found.sentence}", "RJCT")


# --- The payer


def sign_in(tx: Tx, row: SandboxPayment, person: Person) -> SandboxPayment:
    store.begin_change(tx)
    needs_approval = person.approval != "none" or PLANS[row.plan].needs_extra_confirmation
    row = PAYMENTS.update(
        tx, row, step="tan" if needs_approval else "confirm", wrong_entries=0,
        approval_at=store.app_answers_at(tx, person),
    )  # fmt: skip
    if PLANS[row.plan].needs_extra_confirmation:
        return _set_status(tx, row, "initiated_info_required", "PATC")
    return _set_status(tx, row, "authorizing", "PDNG")


def approve(tx: Tx, row: SandboxPayment) -> SandboxPayment:
    """The TAN was right, or the payer has confirmed in the banking app."""
    store.begin_change(tx)
    before = payee_of(row)
    row = PAYMENTS.update(tx, row, step="confirm", wrong_entries=0)
    if row.status == "initiated_info_required":
        return _set_status(tx, row, "authorizing", "ACTC")
    if payee_of(row) != before:
        _report(tx, row)
    return row


def receive_app_answers(tx: Tx, now: int) -> None:
    """Continues or ends the payments whose payer's banking app has answered by now."""
    for row in PAYMENTS.all(tx, "approval_at <= ? ORDER BY approval_at, ref", now):
        answered = PAYMENTS.update(tx, row, approval_at=None)
        if row.page != "wait" or row.expires_at <= tx.now:
            continue
        connection = store.find_connection(tx, row.connection_ref)
        error_class = APP_ERRORS.get(connection.person.approval) if connection else None
        if error_class is not None:
            fail(tx, answered, error_class, MESSAGES[error_class], "RJCT")
        else:
            approve(tx, answered)


def count_wrong_entry(tx: Tx, row: SandboxPayment, error_class: str, max_entries: int) -> SandboxPayment:
    store.begin_change(tx)
    row = PAYMENTS.update(tx, row, wrong_entries=row.wrong_entries + 1)
    return row if row.wrong_entries < max_entries else fail(tx, row, error_class, MESSAGES[error_class], "RJCT")


def fail(tx: Tx, row: SandboxPayment, error_class: str, message: str, raw_status: str) -> SandboxPayment:
    store.begin_change(tx)
    return _set_status(tx, PAYMENTS.update(tx, row, step="done"), "failed", raw_status, error_class, message)


def cancel(tx: Tx, ref: str) -> SandboxPayment:
    """Cancels a payment by command of whoever ordered it; once the payer has authorised it, the bank refuses."""
    store.begin_change(tx)
    row = by_ref(tx, ref)
    if row is None:
        raise ProviderRefused("PaymentNotFound", "The bank knows no such payment")
    if row.step == "done" and row.error_class != CANCELLED:
        raise ProviderRefused("PaymentAlreadyFinished", "The payer has authorised or ended it at the bank")
    return row if row.step == "done" else fail(tx, row, CANCELLED, "The payment was cancelled.", "CANC")


def confirm(tx: Tx, row: SandboxPayment) -> SandboxPayment:
    """The payer has authorised it. From here on the bank acts alone."""
    store.begin_change(tx)
    row, now = PAYMENTS.update(tx, row, step="done"), store.bank_now(tx)
    account = store.find_account(tx, row.account_ref)
    if account is None or account.balance_minor < row.amount_minor:
        return _set_status(tx, row, "rejected", "RJCT", "PaymentFailed", "There is not enough money on the account.")
    starts_at, day = now, date.fromisoformat(row.execute_on) if row.execute_on else None
    if day is not None and day > berlin_date(now):
        row, starts_at = _set_status(tx, row, "authorized", "ACTC"), start_of_day(day)
    first = PLANS[row.plan].steps[0]
    return advance_one(tx, PAYMENTS.update(tx, row, next_at=starts_at + first.after_seconds * SECOND), now)


# --- The bank


def advance(tx: Tx, now: int) -> None:
    """Advances every payment that is due by the bank's clock."""
    for row in PAYMENTS.all(tx, "next_at <= ? ORDER BY next_at, ref", now):
        advance_one(tx, row, now)


def advance_one(tx: Tx, row: SandboxPayment, now: int) -> SandboxPayment:
    steps = PLANS[row.plan].steps
    while row.next_at is not None and row.next_at <= now:
        done_at, step = row.next_at, steps[row.position]
        position = row.position + 1
        next_at = None if position == len(steps) else done_at + steps[position].after_seconds * SECOND
        row = _perform(tx, PAYMENTS.update(tx, row, position=position, next_at=next_at), step, done_at)
    return row


def _perform(tx: Tx, row: SandboxPayment, step: PlanStep, at: int) -> SandboxPayment:
    if step.books_debit:
        _book_debit(tx, row, at)
    if step.notifies:
        connection = store.find_connection(tx, row.connection_ref)
        if connection is not None and connection.status == "open":
            bank.notify_new_data(tx, connection)
    if step.status is None:
        return row
    if step.is_untrue:
        claimed = row._replace(status=step.status, raw_status=step.raw_status, error_class=step.error_class)
        _report(tx, claimed._replace(error_message=step.error_message))
        return row
    return _set_status(tx, row, step.status, step.raw_status, step.error_class, step.error_message)


def _book_debit(tx: Tx, row: SandboxPayment, at: int) -> None:
    """Books the debit on the payer's account, with our end-to-end id."""
    account, connection = store.find_account(tx, row.account_ref), store.find_connection(tx, row.connection_ref)
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


def _is_booked(tx: Tx, row: SandboxPayment) -> bool:
    sql = "SELECT 1 FROM sandbox_bookings WHERE account_ref = ? AND end_to_end_id = ?"
    return tx.one(sql, row.account_ref, row.end_to_end_id) is not None


def force_status(tx: Tx, row: SandboxPayment, status: str, raw_status: str) -> SandboxPayment:
    """Sets the status by command, whatever the plan was."""
    store.begin_change(tx)
    row = PAYMENTS.update(tx, row, next_at=None, step="done")
    if status == "settled":
        _book_debit(tx, row, store.bank_now(tx))
    error = ("PaymentFailed", "By command.") if status in ("failed", "rejected") else (None, None)
    return _set_status(tx, row, status, raw_status, *error)


def _set_status(
    tx: Tx,
    row: SandboxPayment,
    status: str,
    raw_status: str,
    error_class: str | None = None,
    error_message: str | None = None,
) -> SandboxPayment:
    row = PAYMENTS.update(
        tx, row, status=status, raw_status=raw_status, error_class=error_class, error_message=error_message
    )
    _report(tx, row)
    return row


def _report(tx: Tx, row: SandboxPayment) -> None:
    data = {
        "payment_ref": row.ref,
        "status": row.status,
        "raw_status": row.raw_status,
        "error_class": row.error_class,
        "error_message": row.error_message,
        "payee": payee_of(row),
    }
    for _ in range(2 if plan_of(row).repeats else 1):
        webhooks.queue(tx, row.ref, data)


def plan_of(row: SandboxPayment) -> Plan:
    return PLANS[row.plan]
