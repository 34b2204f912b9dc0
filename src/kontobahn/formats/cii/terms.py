"""The terms of EN 16931 and their places in CII, and in ZUGFeRD 1.0, which has other names for some elements."""

from __future__ import annotations

from kontobahn.formats.invoices.source import Syntax

_UN = "urn:un:unece:uncefact:data:standard:"
NAMESPACES = {
    "rsm": f"{_UN}CrossIndustryInvoice:100",
    "ram": f"{_UN}ReusableAggregateBusinessInformationEntity:100",
    "qdt": f"{_UN}QualifiedDataType:100",
    "udt": f"{_UN}UnqualifiedDataType:100",
}
_NAMESPACES_1 = {
    "rsm": "urn:ferd:CrossIndustryDocument:invoice:1p0",
    "ram": f"{_UN}ReusableAggregateBusinessInformationEntity:12",
    "qdt": f"{_UN}QualifiedDataType:12",
    "udt": f"{_UN}UnqualifiedDataType:15",
}
_TRADE = "rsm:SupplyChainTradeTransaction"
_AGREEMENT, _DELIVERY = f"{_TRADE}/ram:ApplicableHeaderTradeAgreement", f"{_TRADE}/ram:ApplicableHeaderTradeDelivery"
_SETTLEMENT = f"{_TRADE}/ram:ApplicableHeaderTradeSettlement"
_SUMS = f"{_SETTLEMENT}/ram:SpecifiedTradeSettlementHeaderMonetarySummation"
_DATE = "udt:DateTimeString"


def _party(path: str, terms: str) -> str:
    """Lines for a party; `terms` has the numbers of its terms in the order of the places, and - for those it does not have."""
    places = (
        "ram:Name", "ram:ID", "ram:GlobalID", "ram:GlobalID/@schemeID", "ram:Description",
        "ram:SpecifiedLegalOrganization/ram:ID", "ram:SpecifiedLegalOrganization/ram:ID/@schemeID",
        "ram:SpecifiedLegalOrganization/ram:TradingBusinessName",
        "ram:DefinedTradeContact/ram:PersonName", "ram:DefinedTradeContact/ram:DepartmentName",
        "ram:DefinedTradeContact/ram:TelephoneUniversalCommunication/ram:CompleteNumber",
        "ram:DefinedTradeContact/ram:EmailURIUniversalCommunication/ram:URIID",
        "ram:PostalTradeAddress/ram:LineOne", "ram:PostalTradeAddress/ram:LineTwo", "ram:PostalTradeAddress/ram:LineThree",
        "ram:PostalTradeAddress/ram:CityName", "ram:PostalTradeAddress/ram:PostcodeCode",
        "ram:PostalTradeAddress/ram:CountrySubDivisionName", "ram:PostalTradeAddress/ram:CountryID",
        "ram:URIUniversalCommunication/ram:URIID", "ram:URIUniversalCommunication/ram:URIID/@schemeID",
    )  # fmt: skip
    named = [(term, place) for term, place in zip(terms.split(), places, strict=True) if term != "-"]
    return "\n".join(f"{term} {path}/{place}" for term, place in named)


