"""Imports statement files: accounts by IBAN, entries as transactions, status reports to their payments.

A file is read before (`files.py`), and imported in one transaction; the entries of a large statement of a new account are written before
it, where nobody sees them. Booked statements may overlap, and must leave no gap between
them that was not there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, timedelta
from functools import cached_property, partial

import msgspec

from kontobahn.banking.connections import accounts, sources
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.accounts import AccountRow, emit_refresh_complete
from kontobahn.banking.imports import store
from kontobahn.banking.imports.files import ReadFile, ReadStatement, RenderContext, own_ibans, reference_of
from kontobahn.banking.imports.rules import Booking, Gap, Plan, Span, Stretch, by_days, compare, gaps, match
from kontobahn.banking.imports.store import ImportResult
from kontobahn.banking.payments import submissions
from kontobahn.banking.provider import FILES, AccountFacts, BankConnectionFacts
from kontobahn.banking.transactions import arrivals
from kontobahn.banking.transactions.arrivals import Arrived, Expected
from kontobahn.banking.transactions.ingest import TransactionIngest, has_unconfirmed
from kontobahn.banking.transactions.recognition import Delivery
from kontobahn.banking.transactions.wire import Reported, Transaction
from kontobahn.db import Database, Tx
from kontobahn.errors import BadRequest
from kontobahn.formats.statements import (
    ALLOW_GAPS,
    UNBALANCED,
    Closing,
    Opening,
    StatementError,
    StatementWarning,
    StatusReport,
)
from kontobahn.money import amount_text
from kontobahn.sentences import joined, said

_COUNTS = ("accounts", "statements", "repeated", "added", "modified", "removed", "left_out", "payments")


class StatementImporter:
    """Imports one file for one organisation.

    `allow_gaps` accepts gaps between statements; `unbalanced` accepts balances that bookings do not lead to.
    """

    def __init__(
        self,
        tx: Tx,
        organization_id: str,
        source: str,
        *,
        allow_gaps: bool = False,
        unbalanced: bool = False,
    ) -> None:
        self._tx = tx
        self._organization_id = organization_id
        self._source = source
        self._allow_gaps = allow_gaps
        self._unbalanced = unbalanced
        self._own_ibans = own_ibans(tx, organization_id)
        # Those that stand for files of a bank, by their reference.
        self._connections: dict[str, str] = {}
        # Accounts of this file, with the gaps they had before it.
        self._seen: dict[int, list[Gap]] = {}
        self._booked: list[StatementImport] = []
        self._changed_connections: set[str] = set()
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._warnings: list[StatementWarning] = []
        self._arrivals = arrivals.NONE

    def import_file(self, file: ReadFile) -> ImportResult:
        """Raises StatementError if the file contradicts what is known, or leaves a gap."""
        self._arrivals = file.arrivals
        self._lock(file)
        for part in file.parts:
            match part:
                case ReadStatement():
                    self._import(part)
                case StatementWarning():
                    self._warnings.append(part)
                case StatusReport():
                    self._apply_report(part)
        self._check_gaps()
        self._counts["accounts"] = len(self._seen)
        self._emit_events()
        return ImportResult(**self._counts, warnings=tuple(self._warnings), refusal="")

    def _check_gaps(self) -> None:
        """Raises StatementError for the first gap that this file has made and not filled."""
        if self._allow_gaps:
            return
        for account_id, before in self._seen.items():
            after = gaps(store.load_spans(self._tx, account_id))
            new = [gap for gap in after if not any(gap.is_same(known) for known in before)]
            if len(after) > len(before) and new:
                raise self._gap_error(account_id, new[0])

    def _gap_error(self, account_id: int, gap: Gap) -> StatementError:
        own = {item.span: item for item in reversed(self._booked) if item.account.id == account_id}
        statement = own.get(gap.after.number) or own.get(gap.before.number) or self._booked[-1]
        about_later = gap.before.number not in own or gap.after.number in own
        sentence = gap.sentence(about_later=about_later, currency=statement.account.currency_code)
        return statement.error(joined(" ", [sentence, ALLOW_GAPS]))

    def _emit_events(self) -> None:
        """Emits what a refresh would: to a receiver of events a file is one."""
        # Choice 43: only if something new was stored.
        for connection_id in sorted(self._changed_connections):
            row = connections.get(self._tx, self._organization_id, connection_id)
            held = accounts.of_connection(self._tx, self._organization_id, connection_id)
            emit_refresh_complete(self._tx, row, "manual", held)

    def _import(self, read: ReadStatement) -> None:
        account, connection_id, arrived = self._account(read)
        if account.id not in self._seen:
            self._seen[account.id] = gaps(store.load_spans(self._tx, account.id))
        statement = StatementImport(
            self._tx, account, connection_id, read, self._own_ibans, unbalanced=self._unbalanced, arrived=arrived
        )
        statement.run(self._source)
        self._counts["statements" if statement.is_new else "repeated"] += 1
        self._counts["left_out"] += statement.left_out + statement.ingest.left_out + read.closing.left_out
        for name in ("added", "modified", "removed"):
            self._counts[name] += getattr(statement.ingest, name)
        if statement.has_changed:
            self._changed_connections.add(connection_id)
        if statement.span != store.NO_SPAN:
            self._booked.append(statement)
        self._warnings += statement.warnings

    def _lock(self, file: ReadFile) -> None:
        """Takes the locks of all connections and accounts of the file, in the order in which all take them."""
        ibans = {part.opening.account.iban for part in file.parts if isinstance(part, ReadStatement)}
        known = []
        for ref in sorted({_bank_ref(self._organization_id, iban) for iban in ibans}):
            # Two imports at once must not both create it, and it may be removed meanwhile.
            connections.lock(self._tx, self._organization_id, ref)
            row = connections.by_provider_ref(self._tx, FILES, ref)
            known += [] if row is None else [(row.id, ref)]
        for connection_id, ref in sorted(known):
            if connections.look_up_locked(self._tx, self._organization_id, connection_id):
                self._connections[ref] = connection_id
        connections.lock_accounts(self._tx, self._organization_id, ibans)

    def _account(self, read: ReadStatement) -> tuple[AccountRow, str, Arrived | None]:
        """Returns the account that the statement is of, the connection that stands for files of its bank, and its entries if they
        are written already."""
        stated = read.opening.account
        connection_id = self._connection(stated.iban, stated.bank_name)
        facts = account_of(read.opening)
        known = sources.find(self._tx, self._organization_id, connection_id, facts)
        if known is not None:
            # A file has no words for the account that would be better than those it has.
            facts = facts._replace(name=known.name, nature=known.nature, holder_name=stated.holder or known.holder_name)
        self._own_ibans.add(stated.iban)
        arrived = self._arrivals.by_key.get(read.entries_at)

        def number(facts: AccountFacts) -> int | None:
            is_same = read.rendered_for is not None and read.rendered_for.own_ibans == self._own_ibans
            is_here = is_same and arrived is not None and arrived.appear(self._tx, connection_id)
            return arrived.account_id if arrived and is_here else None

        [account] = sources.open_some(self._tx, self._organization_id, connection_id, [facts], number)
        return account, connection_id, arrived if arrived and arrived.account_id == account.id else None

    def _connection(self, iban: str, bank_name: str | None) -> str:
        """Returns the id of the connection that stands for files of the account's bank; each bank code has one."""
        from schwifty import IBAN

        number = IBAN(iban)
        ref = _bank_ref(self._organization_id, iban)
        if ref not in self._connections:
            name = bank_name or number.bank_name or f"Bank {number.bank_code}"
            facts = BankConnectionFacts(
                provider_ref=ref,
                provider_code=f"files_{number.country_code}_{number.bank_code}".lower(),
                provider_name=name,
                country_code=number.country_code,
                logo_url="",
                templates=("SEPA", "SEPA_INSTANT"),
                consent_expires_at=None,
                next_refresh_possible_at=self._tx.now,
                automatic_refresh=False,
                display_name=name,
            )
            row = connections.create(
                self._tx, self._organization_id, provider=FILES, api="partner", owner_user_id=None, facts=facts,
                number=self._arrivals.connections.get(ref),
            )  # fmt: skip
            connections.lock(self._tx, self._organization_id, row.id)
            self._connections[ref] = row.id
        return self._connections[ref]

    def _apply_report(self, report: StatusReport) -> None:
        applied = submissions.apply_report(self._tx, self._organization_id, report)
        self._counts["payments"] += applied.payments
        self._warnings += applied.warnings


