"""All that an invoice says, frozen when it was issued. The PDF and both XMLs are made from this and from nothing else. Pure.

Amounts are cents with the sign of what the customer owes: a credited ticket is negative, and so is the total of a correction.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import date
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from kontobahn.formats.cii.invoice import CREDIT_NOTE
from kontobahn.mobility.model import Seller


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
    # The invoice that a credited ticket stood on.
    credited_number: str | None
    credited_on: str | None


class Sum(NamedTuple):
    """What falls to one VAT rate."""

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
        """The first and the last day of all tickets."""
        return first_day(min(line.valid_from for line in self.lines)), last_day(
            max(line.valid_to for line in self.lines)
        )

    @property
    def credited(self) -> list[tuple[str, date]]:
        """Number and day of every invoice that this one takes something back from."""
        found = {
            (line.credited_number, date.fromisoformat(line.credited_on))
            for line in self.lines
            if line.credited_number is not None and line.credited_on is not None
        }
        return sorted(found)


def stored_seller(record: str) -> Seller:
    """A record as it was stored. It was checked then: a stricter rule of today must not make an old invoice unreadable."""
    given = msgspec.json.decode(record, type=dict[str, Any])
    return Seller(**{name: value for name, value in given.items() if name in Seller.__struct_fields__})


def first_day(month: str) -> date:
    return date(int(month[:4]), int(month[5:]), 1)


def last_day(month: str) -> date:
    year, number = int(month[:4]), int(month[5:])
    return date(year, number, monthrange(year, number)[1])


def needed_of_seller(seller: Seller, rates: set[int]) -> list[str]:
    """Fields without which no invoice can be made, in the order in which one would fill them in."""
    given: list[tuple[str, Any]] = [
        ("name", seller.name), ("street", seller.street), ("postal_code", seller.postal_code), ("city", seller.city),
        ("vat_id or tax_number", seller.vat_id or seller.tax_number), ("iban", seller.iban),
        ("contact_name", seller.contact_name), ("contact_phone", seller.contact_phone), ("contact_email", seller.contact_email),
    ]  # fmt: skip
    if 0 in rates:
        given.append(("vat_exemption_reason", seller.vat_exemption_reason))
    return [name for name, value in given if not value]
