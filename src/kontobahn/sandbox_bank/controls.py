"""What people and commands make happen at the bank: one function each, for the dashboard's page and for `kontobahn sandbox`."""

from __future__ import annotations

from kontobahn.dashboard import sandbox
from kontobahn.dashboard.sandbox import NewBooking, SandboxClock, SandboxControls
from kontobahn.db import Tx
from kontobahn.errors import NotFound
from kontobahn.sandbox_bank import bank, payments, store
from kontobahn.sandbox_bank.adapter import NAME, move_clock
from kontobahn.sandbox_bank.payments import SandboxPayment
from kontobahn.sandbox_bank.store import SandboxAccount, SandboxConnection
from kontobahn.sandbox_bank.texts import Booking, purpose

RAW_STATUS = {
    "initiated": "RCVD", "initiated_info_required": "PATC", "authorizing": "PDNG", "authorized": "ACTC", "processing": "ACSP",
    "executed": "ACSC", "settled": "ACCC", "failed": "CANC", "rejected": "RJCT",
}  # fmt: skip


def book(tx: Tx, account: SandboxAccount, wanted: NewBooking) -> None:
    row = store.find_connection(tx, account.connection_ref)
    assert row is not None
    extra = {"additional": "Gutschrift" if wanted.amount_minor > 0 else "Überweisung"}
    if wanted.name:
        extra["payer" if wanted.amount_minor > 0 else "payee"] = wanted.name
    text = wanted.text
    if wanted.end_to_end_id:
        text = purpose(row.bank.style, text, EREF=wanted.end_to_end_id)
    booking = Booking(
        wanted.day or store.bank_day(tx), wanted.amount_minor, text,
        status="pending" if wanted.is_pending else "posted", end_to_end_id=wanted.end_to_end_id, extra=extra,
    )  # fmt: skip
    bank.book(tx, account, booking, quietly=wanted.is_quiet)


def fail(tx: Tx, row: SandboxConnection, error_class: str, message: str | None, *, at_refresh: bool) -> None:
    if at_refresh:
        bank.fail_next_refresh(tx, row, error_class, message)
    else:
        bank.notify_failure(tx, error_class, message or "", ref=row.ref, pending_token=None)


def set_payment_status(tx: Tx, payment_id: str, status: str, raw_status: str | None = None) -> SandboxPayment:
    row = payments.find_by_any_id(tx, payment_id)
    if row is None:
        raise NotFound(f"The sandbox bank has no payment “{payment_id}”.")
    return payments.force_status(tx, row, status, raw_status or RAW_STATUS.get(status, "PDNG"))


# --- For the dashboard


def controls() -> SandboxControls:
    return SandboxControls(
        provider=NAME,
        look=_look,
        book=lambda tx, ref, account_ref, wanted: book(tx, _account(tx, ref, account_ref), wanted),
        post_pending=lambda tx, ref: bank.post_pending(tx, _open(tx, ref)),
        report=lambda tx, ref: bank.notify_new_data(tx, _open(tx, ref)),
        expire_consent=lambda tx, ref: bank.expire_consent(tx, _open(tx, ref)),
        fail=lambda tx, ref, error_class, at_refresh: fail(
            tx, _open(tx, ref), error_class, None, at_refresh=at_refresh
        ),
        destroy=lambda tx, ref: bank.destroy(tx, _open(tx, ref)),
        set_payment_status=set_payment_status,
        clock=lambda tx: SandboxClock(store.bank_now(tx), store.ahead(tx)),
        move_clock=move_clock,
    )


def _open(tx: Tx, ref: str) -> SandboxConnection:
    row = store.find_connection(tx, ref)
    if row is None or row.status != "open":
        raise NotFound("The sandbox bank has ended this connection.")
    return row


def _account(tx: Tx, ref: str, account_ref: str) -> SandboxAccount:
    _open(tx, ref)
    found = next((account for account in store.accounts_of_connection(tx, ref) if account.ref == account_ref), None)
    if found is None:
        raise NotFound("The sandbox bank has no such account.")
    return found


def _look(tx: Tx, ref: str) -> sandbox.SandboxConnection | None:
    row = store.find_connection(tx, ref)
    if row is None or row.status != "open":
        return None
    accounts = [
        sandbox.SandboxAccount(account.ref, account.name, account.iban, account.balance_minor)
        for account in store.accounts_of_connection(tx, ref)
    ]
    return sandbox.SandboxConnection(row.ref, row.user_name, row.consent_expires_at, accounts)