def arrive(db: Database, organization_id: str, file: ReadFile) -> None:
    """Writes the entries of large statements of new accounts, in slices that nobody sees, before the transaction that imports the
    file."""
    if any(isinstance(part, ReadStatement) and part.entry_count >= arrivals.LARGE for part in file.parts):
        file.arrivals = arrivals.arrive(db, organization_id, db.read_now(_expected, organization_id, file))


def _expected(tx: Tx, organization_id: str, file: ReadFile) -> list[Expected]:
    found: dict[str, Expected] = {}
    for read in file.parts:
        if not isinstance(read, ReadStatement):
            continue
        facts, ref = account_of(read.opening), _bank_ref(organization_id, read.opening.account.iban)
        # Those after the first one of an account are compared with what that has brought.
        if facts.provider_ref in found:
            continue
        connection = connections.by_provider_ref(tx, FILES, ref)
        connection_id = None if connection is None else connection.id
        is_known = sources.find(tx, organization_id, connection_id or "", facts) is not None
        found[facts.provider_ref] = Expected(
            read.entries_at, facts.iban, connection_id, ref,
            0 if is_known or read.rendered_for is None else read.entry_count, partial(_rendered, read),
        )  # fmt: skip
    return list(found.values())


def _rendered(read: ReadStatement) -> Iterator[Reported]:
    assert read.rendered_for is not None
    return (booking for _, booking in read.reported(read.rendered_for))


