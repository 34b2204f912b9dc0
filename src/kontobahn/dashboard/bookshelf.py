"""All books of an organisation: each client of each connection, asked at once, with a bound on how many and for how long."""

from __future__ import annotations

import asyncio
import re
from calendar import monthrange
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from itertools import accumulate
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import urlencode

from kontobahn import log
from kontobahn.access.principal import Principal
from kontobahn.api.call import Context
from kontobahn.banking.transactions.store import Recurring
from kontobahn.clock import MINUTE
from kontobahn.dashboard import books as chosen_books
from kontobahn.dashboard.books import plain
from kontobahn.dashboard.declare import ROOT
from kontobahn.db import Tx
from kontobahn.errors import KontobahnError
from kontobahn.ledger import connections
from kontobahn.ledger.buchungen import EUR
from kontobahn.ledger.connections import open_books
from kontobahn.ledger.errors import Area
from kontobahn.ledger.faelligkeiten import Faelligkeiten
from kontobahn.ledger.konto import readable
from kontobahn.ledger.opos import OposSelection
from kontobahn.ledger.provider import ClientBooks
from kontobahn.ledger.wire import Umsatzsteuer
from kontobahn.money import to_minor
from kontobahn.payables.due import Due
from kontobahn.payables.rules import beleg_of
from kontobahn.reconciliation import store as matching
from kontobahn.reconciliation.core.model import Key
from kontobahn.reconciliation.store import Client, Taken
from kontobahn.threads import Pool

T = TypeVar("T")
# An organisation has one or two; the pages of books show any number.
MAX_BOOKS = 5


class ShelvedBooks(NamedTuple):
    connection_id: str
    # None if the provider does not say which clients it has: then it opens its default one.
    client_id: str | None
    name: str
    # The digits of its ledger accounts; None if nobody says.
    konto_laenge: int | None
    # The number of their bookings, so that nothing old is shown of them; None if nobody counts.
    bookings: int | None = None

    @property
    def fields(self) -> dict[str, str]:
        """The fields of an address that choose these books."""
        chosen = {"connection": self.connection_id}
        return chosen | ({"client": self.client_id} if self.client_id else {})


async def shelf(context: Context, organization_id: str) -> list[ShelvedBooks]:
    """Returns the books that work, the first MAX_BOOKS of them."""
    known = await context.db.read(connections.listing, (organization_id,))
    working = [item for item in known if item.status == "connected"][:MAX_BOOKS]
    listed = await connections.list_clients(context, organization_id) if working else []
    found = []
    for item in working:
        clients = [client for client in listed if client.connection_id == item.id]
        found += [
            ShelvedBooks(item.id, client.client_id, client.name, client.konto_laenge, client.bookings)
            for client in clients
        ]
        if not clients:
            found.append(ShelvedBooks(item.id, None, item.bezeichnung or item.id, None))
    return found[:MAX_BOOKS]


async def ask(
    context: Context,
    principal: Principal,
    books: ShelvedBooks,
    area: Area,
    question: Callable[[ClientBooks], Awaitable[T]],
) -> T | None:
    """Asks for something in these books; None if they do not answer in time, or refuse."""
    try:
        async with asyncio.timeout(chosen_books.BOOKS_SECONDS):
            access = await open_books(context, principal, books.connection_id, books.client_id)
            async with access.to(area) as opened:
                return await question(opened)
    except (KontobahnError, TimeoutError) as error:
        log.info("page_without_books", connection_id=books.connection_id, detail=str(error) or "too slow")
        return None


# The money that is expected: open items by due date, received invoices and recurring movements, for the next thirty
# days. Pure, but for reading.


DAYS = 30
# An item and a habit are the same money if they are so close, and with the same partner.
_SAME_DAYS = 10
_SAME_PART = 50
_LEGAL_FORMS = frozenset(("gmbh", "gbr", "ohg", "und"))

Side = Literal["customers", "suppliers"]
When = Literal["overdue", "week", "month", "later"]
WHENS: tuple[When, ...] = ("overdue", "week", "month", "later")
_WEEK = 7


class OpenItem(NamedTuple):
    books: ShelvedBooks
    konto: str
    name: str
    beleg: str
    # Whole cents, as money would move at the bank: what customers owe is positive, what we owe negative.
    amount: int
    # The part of it that payments at the bank cover already, which the books do not show yet.
    matched: int
    due: date
    side: Side

    @property
    def left(self) -> int:
        return self.amount - self.matched

    @property
    def partner(self) -> str:
        """The name; without one the account as the client writes it."""
        digits = self.books.konto_laenge
        return self.name or (readable(self.konto, digits) if digits else self.konto)


class Expected(NamedTuple):
    """Money that is expected on a day, and why."""

    day: date
    amount: int
    item: OpenItem | None = None
    payable: Due | None = None
    recurring: Recurring | None = None

    @property
    def name(self) -> str:
        """With whom."""
        if self.item:
            return self.item.partner
        return self.payable.row.creditor_name if self.payable else self.recurring.name if self.recurring else ""


