"""An invoice as EN 16931 XML in CII syntax: once as Factur-X (the file inside the PDF), once as XRechnung. Pure.

The terms of the standard (BT-…) stand where they are written. Amounts of a correction are turned round: there a positive sum is
what the customer gets back.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from kontobahn.mobility.facts import Facts, Line, Sum, first_day, last_day
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
SEPA_TRANSFER, NO_INSTRUMENT = "58", "1"
ONE = "C62"
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def profile_of(facts: Facts) -> Profile:
    """XRechnung demands an electronic address of the buyer; where none is known, the XML is what EN 16931 asks for."""
    return "xrechnung" if facts.buyer.electronic_address else "en16931"


def write(facts: Facts, *profiles: Profile) -> list[bytes]:
    """The XML for each profile; they differ in what they say they are."""
    declarations = "".join(f' xmlns:{prefix}="{uri}"' for prefix, uri in NAMESPACES.items())
    document, transaction = _document(facts), _transaction(facts)
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
    """A text element, or nothing where there is nothing to say: empty elements are not allowed."""
    if not value:
        return ""
    given = "".join(f" {key}={quoteattr(text)}" for key, text in attributes.items())
    return f"<ram:{name}{given}>{_text(value)}</ram:{name}>"


def _group(name: str, *content: str) -> str:
    inner = "".join(content)
    return f"<ram:{name}>{inner}</ram:{name}>" if inner else ""


def _day(day: date) -> str:
    return f'<udt:DateTimeString format="102">{day:%Y%m%d}</udt:DateTimeString>'


def _period(first: date, last: date) -> str:
    return _group("BillingSpecifiedPeriod", _group("StartDateTime", _day(first)), _group("EndDateTime", _day(last)))


def _context(profile: Profile) -> str:
    inner = _group("BusinessProcessSpecifiedDocumentContextParameter", _element("ID", PROCESS))  # BT-23
    inner += _group("GuidelineSpecifiedDocumentContextParameter", _element("ID", GUIDELINES[profile]))  # BT-24
    return f"<rsm:ExchangedDocumentContext>{inner}</rsm:ExchangedDocumentContext>"


def _document(facts: Facts) -> str:
    inner = _element("ID", facts.number)  # BT-1
    inner += _element("TypeCode", str(facts.type_code))  # BT-3
    inner += _group("IssueDateTime", _day(facts.issued_on))  # BT-2
    if facts.is_correction:
        inner += _group("IncludedNote", _element("Content", "Rechnungskorrektur: Der Betrag wird erstattet."))  # BT-22
    return f"<rsm:ExchangedDocument>{inner}</rsm:ExchangedDocument>"


def _transaction(facts: Facts) -> str:
    sign = -1 if facts.is_correction else 1
    inner = "".join(_line(line, sign) for line in facts.lines)
    inner += _group("ApplicableHeaderTradeAgreement", _element("BuyerReference", facts.buyer.reference),  # BT-10
                    _seller(facts), _buyer(facts))  # fmt: skip
    delivered = _group("OccurrenceDateTime", _day(facts.period[1]))  # BT-72
    inner += _group("ApplicableHeaderTradeDelivery", _group("ActualDeliverySupplyChainEvent", delivered))
    inner += _settlement(facts, sign)
    return f"<rsm:SupplyChainTradeTransaction>{inner}</rsm:SupplyChainTradeTransaction>"


def _line(line: Line, sign: int) -> str:
    net = sign * line.net_in_cents
    # A price is never negative: what is taken back is a quantity of -1.
    quantity = "-1" if sign * line.amount_in_cents < 0 else "1"
    share = line.employer_share_in_cents
    return _group(
        "IncludedSupplyChainTradeLineItem",
        _group(
            "AssociatedDocumentLineDocument",
            _element("LineID", str(line.position)),  # BT-126
            _group("IncludedNote", _element("Content", _note(line))),  # BT-127
        ),
        _group(
            "SpecifiedTradeProduct",
            _element("Name", line.product),  # BT-153
            _characteristic("Personalreferenz", line.holder_reference),  # BT-160, BT-161
            _characteristic("Ticketnummer", line.reference),
            _characteristic("Arbeitgeberanteil", None if share is None else f"{amount_text(share)} EUR"),
        ),
        _group(
            "SpecifiedLineTradeAgreement",
            _group("NetPriceProductTradePrice", _element("ChargeAmount", amount_text(abs(net)))),  # BT-146
        ),
        _group("SpecifiedLineTradeDelivery", _element("BilledQuantity", quantity, unitCode=ONE)),  # BT-129, BT-130
        _group(
            "SpecifiedLineTradeSettlement",
            _group("ApplicableTradeTax", *_tax(line.vat_rate)),  # BT-151, BT-152
            _period(first_day(line.valid_from), last_day(line.valid_to)),  # BT-134, BT-135
            _group(
                "SpecifiedTradeSettlementLineMonetarySummation", _element("LineTotalAmount", amount_text(net))
            ),  # BT-131
        ),
    )


def _note(line: Line) -> str | None:
    if line.credited_number is not None and line.credited_on is not None:
        day = date.fromisoformat(line.credited_on)
        return f"Storniert, berechnet mit {line.credited_number} vom {day:%d.%m.%Y}"
    if line.discount_in_cents:
        price, discount = amount_text(line.price_in_cents), amount_text(line.discount_in_cents)
        return f"Preis {price} EUR abzüglich Rabatt {discount} EUR, inkl. USt"
    return None


def _characteristic(name: str, value: str | None) -> str:
    if not value:
        return ""
    return _group("ApplicableProductCharacteristic", _element("Description", name), _element("Value", value))


def _tax(rate: int) -> tuple[str, str, str]:
    category = "S" if rate else "E"
    return _element("TypeCode", "VAT"), _element("CategoryCode", category), _element("RateApplicablePercent", str(rate))


def _seller(facts: Facts) -> str:
    seller = facts.seller
    legal = [text for text in (seller.register_entry, seller.managing_directors) if text]
    return _group(
        "SellerTradeParty",
        _element("Name", seller.name),  # BT-27
        _element("Description", ", ".join(legal)),  # BT-33
        _group(
            "DefinedTradeContact",
            _element("PersonName", seller.contact_name),  # BT-41
            _group("TelephoneUniversalCommunication", _element("CompleteNumber", seller.contact_phone)),  # BT-42
            _group("EmailURIUniversalCommunication", _element("URIID", seller.contact_email)),  # BT-43
        ),
        _address(seller.street, seller.postal_code, seller.city, seller.country_code),  # BT-35, BT-37, BT-38, BT-40
        _group("URIUniversalCommunication", _element("URIID", seller.contact_email, schemeID="EM")),  # BT-34
        _group("SpecifiedTaxRegistration", _element("ID", seller.vat_id, schemeID="VA")),  # BT-31
        _group("SpecifiedTaxRegistration", _element("ID", seller.tax_number, schemeID="FC")),  # BT-32
    )


def _buyer(facts: Facts) -> str:
    buyer = facts.buyer
    scheme, address = buyer.electronic_address or ("", None)
    return _group(
        "BuyerTradeParty",
        _element("ID", buyer.customer_number),  # BT-46
        _element("Name", buyer.name),  # BT-44
        _address(buyer.street, buyer.postal_code, buyer.city, buyer.country_code),  # BT-50, BT-52, BT-53, BT-55
        _group("URIUniversalCommunication", _element("URIID", address, schemeID=scheme)),  # BT-49
        _group("SpecifiedTaxRegistration", _element("ID", buyer.vat_id, schemeID="VA")),  # BT-48
    )


def _address(street: str | None, postal_code: str | None, city: str | None, country: str) -> str:
    return _group(
        "PostalTradeAddress",
        _element("PostcodeCode", postal_code),
        _element("LineOne", street),
        _element("CityName", city),
        _element("CountryID", country),
    )


def _settlement(facts: Facts, sign: int) -> str:
    return _group(
        "ApplicableHeaderTradeSettlement",
        _element("PaymentReference", facts.number),  # BT-83
        _element("InvoiceCurrencyCode", "EUR"),  # BT-5
        _payment_means(facts),
        *(_vat_breakdown(facts, item, sign) for item in facts.sums),
        _period(*facts.period),  # BT-73, BT-74
        _group(
            "SpecifiedTradePaymentTerms",
            _element("Description", payment_terms(facts)),  # BT-20
            _group("DueDateDateTime", _day(facts.due_on)) if facts.due_on else "",  # BT-9
        ),
        _totals(facts, sign),
        *(
            _group(
                "InvoiceReferencedDocument",
                _element("IssuerAssignedID", number),  # BT-25
                _group(
                    "FormattedIssueDateTime",
                    f'<qdt:DateTimeString format="102">{day:%Y%m%d}</qdt:DateTimeString>',  # BT-26
                ),
            )
            for number, day in facts.credited
        ),
    )


def payment_terms(facts: Facts) -> str:
    if facts.is_correction:
        return "Der Betrag wird Ihnen erstattet."
    if facts.due_on is None:
        return "Es ist nichts zu zahlen."
    return f"Zahlbar ohne Abzug bis zum {facts.due_on:%d.%m.%Y}."


def _payment_means(facts: Facts) -> str:
    seller = facts.seller
    if facts.due_on is None:
        return _group("SpecifiedTradeSettlementPaymentMeans", _element("TypeCode", NO_INSTRUMENT))  # BT-81
    return _group(
        "SpecifiedTradeSettlementPaymentMeans",
        _element("TypeCode", SEPA_TRANSFER),  # BT-81
        _group("PayeePartyCreditorFinancialAccount", _element("IBANID", seller.iban), _element("AccountName", seller.name)),
        _group("PayeeSpecifiedCreditorFinancialInstitution", _element("BICID", seller.bic)),  # BT-84, BT-85, BT-86
    )  # fmt: skip


def _vat_breakdown(facts: Facts, item: Sum, sign: int) -> str:
    kind, category, rate = _tax(item.vat_rate)
    return _group(
        "ApplicableTradeTax",
        _element("CalculatedAmount", amount_text(sign * item.vat_in_cents)),  # BT-117
        kind,
        _element("ExemptionReason", None if item.vat_rate else facts.seller.vat_exemption_reason),  # BT-120
        _element("BasisAmount", amount_text(sign * item.net_in_cents)),  # BT-116
        category,  # BT-118
        rate,  # BT-119
    )


def _totals(facts: Facts, sign: int) -> str:
    net, vat, rounding = sign * facts.net_in_cents, sign * facts.vat_in_cents, sign * facts.rounding_in_cents
    return _group(
        "SpecifiedTradeSettlementHeaderMonetarySummation",
        _element("LineTotalAmount", amount_text(net)),  # BT-106
        _element("TaxBasisTotalAmount", amount_text(net)),  # BT-109
        _element("TaxTotalAmount", amount_text(vat), currencyID="EUR"),  # BT-110
        _element("RoundingAmount", amount_text(rounding)) if rounding else "",  # BT-114
        _element("GrandTotalAmount", amount_text(net + vat)),  # BT-112
        _element("DuePayableAmount", amount_text(net + vat + rounding)),  # BT-115
    )
