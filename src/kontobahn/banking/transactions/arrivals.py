"""Arrivals: the bookings of a large delivery, written in slices before the transaction that ends it.

Those of a new account are seen by nobody, because an account that does not exist has no transactions. Their numbers lie so far ahead
that others take theirs below them meanwhile; the transaction that creates the account moves the counters beyond them. What comes for an
existing account is seen at once (`store_ahead`), as if it came page by page; a file of statements claims the account first.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from typing import Any, NamedTuple

from kontobahn.banking import ids
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.accounts import AccountRow, emit_refresh_complete, look_up, of_connection
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
from kontobahn.clock import SECOND
from kontobahn.db import Database, Row, Tx, fitting_length, leases

# From this many bookings on.
LARGE = 5_000
# The numbers that others may take while these rows are written.
HEADROOM = 10_000_000
LEASE_SECONDS = 60
ROWS_AT_ONCE = 5_000
_ALL = 1 << 62
# The most chunks of a slice; each has some thousand bookings.
MAX_CHUNKS = 10
_LEASE = leases.Lease("banking_arrivals", key=("organization_id", "account_id"), seconds=LEASE_SECONDS)
# No two claims of a process end at the same moment, even if the clock stands still: the end identifies the claim.
_APART = itertools.count()


class Part(NamedTuple):
    """A part of a delivery for one account: a statement, or all that was fetched."""

    # Names it within the delivery.
    key: Hashable
    size: int
    bookings: Callable[[], Iterable[Reported]]


class Expected(NamedTuple):
    """An account that a delivery is about to create, if nobody else does before."""

    iban: str | None
    # The connection that it comes by; None if that is about to be created too, as the one of this name.
    connection_id: str | None
    connection_name: str
    parts: list[Part]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)


class Written(NamedTuple):
    """Rows of one part that are written, with their sums."""

    rows: NewRows
    first_id: int
    size: int


class Arrived(NamedTuple):
    """The rows of an account that are written."""

    organization_id: str
    account_id: int
    connection_id: str
    first_id: int
    first_change: int
    # The last payment that they were compared with.
    last_payment: int
    parts: dict[Hashable, Written]
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
    left_out: int = 0


class Arrivals(NamedTuple):
    """The parts of one delivery whose rows are written already, by their keys; and new connections by their names."""

    by_key: dict[Hashable, Arrived]
    connections: dict[str, str]
    # The parts for accounts that were there before.
    ahead: dict[Hashable, Ahead]
    # The accounts that no other file may be imported into meanwhile.
    claims: dict[int, Claim]


class Claim:
    """The claim of one process to import statements into an existing account."""

    def __init__(self, organization_id: str, account_id: int, until: int) -> None:
        self.organization_id, self.account_id = organization_id, account_id
        # The end of the lease, which also identifies the claim.
        self._until = until
        self._renewed_at = time.monotonic()

    def is_held(self, tx: Tx) -> bool:
        return bool(
            tx.one(
                "SELECT 1 FROM banking_arrivals WHERE organization_id = ? AND account_id = ? AND lease_until = ?",
                self.organization_id, self.account_id, self._until,
            )
        )  # fmt: skip

    def end(self, tx: Tx) -> bool:
        """Ends the claim together with the import. Returns False if it is no longer held."""
        return bool(
            tx.run(
                "DELETE FROM banking_arrivals WHERE organization_id = ? AND account_id = ? AND lease_until = ?",
                self.organization_id, self.account_id, self._until,
            )
        )  # fmt: skip

    def keep(self, db: Database) -> None:
        """Renews the lease, if that is due."""
        if time.monotonic() - self._renewed_at > LEASE_SECONDS / 6:
            self._until = db.write_now(self._renew)
            self._renewed_at = time.monotonic()

    def _renew(self, tx: Tx) -> int:
        until = _end_of_claim(tx)
        moved = tx.run(
            "UPDATE banking_arrivals SET lease_until = ? WHERE organization_id = ? AND account_id = ? AND lease_until = ?",
            until, self.organization_id, self.account_id, self._until,
        )  # fmt: skip
        return until if moved else self._until


def _end_of_claim(tx: Tx) -> int:
    return _LEASE.ends_at(tx.now) - next(_APART) % SECOND


NONE = Arrivals({}, {}, {}, {})


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
        parts = _write(db, organization_id, account, numbers)
        if parts is not None:
            whole = Arrived(
                organization_id, numbers.account_id, numbers.connection_id, numbers.first_id, numbers.first_change,
                numbers.last_payment, parts, account.size,
            )  # fmt: skip
            arrived |= dict.fromkeys(parts, whole)
            if account.connection_id is None:
                made[account.connection_name] = numbers.connection_id
    return Arrivals(arrived, made, {}, {})


def _begin(tx: Tx, organization_id: str, expected: list[Expected]) -> list[_Numbers]:
    """Takes the numbers; none if another delivery of the organisation is being written: the two could change places."""
    # Whoever begins waits for the other here.
    last = ids.last(tx, organization_id)
    if tx.one(
        "SELECT 1 FROM banking_arrivals r WHERE r.organization_id = ? AND NOT EXISTS"
        " (SELECT 1 FROM banking_accounts a WHERE a.organization_id = r.organization_id AND a.id = r.account_id) LIMIT 1",
        organization_id,
    ):
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


def _write(db: Database, organization_id: str, account: Expected, numbers: _Numbers) -> dict[Hashable, Written] | None:
    """Writes the rows. Returns their sums; None if they were given up, because the machine stood still for too long."""
    owner = Owner(organization_id, numbers.account_id, account.iban, numbers.connection_id)
    parts: dict[Hashable, Written] = {}
    count, length = 0, 1
    for part in account.parts:
        found, whole = chunks(part.bookings()), NewRows([], 0, 0, [])
        first = count
        while some := list(islice(found, length)):
            rows: list[tuple[Any, ...]] = []
            for chunk in some:
                at = count + len(rows)
                made = db.read_now(
                    rows_of, owner, [(booking, False) for booking in chunk], numbers.first_id + at,
                    numbers.first_change + at, numbers.now,
                )  # fmt: skip
                rows += made.rows
                whole = whole.with_sums_of(made)
            started = time.monotonic()
            if not db.write_now(_write_some, organization_id, numbers.account_id, rows):
                return None
            length = fitting_length(length, time.monotonic() - started, 1, MAX_CHUNKS)
            count += len(rows)
        if count - first != part.size:
            return None
        parts[part.key] = Written(whole, numbers.first_id + first, part.size)
    return parts


def _write_some(tx: Tx, organization_id: str, account_id: int, rows: list[tuple[Any, ...]]) -> bool:
    if not _LEASE.renew(tx, organization_id, account_id):
        return False
    tx.many(INSERT, rows)
    return True


# --- Existing accounts


def claim(tx: Tx, account: AccountRow) -> Claim | None:
    """Claims an account for a file of statements; None if it is gone. Raises StillRunning if another file is being imported into it."""
    organization_id, account_id = account.organization_id, account.id
    # Whoever imports into the account, merges or removes it now is waited for, so that the judgement that follows knows of it.
    connections.lock_accounts(tx, organization_id, [account.iban])
    if look_up(tx, organization_id, account_id) is None:
        return None
    accounts.check_unclaimed(tx, organization_id, account_id)
    until = _end_of_claim(tx)
    tx.run(
        "INSERT INTO banking_arrivals (organization_id, account_id, lease_until) VALUES (?, ?, ?)",
        organization_id, account_id, until,
    )  # fmt: skip
    return Claim(organization_id, account_id, until)


def store_ahead(
    db: Database,
    account: Callable[[Tx], AccountRow | None],
    delivery: Delivery,
    bookings: Iterable[Reported],
    *,
    all_of_them: bool = False,
) -> Ahead | None:
    """Stores the bookings, except for the last chunk unless `all_of_them`. `account` locks the account and returns it. Returns None if
    that finds none.

    A process that dies leaves what it has stored: each is a booking of the bank, and is recognised when the bank reports it again.
    """
    found, length = chunks(bookings), 1
    whole, rest = Ahead(0, Seen(set(), set()), Counts(0, 0, 0), []), next(found, [])
    while rest:
        following = list(islice(found, length))
        if not following and not all_of_them:
            break
        some, rest = [rest, *following[:-1]], following[-1] if following else []
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
    counts = before.counts.joined(ingest.finish())
    return Ahead(account.id, ingest.seen, counts, [], before.left_out + ingest.left_out)


# --- Sweeping away


def give_up(db: Database, arrivals: Arrivals) -> None:
    """Removes rows that no account was created for, and releases accounts whose statements were not imported."""
    for organization_id, account_id in {(one.organization_id, one.account_id) for one in arrivals.by_key.values()}:
        _remove(db, organization_id, account_id)
    for claimed in arrivals.claims.values():
        if db.write_now(_give_up_claim, claimed):
            _release(db, claimed.organization_id, claimed.account_id, was_broken_off=False)


def _give_up_claim(tx: Tx, claimed: Claim) -> bool:
    return claimed.is_held(tx) and _LEASE.give_up(tx, claimed.organization_id, claimed.account_id)


def sweep(db: Database) -> None:
    """Removes rows that no process works on any more, and releases the accounts."""
    for organization_id, account_id in db.read_now(_abandoned):
        if db.read_now(look_up, organization_id, account_id) is not None:
            _release(db, organization_id, account_id, was_broken_off=True)
        else:
            _remove(db, organization_id, account_id)


def _abandoned(tx: Tx) -> list[Row]:
    return tx.all("SELECT organization_id, account_id FROM banking_arrivals WHERE lease_until <= ?", tx.now)


def _release(db: Database, organization_id: str, account_id: int, *, was_broken_off: bool) -> None:
    """Detaches bookings from statements that were not imported after all: until one is, no statement contains them."""
    after: int | None = 0
    is_news = was_broken_off
    while after is not None:
        after, is_news = db.write_now(_release_some, organization_id, account_id, after, is_news)


def _release_some(tx: Tx, organization_id: str, account_id: int, after: int, is_news: bool) -> tuple[int | None, bool]:
    """Returns the last booking that was looked at, None if there are no more; and whether there is anything to announce."""
    account = look_up(tx, organization_id, account_id)
    connections.lock_accounts(tx, organization_id, [account.iban if account else None])
    if not tx.run(
        "UPDATE banking_arrivals SET lease_until = 0 WHERE organization_id = ? AND account_id = ? AND lease_until <= ?",
        organization_id, account_id, tx.now,
    ):  # fmt: skip
        return None, is_news
    last = tx.one(
        "SELECT id FROM banking_transactions WHERE account_id = ? AND id > ? ORDER BY id LIMIT 1 OFFSET ?",
        account_id, after, ROWS_AT_ONCE - 1,
    )  # fmt: skip
    changed = tx.run(
        "UPDATE banking_transactions SET statement = NULL WHERE account_id = ? AND id > ? AND id <= ? AND statement IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM banking_statements s WHERE s.account_id = ? AND s.identity = statement)",
        account_id, after, last[0] if last else _ALL, account_id,
    )  # fmt: skip
    is_news = is_news or changed > 0
    if last is not None:
        return int(last[0]), is_news
    tx.run("DELETE FROM banking_arrivals WHERE organization_id = ? AND account_id = ?", organization_id, account_id)
    row = account and connections.look_up(tx, organization_id, account.connection_id)
    if row and is_news:
        # The file that stored them ended before it could announce them.
        emit_refresh_complete(tx, row, "manual", of_connection(tx, organization_id, row.id))
    return None, is_news


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
