"""Imports as rows: which files were imported or refused; and what is known of an account from statements, as spans."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import Literal, NamedTuple

import msgspec

from kontobahn.access.principal import Principal, in_scope
from kontobahn.api import tasks
from kontobahn.api.tasks import TaskRow
from kontobahn.banking.imports.rules import Booking, Plan, Span, Stretch, chains, merged
from kontobahn.banking.transactions.recognition import MAX_SHIFT
from kontobahn.banking.transactions.wire import Transaction
from kontobahn.days import days_later
from kontobahn.db import Table, Tx
from kontobahn.formats.statements import Balance, Closing, Opening, StatementWarning
from kontobahn.json_text import decode_kept, encode, encode_kept


class ImportResult(NamedTuple):
    """The outcome of importing a file.

    `repeated` counts statements that brought nothing new, `left_out` entries that are in the account's statements anyway, or
    only inform.
    """

    accounts: int = 0
    statements: int = 0
    repeated: int = 0
    added: int = 0
    modified: int = 0
    removed: int = 0
    left_out: int = 0
    payments: int = 0
    warnings: tuple[StatementWarning, ...] = ()
    # The error of a file that was refused, as a sentence.
    refusal: str = ""


# --- Files: by whom, when, and what came of it; from calls and from the command line alike


# The kind of the tasks that import large files.
TASK_KIND = "statements"
_MAX_SOURCE = 200


class ImportRow(NamedTuple):
    organization_id: str
    id: str
    source: str
    sha256: str
    actor: str
    status: Literal["running", "done", "failed"]
    error: str | None
    report: str
    created_at: int

    def result(self) -> ImportResult:
        return decode_kept(self.report, ImportResult)


IMPORTS = Table("banking_imports", ImportRow)
# The place of an import in the list: when it began, and its id.
Place = tuple[int, str]
LATEST: Place = (2**62, "")
NOTHING = encode(ImportResult()).decode()


class File(NamedTuple):
    """A file to be imported, and who sent it."""

    organization_id: str
    id: str
    source: str
    sha256: str
    actor: str


def record_done(tx: Tx, file: File, result: ImportResult) -> ImportRow:
    return _record(tx, file, "done", None, result)


def record_refused(tx: Tx, file: File, error: str) -> ImportRow:
    return _record(tx, file, "failed", error, ImportResult(refusal=error))


def _record(
    tx: Tx, file: File, status: Literal["done", "failed"], error: str | None, result: ImportResult
) -> ImportRow:
    row = ImportRow(
        organization_id=file.organization_id,
        id=file.id,
        source=file.source[:_MAX_SOURCE],
        sha256=file.sha256,
        actor=file.actor,
        status=status,
        error=error,
        report=encode_kept(result).decode(),
        created_at=tx.now,
    )
    IMPORTS.insert(tx, row)
    return row


def listing(tx: Tx, organizations: tuple[str, ...], limit: int, before: Place = LATEST) -> list[ImportRow]:
    """Returns the latest first, with those that run; `before` is the place of the last one of the page before."""
    rows = IMPORTS.all(
        tx, f"{in_scope(len(organizations))} AND (created_at, id) < (?, ?) ORDER BY created_at DESC, id DESC LIMIT ?",
        *organizations, *before, limit,
    )  # fmt: skip
    unfinished = tasks.unfinished(tx, organizations, TASK_KIND, before=before, limit=limit)
    found = [*map(from_task, unfinished), *rows]
    return sorted(found, key=lambda row: (row.created_at, row.id), reverse=True)[:limit]


def find(tx: Tx, principal: Principal, import_id: str) -> ImportRow:
    condition = f"{in_scope(len(principal.scope))} AND id = ?"
    row = IMPORTS.one(tx, condition, *principal.scope, import_id)
    if row is not None:
        return row
    task = tasks.find(tx, principal.scope, TASK_KIND, import_id)
    if task is None:
        raise principal.missing("Import")
    return from_task(task)


def from_task(task: TaskRow) -> ImportRow:
    """Returns an import that runs as a task, or failed as one."""
    error = decode_kept(task.answer, dict)["error"] if task.status == "failed" else None
    return ImportRow(
        organization_id=task.organization_id,
        id=task.id,
        source=task.source,
        sha256=task.subject,
        actor=task.actor,
        status=task.status,
        error=error,
        report=NOTHING,
        created_at=task.created_at,
    )


# --- Spans, their statements, and the bookings in them


# Of statements without any balance: no span can tell whether anything is missing around them.
NO_SPAN = 0
_BOOKINGS = (
    "SELECT id, booked_on, amount_minor, fingerprint, provider_ref, end_to_end_id, balance_minor,"
    " COALESCE(batch, 0), statement"
    " FROM banking_transactions WHERE account_id = ? AND statement IS NOT NULL"
)
# Without its account and its number, which are the key.
_SPANS = Table("banking_statement_spans", Stretch)


class _State(NamedTuple):
    """A statement as it is remembered."""

    statement_id: str
    number: int | None
    page: int | None
    last_page: bool
    opening: Balance | None
    closing: Balance | None


class Ends(NamedTuple):
    """The balances that a statement, or a page of one, leads from and to."""

    opens_minor: int
    closes_minor: int


def load_spans(tx: Tx, account_id: int) -> list[Span]:
    """Returns the account's spans."""
    return _spans(tx, "account_id = ?", account_id)


