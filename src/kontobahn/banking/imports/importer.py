"""Imports statement files: accounts by IBAN, entries as transactions, status reports to their payments.

A file is read before (`files.py`), and imported in one transaction; the entries of a large statement of a new account are written before
it, where nobody sees them. Booked statements may overlap, and must leave no gap between
them that was not there before.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from datetime import date, timedelta
from functools import cache, cached_property, partial
from typing import NamedTuple

from kontobahn.banking import ids
from kontobahn.banking.connections import accounts, sources
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.accounts import AccountRow, emit_refresh_complete
from kontobahn.banking.imports import store
from kontobahn.banking.imports.files import (
    NO_FORECASTS,
    Forecast,
    Forecasts,
    ReadFile,
    ReadStatement,
    RenderContext,
    own_ibans,
    reference_of,
)
from kontobahn.banking.imports.rules import (
    Booking,
    Gap,
    Plan,
    Span,
    Stretch,
    by_days,
    compare,
    contradiction,
    gaps,
    match,
)
from kontobahn.banking.imports.store import ImportResult, Judged, Known, KnownAhead
from kontobahn.banking.payments import submissions
from kontobahn.banking.provider import FILES, AccountFacts, BankConnectionFacts
from kontobahn.banking.transactions import arrivals
from kontobahn.banking.transactions.arrivals import Ahead, Arrivals, Arrived, Expected, Part, Written
from kontobahn.banking.transactions.ingest import TransactionIngest, has_unconfirmed
from kontobahn.banking.transactions.recognition import Delivery
from kontobahn.banking.transactions.wire import Reported
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
        self._forecasts = NO_FORECASTS
        # Accounts that no other file was imported into since this one was judged.
        self._unchanged: set[int] = set()

    def import_file(self, file: ReadFile) -> ImportResult:
        """Raises StatementError if the file contradicts what is known, or leaves a gap."""
        self._arrivals, self._forecasts = file.arrivals, file.forecasts
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
            booked = [(item.span, item.judge) for item in self._booked if item.account.id == account_id]
            check_gaps(before, gaps(store.load_spans(self._tx, account_id)), booked)

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
            self._hold(account, arrived)
        key, is_unchanged = read.entries_at, account.id in self._unchanged
        statement = StatementImport(
            self._tx, account, connection_id, read, self._own_ibans, unbalanced=self._unbalanced,
            arrived=arrived.parts.get(key) if arrived else None,
            ahead=self._arrivals.ahead.get(key) if is_unchanged else None,
            forecast=self._forecasts.get(key) if is_unchanged else None,
        )  # fmt: skip
        statement.run(self._source)
        self._counts["statements" if statement.is_new else "repeated"] += 1
        self._counts["left_out"] += statement.left_out + read.closing.left_out
        for name, number in statement.counts._asdict().items():
            self._counts[name] += number
        if statement.has_changed:
            self._changed_connections.add(connection_id)
        if statement.span != store.NO_SPAN:
            self._booked.append(statement)
        self._warnings += statement.warnings

    def _hold(self, account: AccountRow, arrived: Arrived | None) -> None:
        """Raises StillRunning if a large file is being imported into the account by somebody else."""
        claim = self._arrivals.claims.get(account.id)
        if arrived is not None or (claim is not None and claim.end(self._tx)):
            self._unchanged.add(account.id)
        else:
            accounts.check_unclaimed(self._tx, self._organization_id, account.id)

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


class Judge:
    """Compares a booked statement with those before it."""

    def __init__(self, known: Known, statement: ReadStatement, currency: str, *, unbalanced: bool) -> None:
        self._known = known
        self.statement = statement
        self.currency = currency
        self._unbalanced = unbalanced
        self._opens_minor = 0
        self._warnings: list[StatementWarning] = []

    def judge(self) -> Judged | None:
        """Raises StatementError if it contradicts them. Returns None if it is one of them."""
        closing = self.statement.closing
        if self._known.is_recorded(self.statement.identity):
            return None
        ends = self._known.ends_of(closing)
        self._opens_minor = ends.opens_minor if ends else 0
        stated = self._stretch(closing, ends)
        spans = self._known.spans_of_days(stated)
        plan = self._compare(stated, spans, by_balances=ends is not None and closing.adds_up)
        return Judged(ends, stated, spans, plan, self._warnings)

    def _stretch(self, closing: Closing, ends: store.Ends | None) -> Stretch:
        opening = self.statement.opening
        first, last = self.statement.booked_days or ("", "")
        closes_on = str(store.closes_on(closing) or last)
        opens = opening.balance.day if opening.balance else opening.from_date
        return Stretch(
            self._opens_minor, str(opens or first or closes_on), ends.closes_minor if ends else 0, closes_on,
            first or closes_on, last or closes_on, opening.number, opening.number, opening.statement_id,
        )  # fmt: skip

    @cached_property
    def bookings(self) -> list[Booking]:
        start = self._opens_minor
        return [
            booking._replace(balance_minor=start + (booking.balance_minor or 0))
            for booking in self.statement.bookings()
        ]

    def _compare(self, stated: Stretch, spans: list[Span], *, by_balances: bool) -> Plan:
        """Finds the bookings that are already known, judged by the balances if they prove anything."""
        rows: list[Booking] = []
        if stated.begins_on and self._known.has_statements():
            rows = self._known.rows_between(self.statement.value_dates, stated)
        if not rows and not spans:
            return Plan({}, {})
        if by_balances:
            plan = compare(stated, self.bookings, spans, rows)
            if plan is not None:
                self._warn_of_other_words(plan.in_other_words)
                return plan
            sentence = contradiction(stated, self.bookings, spans, rows, self.currency, self.texts, self._known.text_of)
            if not self._unbalanced:
                raise self.error(joined(" ", [sentence, UNBALANCED]))
            self._warn(sentence, "Imported nevertheless, but for bookings that are known by day, amount and text.")
        return Plan(match(self.bookings, rows, ignoring_references=True), by_days(stated, spans))

    def _warn_of_other_words(self, count: int) -> None:
        if count:
            sentence = said(
                "{count} bookings are known in other words: day, amount and balances are the same.", count=count
            )
            self._warn(sentence, "Left as they are.")

    def _warn(self, found: str, done: str) -> None:
        place = said("statement {id}", id=self.statement.opening.statement_id)
        self._warnings.append(StatementWarning(place, found, done))

    def error(self, sentence: str) -> StatementError:
        opening = self.statement.opening
        return StatementError(sentence, file=opening.file, statement=opening.statement_id, place=f"line {opening.line}")

    def texts(self, numbers: set[int]) -> dict[int, str]:
        return {number: entry.description for number, entry in self.statement.entries() if number in numbers}


def check_gaps(before: list[Gap], after: list[Gap], booked: list[tuple[int, Judge]]) -> None:
    """Raises StatementError for the first gap of an account that was not there before a file, by its statements and their spans."""
    new = [gap for gap in after if not any(gap.is_same(known) for known in before)]
    if len(after) <= len(before) or not new or not booked:
        return
    gap = new[0]
    own = dict(reversed(booked))
    statement = own.get(gap.after.number) or own.get(gap.before.number) or booked[-1][1]
    about_later = gap.before.number not in own or gap.after.number in own
    sentence = gap.sentence(about_later=about_later, currency=statement.currency)
    raise statement.error(joined(" ", [sentence, ALLOW_GAPS]))


class ImportCounts(NamedTuple):
    added: int
    modified: int
    removed: int
    left_out: int


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
        arrived: Written | None = None,
        ahead: Ahead | None = None,
        forecast: Forecast | None = None,
    ) -> None:
        self._tx = tx
        self._arrived = arrived
        self._ahead = ahead
        self._forecast = forecast
        self.account = account
        self._connection_id = connection_id
        self._statement = statement
        self._opening = statement.opening
        self._own_ibans = own_ibans
        self.judge = Judge(Known(tx, account.id), statement, account.currency_code, unbalanced=unbalanced)
        delivery = delivery_of(connection_id, statement)
        self._ingest = TransactionIngest(tx, account, delivery, ahead.seen if ahead else None)
        self.left_out = 0
        self.span = store.NO_SPAN
        self.is_new = True
        self.warnings: list[StatementWarning] = []
        self._balance = account.balance

    @property
    def has_changed(self) -> bool:
        """True if anything is stored that was not before."""
        return any(self.counts[:3]) or self._balance != self.account.balance

    @property
    def counts(self) -> ImportCounts:
        found, ahead = self._ingest, self._ahead
        before = (*ahead.counts, ahead.left_out) if ahead else (0, 0, 0, 0)
        now = (found.added, found.modified, found.removed, found.left_out)
        return ImportCounts(*(one + other for one, other in zip(before, now, strict=True)))

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
            self._ingest.finish()
            self._set_balance(closing)

    def _run_booked(self, closing: Closing, source: str) -> None:
        tx, account_id = self._tx, self.account.id
        sha256, identity = self._statement.sha256, self._statement.identity
        judged = self._forecast.judged if self._forecast else self.judge.judge()
        if judged is None:
            self.is_new = False
            return
        ends, stated, spans, plan, self.warnings = judged
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
            self._ingest.remove_unbooked(
                partial(self._begins_on, stated), day.isoformat(), (day - MAX_PENDING).isoformat()
            )
        self._ingest.finish()
        self._set_balance(closing)

    def _begins_on(self, stated: Stretch) -> str:
        is_apart = self.span == store.NO_SPAN
        return stated.begins_on if is_apart else store.begins_on(self._tx, self.account.id, self.span)

    def _ingest_entries(self, shared: dict[int, Booking], identity: str | None, balance: int | None) -> None:
        if len(shared) == self._statement.entry_count:
            return
        context = RenderContext(frozenset(self._own_ibans), identity, balance)
        if self._arrived is not None:
            # Nothing else can be in an account that did not exist.
            assert context == self._statement.rendered_for
            self._ingest.take_in(*self._arrived)
        elif self._ahead is None:
            self._ingest.add(entries_of(self._statement, context, shared))

    def _attach(self, plan: Plan, identity: str | None, balance: int | None) -> None:
        """Shows the payments of a batch with its sum, which another file has as one booking."""
        wanted = {number: row for row, numbers in plan.parts.items() for number in numbers}
        if not wanted:
            return
        by_row: dict[int, list[Reported]] = {}
        for number, booking in self._statement.reported(RenderContext(frozenset(self._own_ibans), identity, balance)):
            if number in wanted:
                by_row.setdefault(wanted[number], []).append(booking)
        for row, parts in by_row.items():
            self._ingest.attach(row, parts)

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


def delivery_of(connection_id: str, statement: ReadStatement) -> Delivery:
    references = cache(lambda: frozenset(filter(None, (reference_of(entry) for _, entry in statement.entries()))))
    # A booked statement with a balance has all bookings up to it.
    return Delivery(connection_id, ids_are_firm=True, references=references)


def entries_of(
    statement: ReadStatement, context: RenderContext, shared: Container[int] = frozenset()
) -> Iterator[Reported]:
    """Yields the entries as bookings, without those that are known."""
    return (booking for number, booking in statement.reported(context) if number not in shared)


# --- Before the transaction: a large file is judged, and its entries are written in slices


def arrive(
    db: Database, organization_id: str, file: ReadFile, *, allow_gaps: bool = False, unbalanced: bool = False
) -> None:
    """Judges a file that has many entries, and writes them in slices: of a new account where nobody sees them, of one that is there
    as the bookings of the bank that they are. Raises StatementError as the transaction that imports the file would."""
    every = db.read_now(_places, organization_id, file)
    there = [place for place in every if place.account is not None]
    # If entries of any account are seen before the file is imported, all statements must be judged by then.
    has_reports = any(isinstance(part, StatusReport) for part in file.parts)
    there = there if any(place.is_large for place in there) and not has_reports else []
    new = [place for place in every if place.account is None and (place.is_large or there)]
    if not any(place.is_large for place in new + there):
        return
    claims: dict[int, arrivals.Claim] = {}
    file.arrivals = arrivals.NONE._replace(claims=claims)
    for account in filter(None, (place.account for place in there)):
        claim = db.write_now(arrivals.claim, account)
        if claim is None:
            # Removed or merged just now: the transaction finds what is there instead.
            return
        claims[account.id] = claim
    file.forecasts = db.read_now(_forecast, new + there, allow_gaps, unbalanced)
    found = arrivals.arrive(db, organization_id, [_expected(place, file.forecasts) for place in new])
    file.arrivals = found._replace(claims=claims)
    for place in there:
        if place.is_large:
            found = _store_ahead(db, organization_id, place, file, found)
            file.arrivals = found._replace(claims=claims)


class _Place(NamedTuple):
    """An account that a file has statements of."""

    facts: AccountFacts
    ref: str
    account: AccountRow | None
    connection_id: str | None
    statements: list[ReadStatement]
    own_ibans: dict[int, frozenset[str]]

    @property
    def is_large(self) -> bool:
        return sum(read.entry_count for read in self.statements) >= arrivals.LARGE


def _places(tx: Tx, organization_id: str, file: ReadFile) -> list[_Place]:
    by_account: dict[str, _Place] = {}
    known = own_ibans(tx, organization_id)
    for read in file.parts:
        if not isinstance(read, ReadStatement):
            continue
        facts, ref = account_of(read.opening), _bank_ref(organization_id, read.opening.account.iban)
        if facts.provider_ref not in by_account:
            connection = connections.by_provider_ref(tx, FILES, ref)
            connection_id = None if connection is None else connection.id
            account = sources.find(tx, organization_id, connection_id or "", facts)
            by_account[facts.provider_ref] = _Place(facts, ref, account, connection_id, [], {})
        place = by_account[facts.provider_ref]
        known.add(read.opening.account.iban)
        place.statements.append(read)
        place.own_ibans[read.entries_at] = frozenset(known)
    return list(by_account.values())


def _forecast(tx: Tx, places: list[_Place], allow_gaps: bool, unbalanced: bool) -> Forecasts:
    forecasts: Forecasts = {}
    for place in places:
        known = KnownAhead(tx, place.account.id if place.account else 0)
        before, booked = gaps(known.spans), list[tuple[int, Judge]]()
        currency = place.account.currency_code if place.account else place.facts.currency_code
        last = max((at for at, read in enumerate(place.statements) if read.opening.kind == "booked"), default=0)
        for at, read in enumerate(place.statements):
            if read.opening.kind != "booked":
                continue
            judge = Judge(known, read, currency, unbalanced=unbalanced)
            judged = judge.judge()
            # The parts of a batch are shown with the row of its sum. If that is in the same file, there is no such row yet.
            if judged is None or not any(row < 0 for row in judged.plan.parts):
                forecasts[read.entries_at] = Forecast(judged)
            if judged is not None:
                bookings = judge.bookings if at < last else ()
                span = known.take(read.closing, read.identity, judged, bookings, judge.texts)
                booked += [] if span == store.NO_SPAN else [(span, judge)]
        if not allow_gaps:
            check_gaps(before, gaps(known.spans), booked)
    return forecasts


def _sliced(place: _Place, forecasts: Forecasts) -> Iterator[tuple[ReadStatement, RenderContext, dict[int, Booking]]]:
    """Yields statements whose entries can be written beforehand: up to the first to be compared with rows that do not exist yet."""
    had_booked = False
    for read in place.statements:
        own = place.own_ibans[read.entries_at]
        if read.opening.kind == "booked":
            forecast = forecasts.get(read.entries_at)
            if forecast is None:
                return
            judged, had_booked = forecast.judged, True
            if judged is None:
                continue
            opens = judged.ends.opens_minor if judged.ends else None
            yield read, RenderContext(own, read.identity, opens), judged.plan.shared
        elif had_booked or read.opening.kind == "advice":
            return
        else:
            yield read, RenderContext(own, None, None), {}


def _expected(place: _Place, forecasts: Forecasts) -> Expected:
    parts: list[Part] = []
    for read, context, shared in _sliced(place, forecasts):
        if context != read.rendered_for or (parts and context.identity is None):
            break
        parts.append(Part(read.entries_at, read.entry_count - len(shared), partial(entries_of, read, context, shared)))
        if context.identity is None:
            break
    return Expected(place.facts.iban, place.connection_id, place.ref, parts)


def _store_ahead(db: Database, organization_id: str, place: _Place, file: ReadFile, found: Arrivals) -> Arrivals:
    """Stores the entries for an account that is there."""
    assert place.account is not None
    claim = file.arrivals.claims[place.account.id]
    connection_id = place.connection_id or found.connections.get(place.ref)
    if connection_id is None:
        # The number that it is going to have.
        connection_id = str(db.write_now(ids.take, organization_id, "connection"))
        found = found._replace(connections={**found.connections, place.ref: connection_id})
    ahead = dict(found.ahead)
    for read, context, shared in _sliced(place, file.forecasts):
        claim.keep(db)
        account = partial(_locked_account, organization_id, place, claim)
        delivery = delivery_of(connection_id, read)
        stored = arrivals.store_ahead(
            db, account, delivery, _renewing_claim(db, claim, entries_of(read, context, shared)), all_of_them=True
        )
        if stored is None:
            break
        ahead[read.entries_at] = stored
    return found._replace(ahead=ahead)


def _renewing_claim(db: Database, claim: arrivals.Claim, bookings: Iterable[Reported]) -> Iterator[Reported]:
    for number, booking in enumerate(bookings):
        if number % 1_000 == 0:
            claim.keep(db)
        yield booking


def _locked_account(organization_id: str, place: _Place, claim: arrivals.Claim, tx: Tx) -> AccountRow | None:
    connections.lock(tx, organization_id, place.ref)
    row = connections.by_provider_ref(tx, FILES, place.ref)
    if row is not None:
        row = connections.look_up_locked(tx, organization_id, row.id)
    if (row and row.id) != place.connection_id:
        return None
    connections.lock_accounts(tx, organization_id, [place.facts.iban])
    return sources.find(tx, organization_id, place.connection_id or "", place.facts) if claim.is_held(tx) else None
