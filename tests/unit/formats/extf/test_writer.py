"""Everything that is written follows the rules of the format, and nothing is written that could not be read."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kontobahn.formats.extf import (
    BUCHUNGSSTAPEL,
    KONTENBESCHRIFTUNGEN,
    PERSONENKONTEN,
    ZAHLUNGSBEDINGUNGEN,
    Bankverbindung,
    Buchungssatz,
    ExtfError,
    Header,
    Kontobeschriftung,
    Personenkonto,
    Zahlungsbedingung,
    Zeitraum,
    file_name,
    open_extf,
    write_buchungsstapel,
    write_kontenbeschriftungen,
    write_personenkonten,
    write_zahlungsbedingungen,
)
from tests.unit.formats.extf.files import header_2024

SATZ = Buchungssatz(
    line=0, umsatz=11900, soll=True, waehrung="EUR", kurs="", basis_umsatz=None, konto="10001", gegenkonto="8400",
    bu_schluessel="", belegdatum="2024-03-15", belegfeld1="RE-1", belegfeld2="", skonto=0, buchungstext='Büro; "A4"',
    kost1="", kost2="", generalumkehr=False, weitere='{"114":"0"}',
)  # fmt: skip
PERSON = Personenkonto(
    line=0, konto="10001", name="Beck", vorname="Ada", firmenname="", name_ohne_angabe="", adressattyp="1", anrede="",
    ust_id="", adressen=(), telefon="", email="", fax="", bankverbindungen=(), zahlungsbedingung=0, kurzbezeichnung="",
    weitere="",
)  # fmt: skip
BEDINGUNG = Zahlungsbedingung(0, 14, "14 Tage", 1, Decimal("0.00"), 0, Decimal("0.00"), 0, 14, (), 0)


def written(*saetze: Buchungssatz, header: Header | None = None) -> bytes:
    target = io.BytesIO()
    assert write_buchungsstapel(target, header or header_2024(), saetze) == len(saetze)
    return target.getvalue()


def test_a_file_follows_the_rules_of_the_format() -> None:
    lines = written(SATZ).decode("cp1252").split("\r\n")
    assert lines[0] == (
        '"EXTF";700;21;"Buchungsstapel";13;20240607101112131;;"KB";"";"";4711;12;20240101;4;20240101;20241231;"Probe";"";1;;0;'
        '"EUR";;"";;;"03";;;"";""'
    )
    assert lines[1].split(";") == list(BUCHUNGSSTAPEL.titles)
    assert lines[2].startswith('119,00;"S";"";;;"";10001;8400;"";1503;"RE-1";"";;"Büro; ""A4""";;"";;;;"";"";')
    assert len(next(csv.reader([lines[2]], delimiter=";"))) == 125
    assert lines[3:] == [""]


def test_a_foreign_currency_is_written_with_its_base_amount() -> None:
    data = written(SATZ._replace(waehrung="CHF", kurs="1,08", basis_umsatz=11019))
    assert b'119,00;"S";"CHF";1,08;110,19;"EUR";10001;' in data


def test_a_reversal_is_marked_once() -> None:
    new, old = (
        written(SATZ._replace(generalumkehr=True)),
        written(SATZ._replace(generalumkehr=True, bu_schluessel="20")),
    )
    column = [next(csv.reader([data.decode("cp1252").split("\r\n")[2]], delimiter=";"))[117] for data in (new, old)]
    assert column == ["1", ""]


@pytest.mark.parametrize(
    ("text", "mark"),
    [("Büro – 5 €", b""), ("Łódź", codecs.BOM_UTF8), ("日本", codecs.BOM_UTF8)],
)
def test_code_page_1252_is_left_only_where_it_does_not_suffice(text: str, mark: bytes) -> None:
    data = written(SATZ, SATZ._replace(buchungstext=text), SATZ)
    assert data.startswith(mark + b'"EXTF"')
    assert data.decode("utf-8-sig" if mark else "cp1252").count(text) == 1


def test_a_text_that_would_pass_for_utf8_is_written_as_utf8() -> None:
    konto = Kontobeschriftung(3, "1200", "Ã¼", "de-DE")
    target = io.BytesIO()
    write_kontenbeschriftungen(target, header_2024(KONTENBESCHRIFTUNGEN), [konto])
    assert target.getvalue().startswith(codecs.BOM_UTF8)
    assert list(open_extf(target)) == [konto]


def test_a_long_file_is_recoded_across_its_blocks() -> None:
    saetze = [SATZ._replace(line=3 + n, buchungstext="ü" * 60, belegfeld1=f"RE-{n}") for n in range(5_000)]
    for texts in ([], [SATZ._replace(line=5_003, buchungstext="Ł")]):
        assert list(open_extf(io.BytesIO(written(*saetze, *texts)))) == [*saetze, *texts]


