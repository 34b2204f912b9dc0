"""Ingest: what banks report becomes transactions, each exactly once. The only place that writes them.

A bank reports the same booking repeatedly: under other ids, first pending and then posted, late and back-dated. The ingest
finds the row that a booking already has; one without a row gets a new, higher id. Every change is numbered for the feed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from itertools import islice
from typing import NamedTuple

import msgspec

from kontobahn.banking import ids
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.payments.store import apply_debits, find_paid
from kontobahn.banking.transactions.wire import Reported, Transaction, fingerprint_of, parse_description, texts_of
from kontobahn.clock import to_datetime
from kontobahn.days import days_later
from kontobahn.db import Table, Tx
from kontobahn.json_text import encode
from kontobahn.money import from_minor

# The day of a booking may move this far between two reports of it.
MAX_SHIFT = timedelta(days=7)
CHUNK = 2000
_decode = msgspec.json.Decoder(Transaction).decode

# Written from plain tuples in this order: it runs for every booking of an import.
_INSERT = (
    "INSERT INTO banking_transactions (account_id, id, made_on, amount_minor, status, provider_ref, fingerprint, statement,"
    " end_to_end_id, payment_id, first_change, last_change, wire, booked_on, balance_minor)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE = (
    "UPDATE banking_transactions SET made_on = ?, amount_minor = ?, status = ?, provider_ref = ?, fingerprint = ?,"
    " statement = ?, end_to_end_id = ?, payment_id = ?, last_change = ?, wire = ? WHERE account_id = ? AND id = ?"
)
_INTO_STATEMENT = (
    "UPDATE banking_transactions SET statement = ?, booked_on = ?, balance_minor = ?, provider_ref = COALESCE(?, provider_ref)"
    " WHERE account_id = ? AND id = ?"
)


class KnownRow(NamedTuple):
    """A stored row: the columns needed to recognise its booking."""

    id: int
    made_on: str
    amount_minor: int
    status: str
    provider_ref: str | None
    fingerprint: str
    statement: str | None
    end_to_end_id: str | None


KNOWN = Table("banking_transactions", KnownRow)


class Counts(NamedTuple):
    added: int
    modified: int
    removed: int


class TransactionIngest:
    """Ingests one delivery for one account; `finish` updates the account's counts and the payments whose debits came.

    `ids_are_firm`: the ids are the bank's own, so two of them are never one booking reported twice.
    """

    def __init__(self, tx: Tx, account: AccountRow, *, ids_are_firm: bool = False) -> None:
        self._tx = tx
        self._account = account
        self._ids_are_firm = ids_are_firm
        self._was_empty = not (account.posted or account.pending)
        self._loaded: tuple[date, date] | None = None
        self._by_ref: dict[str, list[KnownRow]] = {}
        self._by_content: dict[tuple[int, str], list[KnownRow]] = {}
        self._pending: dict[int, list[KnownRow]] = {}
        self._pending_by_ref: dict[str | None, list[KnownRow]] | None = None
        self._by_end_to_end: dict[tuple[int, str], list[KnownRow]] = {}
        # Rows matched by a booking of this delivery: no row is two bookings.
        self._matched: set[int] = set()
        # Posted debits of payments: (payment, amount).
        self._debits: list[tuple[int, int]] = []
        self._posted = self._pending_count = 0
        self.added = self.modified = self.removed = 0

    def add(self, bookings: Iterable[Reported]) -> None:
        waiting = iter(bookings)
        while chunk := list(islice(waiting, CHUNK)):
            self._add(chunk)

    def _add(self, chunk: list[Reported]) -> None:
        if not self._was_empty:
            self._load(
                days_later(min(booking.made_on for booking in chunk), -MAX_SHIFT.days),
                days_later(max(booking.made_on for booking in chunk), MAX_SHIFT.days),
            )
        new: list[tuple[Reported, bool]] = []
        for booking in chunk:
            known, duplicated = self._find(booking)
            if known is None:
                new.append((booking, duplicated))
            else:
                self._matched.add(known.id)
                self._update(known, booking)
        self._insert(new)

    def remove_missing_pending(self) -> None:
        """Removes pending rows that a complete delivery left out: the bank has withdrawn them."""
        for known in KNOWN.all(self._tx, "account_id = ? AND status = 'pending'", self._account.id):
            if known.id not in self._matched:
                self._remove(known)

    def remove_unbooked(self, closed_on: str, pending_before: str) -> None:
        """After a booked statement up to a day: removes rows reported as posted by then that no statement contains."""
        for known in KNOWN.all(
            self._tx, "account_id = ? AND statement IS NULL AND made_on <= ?", self._account.id, closed_on
        ):
            if known.id in self._matched:
                continue
            if known.made_on <= pending_before if known.status == "pending" else self._posted_on(known) <= closed_on:
                self._remove(known)

    def _posted_on(self, known: KnownRow) -> str:
        wire = self._tx.one(
            "SELECT wire FROM banking_transactions WHERE account_id = ? AND id = ?", self._account.id, known.id
        )
        assert wire is not None
        return (_decode(wire[0]).extra.posting_date or date.fromisoformat(known.made_on)).isoformat()

    def finish(self) -> Counts:
        self._tx.run(
            "UPDATE banking_accounts SET posted = posted + ?, pending = pending + ? WHERE organization_id = ? AND id = ?",
            self._posted, self._pending_count, self._account.organization_id, self._account.id,
        )  # fmt: skip
        apply_debits(self._tx, self._account.organization_id, self._debits)
        return Counts(self.added, self.modified, self.removed)

    # --- Finding a booking's row

    def _load(self, first: date, last: date) -> None:
        """Loads the rows of these days that are not loaded yet."""
        if self._loaded is None:
            ranges, self._loaded = [(first, last)], (first, last)
        else:
            low, high = self._loaded
            ranges = [(first, days_later(low, -1))] if first < low else []
            ranges += [(days_later(high, 1), last)] if last > high else []
            self._loaded = min(first, low), max(last, high)
        for start, end in ranges:
            for known in KNOWN.all(
                self._tx, "account_id = ? AND made_on >= ? AND made_on <= ? ORDER BY id",
                self._account.id, start.isoformat(), end.isoformat(),
            ):  # fmt: skip
                self._remember(known)

    def _remember(self, known: KnownRow) -> None:
        if known.id in self._matched:
            return
        if known.provider_ref is not None:
            self._by_ref.setdefault(known.provider_ref, []).append(known)
        self._by_content.setdefault((known.amount_minor, known.fingerprint), []).append(known)
        if known.end_to_end_id is not None:
            self._by_end_to_end.setdefault((known.amount_minor, known.end_to_end_id), []).append(known)
        if known.status == "pending":
            self._pending.setdefault(known.amount_minor, []).append(known)

    def _find(self, booking: Reported) -> tuple[KnownRow | None, bool]:
        """Returns this booking's row; if there is none, also whether the bank seems to have reported it twice."""
        if self._was_empty:
            return None, False
        for known in self._same_ref(booking):
            if self._is_free(known) and (known.status == "pending" or known.amount_minor == booking.amount_minor):
                return known, False
        duplicated = False
        for known in self._by_content.get((booking.amount_minor, booking.fingerprint), ()):
            if known.provider_ref and booking.provider_ref and known.provider_ref != booking.provider_ref:
                # Two ids mean two bookings. One booking reported under two ids looks the same, so it is only marked.
                duplicated = duplicated or (known.status == booking.status == "posted" and not self._ids_are_firm)
            elif self._is_free(known) and not (
                known.statement and booking.statement and known.statement != booking.statement
            ):
                return known, False
        if booking.statement and booking.end_to_end_id:
            for known in self._by_end_to_end.get((booking.amount_minor, booking.end_to_end_id), ()):
                # Reported during the day in other words; now a booked statement contains it.
                if (
                    self._is_free(known)
                    and known.statement is None
                    and _days_between(known.made_on, booking.made_on) <= MAX_SHIFT.days
                ):
                    return known, False
        if booking.status == "posted":
            for known in self._pending.get(booking.amount_minor, ()):
                if self._is_free(known) and _became(known, booking):
                    return known, False
        return None, duplicated

    def _same_ref(self, booking: Reported) -> list[KnownRow]:
        if booking.provider_ref is None:
            return []
        found = self._by_ref.get(booking.provider_ref)
        if found is not None:
            return [
                known
                for known in found
                if known.status == "pending" or _days_between(known.made_on, booking.made_on) <= MAX_SHIFT.days
            ]
        # A pending row may be posted on a day outside the loaded range.
        if self._pending_by_ref is None:
            self._pending_by_ref = {}
            # All at once: asked for each new booking, a long history would be searched each time.
            for known in KNOWN.all(self._tx, "account_id = ? AND status = 'pending'", self._account.id):
                self._pending_by_ref.setdefault(known.provider_ref, []).append(known)
        return self._pending_by_ref.get(booking.provider_ref, [])

    def _is_free(self, known: KnownRow) -> bool:
        return known.id not in self._matched

    # --- Writing

    def _insert(self, new: list[tuple[Reported, bool]]) -> None:
        if not new:
            return
        tx, account = self._tx, self._account
        first_id = ids.take(tx, account.organization_id, "transaction", len(new))
        change = ids.take(tx, account.organization_id, "change", len(new))
        time = encode(to_datetime(tx.now)).decode()
        rows = []
        for offset, (booking, looks_duplicated) in enumerate(new):
            number = first_id + offset
            texts = booking.texts or texts_of(booking.facts())
            payment = find_paid(tx, account, texts.end_to_end_id, booking.amount_minor)
            is_duplicate = looks_duplicated if booking.duplicated is None else booking.duplicated
            rows.append((
                account.id, number, booking.made_on.isoformat(), booking.amount_minor, booking.status, booking.provider_ref,
                booking.fingerprint, booking.statement, texts.end_to_end_id, payment, change + offset, change + offset,
                texts.stored(number, account.id, payment, time, is_duplicate=is_duplicate), booking.booked_on,
                booking.balance_minor,
            ))  # fmt: skip
            self._matched.add(number)
            self._count(booking.status, 1)
            if payment is not None and booking.status == "posted":
                self._debits.append((payment, booking.amount_minor))
        tx.many(_INSERT, rows)
        self.added += len(rows)

    def _update(self, known: KnownRow, booking: Reported) -> None:
        """Updates a row to what the bank reports now, if that is anything new."""
        if known.status == "posted" and booking.status == "pending":
            return
        tx, account, facts = self._tx, self._account, booking.facts()
        wire = tx.one("SELECT wire FROM banking_transactions WHERE account_id = ? AND id = ?", account.id, known.id)
        assert wire is not None
        before = _decode(wire[0])
        end_to_end_id, parsed, extra = parse_description(facts)
        payment = find_paid(tx, account, end_to_end_id, facts.amount_minor)
        after = msgspec.structs.replace(
            before, payment_id=None if payment is None else str(payment), mode=facts.mode, status=facts.status,
            made_on=facts.made_on, amount=from_minor(facts.amount_minor), currency_code=facts.currency_code,
            description=facts.description, description_parsed=parsed, category=facts.category, extra=extra,
            duplicated=before.duplicated if facts.duplicated is None else facts.duplicated,
        )  # fmt: skip
        if facts.statement and not known.statement:
            tx.run(
                _INTO_STATEMENT, booking.statement, booking.booked_on, booking.balance_minor, booking.provider_ref,
                account.id, known.id,
            )  # fmt: skip
        if after == before:
            return
        after.updated_at = to_datetime(tx.now)
        change = ids.take(tx, account.organization_id, "change")
        tx.run(
            _UPDATE, facts.made_on.isoformat(), facts.amount_minor, facts.status, facts.provider_ref or known.provider_ref,
            booking.fingerprint, facts.statement or known.statement, end_to_end_id, payment, change,
            encode(after).decode(), account.id, known.id,
        )  # fmt: skip
        self._count(known.status, -1)
        self._count(facts.status, 1)
        self.modified += 1
        if payment is not None and facts.status == "posted":
            self._debits.append((payment, facts.amount_minor))

    def _remove(self, known: KnownRow) -> None:
        tx, account = self._tx, self._account
        change = ids.take(tx, account.organization_id, "change")
        tx.run(
            "INSERT INTO banking_removed_transactions"
            " (organization_id, change_number, account_id, connection_id, id, first_change, removed_at)"
            " SELECT ?, ?, account_id, ?, id, first_change, ? FROM banking_transactions WHERE account_id = ? AND id = ?",
            account.organization_id, change, account.connection_id, tx.now, account.id, known.id,
        )  # fmt: skip
        tx.run("DELETE FROM banking_transactions WHERE account_id = ? AND id = ?", account.id, known.id)
        self._count(known.status, -1)
        self.removed += 1

    def _count(self, status: str, step: int) -> None:
        if status == "posted":
            self._posted += step
        else:
            self._pending_count += step


def _became(known: KnownRow, booking: Reported) -> bool:
    """Returns whether the pending row became this posted booking: same end-to-end id or same text, on a nearby day."""
    if _days_between(known.made_on, booking.made_on) > MAX_SHIFT.days:
        return False
    if known.end_to_end_id and known.end_to_end_id == booking.end_to_end_id:
        return True
    return known.fingerprint == fingerprint_of(booking.facts()._replace(made_on=date.fromisoformat(known.made_on)))


def _days_between(one: str, other: date) -> int:
    return abs((date.fromisoformat(one) - other).days)
