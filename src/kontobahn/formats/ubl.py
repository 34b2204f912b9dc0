"""Electronic invoices by EN 16931 in UBL: the places of their terms, and a writer."""

from __future__ import annotations

from base64 import b64encode
from datetime import date
from decimal import Decimal

from kontobahn.formats.invoices.model import (
    Address,
    AllowanceCharge,
    Attachment,
    Delivery,
    Identifier,
    Invoice,
    Line,
    Party,
    Payment,
    Period,
    Totals,
    VatBreakdown,
)
from kontobahn.formats.invoices.source import Syntax
from kontobahn.money import amount_text
from kontobahn.xml_text import element as _element
from kontobahn.xml_text import group as _group

# The terms of EN 16931 and their places in UBL 2.1, for an invoice and for a credit note.


_OASIS = "urn:oasis:names:specification:ubl:schema:xsd:"
COMMON = {"cac": f"{_OASIS}CommonAggregateComponents-2", "cbc": f"{_OASIS}CommonBasicComponents-2"}
INVOICE_NAMESPACE, CREDIT_NOTE_NAMESPACE = f"{_OASIS}Invoice-2", f"{_OASIS}CreditNote-2"


_ADDRESS = (
    "cbc:StreetName", "cbc:AdditionalStreetName", "cac:AddressLine/cbc:Line", "cbc:CityName", "cbc:PostalZone",
    "cbc:CountrySubentity", "cac:Country/cbc:IdentificationCode",
)  # fmt: skip
_PARTY = (
    "cbc:EndpointID", "cbc:EndpointID/@schemeID", "cac:PartyName/cbc:Name",
    *(f"cac:PostalAddress/{place}" for place in _ADDRESS),
    "cac:PartyLegalEntity/cbc:RegistrationName", "cac:PartyLegalEntity/cbc:CompanyID",
    "cac:PartyLegalEntity/cbc:CompanyID/@schemeID", "cac:Contact/cbc:Name", "cac:Contact/cbc:Telephone",
    "cac:Contact/cbc:ElectronicMail",
)  # fmt: skip


def _terms(path: str, places: tuple[str, ...], terms: str) -> str:
    return "\n".join(f"{term} {path}/{place}" for term, place in zip(terms.split(), places, strict=True))


