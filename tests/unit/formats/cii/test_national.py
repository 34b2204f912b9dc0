"""Every national rule holds for a good invoice, and finds the one thing that breaks it."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import pytest

from kontobahn.errors import Conflict
from kontobahn.formats import cii
from kontobahn.formats.cii import national
from kontobahn.mobility.invoices.rules import to_cii
from kontobahn.mobility.invoices.store import refuse_incomplete
from kontobahn.mobility.seller import decode
from tests.mobility_builder import broken_rules
from tests.unit.mobility.invoices import line, make, seller

(GOOD,) = cii.write(to_cii(make(line(), line(3_500, 19))), "xrechnung")
Break = Callable[[str], str]


def without(pattern: str) -> Break:
    return lambda xml: re.sub(pattern, "", xml, flags=re.DOTALL)


def replaced(old: str, new: str) -> Break:
    return lambda xml: xml.replace(old, new)


_MEANS = "<ram:SpecifiedTradeSettlementPaymentMeans>.*?</ram:SpecifiedTradeSettlementPaymentMeans>"
_ACCOUNT = "<ram:PayeePartyCreditorFinancialAccount>.*?</ram:PayeePartyCreditorFinancialAccount>"
_SHIP_TO = (
    "<ram:ApplicableHeaderTradeDelivery><ram:ShipToTradeParty><ram:PostalTradeAddress>{}</ram:PostalTradeAddress>"
    "</ram:ShipToTradeParty>"
)
_CARD = "<ram:ApplicableTradeSettlementFinancialCard><ram:ID>1</ram:ID></ram:ApplicableTradeSettlementFinancialCard>"
_ATTACHMENT = '<ram:AdditionalReferencedDocument><ram:AttachmentBinaryObject filename="a.pdf"/></ram:AdditionalReferencedDocument>'
_TYPE_58 = "<ram:TypeCode>58</ram:TypeCode>"


def without_inner(pattern: str, inner: str) -> Break:
    """Removes `inner` from the first match of a pattern."""
    return lambda xml: re.sub(
        pattern, lambda match: re.sub(inner, "", match[0], flags=re.DOTALL), xml, count=1, flags=re.DOTALL
    )


SELLER, BUYER = "<ram:SellerTradeParty>.*?</ram:SellerTradeParty>", "<ram:BuyerTradeParty>.*?</ram:BuyerTradeParty>"
BREAKS: dict[str, Break] = {
    "BR-DE-1": without(_MEANS),
    "BR-DE-2": without("<ram:DefinedTradeContact>.*?</ram:DefinedTradeContact>"),
    "BR-DE-3": without_inner(SELLER, "<ram:CityName>.*?</ram:CityName>"),
    "BR-DE-4": without_inner(SELLER, "<ram:PostcodeCode>.*?</ram:PostcodeCode>"),
    "BR-DE-5": without("<ram:PersonName>.*?</ram:PersonName>"),
    "BR-DE-6": without("<ram:TelephoneUniversalCommunication>.*?</ram:TelephoneUniversalCommunication>"),
    "BR-DE-7": without("<ram:EmailURIUniversalCommunication>.*?</ram:EmailURIUniversalCommunication>"),
    "BR-DE-8": without_inner(BUYER, "<ram:CityName>.*?</ram:CityName>"),
    "BR-DE-9": without_inner(BUYER, "<ram:PostcodeCode>.*?</ram:PostcodeCode>"),
    "BR-DE-10": replaced("<ram:ApplicableHeaderTradeDelivery>", _SHIP_TO.format("<ram:PostcodeCode>1</ram:PostcodeCode>")),
    "BR-DE-11": replaced("<ram:ApplicableHeaderTradeDelivery>", _SHIP_TO.format("<ram:CityName>B</ram:CityName>")),
    "BR-DE-14": without_inner(
        "<ram:ApplicableTradeTax><ram:CalculatedAmount>.*?</ram:ApplicableTradeTax>",
        "<ram:RateApplicablePercent>.*?</ram:RateApplicablePercent>",
    ),
    "BR-DE-15": without("<ram:BuyerReference>.*?</ram:BuyerReference>"),
    "BR-DE-16": without_inner(SELLER, "<ram:SpecifiedTaxRegistration>.*?</ram:SpecifiedTaxRegistration>"),
    "BR-DE-17": replaced("<ram:TypeCode>380</ram:TypeCode>", "<ram:TypeCode>71</ram:TypeCode>"),
    "BR-DE-18": replaced("Zahlbar ohne Abzug", "#SKONTO#TAGE=7#PROZENT=2#\nZahlbar"),
    "BR-DE-19": replaced("DE02120300000000202051", "DE02120300000000202052"),
    "BR-DE-20": replaced(_TYPE_58, "<ram:TypeCode>59</ram:TypeCode>"),
    "BR-DE-21": replaced("xrechnung_3.0", "xrechnung_1.2"),
    "BR-DE-22": replaced("<ram:SellerTradeParty>", _ATTACHMENT * 2 + "<ram:SellerTradeParty>"),
    "BR-DE-23-a": without(_ACCOUNT),
    "BR-DE-23-b": replaced(_TYPE_58, _TYPE_58 + _CARD),
    "BR-DE-24-a": replaced(_TYPE_58, "<ram:TypeCode>48</ram:TypeCode>"),
    "BR-DE-24-b": replaced(_TYPE_58, "<ram:TypeCode>48</ram:TypeCode>" + _CARD),
    "BR-DE-25-a": replaced(_TYPE_58, "<ram:TypeCode>59</ram:TypeCode>"),
    "BR-DE-25-b": replaced(_TYPE_58, "<ram:TypeCode>59</ram:TypeCode>"),
    "BR-DE-26": replaced("<ram:TypeCode>380</ram:TypeCode>", "<ram:TypeCode>384</ram:TypeCode>"),
    "BR-DE-27": replaced("+49 30 1234567", "+4 7"),
    "BR-DE-28": replaced("<ram:URIID>firmen@verbund.example", "<ram:URIID>firmen@@verbund.example"),
    "BR-DE-30": replaced(
        "<ram:SpecifiedTradePaymentTerms>", "<ram:SpecifiedTradePaymentTerms><ram:DirectDebitMandateID>M</ram:DirectDebitMandateID>"
    ),
    "BR-DE-31": replaced("<ram:PaymentReference>", "<ram:CreditorReferenceID>C</ram:CreditorReferenceID><ram:PaymentReference>"),
    "BR-DE-TMP-32": lambda xml: without("<ram:ApplicableHeaderTradeDelivery>.*?</ram:ApplicableHeaderTradeDelivery>")(
        without("<ram:BillingSpecifiedPeriod>.*?</ram:BillingSpecifiedPeriod>")(xml)
    ),
    "PEPPOL-EN16931-R001": without(
        "<ram:BusinessProcessSpecifiedDocumentContextParameter>.*?</ram:BusinessProcessSpecifiedDocumentContextParameter>"
    ),
    "PEPPOL-EN16931-R010": without_inner(BUYER, "<ram:URIUniversalCommunication>.*?</ram:URIUniversalCommunication>"),
    "PEPPOL-EN16931-R020": without_inner(SELLER, "<ram:URIUniversalCommunication>.*?</ram:URIUniversalCommunication>"),
    "PEPPOL-EN16931-R110": lambda xml: xml.replace(">20260301<", ">20260201<", 1),
    "PEPPOL-EN16931-R111": lambda xml: xml.replace(">20260331<", ">20260430<", 1),
    "PEPPOL-EN16931-R120": replaced('<ram:BilledQuantity unitCode="C62">1<', '<ram:BilledQuantity unitCode="C62">2<'),
}  # fmt: skip


def test_every_rule_is_tested() -> None:
    assert set(BREAKS) == set(national.RULES)


def test_a_good_invoice_breaks_none() -> None:
    assert national.violations(GOOD) == []
    assert broken_rules(GOOD, is_xrechnung=True) == set()


@pytest.mark.parametrize("number", BREAKS)
def test_a_rule_finds_what_breaks_it(number: str) -> None:
    broken = BREAKS[number](GOOD.decode())
    assert broken != GOOD.decode()
    found = {item.rule for item in national.violations(broken.encode())}
    assert number in found
    assert all(item.sentence for item in national.violations(broken.encode()))


def test_a_discount_in_the_required_form_breaks_no_rule() -> None:
    terms = replaced("Zahlbar ohne Abzug bis zum 16.03.2026.", "#SKONTO#TAGE=7#PROZENT=2.00#\n")(GOOD.decode())
    assert national.violations(terms.encode()) == []


def test_an_invoice_that_breaks_one_is_refused_with_its_number() -> None:
    facts = make(line(), by=msgspec.structs.replace(seller(), contact_phone="+1"))
    with pytest.raises(Conflict, match="BR-DE-27") as refusal:
        refuse_incomplete(facts)
    assert refusal.value.extra["missing"] == ["BR-DE-27"]
    refuse_incomplete(make(line()))


def test_an_old_invoice_stays_readable_whatever_the_rules_are_today() -> None:
    old = decode('{"name": "' + "x" * 200 + '", "iban": "old", "fax": "gone since"}')
    assert (len(old.name or ""), old.iban, old.payment_days) == (200, "old", 14)
