"""Istversteuerung: output tax is due when money comes in (§ 20 UStG). From the movements of one document to the tax of each day. Pure.

Money is spread over the parts of the document in proportion, cent by cent: whatever was received so far bears its share of every part,
and a document that is paid in full bears exactly the tax that was invoiced, less that of its discounts. Rounding ends with the last
payment. What comes before its invoice is taxed on the day it came, by the parts of the invoice that followed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple


class Charge(NamedTuple):
    """Something invoiced, or credited if it is negative. Amounts are cents, gross with the tax in it."""

    day: str
    booking: int
    # The line of the figures that it belongs to; None if it bears no tax.
    line: Hashable | None
    rate: int
    gross: int
    tax: int


class Discount(NamedTuple):
    """Skonto: reduces a part of the document that has its rate. Both amounts are negative where a debtor takes it."""

    day: str
    booking: int
    rate: int
    gross: int
    tax: int


class Receipt(NamedTuple):
    """Money that came in, or went back if it is negative."""

    day: str
    booking: int
    amount: int


class Due(NamedTuple):
    """Tax that is due on a day. A line of None says that nothing is known of what was paid; `base` is then the money."""

    day: str
    booking: int
    line: Hashable | None
    base: int
    tax: int


Movement = Charge | Discount | Receipt


class _Parts:
    def __init__(self) -> None:
        # Gross and tax by line and rate, in the order in which they were invoiced.
        self._parts: dict[tuple[Hashable | None, int], list[int]] = {}

    def add(self, item: Charge | Discount) -> None:
        if isinstance(item, Charge):
            key: tuple[Hashable | None, int] | None = (item.line, item.rate)
        else:
            lines = (line for line, rate in self._parts if line is not None and rate == item.rate)
            key = next(((line, item.rate) for line in lines), None)
        if key is not None:
            part = self._parts.setdefault(key, [0, 0])
            part[0] += item.gross
            part[1] += item.tax

    def borne_by(self, received: int) -> Mapping[Hashable, tuple[int, int]]:
        """Returns base and tax of each line that this much money bears. Beyond what was invoiced it bears no more."""
        whole = sum(gross for gross, _ in self._parts.values())
        received = min(max(received, min(whole, 0)), max(whole, 0))
        found: dict[Hashable, tuple[int, int]] = defaultdict(lambda: (0, 0))
        invoiced = before = 0
        for (line, _), (gross, tax) in self._parts.items():
            invoiced += gross
            upto = _portion(invoiced, received, whole)
            share, before = upto - before, upto
            if line is not None:
                borne = tax if received == whole else _portion(tax, share, gross)
                base, known = found[line]
                found[line] = base + share - borne, known + borne
        return found


def _portion(value: int, part: int, whole: int) -> int:
    """Returns `value * part / whole`, rounded half up; all of the value if the whole is nothing."""
    if not whole:
        return value
    product = value * part
    rounded = (2 * abs(product) + abs(whole)) // (2 * abs(whole))
    return rounded if (product < 0) == (whole < 0) else -rounded


def taxes_due(movements: Iterable[Movement]) -> Iterator[Due]:
    """Yields the tax of one document's movements, which are in the order of their bookings."""
    charged: dict[str, list[Charge | Discount]] = defaultdict(list)
    received: dict[str, list[Receipt]] = defaultdict(list)
    for item in movements:
        if isinstance(item, Receipt):
            received[item.day].append(item)
        else:
            charged[item.day].append(item)
    first = min(
        (day for day, items in charged.items() if any(isinstance(item, Charge) for item in items)), default=None
    )
    if first is None:
        for items in received.values():
            yield from (Due(item.day, item.booking, None, item.amount, 0) for item in items)
        return
    parts, borne, money = _Parts(), dict[Hashable, tuple[int, int]](), 0
    for item in charged[first]:
        parts.add(item)
    for day in sorted({*charged, *received}):
        changes = charged.get(day, [])
        for change in changes if day != first else ():
            parts.add(change)
        for booking, amount in (
            *((change.booking, 0) for change in changes[-1:]),
            *((receipt.booking, receipt.amount) for receipt in received.get(day, [])),
        ):
            money += amount
            now = parts.borne_by(money)
            for line, (base, tax) in now.items():
                base_before, tax_before = borne.get(line, (0, 0))
                if (base, tax) != (base_before, tax_before):
                    yield Due(day, booking, line, base - base_before, tax - tax_before)
            borne.update(now)