_SELLER = _party(
    f"{_AGREEMENT}/ram:SellerTradeParty",
    "BT-27 BT-29 BT-29g BT-29s BT-33 BT-30 BT-30s BT-28 BT-41 BT-41d "
    "BT-42 BT-43 BT-35 BT-36 BT-162 BT-37 BT-38 BT-39 BT-40 BT-34 BT-34s",
)
_BUYER = _party(
    f"{_AGREEMENT}/ram:BuyerTradeParty",
    "BT-44 BT-46 BT-46g BT-46s - BT-47 BT-47s BT-45 BT-56 BT-56d "
    "BT-57 BT-58 BT-50 BT-51 BT-163 BT-52 BT-53 BT-54 BT-55 BT-49 BT-49s",
)
_REPRESENTATIVE = _party(
    f"{_AGREEMENT}/ram:SellerTaxRepresentativeTradeParty",
    "BT-62 - - - - - - - - - - - BT-64 BT-65 BT-164 BT-66 BT-67 BT-68 BT-69 - -",
)
_SHIP_TO = _party(
    f"{_DELIVERY}/ram:ShipToTradeParty",
    "BT-70 BT-71 BT-71g BT-71s - - - - - - - - BT-75 BT-76 BT-165 BT-77 BT-78 BT-79 BT-80 - -",
)
_HEAD = f"""
BT-23 rsm:ExchangedDocumentContext/ram:BusinessProcessSpecifiedDocumentContextParameter/ram:ID
BT-24 rsm:ExchangedDocumentContext/ram:GuidelineSpecifiedDocumentContextParameter/ram:ID
BT-1 rsm:ExchangedDocument/ram:ID
BT-3 rsm:ExchangedDocument/ram:TypeCode
BT-2 rsm:ExchangedDocument/ram:IssueDateTime/{_DATE}
BT-10 {_AGREEMENT}/ram:BuyerReference
{_SELLER}
{_BUYER}
{_REPRESENTATIVE}
BT-14 {_AGREEMENT}/ram:SellerOrderReferencedDocument/ram:IssuerAssignedID
BT-13 {_AGREEMENT}/ram:BuyerOrderReferencedDocument/ram:IssuerAssignedID
BT-12 {_AGREEMENT}/ram:ContractReferencedDocument/ram:IssuerAssignedID
BT-11 {_AGREEMENT}/ram:SpecifiedProcuringProject/ram:ID
{_SHIP_TO}
BT-72 {_DELIVERY}/ram:ActualDeliverySupplyChainEvent/ram:OccurrenceDateTime/{_DATE}
BT-16 {_DELIVERY}/ram:DespatchAdviceReferencedDocument/ram:IssuerAssignedID
BT-15 {_DELIVERY}/ram:ReceivingAdviceReferencedDocument/ram:IssuerAssignedID
BT-90 {_SETTLEMENT}/ram:CreditorReferenceID
BT-83 {_SETTLEMENT}/ram:PaymentReference
BT-6 {_SETTLEMENT}/ram:TaxCurrencyCode
BT-5 {_SETTLEMENT}/ram:InvoiceCurrencyCode
BT-59 {_SETTLEMENT}/ram:PayeeTradeParty/ram:Name
BT-60 {_SETTLEMENT}/ram:PayeeTradeParty/ram:ID
BT-60g {_SETTLEMENT}/ram:PayeeTradeParty/ram:GlobalID
BT-60s {_SETTLEMENT}/ram:PayeeTradeParty/ram:GlobalID/@schemeID
BT-61 {_SETTLEMENT}/ram:PayeeTradeParty/ram:SpecifiedLegalOrganization/ram:ID
BT-61s {_SETTLEMENT}/ram:PayeeTradeParty/ram:SpecifiedLegalOrganization/ram:ID/@schemeID
BT-73 {_SETTLEMENT}/ram:BillingSpecifiedPeriod/ram:StartDateTime/{_DATE}
BT-74 {_SETTLEMENT}/ram:BillingSpecifiedPeriod/ram:EndDateTime/{_DATE}
BT-19 {_SETTLEMENT}/ram:ReceivableSpecifiedTradeAccountingAccount/ram:ID
BT-106 {_SUMS}/ram:LineTotalAmount
BT-108 {_SUMS}/ram:ChargeTotalAmount
BT-107 {_SUMS}/ram:AllowanceTotalAmount
BT-109 {_SUMS}/ram:TaxBasisTotalAmount
BT-114 {_SUMS}/ram:RoundingAmount
BT-112 {_SUMS}/ram:GrandTotalAmount
BT-113 {_SUMS}/ram:TotalPrepaidAmount
BT-115 {_SUMS}/ram:DuePayableAmount
[BT-110 {_SUMS}/ram:TaxTotalAmount]
amount .
currency @currencyID
[BG-1 rsm:ExchangedDocument/ram:IncludedNote]
BT-22 ram:Content
BT-21 ram:SubjectCode
[BT-31 {_AGREEMENT}/ram:SellerTradeParty/ram:SpecifiedTaxRegistration]
id ram:ID
scheme ram:ID/@schemeID
[BT-48 {_AGREEMENT}/ram:BuyerTradeParty/ram:SpecifiedTaxRegistration]
id ram:ID
scheme ram:ID/@schemeID
[BT-63 {_AGREEMENT}/ram:SellerTaxRepresentativeTradeParty/ram:SpecifiedTaxRegistration]
id ram:ID
scheme ram:ID/@schemeID
[BG-24 {_AGREEMENT}/ram:AdditionalReferencedDocument]
BT-122 ram:IssuerAssignedID
BT-124 ram:URIID
type ram:TypeCode
BT-123 ram:Name
BT-125 ram:AttachmentBinaryObject
BT-125m ram:AttachmentBinaryObject/@mimeCode
BT-125f ram:AttachmentBinaryObject/@filename
BT-18s ram:ReferenceTypeCode
[BG-16 {_SETTLEMENT}/ram:SpecifiedTradeSettlementPaymentMeans]
BT-81 ram:TypeCode
BT-82 ram:Information
BT-87 ram:ApplicableTradeSettlementFinancialCard/ram:ID
BT-88 ram:ApplicableTradeSettlementFinancialCard/ram:CardholderName
BT-91 ram:PayerPartyDebtorFinancialAccount/ram:IBANID
BT-84 ram:PayeePartyCreditorFinancialAccount/ram:IBANID
BT-84p ram:PayeePartyCreditorFinancialAccount/ram:ProprietaryID
BT-85 ram:PayeePartyCreditorFinancialAccount/ram:AccountName
BT-86 ram:PayeeSpecifiedCreditorFinancialInstitution/ram:BICID
[BG-23 {_SETTLEMENT}/ram:ApplicableTradeTax]
BT-117 ram:CalculatedAmount
BT-120 ram:ExemptionReason
BT-116 ram:BasisAmount
BT-118 ram:CategoryCode
BT-121 ram:ExemptionReasonCode
BT-7 ram:TaxPointDate/udt:DateString
BT-8 ram:DueDateTypeCode
BT-119 ram:RateApplicablePercent
[BG-20 {_SETTLEMENT}/ram:SpecifiedTradeAllowanceCharge]
is_charge ram:ChargeIndicator/udt:Indicator
BT-94 ram:CalculationPercent
BT-93 ram:BasisAmount
BT-92 ram:ActualAmount
BT-98 ram:ReasonCode
BT-97 ram:Reason
BT-95 ram:CategoryTradeTax/ram:CategoryCode
BT-96 ram:CategoryTradeTax/ram:RateApplicablePercent
[freight {_SETTLEMENT}/ram:SpecifiedLogisticsServiceCharge]
BT-97 ram:Description
BT-92 ram:AppliedAmount
BT-95 ram:AppliedTradeTax/ram:CategoryCode
BT-96 ram:AppliedTradeTax/ram:RateApplicablePercent
[terms {_SETTLEMENT}/ram:SpecifiedTradePaymentTerms]
BT-20~ ram:Description
BT-9 ram:DueDateDateTime/{_DATE}
BT-89 ram:DirectDebitMandateID
[terms/discount ram:ApplicableTradePaymentDiscountTerms]
from ram:BasisDateTime/{_DATE}
days ram:BasisPeriodMeasure
unit ram:BasisPeriodMeasure/@unitCode
base ram:BasisAmount
percent ram:CalculationPercent
amount ram:ActualDiscountAmount
[BG-3 {_SETTLEMENT}/ram:InvoiceReferencedDocument]
BT-25 ram:IssuerAssignedID
BT-26 ram:FormattedIssueDateTime/qdt:DateTimeString
"""
_PRODUCT, _PRICE = "ram:SpecifiedTradeProduct", "ram:SpecifiedLineTradeAgreement"
_LINE_SETTLEMENT = "ram:SpecifiedLineTradeSettlement"
_LINE = f"""
[BG-25 {_TRADE}/ram:IncludedSupplyChainTradeLineItem]
BT-126 ram:AssociatedDocumentLineDocument/ram:LineID
parent ram:AssociatedDocumentLineDocument/ram:ParentLineID
kind ram:AssociatedDocumentLineDocument/ram:LineStatusReasonCode
BT-127 ram:AssociatedDocumentLineDocument/ram:IncludedNote/ram:Content
BT-157 {_PRODUCT}/ram:GlobalID
BT-157s {_PRODUCT}/ram:GlobalID/@schemeID
BT-155 {_PRODUCT}/ram:SellerAssignedID
BT-156 {_PRODUCT}/ram:BuyerAssignedID
BT-153 {_PRODUCT}/ram:Name
BT-154 {_PRODUCT}/ram:Description
BT-132 {_PRICE}/ram:BuyerOrderReferencedDocument/ram:LineID
BT-148 {_PRICE}/ram:GrossPriceProductTradePrice/ram:ChargeAmount
BT-149g {_PRICE}/ram:GrossPriceProductTradePrice/ram:BasisQuantity
BT-150g {_PRICE}/ram:GrossPriceProductTradePrice/ram:BasisQuantity/@unitCode
BT-147 {_PRICE}/ram:GrossPriceProductTradePrice/ram:AppliedTradeAllowanceCharge/ram:ActualAmount
BT-146 {_PRICE}/ram:NetPriceProductTradePrice/ram:ChargeAmount
BT-149 {_PRICE}/ram:NetPriceProductTradePrice/ram:BasisQuantity
BT-150 {_PRICE}/ram:NetPriceProductTradePrice/ram:BasisQuantity/@unitCode
BT-129 ram:SpecifiedLineTradeDelivery/ram:BilledQuantity
BT-130 ram:SpecifiedLineTradeDelivery/ram:BilledQuantity/@unitCode
BT-151 {_LINE_SETTLEMENT}/ram:ApplicableTradeTax/ram:CategoryCode
BT-152 {_LINE_SETTLEMENT}/ram:ApplicableTradeTax/ram:RateApplicablePercent
BT-134 {_LINE_SETTLEMENT}/ram:BillingSpecifiedPeriod/ram:StartDateTime/{_DATE}
BT-135 {_LINE_SETTLEMENT}/ram:BillingSpecifiedPeriod/ram:EndDateTime/{_DATE}
BT-131 {_LINE_SETTLEMENT}/ram:SpecifiedTradeSettlementLineMonetarySummation/ram:LineTotalAmount
BT-133 {_LINE_SETTLEMENT}/ram:ReceivableSpecifiedTradeAccountingAccount/ram:ID
[BG-25/BG-32 {_PRODUCT}/ram:ApplicableProductCharacteristic]
BT-160 ram:Description
BT-161 ram:Value
[BG-25/BG-27 {_LINE_SETTLEMENT}/ram:SpecifiedTradeAllowanceCharge]
is_charge ram:ChargeIndicator/udt:Indicator
BT-138 ram:CalculationPercent
BT-137 ram:BasisAmount
BT-136 ram:ActualAmount
BT-140 ram:ReasonCode
BT-139 ram:Reason
"""
CII = Syntax("rsm:CrossIndustryInvoice", NAMESPACES, _HEAD + _LINE)
ZUGFERD_1 = Syntax(
    "rsm:CrossIndustryDocument",
    _NAMESPACES_1,
    # Numbers of documents are plain IDs there.
    (_HEAD + _LINE).replace("ram:IssuerAssignedID", "ram:ID"),
    (
        ("rsm:ExchangedDocumentContext", "rsm:SpecifiedExchangedDocumentContext"),
        ("rsm:ExchangedDocument", "rsm:HeaderExchangedDocument"),
        ("rsm:SupplyChainTradeTransaction", "rsm:SpecifiedSupplyChainTradeTransaction"),
        ("ram:ApplicableHeaderTradeAgreement", "ram:ApplicableSupplyChainTradeAgreement"),
        ("ram:ApplicableHeaderTradeDelivery", "ram:ApplicableSupplyChainTradeDelivery"),
        ("ram:ApplicableHeaderTradeSettlement", "ram:ApplicableSupplyChainTradeSettlement"),
        ("ram:SpecifiedLineTradeAgreement", "ram:SpecifiedSupplyChainTradeAgreement"),
        ("ram:SpecifiedLineTradeDelivery", "ram:SpecifiedSupplyChainTradeDelivery"),
        ("ram:SpecifiedLineTradeSettlement", "ram:SpecifiedSupplyChainTradeSettlement"),
        ("ram:SpecifiedTradeSettlementHeaderMonetarySummation", "ram:SpecifiedTradeSettlementMonetarySummation"),
        ("ram:SpecifiedTradeSettlementLineMonetarySummation", "ram:SpecifiedTradeSettlementMonetarySummation"),
        ("ram:RateApplicablePercent", "ram:ApplicablePercent"),
    ),
)
