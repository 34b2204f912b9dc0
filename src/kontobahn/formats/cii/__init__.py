"""Electronic invoices by EN 16931 in the CII syntax, and the rules Germany adds to them. Knows no area and no tickets."""

from __future__ import annotations

from base64 import b64encode
from datetime import date
from decimal import Decimal
from typing import Literal

from kontobahn.formats.cii.terms import NAMESPACES
from kontobahn.formats.invoices.model import (
    Address,
    AllowanceCharge,
    Attachment,
    Contact,
    Delivery,
    Identifier,
    Invoice,
    Line,
    Note,
    Party,
    Payee,
    Payment,
    Period,
    PrecedingInvoice,
    VatBreakdown,
)
from kontobahn.money import amount_text
from kontobahn.xml_text import element, group

# An invoice as EN 16931 XML in CII syntax, declared as Factur-X (the file inside a PDF) or as XRechnung. Pure.
#
# Comments give the terms of the standard (BT-…) where they are written. Amounts are written as the invoice has them.


Profile = Literal["en16931", "xrechnung"]
GUIDELINES: dict[Profile, str] = {
    "en16931": "urn:cen.eu:en16931:2017",
    "xrechnung": "urn:cen.eu:en16931:2017#compliant#urn:xeinkauf.de:kosit:xrechnung_3.0",
}
PROCESS = "urn:fdc:peppol.eu:2017:poacc:billing:01:1.0"


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


def _element(name: str, value: str | None, **attributes: str) -> str:
    return element(f"ram:{name}", value, **attributes)


def _group(name: str, *content: str) -> str:
    return group(f"ram:{name}", *content)


def _identified(name: str, identifier: Identifier | None) -> str:
    if identifier is None:
        return ""
    return _element(name, identifier.value, **({"schemeID": identifier.scheme} if identifier.scheme else {}))


def _amount(name: str, minor: int | None) -> str:
    return "" if minor is None else _element(name, amount_text(minor))


def _number(name: str, value: Decimal | None, **attributes: str) -> str:
    return "" if value is None else _element(name, f"{value:f}", **attributes)


def _day(day: date | None) -> str:
    if day is None:
        return ""
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
    inner += _element("TypeCode", str(invoice.type_code or ""))  # BT-3
    inner += _group("IssueDateTime", _day(invoice.issued_on))  # BT-2
    inner += "".join(map(_note, invoice.notes))
    return f"<rsm:ExchangedDocument>{inner}</rsm:ExchangedDocument>"


def _note(note: Note) -> str:
    return _group(
        "IncludedNote",
        _element("Content", note.text),  # BT-22
        _element("SubjectCode", note.subject_code),  # BT-21
    )


def _transaction(invoice: Invoice) -> str:
    inner = "".join(map(_line, invoice.lines)) + _agreement(invoice)
    # The element must be there, even if it is empty.
    inner += f"<ram:ApplicableHeaderTradeDelivery>{_delivered(invoice)}</ram:ApplicableHeaderTradeDelivery>"
    inner += _settlement(invoice)
    return f"<rsm:SupplyChainTradeTransaction>{inner}</rsm:SupplyChainTradeTransaction>"


def _agreement(invoice: Invoice) -> str:
    references = invoice.references
    return _group(
        "ApplicableHeaderTradeAgreement",
        _element("BuyerReference", invoice.buyer_reference),  # BT-10
        _party("SellerTradeParty", invoice.seller),
        _party("BuyerTradeParty", invoice.buyer),
        _party("SellerTaxRepresentativeTradeParty", invoice.tax_representative) if invoice.tax_representative else "",
        _referenced("SellerOrderReferencedDocument", references.sales_order),  # BT-14
        _referenced("BuyerOrderReferencedDocument", references.order),  # BT-13
        _referenced("ContractReferencedDocument", references.contract),  # BT-12
        *map(_attachment, invoice.attachments),
        _additional("50", references.tender),  # BT-17
        _additional("130", references.object.value, references.object.scheme) if references.object else "",  # BT-18
        # A project must have a name, which the standard does not know.
        _group("SpecifiedProcuringProject", _element("ID", references.project), _element("Name", references.project)),  # BT-11
    )  # fmt: skip


