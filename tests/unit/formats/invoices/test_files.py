"""Files as they come: hybrids, PDFs of any kind, and files that are made to harm. All get a clear answer."""

from __future__ import annotations

import io
import random
import zlib
from datetime import date

import pytest
import typst
from pypdf import PdfWriter
from pypdf.generic import DictionaryObject, NameObject, TextStringObject

from kontobahn.formats import invoice_files
from kontobahn.formats.invoice_files import ReadInvoice, is_harmless
from kontobahn.formats.invoices.model import Attachment, Finding, InvoiceError
from kontobahn.formats.invoices.pdf import Proposal, propose
from kontobahn.formats.invoices.source import MAX_FILE_BYTES
from kontobahn.mobility.invoices import typesetter
from tests.invoice_corpus import FULL, PLAIN, written
from tests.unit.mobility.invoices import line, make

ON = date(2026, 11, 17)
XML = written(FULL, "cii")


def read(content: bytes) -> ReadInvoice:
    return invoice_files.read(content, "invoice", on=ON)


def refusal(content: bytes) -> Finding:
    with pytest.raises(InvoiceError) as refused:
        read(content)
    finding = refused.value.finding
    assert (finding.kind, finding.rule_set, finding.severity) == ("format", "format", "error")
    assert "{" not in finding.message("de") + finding.message("en")
    return finding


def pdf(*files: tuple[str, bytes], password: str = "", owner: str = "", script: bool = False) -> bytes:
    writer = PdfWriter()
    writer.add_blank_page(200, 200)
    for name, content in files:
        writer.add_attachment(name, content)
    if script:
        action = DictionaryObject(
            {NameObject("/S"): NameObject("/JavaScript"), NameObject("/JS"): TextStringObject("app.alert(1);")}
        )
        writer.root_object[NameObject("/OpenAction")] = action
    if password or owner:
        writer.encrypt(password, owner or None, algorithm="AES-256")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


# --- Hybrids


@pytest.mark.parametrize("name", ["factur-x.xml", "zugferd-invoice.xml", "ZUGFeRD-invoice.xml", "xrechnung.xml"])
def test_an_invoice_in_a_pdf_has_the_facts_of_the_xml(name: str) -> None:
    result = read(pdf((name, XML), ("agb.pdf", b"%PDF-1.7")))
    assert (result.container, result.format, result.findings) == ("pdf", "cii", ())
    assert result.invoice == read(XML).invoice
    assert result.xml == XML
    assert [item.name for item in result.attachments] == ["aufmass.csv", None, "agb.pdf"]


def test_cii_ubl_and_hybrid_are_one_invoice() -> None:
    found = [read(content).invoice for content in (XML, written(FULL, "ubl"), pdf(("factur-x.xml", XML)))]
    assert found[0] is not None
    assert found[0] == found[1] == found[2]


def test_our_own_invoices_are_read() -> None:
    printable, xml = typesetter.render(make(line(), line(3_500, 19)), 1_772_442_000_000_000)
    hybrid, alone = read(printable.content), read(xml.content)
    assert (hybrid.findings, hybrid.warnings, alone.findings, alone.warnings) == ((), (), (), ())
    assert hybrid.invoice is not None
    assert alone.invoice is not None
    assert hybrid.invoice._replace(specification=None) == alone.invoice._replace(specification=None)


def test_an_unusual_name_is_told_and_the_invoice_read() -> None:
    result = read(pdf(("daten.xml", XML)))
    assert result.invoice is not None
    assert [(finding.rule, finding.kind, finding.severity) for finding in result.findings] == [
        ("attachment-name", "format", "warning")
    ]


def test_two_invoices_in_a_pdf_are_refused_and_copies_are_not() -> None:
    other = written(PLAIN, "cii")
    finding = refusal(pdf(("factur-x.xml", XML), ("xrechnung.xml", other)))
    assert finding.rule == "pdf-two-invoices"
    assert "factur-x.xml, xrechnung.xml" in finding.message("de")
    assert read(pdf(("factur-x.xml", XML), ("xrechnung.xml", XML))).invoice is not None
    assert read(pdf(("factur-x.xml", XML), ("anhang.xml", other))).invoice == read(XML).invoice


def test_a_password_is_said_and_a_mere_protection_is_none() -> None:
    assert refusal(pdf(("factur-x.xml", XML), password="secret")).rule == "pdf-encrypted"
    assert read(pdf(("factur-x.xml", XML), owner="owner")).invoice is not None


