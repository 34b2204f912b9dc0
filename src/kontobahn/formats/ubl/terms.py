"""The terms of EN 16931 and their places in UBL 2.1, for an invoice and for a credit note."""

from __future__ import annotations

from kontobahn.formats.invoices.source import Syntax

_OASIS = "urn:oasis:names:specification:ubl:schema:xsd:"
COMMON = {"cac": f"{_OASIS}CommonAggregateComponents-2", "cbc": f"{_OASIS}CommonBasicComponents-2"}
INVOICE_NAMESPACE, CREDIT_NOTE_NAMESPACE = f"{_OASIS}Invoice-2", f"{_OASIS}CreditNote-2"


def _address(path: str, terms: str) -> str:
    places = (
        "cbc:StreetName", "cbc:AdditionalStreetName", "cac:AddressLine/cbc:Line", "cbc:CityName", "cbc:PostalZone",
        "cbc:CountrySubentity", "cac:Country/cbc:IdentificationCode",
    )  # fmt: skip
    return "\n".join(f"{term} {path}/{place}" for term, place in zip(terms.split(), places, strict=True))


_SELLER, _BUYER = "cac:AccountingSupplierParty/cac:Party", "cac:AccountingCustomerParty/cac:Party"
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
BT-34 {_SELLER}/cbc:EndpointID
BT-34s {_SELLER}/cbc:EndpointID/@schemeID
BT-28 {_SELLER}/cac:PartyName/cbc:Name
{_address(f"{_SELLER}/cac:PostalAddress", "BT-35 BT-36 BT-162 BT-37 BT-38 BT-39 BT-40")}
BT-27 {_SELLER}/cac:PartyLegalEntity/cbc:RegistrationName
BT-30 {_SELLER}/cac:PartyLegalEntity/cbc:CompanyID
BT-30s {_SELLER}/cac:PartyLegalEntity/cbc:CompanyID/@schemeID
BT-33 {_SELLER}/cac:PartyLegalEntity/cbc:CompanyLegalForm
BT-41 {_SELLER}/cac:Contact/cbc:Name
BT-42 {_SELLER}/cac:Contact/cbc:Telephone
BT-43 {_SELLER}/cac:Contact/cbc:ElectronicMail
BT-49 {_BUYER}/cbc:EndpointID
BT-49s {_BUYER}/cbc:EndpointID/@schemeID
BT-45 {_BUYER}/cac:PartyName/cbc:Name
{_address(f"{_BUYER}/cac:PostalAddress", "BT-50 BT-51 BT-163 BT-52 BT-53 BT-54 BT-55")}
BT-44 {_BUYER}/cac:PartyLegalEntity/cbc:RegistrationName
BT-47 {_BUYER}/cac:PartyLegalEntity/cbc:CompanyID
BT-47s {_BUYER}/cac:PartyLegalEntity/cbc:CompanyID/@schemeID
BT-56 {_BUYER}/cac:Contact/cbc:Name
BT-57 {_BUYER}/cac:Contact/cbc:Telephone
BT-58 {_BUYER}/cac:Contact/cbc:ElectronicMail
BT-59 cac:PayeeParty/cac:PartyName/cbc:Name
BT-61 cac:PayeeParty/cac:PartyLegalEntity/cbc:CompanyID
BT-61s cac:PayeeParty/cac:PartyLegalEntity/cbc:CompanyID/@schemeID
BT-62 cac:TaxRepresentativeParty/cac:PartyName/cbc:Name
{_address("cac:TaxRepresentativeParty/cac:PostalAddress", "BT-64 BT-65 BT-164 BT-66 BT-67 BT-68 BT-69")}
BT-72 cac:Delivery/cbc:ActualDeliveryDate
BT-71g {_PLACE}/cbc:ID
BT-71s {_PLACE}/cbc:ID/@schemeID
{_address(f"{_PLACE}/cac:Address", "BT-75 BT-76 BT-165 BT-77 BT-78 BT-79 BT-80")}
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