def spans_of_days(tx: Tx, account_id: int, stated: Stretch) -> list[Span]:
    """Returns the spans that a statement shares days with."""
    condition = "account_id = ? AND ends_on >= ? AND begins_on <= ? ORDER BY begins_on, number"
    return _spans(tx, condition, account_id, stated.begins_on, stated.ends_on)


def latest_stretch(tx: Tx, account_id: int) -> Stretch | None:
    """Returns the stretch that ends last."""
    last = _spans(
        tx, "account_id = ? AND closes_on = (SELECT MAX(closes_on) FROM banking_statement_spans WHERE account_id = ?)",
        account_id, account_id,
    )  # fmt: skip
    ends = [chain[-1] for chain in chains(last)]
    return max(ends, key=lambda span: (span.known.last_number or 0, span.number)).known if ends else None


def _spans(tx: Tx, condition: str, *params: object) -> list[Span]:
    rows = tx.all(f"SELECT number, {_SPANS.columns} FROM {_SPANS.name} WHERE {condition}", *params)
    return [Span(number, _SPANS.make(columns)) for number, *columns in rows]


def is_recorded(tx: Tx, account_id: int, identity: str) -> bool:
    return bool(tx.one("SELECT 1 FROM banking_statements WHERE account_id = ? AND identity = ?", account_id, identity))


def has_statements(tx: Tx, account_id: int) -> bool:
    return bool(tx.one("SELECT 1 FROM banking_statements WHERE account_id = ? LIMIT 1", account_id))


def spans_by_identity(tx: Tx, account_id: int) -> dict[str, int]:
    return dict(tx.all("SELECT identity, span FROM banking_statements WHERE account_id = ?", account_id))


def rows_between(
    tx: Tx, account_id: int, value_dates: tuple[date, date] | None, stated: Stretch, spans: dict[str, int]
) -> list[Booking]:
    """Returns the known bookings that `compare` needs to judge a statement; one without bookings has no value dates."""
    start, end = stated.begins_on, stated.ends_on
    days = (*(value_dates or ()), date.fromisoformat(start), date.fromisoformat(end))
    low, high = days_later(min(days), -MAX_SHIFT.days), days_later(max(days), MAX_SHIFT.days)
    found = tx.all(
        f"{_BOOKINGS} AND made_on >= ? AND made_on <= ? ORDER BY id", account_id, low.isoformat(), high.isoformat()
    )
    found = [row for row in found if start <= row[1] <= end]
    if not found and value_dates is None:
        found = tx.all(
            f"{_BOOKINGS} AND booked_on = (SELECT MAX(booked_on) FROM banking_transactions WHERE account_id = ? AND booked_on < ?)",
            account_id, account_id, start,
        )  # fmt: skip
    return [Booking._make((*row[:-1], spans.get(row[-1]) or NO_SPAN)) for row in found]


def stated_ends(closing: Closing) -> Ends | None:
    """Returns the balances of a statement that its bookings lead from and to; None if they do not."""
    start, end = closing.opening.balance, closing.balance
    if start is None or end is None or start.amount_minor + closing.moved_minor != end.amount_minor:
        return None
    return Ends(start.amount_minor, end.amount_minor)


