"""The overview: what needs a person, money at the banks, open items by age, credits, calls, and what happened last."""

from __future__ import annotations

import asyncio
from datetime import date, datetime
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from kontobahn import credits, log
from kontobahn.access import keys
from kontobahn.api import request_log
from kontobahn.api.request_log import DayUse, Recent
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.clock import MINUTE
from kontobahn.dashboard import bank_words, charts, figures, first_steps
from kontobahn.dashboard.declare import page
from kontobahn.dashboard.pages.credit_statement import days_left
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _, ngettext
from kontobahn.db import Tx
from kontobahn.errors import KontobahnError
from kontobahn.ledger import connections
from kontobahn.ledger.connections import LedgerConnection, open_books
from kontobahn.ledger.faelligkeiten import Altersklassen
from kontobahn.ledger.opos import OposSelection
from kontobahn.reconciliation import store as matching
from kontobahn.webhooks import entries
from kontobahn.webhooks.entries import Entry, Filter

DAYS = 30
USE_DAYS = 14
EVENTS = 6
# Another program's books may answer slowly, and the overview must not wait for them.
BOOKS_SECONDS = 2.0
# The page looks again every few seconds; large books are not summed up again each time.
AGED_LIFE = MINUTE
MAX_AGED = 1_000
MAX_BOOKS = 5


class Steps(NamedTuple):
    """The first steps of an organisation, each a fact in the database."""

    key_made: bool
    call_seen: bool
    bank_connected: bool
    event_received: bool


class Facts(NamedTuple):
    first_steps: list[first_steps.Step]
    steps: Steps
    balance: credits.Balance
    use: list[DayUse]
    lately: Recent
    accounts: list[tuple[AccountRow, list[tuple[date, int]]]]
    events: list[Entry]
    books: list[LedgerConnection]
    unmatched: matching.Unmatched


class AgedBooks(NamedTuple):
    name: str
    # None if the books did not answer.
    debitoren: Altersklassen | None
    kreditoren: Altersklassen | None


@page("", poll=15)
async def overview(visit: Visit) -> Response:
    facts = await visit.read(_facts, visit.principal.organization_id, visit.organization_id, visit.today)
    aged = await asyncio.gather(
        *(_aged(visit, books) for books in facts.books[:MAX_BOOKS] if books.status == "connected")
    )
    return visit.show(
        "overview.html",
        facts=facts,
        lines=[_balance_line(account, days) for account, days in facts.accounts],
        aged=aged,
        days_left=days_left(facts.balance.available, facts.use),
        use_chart=_use_chart(facts.use),
        first_steps_open=first_steps.is_open(facts.first_steps),
        steps_open=not all(facts.steps),
        events=[_event(entry) for entry in facts.events],
    )


def _facts(tx: Tx, own_id: str, organization_id: str, today: date) -> Facts:
    """`own_id` pays; the other organisation is the one that is looked at."""
    rows = accounts.of_organization(tx, organization_id)
    return Facts(
        first_steps=first_steps.find(tx, organization_id),
        steps=_steps(tx, own_id),
        balance=credits.balance(tx, own_id),
        use=request_log.by_day(tx, own_id, today, USE_DAYS),
        lately=request_log.recent(tx, own_id),
        accounts=[(row, accounts.balance_by_day(tx, row, today, DAYS)) for row in rows[:12]],
        events=entries.walk(tx, organization_id, Filter(), cursor=None, newest_first=True, limit=EVENTS),
        books=connections.listing(tx, (organization_id,)),
        unmatched=matching.unmatched(tx, organization_id),
    )


def _steps(tx: Tx, organization_id: str) -> Steps:
    return Steps(
        *keys.is_used(tx, organization_id),
        accounts.any_exists(tx, organization_id),
        entries.any_delivered(tx, organization_id),
    )


_aged_lately: dict[tuple[str, date], tuple[int, AgedBooks]] = {}


async def _aged(visit: Visit, books: LedgerConnection) -> AgedBooks:
    """The open items by age, at most a minute old."""
    key = books.id, visit.today
    until, known = _aged_lately.get(key, (0, None))
    if known is not None and until > visit.now:
        return known
    found = await _age(visit, books)
    if len(_aged_lately) >= MAX_AGED:
        _aged_lately.clear()
    if found.debitoren is not None:
        _aged_lately[key] = visit.now + AGED_LIFE, found
    return found


async def _age(visit: Visit, books: LedgerConnection) -> AgedBooks:
    name = books.bezeichnung or books.id
    try:
        async with asyncio.timeout(BOOKS_SECONDS):
            access = await open_books(visit.context, visit.principal, books.id)
            async with access.to("buchungen") as opened:
                found = await opened.faelligkeiten(OposSelection(visit.today, "all", "reconcile", None))
    except (KontobahnError, TimeoutError) as error:
        log.info("overview_without_books", connection_id=books.id, detail=str(error) or "too slow")
        return AgedBooks(name, None, None)
    return AgedBooks(name, found.debitoren, found.kreditoren)


def _balance_line(account: AccountRow, days: list[tuple[date, int]]) -> Any:
    if not days:
        return ""
    points = [
        charts.Point(figures.short_day(day), cents, figures.money(cents, account.currency_code)) for day, cents in days
    ]
    title = _("Balance of the last %(days)s days: from %(first)s to %(last)s", days=DAYS,
              first=points[0].words, last=points[-1].words)  # fmt: skip
    return charts.line(points, title)


def _use_chart(use: list[DayUse]) -> Any:
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


class _Event(NamedTuple):
    words: str
    subject: str
    # Of the payment; empty if it is about something else.
    page: str
    at: datetime


class _Envelope(msgspec.Struct):
    event: str
    received_at: datetime


def _event(entry: Entry) -> _Event:
    envelope = msgspec.json.decode(entry.body, type=_Envelope)
    words = _(bank_words.EVENTS.get(envelope.event, envelope.event))
    return _Event(words, entry.subject, bank_words.payment_page(entry.subject), envelope.received_at)