@pytest.mark.parametrize("content", [b"%PDF-1.7\n", pdf(("factur-x.xml", XML))[:900], b"%PDF-1.7\n" + b"\x00" * 5_000])
def test_a_damaged_pdf_is_refused(content: bytes) -> None:
    assert refusal(content).rule == "pdf-damaged"


def test_scripts_in_a_pdf_are_told_and_not_run() -> None:
    result = read(pdf(("factur-x.xml", XML), script=True))
    assert [warning.code for warning in result.warnings] == ["pdf-active"]


def test_an_attachment_is_harmless_only_if_it_is_what_it_says() -> None:
    kinds = {
        ("application/pdf", b"%PDF-1.7"): True, ("application/pdf", b"MZ"): False, ("text/html", b"<script>"): False,
        ("text/csv", b"a;b"): True, ("application/x-msdownload", b"MZ"): False, ("image/png", b"\x89PNG\r\n"): True,
    }  # fmt: skip
    for (media_type, content), expected in kinds.items():
        attachment = Attachment("1", None, None, "datei", media_type, content)
        assert is_harmless(attachment) == expected
        result = read(written(PLAIN._replace(attachments=(attachment,)), "ubl"))
        assert ("attachment-active" in [warning.code for warning in result.warnings]) == (not expected)


# --- A PDF without XML

LETTER = """
Rechnung Nr. 2026-77
Rechnungsdatum: 03.04.2026
Gesamtbetrag: 1.190,00 EUR
IBAN: DE02 1203 0000 0000 2020 51 BIC BYLADEM1001
"""


def test_a_pdf_without_xml_proposes_what_is_plain() -> None:
    page = typst.compile("\n\n".join(LETTER.strip().splitlines()).encode(), format="pdf")
    assert isinstance(page, bytes)
    result = read(page)
    assert (result.invoice, result.format, result.is_valid) == (None, None, False)
    assert [(finding.rule, finding.severity) for finding in result.findings] == [("no-xml", "warning")]
    expected = Proposal("2026-77", date(2026, 4, 3), 119_000, "EUR", "DE02120300000000202051")
    assert result.proposal == expected == propose(LETTER)


def test_nothing_is_proposed_that_could_be_another() -> None:
    two = (
        LETTER
        + "Gesamtbetrag: 1.000,00 EUR\nIBAN DE02500105170137075030\nRechnungsdatum 04.04.2026\nRechnungsnummer: 8\n"
    )
    assert propose(two) == Proposal(None, None, None, None, None)
    assert propose(LETTER.replace("2020 51", "2020 52")).iban is None, "its check digits are wrong"
    assert propose(LETTER.replace("03.04.", "33.04.")).issued_on is None
    assert propose("Total due USD 1,234.56").total_minor == 123_456
    assert propose("") == Proposal(None, None, None, None, None)


def test_a_page_without_text_proposes_nothing() -> None:
    assert read(pdf()).proposal == Proposal(None, None, None, None, None)


# --- Files that are none, or made to harm

