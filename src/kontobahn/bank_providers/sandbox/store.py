"""The rows of the sandbox bank's connections, accounts and bookings, and its clock. What happens to them is in `bank.py`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from kontobahn.bank_providers.sandbox.rules import APP_SECONDS, BANKS, PEOPLE, Bank, Booking, Person
from kontobahn.banking.provider import Mode, Nature, TransactionFacts, TransactionStatus
from kontobahn.clock import SECOND, berlin_date
from kontobahn.db import Table, Tx
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.money import from_minor

# The bank reports bookings of this many days back.
HISTORY_DAYS = 120
CHANNEL = "sandbox"


def begin_change(tx: Tx) -> None:
    """Serialises changes at the bank, and wakes its sender once they are committed."""
    tx.lock("sandbox_bank")
    tx.notify(CHANNEL)


# --- Its clock


def bank_now(tx: Tx) -> int:
    return tx.now + ahead(tx)


def ahead(tx: Tx) -> int:
    """Returns by how many microseconds its clock is ahead of ours."""
    row = tx.one("SELECT ahead_microseconds FROM sandbox_clock WHERE id = 1")
    return int(row[0]) if row else 0


def set_ahead(tx: Tx, microseconds: int) -> None:
    tx.run(
        "INSERT INTO sandbox_clock (id, ahead_microseconds) VALUES (1, ?)"
        " ON CONFLICT (id) DO UPDATE SET ahead_microseconds = excluded.ahead_microseconds",
        microseconds,
    )


def bank_day(tx: Tx) -> date:
    return berlin_date(bank_now(tx))


def app_answers_at(tx: Tx, person: Person) -> int | None:
    """Returns when the banking app of a person who is asked now has an answer; None if approval does not go through the app."""
    seconds = APP_SECONDS.get(person.approval)
    return None if seconds is None else bank_now(tx) + seconds * SECOND


# --- Connections


class SandboxConnection(NamedTuple):
    ref: str
    bank_code: str
    user_name: str
    status: str
    scopes: str
    # In the bank's time, as all its times are.
    consent_expires_at: int
    next_refresh_possible_at: int
    refreshes: int
    answer_at: int | None
    answer_token: str | None
    next_error_class: str | None
    next_error_message: str | None
    created_at: int
    ended_at: int | None

    @property
    def bank(self) -> Bank:
        return BANKS[self.bank_code]

    @property
    def person(self) -> Person:
        return PEOPLE[self.user_name]


CONNECTIONS = Table("sandbox_connections", SandboxConnection, key=("ref",))


def find_connection(tx: Tx, ref: str) -> SandboxConnection | None:
    return CONNECTIONS.one(tx, "ref = ?", ref)


def open_connections(tx: Tx) -> list[SandboxConnection]:
    return CONNECTIONS.all(tx, "status = 'open' ORDER BY created_at, ref")


def due_answers(tx: Tx, now: int) -> list[SandboxConnection]:
    """Returns the slow connections whose time to answer has come."""
    return CONNECTIONS.all(tx, "answer_at <= ? AND status = 'open' ORDER BY answer_at", now)


def delete_connection(tx: Tx, ref: str) -> None:
    tx.run(
        "DELETE FROM sandbox_bookings WHERE account_ref IN (SELECT ref FROM sandbox_accounts WHERE connection_ref = ?)",
        ref,
    )
    tx.run("DELETE FROM sandbox_accounts WHERE connection_ref = ?", ref)
    tx.run("DELETE FROM sandbox_connections WHERE ref = ?", ref)


# --- Accounts


class SandboxAccount(NamedTuple):
    connection_ref: str
    ref: str
    position: int
    name: str
    nature: Nature
    iban: str | None
    holder_name: str
    currency_code: str
    balance_minor: int
    is_chosen: int
    bookings: int


ACCOUNTS = Table("sandbox_accounts", SandboxAccount, key=("connection_ref", "ref"))


def accounts_of_connection(tx: Tx, connection_ref: str) -> list[SandboxAccount]:
    return ACCOUNTS.all(tx, "connection_ref = ? ORDER BY position", connection_ref)


def find_account(tx: Tx, ref_or_iban: str) -> SandboxAccount | None:
    """Finds an account by the bank's ref or its IBAN; the latest if several connections have shown it."""
    return ACCOUNTS.one(tx, "ref = ? OR iban = ? ORDER BY ref DESC LIMIT 1", ref_or_iban, ref_or_iban)


