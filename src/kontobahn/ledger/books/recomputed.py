"""The read models as they follow from the bookings, for verification: made anew, by another way than posting makes them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from kontobahn.ledger.books.answers import EB_PERIOD, stored_konto, susa_text
from kontobahn.ledger.books.openings import AccountYear, OpeningLeg, may_be_paired, twins_of_account
from kontobahn.ledger.books.posting import EB_TEXT, Satz
from kontobahn.ledger.books.splitting import merge_taxes
from kontobahn.ledger.kontierung import Leg
from kontobahn.ledger.konto import is_personenkonto
from kontobahn.ledger.opos import Item

Periods = dict[tuple[str, str, int], list[int]]


def add_to_period(periods: Periods, jahr: str, konto: str, periode: int, betrag: int, *, is_reversal: bool) -> None:
    side = 0 if (betrag > 0) != is_reversal else 1
    periods[jahr, konto, periode][side] += betrag if side == 0 else -betrag


def balances(periods: Periods) -> dict[tuple[str, str], str]:
    of_konto: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for (jahr, konto, periode), (soll, haben) in sorted(periods.items()):
        of_konto.setdefault((jahr, konto), []).append((periode, soll, haben))
    return {key: susa_text(key[1], of_key) for key, of_key in of_konto.items()}


class Persons:
    """Some person accounts, from all bookings that name one of them."""

    def __init__(self, konten: set[str]) -> None:
        self._konten = konten
        self.periods: Periods = defaultdict(lambda: [0, 0])
        self.items: dict[tuple[str, str], list[Any]] = {}
        # Opening balance, its text and movements of a person account in a year.
        self.years: dict[tuple[str, str], list[Any]] = defaultdict(lambda: [0, "", 0])
        # Person account → openings that may be half of a pair.
        self._openings: dict[str, list[OpeningLeg]] = defaultdict(list)

    def add(
        self, booking: int, jahr: str, periode: int, satz: Satz, parts: list[Leg], steuer: str, *, is_void: bool
    ) -> None:
        """Adds a booking; one that was undone, or undoes another, is nothing to person accounts."""
        is_reversal = bool(satz.generalumkehr)
        for konto, betrag in parts:
            if konto not in self._konten:
                continue
            add_to_period(self.periods, jahr, konto, periode, betrag, is_reversal=is_reversal)
            if is_void:
                continue
            if periode == EB_PERIOD:
                self._add_opening(konto, jahr, betrag, satz.buchungstext or EB_TEXT)
                other = satz.gegenkonto if konto == satz.konto else satz.konto
                if len(parts) == 2 and may_be_paired(other):
                    leg = OpeningLeg(jahr, booking, betrag, other, satz.belegfeld1, int(is_reversal))
                    self._openings[konto].append(leg)
                continue
            self.years[konto, jahr][2] += betrag
            self._add_item(konto, satz, betrag, steuer)

    def _add_opening(self, konto: str, jahr: str, betrag: int, text: str) -> None:
        year = self.years[konto, jahr]
        year[0] += betrag
        year[1] = min(year[1] or text, text)

    def _add_item(self, konto: str, satz: Satz, betrag: int, steuer: str) -> None:
        first = (satz.belegdatum, satz.buchungstext)
        item = self.items.setdefault((konto, satz.belegfeld1), [0, 0, first, ""])
        item[0 if betrag > 0 else 1] += abs(betrag)
        item[2] = min(item[2], first)
        item[3] = merge_taxes(item[3], steuer)

    def take_twins_out(self, of_others: Periods) -> dict[tuple[str, int], int]:
        """Takes the twins of pairs out, here and on the other accounts. Returns (account, booking) → 1 for a twin, or 0."""
        marked: dict[tuple[str, int], int] = {}
        for konto, legs in self._openings.items():
            years = [AccountYear(jahr, *sums) for (name, jahr), sums in self.years.items() if name == konto]
            found = twins_of_account(years, legs)
            for leg in legs:
                marked[konto, leg.booking] = is_twin = int(leg.booking in found)
                if is_twin:
                    self.years[konto, leg.jahr][0] -= leg.betrag
                    side = 0 if leg.betrag > 0 else 1
                    self.periods[leg.jahr, konto, EB_PERIOD][side] -= abs(leg.betrag)
                    assert not is_personenkonto(leg.gegenkonto)
                    of_others[leg.jahr, leg.gegenkonto, EB_PERIOD][1 - side] -= abs(leg.betrag)
        return marked

    def rests(self, carried_years: set[str]) -> dict[tuple[str, str], int]:
        by_konto: dict[str, dict[str, list[Any]]] = {}
        for (konto, jahr), sums in self.years.items():
            by_konto.setdefault(konto, {})[jahr] = sums
        found: dict[tuple[str, str], int] = {}
        for konto, of_konto in by_konto.items():
            for carried in carried_years:
                before = sum(sums[2] for jahr, sums in of_konto.items() if jahr < carried)
                rest = of_konto.get(carried, [0, "", 0])[0] - before
                if rest:
                    found[carried, konto] = rest
        return found

    def open_accounts(self) -> dict[str, tuple[int, str]]:
        of_konto: dict[str, list[Item]] = {}
        for (konto, beleg), (soll, haben, first, _) in self.items.items():
            if soll != haben:
                of_konto.setdefault(konto, []).append(Item(beleg, soll, haben, *first))
        kept = (stored_konto(konto, items) for konto, items in of_konto.items())
        return {row[1]: row[2:] for row in kept if row is not None}
