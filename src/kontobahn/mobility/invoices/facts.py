"""Everything an invoice says, frozen when it was issued. The PDF and both XMLs are made from this and nothing else. No I/O.

Amounts are cents with the sign of what the customer owes: a credited ticket is negative, and so is the total of a correction.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from msgspec import Struct

from kontobahn.formats.cii.invoice import CREDIT_NOTE
from kontobahn.mobility.logos.logo import Logo
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
    logo: Logo | None = None

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


# --- Value added tax, to the cent. Prices include it; for each rate it is extracted from their sum and rounded once.


class VatSplit(NamedTuple):
    """The prices of one rate: net + vat + rounding is their sum, and vat is net x rate, rounded to the cent."""

    net: int
    vat: int
    rounding: int
    # Each price's share of the net sum, in the order of the prices.
    line_nets: list[int]


def split_vat(prices: Sequence[int], rate: int) -> VatSplit:
    gross = sum(prices)
    vat = _round_quotient(gross * rate, 100 + rate)
    net = gross - vat
    if _round_quotient(net * rate, 100) != vat:
        # No net sum in whole cents adds up to this gross sum together with its own tax. The tax stays what the law says; the net
        # sum becomes the nearest one that has this tax, and the missing cent is a rounding amount.
        net += 1 if net * rate < vat * 100 else -1
    return VatSplit(net, vat, gross - vat - net, _share_out(prices, 100, 100 + rate, net))


def _round_quotient(numerator: int, denominator: int) -> int:
    """Rounds half away from zero, so that a credit is rounded like the charge that it reverses."""
    quotient, rest = divmod(abs(numerator), denominator)
    rounded = quotient + (2 * rest >= denominator)
    return rounded if numerator >= 0 else -rounded


def _share_out(prices: Sequence[int], numerator: int, denominator: int, total: int) -> list[int]:
    """Rounds each exact net price down and gives the remaining cents to those that lost most by it."""
    exact = [price * numerator for price in prices]
    shares = [value // denominator for value in exact]
    left = total - sum(shares)
    by_loss = sorted(range(len(prices)), key=lambda index: exact[index] % denominator, reverse=True)
    for index in by_loss[:left]:
        shares[index] += 1
    return shares