_SELLER, _BUYER = "cac:AccountingSupplierParty/cac:Party", "cac:AccountingCustomerParty/cac:Party"
_OF_SELLER = "BT-34 BT-34s BT-28 BT-35 BT-36 BT-162 BT-37 BT-38 BT-39 BT-40 BT-27 BT-30 BT-30s BT-41 BT-42 BT-43"
_OF_BUYER = "BT-49 BT-49s BT-45 BT-50 BT-51 BT-163 BT-52 BT-53 BT-54 BT-55 BT-44 BT-47 BT-47s BT-56 BT-57 BT-58"
_SUMS, _PLACE = "cac:LegalMonetaryTotal", "cac:Delivery/cac:DeliveryLocation"
_HEAD = f"""
BT-24 cbc:CustomizationID
BT-23 cbc:ProfileID
BT-1 cbc:ID
BT-2 cbc:IssueDate
BT-9 cbc:DueDate
BT-3 cbc:InvoiceTypeCode
BT-7 cbc:TaxPointDate
BT-5 cbc:DocumentCurrencyCode
BT-6 cbc:TaxCurrencyCode
BT-19 cbc:AccountingCost
BT-10 cbc:BuyerReference
BT-73 cac:InvoicePeriod/cbc:StartDate
BT-74 cac:InvoicePeriod/cbc:EndDate
BT-8 cac:InvoicePeriod/cbc:DescriptionCode
BT-13 cac:OrderReference/cbc:ID
BT-14 cac:OrderReference/cbc:SalesOrderID
BT-16 cac:DespatchDocumentReference/cbc:ID
BT-15 cac:ReceiptDocumentReference/cbc:ID
BT-17 cac:OriginatorDocumentReference/cbc:ID
BT-12 cac:ContractDocumentReference/cbc:ID
BT-11 cac:ProjectReference/cbc:ID
{_terms(_SELLER, _PARTY, _OF_SELLER)}
BT-33 {_SELLER}/cac:PartyLegalEntity/cbc:CompanyLegalForm
{_terms(_BUYER, _PARTY, _OF_BUYER)}
BT-59 cac:PayeeParty/cac:PartyName/cbc:Name
BT-61 cac:PayeeParty/cac:PartyLegalEntity/cbc:CompanyID
BT-61s cac:PayeeParty/cac:PartyLegalEntity/cbc:CompanyID/@schemeID
BT-62 cac:TaxRepresentativeParty/cac:PartyName/cbc:Name
{_terms("cac:TaxRepresentativeParty/cac:PostalAddress", _ADDRESS, "BT-64 BT-65 BT-164 BT-66 BT-67 BT-68 BT-69")}
BT-72 cac:Delivery/cbc:ActualDeliveryDate
BT-71g {_PLACE}/cbc:ID
BT-71s {_PLACE}/cbc:ID/@schemeID
{_terms(f"{_PLACE}/cac:Address", _ADDRESS, "BT-75 BT-76 BT-165 BT-77 BT-78 BT-79 BT-80")}
BT-70 cac:Delivery/cac:DeliveryParty/cac:PartyName/cbc:Name
BT-106 {_SUMS}/cbc:LineExtensionAmount
BT-109 {_SUMS}/cbc:TaxExclusiveAmount
BT-112 {_SUMS}/cbc:TaxInclusiveAmount
BT-107 {_SUMS}/cbc:AllowanceTotalAmount
BT-108 {_SUMS}/cbc:ChargeTotalAmount
BT-113 {_SUMS}/cbc:PrepaidAmount
BT-114 {_SUMS}/cbc:PayableRoundingAmount
BT-115 {_SUMS}/cbc:PayableAmount
[BG-1 cbc:Note]
BT-22 .
[BG-3 cac:BillingReference]
BT-25 cac:InvoiceDocumentReference/cbc:ID
BT-26 cac:InvoiceDocumentReference/cbc:IssueDate
[BG-24 cac:AdditionalDocumentReference]
BT-122 cbc:ID
BT-18s cbc:ID/@schemeID
type cbc:DocumentTypeCode
BT-123 cbc:DocumentDescription
BT-125 cac:Attachment/cbc:EmbeddedDocumentBinaryObject
BT-125m cac:Attachment/cbc:EmbeddedDocumentBinaryObject/@mimeCode
BT-125f cac:Attachment/cbc:EmbeddedDocumentBinaryObject/@filename
BT-124 cac:Attachment/cac:ExternalReference/cbc:URI
[BT-29 {_SELLER}/cac:PartyIdentification]
id cbc:ID
scheme cbc:ID/@schemeID
[BT-31 {_SELLER}/cac:PartyTaxScheme]
id cbc:CompanyID
scheme cac:TaxScheme/cbc:ID
[BT-46 {_BUYER}/cac:PartyIdentification]
id cbc:ID
scheme cbc:ID/@schemeID
[BT-48 {_BUYER}/cac:PartyTaxScheme]
id cbc:CompanyID
scheme cac:TaxScheme/cbc:ID
[BT-60 cac:PayeeParty/cac:PartyIdentification]
id cbc:ID
scheme cbc:ID/@schemeID
[BT-63 cac:TaxRepresentativeParty/cac:PartyTaxScheme]
id cbc:CompanyID
scheme cac:TaxScheme/cbc:ID
[BG-16 cac:PaymentMeans]
BT-81 cbc:PaymentMeansCode
BT-82 cbc:PaymentMeansCode/@name
BT-9 cbc:PaymentDueDate
BT-83 cbc:PaymentID
BT-87 cac:CardAccount/cbc:PrimaryAccountNumberID
BT-88 cac:CardAccount/cbc:HolderName
BT-84 cac:PayeeFinancialAccount/cbc:ID
BT-85 cac:PayeeFinancialAccount/cbc:Name
BT-86 cac:PayeeFinancialAccount/cac:FinancialInstitutionBranch/cbc:ID
BT-89 cac:PaymentMandate/cbc:ID
BT-91 cac:PaymentMandate/cac:PayerFinancialAccount/cbc:ID
[terms cac:PaymentTerms]
BT-20~ cbc:Note
[BG-20 cac:AllowanceCharge]
is_charge cbc:ChargeIndicator
BT-98 cbc:AllowanceChargeReasonCode
BT-97 cbc:AllowanceChargeReason
BT-94 cbc:MultiplierFactorNumeric
BT-92 cbc:Amount
BT-93 cbc:BaseAmount
BT-95 cac:TaxCategory/cbc:ID
BT-96 cac:TaxCategory/cbc:Percent
[BT-110 cac:TaxTotal]
amount cbc:TaxAmount
currency cbc:TaxAmount/@currencyID
[BT-110/BG-23 cac:TaxSubtotal]
BT-116 cbc:TaxableAmount
BT-117 cbc:TaxAmount
BT-118 cac:TaxCategory/cbc:ID
BT-119 cac:TaxCategory/cbc:Percent
BT-121 cac:TaxCategory/cbc:TaxExemptionReasonCode
BT-120 cac:TaxCategory/cbc:TaxExemptionReason
[BG-25 cac:InvoiceLine]
BT-126 cbc:ID
BT-127 cbc:Note
BT-129 cbc:InvoicedQuantity
BT-130 cbc:InvoicedQuantity/@unitCode
BT-131 cbc:LineExtensionAmount
BT-133 cbc:AccountingCost
BT-134 cac:InvoicePeriod/cbc:StartDate
BT-135 cac:InvoicePeriod/cbc:EndDate
BT-132 cac:OrderLineReference/cbc:LineID
BT-154 cac:Item/cbc:Description
BT-153 cac:Item/cbc:Name
BT-156 cac:Item/cac:BuyersItemIdentification/cbc:ID
BT-155 cac:Item/cac:SellersItemIdentification/cbc:ID
BT-157 cac:Item/cac:StandardItemIdentification/cbc:ID
BT-157s cac:Item/cac:StandardItemIdentification/cbc:ID/@schemeID
BT-151 cac:Item/cac:ClassifiedTaxCategory/cbc:ID
BT-152 cac:Item/cac:ClassifiedTaxCategory/cbc:Percent
BT-146 cac:Price/cbc:PriceAmount
BT-149 cac:Price/cbc:BaseQuantity
BT-150 cac:Price/cbc:BaseQuantity/@unitCode
BT-147 cac:Price/cac:AllowanceCharge/cbc:Amount
BT-148 cac:Price/cac:AllowanceCharge/cbc:BaseAmount
[BG-25/BG-32 cac:Item/cac:AdditionalItemProperty]
BT-160 cbc:Name
BT-161 cbc:Value
[BG-25/BG-27 cac:AllowanceCharge]
is_charge cbc:ChargeIndicator
BT-140 cbc:AllowanceChargeReasonCode
BT-139 cbc:AllowanceChargeReason
BT-138 cbc:MultiplierFactorNumeric
BT-136 cbc:Amount
BT-137 cbc:BaseAmount
"""
INVOICE = Syntax("ubl:Invoice", {"ubl": INVOICE_NAMESPACE} | COMMON, _HEAD)
CREDIT_NOTE = Syntax(
    "ubl:CreditNote",
    {"ubl": CREDIT_NOTE_NAMESPACE} | COMMON,
    _HEAD,
    (
        ("cbc:InvoiceTypeCode", "cbc:CreditNoteTypeCode"),
        ("cac:InvoiceLine", "cac:CreditNoteLine"),
        ("cbc:InvoicedQuantity", "cbc:CreditedQuantity"),
    ),
)


