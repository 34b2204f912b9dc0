"""One fault at a time, planted into an invoice before it is written: the same fault in every dress."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

from kontobahn.formats.invoices.model import (
    Address,
    AllowanceCharge,
    Attachment,
    Card,
    Contact,
    CreditTransfer,
    Delivery,
    DirectDebit,
    ElectronicAddress,
    Identifier,
    Invoice,
    Line,
    Payee,
    Period,
    PrecedingInvoice,
    Totals,
    VatBreakdown,
)
from tests.invoice_corpus import FULL

Plant = Callable[[Invoice], Invoice]
_19 = Decimal(19)


def document(**changes: Any) -> Plant:
    return lambda invoice: invoice._replace(**changes)


def within(part: str, **changes: Any) -> Plant:
    """Changes a part of the invoice: seller, buyer, totals, payment."""
    return lambda invoice: invoice._replace(**{part: getattr(invoice, part)._replace(**changes)})


def line(**changes: Any) -> Plant:
    return lambda invoice: invoice._replace(lines=(invoice.lines[0]._replace(**changes), *invoice.lines[1:]))


def breakdown(**changes: Any) -> Plant:
    return lambda invoice: invoice._replace(
        vat_breakdown=(invoice.vat_breakdown[0]._replace(**changes), *invoice.vat_breakdown[1:])
    )


def address(part: str, **changes: str) -> Plant:
    return lambda invoice: within(part, address=getattr(invoice, part).address._replace(**changes))(invoice)


def contact(**changes: str) -> Plant:
    return lambda invoice: within(
        "seller", contact=(invoice.seller.contact or Contact("", "", ""))._replace(**changes)
    )(invoice)


def allowance(**changes: Any) -> Plant:
    """Adds an allowance, or a charge, with the sums right for it."""
    values: dict[str, Any] = {
        "is_charge": False, "amount_minor": 100, "reason": "Rabatt", "vat_category": "S", "vat_rate": Decimal(7), **changes,
    }  # fmt: skip

    def plant(invoice: Invoice) -> Invoice:
        item = AllowanceCharge(**values)
        sign, amount = (1 if item.is_charge else -1), item.amount_minor or 0
        net = 4_000 + sign * amount
        vat = round(net * 0.07)
        totals = invoice.totals._replace(
            net_minor=net, vat_minor=vat, gross_minor=net + vat, due_minor=net + vat,
            **{"charges_minor" if item.is_charge else "allowances_minor": amount},
        )  # fmt: skip
        return invoice._replace(
            allowances_charges=(item,), totals=totals, vat_breakdown=(VatBreakdown("S", Decimal(7), net, vat),)
        )

    return plant


def line_allowance(**changes: Any) -> Plant:
    values: dict[str, Any] = {"is_charge": False, "amount_minor": 0, "reason": "Rabatt", **changes}
    return line(allowances_charges=(AllowanceCharge(**values),))


def category(code: str, **changes: Any) -> Plant:
    """Makes the invoice one of this VAT category, right but for what is changed."""
    values: dict[str, Any] = {"rate": Decimal(0), "vat_id": "DE136695976", "buyer_vat_id": "ATU12345675", "reason": "Grund",
                              "tax": 0, "net": 4_000, "line_rate": None, "delivery": True, "tax_number": None, **changes}  # fmt: skip

    def plant(invoice: Invoice) -> Invoice:
        net, tax, rate = values["net"], values["tax"], values["rate"]
        own = invoice.lines[0]._replace(
            vat_category=code, vat_rate=rate if values["line_rate"] is None else values["line_rate"]
        )
        delivered = Delivery(address=Address("Weg 1", "1010", "Wien", "AT")) if values["delivery"] else None
        return invoice._replace(
            lines=(own, *values.get("more", ())),
            vat_breakdown=(VatBreakdown(code, rate, net, tax, values["reason"]),),
            totals=invoice.totals._replace(vat_minor=tax, gross_minor=4_000 + tax, due_minor=4_000 + tax),
            seller=invoice.seller._replace(vat_id=values["vat_id"], tax_number=values["tax_number"]),
            buyer=invoice.buyer._replace(vat_id=values["buyer_vat_id"], registration=None),
            delivery=delivered,
        )

    return plant


OTHER = Line("9", "Anderes", Decimal(1), Decimal(0), 0, "S", Decimal(7))
# Name, what is planted, and rules that must be among those found.
FAULTS: dict[str, tuple[Plant, str]] = {
    "no number": (document(number=""), "BR-02"),
    "no issue date": (document(issued_on=None), "BR-03"),
    "no type": (document(type_code=None), "BR-04"),
    "unknown type": (document(type_code=999), "BR-CL-01"),
    "no currency": (document(currency=""), "BR-05"),
    "unknown currency": (document(currency="XQX"), "BR-CL-04"),
    "no seller's name": (within("seller", name=""), "BR-06"),
    "no buyer's name": (within("buyer", name=""), "BR-07"),
    "no seller's address": (within("seller", address=None), "BR-08"),
    "no seller's country": (address("seller", country_code=""), "BR-09"),
    "unknown country": (address("seller", country_code="QQ"), "BR-CL-14"),
    "no buyer's address": (within("buyer", address=None), "BR-10"),
    "no buyer's country": (address("buyer", country_code=""), "BR-11"),
    "no sum of lines": (within("totals", lines_minor=None), "BR-12"),
    "no net": (within("totals", net_minor=None), "BR-13"),
    "no gross": (within("totals", gross_minor=None), "BR-14"),
    "no amount due": (within("totals", due_minor=None), "BR-15"),
    "no lines": (document(lines=()), "BR-16"),
    "payee without name": (document(payee=Payee("", Identifier("4000000000029", "0088"))), "BR-17"),
    "line without id": (line(id=""), "BR-21"),
    "line without quantity": (line(quantity=None), "BR-22"),
    "line without unit": (line(unit_code=None), "BR-23"),
    "line without amount": (line(net_minor=None), "BR-24"),
    "line without name": (line(name=""), "BR-25"),
    "line without price": (line(net_price=None), "BR-26"),
    "negative price": (line(net_price=Decimal(-20), quantity=Decimal(-2)), "BR-27"),
    "negative gross price": (line(gross_price=Decimal(-5)), "BR-28"),
    "period backwards": (document(period=Period(date(2026, 3, 31), date(2026, 3, 1))), "BR-29"),
    "line period backwards": (line(period=Period(date(2026, 3, 31), date(2026, 3, 1))), "BR-30"),
    "allowance without amount": (allowance(amount_minor=None), "BR-31"),
    "allowance without reason": (allowance(reason=None), "BR-33"),
    "charge without reason": (allowance(is_charge=True, reason=None), "BR-38"),
    "line allowance without reason": (line_allowance(reason=None), "BR-42"),
    "line charge without reason": (line_allowance(is_charge=True, reason=None), "BR-44"),
    "breakdown without base": (breakdown(net_minor=None), "BR-45"),
    "breakdown without tax": (breakdown(vat_minor=None), "BR-46"),
    "breakdown without category": (breakdown(category=None), "BR-47"),
    "breakdown without rate": (breakdown(rate=None), "BR-48"),
    "no means code": (within("payment", means_code=None), "BR-49"),
    "unknown means code": (within("payment", means_code="999"), "BR-CL-16"),
    "accounting currency without tax": (document(vat_currency="CHF"), "BR-53"),
    "attribute without value": (line(attributes=(("Farbe", ""),)), "BR-54"),
    "preceding invoice without number": (document(preceding=(PrecedingInvoice("", date(2026, 1, 1)),)), "BR-55"),
    "attachment without id": (document(attachments=(Attachment(None, "Aufmaß", "https://bau.example/1"),)), "BR-52"),
    "delivery without country": (document(delivery=Delivery(address=Address("Weg 9", "50999", "Köln", ""))), "BR-57"),
    "transfer without account": (within("payment", transfers=()), "BR-61"),
    "address without scheme": (within("seller", electronic_address=ElectronicAddress("", "a@b.example")), "BR-62"),
    "item without scheme": (line(standard_item=Identifier("4012345000009")), "BR-64"),
    "both tax points": (document(vat_point_on=date(2026, 4, 1), vat_point_code="3"), "BR-CO-03"),
    "line without category": (line(vat_category=None, vat_rate=None), "BR-CO-04"),
    "VAT id without country": (within("seller", vat_id="136695976"), "BR-CO-09"),
    "wrong sum of lines": (within("totals", lines_minor=4_001), "BR-CO-10"),
    "wrong allowances": (within("totals", allowances_minor=5), "BR-CO-11"),
    "wrong charges": (within("totals", charges_minor=5), "BR-CO-12"),
    "wrong net": (within("totals", net_minor=4_010), "BR-CO-13"),
    "wrong VAT": (within("totals", vat_minor=290), "BR-CO-14"),
    "wrong gross": (within("totals", gross_minor=5_000), "BR-CO-15"),
    "wrong amount due": (within("totals", due_minor=4_270), "BR-CO-16"),
    "wrong tax of a rate": (breakdown(vat_minor=500), "BR-CO-17"),
    "no breakdown": (document(vat_breakdown=()), "BR-CO-18"),
    "seller not identified": (within("seller", id=None, global_id=None, registration=None, vat_id=None), "BR-CO-26"),
    "no breakdown of the category": (breakdown(category="Z", rate=Decimal(0)), "BR-S-01"),
    "seller without tax number": (within("seller", vat_id=None, tax_number=None), "BR-S-02"),
    "standard rate of zero": (line(vat_rate=Decimal(0)), "BR-S-05"),
    "allowance with rate of zero": (allowance(vat_rate=Decimal(0)), "BR-S-06"),
    "charge with rate of zero": (allowance(is_charge=True, vat_rate=Decimal(0)), "BR-S-07"),
    "wrong base of a rate": (breakdown(net_minor=9_000), "BR-S-08"),
    "reason for a taxed supply": (breakdown(exemption_reason="frei"), "BR-S-10"),
    "exempt without reason": (category("E", reason=None), "BR-E-10"),
    "exempt with rate": (category("E", line_rate=Decimal(7)), "BR-E-05"),
    "exempt with tax": (category("E", tax=100), "BR-E-09"),
    "exempt with wrong base": (category("E", net=3_000), "BR-E-08"),
    "reverse charge without buyer": (category("AE", buyer_vat_id=None), "BR-AE-02"),
    "reverse charge without reason": (category("AE", reason=None), "BR-AE-10"),
    "intra-community without buyer": (category("K", buyer_vat_id=None), "BR-IC-02"),
    "intra-community without destination": (category("K", delivery=False), "BR-IC-12"),
    "export without VAT id": (category("G", vat_id=None, tax_number="12/345"), "BR-G-02"),
    "zero rate with reason": (category("Z"), "BR-Z-10"),
    "out of scope with VAT ids": (category("O", rate=None), "BR-O-02"),
    "out of scope beside another": (category("O", rate=None, vat_id=None, buyer_vat_id=None, more=(OTHER,)), "BR-O-12"),
}  # fmt: skip
_DEBIT = DirectDebit("M", None, "DE02120300000000202051")
_WRONG_DEBIT = _DEBIT._replace(iban="DE02120300000000202052")
_FILE = Attachment("1", None, None, "a.csv", "text/csv", b"1")
# Faults of rules that only XRechnung has, which the public Schematron at hand does not know.
NATIONAL: dict[str, tuple[Plant, str]] = {
    "no means": (within("payment", means_code=None, transfers=()), "BR-DE-1"),
    "no contact": (within("seller", contact=None), "BR-DE-2"),
    "contact without name": (contact(name=""), "BR-DE-5"),
    "contact without phone": (contact(phone=""), "BR-DE-6"),
    "contact without mail": (contact(email=""), "BR-DE-7"),
    "phone without digits": (contact(phone="auf Anfrage 12"), "BR-DE-27"),
    "mail without domain": (contact(email="rechnung@bau"), "BR-DE-28"),
    "breakdown without rate": (breakdown(rate=None), "BR-DE-14"),
    "debit with wrong IBAN": (within("payment", means_code="59", transfers=(), direct_debit=_WRONG_DEBIT), "BR-DE-20"),
    "no seller's city": (address("seller", city=""), "BR-DE-3"),
    "no seller's postal code": (address("seller", postal_code=""), "BR-DE-4"),
    "no buyer's city": (address("buyer", city=""), "BR-DE-8"),
    "no buyer's postal code": (address("buyer", postal_code=""), "BR-DE-9"),
    "no city of delivery": (document(delivery=Delivery(address=Address("Weg 9", "50999", "", "DE"))), "BR-DE-10"),
    "no postal code of delivery": (document(delivery=Delivery(address=Address("Weg 9", "", "Köln", "DE"))), "BR-DE-11"),
    "no buyer reference": (document(buyer_reference=None), "BR-DE-15"),
    "no tax number": (within("seller", vat_id=None, tax_number=None), "BR-DE-16"),
    "type of others": (document(type_code=382), "BR-DE-17"),
    "wrong discount": (within("payment", terms="#SKONTO#TAGE=7#PROZENT=2#\n"), "BR-DE-18"),
    "discount without end": (within("payment", terms="#SKONTO#TAGE=7#PROZENT=2.00#"), "BR-DE-18"),
    "wrong IBAN": (within("payment", transfers=(CreditTransfer("DE02120300000000202052"),)), "BR-DE-19"),
    "debit without IBAN": (within("payment", means_code="59", transfers=(), direct_debit=DirectDebit("M", "C")), "BR-DE-31"),
    "debit without creditor": (within("payment", means_code="59", transfers=(), direct_debit=_DEBIT), "BR-DE-30"),
    "debit without mandate": (within("payment", means_code="59", transfers=()), "BR-DE-25-a"),
    "debit with account": (within("payment", means_code="59"), "BR-DE-25-b"),
    "same names": (document(attachments=(_FILE, _FILE._replace(id="2"))), "BR-DE-22"),
    "transfer without account": (within("payment", transfers=()), "BR-DE-23-a"),
    "transfer with card": (within("payment", card=Card("1234")), "BR-DE-23-b"),
    "card without card": (within("payment", means_code="48", transfers=()), "BR-DE-24-a"),
    "card with account": (within("payment", means_code="48", card=Card("1234")), "BR-DE-24-b"),
    "correction of nothing": (document(type_code=384), "BR-DE-26"),
    "no delivery": (document(delivered_on=None, period=None), "BR-DE-TMP-32"),
    "no buyer's endpoint": (within("buyer", electronic_address=None), "PEPPOL-EN16931-R010"),
    "no seller's endpoint": (within("seller", electronic_address=None), "PEPPOL-EN16931-R020"),
    "line too early": (line(period=Period(date(2026, 2, 1), date(2026, 3, 31))), "PEPPOL-EN16931-R110"),
    "line too late": (line(period=Period(date(2026, 3, 1), date(2026, 4, 30))), "PEPPOL-EN16931-R111"),
    "wrong amount of a line": (line(quantity=Decimal(3)), "PEPPOL-EN16931-R120"),
}  # fmt: skip
# Faults that make input tax doubtful, of an invoice above 250 euros.
LARGE = FULL._replace(totals=FULL.totals._replace(gross_minor=30_000))
CONTENT: dict[str, tuple[Plant, str]] = {
    "no supplier": (within("seller", name="", trading_name=None), "UStG-14-4-1-seller"),
    "no recipient": (within("buyer", name="", trading_name=None), "UStG-14-4-1-buyer"),
    "no tax number": (within("seller", vat_id=None, tax_number=None), "UStG-14-4-2"),
    "no date": (document(issued_on=None), "UStG-14-4-3"),
    "no number": (document(number=""), "UStG-14-4-4"),
    "no description": (line(name=""), "UStG-14-4-5"),
    "no date of supply": (document(delivered_on=None, period=None), "UStG-14-4-6"),
    "no consideration": (breakdown(net_minor=None), "UStG-14-4-7"),
    "no tax amount": (breakdown(vat_minor=None), "UStG-14-4-8"),
    "no reason": (breakdown(category="E", rate=Decimal(0), vat_minor=0), "UStG-14-4-8"),
    "no reverse charge": (breakdown(category="AE", rate=Decimal(0), vat_minor=0), "UStG-14a-5"),
    "no VAT id of the recipient": (category("K", buyer_vat_id=None), "UStG-14a-3"),
}  # fmt: skip


# --- Every rule about a VAT category, for every category

CATEGORIES = ("S", "Z", "E", "AE", "K", "G", "O", "L", "M")
_ZERO, _7 = Decimal(0), Decimal(7)


def of_category(code: str) -> Invoice:
    """Returns a right invoice whose line, allowance and charge are of one category."""
    rate = None if code == "O" else _7 if code in ("S", "L", "M") else _ZERO
    net, tax = 3_950, 276 if rate else 0
    reason = "Grund" if code in ("E", "AE", "K", "G", "O") else None
    plain = FULL._replace(lines=FULL.lines[2:], attachments=(), payee=None, tax_representative=None)
    return plain._replace(
        lines=(plain.lines[0]._replace(vat_category=code, vat_rate=rate),),
        allowances_charges=(
            AllowanceCharge(is_charge=False, amount_minor=100, reason="Rabatt", vat_category=code, vat_rate=rate),
            AllowanceCharge(is_charge=True, amount_minor=50, reason="Fracht", vat_category=code, vat_rate=rate),
        ),
        vat_breakdown=(VatBreakdown(code, rate, net, tax, reason),),
        totals=Totals(4_000, net, tax, net + tax, net + tax, allowances_minor=100, charges_minor=50),
        seller=plain.seller._replace(vat_id=None if code == "O" else "DE136695976", tax_number=None),
        buyer=plain.buyer._replace(vat_id=None if code == "O" else "ATU12345675", registration=None),
        delivery=Delivery(address=Address("Weg 1", "1010", "Wien", "AT")),
    )


def faults_of_category(code: str) -> dict[str, Invoice]:
    """Returns the right invoice, and one for each fault that the rules of its category know."""
    right = of_category(code)
    (own,), (broken_down,), (less, more) = right.lines, right.vat_breakdown, right.allowances_charges
    wrong = {"S": _ZERO, "L": Decimal(-1), "M": Decimal(-1)}.get(code, Decimal(5))
    other = "E" if code == "Z" else "Z"
    unknown = right._replace(seller=right.seller._replace(vat_id="DE136695976" if code == "O" else None))
    found = {
        "right": right,
        "not broken down": right._replace(vat_breakdown=(broken_down._replace(category=other),)),
        "seller of a line": unknown._replace(allowances_charges=()),
        "seller of an allowance": unknown._replace(lines=(), allowances_charges=(less,)),
        "seller of a charge": unknown._replace(lines=(), allowances_charges=(more,)),
        "buyer": right._replace(buyer=right.buyer._replace(vat_id="ATU12345675" if code == "O" else None)),
        "rate of a line": right._replace(lines=(own._replace(vat_rate=wrong),)),
        "rate of an allowance": right._replace(allowances_charges=(less._replace(vat_rate=wrong), more)),
        "rate of a charge": right._replace(allowances_charges=(less, more._replace(vat_rate=wrong))),
        "base": right._replace(vat_breakdown=(broken_down._replace(net_minor=5_000),)),
        "tax": right._replace(vat_breakdown=(broken_down._replace(vat_minor=(broken_down.vat_minor or 0) + 500),)),
        "reason": right._replace(
            vat_breakdown=(broken_down._replace(exemption_reason=None if broken_down.exemption_reason else "Grund"),)
        ),
        "twice": right._replace(vat_breakdown=(broken_down, broken_down)),
    }
    if code == "O":
        found["beside others"] = right._replace(
            lines=(own, own._replace(id="9", vat_category="Z", vat_rate=_ZERO)),
            allowances_charges=(
                less._replace(vat_category="S", vat_rate=_7),
                more._replace(vat_category="S", vat_rate=_7),
            ),
            vat_breakdown=(broken_down, VatBreakdown("S", _7, -50, -4), VatBreakdown("Z", _ZERO, 4_000, 0)),
        )
    if code == "K":
        found["no day of delivery"] = right._replace(delivered_on=None, period=None)
        found["no country of delivery"] = right._replace(delivery=None)
    return found
