"""Germany's own rules for an XRechnung (BR-DE-…), by number, and the Peppol rules that XRechnung 3.0 adopted. Pure.

They check the finished XML, as the receiver's validator does. Rules about cards and direct debits are included although the
invoices we issue use neither: a rule that is not checked may be broken unnoticed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import NamedTuple
from xml.etree import ElementTree

from kontobahn.formats.cii import GUIDELINES
from kontobahn.formats.cii.terms import NAMESPACES

_AGREEMENT = "rsm:SupplyChainTradeTransaction/ram:ApplicableHeaderTradeAgreement"
_SETTLEMENT = "rsm:SupplyChainTradeTransaction/ram:ApplicableHeaderTradeSettlement"
_LINE = "rsm:SupplyChainTradeTransaction/ram:IncludedSupplyChainTradeLineItem"
_SELLER, _BUYER = f"{_AGREEMENT}/ram:SellerTradeParty", f"{_AGREEMENT}/ram:BuyerTradeParty"
_CONTACT = f"{_SELLER}/ram:DefinedTradeContact"
_MEANS = f"{_SETTLEMENT}/ram:SpecifiedTradeSettlementPaymentMeans"
_SHIP_TO = (
    "rsm:SupplyChainTradeTransaction/ram:ApplicableHeaderTradeDelivery/ram:ShipToTradeParty/ram:PostalTradeAddress"
)
_MANDATE = f"{_SETTLEMENT}/ram:SpecifiedTradePaymentTerms/ram:DirectDebitMandateID"
_CREDITOR = f"{_SETTLEMENT}/ram:CreditorReferenceID"
_DEBTOR_IBAN = f"{_MEANS}/ram:PayerPartyDebtorFinancialAccount/ram:IBANID"
_TYPE_CODES = {"326", "380", "381", "384", "389", "875", "876", "877"}
_TRANSFERS, _CARDS, _DEBITS = {"30", "58"}, {"48", "54", "55"}, {"59"}
_SKONTO = re.compile(r"#SKONTO#TAGE=[0-9]+#PROZENT=[0-9]+\.[0-9]{2}(#BASISBETRAG=-?[0-9]+\.[0-9]{2})?#")
_EMAIL = re.compile(r"[^@\s]+@([^@.\s]+\.){1,100}[^@.\s]+")


class Violation(NamedTuple):
    rule: str
    sentence: str


class Xml:
    """An invoice in CII, queried by path."""

    def __init__(self, content: bytes) -> None:
        self.root = ElementTree.fromstring(content)

    def all(self, path: str) -> list[ElementTree.Element]:
        return self.root.findall(path, NAMESPACES)

    def texts(self, path: str) -> list[str]:
        return [text for element in self.all(path) if (text := " ".join((element.text or "").split()))]

    def text(self, path: str) -> str:
        return next(iter(self.texts(path)), "")

    def is_paid_by(self, codes: set[str]) -> bool:
        return bool(codes & set(self.texts(f"{_MEANS}/ram:TypeCode")))


Rule = Callable[[Xml], bool]
RULES: dict[str, tuple[str, Rule]] = {}


def rule(number: str, sentence: str) -> Callable[[Rule], Rule]:
    def register(holds: Rule) -> Rule:
        RULES[number] = (sentence, holds)
        return holds

    return register


def _require_text(number: str, sentence: str, path: str) -> None:
    RULES[number] = (sentence, lambda xml: bool(xml.texts(path)))


def violations(content: bytes) -> list[Violation]:
    """Returns the rules that this XML breaks, in the order of their numbers."""
    return list(_violations(Xml(content)))


def _violations(xml: Xml) -> Iterator[Violation]:
    for number, (sentence, holds) in RULES.items():
        if not holds(xml):
            yield Violation(number, sentence)


@rule("BR-DE-1", "payment instructions (BG-16) are missing")
def _payment_instructions(xml: Xml) -> bool:
    return bool(xml.all(_MEANS))


@rule("BR-DE-2", "the seller's contact (BG-6) is missing")
def _seller_contact(xml: Xml) -> bool:
    return bool(xml.all(_CONTACT))


_require_text("BR-DE-3", "the seller's city (BT-37) is missing", f"{_SELLER}/ram:PostalTradeAddress/ram:CityName")
_require_text(
    "BR-DE-4", "the seller's postal code (BT-38) is missing", f"{_SELLER}/ram:PostalTradeAddress/ram:PostcodeCode"
)


@rule("BR-DE-5", "the name of the seller's contact (BT-41) is missing")
def _contact_point(xml: Xml) -> bool:
    return bool(xml.texts(f"{_CONTACT}/ram:PersonName") or xml.texts(f"{_CONTACT}/ram:DepartmentName"))


_PHONE = f"{_CONTACT}/ram:TelephoneUniversalCommunication/ram:CompleteNumber"
_MAIL = f"{_CONTACT}/ram:EmailURIUniversalCommunication/ram:URIID"
_require_text("BR-DE-6", "the phone number of the seller's contact (BT-42) is missing", _PHONE)
_require_text("BR-DE-7", "the e-mail address of the seller's contact (BT-43) is missing", _MAIL)
_require_text("BR-DE-8", "the buyer's city (BT-52) is missing", f"{_BUYER}/ram:PostalTradeAddress/ram:CityName")
_require_text(
    "BR-DE-9", "the buyer's postal code (BT-53) is missing", f"{_BUYER}/ram:PostalTradeAddress/ram:PostcodeCode"
)


@rule("BR-DE-10", "the place of delivery has no city (BT-77)")
def _delivery_city(xml: Xml) -> bool:
    return not xml.all(_SHIP_TO) or bool(xml.texts(f"{_SHIP_TO}/ram:CityName"))


@rule("BR-DE-11", "the place of delivery has no postal code (BT-78)")
def _delivery_postal_code(xml: Xml) -> bool:
    return not xml.all(_SHIP_TO) or bool(xml.texts(f"{_SHIP_TO}/ram:PostcodeCode"))


@rule("BR-DE-14", "a VAT breakdown has no rate (BT-119)")
def _vat_rates(xml: Xml) -> bool:
    breakdowns = xml.all(f"{_SETTLEMENT}/ram:ApplicableTradeTax")
    return len(xml.texts(f"{_SETTLEMENT}/ram:ApplicableTradeTax/ram:RateApplicablePercent")) == len(breakdowns)


_require_text("BR-DE-15", "the buyer reference (BT-10) is missing", f"{_AGREEMENT}/ram:BuyerReference")


@rule("BR-DE-16", "the seller has neither a VAT id (BT-31) nor a tax number (BT-32)")
def _tax_registration(xml: Xml) -> bool:
    categories = set(
        xml.texts(f"{_LINE}/ram:SpecifiedLineTradeSettlement/ram:ApplicableTradeTax/ram:CategoryCode")
    ) | set(xml.texts(f"{_SETTLEMENT}/ram:SpecifiedTradeAllowanceCharge/ram:CategoryTradeTax/ram:CategoryCode"))
    if not categories & {"S", "Z", "E", "AE", "K", "G", "L", "M"}:
        return True
    registrations = xml.all(f"{_SELLER}/ram:SpecifiedTaxRegistration/ram:ID")
    is_registered = any(item.get("schemeID") in ("VA", "FC") and (item.text or "").strip() for item in registrations)
    return is_registered or bool(xml.all(f"{_AGREEMENT}/ram:SellerTaxRepresentativeTradeParty"))


@rule("BR-DE-17", "the type code (BT-3) is not one that XRechnung allows")
def _type_code(xml: Xml) -> bool:
    return xml.text("rsm:ExchangedDocument/ram:TypeCode") in _TYPE_CODES


@rule("BR-DE-18", "a line of the payment terms (BT-20) looks like a discount for early payment but is not a valid one")
def _discounts(xml: Xml) -> bool:
    for terms in xml.all(f"{_SETTLEMENT}/ram:SpecifiedTradePaymentTerms/ram:Description"):
        text = terms.text or ""
        lines = [line.strip() for line in text.splitlines() if line.strip().startswith("#")]
        if any(not _SKONTO.fullmatch(line) for line in lines) or (lines and not text.endswith("\n")):
            return False
    return True


@rule("BR-DE-19", "the account for a SEPA transfer (BT-84) is not a valid IBAN")
def _creditor_iban(xml: Xml) -> bool:
    return not xml.is_paid_by({"58"}) or _is_iban(
        xml.text(f"{_MEANS}/ram:PayeePartyCreditorFinancialAccount/ram:IBANID")
    )


@rule("BR-DE-20", "the account for a SEPA direct debit (BT-91) is not a valid IBAN")
def _debtor_iban(xml: Xml) -> bool:
    return not xml.is_paid_by(_DEBITS) or _is_iban(xml.text(_DEBTOR_IBAN))


@rule("BR-DE-21", "the specification (BT-24) is not XRechnung")
def _specification(xml: Xml) -> bool:
    guideline = "rsm:ExchangedDocumentContext/ram:GuidelineSpecifiedDocumentContextParameter/ram:ID"
    return xml.text(guideline) == GUIDELINES["xrechnung"]


@rule("BR-DE-22", "two attachments (BT-125) have the same file name")
def _attachment_names(xml: Xml) -> bool:
    attachments = xml.all(f"{_AGREEMENT}/ram:AdditionalReferencedDocument/ram:AttachmentBinaryObject")
    names = [item.get("filename") for item in attachments]
    return len(names) == len(set(names))


@rule("BR-DE-23-a", "a credit transfer has no account (BG-17)")
def _transfer_account(xml: Xml) -> bool:
    return not xml.is_paid_by(_TRANSFERS) or bool(xml.all(f"{_MEANS}/ram:PayeePartyCreditorFinancialAccount"))


@rule("BR-DE-23-b", "a credit transfer has a card or a direct debit beside it (BG-18, BG-19)")
def _transfer_alone(xml: Xml) -> bool:
    return not xml.is_paid_by(_TRANSFERS) or not (_has_card(xml) or _has_debit(xml))


@rule("BR-DE-24-a", "a card payment has no card (BG-18)")
def _card(xml: Xml) -> bool:
    return not xml.is_paid_by(_CARDS) or _has_card(xml)


@rule("BR-DE-24-b", "a card payment has a transfer or a direct debit beside it (BG-17, BG-19)")
def _card_alone(xml: Xml) -> bool:
    return not xml.is_paid_by(_CARDS) or not (_has_account(xml) or _has_debit(xml))


@rule("BR-DE-25-a", "a direct debit has no mandate (BG-19)")
def _debit(xml: Xml) -> bool:
    return not xml.is_paid_by(_DEBITS) or _has_debit(xml)


@rule("BR-DE-25-b", "a direct debit has a transfer or a card beside it (BG-17, BG-18)")
def _debit_alone(xml: Xml) -> bool:
    return not xml.is_paid_by(_DEBITS) or not (_has_account(xml) or _has_card(xml))


@rule("BR-DE-26", "a corrected invoice (384) names no preceding invoice (BG-3)")
def _preceding_invoice(xml: Xml) -> bool:
    is_corrected = xml.text("rsm:ExchangedDocument/ram:TypeCode") == "384"
    return not is_corrected or bool(xml.all(f"{_SETTLEMENT}/ram:InvoiceReferencedDocument"))


@rule("BR-DE-27", "the phone number of the seller's contact (BT-42) has fewer than three digits")
def _phone(xml: Xml) -> bool:
    return len(re.findall("[0-9]", xml.text(_PHONE))) >= 3


@rule("BR-DE-28", "the e-mail address of the seller's contact (BT-43) is not valid")
def _email(xml: Xml) -> bool:
    return _EMAIL.fullmatch(xml.text(_MAIL)) is not None


@rule("BR-DE-30", "a direct debit has no creditor identifier (BT-90)")
def _creditor_identifier(xml: Xml) -> bool:
    return not _has_debit(xml) or bool(xml.texts(_CREDITOR))


@rule("BR-DE-31", "a direct debit has no account to be debited (BT-91)")
def _debited_account(xml: Xml) -> bool:
    return not _has_debit(xml) or bool(xml.texts(_DEBTOR_IBAN))


@rule("BR-DE-TMP-32", "neither a day of delivery (BT-72) nor a period (BG-14, BG-26) is given")
def _delivery(xml: Xml) -> bool:
    line_period = f"{_LINE}/ram:SpecifiedLineTradeSettlement/ram:BillingSpecifiedPeriod"
    return bool(
        xml.all(f"{_SETTLEMENT}/ram:BillingSpecifiedPeriod")
        or xml.all("rsm:SupplyChainTradeTransaction/ram:ApplicableHeaderTradeDelivery/ram:ActualDeliverySupplyChainEvent")
        or len(xml.all(line_period)) == len(xml.all(_LINE))
    )  # fmt: skip


_require_text(
    "PEPPOL-EN16931-R001", "the business process (BT-23) is missing",
    "rsm:ExchangedDocumentContext/ram:BusinessProcessSpecifiedDocumentContextParameter/ram:ID",
)  # fmt: skip
_require_text(
    "PEPPOL-EN16931-R010", "the buyer's electronic address (BT-49) is missing",
    f"{_BUYER}/ram:URIUniversalCommunication/ram:URIID",
)  # fmt: skip
_require_text(
    "PEPPOL-EN16931-R020", "the seller's electronic address (BT-34) is missing",
    f"{_SELLER}/ram:URIUniversalCommunication/ram:URIID",
)  # fmt: skip


@rule("PEPPOL-EN16931-R110", "a line begins before the invoicing period (BT-134, BT-73)")
def _line_start(xml: Xml) -> bool:
    start = "ram:BillingSpecifiedPeriod/ram:StartDateTime/udt:DateTimeString"
    first = xml.text(f"{_SETTLEMENT}/{start}")
    return all(day >= first for day in xml.texts(f"{_LINE}/ram:SpecifiedLineTradeSettlement/{start}"))


@rule("PEPPOL-EN16931-R111", "a line ends after the invoicing period (BT-135, BT-74)")
def _line_end(xml: Xml) -> bool:
    end = "ram:BillingSpecifiedPeriod/ram:EndDateTime/udt:DateTimeString"
    last = xml.text(f"{_SETTLEMENT}/{end}")
    return not last or all(day <= last for day in xml.texts(f"{_LINE}/ram:SpecifiedLineTradeSettlement/{end}"))


@rule("PEPPOL-EN16931-R120", "the net amount of a line (BT-131) is not its quantity times its price")
def _line_amounts(xml: Xml) -> bool:
    for line in xml.all(_LINE):
        quantity = line.findtext("ram:SpecifiedLineTradeDelivery/ram:BilledQuantity", "0", NAMESPACES)
        price = line.findtext(
            "ram:SpecifiedLineTradeAgreement/ram:NetPriceProductTradePrice/ram:ChargeAmount", "0", NAMESPACES
        )
        summation = "ram:SpecifiedLineTradeSettlement/ram:SpecifiedTradeSettlementLineMonetarySummation"
        total = line.findtext(f"{summation}/ram:LineTotalAmount", "0", NAMESPACES)
        if abs(Decimal(quantity) * Decimal(price) - Decimal(total)) > Decimal("0.02"):
            return False
    return True


def _has_account(xml: Xml) -> bool:
    return bool(xml.all(f"{_MEANS}/ram:PayeePartyCreditorFinancialAccount"))


def _has_card(xml: Xml) -> bool:
    return bool(xml.all(f"{_MEANS}/ram:ApplicableTradeSettlementFinancialCard"))


def _has_debit(xml: Xml) -> bool:
    return bool(xml.texts(_MANDATE) or xml.texts(_CREDITOR) or xml.texts(_DEBTOR_IBAN))


def _is_iban(text: str) -> bool:
    from schwifty import IBAN

    return IBAN(text, allow_invalid=True).is_valid
