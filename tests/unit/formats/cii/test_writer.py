"""An invoice that has nothing to do with tickets is written as valid EN 16931."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from kontobahn.formats import cii
from kontobahn.formats.invoices.model import (
    INVOICE,
    SEPA_TRANSFER,
    Address,
    CreditTransfer,
    Invoice,
    Line,
    Party,
    Payment,
    Totals,
    VatBreakdown,
)
from tests.mobility_builder import broken_rules

ADDRESS = Address("Hafenstraße 1", "20457", "Hamburg", "DE")
COFFEE = Line(
    id="1", name="Kaffee & Tee", quantity=Decimal("2.5"), net_price=Decimal("12.3456"), net_minor=3086, vat_category="S",
    vat_rate=Decimal(7), unit_code="KGM",
)  # fmt: skip
PLAIN = Invoice(
    number="R-7",
    type_code=INVOICE,
    issued_on=date(2026, 3, 2),
    currency="EUR",
    seller=Party("Rösterei Hafen GmbH", ADDRESS, vat_id="DE136695976"),
    buyer=Party("Büro Nord", ADDRESS),
    lines=[COFFEE],
    vat_breakdown=[VatBreakdown("S", Decimal(7), 3086, 216)],
    totals=Totals(lines_minor=3086, net_minor=3086, vat_minor=216, gross_minor=3302, due_minor=3302),
    payment=Payment(SEPA_TRANSFER, due_on=date(2026, 3, 16), transfers=[CreditTransfer("DE02120300000000202051")]),
    delivered_on=date(2026, 2, 27),
)


def test_an_invoice_with_few_terms_is_valid() -> None:
    (xml,) = cii.write(PLAIN, "en16931")
    assert broken_rules(xml, is_xrechnung=False) == set()
    assert cii.profile_of(PLAIN) == "en16931", "XRechnung would need the buyer's electronic address"


def test_quantities_and_prices_keep_their_decimals() -> None:
    (xml,) = cii.write(PLAIN, "en16931")
    assert b'<ram:BilledQuantity unitCode="KGM">2.5</ram:BilledQuantity>' in xml
    assert b"<ram:ChargeAmount>12.3456</ram:ChargeAmount>" in xml
    assert b"<ram:Name>Kaffee &amp; Tee</ram:Name>" in xml
