"""Ingest: what banks report becomes transactions, each exactly once. The only place that writes them.

A bank reports the same booking repeatedly: under other ids, first pending and then posted, late and back-dated. The ingest
finds the row that a booking already has; one without a row gets a new, higher id. Every change is numbered for the feed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from kontobahn.banking import ids
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.payments.store import apply_debits, find_paid
from kontobahn.banking.provider import TransactionFacts
from kontobahn.banking.transactions.recognition import KNOWN, Delivery, KnownRow, Parts, Recognition, Seen
from kontobahn.banking.transactions.wire import Reported, Transaction, TransactionDetail, parse_description, texts_of
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.json_text import encode
from kontobahn.money import from_minor

CHUNK = 2000
_decode = msgspec.json.Decoder(Transaction).decode

# Written from plain tuples in this order: it runs for every booking of an import.
INSERT = (
    "INSERT INTO banking_transactions (account_id, id, made_on, amount_minor, status, provider_ref, fingerprint, statement,"
    " end_to_end_id, payment_id, first_change, last_change, wire, booked_on, balance_minor, source, batch)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE = (
    "UPDATE banking_transactions SET made_on = ?, amount_minor = ?, status = ?, provider_ref = ?, fingerprint = ?,"
    " source = ?, statement = ?, end_to_end_id = ?, payment_id = ?, last_change = ?, wire = ? WHERE account_id = ? AND id = ?"
)
_INTO_STATEMENT = (
    "UPDATE banking_transactions SET statement = ?, booked_on = ?, balance_minor = ?, provider_ref = ?, source = ?"
    " WHERE account_id = ? AND id = ?"
)


class Owner(NamedTuple):
    """The account that rows are of, and the connection that they come by."""

    organization_id: str
    account_id: int
    iban: str | None
    connection_id: str


class NewRows(NamedTuple):
    """Rows for `INSERT`, and what they come to."""

    rows: list[tuple[Any, ...]]
    posted: int
    pending: int
    # Posted debits of payments: (payment, amount).
    debits: list[tuple[int, int]]

    def with_sums_of(self, more: NewRows) -> NewRows:
        return self._replace(
            posted=self.posted + more.posted, pending=self.pending + more.pending, debits=self.debits + more.debits
        )


class Counts(NamedTuple):
    added: int
    modified: int
    removed: int

    def joined(self, more: Counts) -> Counts:
        return Counts(self.added + more.added, self.modified + more.modified, self.removed + more.removed)


class TransactionIngest:
    """Ingests one delivery for one account, or the rest of one of which some was `seen` before; `finish` updates the account's counts
    and the payments whose debits came."""

    def __init__(self, tx: Tx, account: AccountRow, delivery: Delivery, seen: Seen | None = None) -> None:
        self._tx = tx
        self._account = account
        self._connection_id = delivery.source
        self._rows = Recognition(tx, account, delivery, seen)
        # Posted debits of payments: (payment, amount).
        self._debits: list[tuple[int, int]] = []
        self._posted = self._pending_count = 0
        self.added = self.modified = self.removed = self.left_out = 0

    def add(self, bookings: Iterable[Reported]) -> None:
        for chunk in chunks(bookings):
            outcome = self._rows.recognise(chunk)
            for found in outcome.found:
                self._update(found.known, found.booking, is_exact=found.is_exact)
            for batch in outcome.batches:
                self._join(batch)
            self._insert(outcome.new)
            self.left_out += outcome.left_out

    def remove_missing_pending(self) -> None:
        """Removes pending rows that a complete delivery left out: the bank has withdrawn what it announced by this connection."""
        for known in KNOWN.all(self._tx, "account_id = ? AND status = 'pending'", self._account.id):
            if known.source == self._connection_id and known.id not in self._rows.matched:
                self._remove(known)

    def remove_unbooked(self, first_day: Callable[[], str], closed_on: str, pending_before: str) -> None:
        """After booked statements from a day to another: removes rows reported as posted then that no statement contains.

        On the first and the last day other connections may have more than the statements. The first day is asked for only if there are
        such rows.
        """
        begins_on = ""
        for known in KNOWN.all(
            self._tx, "account_id = ? AND statement IS NULL AND made_on <= ?", self._account.id, closed_on
        ):
            if known.id in self._rows.matched:
                continue
            if known.status == "pending":
                is_gone = known.made_on <= pending_before
            else:
                begins_on = begins_on or first_day()
                day = self._posted_on(known)
                is_inside = begins_on < day < closed_on
                is_gone = is_inside or (known.source == self._connection_id and begins_on <= day <= closed_on)
            if is_gone:
                self._remove(known)

    def _posted_on(self, known: KnownRow) -> str:
        return (self._read(known).extra.posting_date or date.fromisoformat(known.made_on)).isoformat()

    @property
    def seen(self) -> Seen:
        return Seen(self._rows.matched, self._rows.written)

    def finish(self) -> Counts:
        self._tx.run(
            "UPDATE banking_accounts SET posted = posted + ?, pending = pending + ? WHERE organization_id = ? AND id = ?",
            self._posted, self._pending_count, self._account.organization_id, self._account.id,
        )  # fmt: skip
        apply_debits(self._tx, self._account.organization_id, self._debits)
        return Counts(self.added, self.modified, self.removed)

    # --- Writing

    def _insert(self, new: list[tuple[Reported, bool]]) -> None:
        if not new:
            return
        tx, account = self._tx, self._account
        first_id = ids.take(tx, account.organization_id, "transaction", len(new))
        change = ids.take(tx, account.organization_id, "change", len(new))
        owner = Owner(account.organization_id, account.id, account.iban, self._connection_id)
        made = rows_of(tx, owner, new, first_id, change, tx.now)
        tx.many(INSERT, made.rows)
        self.take_in(made, first_id, len(new))

    def take_in(self, made: NewRows, first_id: int, count: int) -> None:
        """Counts rows that are written."""
        numbers = range(first_id, first_id + count)
        self._rows.matched.update(numbers)
        self._rows.written.update(numbers)
        self._posted += made.posted
        self._pending_count += made.pending
        self._debits += made.debits
        self.added += count

    def _update(self, known: KnownRow, booking: Reported, *, is_exact: bool) -> None:
        """Updates a row to what the bank reports now, if that is anything new.

        What a statement contains, and what another connection reports, stays in its own words, until the statement or the booking comes.
        """
        if known.status == "posted" and booking.status == "pending":
            return
        is_confirmed = booking.statement is not None and known.statement is None
        is_booked = known.status == "pending" and booking.status == "posted"
        is_own = known.source in (None, self._connection_id) and (is_exact or known.statement is None)
        if not (is_own or is_confirmed or is_booked):
            return
        tx, account, facts = self._tx, self._account, booking.facts()
        before = self._read(known)
        end_to_end_id, parsed, extra = parse_description(facts)
        extra.details = before.extra.details
        payment = find_paid(tx, account.organization_id, account.id, account.iban, end_to_end_id, facts.amount_minor)
        after = msgspec.structs.replace(
            before, payment_id=None if payment is None else str(payment), mode=facts.mode, status=facts.status,
            made_on=facts.made_on, amount=from_minor(facts.amount_minor), currency_code=facts.currency_code,
            description=facts.description, description_parsed=parsed, category=facts.category, extra=extra,
            duplicated=before.duplicated if facts.duplicated is None else facts.duplicated,
        )  # fmt: skip
        # A reference stays with the connection that it is of.
        ref, source = (
            (booking.provider_ref, self._connection_id) if booking.provider_ref else (known.provider_ref, known.source)
        )
        if is_confirmed or (ref, source) != (known.provider_ref, known.source):
            self._confirm(known, booking.statement or known.statement, booking, ref, source)
        if after == before:
            return
        after.updated_at = to_datetime(tx.now)
        change = ids.take(tx, account.organization_id, "change")
        tx.run(
            _UPDATE, facts.made_on.isoformat(), facts.amount_minor, facts.status, ref, booking.fingerprint, source,
            facts.statement or known.statement, end_to_end_id, payment, change, encode(after).decode(), account.id, known.id,
        )  # fmt: skip
        self._count(known.status, -1)
        self._count(facts.status, 1)
        self.modified += 1
        if payment is not None and facts.status == "posted":
            self._debits.append((payment, facts.amount_minor))

    def _read(self, known: KnownRow) -> Transaction:
        wire = self._tx.one(
            "SELECT wire FROM banking_transactions WHERE account_id = ? AND id = ?", self._account.id, known.id
        )
        assert wire is not None
        return _decode(wire[0])

    def _confirm(
        self, known: KnownRow, statement: str | None, booking: Reported, ref: str | None, source: str | None
    ) -> None:
        booked_on, balance = booking.booked_on or known.booked_on, booking.balance_minor
        self._tx.run(_INTO_STATEMENT, statement, booked_on, balance, ref, source, self._account.id, known.id)

    def _join(self, batch: Parts) -> None:
        """Makes one fact of a batch that is a sum here and its parts there: the parts are shown with the sum."""
        sums, parts = batch
        if len(parts) > 1:
            [known] = sums
            self._change(known, status=parts[0].status, details=details_of(part.facts() for part in parts))
            if parts[-1].statement and not known.statement:
                self._confirm(known, parts[-1].statement, parts[-1], known.provider_ref, known.source)
            return
        [booking] = parts
        balance = booking.balance_minor
        for known in reversed(sums):
            self._change(known, status=booking.status)
            if booking.statement and not known.statement:
                self._confirm(
                    known, booking.statement, booking._replace(balance_minor=balance), known.provider_ref, known.source
                )
                balance = None if balance is None else balance - known.amount_minor

    def attach(self, row_id: int, parts: list[Reported]) -> None:
        """Tells the parts of a batch with the row of its sum."""
        known = KNOWN.one(self._tx, "account_id = ? AND id = ?", self._account.id, row_id)
        assert known is not None
        self._change(known, status=known.status, details=details_of(part.facts() for part in parts))

    def _change(self, known: KnownRow, *, status: str, details: list[TransactionDetail] | None = None) -> None:
        """Writes that a row is posted now, or has details that it had not."""
        before = self._read(known)
        extra = before.extra
        if details is not None and extra.details is UNSET:
            extra = msgspec.structs.replace(extra, details=details)
        is_booked = known.status == "pending" and status == "posted"
        after = msgspec.structs.replace(before, status="posted" if is_booked else before.status, extra=extra)
        if after == before:
            return
        after.updated_at = to_datetime(self._tx.now)
        change = ids.take(self._tx, self._account.organization_id, "change")
        self._tx.run(
            "UPDATE banking_transactions SET status = ?, last_change = ?, wire = ? WHERE account_id = ? AND id = ?",
            after.status, change, encode(after).decode(), self._account.id, known.id,
        )  # fmt: skip
        self._count(known.status, -1)
        self._count(after.status, 1)
        self.modified += 1

    def _remove(self, known: KnownRow) -> None:
        tx, account = self._tx, self._account
        change = ids.take(tx, account.organization_id, "change")
        tx.run(
            "INSERT INTO banking_removed_transactions"
            " (organization_id, change_number, account_id, connection_id, id, first_change, removed_at)"
            " SELECT ?, ?, account_id, ?, id, first_change, ? FROM banking_transactions WHERE account_id = ? AND id = ?",
            account.organization_id, change, self._connection_id, tx.now, account.id, known.id,
        )  # fmt: skip
        tx.run("DELETE FROM banking_transactions WHERE account_id = ? AND id = ?", account.id, known.id)
        self._count(known.status, -1)
        self.removed += 1

    def _count(self, status: str, step: int) -> None:
        if status == "posted":
            self._posted += step
        else:
            self._pending_count += step


def has_unconfirmed(tx: Tx, account_id: int, first: str) -> bool:
    """Returns whether there are posted transactions from this day on that no statement contains."""
    found = tx.one(
        "SELECT 1 FROM banking_transactions WHERE account_id = ? AND statement IS NULL AND made_on >= ? AND status = 'posted' LIMIT 1",
        account_id, first,
    )  # fmt: skip
    return found is not None


def rows_of(
    tx: Tx, owner: Owner, new: list[tuple[Reported, bool]], first_id: int, first_change: int, now: int
) -> NewRows:
    """Makes rows of bookings, each of which may look like one that was reported twice, with rising numbers."""
    time = encode(to_datetime(now)).decode()
    rows: list[tuple[Any, ...]] = []
    debits: list[tuple[int, int]] = []
    posted = 0
    batch: tuple[str | None, int] = (None, 0)
    for offset, (booking, looks_duplicated) in enumerate(new):
        number, change = first_id + offset, first_change + offset
        if booking.batch != batch[0]:
            batch = booking.batch, number
        texts = booking.texts or texts_of(booking.facts())
        payment = find_paid(
            tx, owner.organization_id, owner.account_id, owner.iban, texts.end_to_end_id, booking.amount_minor
        )
        is_duplicate = looks_duplicated if booking.duplicated is None else booking.duplicated
        rows.append((
            owner.account_id, number, booking.made_on.isoformat(), booking.amount_minor, booking.status, booking.provider_ref,
            booking.fingerprint, booking.statement, texts.end_to_end_id, payment, change, change,
            texts.stored(number, owner.account_id, payment, time, is_duplicate=is_duplicate), booking.booked_on,
            booking.balance_minor, owner.connection_id, batch[1] if booking.batch else None,
        ))  # fmt: skip
        if booking.status == "posted":
            posted += 1
            if payment is not None:
                debits.append((payment, booking.amount_minor))
    return NewRows(rows, posted, len(rows) - posted, debits)


def remove_rows(tx: Tx, account_id: int, count: int) -> int:
    """Deletes some rows that were never seen, of an account that is not there. Returns how many."""
    return tx.run(
        "DELETE FROM banking_transactions WHERE account_id = ? AND id IN"
        " (SELECT id FROM banking_transactions WHERE account_id = ? ORDER BY id LIMIT ?)"
        " AND NOT EXISTS (SELECT 1 FROM banking_accounts a WHERE a.id = ?)",
        account_id, account_id, count, account_id,
    )  # fmt: skip


def chunks(bookings: Iterable[Reported]) -> Iterator[list[Reported]]:
    """Yields some at a time, the parts of a batch together."""
    chunk: list[Reported] = []
    for booking in bookings:
        if len(chunk) >= CHUNK and (booking.batch is None or booking.batch != chunk[-1].batch):
            yield chunk
            chunk = []
        chunk.append(booking)
    if chunk:
        yield chunk


def details_of(parts: Iterable[TransactionFacts]) -> list[TransactionDetail]:
    """The payments of a batch, to be shown with its sum."""
    return [_detail(part) for part in parts]


def _detail(facts: TransactionFacts) -> TransactionDetail:
    end_to_end_id, parsed, extra = parse_description(facts)
    is_credit = facts.amount_minor >= 0
    return TransactionDetail(
        amount=from_minor(facts.amount_minor),
        description=parsed.svwz or facts.description,
        name=extra.payer if is_credit else extra.payee,
        account=extra.payer_information if is_credit else extra.payee_information,
        end_to_end_id=end_to_end_id,
    )
