"""Ledgers made up by chance: fiscal years, movements, carry-overs that agree with them or do not. A seed gives the same one again.

Nothing here asks the program; what is true of a ledger is in recalculation.py, and what is asked of it in test_random_ledgers.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

from tests.unit.ledger.recalculation import CARRY, PERSONS, Booking, person_legs

# Few numbers and small amounts, so that documents meet, clear each other and stand in several accounts.
# Their order differs between bytes and a language's alphabet.
DOCUMENTS = ("RE-1", "RE-2", "re-1", "R/3", "", "0")
TEXTS = ("Rechnung", "Zahlung", "ausgleich", "ä", "")
OTHERS = ("12000000", "13600000", "84000000", "34000000", "49300000", *PERSONS)
CARRY_OVERS = ("none", "none", "consistent", "pairs", "some", "free", "ledger accounts only")

Year = tuple[str, str]


class Ledger(NamedTuple):
    """Fiscal years (first and last day), and bookings; `batches` is the order in which they are to be posted."""

    years: list[Year]
    bookings: list[Booking]
    order: int

    @property
    def batches(self) -> list[list[Booking]]:
        """In an order of their own; a batch is of one year, as a file is."""
        chance = random.Random(self.order)
        shuffled = chance.sample(self.bookings, len(self.bookings))
        batches: list[list[Booking]] = []
        while shuffled:
            size = chance.randint(1, 40)
            taken, shuffled = shuffled[:size], shuffled[size:]
            for jahr in dict.fromkeys(item.jahr for item in taken):
                batches.append([item for item in taken if item.jahr == jahr])
        return batches

    @property
    def posted(self) -> list[Booking]:
        return [item for batch in self.batches for item in batch]


def any_ledger(seed: int, *, carry_overs: tuple[str, ...] = CARRY_OVERS) -> Ledger:
    """With carry-overs that agree with the documents, that do not, that are half there or missing."""
    chance = random.Random(seed)
    years = _years(chance)
    bookings = _movements(chance, years)
    openings: list[Booking] = []
    for jahr, _ in years:
        kind = chance.choice(carry_overs)
        if kind == "pairs":
            openings += pairs(chance, consistent(bookings, jahr))
        if kind in ("consistent", "some"):
            agreed = consistent(bookings, jahr)
            openings += agreed if kind == "consistent" else agreed[::2]
        if kind in ("some", "free"):
            for _ in range(chance.randint(0, 5)):
                units = chance.choice((1, -1)) * chance.randint(1, 60)
                openings.append(opening(jahr, chance.choice(PERSONS), units * 25, turned=chance.random() < 0.5))
        if kind in ("some", "ledger accounts only"):
            openings.append(opening(jahr, "12000000", 100_000))
    return Ledger(years, bookings + openings, seed)


def complete_history(seed: int) -> tuple[Ledger, list[Booking]]:
    """A ledger from its first day on, and consistent carry-overs into some of its years."""
    chance = random.Random(seed)
    years = _years(chance)
    bookings = [item for item in _movements(chance, years) if not item.is_opening]
    carried = [jahr for jahr, _ in years if chance.random() < 0.5]
    return Ledger(years, bookings, seed), [item for jahr in carried for item in consistent(bookings, jahr)]


def opening(jahr: str, konto: str, betrag: int, *, turned: bool = False) -> Booking:
    """An opening balance of an account: written from its side or from the side of the carry-over account."""
    contra = CARRY[0] if len(konto) == 8 else CARRY[1] if konto < "7" else CARRY[2]
    sides = (contra, konto) if turned else (konto, contra)
    text = "Saldovortrag" if betrag % 4 else "eb-Wert"
    return Booking(jahr, jahr, *sides, (betrag > 0) != turned, abs(betrag), "EB" if turned else "", text)


def pairs(chance: random.Random, agreed: list[Booking]) -> list[Booking]:
    """Openings with their twins, under one number or two, some corrected by a general reversal; and pairs out of nowhere."""
    konten = {konto for item in agreed for konto in (item.konto, item.gegenkonto)}
    for konto in chance.sample([konto for konto in PERSONS if konto not in konten], 1 if len(konten) < 4 else 0):
        agreed = [*agreed, opening(agreed[0].jahr, konto, chance.randint(1, 9) * 25)] if agreed else agreed
    found = []
    for item in agreed:
        numbers = chance.choice((("0", "0"), ("EB", "EB"), ("SB", "EB")))
        both = [item._replace(beleg=numbers[0]), item._replace(beleg=numbers[1], soll=not item.soll)]
        chance.shuffle(both)
        found += both
        if chance.random() < 0.2:
            found += [leg._replace(soll=not leg.soll, reversal=True) for leg in both[: chance.randint(1, 2)]]
    return found


def consistent(bookings: list[Booking], jahr: str) -> list[Booking]:
    """Sums up the documents of the years before, account by account."""
    found = []
    for konto in PERSONS:
        before = sum(leg.betrag for leg in person_legs(bookings) if leg.konto == konto and leg.jahr < jahr)
        if before:
            found.append(opening(jahr, konto, before, turned=bool(before % 2)))
    return found


def cut_offs(ledger: Ledger, count: int) -> list[str]:
    """Around the turns of the years, before and after all of them, and days in between."""
    chance = random.Random(ledger.order + 1)
    first, last = date.fromisoformat(ledger.years[0][0]), date.fromisoformat(ledger.years[-1][1])
    days = [first - timedelta(days=1), last + timedelta(days=400), last + timedelta(days=400)]
    for start, end in ledger.years:
        days += [date.fromisoformat(start), date.fromisoformat(end)]
    days += [first + timedelta(days=chance.randint(0, (last - first).days)) for _ in range(4)]
    return [day.isoformat() for day in chance.sample(days, count)]


def smallest(ledger: Ledger, fails: Callable[[Ledger], bool]) -> Ledger:
    """A failing ledger without the bookings that it fails without, too: to read, when a test has found one."""
    step = max(len(ledger.bookings) // 2, 1)
    while True:
        for start in range(0, len(ledger.bookings), step):
            fewer = ledger._replace(bookings=ledger.bookings[:start] + ledger.bookings[start + step :])
            if fails(fewer):
                ledger = fewer
                break
        else:
            if step == 1:
                return ledger
            step = max(step // 2, 1)


def _years(chance: random.Random) -> list[Year]:
    """One to four years, of the calendar or not; one of them may be a short one."""
    start = date(2022, chance.choice((1, 1, 7, 10)), chance.choice((1, 1, 1, 15)))
    short = chance.randint(0, 6)
    years = []
    for number in range(chance.randint(1, 4)):
        following = _months_on(start, 6 if number == short else 12)
        years.append((start.isoformat(), (following - timedelta(days=1)).isoformat()))
        start = following
    return years


def _months_on(day: date, months: int) -> date:
    month = day.month - 1 + months
    return date(day.year + month // 12, month % 12 + 1, day.day)


def _movements(chance: random.Random, years: list[Year]) -> list[Booking]:
    first, last = date.fromisoformat(years[0][0]), date.fromisoformat(years[-1][1])
    found = []
    for _ in range(chance.choice((0, 1, 2, 5, 10, 20, 30, 40))):
        person, other = chance.choice(PERSONS), chance.choice(OTHERS)
        if person == other:
            continue
        # One in eight on the first day of a year, where openings are.
        tag = chance.choice(years)[0]
        if chance.random() > 0.125:
            tag = (first + timedelta(days=chance.randint(0, (last - first).days))).isoformat()
        jahr = next(start for start, end in years if start <= tag <= end)
        konto, gegenkonto = (person, other) if chance.random() < 0.5 else (other, person)
        discount = chance.randint(1, 5) if other == "12000000" and chance.random() < 0.2 else 0
        found.append(
            Booking(
                tag, jahr, konto, gegenkonto, chance.random() < 0.5, chance.randint(1, 40) * 25, chance.choice(DOCUMENTS),
                chance.choice(TEXTS), discount, chance.random() < 0.125,
            )
        )  # fmt: skip
    return found
