"""An electronic invoice in the terms of EN 16931, whoever issued it and whatever it is for. Pure data.

Amounts are whole cents with the sign they have in the document: a credit note (381) has positive sums. Quantities and unit prices
may have more than two decimals. A text that is missing is empty or None; the writer leaves out both.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Literal, NamedTuple

# BT-3: an invoice, and a credit note.
INVOICE, CREDIT_NOTE = 380, 381
# BT-81: a SEPA credit transfer, and no payment at all.
SEPA_TRANSFER, NO_INSTRUMENT = "58", "1"
# BT-130: one piece.
PIECE = "C62"
# BT-118, BT-151: S is a standard rate, E exempt.
VatCategory = Literal["S", "E", "Z", "AE", "K", "G", "O", "L", "M"]


class Address(NamedTuple):
    """BG-5, BG-8."""

    street: str
    postal_code: str
    city: str
    country_code: str


class Contact(NamedTuple):
    """BG-6, BG-9."""

    name: str
    phone: str
    email: str


class ElectronicAddress(NamedTuple):
    """BT-34, BT-49: where electronic invoices are sent."""

    scheme: str
    value: str


class Party(NamedTuple):
    """The seller (BG-4) or the buyer (BG-7)."""

    name: str  # BT-27, BT-44
    address: Address
    id: str | None = None  # BT-29, BT-46
    legal_information: str | None = None  # BT-33
    contact: Contact | None = None
    electronic_address: ElectronicAddress | None = None
    vat_id: str | None = None  # BT-31, BT-48
    tax_number: str | None = None  # BT-32


class Period(NamedTuple):
    """BG-14, BG-26."""

    first: date
    last: date


class Line(NamedTuple):
    """BG-25."""

    id: str  # BT-126
    name: str  # BT-153
    quantity: Decimal  # BT-129
    net_price: Decimal  # BT-146
    net_minor: int  # BT-131
    vat_category: VatCategory  # BT-151
    vat_rate: Decimal  # BT-152
    unit_code: str = PIECE  # BT-130
    note: str | None = None  # BT-127
    period: Period | None = None
    attributes: Sequence[tuple[str, str]] = ()  # BT-160, BT-161


class VatBreakdown(NamedTuple):
    """BG-23: what falls to one category and rate."""

    category: VatCategory  # BT-118
    rate: Decimal  # BT-119
    net_minor: int  # BT-116
    vat_minor: int  # BT-117
    exemption_reason: str | None = None  # BT-120


class Totals(NamedTuple):
    """BG-22."""

    lines_minor: int  # BT-106
    net_minor: int  # BT-109
    vat_minor: int  # BT-110
    gross_minor: int  # BT-112
    due_minor: int  # BT-115
    rounding_minor: int = 0  # BT-114


class CreditTransfer(NamedTuple):
    """BG-17."""

    iban: str  # BT-84
    account_name: str | None = None  # BT-85
    bic: str | None = None  # BT-86


class Payment(NamedTuple):
    """Means and day of the payment (BG-16)."""

    means_code: str  # BT-81
    reference: str | None = None  # BT-83
    terms: str | None = None  # BT-20
    due_on: date | None = None  # BT-9
    transfer: CreditTransfer | None = None


class PrecedingInvoice(NamedTuple):
    """BG-3."""

    number: str  # BT-25
    issued_on: date  # BT-26


class Invoice(NamedTuple):
    number: str  # BT-1
    type_code: int  # BT-3
    issued_on: date  # BT-2
    currency: str  # BT-5
    seller: Party
    buyer: Party
    lines: Sequence[Line]
    vat_breakdown: Sequence[VatBreakdown]
    totals: Totals
    payment: Payment
    buyer_reference: str | None = None  # BT-10
    note: str | None = None  # BT-22
    delivered_on: date | None = None  # BT-72
    period: Period | None = None
    preceding: Sequence[PrecedingInvoice] = ()
