"""Invoices at random: schema, Schematron and national rules hold, and JSON, XML and print have the same cents.

25 by default; set RANDOM_INVOICES=1000 in the environment for a thousand.
"""

from __future__ import annotations

import io
import os
import re
from decimal import Decimal

import pytest
from facturx import get_xml_from_pdf
from hypothesis import HealthCheck, given, settings
from pypdf import PdfReader

from kontobahn.formats import cii
from kontobahn.formats.cii import national
from kontobahn.mobility.invoices import pdf, typesetter
from kontobahn.mobility.invoices.rules import Facts, to_cii
from tests.mobility_builder import broken_rules
from tests.unit.mobility.invoices import random_invoices

COUNT = int(os.environ.get("RANDOM_INVOICES", "25"))
ISSUED_AT = 1_772_442_000_000_000


def amount(xml: str, name: str) -> int:
    (text,) = re.findall(rf"<ram:{name}(?: currencyID=\"EUR\")?>(-?[0-9.]+)</ram:{name}>", xml.rpartition("HeaderTradeSettlement>")[0]
                         .rpartition("<ram:SpecifiedTradeSettlementHeaderMonetarySummation>")[2])  # fmt: skip
    return int(Decimal(text) * 100)


@given(facts=random_invoices())
@settings(max_examples=COUNT, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
def test_a_random_invoice_is_valid_and_its_sums_are_the_same_everywhere(facts: Facts) -> None:
    printable, xml = typesetter.render(facts, ISSUED_AT)
    _, embedded = get_xml_from_pdf(printable.content)
    profile = cii.profile_of(to_cii(facts))
    assert broken_rules(embedded, is_xrechnung=False) == set()
    assert broken_rules(xml.content, is_xrechnung=profile == "xrechnung") == set()
    if profile == "xrechnung":
        assert national.violations(xml.content) == []

    total = sum(line.amount_in_cents for line in facts.lines)
    sign = -1 if total < 0 else 1
    for text in (embedded.decode(), xml.content.decode()):
        assert amount(text, "DuePayableAmount") == sign * total
        assert amount(text, "TaxBasisTotalAmount") == sign * facts.net_in_cents
        assert amount(text, "TaxTotalAmount") == sign * facts.vat_in_cents
        assert amount(text, "GrandTotalAmount") == sign * (total - facts.rounding_in_cents)

    printed = "".join(page.extract_text() for page in PdfReader(io.BytesIO(printable.content)).pages)
    printed = re.sub(r"\s", "", printed)
    for cents in (abs(total), *(part for item in facts.sums for part in (item.net_in_cents, item.vat_in_cents))):
        assert re.sub(r"\s", "", pdf.euro(cents)) in printed, cents


@pytest.mark.parametrize("cents", [0, 5, -5, 99, 100, 123_456_789, -100_000])
def test_amounts_are_written_the_german_way(cents: int) -> None:
    text = pdf.euro(cents).removesuffix("\u00a0€")
    back = int(text.replace(".", "").replace(",", "").replace("−", "-"))
    assert back == cents
    assert re.fullmatch(r"−?[0-9]{1,3}(\.[0-9]{3})*,[0-9]{2}", text)