def _referenced(name: str, number: str | None) -> str:
    return _group(name, _element("IssuerAssignedID", number))


def _additional(type_code: str, number: str | None, scheme: str | None = None) -> str:
    if not number:
        return ""
    return _group(
        "AdditionalReferencedDocument",
        _element("IssuerAssignedID", number),
        _element("TypeCode", type_code),
        _element("ReferenceTypeCode", scheme),
    )


def _attachment(attachment: Attachment) -> str:
    content = b64encode(attachment.content).decode() if attachment.content else None
    return _group(
        "AdditionalReferencedDocument",
        _element("IssuerAssignedID", attachment.id),  # BT-122
        _element("URIID", attachment.uri),  # BT-124
        _element("TypeCode", "916"),
        _element("Name", attachment.description),  # BT-123
        _element(
            "AttachmentBinaryObject", content, mimeCode=attachment.media_type or "", filename=attachment.name or ""
        ),
    )


def _delivered(invoice: Invoice) -> str:
    return (
        _ship_to(invoice.delivery or Delivery())
        + _group("ActualDeliverySupplyChainEvent", _group("OccurrenceDateTime", _day(invoice.delivered_on)))  # BT-72
        + _referenced("DespatchAdviceReferencedDocument", invoice.references.despatch)  # BT-16
        + _referenced("ReceivingAdviceReferencedDocument", invoice.references.receipt)  # BT-15
    )


def _ship_to(delivery: Delivery) -> str:
    location = delivery.location
    return _group(
        "ShipToTradeParty",
        _identified("GlobalID" if location and location.scheme else "ID", location),  # BT-71
        _element("Name", delivery.name),  # BT-70
        _address(delivery.address),
    )


def _line(line: Line) -> str:
    return _group(
        "IncludedSupplyChainTradeLineItem",
        _group(
            "AssociatedDocumentLineDocument",
            _element("LineID", line.id),  # BT-126
            _element("ParentLineID", line.parent_id),
            _group("IncludedNote", _element("Content", line.note)),  # BT-127
        ),
        _group(
            "SpecifiedTradeProduct",
            _identified("GlobalID", line.standard_item),  # BT-157
            _element("SellerAssignedID", line.seller_item),  # BT-155
            _element("BuyerAssignedID", line.buyer_item),  # BT-156
            _element("Name", line.name),  # BT-153
            _element("Description", line.description),  # BT-154
            *map(_attribute, line.attributes),
        ),
        _prices(line),
        _group(
            "SpecifiedLineTradeDelivery",
            _number("BilledQuantity", line.quantity, **_unit(line.unit_code)),  # BT-129, BT-130
        ),
        _group(
            "SpecifiedLineTradeSettlement",
            _group("ApplicableTradeTax", *_tax(line.vat_category, line.vat_rate)),  # BT-151, BT-152
            _period(line.period),
            *map(_allowance_charge, line.allowances_charges),
            _group(
                "SpecifiedTradeSettlementLineMonetarySummation",
                _amount("LineTotalAmount", line.net_minor),  # BT-131
            ),
            _group("ReceivableSpecifiedTradeAccountingAccount", _element("ID", line.accounting_reference)),  # BT-133
        ),
    )


def _prices(line: Line) -> str:
    basis = _number("BasisQuantity", line.base_quantity, **_unit(line.base_unit))  # BT-149, BT-150
    gross = ""
    if line.gross_price is not None:
        discount = _number("ActualAmount", line.price_discount)  # BT-147
        gross = _group(
            "GrossPriceProductTradePrice",
            _number("ChargeAmount", line.gross_price),  # BT-148
            basis,
            _group("AppliedTradeAllowanceCharge", _indicator(is_charge=False), discount) if discount else "",
        )
    return _group(
        "SpecifiedLineTradeAgreement",
        _group("BuyerOrderReferencedDocument", _element("LineID", line.order_line)),  # BT-132
        gross,
        _group("NetPriceProductTradePrice", _number("ChargeAmount", line.net_price), basis),  # BT-146
    )