# An invoice as EN 16931 XML in UBL 2.1: an Invoice, or a CreditNote if it takes an amount back.
#
# Comments give the terms of the standard (BT-…) where a name does not say it. Amounts are written as the invoice has
# them.


PROCESS = "urn:fdc:peppol.eu:2017:poacc:billing:01:1.0"


def write(invoice: Invoice, specification: str) -> bytes:
    """Returns the XML, which declares this specification (BT-24)."""
    is_credit = invoice.is_credit_note
    name = "CreditNote" if is_credit else "Invoice"
    namespaces = {"ubl": CREDIT_NOTE_NAMESPACE if is_credit else INVOICE_NAMESPACE} | COMMON
    declarations = "".join(f' xmlns:{prefix}="{uri}"' for prefix, uri in namespaces.items())
    content = _Writer(invoice).content(specification)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<ubl:{name}{declarations}>{content}</ubl:{name}>\n'.encode()


def _day(name: str, day: date | None) -> str:
    return _element(name, day.isoformat() if day else None)


def _number(name: str, value: Decimal | None, **attributes: str) -> str:
    return "" if value is None else _element(name, f"{value:f}", **attributes)


def _identified(name: str, identifier: Identifier | None) -> str:
    if identifier is None:
        return ""
    return _element(name, identifier.value, **({"schemeID": identifier.scheme} if identifier.scheme else {}))


