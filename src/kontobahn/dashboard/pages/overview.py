"""The overview: what waits for a person, the money there is and will be, what is due, VAT; and the next thirty days row by row."""

from __future__ import annotations

import asyncio
from datetime import date, datetime, timedelta
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from starlette.responses import Response

from kontobahn import credits
from kontobahn.access import keys
from kontobahn.api import request_log
from kontobahn.api.request_log import DayUse, Recent
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.transactions import store as habits_at_banks
from kontobahn.banking.transactions.store import Recurring
from kontobahn.dashboard import bookshelf, charts, figures, todo
from kontobahn.dashboard.bookshelf import OpenItem, OpenItems, Outlook, ShelvedBooks, Side, Span, Vat, When
from kontobahn.dashboard.declare import ROOT, page
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.pages import first_steps
from kontobahn.dashboard.pages.api_usage import days_left
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.db import Tx
from kontobahn.payables import due
from kontobahn.payables.due import Due
from kontobahn.webhooks import entries
from kontobahn.webhooks.entries import Entry, Filter

DAYS = 30
USE_DAYS = 14
EVENTS = 6
# Accounts with a line of their own, and accounts whose movements are added up.
MAX_LISTED = 12
MAX_ADDED_UP = 50
CURRENCY = "EUR"
SIDES: dict[Side, str] = {"customers": N_("Customers owe"), "suppliers": N_("We owe")}
WHENS: dict[When, str] = {
    "overdue": N_("overdue"),
    "week": N_("due within 7 days"),
    "month": N_("due in 8 to 30 days"),
    "later": N_("due later"),
}


class Steps(NamedTuple):
    """The first steps of an organisation, each a fact in the database."""

    key_made: bool
    call_seen: bool
    bank_connected: bool
    event_received: bool


class Developers(NamedTuple):
    """Figures for whoever has keys."""

    balance: credits.Balance
    use: list[DayUse]
    lately: Recent
    events: list[Entry]


class Facts(NamedTuple):
    first_steps: list[first_steps.Step]
    steps: Steps
    todo: list[todo.Todo]
    # Each with its balance by day.
    accounts: list[tuple[AccountRow, list[tuple[date, int]]]]
    habits: list[Recurring]
    # None for an organisation without keys.
    developers: Developers | None
    # Received invoices that wait for their payment.
    to_pay: list[Due]


class Money(NamedTuple):
    """The money on all accounts in one currency."""

    currency: str
    # None if no bank says what there is.
    total: int | None
    # Accounts whose banks do not say what there is.
    unknown: int


@page("", poll=15, help="overview")
async def overview(visit: Visit) -> Response:
    facts = await visit.read(_facts, visit.principal.organization_id, visit.organization_id, visit.today)
    shelved = await bookshelf.shelf(visit.context, visit.organization_id)
    if _is_of_clients_alone(visit, facts, shelved):
        return visit.redirect(f"{ROOT}/board")
    spans = bookshelf.months_and_quarters(visit.today)
    found = await bookshelf.open_items(visit.context, visit.principal, visit.organization_id, shelved, visit.today)
    vats = await asyncio.gather(*(bookshelf.vat(visit.context, visit.principal, books, spans) for books in shelved))
    sums, expected = await visit.off_loop(_due, found, facts, visit.today)
    developers = facts.developers
    return visit.show(
        "overview.html",
        facts=facts,
        todo=[
            (item, todo.said(item))
            for item in facts.todo
            if todo.is_for(item, visit.principal.user_id, visit.principal.role)
        ],
        money=_money([account for account, _days in facts.accounts]),
        course=_course(facts, expected, visit.today),
        expected=expected,
        to_pay=[(days, _to_pay(facts.to_pay, visit.today + timedelta(days=days))) for days in (7, 30)]
        if facts.to_pay
        else [],
        lines=[_balance_line(account, days) for account, days in facts.accounts[:MAX_LISTED]],
        shelved=shelved,
        missing=found.missing,
        sums=sums,
        matched=sum(item.matched for item in found.items if item.side == "customers"),
        sides=SIDES,
        whens=WHENS,
        vat=_vat_rows(spans, [(books, vat) for books, vat in zip(shelved, vats, strict=True) if vat and any(vat)]),
        days_left=days_left(developers.balance.available, developers.use) if developers else None,
        use_chart=_use_chart(developers.use) if developers else "",
        events=[_event(entry) for entry in developers.events] if developers else [],
        first_steps_open=first_steps.is_open(facts.first_steps),
        # Steps of developers: shown once there is a key.
        steps_open=developers is not None and not all(facts.steps),
    )


def _is_of_clients_alone(visit: Visit, facts: Facts, shelved: list[ShelvedBooks]) -> bool:
    """Returns whether there is nothing here but clients, as in an adviser's office: the board of them is what such a person opens."""
    assert visit.person is not None
    is_own = visit.organization_id == visit.principal.organization_id
    return is_own and bool(visit.person.clients) and not (facts.accounts or facts.todo or shelved)


