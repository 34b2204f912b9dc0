"""Opening balances written as a pair: which leg opens the account, and which one only takes the earlier documents out again. Pure."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from kontobahn.ledger.konto import SACHKONTO_DIGITS

# Class 9 of every chart holds carry-overs and statistics, never money.
_CARRY_OVER_CLASS = "9"


class OpeningLeg(NamedTuple):
    """One leg of a person account in an opening balance; SOLL is positive."""

    jahr: str
    booking: int
    betrag: int
    gegenkonto: str
    beleg: str
    is_reversal: int
    is_twin: int = 0


class AccountYear(NamedTuple):
    """A person account in a fiscal year: opening balance without twins, its text if there is one, and movements."""

    jahr: str
    eb: int
    eb_text: str
    bewegung: int


def may_be_paired(gegenkonto: str) -> bool:
    """Returns whether an opening against this account may be half of a pair; against the bank two legs are simply two payments."""
    return len(gegenkonto) == SACHKONTO_DIGITS and gegenkonto.startswith(_CARRY_OVER_CLASS)


def twins(legs: list[OpeningLeg], total: int, before: int, *, has_history: bool) -> set[int]:
    """Returns the bookings whose legs are twins, of one person account in one year.

    `total` is the plain sum of all its opening balances, `before` the account's balance on the day before.
    """
    # Choice 36: openings that add up to the earlier balance need no other interpretation: they are carried item by item, or
    # one was corrected.
    if has_history and total == before:
        return set()
    by_amount: dict[int, tuple[list[OpeningLeg], list[OpeningLeg]]] = {}
    for leg in _standing(legs):
        by_amount.setdefault(abs(leg.betrag), ([], []))[leg.betrag < 0].append(leg)
    found = set()
    for both_sides in by_amount.values():
        for soll, haben in zip(*both_sides, strict=False):
            if before:
                found.add((haben if before > 0 else soll).booking)
            elif soll.beleg == haben.beleg:
                # With no balance before, two documents of one amount are two documents.
                found.add(max(soll.booking, haben.booking))
    return found


def _standing(legs: list[OpeningLeg]) -> list[OpeningLeg]:
    """Returns the legs that no Generalumkehr has reversed, in their order."""
    standing: list[OpeningLeg] = []
    reversals: list[int] = []
    for leg in sorted(legs, key=attrgetter("booking")):
        if leg.is_reversal:
            reversals.append(leg.betrag)
        else:
            standing.append(leg)
    for betrag in reversals:
        for leg in reversed(standing):
            if leg.betrag == -betrag:
                standing.remove(leg)
                break
    return standing


def twins_of_account(years: list[AccountYear], legs: list[OpeningLeg]) -> set[int]:
    """Returns the bookings whose legs are twins, in all years; `eb` of a year holds its openings without the legs marked so."""
    of_year = {jahr: list(group) for jahr, group in groupby(sorted(legs), key=attrgetter("jahr"))}
    found: set[int] = set()
    before, has_history = 0, False
    for jahr, eb, eb_text, bewegung in sorted(years):
        own = of_year.get(jahr, [])
        total = eb + sum(leg.betrag for leg in own if leg.is_twin)
        pairs = twins(own, total, before, has_history=has_history)
        found |= pairs
        if eb_text:
            before = total - sum(leg.betrag for leg in own if leg.booking in pairs)
        before += bewegung
        has_history = True
    return found
