"""The header decides whether a file can be read at all; the titles decide nothing."""

from __future__ import annotations

from datetime import date, datetime
from io import BytesIO

import pytest

from kontobahn.formats.extf import (
    BUCHUNGSSTAPEL,
    KONTENBESCHRIFTUNGEN,
    PERSONENKONTEN,
    ZAHLUNGSBEDINGUNGEN,
    Buchungssatz,
    ExtfError,
    Kontobeschriftung,
    open_extf,
)
from tests.unit.formats.extf.files import (
    header_line,
    read,
    read_all,
    read_satz,
    satz,
    text_of,
    warnings_of,
    with_columns,
)


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
        ({2: "299"}, "Header field 2 (Versionsnummer): '299'"),
        ({2: ""}, "Header field 2 (Versionsnummer): ''"),
        ({3: "44"}, "(Formatkategorie): '44' is Textschlüssel, which is known, but not supported."),
        ({3: "48"}, "(Formatkategorie): '48' is Diverse Adressen, which is known, but not supported."),
        ({3: "65"}, "(Formatkategorie): '65' is Wiederkehrende Buchungen, which is known, but not supported."),
        ({3: "66"}, "(Formatkategorie): '66' is Natural-Stapel, which is known, but not supported."),
        ({3: "67"}, "(Formatkategorie): '67' is Buchungstextkonstanten, which is known, but not supported."),
        ({3: "99"}, "Header field 3 (Formatkategorie): '99' is not a known category; 16, 20, 21, 46 are."),
        ({3: "x"}, "Header field 3 (Formatkategorie): 'x'"),
        ({5: "1"}, "(Formatversion): '1' is not a version of Buchungsstapel that can be read; 2 and later are."),
        ({5: "x"}, "Header field 5 (Formatversion): 'x'"),
        ({13: ""}, "Header field 13 (WJ-Beginn): ''"),
        ({13: "20240230"}, "Header field 13 (WJ-Beginn): '20240230'"),
        ({14: "3"}, "Header field 14 (Sachkontenlänge): '3' is not a number from 4 to 8."),
        ({22: '"Euro"'}, "Header field 22 (WKZ): 'Euro'"),
    ],
)
def test_a_wrong_header_field_is_named(fields: dict[int, str], named: str) -> None:
    with pytest.raises(ExtfError) as refused:
        read(text_of(satz(), header=fields))
    assert named in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "column", "found"),
    [
        ({5: "14"}, "Formatversion", "Version 14 of Buchungsstapel is newer than 13"),
        ({6: "2024-06-07"}, "Erzeugt am", "'2024-06-07'"),
        ({6: "20241307101112131"}, "Erzeugt am", "'20241307101112131'"),
        ({11: "1000"}, "Berater", "'1000' is not a number from 1001 to 9999999."),
        ({12: "100000"}, "Mandant", "'100000'"),
        ({12: "²"}, "Mandant", "'²'"),
        ({15: "01012024", 16: "20241231"}, "Datum von", "'01012024'"),
        ({15: "", 16: ""}, "Datum von", "The period of the file is not given."),
        ({15: "20250101", 16: "20250131"}, "Datum von", "not within the fiscal year from 2024-01-01 to 2024-12-31"),
        ({15: "20231101", 16: "20231231"}, "Datum von", "2023-11-01 to 2023-12-31"),
        ({15: "20240301", 16: "20250131"}, "Datum von", "2024-03-01 to 2025-01-31"),
        ({15: "20240601", 16: "20240531"}, "Datum von", "ends before it begins"),
        ({19: "3"}, "Buchungstyp", "'3' is none of 1, 2."),
        ({21: "2"}, "Festschreibung", "'2' is none of 0, 1."),
    ],
)
def test_what_a_file_can_do_without_is_warned_about(fields: dict[int, str], column: str, found: str) -> None:
    (warning,) = warnings_of(text_of(satz(), header=fields))
    assert (warning.line, warning.column) == (1, column)
    assert found in warning.found
    assert warning.done.endswith(".")
    assert read_satz(satz(), header=fields).belegdatum == "2024-03-15"


def test_only_postings_have_a_period() -> None:
    assert warnings_of(text_of("10001;", category=PERSONENKONTEN)) == []


@pytest.mark.parametrize("count", [14, 21, 26, 31, 124])
def test_a_header_may_have_fewer_fields_or_more(count: int) -> None:
    line = ";".join([*header_line().split(";"), *[""] * 100][:count])
    text = text_of(satz()).replace(header_line(), line)
    with open_extf(BytesIO(text.encode("cp1252"))) as file:
        assert len(list(file)) == 1
    assert (file.header.waehrung, file.header.buchungstyp) == ("EUR", 1)
    assert file.header.skr == ("03" if count > 26 else "")
    assert [warning.column for warning in file.warnings] == (["Datum von"] if count == 14 else [])


