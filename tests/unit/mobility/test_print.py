"""The printed invoice: any text can be typeset, the layout copes with any length, and the GiroCode follows the standard."""

from __future__ import annotations

import io
import re

import msgspec
import pytest
from pypdf import PdfReader

from kontobahn.formats import cii
from kontobahn.mobility.invoices import pdf
from kontobahn.mobility.invoices.rules import Facts, to_cii
from tests.unit.mobility.invoices import BUYER, line, make, seller

AT = 1_772_442_000


def printed(facts: Facts) -> list[str]:
    (xml,) = cii.write(to_cii(facts), "en16931")
    reader = PdfReader(io.BytesIO(pdf.make(facts, xml, AT)))
    return [page.extract_text().replace("\u00a0", " ") for page in reader.pages]


def test_every_character_that_is_listed_as_printable_is() -> None:
    """PDF/A forbids a missing glyph, so one that the typeface lacks would make the whole invoice impossible."""
    every = "".join(chr(code) for first, last in pdf._PRINTABLE for code in range(first, last + 1))
    assert pdf.printable(every) == every
    pieces = [every[start : start + 60].strip() or "x" for start in range(0, len(every), 60)]
    facts = make(*(line(product=piece, holder_reference=piece) for piece in pieces))
    assert printed(facts)


def test_what_cannot_be_printed_is_a_question_mark_in_print_and_unchanged_in_the_xml() -> None:
    facts = make(line(product="東京メトロ 🚇"), to=msgspec.structs.replace(BUYER, name="Ło\u0301dź مرحبا"))
    text = "".join(printed(facts))
    assert "?????" in text
    assert "Łódź ?????" in text, "composed if that helps"
    assert "東京メトロ 🚇" in cii.write(to_cii(facts), "en16931")[0].decode()


def test_text_is_never_taken_for_markup() -> None:
    evil = '#panic("x") $x$ *b* _i_ `c` <a> @ref \\ // /* [ ] { }'
    facts = make(line(product=evil, holder_reference="<&>\"'"), to=msgspec.structs.replace(BUYER, name="A & <B> ]]>"))
    text = "".join(printed(facts))
    assert '#panic("x") $x$ *b* _i_' in text
    assert "A & <B> ]]>" in text


@pytest.mark.parametrize("count", [1, 8, 9, 41, 300])
def test_pages_and_sums_are_right_for_any_number_of_tickets(count: int) -> None:
    pages = printed(make(*(line(holder_reference=f"PN-{number:04d}") for number in range(count))))
    whole = "\n".join(pages)
    assert pdf.euro(6_300 * count).replace("\u00a0", " ") in pages[0]
    assert "IBAN" in pages[0]
    assert "GiroCode" in pages[0], "how to pay stands on the first page"
    assert {f"PN-{number:04d}" for number in range(count)} <= set(re.findall(r"PN-\d{4}", whole))
    for number, page in enumerate(pages, 1):
        assert f"Seite {number} von {len(pages)}" in page


def test_many_kinds_of_tickets_push_the_sums_to_the_next_page_and_the_list_follows() -> None:
    pages = printed(make(*(line(6_300 + number, product=f"Ticket {number:02d}") for number in range(25))))
    assert "Rechnungsbetrag" in pages[1]
    assert "GiroCode" in pages[1]
    assert "Einzelaufstellung" in pages[1], "no page is left half empty"
    for number, page in enumerate(pages, 1):
        assert f"Seite {number} von {len(pages)}" in page


def test_the_longest_texts_stay_on_the_page() -> None:
    long = "W" * 70
    facts = make(
        *(line(product="W" * 100, holder_reference="W" * 64, reference="W" * 64) for _ in range(8)),
        by=seller(name=long, street=long, city=long, bank_name=long, contact_name=long, register_entry="W" * 100),
        to=msgspec.structs.replace(BUYER, name=long, street=long, city=long, buyer_reference="W" * 64),
    )  # fmt: skip
    assert len(printed(facts)) >= 2


def test_a_correction_and_nothing_to_pay_have_no_payment_code() -> None:
    correction = make(line(-6_300))
    assert pdf.giro_code(correction) is None
    (page, *_) = printed(correction)
    assert "Rechnungskorrektur" in page
    assert "63,00 €" in page
    assert "RE-2025-00007" in page
    assert "IBAN DE02" in page, "in the footer"
    nothing = make(line(6_300), line(-6_300))
    assert pdf.giro_code(nothing) is None
    assert "Es ist nichts zu zahlen" in printed(nothing)[0]


def test_what_is_credited_is_counted_apart_and_its_share_is_negative() -> None:
    credited = line(-6_300, holder_reference="PN-2", employer_share_in_cents=1_575)
    (page,) = printed(make(line(), line(holder_reference="PN-3"), credited))
    assert "Für 2 Tickets und 1 Storno berechnen wir Ihnen zusammen:" in page
    assert "AG-Anteil −15,75 €" in page
    whole = "\n".join(printed(make(*[credited] * 9)))
    assert "Für 9 Stornos erhalten Sie diesen Betrag zurück:" in whole
    assert "AG-Anteil −141,75 €" in whole
    assert whole.count("−15,75 €") == 9, "once for each in the list"


def test_no_line_of_the_footer_parts_an_address_or_a_number() -> None:
    by = seller(
        contact_email="firmenkunden@demo-handel.example", register_entry="Amtsgericht Charlottenburg, HRB 999999"
    )
    (page,) = printed(make(line(), by=by))
    assert all(
        text in page for text in ("firmenkunden@demo-handel.example", "HRB 999999", "IBAN DE02 1203 0000 0000 2020 51")
    )


def test_the_giro_code_follows_the_standard() -> None:
    text = pdf.giro_payload(
        name="Verkehrsverbund GmbH",
        iban="DE02120300000000202051",
        bic=None,
        amount_in_cents=149_985,
        purpose="RE-1 K10001",
    )
    assert text == "BCD\n002\n1\nSCT\n\nVerkehrsverbund GmbH\nDE02120300000000202051\nEUR1499.85\n\n\nRE-1 K10001"
    assert pdf.qr_code(text).startswith("<svg")
    longest = pdf.giro_payload(
        name="Ü" * 70,
        iban="MT84MALT011000012345MTLCAST001S",
        bic="BYLADEM1001",
        amount_in_cents=99_999_999_999,
        purpose="W" * 40,
    )
    assert pdf.qr_code(longest), "even the longest fits version 13"