def _unit(code: str | None) -> dict[str, str]:
    return {"unitCode": code} if code else {}


def _indicator(*, is_charge: bool) -> str:
    return f"<ram:ChargeIndicator><udt:Indicator>{str(is_charge).lower()}</udt:Indicator></ram:ChargeIndicator>"


def _allowance_charge(item: AllowanceCharge) -> str:
    return _group(
        "SpecifiedTradeAllowanceCharge",
        _indicator(is_charge=item.is_charge),
        _number("CalculationPercent", item.percent),
        _amount("BasisAmount", item.base_minor),
        _amount("ActualAmount", item.amount_minor),
        _element("ReasonCode", item.reason_code),
        _element("Reason", item.reason),
        _group("CategoryTradeTax", *_tax(item.vat_category, item.vat_rate)) if item.vat_category else "",
    )


def _attribute(attribute: tuple[str, str]) -> str:
    name, value = attribute
    return _group(
        "ApplicableProductCharacteristic",
        _element("Description", name),  # BT-160
        _element("Value", value),  # BT-161
    )


def _tax(category: str | None, rate: Decimal | None) -> tuple[str, str, str]:
    return (
        _element("TypeCode", "VAT"),
        _element("CategoryCode", category),
        _number("RateApplicablePercent", rate),
    )


