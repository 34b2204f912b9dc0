"""Ingest: what banks tell becomes transactions, each once. The one place that writes them.

A bank tells the same booking again and again, under other ids, first pending and then posted, late and back-dated. An intake
finds the row that a booking already has; what has none gets a new, higher id. Every change is numbered for the change feed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from datetime import date, timedelta
from typing import NamedTuple

import msgspec

from kontobahn.banking import numbers, payments
from kontobahn.banking.accounts import Account
from kontobahn.banking.model import DescriptionParsed, Transaction, TransactionExtra
from kontobahn.banking.provider import TransactionFacts
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.formats import purpose
from kontobahn.json_text import encode_text
from kontobahn.money import from_minor

# How far the day of a booking may move between two tellings of it.
NEAR = timedelta(days=7)
CHUNK = 2000
_decode = msgspec.json.Decoder(Transaction).decode
_BLANKS = re.compile(r"\s+")

_INSERT = (
    "INSERT INTO banking_transactions (account_id, id, made_on, amount_minor, status, provider_ref, fingerprint, statement,"
    " end_to_end_id, payment_id, first_change, last_change, wire) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE = (
    "UPDATE banking_transactions SET made_on = ?, amount_minor = ?, status = ?, provider_ref = ?, fingerprint = ?,"
    " statement = ?, end_to_end_id = ?, payment_id = ?, last_change = ?, wire = ? WHERE account_id = ? AND id = ?"
)
_KNOWN = "SELECT id, made_on, amount_minor, status, provider_ref, fingerprint, statement, end_to_end_id FROM banking_transactions"


class Known(NamedTuple):
    """A row that is there, as far as finding it again needs."""

    id: int
    made_on: str
    amount_minor: int
    status: str
    provider_ref: str | None
    fingerprint: str
    statement: str | None
    end_to_end_id: str | None


class Counts(NamedTuple):
    added: int
    modified: int
    removed: int


class Intake:
    """Takes one delivery for one account; `finish` settles the account's counts."""

    def __init__(self, tx: Tx, account: Account) -> None:
        self._tx = tx
        self._account = account
        self._was_empty = not (account.posted or account.pending)
        self._loaded: tuple[date, date] | None = None
        self._by_ref: dict[str, list[Known]] = {}
        self._by_content: dict[tuple[int, str], list[Known]] = {}
        self._pending: dict[int, list[Known]] = {}
        self._by_end_to_end: dict[tuple[int, str], list[Known]] = {}
        # Rows that a booking of this delivery has been found to be: none is two bookings.
        self._taken: set[int] = set()
        self._posted = self._waiting = 0
        self.added = self.modified = self.removed = 0

    def add(self, told: Iterable[TransactionFacts]) -> None:
        chunk: list[TransactionFacts] = []
        for facts in told:
            chunk.append(facts)
            if len(chunk) == CHUNK:
                self._add(chunk)
                chunk = []
        if chunk:
            self._add(chunk)

    def drop_missing_pending(self) -> None:
        """The delivery told all that is pending: what it left out has been withdrawn by the bank."""
        for row in self._tx.all(f"{_KNOWN} WHERE account_id = ? AND status = 'pending'", self._account.id):
            known = Known(*row)
            if known.id not in self._taken:
                self._remove(known)

    def drop_unbooked(self, closed_on: str, pending_before: str) -> None:
        """A booked statement up to a day is in: what was told as posted by then and stands in none did not happen."""
        for row in self._tx.all(
            f"{_KNOWN} WHERE account_id = ? AND statement IS NULL AND made_on <= ?", self._account.id, closed_on
        ):
            known = Known(*row)
            if known.id in self._taken:
                continue
            if known.made_on <= pending_before if known.status == "pending" else self._posted_on(known) <= closed_on:
                self._remove(known)

    def _posted_on(self, known: Known) -> str:
        wire = self._tx.one(
            "SELECT wire FROM banking_transactions WHERE account_id = ? AND id = ?", self._account.id, known.id
        )
        assert wire is not None
        return (_decode(wire[0]).extra.posting_date or date.fromisoformat(known.made_on)).isoformat()

    def finish(self) -> Counts:
        self._tx.run(
            "UPDATE banking_accounts SET posted = posted + ?, pending = pending + ? WHERE organization_id = ? AND id = ?",
            self._posted, self._waiting, self._account.organization_id, self._account.id,
        )  # fmt: skip
        return Counts(self.added, self.modified, self.removed)

    def _add(self, chunk: list[TransactionFacts]) -> None:
        if not self._was_empty:
            self._load(min(facts.made_on for facts in chunk) - NEAR, max(facts.made_on for facts in chunk) + NEAR)
        new: list[tuple[TransactionFacts, str, bool]] = []
        for facts in chunk:
            mark = fingerprint(facts)
            known, duplicated = self._find(facts, mark)
            if known is None:
                new.append((facts, mark, duplicated))
            else:
                self._taken.add(known.id)
                self._renew(known, facts, mark)
        self._insert(new)

    # --- Finding the row that a booking already has

    def _load(self, first: date, last: date) -> None:
        """Know the rows of these days."""
        if self._loaded is None:
            stretches, self._loaded = [(first, last)], (first, last)
        else:
            low, high = self._loaded
            stretches = [(first, low - timedelta(days=1)), (high + timedelta(days=1), last)]
            self._loaded = min(first, low), max(last, high)
        for start, end in stretches:
            if start <= end:
                for row in self._tx.all(
                    f"{_KNOWN} WHERE account_id = ? AND made_on >= ? AND made_on <= ? ORDER BY id",
                    self._account.id, start.isoformat(), end.isoformat(),
                ):  # fmt: skip
                    self._remember(Known(*row))

    def _remember(self, known: Known) -> None:
        if known.id in self._taken:
            return
        if known.provider_ref is not None:
            self._by_ref.setdefault(known.provider_ref, []).append(known)
        self._by_content.setdefault((known.amount_minor, known.fingerprint), []).append(known)
        if known.end_to_end_id is not None:
            self._by_end_to_end.setdefault((known.amount_minor, known.end_to_end_id), []).append(known)
        if known.status == "pending":
            self._pending.setdefault(known.amount_minor, []).append(known)

    def _find(self, facts: TransactionFacts, mark: str) -> tuple[Known | None, bool]:
        """The row of this booking; where there is none, whether the bank seems to have told it twice."""
        if self._was_empty:
            return None, False
        for known in self._same_ref(facts):
            if self._is_free(known) and (known.status == "pending" or known.amount_minor == facts.amount_minor):
                return known, False
        duplicated = False
        for known in self._by_content.get((facts.amount_minor, mark), ()):
            if known.provider_ref and facts.provider_ref and known.provider_ref != facts.provider_ref:
                # The bank calls them two. Its second telling of one booking looks the same, so this is only marked.
                duplicated = duplicated or known.status == facts.status == "posted"
            elif self._is_free(known) and not (
                known.statement and facts.statement and known.statement != facts.statement
            ):
                return known, False
        if facts.statement and facts.end_to_end_id:
            for known in self._by_end_to_end.get((facts.amount_minor, facts.end_to_end_id), ()):
                # Told during the day in other words; now it is in the book.
                if (
                    self._is_free(known)
                    and known.statement is None
                    and _days_between(known.made_on, facts.made_on) <= NEAR.days
                ):
                    return known, False
        if facts.status == "posted":
            for known in self._pending.get(facts.amount_minor, ()):
                if self._is_free(known) and _was_pending_as(known, facts):
                    return known, False
        return None, duplicated

    def _same_ref(self, facts: TransactionFacts) -> list[Known]:
        if facts.provider_ref is None:
            return []
        found = self._by_ref.get(facts.provider_ref)
        if found is not None:
            return [
                known
                for known in found
                if known.status == "pending" or _days_between(known.made_on, facts.made_on) <= NEAR.days
            ]
        # What was pending may be posted on a day further away than those that are loaded.
        rows = self._tx.all(
            f"{_KNOWN} WHERE account_id = ? AND provider_ref = ? AND status = 'pending'",
            self._account.id, facts.provider_ref,
        )  # fmt: skip
        return [Known(*row) for row in rows]

    def _is_free(self, known: Known) -> bool:
        return known.id not in self._taken

    # --- Writing

    def _insert(self, new: list[tuple[TransactionFacts, str, bool]]) -> None:
        if not new:
            return
        tx, account = self._tx, self._account
        first_id = numbers.take(tx, account.organization_id, "transaction", len(new))
        change = numbers.take(tx, account.organization_id, "change", len(new))
        moment = to_datetime(tx.now)
        rows = []
        debits: list[tuple[int, int]] = []
        for offset, (facts, mark, duplicated) in enumerate(new):
            number = first_id + offset
            end_to_end_id, parsed, extra = read_text(facts)
            payment = payments.paid_by(tx, account, end_to_end_id, facts.amount_minor)
            row = Transaction(
                id=str(number),
                account_id=str(account.id),
                payment_id=None if payment is None else str(payment),
                duplicated=duplicated,
                mode=facts.mode,
                status=facts.status,
                made_on=facts.made_on,
                amount=from_minor(facts.amount_minor),
                currency_code=facts.currency_code,
                description=facts.description,
                description_parsed=parsed,
                category=facts.category,
                extra=extra,
                created_at=moment,
                updated_at=moment,
            )
            rows.append((
                account.id, number, facts.made_on.isoformat(), facts.amount_minor, facts.status, facts.provider_ref, mark,
                facts.statement, end_to_end_id, payment, change + offset, change + offset, encode_text(row),
            ))  # fmt: skip
            self._taken.add(number)
            self._count(facts.status, 1)
            if payment is not None and facts.status == "posted":
                debits.append((payment, facts.amount_minor))
        tx.many(_INSERT, rows)
        self.added += len(rows)
        for payment, amount_minor in debits:
            payments.note_debit(tx, account.organization_id, payment, amount_minor)

    def _renew(self, known: Known, facts: TransactionFacts, mark: str) -> None:
        """Bring a row up to what the bank tells now; what says nothing new changes nothing."""
        if known.status == "posted" and facts.status == "pending":
            return
        tx, account = self._tx, self._account
        wire = tx.one("SELECT wire FROM banking_transactions WHERE account_id = ? AND id = ?", account.id, known.id)
        assert wire is not None
        before = _decode(wire[0])
        end_to_end_id, parsed, extra = read_text(facts)
        payment = payments.paid_by(tx, account, end_to_end_id, facts.amount_minor)
        after = msgspec.structs.replace(
            before, payment_id=None if payment is None else str(payment), mode=facts.mode, status=facts.status,
            made_on=facts.made_on, amount=from_minor(facts.amount_minor), currency_code=facts.currency_code,
            description=facts.description, description_parsed=parsed, category=facts.category, extra=extra,
        )  # fmt: skip
        if after == before:
            if facts.statement and not known.statement:
                tx.run(
                    "UPDATE banking_transactions SET statement = ? WHERE account_id = ? AND id = ?",
                    facts.statement, account.id, known.id,
                )  # fmt: skip
            return
        after.updated_at = to_datetime(tx.now)
        change = numbers.take(tx, account.organization_id, "change")
        tx.run(
            _UPDATE, facts.made_on.isoformat(), facts.amount_minor, facts.status, facts.provider_ref or known.provider_ref, mark,
            facts.statement or known.statement, end_to_end_id, payment, change, encode_text(after), account.id, known.id,
        )  # fmt: skip
        self._count(known.status, -1)
        self._count(facts.status, 1)
        self.modified += 1
        if payment is not None and facts.status == "posted":
            payments.note_debit(tx, account.organization_id, payment, facts.amount_minor)

    def _remove(self, known: Known) -> None:
        tx, account = self._tx, self._account
        change = numbers.take(tx, account.organization_id, "change")
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
            self._waiting += step


