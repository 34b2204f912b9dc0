"""The money that is expected: open items by due date and recurring movements, for the next thirty days. Pure, but for reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from itertools import accumulate
from typing import Literal, NamedTuple

from kontobahn.banking.transactions.habits import Recurring
from kontobahn.dashboard.bookshelf import ShelvedBooks
from kontobahn.ledger.faelligkeiten import Faelligkeiten
from kontobahn.money import to_minor
from kontobahn.reconciliation.core.model import Key
from kontobahn.reconciliation.store import Taken

DAYS = 30
# An item and a habit are the same money if they are so close.
_SAME_DAYS = 10
_SAME_PART = 50

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


class Expected(NamedTuple):
    """Money that is expected on a day, and why."""

    day: date
    amount: int
    item: OpenItem | None = None
    recurring: Recurring | None = None


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


def outlook(start: int, items: Sequence[OpenItem], habits: Sequence[Recurring], today: date) -> Outlook:
    """Returns what is expected within thirty days.

    A supplier who should have been paid may ask for the money today. A customer who is late may be late for longer, so this is not
    counted. A habit that is also an open item is counted once.
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
    habitual = [
        Expected(one.day, one.amount_minor, recurring=one)
        for one in habits
        if one.day <= last and not any(_is_same(one, row) for row in rows)
    ]
    ordered = sorted([*rows, *habitual], key=lambda row: (row.day, -abs(row.amount)))
    return Outlook(start, ordered, sorted(late, key=lambda item: (item.due, item.beleg)))


def _is_same(habit: Recurring, row: Expected) -> bool:
    is_close = abs((habit.day - row.day).days) <= _SAME_DAYS
    return is_close and abs(habit.amount_minor - row.amount) * _SAME_PART <= abs(row.amount)
