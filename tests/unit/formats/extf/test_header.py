"""The header and the column titles decide whether a file can be read at all."""

from __future__ import annotations

from datetime import date, datetime
from io import BytesIO

import pytest

from kontobahn.formats.extf import (
    BUCHUNGSSTAPEL,
    KONTENBESCHRIFTUNGEN,
    PERSONENKONTEN,
    Buchungssatz,
    ExtfError,
    Kontobeschriftung,
    open_extf,
)
from tests.unit.formats.extf.files import header_line, read, satz, text_of, with_columns


def test_the_header_says_whose_books_these_are() -> None:
    header_fields = {9: '"Mia ""M"" Muster"', 18: '"MM"', 20: "50", 21: "1", 31: '"9/2024"'}
    with open_extf(BytesIO(text_of(satz(), header=header_fields).encode("cp1252"))) as file:
        header = file.header
    assert header._asdict() == {
        "kennzeichen": "EXTF", "category": 21, "formatname": "Buchungsstapel", "version": 13,
        "erzeugt_am": datetime(2024, 6, 7, 10, 11, 12, 131_000), "herkunft": "RE", "berater": 4711, "mandant": 12,
        "wj_beginn": date(2024, 1, 1), "sachkontenlaenge": 4, "datum_von": date(2024, 1, 1),
        "datum_bis": date(2024, 12, 31), "bezeichnung": "Probe", "buchungstyp": 1, "festschreibung": True,
        "waehrung": "EUR", "skr": "03", "exportiert_von": 'Mia "M" Muster', "diktatkuerzel": "MM",
        "rechnungslegungszweck": "50", "anwendungsinformation": "9/2024",
    }  # fmt: skip
    assert file.header.client_id == "4711-12"


def test_what_only_postings_have_may_be_missing() -> None:
    text = text_of("10001;", category=PERSONENKONTEN, header={6: "", 22: '""'})
    with open_extf(BytesIO(text.encode("cp1252"))) as file:
        header = file.header
    assert (header.datum_von, header.datum_bis, header.buchungstyp, header.festschreibung) == (None, None, 1, False)
    assert (header.waehrung, header.erzeugt_am) == ("EUR", None)


def test_a_file_that_datev_wrote_itself_is_read() -> None:
    assert len(read(text_of(satz(), header={1: '"DTVF"'}))) == 1


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({1: '"TXTF"'}, "begins with 'TXTF'"),
        ({2: "699"}, "Header field 2 (Versionsnummer): '699'"),
        ({3: "65"}, "Header field 3 (Formatkategorie): '65'"),
        ({3: "x"}, "Header field 3 (Formatkategorie): 'x'"),
        ({5: "14"}, "Header field 5 (Formatversion): '14'"),
        ({5: "6"}, "Header field 5 (Formatversion): '6'"),
        ({6: "2024-06-07"}, "Header field 6 (Erzeugt am): '2024-06-07'"),
        ({6: "20241307101112131"}, "Header field 6 (Erzeugt am): '20241307101112131'"),
        ({11: "1000"}, "Header field 11 (Berater): '1000' is not a number from 1001 to 9999999."),
        ({12: "100000"}, "Header field 12 (Mandant): '100000'"),
        ({12: "²"}, "Header field 12 (Mandant): '²'"),
        ({13: ""}, "Header field 13 (WJ-Beginn): ''"),
        ({13: "20240230"}, "Header field 13 (WJ-Beginn): '20240230'"),
        ({14: "3"}, "Header field 14 (Sachkontenlänge): '3' is not a number from 4 to 8."),
        ({15: "01012024"}, "Header field 15 (Datum von): '01012024'"),
        ({15: "20250101", 16: "20250131"}, "Header field 15 (Datum von): 2025-01-01 lies after the fiscal year"),
        ({15: "20231101", 16: "20231231"}, "Header field 16 (Datum bis): 2023-12-31 lies before the fiscal year"),
        ({15: "20240601", 16: "20240531"}, "Header field 16 (Datum bis): 2024-05-31 lies before the Datum von"),
        ({19: "3"}, "Header field 19 (Buchungstyp): '3'"),
        ({21: "2"}, "Header field 21 (Festschreibung): '2'"),
        ({22: '"Euro"'}, "Header field 22 (WKZ): 'Euro'"),
    ],
)
def test_a_wrong_header_field_is_named(fields: dict[int, str], named: str) -> None:
    with pytest.raises(ExtfError) as refused:
        read(text_of(satz(), header=fields))
    assert named in str(refused.value)