def read_text(facts: TransactionFacts) -> tuple[str | None, DescriptionParsed, TransactionExtra]:
    """The fields of the purpose text. What the bank sent apart from it wins."""
    text = purpose.parse(facts.description)
    told = text.parsed()
    told |= {name: value for name, value in facts.parsed.items() if value is not None and name in told}
    end_to_end_id = facts.end_to_end_id or text.end_to_end_id
    extra = TransactionExtra(**{**facts.extra, "end_to_end_id": end_to_end_id})
    return end_to_end_id, DescriptionParsed(**told), extra


def fingerprint(facts: TransactionFacts) -> str:
    """What a booking says, in a form that survives another line break."""
    said = (
        facts.made_on.isoformat(), str(facts.amount_minor), facts.currency_code, plain(facts.description),
        facts.end_to_end_id or "",
    )  # fmt: skip
    return hashlib.blake2b("\x1f".join(said).encode(), digest_size=16).hexdigest()


def plain(text: str) -> str:
    return _BLANKS.sub("", text).casefold()


def _was_pending_as(known: Known, facts: TransactionFacts) -> bool:
    """Whether this pending row is the posted booking: the same end-to-end id, or the same text, on a near day."""
    if known.end_to_end_id and known.end_to_end_id == facts.end_to_end_id:
        return True
    days = _days_between(known.made_on, facts.made_on)
    return days <= NEAR.days and known.fingerprint == fingerprint(
        facts._replace(made_on=date.fromisoformat(known.made_on))
    )


def _days_between(one: str, other: date) -> int:
    return abs((date.fromisoformat(one) - other).days)