def _ends_of(closing: Closing, end_of_page_before: Callable[[Opening], int | None]) -> Ends | None:
    if (stated := stated_ends(closing)) is not None:
        return stated
    opening, moved = closing.opening, closing.moved_minor
    start = opening.balance.amount_minor if opening.balance else None
    end = closing.balance.amount_minor if closing.balance else None
    is_later_page = (opening.page or 1) > 1
    carried = end_of_page_before(opening) if is_later_page else None
    if carried is not None and (not closing.last_page or end in (None, carried + moved)):
        return Ends(carried, carried + moved)
    if start is not None and (end is None or not closing.last_page):
        return Ends(start, start + moved)
    if end is not None and (start is None or is_later_page):
        return Ends(end - moved, end)
    return None if start is None or end is None else Ends(start, end)


def _end_of_page_before(states: Iterable[_State], opening: Opening) -> int | None:
    for state in states:
        same = (state.number or state.statement_id) == (opening.number or opening.statement_id)
        if same and state.page == (opening.page or 1) - 1 and not state.last_page and state.closing:
            return state.closing.amount_minor
    return None


def identity_of(opening: Opening, sha256: str) -> str:
    """Names a statement by its head and its content."""
    parts = (
        opening.statement_id, opening.number, opening.page, opening.balance, opening.from_date, opening.to_date, sha256,
    )  # fmt: skip
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()


def record_statement(
    tx: Tx, account_id: int, closing: Closing, *, identity: str, sha256: str, source: str, span: int, ends: Ends | None
) -> None:
    """Records that the statement was imported."""
    day = closes_on(closing)
    state = _state_after(closing, ends)
    tx.run(
        "INSERT INTO banking_statements"
        " (account_id, position, identity, sha256, state, closes_on, entries, source, taken_at, span)"
        " SELECT ?, COALESCE(MAX(position), 0) + 1, ?, ?, ?, ?, ?, ?, ?, ? FROM banking_statements WHERE account_id = ?",
        account_id, identity, sha256, msgspec.json.encode(state).decode(), day.isoformat() if day else "",
        closing.entries, source[:200], tx.now, span, account_id,
    )  # fmt: skip


def _state_after(closing: Closing, ends: Ends | None) -> _State:
    opening = closing.opening
    state = _State(
        opening.statement_id, opening.number, opening.page, closing.last_page, opening.balance, closing.balance
    )
    if ends is None:
        return state
    return state._replace(
        opening=_with_amount(state.opening or state.closing, ends.opens_minor),
        closing=_with_amount(state.closing or state.opening, ends.closes_minor),
    )


def _with_amount(balance: Balance | None, amount_minor: int) -> Balance | None:
    return balance and balance._replace(amount_minor=amount_minor)


def closes_on(closing: Closing) -> date | None:
    return closing.balance.day if closing.balance else closing.opening.to_date or closing.opening.from_date


def extend_spans(tx: Tx, account_id: int, spans: list[Span], stated: Stretch, plan: Plan) -> int:
    """Makes the statement part of the account's spans, and returns the number of its own."""
    joined = _joined(spans, plan)
    last = tx.one("SELECT MAX(number) FROM banking_statement_spans WHERE account_id = ?", account_id)
    number = min((span.number for span in joined), default=((last and last[0]) or NO_SPAN) + 1)
    for span in joined:
        tx.run("DELETE FROM banking_statement_spans WHERE account_id = ? AND number = ?", account_id, span.number)
        if span.number != number:
            tx.run(
                "UPDATE banking_statements SET span = ? WHERE account_id = ? AND span = ?",
                number,
                account_id,
                span.number,
            )
    _SPANS.insert(tx, merged(stated, spans, plan.relations), account_id=account_id, number=number)
    return number


def _joined(spans: list[Span], plan: Plan) -> list[Span]:
    return [span for span in spans if plan.relations[span.number] != "apart"]


def begins_on(tx: Tx, account_id: int, span: int) -> str:
    """Returns the first day of a span with those that it follows on."""
    chain = next(chain for chain in chains(load_spans(tx, account_id)) if any(one.number == span for one in chain))
    return chain[0].known.begins_on


# --- Everything that a statement is compared with


class Judged(NamedTuple):
    """A booked statement as it stands to all before it."""

    ends: Ends | None
    stated: Stretch
    spans: list[Span]
    plan: Plan
    warnings: list[StatementWarning]