def _party(name: str, party: Party) -> str:
    scheme, address = party.electronic_address or ("", None)
    return _group(
        name,
        _element("ID", party.id),  # BT-29, BT-46
        _identified("GlobalID", party.global_id),
        _element("Name", party.name),  # BT-27, BT-44, BT-62
        _element("Description", party.legal_information),  # BT-33
        _group(
            "SpecifiedLegalOrganization",
            _identified("ID", party.registration),  # BT-30, BT-47
            _element("TradingBusinessName", party.trading_name),  # BT-28, BT-45
        ),
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


def _address(address: Address | None) -> str:
    if address is None:
        return ""
    return _group(
        "PostalTradeAddress",
        _element("PostcodeCode", address.postal_code),  # BT-38, BT-53
        _element("LineOne", address.street),  # BT-35, BT-50
        _element("LineTwo", address.street_2),  # BT-36, BT-51
        _element("LineThree", address.street_3),  # BT-162, BT-163
        _element("CityName", address.city),  # BT-37, BT-52
        _element("CountryID", address.country_code),  # BT-40, BT-55
        _element("CountrySubDivisionName", address.region),  # BT-39, BT-54
    )


def _settlement(invoice: Invoice) -> str:
    payment = invoice.payment
    debit = payment.direct_debit
    return _group(
        "ApplicableHeaderTradeSettlement",
        _element("CreditorReferenceID", debit.creditor_id if debit else None),  # BT-90
        _element("PaymentReference", payment.reference),  # BT-83
        _element("TaxCurrencyCode", invoice.vat_currency),  # BT-6
        _element("InvoiceCurrencyCode", invoice.currency),  # BT-5
        _payee(invoice.payee) if invoice.payee else "",
        *_payment_means(payment),
        *(_vat_breakdown(item, invoice) for item in invoice.vat_breakdown),
        _period(invoice.period),
        *map(_allowance_charge, invoice.allowances_charges),
        _group(
            "SpecifiedTradePaymentTerms",
            _element("Description", payment.terms),  # BT-20
            _group("DueDateDateTime", _day(payment.due_on)),  # BT-9
            _element("DirectDebitMandateID", debit.mandate if debit else None),  # BT-89
        ),
        _totals(invoice),
        *map(_preceding, invoice.preceding),
        _group("ReceivableSpecifiedTradeAccountingAccount", _element("ID", invoice.references.accounting)),  # BT-19
    )


def _payee(payee: Payee) -> str:
    return _group(
        "PayeeTradeParty",
        _identified("GlobalID" if payee.id and payee.id.scheme else "ID", payee.id),  # BT-60
        _element("Name", payee.name),  # BT-59
        _group("SpecifiedLegalOrganization", _identified("ID", payee.registration)),  # BT-61
    )


def _payment_means(payment: Payment) -> list[str]:
    """One group for each account; there is one as well if there is none."""
    card, debit = payment.card, payment.direct_debit
    means = [
        _group("ApplicableTradeSettlementFinancialCard", _element("ID", card.number), _element("CardholderName", card.holder))
        if card else "",  # BT-87, BT-88
        _group("PayerPartyDebtorFinancialAccount", _element("IBANID", debit.iban)) if debit else "",  # BT-91
    ]  # fmt: skip
    accounts = [
        [
            _group("PayeePartyCreditorFinancialAccount", _element("IBANID", iban), _element("AccountName", account_name)),
            _group("PayeeSpecifiedCreditorFinancialInstitution", _element("BICID", bic)),  # BT-84, BT-85, BT-86
        ]
        for iban, account_name, bic in payment.transfers
    ]  # fmt: skip
    code, text = _element("TypeCode", payment.means_code), _element("Information", payment.means_text)  # BT-81, BT-82
    return [
        _group("SpecifiedTradeSettlementPaymentMeans", code, "" if number else text, *means, *account)
        for number, account in enumerate(accounts or [[]])
    ]


def _vat_breakdown(item: VatBreakdown, invoice: Invoice) -> str:
    kind, category, rate = _tax(item.category, item.rate)
    point = invoice.vat_point_on
    return _group(
        "ApplicableTradeTax",
        _amount("CalculatedAmount", item.vat_minor),  # BT-117
        kind,
        _element("ExemptionReason", item.exemption_reason),  # BT-120
        _amount("BasisAmount", item.net_minor),  # BT-116
        category,  # BT-118
        _element("ExemptionReasonCode", item.exemption_code),  # BT-121
        f'<ram:TaxPointDate><udt:DateString format="102">{point:%Y%m%d}</udt:DateString></ram:TaxPointDate>' if point else "",  # BT-7
        _element("DueDateTypeCode", invoice.vat_point_code),  # BT-8
        rate,  # BT-119
    )  # fmt: skip


def _totals(invoice: Invoice) -> str:
    totals, currency = invoice.totals, invoice.currency
    accounting = totals.vat_accounting_minor
    return _group(
        "SpecifiedTradeSettlementHeaderMonetarySummation",
        _amount("LineTotalAmount", totals.lines_minor),  # BT-106
        _amount("ChargeTotalAmount", totals.charges_minor),  # BT-108
        _amount("AllowanceTotalAmount", totals.allowances_minor),  # BT-107
        _amount("TaxBasisTotalAmount", totals.net_minor),  # BT-109
        "" if totals.vat_minor is None else _element("TaxTotalAmount", amount_text(totals.vat_minor), currencyID=currency),  # BT-110
        "" if accounting is None
        else _element("TaxTotalAmount", amount_text(accounting), currencyID=invoice.vat_currency or ""),  # BT-111
        _element("RoundingAmount", amount_text(totals.rounding_minor)) if totals.rounding_minor else "",  # BT-114
        _amount("GrandTotalAmount", totals.gross_minor),  # BT-112
        _amount("TotalPrepaidAmount", totals.prepaid_minor),  # BT-113
        _amount("DuePayableAmount", totals.due_minor),  # BT-115
    )  # fmt: skip


def _preceding(preceding: PrecedingInvoice) -> str:
    day = preceding.issued_on
    written = f'<qdt:DateTimeString format="102">{day:%Y%m%d}</qdt:DateTimeString>' if day else ""
    return _group(
        "InvoiceReferencedDocument",
        _element("IssuerAssignedID", preceding.number),  # BT-25
        _group("FormattedIssueDateTime", written),  # BT-26
    )