def test_a_path_gets_a_whole_file_or_none(tmp_path: Path) -> None:
    path = tmp_path / "EXTF_probe.csv"
    path.write_bytes(b"before")

    def saetze() -> Iterator[Buchungssatz]:
        yield SATZ
        raise RuntimeError("the database went away")

    with pytest.raises(RuntimeError):
        write_buchungsstapel(path, header_2024(), saetze())
    assert path.read_bytes() == b"before"
    assert write_buchungsstapel(str(path), header_2024(), [SATZ]) == 1
    assert path.read_bytes() == written(SATZ)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"umsatz": 0}, "Umsatz (ohne Soll/Haben-Kz): '0,00' is not greater than zero."),
        ({"umsatz": -1}, "Umsatz (ohne Soll/Haben-Kz): '-1,99' is not an amount"),
        ({"konto": "840;0"}, "Gegenkonto (ohne BU-Schlüssel): '0' is neither"),
        ({"konto": "85"}, "konto '85' would be read back as '0085'."),
        ({"gegenkonto": "10001"}, "Gegenkonto (ohne BU-Schlüssel): '10001' is the Konto itself."),
        (
            {"belegdatum": "2025-01-01", "buchungstext": "x"},
            "belegdatum '2025-01-01' would be read back as '2024-01-01'.",
        ),
        ({"buchungstext": "two\nlines"}, "Buchungstext: The text holds the control character 0x0A."),
        ({"buchungstext": "half \ud83d"}, "A text contains half a character, U+D83D."),
        ({"waehrung": "CHF"}, "Basis-Umsatz: "),
        ({"kurs": '1"'}, "kurs '1\"' would be read back as ''."),
        ({"bu_schluessel": "20"}, "generalumkehr False would be read back as True."),
        ({"weitere": '{"7":"1"}'}, "'7' is not the number of a further column."),
        ({"weitere": '{"20":1}'}, "is not a JSON object of texts."),
        ({"weitere": "x"}, "'x' is not a JSON object of texts."),
        ({"weitere": '{"20":"a\\u0000b"}'}, "Beleglink: The text holds the control character 0x00."),
    ],
)
def test_a_posting_that_could_not_be_read_is_not_written(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(ExtfError) as refused:
        written(SATZ, SATZ._replace(**changed))
    assert reason in str(refused.value)
    assert "Record 2 cannot be written" in str(refused.value) or "half" in reason


def test_the_order_of_further_columns_does_not_matter() -> None:
    data = written(SATZ._replace(weitere='{"115": "15032024", "20": "x"}'))
    (found,) = open_extf(io.BytesIO(data)).buchungssaetze()
    assert isinstance(found, Buchungssatz)
    assert found.weitere == '{"20":"x","115":"15032024"}'


def test_what_the_books_hold_is_written_even_where_it_is_longer_than_the_format_allows() -> None:
    long = SATZ._replace(buchungstext="x" * 61, belegfeld1="RE 1", bu_schluessel="9a")
    data = written(*[long] * 250)
    assert [row[1:] for row in open_extf(io.BytesIO(data)) if isinstance(row, Buchungssatz)] == [long[1:]] * 250


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"sachkontenlaenge": 3}, "Header field 14 (Sachkontenlänge): '3'"),
        ({"bezeichnung": "x" * 31}, "Header field 17 (Bezeichnung): "),
        ({"herkunft": "ABC"}, "Header field 8 (Herkunft): 'ABC' is longer than 2 characters."),
        ({"bezeichnung": "a\nb"}, "The header cannot be written: The text holds the control character 0x0A."),
        ({"berater": 5}, "The header cannot be written: Berater: '5'"),
        ({"datum_bis": date(2025, 1, 31)}, "The header cannot be written: Datum von: The period from 2024-01-01"),
    ],
)
def test_a_wrong_header_is_not_written(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(ExtfError) as refused:
        written(SATZ, header=header_2024()._replace(**changed))
    assert reason in str(refused.value)


def test_what_else_cannot_be_written_is_reported() -> None:
    zeitraum = Zeitraum(10, 0, 0, 0, 0, 31, 0)
    for bedingung, reason in (
        (BEDINGUNG._replace(zeitraeume=(zeitraum,) * 4), "periods are more than three"),
        (BEDINGUNG._replace(skonto1_prozent=Decimal("2.345")), "skonto1_prozent"),
        (BEDINGUNG._replace(zeitraeume=(Zeitraum(0, 0, 1, 0, 0, 0, 0),)), "zeitraeume"),
    ):
        with pytest.raises(ExtfError, match=reason):
            write_zahlungsbedingungen(io.BytesIO(), header_2024(ZAHLUNGSBEDINGUNGEN), [bedingung])
    for person, reason in (
        (
            PERSON._replace(bankverbindungen=(Bankverbindung(11, "x", "", "", haupt=False),)),
            "'11' is not the number of a bank",
        ),
        (PERSON._replace(konto="8400"), "Konto: '8400' is not a Personenkonto of 5 digits"),
    ):
        with pytest.raises(ExtfError, match=reason):
            write_personenkonten(io.BytesIO(), header_2024(PERSONENKONTEN), [person])


@dataclass
class OneWay:
    """A stream that cannot go back, such as the body of an answer."""

    blocks: list[bytes] = field(default_factory=list)

    def write(self, data: bytes) -> int:
        self.blocks.append(data)
        return len(data)


def test_a_stream_that_cannot_go_back_is_good_enough() -> None:
    target: Any = OneWay()
    write_buchungsstapel(target, header_2024(), [SATZ])
    assert b"".join(target.blocks) == written(SATZ)


def test_a_file_name_follows_the_pattern() -> None:
    header = header_2024()._replace(berater=9_999_999, mandant=99_999)
    assert file_name(header) == "EXTF_Buchungsstapel_9999999_99999_20240101_20241231.csv"
    persons = header._replace(
        category=PERSONENKONTEN.number, datum_von=None, datum_bis=None, wj_beginn=date(2024, 7, 1)
    )
    assert file_name(persons) == "EXTF_Debitoren_Kreditoren_9999999_99999_20240701.csv"
    for name in (file_name(header), file_name(persons)):
        assert re.fullmatch(r"EXTF_.{0,51}.csv", name)