class Known:
    """Everything that is known from the statements of an account."""

    def __init__(self, tx: Tx, account_id: int) -> None:
        self._tx = tx
        self._account_id = account_id

    def is_recorded(self, identity: str) -> bool:
        return is_recorded(self._tx, self._account_id, identity)

    def has_statements(self) -> bool:
        return has_statements(self._tx, self._account_id)

    def ends_of(self, closing: Closing) -> Ends | None:
        """Returns the balances of a statement, or of a page that repeats those of the whole statement; None if it has none."""
        return _ends_of(closing, lambda opening: _end_of_page_before(self._states(), opening))

    def _states(self) -> Iterator[_State]:
        """Yields the last one first."""
        for (text,) in self._tx.all(
            "SELECT state FROM banking_statements WHERE account_id = ? ORDER BY position DESC", self._account_id
        ):
            yield msgspec.json.decode(text, type=_State)

    def spans_of_days(self, stated: Stretch) -> list[Span]:
        return spans_of_days(self._tx, self._account_id, stated)

    def rows_between(self, value_dates: tuple[date, date] | None, stated: Stretch) -> list[Booking]:
        spans = spans_by_identity(self._tx, self._account_id)
        return rows_between(self._tx, self._account_id, value_dates, stated, spans)

    def text_of(self, number: int) -> str:
        """Returns what a row says."""
        found = self._tx.one(
            "SELECT wire FROM banking_transactions WHERE account_id = ? AND id = ?", self._account_id, number
        )
        return msgspec.json.decode(found[0], type=Transaction).description if found else ""


class KnownAhead(Known):
    """The same, as if some statements of a file were imported already. Their bookings have negative numbers."""

    def __init__(self, tx: Tx, account_id: int) -> None:
        super().__init__(tx, account_id)
        self.spans = load_spans(tx, account_id)
        self._by_identity = spans_by_identity(tx, account_id)
        self._new_states: list[_State] = []
        self._rows: dict[str, list[tuple[Booking, str]]] = {}
        self._texts: list[tuple[int, Callable[[set[int]], dict[int, str]]]] = []
        self._count = 0

    def is_recorded(self, identity: str) -> bool:
        return identity in self._by_identity

    def has_statements(self) -> bool:
        return bool(self._by_identity)

    def _states(self) -> Iterator[_State]:
        yield from reversed(self._new_states)
        yield from super()._states()

    def spans_of_days(self, stated: Stretch) -> list[Span]:
        met = [
            span
            for span in self.spans
            if span.known.ends_on >= stated.begins_on and span.known.begins_on <= stated.ends_on
        ]
        return sorted(met, key=lambda span: (span.known.begins_on, span.number))

    def rows_between(self, value_dates: tuple[date, date] | None, stated: Stretch) -> list[Booking]:
        start, end = stated.begins_on, stated.ends_on
        days = [day for day in self._rows if start <= day <= end]
        stored = rows_between(self._tx, self._account_id, value_dates, stated, self._by_identity)
        if value_dates is None and not days:
            # For one without bookings, those of the last day before it.
            last = max((day for day in self._rows if day < start), default="")
            if last > max((row.booked_on for row in stored), default=""):
                days, stored = [last], []
        return stored + [
            row._replace(span=self._by_identity[identity]) for day in sorted(days) for row, identity in self._rows[day]
        ]

    def text_of(self, number: int) -> str:
        for first, texts in reversed(self._texts):
            if number < first:
                return texts({first - number}).get(first - number, "")
        return super().text_of(number)

    def take(
        self, closing: Closing, identity: str, judged: Judged, bookings: Iterable[Booking],
        texts: Callable[[set[int]], dict[int, str]],
    ) -> int:  # fmt: skip
        """Goes on as if the statement were imported. Returns the number of its span."""
        number = NO_SPAN
        if judged.ends is not None:
            joined = {span.number for span in _joined(judged.spans, judged.plan)}
            number = min(joined, default=max((span.number for span in self.spans), default=NO_SPAN) + 1)
            self.spans = [span for span in self.spans if span.number not in joined]
            self.spans.append(Span(number, merged(judged.stated, judged.spans, judged.plan.relations)))
            for known, span in self._by_identity.items():
                if span in joined:
                    self._by_identity[known] = number
        self._by_identity[identity] = number
        self._new_states.append(_state_after(closing, judged.ends))
        self._texts.append((-self._count, texts))
        last = 0
        for booking in bookings:
            last = max(last, booking.number)
            if booking.number not in judged.plan.shared:
                batch = booking.batch and -self._count - booking.batch
                row = booking._replace(number=-self._count - booking.number, batch=batch)
                self._rows.setdefault(booking.booked_on, []).append((row, identity))
        self._count += last
        return number
