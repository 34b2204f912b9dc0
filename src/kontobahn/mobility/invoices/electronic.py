"""From an invoice's frozen facts to the invoice of EN 16931: the one place where tickets meet its terms. Pure.

Amounts of a correction change their sign: in a credit note a positive sum is what the customer gets back.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal

from kontobahn.formats.cii.invoice import (
    NO_INSTRUMENT,
    SEPA_TRANSFER,
    Address,
    Contact,
    CreditTransfer,
    ElectronicAddress,
    Invoice,
    Line,
    Party,
    Payment,
    Period,
    PrecedingInvoice,
    Totals,
    VatBreakdown,
    VatCategory,
)
from kontobahn.mobility.invoices import facts
from kontobahn.mobility.invoices.facts import Buyer, Facts, Sum, first_day, last_day
from kontobahn.mobility.invoices.letter import payment_terms
from kontobahn.mobility.seller import Seller
from kontobahn.money import amount_text, from_minor

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
        note="Rechnungskorrektur: Der Betrag wird erstattet." if invoice.is_correction else None,
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
    """Where the buyer receives electronic invoices, if that is known."""
    if buyer.buyer_reference and _LEITWEG_ID.match(buyer.buyer_reference):
        return ElectronicAddress("0204", buyer.buyer_reference)
    if buyer.email:
        return ElectronicAddress("EM", buyer.email)
    if buyer.vat_id and buyer.vat_id.startswith("DE"):
        return ElectronicAddress("9930", buyer.vat_id)
    return None


def _line(line: facts.Line, sign: int) -> Line:
    net = sign * line.net_in_cents
    share = line.employer_share_in_cents
    attributes = (
        ("Personalreferenz", line.holder_reference),
        ("Ticketnummer", line.reference),
        ("Arbeitgeberanteil", None if share is None else f"{amount_text(share)} EUR"),
    )
    return Line(
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


def _note(line: facts.Line) -> str | None:
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
        terms=payment_terms(invoice),
        due_on=invoice.due_on,
        transfer=CreditTransfer(seller.iban or "", seller.name, seller.bic) if is_payable else None,
    )