class Outlook(NamedTuple):
    # The money that there is today.
    start: int
    rows: list[Expected]
    # Customers' items that are overdue, which nobody should count on.
    late: list[OpenItem]

    @property
    def comes(self) -> int:
        return sum(row.amount for row in self.rows if row.amount > 0)

    @property
    def goes(self) -> int:
        return sum(row.amount for row in self.rows if row.amount < 0)

    @property
    def end(self) -> int:
        return self.start + self.comes + self.goes

    def by_day(self, today: date) -> list[tuple[date, int]]:
        """Returns the money at the end of each day, from today on."""
        days = [today + timedelta(days=number) for number in range(DAYS + 1)]
        moved: Counter[date] = Counter()
        for row in self.rows:
            moved[row.day] += row.amount
        return [
            (day, self.start + money) for day, money in zip(days, accumulate(moved[day] for day in days), strict=True)
        ]

    def with_balance(self) -> list[tuple[Expected, int]]:
        """Returns each row with the money after it."""
        moved = accumulate(row.amount for row in self.rows)
        return [(row, self.start + money) for row, money in zip(self.rows, moved, strict=True)]


def items_of(books: ShelvedBooks, found: Faelligkeiten, taken: Mapping[Key, Taken]) -> list[OpenItem]:
    """Returns the open items of a client's books, less what is matched already."""
    items = []
    for konto in found.konten:
        side: Side = "customers" if konto.isDebitor else "suppliers"
        for posten in konto.posten:
            saldo = to_minor(posten.saldo)
            known = taken.get((konto.kontonummer, posten.beleg))
            matched = known.left_of(saldo).pending_minor if known else 0
            items.append(
                OpenItem(
                    books, konto.kontonummer, konto.bezeichnung, posten.beleg, saldo, matched, posten.faelligAm, side
                )
            )
    return items


def when(item: OpenItem, today: date) -> When:
    """Returns the class of its due date."""
    days = (item.due - today).days
    return "overdue" if days < 0 else "week" if days <= _WEEK else "month" if days <= DAYS else "later"


def by_class(items: Iterable[OpenItem], today: date) -> dict[tuple[Side, When], int]:
    """Returns the sums of the items by side and due date, in whole cents."""
    sides: tuple[Side, Side] = ("customers", "suppliers")
    sums = {(side, one): 0 for side in sides for one in WHENS}
    for item in items:
        sums[item.side, when(item, today)] += item.amount
    return sums


def outlook(
    start: int, items: Sequence[OpenItem], to_pay: Sequence[Due], habits: Sequence[Recurring], today: date
) -> Outlook:
    """Returns what is expected within thirty days.

    A supplier who should have been paid may ask for the money today. A customer who is late may be late for longer, so this is not
    counted. A received invoice or a habit that is also an open item is counted once.
    """
    last = today + timedelta(days=DAYS)
    rows, late = list[Expected](), list[OpenItem]()
    for item in items:
        if not item.left or item.due > last:
            continue
        if item.due < today and item.side == "customers":
            late.append(item)
        else:
            rows.append(Expected(max(item.due, today), item.left, item=item))
    booked = {(item.books.connection_id, item.konto, item.beleg) for item in items}
    rows += [
        Expected(max(one.pay_by, today), -one.amount_minor, payable=one)
        for one in to_pay
        if one.row.currency_code == EUR
        and one.pay_by <= last
        and (one.row.connection_id, one.row.konto, beleg_of(one.row.number)) not in booked
    ]
    habitual = [
        Expected(one.day, one.amount_minor, recurring=one)
        for one in habits
        if one.day <= last and not any(_is_same(one, row) for row in rows)
    ]
    ordered = sorted([*rows, *habitual], key=lambda row: (row.day, -abs(row.amount)))
    return Outlook(start, ordered, sorted(late, key=lambda item: (item.due, item.beleg)))


def _is_same(habit: Recurring, row: Expected) -> bool:
    is_close = abs((habit.day - row.day).days) <= _SAME_DAYS
    is_near = abs(habit.amount_minor - row.amount) * _SAME_PART <= abs(row.amount)
    return is_close and is_near and not _words(habit.name).isdisjoint(_words(row.name))


def _words(name: str) -> set[str]:
    """The words of a name that tell one company from another."""
    return {word for word in re.findall(r"\w{3,}", name.casefold()) if word not in _LEGAL_FORMS}


# Figures of all books of an organisation: open items by due date, and the VAT of a period. Kept for a minute, or until
# a booking.


# Pages look again every few seconds; large books are not summed up again each time.
LIFE = MINUTE
MAX_KEPT = 500
# Longer lists are read again instead of being kept.
MAX_KEPT_ITEMS = 20_000
_kept: dict[Hashable, tuple[int, Any]] = {}


