"""Everything an invoice says, frozen when it was issued, and the same as EN 16931 has it. The documents are made from this alone. Pure.

Amounts are cents with the sign of what the customer owes: a credited ticket is negative, and so is the total of a correction.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from msgspec import Struct

from kontobahn.formats.invoices.model import (
    CREDIT_NOTE,
    NO_INSTRUMENT,
    SEPA_TRANSFER,
    Address,
    Contact,
    CreditTransfer,
    ElectronicAddress,
    Invoice,
    Note,
    Party,
    Payment,
    Period,
    PrecedingInvoice,
    Totals,
    VatBreakdown,
    VatCategory,
)
from kontobahn.formats.invoices.model import (
    Line as InvoiceLine,
)
from kontobahn.mobility.seller import Logo, Seller
from kontobahn.money import amount_text, from_minor


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
    def payment_terms(self) -> str:
        """The sentence about the payment, in print and in the XML."""
        if self.is_correction:
            return "Der Betrag wird Ihnen erstattet."
        if self.due_on is None:
            return "Es ist nichts zu zahlen."
        return f"Zahlbar ohne Abzug bis zum {self.due_on:%d.%m.%Y}."

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


# --- The invoice of EN 16931: the one place where tickets meet its terms. Amounts of a correction change their sign: in a credit note
# a positive sum is what the customer gets back.

# A German authority's address for invoices: a coarse part, an optional fine one, two check digits.
_LEITWEG_ID = re.compile(r"^[0-9]{2,12}(-[A-Za-z0-9]{1,30})?-[0-9]{2}$")
_ONE = Decimal(1)


def to_cii(invoice: Facts) -> Invoice:
    sign = -1 if invoice.is_correction else 1
    period = Period(*invoice.period)
    return Invoice(
        number=invoice.number,
        type_code=invoice.type_code,
        issued_on=invoice.issued_on,
        currency="EUR",
        seller=_seller(invoice.seller),
        buyer=_buyer(invoice.buyer),
        lines=[_line(line, sign) for line in invoice.lines],
        vat_breakdown=[_vat_breakdown(invoice.seller, item, sign) for item in invoice.sums],
        totals=_totals(invoice, sign),
        payment=_payment(invoice),
        buyer_reference=invoice.buyer.reference,
        notes=[Note("Rechnungskorrektur: Der Betrag wird erstattet.")] if invoice.is_correction else [],
        delivered_on=period.last,
        period=period,
        preceding=[PrecedingInvoice(number, day) for number, day in invoice.credited],
    )


def _seller(seller: Seller) -> Party:
    contact = Contact(seller.contact_name or "", seller.contact_phone or "", seller.contact_email or "")
    return Party(
        name=seller.name or "",
        address=Address(seller.street or "", seller.postal_code or "", seller.city or "", seller.country_code),
        legal_information=", ".join(filter(None, (seller.register_entry, seller.managing_directors))),
        contact=contact,
        electronic_address=ElectronicAddress("EM", contact.email) if contact.email else None,
        vat_id=seller.vat_id,
        tax_number=seller.tax_number,
    )


def _buyer(buyer: Buyer) -> Party:
    return Party(
        id=buyer.customer_number,
        name=buyer.name,
        address=Address(buyer.street, buyer.postal_code, buyer.city, buyer.country_code),
        electronic_address=_electronic_address(buyer),
        vat_id=buyer.vat_id,
    )


def _electronic_address(buyer: Buyer) -> ElectronicAddress | None:
    """Returns the address at which the buyer receives electronic invoices, if it is known."""
    if buyer.buyer_reference and _LEITWEG_ID.match(buyer.buyer_reference):
        return ElectronicAddress("0204", buyer.buyer_reference)
    if buyer.email:
        return ElectronicAddress("EM", buyer.email)
    if buyer.vat_id and buyer.vat_id.startswith("DE"):
        return ElectronicAddress("9930", buyer.vat_id)
    return None


def _line(line: Line, sign: int) -> InvoiceLine:
    net = sign * line.net_in_cents
    share = line.employer_share_in_cents
    attributes = (
        ("Personalreferenz", line.holder_reference),
        ("Ticketnummer", line.reference),
        ("Arbeitgeberanteil", None if share is None else f"{amount_text(share)} EUR"),
    )
    return InvoiceLine(
        id=str(line.position),
        name=line.product,
        # A price is never negative: what is taken back is a quantity of -1.
        quantity=-_ONE if sign * line.amount_in_cents < 0 else _ONE,
        net_price=from_minor(abs(net)),
        net_minor=net,
        vat_category=_category(line.vat_rate),
        vat_rate=Decimal(line.vat_rate),
        note=_note(line),
        period=Period(first_day(line.valid_from), last_day(line.valid_to)),
        attributes=[(name, value) for name, value in attributes if value],
    )


def _note(line: Line) -> str | None:
    if line.credited_number is not None and line.credited_on is not None:
        day = date.fromisoformat(line.credited_on)
        return f"Storniert, berechnet mit {line.credited_number} vom {day:%d.%m.%Y}"
    if line.discount_in_cents:
        price, discount = amount_text(line.price_in_cents), amount_text(line.discount_in_cents)
        return f"Preis {price} EUR abzüglich Rabatt {discount} EUR, inkl. USt"
    return None


def _category(rate: int) -> VatCategory:
    return "S" if rate else "E"


def _vat_breakdown(seller: Seller, item: Sum, sign: int) -> VatBreakdown:
    return VatBreakdown(
        category=_category(item.vat_rate),
        rate=Decimal(item.vat_rate),
        net_minor=sign * item.net_in_cents,
        vat_minor=sign * item.vat_in_cents,
        exemption_reason=None if item.vat_rate else seller.vat_exemption_reason,
    )


def _totals(invoice: Facts, sign: int) -> Totals:
    net, vat, rounding = sign * invoice.net_in_cents, sign * invoice.vat_in_cents, sign * invoice.rounding_in_cents
    return Totals(
        lines_minor=net,
        net_minor=net,
        vat_minor=vat,
        gross_minor=net + vat,
        due_minor=net + vat + rounding,
        rounding_minor=rounding,
    )


def _payment(invoice: Facts) -> Payment:
    seller, is_payable = invoice.seller, invoice.due_on is not None
    return Payment(
        means_code=SEPA_TRANSFER if is_payable else NO_INSTRUMENT,
        reference=invoice.number,
        terms=invoice.payment_terms,
        due_on=invoice.due_on,
        transfers=[CreditTransfer(seller.iban or "", seller.name, seller.bic)] if is_payable else [],
    )