def account_of(opening: Opening) -> AccountFacts:
    """The account that a statement is of, in the words of the file."""
    stated = opening.account
    currency = stated.currency or (opening.balance.currency if opening.balance else "EUR")
    return AccountFacts(
        f"{stated.iban}/{currency}",
        f"Konto {stated.iban[-10:]}",
        "checking",
        None,
        currency,
        stated.iban,
        stated.holder,
    )


def _bank_ref(organization_id: str, iban: str) -> str:
    from schwifty import IBAN

    number = IBAN(iban)
    return f"{organization_id}/{number.country_code}{number.bank_code}"


def accounts_named(options: Iterable[str]) -> dict[str, str]:
    """Reads ACCOUNT=IBAN, for accounts that a file identifies in another way; several of them are parted by commas."""
    named: dict[str, str] = {}
    for option in ",".join(options).split(","):
        account, equals, iban = (part.strip() for part in option.partition("="))
        if not option.strip():
            continue
        if not equals or not account or not iban:
            raise BadRequest(said("`iban` takes ACCOUNT=IBAN, not “{option}”.", option=option.strip()), field="iban")
        if named.setdefault(account, iban) != iban:
            raise BadRequest(said("`iban` names two IBANs for the account {account}.", account=account), field="iban")
    return named


# --- One statement: entries that are not known yet are ingested


# A pending entry that no statement has mentioned for this long will not be booked.
MAX_PENDING = timedelta(days=14)