def test_what_stands_beyond_the_header_is_warned_about() -> None:
    text = text_of(satz()).replace(header_line(), header_line() + ";;mehr")
    assert warnings_of(text) == [
        (1, "", "The header goes on after its last field, 31, with 'mehr'.", "It was left out.")
    ]


def test_quotes_in_the_header_make_no_difference() -> None:
    quoted = ";".join(f'"{field}"' for field in header_line().replace('"', "").split(";"))
    bare = header_line().replace('"', "")
    headers = []
    for line in (header_line(), quoted, bare):
        with open_extf(BytesIO(text_of(satz()).replace(header_line(), line).encode("cp1252"))) as file:
            headers.append(file.header)
            assert file.warnings == []
    assert headers[0] == headers[1] == headers[2]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("", None),
        ("20240607101112", datetime(2024, 6, 7, 10, 11, 12)),
        ("20240607101112131", datetime(2024, 6, 7, 10, 11, 12, 131_000)),
        ("20240607101112131415", datetime(2024, 6, 7, 10, 11, 12, 131_415)),
    ],
)
def test_the_time_of_making_may_have_14_17_or_20_digits(text: str, moment: datetime | None) -> None:
    with open_extf(BytesIO(text_of(satz(), header={6: text}).encode("cp1252"))) as file:
        assert (file.header.erzeugt_am, file.warnings) == (moment, [])


@pytest.mark.parametrize(
    ("text", "skr"), [('"03"', "03"), ("3", "03"), ("SKR04", "04"), ("0049", "49"), ("", ""), ("IKR", "IKR")]
)
def test_the_chart_is_known_however_it_is_spelt(text: str, skr: str) -> None:
    with open_extf(BytesIO(text_of(satz(), header={27: text}).encode("cp1252"))) as file:
        assert (file.header.skr, file.header.has_chart) == (skr, True)


def test_terms_of_payment_have_no_chart() -> None:
    text = text_of(category=ZAHLUNGSBEDINGUNGEN, header={14: "", 27: ""})
    with open_extf(BytesIO(text.encode("cp1252"))) as file:
        assert file.header.has_chart is False


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "The file is empty"),
        ("\ufeff", "The file is empty"),
        ("\r\n", "begins with ''"),
        ("Umsatz;Konto\r\n", "begins with 'Umsatz'"),
        (header_line(), "The file ends after its header, line 1."),
        ('"EXTF;700\r\n', "Line 1 cannot be read: A quoted text is not closed"),
    ],
)
def test_what_is_no_such_file_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ExtfError, match=reason):
        read(text.encode("utf-8"))


def test_an_older_version_has_fewer_columns() -> None:
    titles, row = ";".join(BUCHUNGSSTAPEL.titles[:116]), ";".join(satz(changed={114: "1"}).split(";")[:116])
    for header, version in (("300", "2"), ("510", "5"), ("510", "7"), ("700", "9"), ("700", "12"), ("710", "13")):
        (found,) = read(text_of(row, titles=titles, header={2: header, 5: version}))
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


@pytest.mark.parametrize(
    "titles",
    [
        "Umsatz;S/H;WKZ;Kurs;Basisumsatz;WKZ;Kontonummer;Gegenkonto;BU;Rechnungsdatum;Beleg;;Rabatt;Text",
        ";".join(BUCHUNGSSTAPEL.titles[:124]),
        ";".join((*BUCHUNGSSTAPEL.titles, "Mehr")),
        with_columns(";".join(BUCHUNGSSTAPEL.titles), {7: "Gegenkonto", 8: "Konto", 37: "KOST1 – Kostenstelle"}),
        ";" * 20,
        '"not closed;',
    ],
)
def test_titles_are_for_people_and_columns_go_by_position(titles: str) -> None:
    text = text_of(satz(changed={37: "Lager"}), titles=titles)
    assert read_all(text) == read_all(text_of(satz(changed={37: "Lager"})))
    assert len(read_all(text)) == 1


def test_a_row_in_place_of_the_titles_is_not_lost() -> None:
    for row in (satz(), ";".join(f'"{field}"' for field in satz().split(";"))):
        text = text_of(satz(), titles=row)
        assert [found.line for found in read(text)] == [2, 3]
        assert warnings_of(text) == [(2, "", "The line holds a row instead of titles.", "It was read as a row.")]


def test_a_message_does_not_repeat_a_whole_page() -> None:
    with pytest.raises(ExtfError) as refused:
        read(text_of(satz(), header={13: "9" * 5000}))
    assert len(str(refused.value)) < 310