def _facts(tx: Tx, own_id: str, organization_id: str, today: date) -> Facts:
    """`own_id` pays; the other organisation is the one that is looked at."""
    rows, habits = _money_facts(tx, organization_id, today)
    steps = _steps(tx, own_id)
    developers = None
    if steps.key_made:
        developers = Developers(
            balance=credits.balance(tx, own_id),
            use=request_log.by_day(tx, own_id, today, USE_DAYS),
            lately=request_log.recent(tx, own_id),
            events=entries.walk(tx, organization_id, Filter(), cursor=None, newest_first=True, limit=EVENTS),
        )
    by_day = [(row, accounts.balance_by_day(tx, row, today, DAYS)) for row in rows[:MAX_ADDED_UP]]
    return Facts(
        first_steps.find(tx, organization_id),
        steps,
        todo.find(tx, organization_id),
        [*by_day, *((row, []) for row in rows[MAX_ADDED_UP:])],
        habits,
        developers,
        due.listing(tx, organization_id, today),
    )


def _to_pay(rows: list[Due], last: date) -> int:
    return due.total([one for one in rows if one.pay_by <= last])


def _money_facts(tx: Tx, organization_id: str, today: date) -> tuple[list[AccountRow], list[Recurring]]:
    rows = accounts.of_organization(tx, organization_id)
    in_euros = [row for row in rows[:MAX_ADDED_UP] if row.currency_code == CURRENCY]
    return rows, habits_at_banks.find_recurring(tx, in_euros, today)


def _steps(tx: Tx, organization_id: str) -> Steps:
    return Steps(
        *keys.is_used(tx, organization_id),
        accounts.any_exists(tx, organization_id),
        entries.any_delivered(tx, organization_id),
    )


def _due(found: OpenItems, facts: Facts, today: date) -> tuple[dict[tuple[Side, When], int], Outlook]:
    start = _euros([account for account, _days in facts.accounts])
    return bookshelf.by_class(found.items, today), bookshelf.outlook(
        start, found.items, facts.to_pay, facts.habits, today
    )


def _money(rows: list[AccountRow]) -> list[Money]:
    """The money by currency, euros first."""
    currencies = sorted({row.currency_code for row in rows}, key=lambda code: (code != CURRENCY, code))
    found = []
    for currency in currencies:
        balances = [row.balance for row in rows if row.currency_code == currency]
        known = [balance for balance in balances if balance is not None]
        found.append(Money(currency, sum(known) if known else None, len(balances) - len(known)))
    return found


def _euros(rows: list[AccountRow]) -> int:
    return sum(row.balance or 0 for row in rows if row.currency_code == CURRENCY)


def _course(facts: Facts, expected: Outlook, today: date) -> Any:
    """The money of the last thirty days and of the next, on all accounts in euros."""
    lines = [days for account, days in facts.accounts if account.currency_code == CURRENCY and days]
    if not lines:
        return ""
    # Of an account with very many movements only the last days are known.
    length = min(map(len, lines))
    unknown = expected.start - sum(days[-1][1] for days in lines)
    past = [
        _point(at_once[0][0], unknown + sum(money for _day, money in at_once))
        for at_once in zip(*(days[-length:] for days in lines), strict=True)
    ]
    later = [_point(today, expected.start), *(_point(day, money) for day, money in expected.by_day(today)[1:])]
    title = _("Money on all accounts: %(first)s on %(first_day)s, %(now)s today, %(last)s expected on %(last_day)s",
              first=past[0].words, first_day=past[0].label, now=past[-1].words, last=later[-1].words,
              last_day=later[-1].label)  # fmt: skip
    return charts.course(past, later, title, figures.axis_money)


def _point(day: date, cents: int) -> charts.Point:
    return charts.Point(figures.short_day(day), cents, figures.money(cents))


def _balance_line(account: AccountRow, days: list[tuple[date, int]]) -> Any:
    if not days:
        return ""
    points = [
        charts.Point(figures.short_day(day), cents, figures.money(cents, account.currency_code)) for day, cents in days
    ]
    title = _("Balance of the last %(days)s days: from %(first)s to %(last)s", days=DAYS,
              first=points[0].words, last=points[-1].words)  # fmt: skip
    return charts.line(points, title)


class VatRow(NamedTuple):
    # Empty if there are no other books.
    books: str
    period: str
    vat: Vat
    # The page of the rows that add up to it; empty if there is none.
    url: str


def _vat_rows(spans: list[Span], by_books: list[tuple[ShelvedBooks, list[Vat | None]]]) -> list[VatRow]:
    return [
        VatRow(books.name if len(by_books) > 1 else "", _period(span), vat, bookshelf.vat_page(books, span, vat))
        for books, vats in by_books
        for span, vat in zip(spans, vats, strict=True)
        if vat is not None
    ]


