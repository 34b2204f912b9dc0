"""Figures of all books of an organisation: open items by due date, and the VAT of a period. Kept for a minute, or until a booking."""

from __future__ import annotations

import asyncio
from calendar import monthrange
from collections.abc import Awaitable, Callable, Hashable, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple, TypeVar

from kontobahn.access.principal import Principal
from kontobahn.api.call import Context
from kontobahn.clock import MINUTE
from kontobahn.dashboard import bookshelf, outlook
from kontobahn.dashboard.books import plain
from kontobahn.dashboard.bookshelf import ShelvedBooks
from kontobahn.dashboard.outlook import OpenItem
from kontobahn.db import Tx
from kontobahn.ledger.faelligkeiten import Faelligkeiten
from kontobahn.ledger.opos import OposSelection
from kontobahn.ledger.provider import ClientBooks
from kontobahn.ledger.wire import Umsatzsteuer
from kontobahn.money import to_minor
from kontobahn.reconciliation import store as matching
from kontobahn.reconciliation.core.model import Key
from kontobahn.reconciliation.store import Client, Taken
from kontobahn.threads import Pool

T = TypeVar("T")
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
            items += await context.part(Pool).run(
                outlook.items_of, books, answer, taken[books.connection_id, books.client_id]
            )
    return OpenItems(items, [books.name for books, answer in zip(shelved, found, strict=True) if answer is None])


async def _due(context: Context, principal: Principal, books: ShelvedBooks, today: date) -> Faelligkeiten | None:
    selection = OposSelection(today, "all", "reconcile", None)
    return await _once_a_minute(
        ("due", books, today),
        context.clock.now(),
        lambda: bookshelf.ask(context, principal, books, "buchungen", lambda opened: opened.faelligkeiten(selection)),
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
        lambda: bookshelf.ask(context, principal, books, "buchungen", lambda opened: _vat_of(opened, spans)),
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