class StatementImport:
    """A statement that was read; `run` imports it.

    Afterwards `span` is the number of its span, if it has one. `is_new` is False if it brought nothing that was not known.
    """

    def __init__(
        self,
        tx: Tx,
        account: AccountRow,
        connection_id: str,
        statement: ReadStatement,
        own_ibans: set[str],
        *,
        unbalanced: bool,
        arrived: Arrived | None = None,
    ) -> None:
        self._tx = tx
        self._arrived = arrived
        self.account = account
        self._connection_id = connection_id
        self._statement = statement
        self._opening = statement.opening
        self._own_ibans = own_ibans
        self._unbalanced = unbalanced
        self._opens_minor = 0
        # A booked statement with a balance has all bookings up to it.
        delivery = Delivery(connection_id, ids_are_firm=True, references=self._references)
        self.ingest = TransactionIngest(tx, account, delivery)
        self.left_out = 0
        self.span = store.NO_SPAN
        self.is_new = True
        self.warnings: list[StatementWarning] = []
        self._balance = account.balance

    @property
    def has_changed(self) -> bool:
        """True if anything is stored that was not before."""
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
        if store.is_recorded(tx, account_id, identity):
            self.is_new = False
            return
        ends = store.ends_of(tx, account_id, closing)
        stated = self._stretch(closing, ends)
        spans = store.spans_of_days(tx, account_id, stated)
        plan = self._compare(stated, spans, by_balances=ends is not None and closing.adds_up)
        if ends is not None:
            self.span = store.extend_spans(tx, account_id, spans, stated, plan)
        store.record_statement(
            tx, account_id, closing, identity=identity, sha256=sha256, source=source, span=self.span, ends=ends
        )
        self._ingest_entries(plan.shared, identity, ends and ends.opens_minor)
        self._attach(plan, identity, ends and ends.opens_minor)
        self.is_new = len(plan.shared) < self._statement.booking_count or "inside" not in plan.relations.values()
        if closing.balance is not None:
            # A booking that intraday reports showed by then, but no statement contains, did not happen.
            day = closing.balance.day
            begins_on = stated.begins_on if self.span == store.NO_SPAN else store.begins_on(tx, account_id, self.span)
            self.ingest.remove_unbooked(begins_on, day.isoformat(), (day - MAX_PENDING).isoformat())
        self.ingest.finish()
        self._set_balance(closing)

    def _stretch(self, closing: Closing, ends: store.Ends | None) -> Stretch:
        opening = self._opening
        first, last = self._statement.booked_days or ("", "")
        self._opens_minor = ends.opens_minor if ends else 0
        closes_on = str(store.closes_on(closing) or last)
        opens = opening.balance.day if opening.balance else opening.from_date
        return Stretch(
            self._opens_minor, str(opens or first or closes_on), ends.closes_minor if ends else 0, closes_on,
            first or closes_on, last or closes_on, opening.number, opening.number, opening.statement_id,
        )  # fmt: skip

    @cached_property
    def _bookings(self) -> list[Booking]:
        start = self._opens_minor
        return [
            booking._replace(balance_minor=start + (booking.balance_minor or 0))
            for booking in self._statement.bookings()
        ]

    def _compare(self, stated: Stretch, spans: list[Span], *, by_balances: bool) -> Plan:
        """Finds the bookings that are already known, judged by the balances if they prove anything."""
        rows: list[Booking] = []
        if stated.begins_on and store.has_statements(self._tx, self.account.id):
            rows = store.rows_between(self._tx, self.account.id, self._statement.value_dates, stated)
        if not rows and not spans:
            return Plan({}, {})
        if by_balances:
            plan = compare(stated, self._bookings, spans, rows)
            if plan is not None:
                self._warn_of_other_words(plan.in_other_words)
                return plan
            sentence = contradiction(self._tx, self.account, stated, self._bookings, spans, rows, self._texts)
            if not self._unbalanced:
                raise self.error(joined(" ", [sentence, UNBALANCED]))
            self._warn(sentence, "Imported nevertheless, but for bookings that are known by day, amount and text.")
        return Plan(match(self._bookings, rows, ignoring_references=True), by_days(stated, spans))

    def _warn_of_other_words(self, count: int) -> None:
        if count:
            sentence = said(
                "{count} bookings are known in other words: day, amount and balances are the same.", count=count
            )
            self._warn(sentence, "Left as they are.")

    def _warn(self, found: str, done: str) -> None:
        self.warnings.append(StatementWarning(said("statement {id}", id=self._opening.statement_id), found, done))

    def error(self, sentence: str) -> StatementError:
        opening = self._opening
        return StatementError(sentence, file=opening.file, statement=opening.statement_id, place=f"line {opening.line}")

    def _texts(self, numbers: set[int]) -> dict[int, str]:
        return {number: entry.description for number, entry in self._statement.entries() if number in numbers}

    def _ingest_entries(self, shared: dict[int, Booking], identity: str | None, balance: int | None) -> None:
        if len(shared) == self._statement.entry_count:
            return
        context = RenderContext(frozenset(self._own_ibans), identity, balance)
        if self._arrived is not None:
            # Nothing else can be in an account that did not exist.
            assert context == self._statement.rendered_for
            assert not shared
            self.ingest.take_in(self._arrived.rows, self._arrived.first_id, self._arrived.size)
            return
        bookings = self._statement.reported(context)
        self.ingest.add(booking for number, booking in bookings if number not in shared)

    def _attach(self, plan: Plan, identity: str | None, balance: int | None) -> None:
        """Tells the payments of a batch with its sum, which another file has as one booking."""
        wanted = {number: row for row, numbers in plan.parts.items() for number in numbers}
        if not wanted:
            return
        by_row: dict[int, list[Reported]] = {}
        for number, booking in self._statement.reported(RenderContext(frozenset(self._own_ibans), identity, balance)):
            if number in wanted:
                by_row.setdefault(wanted[number], []).append(booking)
        for row, parts in by_row.items():
            self.ingest.attach(row, parts)

    def _references(self) -> frozenset[str]:
        return frozenset(filter(None, (reference_of(entry) for _, entry in self._statement.entries())))

    def _set_balance(self, closing: Closing) -> None:
        """Among statements the balance is that of the latest one, or of an intraday report after it.

        Of one day, what has bookings that the statements lack is the later one.
        """
        latest = store.latest_stretch(self._tx, self.account.id)
        reported = closing.balance if self._opening.kind != "booked" else None
        closes_on = "" if latest is None else latest.closes_on
        has_more = has_unconfirmed(self._tx, self.account.id, closes_on)
        if reported is not None and (
            reported.day.isoformat() > closes_on or (reported.day.isoformat() == closes_on and has_more)
        ):
            balance, day, has_more = reported.amount_minor, reported.day, False
        elif latest is not None:
            balance, day = latest.closes_minor, date.fromisoformat(closes_on)
        else:
            return
        told = sources.tell_balance(self._tx, self.account, self._connection_id, balance, day, is_later=not has_more)
        self._balance = told.balance