def choose_accounts(tx: Tx, connection_ref: str, positions: set[int]) -> None:
    for row in accounts_of_connection(tx, connection_ref):
        ACCOUNTS.update(tx, row, is_chosen=int(row.position in positions))


# --- Bookings


class BookingRow(NamedTuple):
    account_ref: str
    number: int
    ref: str
    made_on: str
    amount_minor: int
    status: TransactionStatus
    description: str
    mode: Mode
    category: str
    end_to_end_id: str | None
    extra: str


BOOKINGS = Table("sandbox_bookings", BookingRow, key=("account_ref", "number"))


def book(tx: Tx, row: SandboxAccount, bookings: Iterable[Booking]) -> SandboxAccount:
    """Writes bookings in this order; each posted one changes the balance and records it in a snapshot."""
    balance, number, rows = row.balance_minor, row.bookings, []
    for booking in bookings:
        number += 1
        extra = {**booking.extra, "posting_date": booking.made_on.isoformat()}
        if booking.status == "posted":
            balance += booking.amount_minor
            extra["account_balance_snapshot"] = str(from_minor(balance))
        rows.append(
            BookingRow(
                account_ref=row.ref,
                number=number,
                ref=f"b{new_id().replace('-', '')}",
                made_on=booking.made_on.isoformat(),
                amount_minor=booking.amount_minor,
                status=booking.status,
                description=booking.description,
                mode=booking.mode,
                category=booking.category,
                end_to_end_id=booking.end_to_end_id,
                extra=encode(extra).decode(),
            )
        )
    BOOKINGS.insert_many(tx, rows)
    return ACCOUNTS.update(tx, row, balance_minor=balance, bookings=number)


def post_pending(tx: Tx, row: SandboxAccount, day: date) -> int:
    """Posts the pending bookings under new refs, as many banks do, and returns how many there were."""
    pending = BOOKINGS.all(tx, "account_ref = ? AND status = 'pending' ORDER BY number", row.ref)
    tx.run("DELETE FROM sandbox_bookings WHERE account_ref = ? AND status = 'pending'", row.ref)
    posted = [_booking(booking) for booking in pending]
    book(tx, row, [booking._replace(made_on=min(day, booking.made_on), status="posted") for booking in posted])
    return len(pending)


def latest_posted(tx: Tx, row: SandboxAccount) -> Booking | None:
    found = BOOKINGS.one(tx, "account_ref = ? AND status = 'posted' ORDER BY number DESC LIMIT 1", row.ref)
    return None if found is None else _booking(found)


def _booking(row: BookingRow) -> Booking:
    return Booking(
        made_on=date.fromisoformat(row.made_on),
        amount_minor=row.amount_minor,
        description=row.description,
        category=row.category,
        mode=row.mode,
        status=row.status,
        end_to_end_id=row.end_to_end_id,
        extra=msgspec.json.decode(row.extra, type=dict[str, Any]),
    )


def reported_transactions(tx: Tx, row: SandboxAccount, first: date) -> list[TransactionFacts]:
    """Returns the bookings from a day on, and all that are pending."""
    bookings = BOOKINGS.all(
        tx, "account_ref = ? AND (made_on >= ? OR status = 'pending') ORDER BY number", row.ref, first.isoformat()
    )
    return [_facts(booking, row.currency_code) for booking in bookings]


def _facts(booking: BookingRow, currency_code: str) -> TransactionFacts:
    extra = msgspec.json.decode(booking.extra, type=dict[str, Any])
    extra["posting_date"] = date.fromisoformat(extra["posting_date"])
    for name in ("account_balance_snapshot", "categorization_confidence"):
        if name in extra:
            extra[name] = Decimal(extra[name])
    return TransactionFacts(
        account_ref=booking.account_ref,
        made_on=date.fromisoformat(booking.made_on),
        amount_minor=booking.amount_minor,
        currency_code=currency_code,
        description=booking.description,
        status=booking.status,
        provider_ref=booking.ref,
        mode=booking.mode,
        category=booking.category,
        end_to_end_id=booking.end_to_end_id,
        extra=extra,
    )
