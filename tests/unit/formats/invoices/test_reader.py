"""One invoice in every dress has the same facts, and its sums are those of the file."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal

import pytest
from facturx import xml_check_xsd
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from kontobahn.formats import ubl
from kontobahn.formats.cii.terms import CII, ZUGFERD_1
from kontobahn.formats.invoices.model import CREDIT_NOTE, Card, DirectDebit, Discount, Invoice, Refused
from kontobahn.formats.invoices.reader import Result, read
from kontobahn.formats.invoices.source import Source, Syntax, opened, tree_of
from tests.invoice_corpus import FULL, PLAIN, Dress, schematron, written

DRESSES: tuple[Dress, ...] = ("cii", "ubl")
CREDIT = PLAIN._replace(type_code=CREDIT_NOTE)
DEBIT = PLAIN._replace(
    payment=PLAIN.payment._replace(
        means_code="59", transfers=(), direct_debit=DirectDebit("M-1", "DE98ZZZ09999999999", "DE02500105170137075030")
    )
)
CARD = PLAIN._replace(payment=PLAIN.payment._replace(means_code="48", transfers=(), card=Card("1234", "P. Lindner")))
FOREIGN = PLAIN._replace(currency="CHF", vat_currency="EUR", totals=PLAIN.totals._replace(vat_accounting_minor=291))
# Lines that are alike but for their texts.
VOLUMES = PLAIN._replace(
    lines=tuple(PLAIN.lines[0]._replace(id=str(number), name=f"Band {number}") for number in range(1, 4))
)
INVOICES = {"full": FULL, "plain": PLAIN, "credit": CREDIT, "debit": DEBIT, "card": CARD, "foreign": FOREIGN}


def syntax(invoice: Invoice, dress: Dress) -> Syntax:
    return CII if dress == "cii" else ubl.CREDIT_NOTE if invoice.is_credit_note else ubl.INVOICE


def facts(result: Result) -> Invoice:
    """The invoice without the two terms that say how it is dressed."""
    assert result.faults == []
    return result.invoice._replace(process=None, specification=None)


@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize("name", INVOICES)
def test_an_invoice_is_read_as_it_was_written(name: str, dress: Dress) -> None:
    invoice = INVOICES[name]
    xml = written(invoice, dress)
    flavor = f"ubl-2.1-{'creditnote' if name == 'credit' else 'invoice'}"
    xml_check_xsd(xml, *(("factur-x", "en16931") if dress == "cii" else (flavor,)))
    assert schematron(dress).broken(xml) == set()
    assert facts(read(opened(xml), syntax(invoice, dress))) == invoice


@pytest.mark.parametrize("dress", DRESSES)
def test_prefixes_blanks_and_encodings_change_nothing(dress: Dress) -> None:
    xml = written(FULL, dress)
    tree = etree.fromstring(xml)
    etree.indent(tree, "    ")
    renamed = re.sub(rb"(</?|xmlns:)(ram|cbc)\b", rb"\1other", xml).replace(b"<otherns", b"<ns")
    commented = re.sub(rb">Bohrer<", b"><!-- <ram:Name> --><![CDATA[Bohrer]]><", xml)
    for other in (etree.tostring(tree), renamed, commented, etree.tostring(tree, encoding="ISO-8859-1")):
        assert facts(read(opened(other), syntax(FULL, dress))) == FULL


def test_an_invoice_of_many_chunks_is_the_same() -> None:
    lines = tuple(FULL.lines[0]._replace(id=str(number)) for number in range(300))
    long = FULL._replace(lines=lines)
    for dress in DRESSES:
        xml = written(long, dress)
        assert len(xml) > 600_000
        assert facts(read(opened(xml), syntax(long, dress))) == long


def test_zugferd_1_is_read_under_its_own_names() -> None:
    text = written(PLAIN, "cii").decode()
    for new, old in (*ZUGFERD_1.renamed.items(), ("ram:IssuerAssignedID", "ram:ID")):
        text = re.sub(rf"(</?){new}\b", rf"\1{old}", text)
    text = text.replace("rsm:CrossIndustryInvoice", "rsm:CrossIndustryDocument")
    for prefix, uri in CII.namespaces.items():
        text = text.replace(uri, ZUGFERD_1.namespaces[prefix])
    assert facts(read(opened(text.encode()), ZUGFERD_1)) == PLAIN


def test_sums_are_those_of_the_file_even_if_they_do_not_add_up() -> None:
    wrong = PLAIN._replace(totals=PLAIN.totals._replace(gross_minor=99_999, due_minor=-1))
    for dress in DRESSES:
        assert facts(read(opened(written(wrong, dress)), syntax(wrong, dress))).totals == wrong.totals


def test_structured_discounts_of_zugferd_are_read() -> None:
    discount = (
        '<ram:ApplicableTradePaymentDiscountTerms><ram:BasisPeriodMeasure unitCode="DAY">10</ram:BasisPeriodMeasure>'
        "<ram:BasisAmount>42.80</ram:BasisAmount><ram:CalculationPercent>2</ram:CalculationPercent>"
        "<ram:ActualDiscountAmount>0.86</ram:ActualDiscountAmount></ram:ApplicableTradePaymentDiscountTerms>"
    )
    until = (
        '<ram:SpecifiedTradePaymentTerms><ram:DueDateDateTime><udt:DateTimeString format="102">20260409</udt:DateTimeString>'
        "</ram:DueDateDateTime><ram:ApplicableTradePaymentDiscountTerms><ram:CalculationPercent>3</ram:CalculationPercent>"
        "</ram:ApplicableTradePaymentDiscountTerms></ram:SpecifiedTradePaymentTerms>"
    )
    end = "</ram:SpecifiedTradePaymentTerms>"
    xml = written(PLAIN, "cii").decode().replace(end, discount + end + until).encode()
    payment = read(opened(xml), CII).invoice.payment
    assert payment.discounts == (
        Discount(Decimal(2), days=10, base_minor=4_280, amount_minor=86), Discount(Decimal(3), until=date(2026, 4, 9)),
    )  # fmt: skip
    assert payment.due_on == date(2026, 5, 2)


@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize(
    ("term", "old", "new", "rule"),
    [
        ("date", r">2026-?04-?02<", ">2026-13-45<", "not-a-date"),
        ("price", ">20<", ">twenty<", "not-a-number"),
        ("total", ">42.80<", ">42.805<", "amount-rounded"),
        ("large", ">42.80<", ">9999999999999999.00<", "amount-too-large"),
    ],
)
def test_a_text_that_is_no_value_is_told_with_its_place(dress: Dress, term: str, old: str, new: str, rule: str) -> None:
    xml = re.sub(old, new, written(PLAIN, dress).decode())
    result = read(opened(xml.encode()), syntax(PLAIN, dress))
    found = [fault for fault in result.faults if fault.rule == rule]
    assert found, term
    tree = etree.fromstring(xml.encode())
    for fault in found:
        (element,) = tree.xpath(fault.path, namespaces=CII.namespaces if dress == "cii" else ubl.INVOICE.namespaces)
        assert element.text == new[1:-1]


@pytest.mark.parametrize("dress", DRESSES)
def test_the_place_of_every_term_is_a_place_in_the_file(dress: Dress) -> None:
    tree = etree.fromstring(written(FULL, dress))
    table = syntax(FULL, dress)
    missing = {term for term in table.paths if not tree.xpath(table.path(term, {}), namespaces=table.namespaces)}
    # Terms of other means of payment, of other currencies, and of UBL or CII alone.
    others = {
        "BT-6",
        "BT-7",
        "BT-8",
        "BT-21",
        "BT-60",
        "BT-71",
        "BT-87",
        "BT-88",
        "BT-89",
        "BT-90",
        "BT-91",
        "BT-120",
        "BT-121",
    }
    assert {term for term in missing if re.fullmatch(r"BT-\d+", term)} <= others


@pytest.mark.parametrize("dress", DRESSES)
def test_lines_that_look_alike_are_read_each_for_itself(dress: Dress) -> None:
    book = PLAIN.lines[0]
    lines = tuple(
        book._replace(id=str(number), name=f"Band {number}", quantity=Decimal(number), net_minor=2_000 * number)
        for number in range(1, 5)
    )
    same = PLAIN._replace(lines=(*lines[:2], FULL.lines[0], *lines[2:]))
    xml = written(same, dress)
    assert facts(read(opened(xml), syntax(same, dress))).lines == same.lines
    # One value is wrong: the others stay, and its place is that of its line.
    result = read(opened(xml.replace(b">60.00<", b">sixty<")), syntax(same, dress))
    (fault,) = result.faults
    assert "[4]" in fault.path
    assert [line.net_minor for line in result.invoice.lines] == [
        None if line.id == "3" else line.net_minor for line in same.lines
    ]
    # The same names in the same order, but the amount stands beside the price that it should be in.
    head, second, tail = re.split(rb"(?=Band 2<)|(?=Bohrer<)", xml)
    amount = rb"(<(?:ram:ChargeAmount|cbc:PriceAmount)[^>]*>20</[^>]+>)(</[^>]+>)"
    moved = head + re.sub(amount, rb"\2\1", second, count=1) + tail
    assert [line.net_price for line in read(opened(moved), syntax(same, dress)).invoice.lines] == [
        None if line.id == "2" else line.net_price for line in same.lines
    ]
    # A term that occurs twice, of which the first counts, and something between the lines that nobody knows.
    again = re.sub(rb"(<(ram|cbc):Name>)(Band 2</[^>]+>)", rb"\1\3<\2:Name>Anderes</\2:Name>", xml)
    line = rb"<(ram:IncludedSupplyChainTradeLineItem|cac:InvoiceLine)>"
    between = re.sub(line, rb"<x:y xmlns:x='urn:x'><x:z/></x:y><\1>", xml)
    for other in (again, between):
        assert facts(read(opened(other), syntax(same, dress))) == same


def both_ways(xml: bytes, of: Syntax) -> tuple[Result, Result]:
    """Returns what is read from the tags of a file, and from its tree."""
    source = opened(xml)
    assert source.scan is not None
    return read(source, of), read(source._replace(scan=None, tree=tree_of(source.content)), of)


@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize("name", INVOICES)
def test_tags_tell_the_same_as_the_tree(name: str, dress: Dress) -> None:
    book = INVOICES[name].lines[0]
    lines = (
        *(book._replace(id=str(number), name=f"Band {number} & <Beiheft>", net_minor=number) for number in range(1, 4)),
        *FULL.lines, book._replace(id="7a", name="Heft", note="  zwei\n  Zeilen "), book._replace(id="", name="Heft"),
    )  # fmt: skip
    invoice = INVOICES[name]._replace(lines=lines)
    xml = written(invoice, dress)
    of = syntax(invoice, dress)
    tree = etree.fromstring(xml)
    etree.indent(tree, "  ")
    # The text of an element is told by the first of two, also if that is empty or ends where it begins.
    names = re.compile(rb"<((?:ram|cbc):(?:Name|LineID|ID))>(Heft|Band 2[^<]*|7a)</[^>]*>")
    for other in (
        xml,
        etree.tostring(tree),
        etree.tostring(tree).replace(b"\n", b"\r\n"),
        names.sub(rb"<\1/>", xml),
        re.sub(rb"(:BuyerReference>)[^<]*<", rb"\1<", xml),
        names.sub(rb"<\1></\1><\1>Rest</\1>", xml),
        names.sub(rb"<\1 >&#x4b;&#111;nto &quot;&apos;</\1 >", xml),
        names.sub(rb"<\1 note='a&amp;b &gt; c'>\2</\1>", xml),
        re.sub(rb'(schemeID|unitCode)="', rb"\1 = " + rb'"', xml),
    ):
        of_tags, of_tree = both_ways(other, of)
        assert of_tags == of_tree
        assert len(of_tags.invoice.lines) == len(lines)


@pytest.mark.parametrize("dress", DRESSES)
def test_what_tags_alone_do_not_tell_is_read_by_the_tree(dress: Dress) -> None:
    xml, of = written(VOLUMES, dress), syntax(VOLUMES, dress)
    for usual, unusual in (
        (b">Band 2<", b"><!-- > -->Band 2<"),
        (b">Band 2<", b"><![CDATA[Band 2]]><"),
        (b">Band 2<", b"><?do > it?>Band 2<"),
        (b">Band 2<", b' note=">">Band 2<'),
        # Between < and > as if it were tags, and a comment or instruction makes up for them.
        (b">Band 2<", b">Band>x/>2<"),
        (b">Band 2<", b">Band>x<!-- </-->2<"),
        (b">Band 2<", b">Band>x<?do </?>2<"),
        (b">Band 2<", b" xmlns:ram='urn:other' xmlns:cbc='urn:other'>Band 2<"),
    ):
        assert usual in xml
        changed = xml.replace(usual, unusual)
        source = opened(changed)
        expected = etree.fromstring(changed).findall(".//{*}Name")
        result = read(source, of).invoice
        assert result == read(source._replace(scan=None, tree=tree_of(source.content)), of).invoice
        assert len(result.lines) == 3
        assert expected


@pytest.mark.parametrize("dress", DRESSES)
def test_a_fault_is_found_wherever_it_is(dress: Dress) -> None:
    """Of lines that are alike the first is parsed, and tags are looked at without a parser."""
    xml, of = written(VOLUMES, dress), syntax(VOLUMES, dress)
    for wrong in (
        b"Band\x013",
        b"Band 3&nix;",
        b"Band &#0;",
        "Band \uffff".encode(),
        b"Band \xc3",
        b"Band 3</x>",
        b"<x:y/>",
    ):
        with pytest.raises(Refused):
            read(opened(xml.replace(b"Band 3", wrong)), of)
    root = re.compile(rb"(<[^?!][^>]*)>")
    for wrong in (
        re.sub(rb"^<\?xml[^>]*>", b"<?xml version=1.0?>", xml),
        root.sub(rb"\1 note='&#xffffff;'>", xml, count=1),
        root.sub(rb"\1 x:note=''>", xml, count=1),
        b"<>" + xml,
        b"<a b=>" + xml,
    ):
        with pytest.raises(Refused):
            read(opened(wrong), of)
    # Beyond the lines that are alike, and where blanks, names or namespaces are none.
    begins = rb"(?s)<((?:ram:IncludedSupplyChainTradeLineItem|cac:InvoiceLine))>(?!.*<\1>)"
    for pattern, wrong in (
        (begins, rb"<\1x>"),
        (rb"(\?>\s*)<", b"\\1\x0b<"),
        (rb" (xmlns:(?:ram|cbc)=.urn)", rb" \1 %"),
        (rb" (xmlns:(?:ram|cbc))=", rb" \1:="),
        (rb" (unitCode=)", rb" :\1"),
    ):
        changed, count = re.subn(pattern, wrong, xml, count=1)
        assert count == 1, pattern
        with pytest.raises(Refused):
            read(opened(changed), of)


PIECES = (
    b"&", b"<", b">", b'"', b"&amp;", b"&#10;", b"&#x0;", b"&x;", b"\x00", b"\x0b", b"\xef\xbf\xbf", b"\xff", b" ", b"\r", b"/", b"<!---->",
    b"<![CDATA[y]]>", b"]]>", b"<?pi?>", b":", b"=", b' xmlns:ram="u"', b' a="1"', b"<a/>", b"</cac:InvoiceLine>", b"<cbc:ID>0</cbc:ID>",
)  # fmt: skip


@settings(max_examples=300)
@given(
    st.sampled_from((FULL, PLAIN, VOLUMES)), st.sampled_from(DRESSES),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 9), st.sampled_from(PIECES)), min_size=1, max_size=3),
)  # fmt: skip
def test_a_damaged_file_is_the_same_by_its_tags_as_by_its_tree(
    invoice: Invoice, dress: Dress, damages: list[tuple[int, int, bytes]]
) -> None:
    xml = written(invoice, dress)
    for place, lost, piece in damages:
        xml = xml[: place % len(xml)] + piece + xml[place % len(xml) + lost :]
    of = syntax(invoice, dress)
    try:
        source = opened(xml)
    except Refused:
        return

    def told(source: Source) -> Result | str:
        try:
            return read(source, of)
        except Refused as refused:
            return str(refused)

    assert told(source) == told(source._replace(scan=None, tree=tree_of(source.content)))
