"""Everything an invoice says, frozen when it was issued. The PDF and both XMLs are made from this and nothing else. No I/O.

Amounts are cents with the sign of what the customer owes: a credited ticket is negative, and so is the total of a correction.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import date
from typing import NamedTuple

from msgspec import Struct

from kontobahn.formats.cii.invoice import CREDIT_NOTE
from kontobahn.mobility.seller import Seller


class Buyer(Struct, frozen=True, kw_only=True):
    customer_number: str
    name: str
    street: str
    postal_code: str
    city: str
    country_code: str
    email: str | None
    buyer_reference: str | None
    vat_id: str | None

    @property
    def reference(self) -> str:
        return self.buyer_reference or self.customer_number


class Line(NamedTuple):
    position: int
    ticket_id: str
    reference: str | None
    product: str
    holder_reference: str
    valid_from: str
    valid_to: str
    price_in_cents: int
    discount_in_cents: int
    employer_share_in_cents: int | None
    vat_rate: int
    amount_in_cents: int
    net_in_cents: int
    # The invoice by which a credited ticket was charged.
    credited_number: str | None
    credited_on: str | None


class Sum(NamedTuple):
    """The sums of one VAT rate."""

    vat_rate: int
    net_in_cents: int
    vat_in_cents: int
    rounding_in_cents: int
    amount_in_cents: int


class Facts(NamedTuple):
    number: str
    type_code: int
    issued_on: date
    due_on: date | None
    seller: Seller
    buyer: Buyer
    lines: list[Line]
    sums: list[Sum]

    @property
    def net_in_cents(self) -> int:
        return sum(item.net_in_cents for item in self.sums)

    @property
    def vat_in_cents(self) -> int:
        return sum(item.vat_in_cents for item in self.sums)

    @property
    def rounding_in_cents(self) -> int:
        return sum(item.rounding_in_cents for item in self.sums)

    @property
    def amount_in_cents(self) -> int:
        return sum(item.amount_in_cents for item in self.sums)

    @property
    def is_correction(self) -> bool:
        return self.type_code == CREDIT_NOTE

    @property
    def period(self) -> tuple[date, date]:
        """The first and the last day on which a ticket is valid."""
        return first_day(min(line.valid_from for line in self.lines)), last_day(
            max(line.valid_to for line in self.lines)
        )

    @property
    def credited(self) -> list[tuple[str, date]]:
        """Number and date of every invoice from which this one credits tickets."""
        found = {
            (line.credited_number, date.fromisoformat(line.credited_on))
            for line in self.lines
            if line.credited_number is not None and line.credited_on is not None
        }
        return sorted(found)


def first_day(month: str) -> date:
    return date(int(month[:4]), int(month[5:]), 1)


def last_day(month: str) -> date:
    year, number = int(month[:4]), int(month[5:])
    return date(year, number, monthrange(year, number)[1])