async def _once_a_minute(key: Hashable, now: int, make: Callable[[], Awaitable[T | None]]) -> T | None:
    until, known = _kept.get(key, (0, None))
    if until > now:
        return known  # type: ignore[no-any-return]
    found = await make()
    if found is not None and _is_short(found):
        if len(_kept) >= MAX_KEPT:
            _kept.clear()
        _kept[key] = now + LIFE, found
    return found


def _is_short(found: object) -> bool:
    return not isinstance(found, Faelligkeiten) or sum(len(konto.posten) for konto in found.konten) <= MAX_KEPT_ITEMS


# --- Open items


class OpenItems(NamedTuple):
    items: list[OpenItem]
    # The names of books that did not answer.
    missing: list[str]


async def open_items(
    context: Context, principal: Principal, organization_id: str, shelved: Sequence[ShelvedBooks], today: date
) -> OpenItems:
    """Returns the open items of these books with their due dates, and what is matched of them."""
    found = await asyncio.gather(*(_due(context, principal, books, today) for books in shelved))
    taken = await context.db.read(_taken, organization_id, shelved)
    items: list[OpenItem] = []
    for books, answer in zip(shelved, found, strict=True):
        if answer is not None:
            items += await context.part(Pool).run(items_of, books, answer, taken[books.connection_id, books.client_id])
    return OpenItems(items, [books.name for books, answer in zip(shelved, found, strict=True) if answer is None])


async def _due(context: Context, principal: Principal, books: ShelvedBooks, today: date) -> Faelligkeiten | None:
    selection = OposSelection(today, "all", "reconcile", None)
    return await _once_a_minute(
        ("due", books, today),
        context.clock.now(),
        lambda: ask(context, principal, books, "buchungen", lambda opened: opened.faelligkeiten(selection)),
    )


def _taken(
    tx: Tx, organization_id: str, shelved: Sequence[ShelvedBooks]
) -> dict[tuple[str, str | None], dict[Key, Taken]]:
    return {
        (books.connection_id, books.client_id): matching.taken_from(
            tx, Client(organization_id, books.connection_id, books.client_id or "")
        )
        for books in shelved
    }


# --- VAT


class Span(NamedTuple):
    first: date
    last: date


class Vat(NamedTuple):
    """In whole cents: the tax on what was sold, and on what was bought."""

    output: int
    given: int
    # The first day of the fiscal year; None for a span that belongs to two.
    year: date | None

    @property
    def payable(self) -> int:
        return self.output - self.given


def months_and_quarters(today: date) -> list[Span]:
    """Returns this month and the one before, this quarter and the one before."""
    month, quarter = today.replace(day=1), today.replace(month=(today.month - 1) // 3 * 3 + 1, day=1)
    return [_span(month, 1), _span(_back(month, 1), 1), _span(quarter, 3), _span(_back(quarter, 3), 3)]


def _back(first: date, months: int) -> date:
    for _ in range(months):
        first = (first - timedelta(days=1)).replace(day=1)
    return first


def _span(first: date, months: int) -> Span:
    month = first.month + months - 1
    return Span(first, date(first.year, month, monthrange(first.year, month)[1]))


async def vat(
    context: Context, principal: Principal, books: ShelvedBooks, spans: Sequence[Span]
) -> list[Vat | None] | None:
    """Returns the VAT that was booked in each of these spans, or None if the books do not answer. A span without a year has none."""
    return await _once_a_minute(
        ("vat", books, *spans),
        context.clock.now(),
        lambda: ask(context, principal, books, "buchungen", lambda opened: _vat_of(opened, spans)),
    )


async def _vat_of(opened: ClientBooks, spans: Sequence[Span]) -> list[Vat | None]:
    years = await opened.geschaeftsjahre()
    found: list[Vat | None] = []
    for span in spans:
        output = given = 0
        covered = [year for year in years if year.start <= span.last and year.end >= span.first]
        for year in covered:
            answer = await opened.umsatzsteuer(year.start, max(span.first, year.start), min(span.last, year.end))
            figures = plain(answer, Umsatzsteuer)
            output += to_minor(figures.summeUmsatzsteuer) + to_minor(figures.direktUmsatzsteuer)
            given += to_minor(figures.summeVorsteuer) + to_minor(figures.direktVorsteuer)
        found.append(Vat(output, given, covered[0].start if len(covered) == 1 else None) if covered else None)
    return found


def vat_page(books: ShelvedBooks, span: Span, vat: Vat) -> str:
    """Returns the address of the figures, empty if the span belongs to two fiscal years. Pages count months and quarters from the first
    day of the fiscal year."""
    if vat.year is None:
        return ""
    before = (span.first.year - vat.year.year) * 12 + span.first.month - vat.year.month
    if span.first.month == span.last.month:
        name = f"m{before + 1}"
    else:
        name = f"t{before + 1}" if before % 3 else f"q{before // 3 + 1}"
    return f"{ROOT}/reports/vat?{urlencode({**books.fields, 'year': vat.year.isoformat(), 'span': name})}"
