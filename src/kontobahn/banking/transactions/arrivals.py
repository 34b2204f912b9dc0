"""Arrivals: the bookings of a large delivery for an account that is not there yet, written in slices before it appears.

Nobody sees them, because an account that does not exist has no transactions. Their numbers lie so far ahead of those of the
organisation that others take theirs below them meanwhile; the transaction that creates the account moves the counters beyond them, so
that numbers still rise in the order of appearing. Rows that no account was created for are swept away by a job.

What a bank reports of an account that is there already cannot be hidden. It is stored in slices as well (`store_ahead`), in the order in
which the bank reports it, as if it came page by page; the last of it comes with the balance, in the transaction that ends the fetch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from typing import Any, NamedTuple

from kontobahn.banking import ids
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.transactions.ingest import (
    INSERT,
    Counts,
    NewRows,
    Owner,
    TransactionIngest,
    chunks,
    remove_rows,
    rows_of,
)
from kontobahn.banking.transactions.recognition import Delivery, Seen
from kontobahn.banking.transactions.wire import Reported
from kontobahn.db import Database, Row, Tx, fitting_length, leases

# From this many bookings on.
LARGE = 5_000
# The numbers that are left to others while they are written.
HEADROOM = 10_000_000
LEASE_SECONDS = 60
ROWS_AT_ONCE = 5_000
_ALL = 1 << 62
# Of chunks, each of which has some thousand bookings.
MAX_CHUNKS = 10
_LEASE = leases.Lease("banking_arrivals", key=("organization_id", "account_id"), seconds=LEASE_SECONDS)


class Expected(NamedTuple):
    """An account that a delivery is about to create, if nobody else does before."""

    # Names it within the delivery.
    key: Hashable
    iban: str | None
    # The connection that it comes by; None if that is about to be created too, as the one of this name.
    connection_id: str | None
    connection_name: str
    size: int
    bookings: Callable[[], Iterable[Reported]]


class Arrived(NamedTuple):
    """Rows that are written, and what they come to."""

    organization_id: str
    account_id: int
    connection_id: str
    first_id: int
    first_change: int
    # The last payment that they were compared with.
    last_payment: int
    rows: NewRows
    size: int

    def appear(self, tx: Tx, connection_id: str) -> bool:
        """Makes the numbers count, for the transaction that creates the account. Returns False if the rows cannot be used."""
        if connection_id != self.connection_id:
            return False
        first, last_change = self.first_id % ids.SPAN, self.first_change + self.size - 1
        moved = tx.run(
            "UPDATE banking_counters SET last_transaction = ?, last_change = ? WHERE organization_id = ?"
            " AND last_transaction < ? AND last_change < ? AND last_payment = ?",
            first + self.size - 1, last_change, self.organization_id,
            first, self.first_change, self.last_payment,
        )  # fmt: skip
        return bool(moved) and bool(
            tx.run(
                "DELETE FROM banking_arrivals WHERE organization_id = ? AND account_id = ? AND lease_until > 0",
                self.organization_id,
                self.account_id,
            )
        )


class Ahead(NamedTuple):
    """A delivery for an account that was there: the part that is stored already, and the bookings that are not."""

    account_id: int
    seen: Seen
    counts: Counts
    rest: list[Reported]


class Arrivals(NamedTuple):
    """The accounts of one delivery whose rows are written already, by their keys; and new connections by their names."""

    by_key: dict[Hashable, Arrived]
    connections: dict[str, str]
    # The accounts that were there before.
    ahead: dict[Hashable, Ahead]


NONE = Arrivals({}, {}, {})


class _Numbers(NamedTuple):
    account_id: int
    connection_id: str
    first_id: int
    first_change: int
    last_payment: int
    now: int


def arrive(db: Database, organization_id: str, expected: Iterable[Expected]) -> Arrivals:
    """Writes the bookings of those accounts that have many. What is left out is for the transaction to write."""
    large = [account for account in expected if account.size >= LARGE]
    if not large:
        return NONE
    begun = db.write_now(_begin, organization_id, large)
    arrived: dict[Hashable, Arrived] = {}
    made: dict[str, str] = {}
    for account, numbers in zip(large, begun, strict=False):
        rows = _write(db, organization_id, account, numbers)
        if rows is not None:
            arrived[account.key] = Arrived(
                organization_id, numbers.account_id, numbers.connection_id, numbers.first_id, numbers.first_change,
                numbers.last_payment, rows, account.size,
            )  # fmt: skip
            if account.connection_id is None:
                made[account.connection_name] = numbers.connection_id
    return Arrivals(arrived, made, {})


def _begin(tx: Tx, organization_id: str, expected: list[Expected]) -> list[_Numbers]:
    """Takes the numbers; none if another delivery of the organisation is being written: the two could change places."""
    # Whoever begins waits for the other here.
    last = ids.last(tx, organization_id)
    if tx.one("SELECT 1 FROM banking_arrivals WHERE organization_id = ? LIMIT 1", organization_id):
        return []
    first_id, first_change = last.transaction + HEADROOM + 1, last.change + HEADROOM + 1
    made: dict[str, str] = {}
    begun = []
    for account in expected:
        if account.connection_id is None and account.connection_name not in made:
            made[account.connection_name] = str(ids.take(tx, organization_id, "connection"))
        account_id = ids.take(tx, organization_id, "account")
        tx.run(
            "INSERT INTO banking_arrivals (organization_id, account_id, lease_until) VALUES (?, ?, ?)",
            organization_id, account_id, _LEASE.ends_at(tx.now),
        )  # fmt: skip
        connection_id = account.connection_id or made[account.connection_name]
        begun.append(_Numbers(account_id, connection_id, first_id, first_change, last.payment, tx.now))
        first_id, first_change = first_id + account.size, first_change + account.size
    return begun


def _write(db: Database, organization_id: str, account: Expected, numbers: _Numbers) -> NewRows | None:
    """Writes the rows. Returns what they come to; None if they were given up, because the machine stood still for long."""
    owner = Owner(organization_id, numbers.account_id, account.iban, numbers.connection_id)
    found, whole, length = chunks(account.bookings()), NewRows([], 0, 0, []), 1
    count = 0
    while some := list(islice(found, length)):
        rows: list[tuple[Any, ...]] = []
        for chunk in some:
            at = count + len(rows)
            made = db.read_now(
                rows_of, owner, [(booking, False) for booking in chunk], numbers.first_id + at, numbers.first_change + at,
                numbers.now,
            )  # fmt: skip
            rows += made.rows
            whole = whole.with_sums_of(made)
        started = time.monotonic()
        if not db.write_now(_write_some, organization_id, numbers.account_id, rows):
            return None
        length = fitting_length(length, time.monotonic() - started, 1, MAX_CHUNKS)
        count += len(rows)
    return whole if count == account.size else None


def _write_some(tx: Tx, organization_id: str, account_id: int, rows: list[tuple[Any, ...]]) -> bool:
    if not _LEASE.renew(tx, organization_id, account_id):
        return False
    tx.many(INSERT, rows)
    return True


# --- Accounts that are there


def store_ahead(
    db: Database, account: Callable[[Tx], AccountRow | None], delivery: Delivery, bookings: Iterable[Reported]
) -> Ahead | None:
    """Stores the bookings but for the last of them. `account` returns the account as it is under its lock; None if it is gone, as is what
    this returns then.

    A process that dies leaves what it has stored: each is a booking of the bank, and is recognised when the bank reports it again.
    """
    found, length = chunks(bookings), 1
    whole, rest = Ahead(0, Seen(set(), set()), Counts(0, 0, 0), []), next(found, [])
    while following := list(islice(found, length)):
        some, rest = [rest, *following[:-1]], following[-1]
        started = time.monotonic()
        stored = db.write_now(_store_some, account, delivery, some, whole)
        if stored is None:
            return None
        whole = stored
        length = fitting_length(length, time.monotonic() - started, 1, MAX_CHUNKS)
    return whole._replace(rest=rest)


def _store_some(
    tx: Tx, find: Callable[[Tx], AccountRow | None], delivery: Delivery, some: list[list[Reported]], before: Ahead
) -> Ahead | None:
    account = find(tx)
    if account is None or before.account_id not in (0, account.id):
        return None
    ingest = TransactionIngest(tx, account, delivery, before.seen)
    for chunk in some:
        ingest.add(chunk)
    return Ahead(account.id, ingest.seen, before.counts.joined(ingest.finish()), [])


# --- Sweeping away


def give_up(db: Database, arrivals: Arrivals) -> None:
    """Removes those rows that no account was created for."""
    for arrived in arrivals.by_key.values():
        _remove(db, arrived.organization_id, arrived.account_id)


def sweep(db: Database) -> None:
    """Removes rows that no process works on any more."""
    for organization_id, account_id in db.read_now(_abandoned):
        _remove(db, organization_id, account_id)


def _abandoned(tx: Tx) -> list[Row]:
    return tx.all("SELECT organization_id, account_id FROM banking_arrivals WHERE lease_until <= ?", tx.now)


def _remove(db: Database, organization_id: str, account_id: int) -> None:
    if db.write_now(_LEASE.give_up, organization_id, account_id):
        while db.write_now(_remove_some, organization_id, account_id):
            pass


def _remove_some(tx: Tx, organization_id: str, account_id: int) -> int:
    removed = remove_rows(tx, account_id, ROWS_AT_ONCE)
    if not removed:
        tx.run(
            "DELETE FROM banking_arrivals WHERE organization_id = ? AND account_id = ? AND lease_until = 0",
            organization_id, account_id,
        )  # fmt: skip
    return removed


def forget(tx: Tx, organization_id: str) -> None:
    """Removes all rows that are hidden, in one transaction: their organisation is deleted."""
    for (account_id,) in tx.all(
        "SELECT account_id FROM banking_arrivals WHERE organization_id = ?"
        " UNION ALL SELECT account_id FROM banking_departures WHERE organization_id = ?",
        organization_id, organization_id,
    ):  # fmt: skip
        remove_rows(tx, account_id, _ALL)
