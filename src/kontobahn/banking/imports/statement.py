"""One statement being imported: its entries wait on disk until it has ended, then those that are not known yet are ingested."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta

import msgspec

from kontobahn.banking.accounts import AccountRow
from kontobahn.banking.imports import spans as store
from kontobahn.banking.imports.conflict import contradiction
from kontobahn.banking.imports.entries import entry_facts, made_on, reference_of
from kontobahn.banking.imports.overlap import Booking, Plan, Span, Stretch, by_days, compare, match
from kontobahn.banking.provider import TransactionFacts
from kontobahn.banking.transactions.ingest import TransactionIngest, fingerprint
from kontobahn.db import Tx
from kontobahn.formats.statements import Closing, Entry, Opening, StatementError, StatementWarning
from kontobahn.formats.statements.model import UNBALANCED

CHUNK = 2000
_SPOOL_BYTES = 4 * 1024 * 1024
# A pending entry that no statement has mentioned for this long will not be booked.
MAX_PENDING = timedelta(days=14)
_decode = msgspec.json.Decoder(Entry).decode
_encode = msgspec.json.Encoder().encode


class StatementImport:
    """Takes a statement's entries one after the other; `close` imports them.

    Afterwards `span` is the number of its span, if it has one. `is_new` is False if it brought nothing that was not known.
    """

    def __init__(self, tx: Tx, account: AccountRow, opening: Opening, own_ibans: set[str], *, unbalanced: bool) -> None:
        self._tx = tx
        self.account = account
        self._opening = opening
        self._own_ibans = own_ibans
        self._unbalanced = unbalanced
        self._digest = hashlib.sha256()
        self._entries = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115 - closed by `close` or `forget`
        self._bookings: list[Booking] = []
        self._references: Counter[str] = Counter()
        self._value_dates: tuple[date, date] | None = None
        self._moved = 0
        self._number = 0
        self.ingest = TransactionIngest(tx, account, ids_are_firm=True)
        self.left_out = 0
        self.span = store.NO_SPAN
        self.is_new = True
        self.warnings: list[StatementWarning] = []
        self._balance = account.balance

    @property
    def has_changed(self) -> bool:
        """Whether anything is stored that was not before."""
        counts = self.ingest.added + self.ingest.modified + self.ingest.removed
        return bool(counts) or self._balance != self.account.balance

    def add(self, entry: Entry) -> None:
        line = _encode(msgspec.structs.replace(entry, line=0))
        self._digest.update(line)
        self._entries.write(line)
        self._entries.write(b"\n")
        self._number += 1
        if (reference := reference_of(entry)) is not None:
            self._references[reference] += 1
        if self._opening.kind == "booked" and entry.status == "posted":
            self._moved += entry.amount_minor
            self._add_booking(entry, reference)

    def _add_booking(self, entry: Entry, reference: str | None) -> None:
        day, end_to_end_id = made_on(entry), entry.end_to_end_id
        low, high = self._value_dates or (day, day)
        self._value_dates = min(low, day), max(high, day)
        content = fingerprint(day, entry.amount_minor, entry.currency, entry.description, end_to_end_id)
        self._bookings.append(
            Booking(
                self._number, entry.booking_date.isoformat(), entry.amount_minor, content, reference, end_to_end_id,
                self._moved,
            )
        )  # fmt: skip

    def forget(self) -> None:
        self._entries.close()

    def close(self, closing: Closing, source: str) -> None:
        """Raises StatementError if the statement contradicts those imported before it."""
        with self._entries:
            if self._opening.kind == "booked":
                self._close_booked(closing, source)
            # An advice repeats entries of statements, often split differently: if there are statements, they are authoritative.
            elif self._opening.kind == "advice" and store.has_statements(self._tx, self.account.id):
                self.left_out = self._number
            else:
                self._ingest_entries({}, None, None)
                self.ingest.finish()
                self._set_balance(closing)

    def _close_booked(self, closing: Closing, source: str) -> None:
        tx, account_id = self._tx, self.account.id
        sha256 = self._digest.hexdigest()
        identity = store.identity_of(self._opening, sha256)
        if store.is_known(tx, account_id, identity):
            self.is_new = False
            return
        ends = store.ends_of(tx, account_id, closing)
        stated = self._stretch(closing, ends)
        spans = store.load_days(tx, account_id, stated)
        plan = self._compare(stated, spans, by_balances=ends is not None and closing.adds_up)
        if ends is not None:
            self.span = store.extend(tx, account_id, spans, stated, plan)
        store.record(
            tx, account_id, closing, identity=identity, sha256=sha256, source=source, span=self.span, ends=ends
        )
        self._ingest_entries(plan.shared, identity, ends and ends.opens_minor)
        self.is_new = len(plan.shared) < len(self._bookings) or "inside" not in plan.relations.values()
        if closing.balance is not None:
            # What intraday reports showed as booked by then, but no statement contains, did not happen.
            day = closing.balance.day
            self.ingest.remove_unbooked(day.isoformat(), (day - MAX_PENDING).isoformat())
        self.ingest.finish()
        self._set_balance(closing)

    def _stretch(self, closing: Closing, ends: store.Ends | None) -> Stretch:
        opening = self._opening
        days = [booking.booked_on for booking in self._bookings]
        start = ends.opens_minor if ends else 0
        self._bookings = [
            booking._replace(
                balance_minor=start + (booking.balance_minor or 0),
                reference=booking.reference if self._references[booking.reference or ""] == 1 else None,
            )
            for booking in self._bookings
        ]
        closes_on = str(store.closes_on(closing) or max(days, default=""))
        opens = opening.balance.day if opening.balance else opening.from_date
        opens_on = str(opens or min(days, default=closes_on))
        return Stretch(
            start, opens_on, ends.closes_minor if ends else 0, closes_on, min(days, default=closes_on),
            max(days, default=closes_on), opening.number, opening.number, opening.statement_id,
        )  # fmt: skip

    def _compare(self, stated: Stretch, spans: list[Span], *, by_balances: bool) -> Plan:
        """Finds the bookings that are already known, judged by the balances if they prove anything."""
        rows: list[Booking] = []
        if stated.begins_on and store.has_statements(self._tx, self.account.id):
            rows = store.rows_between(self._tx, self.account.id, self._value_dates, stated)
        if by_balances:
            plan = compare(stated, self._bookings, spans, rows)
            if plan is not None:
                self._warn_of_other_words(plan.in_other_words)
                return plan
            sentence = contradiction(self._tx, self.account, stated, self._bookings, spans, rows, self._texts)
            if not self._unbalanced:
                raise self.error(f"{sentence} {UNBALANCED}")
            self._warn(sentence, "Imported nevertheless, but for bookings that are known by day, amount and text.")
        return Plan(match(self._bookings, rows), by_days(stated, spans))

    def _warn_of_other_words(self, count: int) -> None:
        if count:
            sentence = f"{count} bookings are known in other words: day, amount and balances are the same."
            self._warn(sentence, "Left as they are.")

    def _warn(self, found: str, done: str) -> None:
        self.warnings.append(StatementWarning(f"statement {self._opening.statement_id}", found, done))

    def error(self, sentence: str) -> StatementError:
        opening = self._opening
        return StatementError(sentence, file=opening.file, statement=opening.statement_id, place=f"line {opening.line}")

    def _replay(self) -> Iterator[tuple[int, Entry]]:
        self._entries.seek(0)
        for number, line in enumerate(self._entries, 1):
            yield number, _decode(line)

    def _texts(self, numbers: set[int]) -> dict[int, str]:
        return {number: entry.description for number, entry in self._replay() if number in numbers}

    def _ingest_entries(self, shared: dict[int, Booking], identity: str | None, balance: int | None) -> None:
        if len(shared) == self._number:
            return
        chunk: list[TransactionFacts] = []
        for number, entry in self._replay():
            booked = identity if entry.status == "posted" else None
            if booked and balance is not None:
                balance += entry.amount_minor
            if number in shared:
                continue
            chunk.append(self._facts(entry, booked, balance if booked else None))
            if len(chunk) >= CHUNK:
                self.ingest.add(chunk)
                chunk = []
        self.ingest.add(chunk)

    def _set_balance(self, closing: Closing) -> None:
        """The account's balance is that of its latest statement, or of an intraday report after it."""
        latest = store.latest(self._tx, self.account.id)
        reported = closing.balance if self._opening.kind != "booked" else None
        if reported is not None and (latest is None or reported.day.isoformat() >= latest.closes_on):
            balance = reported.amount_minor
        elif latest is not None:
            balance = latest.closes_minor
        else:
            return
        self._balance = balance
        self._tx.run(
            "UPDATE banking_accounts SET balance_minor = ?, balance_known = 1, updated_at = ? WHERE organization_id = ? AND id = ?",
            balance, self._tx.now, self.account.organization_id, self.account.id,
        )  # fmt: skip

    def _facts(self, entry: Entry, statement: str | None = None, balance: int | None = None) -> TransactionFacts:
        reference = reference_of(entry)
        return entry_facts(
            entry, self.account.provider_ref, self._own_ibans,
            reference=reference if reference and self._references[reference] == 1 else None, statement=statement, balance=balance,
        )  # fmt: skip