def _period(span: Span) -> str:
    if span.first.month == span.last.month:
        return figures.months(span.first.isoformat()[:7])
    return _("Q%(number)s %(year)s", number=span.last.month // 3, year=span.last.year)


def _use_chart(use: list[DayUse]) -> Any:
    """Nothing, as long as nothing was called."""
    if not any(day.calls for day in use):
        return ""
    bars = [
        charts.Bar(
            figures.short_day(day.day),
            (day.calls - day.failed, day.failed),
            ngettext(
                "%(num)s call, %(failed)s failed", "%(num)s calls, %(failed)s failed", day.calls, failed=day.failed
            ),
        )
        for day in use
    ]
    return charts.bars(bars, _("Calls by day, the last %(days)s days", days=USE_DAYS), height=96)


EVENT_WORDS = {
    "refresh_complete": N_("New transactions"),
    "connection_error": N_("A bank connection fails"),
    "connection_destroyed": N_("Bank connection deleted"),
    "consent_expiring": N_("A consent ends soon"),
    "payment_progress": N_("A payment makes progress"),
    "payment_update": N_("A payment has changed"),
    "match_proposed": N_("Payments to confirm"),
    "match_confirmed": N_("A payment was matched"),
    "match_undone": N_("A match was undone"),
    "batch_created": N_("Matches were handed over"),
    "payment.payee_check": N_("A payee was checked"),
    "payable.received": N_("A received invoice has come in"),
    "payable.released": N_("A received invoice was released"),
    "payable.rejected": N_("A received invoice was rejected"),
    "payable.paid": N_("A received invoice was paid"),
    "webhook_test": N_("Test event"),
}


class _Event(NamedTuple):
    words: str
    # Of the payment or invoice; empty if it is about something else.
    page: str
    at: datetime


class _Envelope(msgspec.Struct):
    event: str
    received_at: datetime


def _event(entry: Entry) -> _Event:
    envelope = msgspec.json.decode(entry.body, type=_Envelope)
    words = _(EVENT_WORDS[envelope.event])
    return _Event(words, _subject_page(entry.subject), envelope.received_at)


def _subject_page(subject: str) -> str:
    """The page of the payment or received invoice that an event is about (`payment:17`); empty if it is about something else."""
    kind, _, number = subject.partition(":")
    if kind == "payment" and number.isdigit():
        return f"/dashboard/payments/{number}"
    return f"/dashboard/payables/{number}" if kind == "payable" else ""


# --- The rows behind the figures


class OutlookFilter(Struct):
    direction: Literal["", "in", "out"] = ""


class DueFilter(Struct):
    side: Literal["customers", "suppliers"] = "customers"
    when: Literal["", "overdue", "week", "month", "later"] = ""


@page("/outlook", help="overview")
async def outlook_page(visit: Visit) -> Response:
    """The money that is expected, row by row."""
    filters = visit.filters(OutlookFilter)
    found = await _open_items(visit)
    rows, habits = await visit.read(_money_facts, visit.organization_id, visit.today)
    to_pay = await visit.read(due.listing, visit.organization_id, visit.today)
    expected = await visit.off_loop(bookshelf.outlook, _euros(rows), found.items, to_pay, habits, visit.today)
    wanted = filters.wanted.direction
    fitting = [row for row in expected.with_balance() if not wanted or (row[0].amount > 0) == (wanted == "in")]
    start = _start(filters.after)
    numbered = list(enumerate(fitting[start : start + PAGE_SIZE + 1], start + 1))
    return visit.show(
        "outlook.html", filters=filters, expected=expected, missing=found.missing,
        list=filters.first_page(numbered, key=lambda row: row[0]), total=sum(row.amount for row, _left in fitting),
    )  # fmt: skip


@page("/due", help="overview")
async def due_page(visit: Visit) -> Response:
    """The open items of one side, by due date."""
    filters = visit.filters(DueFilter)
    found = await _open_items(visit)
    fitting = await visit.off_loop(_fitting, found.items, filters.wanted, visit.today)
    start = _start(filters.after)
    numbered = list(enumerate(fitting[start : start + PAGE_SIZE + 1], start + 1))
    return visit.show(
        "due.html", filters=filters, missing=found.missing, sides=SIDES, whens=WHENS,
        list=filters.first_page(numbered, key=lambda row: row[0]), total=sum(item.amount for item in fitting),
        matched=sum(item.matched for item in fitting), count=len(fitting),
    )  # fmt: skip


async def _open_items(visit: Visit) -> OpenItems:
    shelved = await bookshelf.shelf(visit.context, visit.organization_id)
    return await bookshelf.open_items(visit.context, visit.principal, visit.organization_id, shelved, visit.today)


def _fitting(items: list[OpenItem], wanted: DueFilter, today: date) -> list[OpenItem]:
    found = [item for item in items if item.side == wanted.side and wanted.when in ("", bookshelf.when(item, today))]
    return sorted(found, key=lambda item: (item.due, item.konto, item.beleg))


def _start(after: str) -> int:
    """Lists of figures are not kept; the place in one is a number."""
    return int(after) if after.isascii() and after.isdigit() and len(after) < 10 else 0
