"""Opening balances written as a pair: which leg opens the account, and which one only takes the earlier documents out again.

A twin is kept as a booking like any other, but no read model counts it: neither for its person account nor for the carry-over
account on its other side. So a pair and a single opening balance have the same effect.
"""

from __future__ import annotations

from collections.abc import Iterable

from kontobahn.books.satz import EB_PERIOD
from kontobahn.db import Statements, chunked
from kontobahn.ledger.eroeffnungen import AccountYear, OpeningLeg, twins_of_account

ADD_PERIOD = (
    "INSERT INTO books_periods (edition, jahr, konto, periode, soll, haben, anzahl) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (edition, jahr, konto, periode) DO UPDATE SET"
    " soll = books_periods.soll + excluded.soll, haben = books_periods.haben + excluded.haben,"
    " anzahl = books_periods.anzahl + excluded.anzahl"
)
ADD_OPENING = (
    "INSERT INTO books_openings (edition, konto, jahr, booking, betrag, gegenkonto, beleg, is_reversal, is_twin)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)"
)
_MIXED = (
    "SELECT DISTINCT konto FROM (SELECT konto FROM books_openings WHERE edition = ? AND konto {any}"
    " GROUP BY konto, jahr HAVING MIN(betrag) < 0 AND MAX(betrag) > 0) mixed"
)


def settle_twins(tx: Statements, edition: int, konten: Iterable[str]) -> dict[str, set[str]]:
    """Decides again about the pairs of these accounts. Returns year → the accounts whose opening balance changed by it."""
    changed: dict[str, set[str]] = {}
    for some, placeholders in chunked(sorted(konten)):
        for (konto,) in tx.all(_MIXED.format(any=placeholders), edition, *some):
            for leg in _changed_legs(tx, edition, konto):
                _count(tx, edition, konto, leg)
                changed.setdefault(leg.jahr, set()).update((konto, leg.gegenkonto))
    return changed


def reset_twins(tx: Statements, edition: int, konten: Iterable[str]) -> dict[str, set[str]]:
    """Counts every twin of these accounts as an opening again. Returns year → the accounts whose opening balance changed by it."""
    changed: dict[str, set[str]] = {}
    for some, placeholders in chunked(sorted(konten)):
        for konto, *leg in tx.all(
            "SELECT konto, jahr, booking, betrag, gegenkonto, beleg, is_reversal FROM books_openings"
            f" WHERE edition = ? AND is_twin = 1 AND konto {placeholders}",
            edition, *some,
        ):  # fmt: skip
            twin = OpeningLeg._make((*leg, 0))
            _count(tx, edition, konto, twin)
            changed.setdefault(twin.jahr, set()).update((konto, twin.gegenkonto))
    return changed


def _changed_legs(tx: Statements, edition: int, konto: str) -> list[OpeningLeg]:
    """Returns the legs whose mark was wrong until now, with the right one."""
    legs = [
        OpeningLeg._make(row)
        for row in tx.all(
            "SELECT jahr, booking, betrag, gegenkonto, beleg, is_reversal, is_twin FROM books_openings"
            " WHERE edition = ? AND konto = ?",
            edition, konto,
        )
    ]  # fmt: skip
    years = [
        AccountYear._make(row)
        for row in tx.all(
            "SELECT jahr, eb, eb_text, bewegung FROM books_item_years WHERE edition = ? AND konto = ?", edition, konto
        )
    ]
    found = twins_of_account(years, legs)
    return [leg._replace(is_twin=int(leg.booking in found)) for leg in legs if leg.is_twin != int(leg.booking in found)]


def _count(tx: Statements, edition: int, konto: str, leg: OpeningLeg) -> None:
    """Takes a twin out of the read models, or puts back a leg that no longer is one."""
    betrag = -leg.betrag if leg.is_twin else leg.betrag
    tx.run(
        "UPDATE books_openings SET is_twin = ? WHERE edition = ? AND konto = ? AND jahr = ? AND booking = ?",
        leg.is_twin, edition, konto, leg.jahr, leg.booking,
    )  # fmt: skip
    tx.run(
        "UPDATE books_item_years SET eb = eb + ? WHERE edition = ? AND konto = ? AND jahr = ?",
        betrag, edition, konto, leg.jahr,
    )  # fmt: skip
    # On the side that it was posted to.
    sides = ((betrag, 0), (0, betrag)) if leg.betrag > 0 else ((0, -betrag), (-betrag, 0))
    for account, side in zip((konto, leg.gegenkonto), sides, strict=True):
        tx.run(ADD_PERIOD, edition, leg.jahr, account, EB_PERIOD, *side, 0)