LAUGHS = b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'
OUTSIDE = b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
DECLARATION = b'<?xml version="1.0" encoding="UTF-8"?>\n'


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "file-empty"),
        (b" \n ", "file-empty"),
        (b"PK\x03\x04", "file-unknown"),
        (b"Rechnung 7 ueber 12 Euro", "file-unknown"),
        (XML[:-200], "xml-malformed"),
        (b"<", "xml-malformed"),
        (b"<a/>", "xml-not-an-invoice"),
        (b"<Order xmlns='urn:x'/>", "xml-not-an-invoice"),
        (b"<html><body/></html>", "xml-not-an-invoice"),
        (XML.replace(DECLARATION, DECLARATION + LAUGHS), "xml-doctype"),
        (XML.replace(DECLARATION, DECLARATION + b"<!-- x -->" + OUTSIDE), "xml-doctype"),
        (XML.replace(b'encoding="UTF-8"', b'encoding="UTF-7"'), "xml-encoding"),
        (XML.replace(b">Bohrer<", b">&a;<"), "xml-malformed"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_invoice_is_refused_with_its_reason(content: bytes, rule: str) -> None:
    assert refusal(content).rule == rule


def test_whatever_is_damaged_in_a_file_gets_an_answer() -> None:
    hybrid = pdf(("factur-x.xml", XML))
    chance = random.Random(7)
    answers: set[str] = set()
    for number in range(150):
        damaged = bytearray((XML, written(FULL, "ubl"), hybrid)[number % 3])
        # Mostly near the beginning, where a file says what it is.
        at = chance.randrange(len(damaged) if number % 2 else 300)
        damaged[at : at + chance.randrange(30)] = chance.choice((b"", b"<", b"\x00", b"9" * 30, b":", b"/X"))
        try:
            answers.add(read(bytes(damaged)).container)
        except InvoiceError as error:
            answers.add(error.finding.rule)
    assert answers >= {"xml", "pdf", "xml-malformed", "pdf-damaged"}


@pytest.mark.parametrize("damage", [(b"<rsm:Cross", b"<r-m:Cross"), (b"xmlns:rsm=", b"xmlns:other=")])
def test_a_root_without_its_namespace_is_no_invoice(damage: tuple[bytes, bytes]) -> None:
    assert refusal(XML.replace(*damage)).rule in ("xml-malformed", "xml-not-an-invoice")


def test_an_unknown_filter_is_damage() -> None:
    page = typst.compile(LETTER.encode(), format="pdf")
    assert isinstance(page, bytes)
    assert refusal(page.replace(b"/FlateDecode", b"/FlateDecodX")).rule == "pdf-damaged"


def test_a_malformed_file_names_line_and_column() -> None:
    assert "line 2, column" in refusal(XML.replace(b"</ram:Name>", b"</ram:Nam>", 1)).message("en")


def test_a_file_above_the_bound_is_refused_unread() -> None:
    assert refusal(XML + b" " * (MAX_FILE_BYTES + 1 - len(XML))).rule == "file-too-large"
    assert refusal(b"%PDF-1.7" + b" " * MAX_FILE_BYTES).rule == "file-too-large"
    assert read(XML + b" " * (MAX_FILE_BYTES - len(XML))).invoice is not None


@pytest.mark.parametrize("filler", [b"<ram:a/>", b'<ram:a x="1" y="2"/>'])
def test_more_elements_than_an_invoice_has_are_refused(filler: bytes) -> None:
    flood = filler * (MAX_FILE_BYTES // len(filler) - 10_000)
    finding = refusal(XML.replace(b"<ram:BuyerReference>", flood + b"<ram:BuyerReference>", 1))
    assert finding.rule == "file-too-complex"


@pytest.mark.parametrize("depth", [300, 100_000])
def test_deep_nesting_is_refused_or_not_read(depth: int) -> None:
    deep = b"<ram:a>" * depth + b"</ram:a>" * depth
    assert refusal(XML.replace(b"<ram:BuyerReference>", deep + b"<ram:BuyerReference>", 1)).rule == "xml-malformed"


def test_an_include_is_an_element_that_is_not_read() -> None:
    include = b'<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="file:///etc/passwd" parse="text"/>'
    result = read(XML.replace(b">Bohrer<", b">Bohrer" + include + b"<"))
    assert result.invoice is not None
    assert result.invoice.lines[0].name == "Bohrer"
    assert result.invoice == read(XML).invoice


def test_a_bomb_in_a_pdf_is_refused() -> None:
    bomb = zlib.compress(b"<" + b" " * (4 * MAX_FILE_BYTES), 9)
    stream = b"5 0 obj\n<< /Type /EmbeddedFile /Filter /FlateDecode /Length %d >>\nstream\n%b\nendstream\nendobj\n" % (
        len(bomb),
        bomb,
    )
    objects = (
        b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R /Names << /EmbeddedFiles << /Names [(factur-x.xml) 4 0 R] >> >> >>\nendobj\n"
        b"2 0 obj\n<< /Type /Pages /Kids [] /Count 0 >>\nendobj\n"
        b"4 0 obj\n<< /Type /Filespec /F (factur-x.xml) /EF << /F 5 0 R >> >>\nendobj\n"
    )
    assert refusal(objects + stream + b"trailer\n<< /" + b"Root 1 0 R /Size 6 >>\n%%EOF").rule == "pdf-damaged"


def test_a_large_attachment_is_read() -> None:
    content = b"%PDF-" + b"x" * 9_000_000
    large = PLAIN._replace(attachments=(Attachment("1", None, None, "plan.pdf", "application/pdf", content),))
    result = read(written(large, "cii"))
    assert result.attachments[0].content == content


def test_utf_16_is_read() -> None:
    text = XML.decode().replace('encoding="UTF-8"', 'encoding="UTF-16"')
    assert read(text.encode("utf-16")).invoice == read(XML).invoice
