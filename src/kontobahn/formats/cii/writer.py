"""An invoice as EN 16931 XML in CII syntax, declared as Factur-X (the file inside a PDF) or as XRechnung. Pure.

Comments give the terms of the standard (BT-…) where they are written. Amounts are written as the invoice has them.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from kontobahn.formats.cii.invoice import (
    Address,
    Contact,
    Invoice,
    Line,
    Party,
    Payment,
    Period,
    PrecedingInvoice,
    Totals,
    VatBreakdown,
)
from kontobahn.money import amount_text

Profile = Literal["en16931", "xrechnung"]
GUIDELINES: dict[Profile, str] = {
    "en16931": "urn:cen.eu:en16931:2017",
    "xrechnung": "urn:cen.eu:en16931:2017#compliant#urn:xeinkauf.de:kosit:xrechnung_3.0",
}
PROCESS = "urn:fdc:peppol.eu:2017:poacc:billing:01:1.0"
NAMESPACES = {
    "rsm": "urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100",
    "ram": "urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100",
    "qdt": "urn:un:unece:uncefact:data:standard:QualifiedDataType:100",
    "udt": "urn:un:unece:uncefact:data:standard:UnqualifiedDataType:100",
}
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def profile_of(invoice: Invoice) -> Profile:
    """XRechnung requires an electronic address of the buyer; if none is known, the XML is plain EN 16931."""
    return "xrechnung" if invoice.buyer.electronic_address else "en16931"


def write(invoice: Invoice, *profiles: Profile) -> list[bytes]:
    """Returns the XML for each profile. They differ only in the profile they declare."""
    declarations = "".join(f' xmlns:{prefix}="{uri}"' for prefix, uri in NAMESPACES.items())
    document, transaction = _document(invoice), _transaction(invoice)
    return [
        (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<rsm:CrossIndustryInvoice{declarations}>{_context(profile)}{document}'
            f"{transaction}</rsm:CrossIndustryInvoice>\n"
        ).encode()
        for profile in profiles
    ]


def _text(value: str) -> str:
    return escape(_NOT_IN_XML.sub("", value))


def _element(name: str, value: str | None, **attributes: str) -> str:
    """A text element, or nothing if there is no text: empty elements are not allowed."""
    if not value:
        return ""
    written = "".join(f" {key}={quoteattr(text)}" for key, text in attributes.items())
    return f"<ram:{name}{written}>{_text(value)}</ram:{name}>"


def _group(name: str, *content: str) -> str:
    inner = "".join(content)
    return f"<ram:{name}>{inner}</ram:{name}>" if inner else ""


def _day(day: date) -> str:
    return f'<udt:DateTimeString format="102">{day:%Y%m%d}</udt:DateTimeString>'


def _period(period: Period | None) -> str:
    if period is None:
        return ""
    return _group(
        "BillingSpecifiedPeriod",
        _group("StartDateTime", _day(period.first)),  # BT-73, BT-134
        _group("EndDateTime", _day(period.last)),  # BT-74, BT-135
    )


def _context(profile: Profile) -> str:
    inner = _group("BusinessProcessSpecifiedDocumentContextParameter", _element("ID", PROCESS))  # BT-23
    inner += _group("GuidelineSpecifiedDocumentContextParameter", _element("ID", GUIDELINES[profile]))  # BT-24
    return f"<rsm:ExchangedDocumentContext>{inner}</rsm:ExchangedDocumentContext>"


def _document(invoice: Invoice) -> str:
    inner = _element("ID", invoice.number)  # BT-1
    inner += _element("TypeCode", str(invoice.type_code))  # BT-3
    inner += _group("IssueDateTime", _day(invoice.issued_on))  # BT-2
    inner += _group("IncludedNote", _element("Content", invoice.note))  # BT-22
    return f"<rsm:ExchangedDocument>{inner}</rsm:ExchangedDocument>"


def _transaction(invoice: Invoice) -> str:
    inner = "".join(map(_line, invoice.lines))
    inner += _group(
        "ApplicableHeaderTradeAgreement",
        _element("BuyerReference", invoice.buyer_reference),  # BT-10
        _party("SellerTradeParty", invoice.seller),
        _party("BuyerTradeParty", invoice.buyer),
    )
    delivered = _group("OccurrenceDateTime", _day(invoice.delivered_on)) if invoice.delivered_on else ""  # BT-72
    # The element must be there, even if it is empty.
    inner += f"<ram:ApplicableHeaderTradeDelivery>{_group('ActualDeliverySupplyChainEvent', delivered)}</ram:ApplicableHeaderTradeDelivery>"
    inner += _settlement(invoice)
    return f"<rsm:SupplyChainTradeTransaction>{inner}</rsm:SupplyChainTradeTransaction>"


def _line(line: Line) -> str:
    return _group(
        "IncludedSupplyChainTradeLineItem",
        _group(
            "AssociatedDocumentLineDocument",
            _element("LineID", line.id),  # BT-126
            _group("IncludedNote", _element("Content", line.note)),  # BT-127
        ),
        _group("SpecifiedTradeProduct", _element("Name", line.name), *map(_attribute, line.attributes)),  # BT-153
        _group(
            "SpecifiedLineTradeAgreement",
            _group("NetPriceProductTradePrice", _element("ChargeAmount", f"{line.net_price:f}")),  # BT-146
        ),
        _group(
            "SpecifiedLineTradeDelivery",
            _element("BilledQuantity", f"{line.quantity:f}", unitCode=line.unit_code),  # BT-129, BT-130
        ),
        _group(
            "SpecifiedLineTradeSettlement",
            _group("ApplicableTradeTax", *_tax(line.vat_category, line.vat_rate)),  # BT-151, BT-152
            _period(line.period),
            _group(
                "SpecifiedTradeSettlementLineMonetarySummation",
                _element("LineTotalAmount", amount_text(line.net_minor)),  # BT-131
            ),
        ),
    )


def _attribute(attribute: tuple[str, str]) -> str:
    name, value = attribute
    return _group(
        "ApplicableProductCharacteristic",
        _element("Description", name),  # BT-160
        _element("Value", value),  # BT-161
    )


def _tax(category: str, rate: Decimal) -> tuple[str, str, str]:
    return (
        _element("TypeCode", "VAT"),
        _element("CategoryCode", category),
        _element("RateApplicablePercent", f"{rate:f}"),
    )


def _party(name: str, party: Party) -> str:
    scheme, address = party.electronic_address or ("", None)
    return _group(
        name,
        _element("ID", party.id),  # BT-29, BT-46
        _element("Name", party.name),  # BT-27, BT-44
        _element("Description", party.legal_information),  # BT-33
        _contact(party.contact),
        _address(party.address),
        _group("URIUniversalCommunication", _element("URIID", address, schemeID=scheme)),  # BT-34, BT-49
        _group("SpecifiedTaxRegistration", _element("ID", party.vat_id, schemeID="VA")),  # BT-31, BT-48
        _group("SpecifiedTaxRegistration", _element("ID", party.tax_number, schemeID="FC")),  # BT-32
    )


def _contact(contact: Contact | None) -> str:
    if contact is None:
        return ""
    return _group(
        "DefinedTradeContact",
        _element("PersonName", contact.name),  # BT-41, BT-56
        _group("TelephoneUniversalCommunication", _element("CompleteNumber", contact.phone)),  # BT-42, BT-57
        _group("EmailURIUniversalCommunication", _element("URIID", contact.email)),  # BT-43, BT-58
    )


def _address(address: Address) -> str:
    return _group(
        "PostalTradeAddress",
        _element("PostcodeCode", address.postal_code),  # BT-38, BT-53
        _element("LineOne", address.street),  # BT-35, BT-50
        _element("CityName", address.city),  # BT-37, BT-52
        _element("CountryID", address.country_code),  # BT-40, BT-55
    )


def _settlement(invoice: Invoice) -> str:
    payment = invoice.payment
    return _group(
        "ApplicableHeaderTradeSettlement",
        _element("PaymentReference", payment.reference),  # BT-83
        _element("InvoiceCurrencyCode", invoice.currency),  # BT-5
        _payment_means(payment),
        *map(_vat_breakdown, invoice.vat_breakdown),
        _period(invoice.period),
        _group(
            "SpecifiedTradePaymentTerms",
            _element("Description", payment.terms),  # BT-20
            _group("DueDateDateTime", _day(payment.due_on)) if payment.due_on else "",  # BT-9
        ),
        _totals(invoice.totals, invoice.currency),
        *map(_preceding, invoice.preceding),
    )


def _payment_means(payment: Payment) -> str:
    means = [_element("TypeCode", payment.means_code)]  # BT-81
    if payment.transfer is not None:
        iban, account_name, bic = payment.transfer
        means += [
            _group("PayeePartyCreditorFinancialAccount", _element("IBANID", iban), _element("AccountName", account_name)),
            _group("PayeeSpecifiedCreditorFinancialInstitution", _element("BICID", bic)),  # BT-84, BT-85, BT-86
        ]  # fmt: skip
    return _group("SpecifiedTradeSettlementPaymentMeans", *means)


def _vat_breakdown(item: VatBreakdown) -> str:
    kind, category, rate = _tax(item.category, item.rate)
    return _group(
        "ApplicableTradeTax",
        _element("CalculatedAmount", amount_text(item.vat_minor)),  # BT-117
        kind,
        _element("ExemptionReason", item.exemption_reason),  # BT-120
        _element("BasisAmount", amount_text(item.net_minor)),  # BT-116
        category,  # BT-118
        rate,  # BT-119
    )


def _totals(totals: Totals, currency: str) -> str:
    return _group(
        "SpecifiedTradeSettlementHeaderMonetarySummation",
        _element("LineTotalAmount", amount_text(totals.lines_minor)),  # BT-106
        _element("TaxBasisTotalAmount", amount_text(totals.net_minor)),  # BT-109
        _element("TaxTotalAmount", amount_text(totals.vat_minor), currencyID=currency),  # BT-110
        _element("RoundingAmount", amount_text(totals.rounding_minor)) if totals.rounding_minor else "",  # BT-114
        _element("GrandTotalAmount", amount_text(totals.gross_minor)),  # BT-112
        _element("DuePayableAmount", amount_text(totals.due_minor)),  # BT-115
    )


def _preceding(preceding: PrecedingInvoice) -> str:
    day = f'<qdt:DateTimeString format="102">{preceding.issued_on:%Y%m%d}</qdt:DateTimeString>'
    return _group(
        "InvoiceReferencedDocument",
        _element("IssuerAssignedID", preceding.number),  # BT-25
        _group("FormattedIssueDateTime", day),  # BT-26
    )