def test_a_header_of_30_fields_is_refused() -> None:
    line = header_line().removesuffix(';""')
    with pytest.raises(ExtfError, match="The header has 30 fields, not 31"):
        read(text_of(satz()).replace(header_line(), line))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "The file is empty"),
        ("\ufeff", "The file is empty"),
        ("\r\n", "begins with ''"),
        ("Umsatz;Konto\r\n", "begins with 'Umsatz'"),
        (header_line(), "Line 2 has 0 column titles"),
        ('"EXTF;700\r\n', "Line 1 cannot be read: A quoted text is not closed"),
    ],
)
def test_what_is_no_such_file_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ExtfError, match=reason):
        read(text.encode("utf-8"))


def test_an_older_version_has_fewer_columns() -> None:
    titles, row = ";".join(BUCHUNGSSTAPEL.titles[:116]), ";".join(satz(changed={114: "1"}).split(";")[:116])
    for version in ("7", "9", "12"):
        (found,) = read(text_of(row, titles=titles, header={2: "510", 5: version}))
        assert isinstance(found, Buchungssatz)
        assert (found.buchungstext, found.weitere) == ("Rechnung", '{"114":"1"}')


def test_an_older_version_may_end_after_the_text() -> None:
    titles = ";".join(BUCHUNGSSTAPEL.titles[:14])
    (found,) = read(text_of("119,00;S;;;;;10001;8400;;1503;RE-1;;;Rechnung", titles=titles, header={5: "7"}))
    assert isinstance(found, Buchungssatz)
    assert (found.umsatz, found.kost1, found.generalumkehr, found.weitere) == (11900, "", False, "")


def test_account_names_of_version_2_have_no_long_column() -> None:
    text = text_of(
        "1200;Bank;de-DE", category=KONTENBESCHRIFTUNGEN, titles="Konto;Kontenbeschriftung;Sprach-ID", header={5: "2"}
    )
    assert read(text) == [Kontobeschriftung(3, "1200", "Bank", "de-DE")]


def test_titles_may_be_spelt_as_other_programs_spell_them() -> None:
    titles = with_columns(
        ";".join(BUCHUNGSSTAPEL.titles),
        {
            5: "Basisumsatz",
            7: "Kontonummer",
            8: "Gegenkonto (ohne BU-Schluessel)",
            37: "KOST1 – Kostenstelle",
            121: "Referenz",
        },
    )
    assert isinstance(read(text_of(satz(), titles=titles))[0], Buchungssatz)


@pytest.mark.parametrize(
    ("titles", "reason"),
    [
        (";".join(BUCHUNGSSTAPEL.titles[:124]), "Line 2 has 124 column titles; Buchungsstapel version 13 has 125"),
        (";".join((*BUCHUNGSSTAPEL.titles, "Mehr")), "Line 2 has 126 column titles"),
        (
            with_columns(";".join(BUCHUNGSSTAPEL.titles), {7: "Gegenkonto", 8: "Konto"}),
            "column 7 is titled 'Gegenkonto', not 'Konto'",
        ),
        (with_columns(";".join(BUCHUNGSSTAPEL.titles), {37: "Stelle"}), "column 37 is titled 'Stelle'"),
    ],
)
def test_other_titles_are_refused(titles: str, reason: str) -> None:
    with pytest.raises(ExtfError, match=reason):
        read(text_of(satz(), titles=titles))


def test_a_message_does_not_repeat_a_whole_page() -> None:
    with pytest.raises(ExtfError) as refused:
        read(text_of(satz(), header={11: "9" * 5000}))
    assert len(str(refused.value)) < 310