# --- Sentences about a statement that contradicts those imported before it: balances, sums, bookings


_SHOWN = 3


def contradiction(
    tx: Tx,
    account: AccountRow,
    stated: Stretch,
    bookings: Sequence[Booking],
    spans: Sequence[Span],
    rows: Sequence[Booking],
    texts: Callable[[set[int]], dict[int, str]],
) -> str:
    """Returns the sentences, with the figures. `texts` finds the texts of the statement's bookings by their numbers."""
    shared = match(bookings, rows)
    span = _most_involved(stated, spans, shared)
    known = span.known
    from_minor, from_on = max(
        (known.begins_on, known.opens_minor, known.opens_on), (stated.begins_on, stated.opens_minor, stated.opens_on)
    )[1:]
    to_minor, to_on = min(
        (known.ends_on, known.closes_minor, known.closes_on), (stated.ends_on, stated.closes_minor, stated.closes_on)
    )[1:]
    first, last = max(known.begins_on, stated.begins_on), min(known.ends_on, stated.ends_on)
    both = [row for row in shared.values() if row.span == span.number]
    in_rows = {row.number for row in both}
    only_file = [item for item in bookings if first <= item.booked_on <= last and item.number not in shared]
    only_rows = [row for row in rows if row.span == span.number and row.number not in in_rows]
    moved, expected = sum(row.amount_minor for row in both), to_minor - from_minor
    currency = account.currency_code
    wire = {row.number: _text_of(tx, account.id, row.number) for row in only_rows[:_SHOWN]}
    found = [
        said(
            "It contradicts statements imported before. Both cover the time from the balance {amount}"
            " {currency} ({day}) to the balance {amount_to} {other} ({day_to}), a difference of"
            " {amount_wanted}; but the {count} bookings that are in both make {amount_moved}, which is"
            " {amount_difference} {more}.",
            amount=amount_text(from_minor),
            currency=currency,
            day=from_on,
            amount_to=amount_text(to_minor),
            other=currency,
            day_to=to_on,
            amount_wanted=amount_text(expected),
            count=len(both),
            amount_moved=amount_text(moved),
            amount_difference=amount_text(abs(expected - moved)),
            more="less" if moved < expected else "more",
        ),
        _listed("Only in this file", only_file, texts({item.number for item in only_file[:_SHOWN]})),
        _listed("Only in those imported before", only_rows, wire),
    ]
    return joined(" ", filter(None, found))


def _most_involved(stated: Stretch, spans: Sequence[Span], shared: dict[int, Booking]) -> Span:
    counts = {span.number: 0 for span in spans}
    for row in shared.values():
        counts[row.span] = counts.get(row.span, 0) + 1

    def involvement(span: Span) -> tuple[bool, int, str]:
        meets = span.known.begins_on <= stated.ends_on and stated.begins_on <= span.known.ends_on
        return meets, counts[span.number], span.known.closes_on

    return max(spans, key=involvement)


def _text_of(tx: Tx, account_id: int, number: int) -> str:
    found = tx.one("SELECT wire FROM banking_transactions WHERE account_id = ? AND id = ?", account_id, number)
    return msgspec.json.decode(found[0], type=Transaction).description if found else ""


def _listed(title: str, bookings: Sequence[Booking], texts: dict[int, str]) -> str:
    if not bookings:
        return ""
    shown = [
        f"{item.booked_on} {amount_text(item.amount_minor)} “{texts.get(item.number, '')[:40]}”"
        for item in bookings[:_SHOWN]
    ]
    if len(bookings) > _SHOWN:
        shown[-1] = said("{last} and {count} more", last=shown[-1], count=len(bookings) - _SHOWN)
    return said("{title}: {rows}.", title=title, rows=joined("; ", shown))
