"""The sheet of an account (Kontoblatt): every leg that a fiscal year has on it, in the order of days, with a running balance."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple


class SheetSelection(NamedTuple):
    jahr: date
    # Technical.
    konto: str
    # Only this period; 0 is the opening balance.
    periode: int | None = None
    # The place that the page goes on after; "" for the first page.
    after: str = ""
    # Bookings, of which one may have several legs on the account.
    limit: int = 50


class SheetLine(NamedTuple):
    """A leg: net, tax, discount or gross, as it is in the balance of the account. Amounts are cents."""

    place: str
    booking: str
    periode: int
    belegdatum: date
    belegfeld1: str
    buchungstext: str
    gegenkonto: str
    bu_schluessel: str
    # A Generalumkehr has a negative turnover on its side.
    soll: int
    haben: int
    # After this line; SOLL is positive.
    saldo: int


class AccountSheet(NamedTuple):
    """A page of it."""

    # The balance before the first line.
    saldo_davor: int
    lines: list[SheetLine]
    # The place that the next page goes on after, if there is one.
    next: str | None
