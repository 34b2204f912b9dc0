"""The sandbox bank's connections, accounts, bookings and clock: how they are kept. What happens to them is in `bank.py`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from kontobahn.banking.provider import Nature, TransactionFacts
from kontobahn.clock import berlin_date
from kontobahn.db import Tx
from kontobahn.ids import new_id
from kontobahn.json_text import encode_text
from kontobahn.money import from_minor
from kontobahn.sandbox_bank.banks import BANKS, Bank
from kontobahn.sandbox_bank.people import PEOPLE, Person
from kontobahn.sandbox_bank.texts import Booking

# How far back the bank tells bookings.
TOLD_DAYS = 120
CHANNEL = "sandbox"


def begin(tx: Tx) -> None:
    """Changes at the bank happen one after the other, and whoever delivers its news is woken."""
    tx.lock("sandbox_bank")
    tx.notify(CHANNEL)


# --- Its clock


def bank_now(tx: Tx) -> int:
    return tx.now + ahead(tx)


def ahead(tx: Tx) -> int:
    """By how much its clock is ahead of ours."""
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


# --- Connections


class Connection(NamedTuple):
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


_CONNECTION = ", ".join(Connection._fields)


def insert_connection(tx: Tx, row: Connection) -> None:
    tx.run(f"INSERT INTO sandbox_connections ({_CONNECTION}) VALUES ({', '.join('?' * len(row))})", *row)


def connection(tx: Tx, ref: str) -> Connection | None:
    row = tx.one(f"SELECT {_CONNECTION} FROM sandbox_connections WHERE ref = ?", ref)
    return None if row is None else Connection(*row)


def connections(tx: Tx) -> list[Connection]:
    rows = tx.all(f"SELECT {_CONNECTION} FROM sandbox_connections WHERE status = 'open' ORDER BY created_at, ref")
    return [Connection(*row) for row in rows]


def to_answer(tx: Tx, now: int) -> list[Connection]:
    rows = tx.all(
        f"SELECT {_CONNECTION} FROM sandbox_connections WHERE answer_at <= ? AND status = 'open' ORDER BY answer_at",
        now,
    )
    return [Connection(*row) for row in rows]


def change_connection(tx: Tx, row: Connection, **values: Any) -> Connection:
    assignments = ", ".join(f"{name} = ?" for name in values)
    tx.run(f"UPDATE sandbox_connections SET {assignments} WHERE ref = ?", *values.values(), row.ref)
    return row._replace(**values)


def delete_connection(tx: Tx, ref: str) -> None:
    tx.run(
        "DELETE FROM sandbox_bookings WHERE account_ref IN (SELECT ref FROM sandbox_accounts WHERE connection_ref = ?)",
        ref,
    )
    tx.run("DELETE FROM sandbox_accounts WHERE connection_ref = ?", ref)
    tx.run("DELETE FROM sandbox_connections WHERE ref = ?", ref)


# --- Accounts


class Account(NamedTuple):
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


_ACCOUNT = ", ".join(Account._fields)


def insert_account(tx: Tx, row: Account) -> None:
    tx.run(f"INSERT INTO sandbox_accounts ({_ACCOUNT}) VALUES ({', '.join('?' * len(row))})", *row)


def accounts(tx: Tx, connection_ref: str) -> list[Account]:
    rows = tx.all(f"SELECT {_ACCOUNT} FROM sandbox_accounts WHERE connection_ref = ? ORDER BY position", connection_ref)
    return [Account(*row) for row in rows]


def account(tx: Tx, ref_or_iban: str) -> Account | None:
    """By the bank's name for it or by its IBAN; the latest where several connections have shown it."""
    row = tx.one(
        f"SELECT {_ACCOUNT} FROM sandbox_accounts WHERE ref = ? OR iban = ? ORDER BY ref DESC LIMIT 1",
        ref_or_iban, ref_or_iban,
    )  # fmt: skip
    return None if row is None else Account(*row)


def choose_accounts(tx: Tx, connection_ref: str, positions: set[int]) -> None:
    for row in accounts(tx, connection_ref):
        tx.run(
            "UPDATE sandbox_accounts SET is_chosen = ? WHERE connection_ref = ? AND ref = ?",
            int(row.position in positions), connection_ref, row.ref,
        )  # fmt: skip


