"""The bookings that a line of the VAT figures sums up: which line, which page of it, and each with its share."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import NamedTuple

from kontobahn.ledger.wire import Steuerart


class TaxLine(NamedTuple):
    art: Steuerart
    prozent: int
    # Tax key or technical account, as the line has them; "" for none.
    schluessel: str
    konto: str


class TaxSelection(NamedTuple):
    jahr: date
    von: date
    bis: date
    line: TaxLine
    # The booking that the page goes on after.
    after: int = 0
    limit: int = 50


class TaxedBooking(NamedTuple):
    number: int
    day: date
    document: str
    text: str
    konto: str
    gegenkonto: str
    base: Decimal
    output: Decimal
    given: Decimal
