"""One statement being imported: its entries wait on disk, and those that are not known yet are ingested."""

from __future__ import annotations

from datetime import timedelta

from kontobahn.banking.accounts import AccountRow
from kontobahn.banking.imports import spans as store
from kontobahn.banking.imports.conflict import contradiction
from kontobahn.banking.imports.overlap import Booking, Plan, Span, Stretch, by_days, compare, match
from kontobahn.banking.imports.reading import ReadStatement, Telling
from kontobahn.banking.transactions.ingest import TransactionIngest
from kontobahn.db import Tx
from kontobahn.formats.statements import Closing, StatementError, StatementWarning
from kontobahn.formats.statements.model import UNBALANCED

# A pending entry that no statement has mentioned for this long will not be booked.
MAX_PENDING = timedelta(days=14)


class StatementImport:
    """A statement that was read; `run` imports it.

    Afterwards `span` is the number of its span, if it has one. `is_new` is False if it brought nothing that was not known.
    """

    def __init__(
        self, tx: Tx, account: AccountRow, statement: ReadStatement, own_ibans: set[str], *, unbalanced: bool
    ) -> None:
        self._tx = tx
        self.account = account
        self._statement = statement
        self._opening = statement.opening
        self._own_ibans = own_ibans
        self._unbalanced = unbalanced
        self._bookings = statement.bookings()
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

    def run(self, source: str) -> None:
        """Raises StatementError if the statement contradicts those imported before it."""
        closing = self._statement.closing
        if self._opening.kind == "booked":
            self._run_booked(closing, source)
        # An advice repeats entries of statements, often split differently: if there are statements, they are authoritative.
        elif self._opening.kind == "advice" and store.has_statements(self._tx, self.account.id):
            self.left_out = self._statement.entry_count
        else:
            self._ingest_entries({}, None, None)
            self.ingest.finish()
            self._set_balance(closing)

    def _run_booked(self, closing: Closing, source: str) -> None:
        tx, account_id = self._tx, self.account.id
        sha256 = self._statement.sha256
        identity = self._statement.identity
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
            booking._replace(balance_minor=start + (booking.balance_minor or 0)) for booking in self._bookings
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
            rows = store.rows_between(self._tx, self.account.id, self._statement.value_dates, stated)
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

    def _texts(self, numbers: set[int]) -> dict[int, str]:
        return {number: entry.description for number, entry in self._statement.entries() if number in numbers}

    def _ingest_entries(self, shared: dict[int, Booking], identity: str | None, balance: int | None) -> None:
        if len(shared) == self._statement.entry_count:
            return
        bookings = self._statement.reported(Telling(frozenset(self._own_ibans), identity, balance))
        self.ingest.add(booking for number, booking in bookings if number not in shared)

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