# --- Bookings


_INSERT_BOOKING = (
    "INSERT INTO sandbox_bookings (account_ref, number, ref, made_on, amount_minor, status, description, mode, category,"
    " end_to_end_id, extra) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def book(tx: Tx, row: Account, bookings: Iterable[Booking]) -> Account:
    """Write bookings in this order; what is posted moves the balance and keeps it as it was after it."""
    balance, number, rows = row.balance_minor, row.bookings, []
    for booking in bookings:
        number += 1
        extra = {**booking.extra, "posting_date": booking.made_on.isoformat()}
        if booking.status == "posted":
            balance += booking.amount_minor
            extra["account_balance_snapshot"] = str(from_minor(balance))
        rows.append((
            row.ref, number, f"b{new_id().replace('-', '')}", booking.made_on.isoformat(), booking.amount_minor, booking.status,
            booking.description, booking.mode, booking.category, booking.end_to_end_id, encode_text(extra),
        ))  # fmt: skip
    tx.many(_INSERT_BOOKING, rows)
    tx.run(
        "UPDATE sandbox_accounts SET balance_minor = ?, bookings = ? WHERE connection_ref = ? AND ref = ?",
        balance, number, row.connection_ref, row.ref,
    )  # fmt: skip
    return row._replace(balance_minor=balance, bookings=number)


def post_pending(tx: Tx, row: Account, day: date) -> int:
    """What was announced is booked, under ids of its own, as banks like to do."""
    waiting = tx.all(
        "SELECT number, made_on, amount_minor, description, category, mode, end_to_end_id, extra FROM sandbox_bookings"
        " WHERE account_ref = ? AND status = 'pending' ORDER BY number",
        row.ref,
    )
    tx.run("DELETE FROM sandbox_bookings WHERE account_ref = ? AND status = 'pending'", row.ref)
    book(
        tx, row,
        [
            Booking(
                min(day, date.fromisoformat(made_on)), amount, text, category, mode, "posted", reference,
                msgspec.json.decode(extra, type=dict[str, Any]),
            )
            for _, made_on, amount, text, category, mode, reference, extra in waiting
        ],
    )  # fmt: skip
    return len(waiting)


def latest_posted(tx: Tx, row: Account) -> Booking | None:
    found = tx.one(
        "SELECT made_on, amount_minor, description, category, mode, status, end_to_end_id, extra FROM sandbox_bookings"
        " WHERE account_ref = ? AND status = 'posted' ORDER BY number DESC LIMIT 1",
        row.ref,
    )
    if found is None:
        return None
    made_on, amount_minor, description, category, mode, status, end_to_end_id, extra = found
    fields = msgspec.json.decode(extra, type=dict[str, Any])
    return Booking(
        date.fromisoformat(made_on), amount_minor, description, category, mode, status, end_to_end_id, fields
    )


def told(tx: Tx, row: Account, today: date) -> list[TransactionFacts]:
    """The bookings of the last months, and all that is pending."""
    first = (today - timedelta(days=TOLD_DAYS)).isoformat()
    rows = tx.all(
        "SELECT ref, made_on, amount_minor, status, description, mode, category, end_to_end_id, extra FROM sandbox_bookings"
        " WHERE account_ref = ? AND (made_on >= ? OR status = 'pending') ORDER BY number",
        row.ref, first,
    )  # fmt: skip
    return [_facts(row, *columns) for columns in rows]


def _facts(
    row: Account, ref: str, made_on: str, amount_minor: int, status: Any, description: str, mode: Any, category: str,
    end_to_end_id: str | None, extra: str,
) -> TransactionFacts:  # fmt: skip
    fields = msgspec.json.decode(extra, type=dict[str, Any])
    fields["posting_date"] = date.fromisoformat(fields["posting_date"])
    for name in ("account_balance_snapshot", "categorization_confidence"):
        if name in fields:
            fields[name] = Decimal(fields[name])
    return TransactionFacts(
        account_ref=row.ref,
        made_on=date.fromisoformat(made_on),
        amount_minor=amount_minor,
        currency_code=row.currency_code,
        description=description,
        status=status,
        provider_ref=ref,
        mode=mode,
        category=category,
        end_to_end_id=end_to_end_id,
        extra=fields,
    )