def _unit(code: str | None) -> dict[str, str]:
    return {"unitCode": code} if code else {}


def _period(period: Period | None, code: str | None = None) -> str:
    first, last = period or (None, None)
    return _group(
        "cac:InvoicePeriod",
        _day("cbc:StartDate", first),
        _day("cbc:EndDate", last),
        _element("cbc:DescriptionCode", code),  # BT-8
    )


def _write_address(name: str, address: Address | None) -> str:
    if address is None:
        return ""
    return _group(
        name,
        _element("cbc:StreetName", address.street),
        _element("cbc:AdditionalStreetName", address.street_2),
        _element("cbc:CityName", address.city),
        _element("cbc:PostalZone", address.postal_code),
        _element("cbc:CountrySubentity", address.region),
        _group("cac:AddressLine", _element("cbc:Line", address.street_3)),
        _group("cac:Country", _element("cbc:IdentificationCode", address.country_code)),
    )


def _tax_scheme(number: str | None, scheme: str) -> str:
    if not number:
        return ""
    return _group(
        "cac:PartyTaxScheme", _element("cbc:CompanyID", number), _group("cac:TaxScheme", _element("cbc:ID", scheme))
    )


def _identification(identifier: Identifier | None) -> str:
    return _group("cac:PartyIdentification", _identified("cbc:ID", identifier))


def _referenced(name: str, number: str | None) -> str:
    return _group(name, _element("cbc:ID", number))


