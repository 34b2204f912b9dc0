"""The open items of a client while they are matched: found by document, account and amount, and reduced as they are paid."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from itertools import islice

from kontobahn.reconciliation.core.model import Discount, Key, Line, OpenItem

# Days by which a payment may miss a discount's deadline: a payer's bank takes its time.
GRACE = timedelta(days=3)
# A discount is rounded by the payer.
CENT = 1
MAX_TOGETHER = 5
# With more open items a sum that fits says little: by chance others fit too.
MAX_ITEMS = 10
# Ways to pay several named items: each in full or less one of its discounts.
MAX_STATES = 4_096


class OpenItems:
    def __init__(self, items: Iterable[OpenItem]) -> None:
        self._items: dict[Key, OpenItem] = {}
        self._by_konto: dict[str, dict[Key, None]] = defaultdict(dict)
        self._by_amount: dict[int, dict[Key, None]] = defaultdict(dict)
        self._ever: dict[str, list[Key]] = defaultdict(list)
        for item in sorted(items, key=lambda item: (item.day, item.konto, item.beleg)):
            if item.key not in self._items:
                self._items[item.key] = item
                self._ever[item.konto].append(item.key)
                self._file(item)

    def _file(self, item: OpenItem) -> None:
        if item.open_minor:
            self._by_konto[item.konto][item.key] = None
            self._by_amount[item.open_minor][item.key] = None

    def __iter__(self) -> Iterator[OpenItem]:
        return iter(self._items.values())

    def among(self, keys: Iterable[Key]) -> list[OpenItem]:
        """The documents of these keys that are known, open or not."""
        return [self._items[key] for key in keys if key in self._items]

    def of(self, konto: str, day: date, most: int) -> list[OpenItem]:
        """The account's open items that were written by a day, the oldest first, up to a limit."""
        found = (self._items[key] for key in self._by_konto.get(konto, ()))
        return list(islice((item for item in found if item.day <= day), most))

    def ever(self, konto: str) -> list[OpenItem]:
        """All documents of the account that are known, settled or not."""
        return [self._items[key] for key in self._ever.get(konto, ())]

    def with_amount(self, amount: int, day: date, konto: str | None = None, most: int = 50) -> list[OpenItem]:
        """The items that are open with exactly this amount and were written by a day, the oldest first: of an account, or of all."""
        keys = self._by_amount.get(amount, {})
        of_konto = keys if konto is None else self._by_konto.get(konto, {})
        both = (self._items[key] for key in min(keys, of_konto, key=len) if key in of_konto and key in keys)
        return list(islice((item for item in both if item.day <= day), most))

    def reduce(self, key: Key, amount: int) -> None:
        """A payment takes an amount from an item; a return gives it back."""
        item = self._items.get(key)
        if item is None:
            return
        self._by_amount[item.open_minor].pop(key, None)
        if not self._by_amount[item.open_minor]:
            del self._by_amount[item.open_minor]
        self._by_konto[item.konto].pop(key, None)
        self._items[key] = item._replace(open_minor=item.open_minor - amount)
        self._file(self._items[key])


def same_way(one: int, other: int) -> bool:
    """Returns whether both amounts come in, or both go out."""
    return one * other > 0


def payments_of(item: OpenItem, day: date) -> list[int]:
    """Returns what may be paid for an item on a day to settle it: all of it, or less a discount."""
    return [item.open_minor, *(item.open_minor - discount for discount in discounts_on(item, day))]


def discounts_on(item: OpenItem, day: date, *, late: bool = False) -> list[int]:
    """The discounts in cents, signed as the item; in time, or those whose time is over."""
    sign = 1 if item.open_minor > 0 else -1
    return [
        sign * discount.amount_minor
        for discount in item.discounts
        if _counts(discount, item) and (day - discount.until > GRACE) == late
    ]


def _counts(discount: Discount, item: OpenItem) -> bool:
    return 0 < discount.amount_minor < abs(item.open_minor)


def lines_for(item: OpenItem, paid: int, discount: int = 0) -> tuple[Line, ...]:
    """The lines of an item that is paid, less a discount; both signed as the item."""
    lines = (Line("item", item.konto, item.beleg, paid + discount),)
    return (*lines, Line("skonto", item.konto, item.beleg, -discount)) if discount else lines


def discount_taken(item: OpenItem, paid: int, day: date) -> int | None:
    """Returns the discount if the amount settles the item with one that is in time: to the cent, give or take one."""
    for discount in discounts_on(item, day):
        if abs(item.open_minor - discount - paid) <= CENT:
            return item.open_minor - paid
    return None


# --- Amounts that add up


def exact_sums(amounts: Sequence[int], target: int) -> list[tuple[int, ...]]:
    """Returns up to two combinations of two to five places whose amounts sum to the target."""

    def search(start: int, chosen: tuple[int, ...], left: int) -> Iterator[tuple[int, ...]]:
        if len(chosen) >= 2 and not left:
            yield chosen
        if len(chosen) < MAX_TOGETHER:
            for place in range(start, len(amounts)):
                yield from search(place + 1, (*chosen, place), left - amounts[place])

    return list(islice(search(0, (), target), 2))


def exact_choice(options: Sequence[Sequence[int]], target: int, slack: int = 0) -> list[tuple[int, ...]]:
    """Chooses one amount of each list so that they sum to the target. Returns up to two choices, as places.

    Returns nothing if that would take too many states: then only a person can tell.
    """
    states: dict[int, list[tuple[int, ...]]] = {0: [()]}
    for amounts in options:
        after: dict[int, list[tuple[int, ...]]] = {}
        for total, choices in states.items():
            for place, amount in enumerate(amounts):
                kept = after.setdefault(total + amount, [])
                kept += [(*choice, place) for choice in choices[: 2 - len(kept)]]
        if len(after) > MAX_STATES:
            return []
        states = after
    found: list[tuple[int, ...]] = []
    for total in sorted(states, key=lambda total: abs(total - target)):
        if abs(total - target) > slack:
            break
        found += states[total]
    return found[:2]