class _Writer:
    """Amounts name the currency of the invoice each time, so it is kept here."""

    def __init__(self, invoice: Invoice) -> None:
        self._invoice = invoice
        self._kind = "CreditNote" if invoice.is_credit_note else "Invoice"

    def _amount(self, name: str, minor: int | None) -> str:
        return "" if minor is None else _element(name, amount_text(minor), currencyID=self._invoice.currency)

    def _price(self, name: str, value: Decimal | None) -> str:
        return _number(name, value, currencyID=self._invoice.currency)

    def content(self, specification: str) -> str:
        invoice = self._invoice
        return "".join(
            (
                self._head(specification),
                self._parties(),
                self._delivery(invoice.delivery or Delivery()),
                *self._payment_means(invoice.payment),
                _group("cac:PaymentTerms", _element("cbc:Note", invoice.payment.terms)),
                *(self._allowance_charge(item, "cac:TaxCategory") for item in invoice.allowances_charges),
                *self._vat(invoice.totals),
                self._totals(invoice.totals),
                *map(self._line, invoice.lines),
            )
        )

    def _head(self, specification: str) -> str:
        invoice, references, is_credit = self._invoice, self._invoice.references, self._invoice.is_credit_note
        return "".join(
            (
                _element("cbc:CustomizationID", specification),
                _element("cbc:ProfileID", PROCESS),
                _element("cbc:ID", invoice.number),
                _day("cbc:IssueDate", invoice.issued_on),
                "" if is_credit else _day("cbc:DueDate", invoice.payment.due_on),
                # The order of the two differs between the documents.
                _day("cbc:TaxPointDate", invoice.vat_point_on) if is_credit else "",
                _element(f"cbc:{self._kind}TypeCode", str(invoice.type_code or "")),
                *(_element("cbc:Note", note.text) for note in invoice.notes),
                "" if is_credit else _day("cbc:TaxPointDate", invoice.vat_point_on),
                _element("cbc:DocumentCurrencyCode", invoice.currency),
                _element("cbc:TaxCurrencyCode", invoice.vat_currency),
                _element("cbc:AccountingCost", references.accounting),
                _element("cbc:BuyerReference", invoice.buyer_reference),
                _period(invoice.period, invoice.vat_point_code),
                _group("cac:OrderReference", _element("cbc:ID", references.order), _element("cbc:SalesOrderID", references.sales_order)),
                *(
                    _group("cac:BillingReference", _group("cac:InvoiceDocumentReference", _element("cbc:ID", item.number),
                                                          _day("cbc:IssueDate", item.issued_on)))
                    for item in invoice.preceding
                ),
                _referenced("cac:DespatchDocumentReference", references.despatch),
                _referenced("cac:ReceiptDocumentReference", references.receipt),
                "" if is_credit else _referenced("cac:OriginatorDocumentReference", references.tender),
                _referenced("cac:ContractDocumentReference", references.contract),
                *map(self._attachment, invoice.attachments),
                self._object(references.object),
                _referenced("cac:OriginatorDocumentReference", references.tender) if is_credit else "",
                "" if is_credit else _referenced("cac:ProjectReference", references.project),
            )
        )  # fmt: skip

    def _object(self, identifier: Identifier | None) -> str:
        return _group(
            "cac:AdditionalDocumentReference",
            _identified("cbc:ID", identifier),
            _element("cbc:DocumentTypeCode", "130" if identifier else None),
        )

    def _attachment(self, attachment: Attachment) -> str:
        content = b64encode(attachment.content).decode() if attachment.content else None
        names = {"mimeCode": attachment.media_type or "", "filename": attachment.name or ""}
        return _group(
            "cac:AdditionalDocumentReference",
            _element("cbc:ID", attachment.id),
            _element("cbc:DocumentDescription", attachment.description),
            _group(
                "cac:Attachment",
                _element("cbc:EmbeddedDocumentBinaryObject", content, **names),
                _group("cac:ExternalReference", _element("cbc:URI", attachment.uri)),
            ),
        )

    def _parties(self) -> str:
        invoice = self._invoice
        debit, payee, representative = invoice.payment.direct_debit, invoice.payee, invoice.tax_representative
        creditor = Identifier(debit.creditor_id, "SEPA") if debit and debit.creditor_id else None
        written = _group("cac:AccountingSupplierParty", self._party(invoice.seller, None if payee else creditor))
        written += _group("cac:AccountingCustomerParty", self._party(invoice.buyer, None))
        if payee:
            written += _group(
                "cac:PayeeParty",
                _identification(payee.id),
                _identification(creditor),
                _group("cac:PartyName", _element("cbc:Name", payee.name)),
                _group("cac:PartyLegalEntity", _identified("cbc:CompanyID", payee.registration)),
            )
        if representative:
            written += _group(
                "cac:TaxRepresentativeParty",
                _group("cac:PartyName", _element("cbc:Name", representative.name)),
                _write_address("cac:PostalAddress", representative.address),
                _tax_scheme(representative.vat_id, "VAT"),
            )
        return written

    def _party(self, party: Party, creditor: Identifier | None) -> str:
        scheme, endpoint = party.electronic_address or ("", None)
        contact = party.contact
        return _group(
            "cac:Party",
            _element("cbc:EndpointID", endpoint, schemeID=scheme),
            _identification(Identifier(party.id) if party.id else None),
            _identification(party.global_id),
            _identification(creditor),  # BT-90
            _group("cac:PartyName", _element("cbc:Name", party.trading_name)),
            _write_address("cac:PostalAddress", party.address),
            _tax_scheme(party.vat_id, "VAT"),
            _tax_scheme(party.tax_number, "FC"),
            _group(
                "cac:PartyLegalEntity",
                _element("cbc:RegistrationName", party.name),
                _identified("cbc:CompanyID", party.registration),
                _element("cbc:CompanyLegalForm", party.legal_information),
            ),
            _group(
                "cac:Contact",
                _element("cbc:Name", contact.name),
                _element("cbc:Telephone", contact.phone),
                _element("cbc:ElectronicMail", contact.email),
            )
            if contact
            else "",
        )

    def _delivery(self, delivery: Delivery) -> str:
        return _group(
            "cac:Delivery",
            _day("cbc:ActualDeliveryDate", self._invoice.delivered_on),
            _group(
                "cac:DeliveryLocation",
                _identified("cbc:ID", delivery.location),
                _write_address("cac:Address", delivery.address),
            ),
            _group("cac:DeliveryParty", _group("cac:PartyName", _element("cbc:Name", delivery.name))),
        )

    def _payment_means(self, payment: Payment) -> list[str]:
        """One group for each account; there is one as well if there is none."""
        card, debit = payment.card, payment.direct_debit
        name = {"name": payment.means_text} if payment.means_text else {}
        head = _day("cbc:PaymentDueDate", payment.due_on) if self._invoice.is_credit_note else ""
        head += _element("cbc:PaymentID", payment.reference)
        if card:
            head += _group(
                "cac:CardAccount",
                _element("cbc:PrimaryAccountNumberID", card.number),
                _element("cbc:NetworkID", "not stated"),  # must be there, and the standard does not know it
                _element("cbc:HolderName", card.holder),
            )
        mandate = _group(
            "cac:PaymentMandate",
            _element("cbc:ID", debit.mandate),
            _group("cac:PayerFinancialAccount", _element("cbc:ID", debit.iban)),
        ) if debit else ""  # fmt: skip
        accounts = [
            _group(
                "cac:PayeeFinancialAccount",
                _element("cbc:ID", iban),
                _element("cbc:Name", account_name),
                _group("cac:FinancialInstitutionBranch", _element("cbc:ID", bic)),
            )
            for iban, account_name, bic in payment.transfers
        ]
        # The text of the means stands in the first only.
        codes = [_element("cbc:PaymentMeansCode", payment.means_code, **name)]
        codes += [_element("cbc:PaymentMeansCode", payment.means_code)] * len(accounts)
        return [
            _group("cac:PaymentMeans", code, head, account, mandate)
            for code, account in zip(codes, accounts or [""], strict=False)
        ]

    def _category(self, name: str, category: str | None, rate: Decimal | None, *reasons: str) -> str:
        return _group(
            name,
            _element("cbc:ID", category),
            _number("cbc:Percent", rate),
            *reasons,
            _group("cac:TaxScheme", _element("cbc:ID", "VAT")),
        )

    def _allowance_charge(self, item: AllowanceCharge, category: str = "") -> str:
        return _group(
            "cac:AllowanceCharge",
            _element("cbc:ChargeIndicator", str(item.is_charge).lower()),
            _element("cbc:AllowanceChargeReasonCode", item.reason_code),
            _element("cbc:AllowanceChargeReason", item.reason),
            _number("cbc:MultiplierFactorNumeric", item.percent),
            self._amount("cbc:Amount", item.amount_minor),
            self._amount("cbc:BaseAmount", item.base_minor),
            self._category(category, item.vat_category, item.vat_rate) if category and item.vat_category else "",
        )

    def _vat(self, totals: Totals) -> list[str]:
        accounting = totals.vat_accounting_minor
        own = _group(
            "cac:TaxTotal",
            self._amount("cbc:TaxAmount", totals.vat_minor),
            *map(self._vat_breakdown, self._invoice.vat_breakdown),
        )
        currency = self._invoice.vat_currency or ""
        other = "" if accounting is None else _element("cbc:TaxAmount", amount_text(accounting), currencyID=currency)
        return [own, _group("cac:TaxTotal", other)]

    def _vat_breakdown(self, item: VatBreakdown) -> str:
        return _group(
            "cac:TaxSubtotal",
            self._amount("cbc:TaxableAmount", item.net_minor),
            self._amount("cbc:TaxAmount", item.vat_minor),
            self._category(
                "cac:TaxCategory",
                item.category,
                item.rate,
                _element("cbc:TaxExemptionReasonCode", item.exemption_code),
                _element("cbc:TaxExemptionReason", item.exemption_reason),
            ),
        )

    def _totals(self, totals: Totals) -> str:
        return _group(
            "cac:LegalMonetaryTotal",
            self._amount("cbc:LineExtensionAmount", totals.lines_minor),
            self._amount("cbc:TaxExclusiveAmount", totals.net_minor),
            self._amount("cbc:TaxInclusiveAmount", totals.gross_minor),
            self._amount("cbc:AllowanceTotalAmount", totals.allowances_minor),
            self._amount("cbc:ChargeTotalAmount", totals.charges_minor),
            self._amount("cbc:PrepaidAmount", totals.prepaid_minor),
            self._amount("cbc:PayableRoundingAmount", totals.rounding_minor or None),
            self._amount("cbc:PayableAmount", totals.due_minor),
        )

    def _line(self, line: Line) -> str:
        quantity = "CreditedQuantity" if self._invoice.is_credit_note else "InvoicedQuantity"
        return _group(
            f"cac:{self._kind}Line",
            _element("cbc:ID", line.id),
            _element("cbc:Note", line.note),
            _number(f"cbc:{quantity}", line.quantity, **_unit(line.unit_code)),
            self._amount("cbc:LineExtensionAmount", line.net_minor),
            _element("cbc:AccountingCost", line.accounting_reference),
            _period(line.period),
            _group("cac:OrderLineReference", _element("cbc:LineID", line.order_line)),
            *map(self._allowance_charge, line.allowances_charges),
            self._item(line),
            _group(
                "cac:Price",
                self._price("cbc:PriceAmount", line.net_price),
                _number("cbc:BaseQuantity", line.base_quantity, **_unit(line.base_unit)),
                self._discounted(line),
            ),
        )

    def _discounted(self, line: Line) -> str:
        if line.gross_price is None:
            return ""
        return _group(
            "cac:AllowanceCharge",
            _element("cbc:ChargeIndicator", "false"),
            self._price("cbc:Amount", line.price_discount),
            self._price("cbc:BaseAmount", line.gross_price),
        )

    def _item(self, line: Line) -> str:
        return _group(
            "cac:Item",
            _element("cbc:Description", line.description),
            _element("cbc:Name", line.name),
            _referenced("cac:BuyersItemIdentification", line.buyer_item),
            _referenced("cac:SellersItemIdentification", line.seller_item),
            _group("cac:StandardItemIdentification", _identified("cbc:ID", line.standard_item)),
            self._category("cac:ClassifiedTaxCategory", line.vat_category, line.vat_rate),
            *(
                _group("cac:AdditionalItemProperty", _element("cbc:Name", name), _element("cbc:Value", value))
                for name, value in line.attributes
            ),
        )
