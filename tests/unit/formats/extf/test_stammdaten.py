"""Customers, suppliers, names of accounts and terms of payment."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from kontobahn.formats.extf import (
    KONTENBESCHRIFTUNGEN,
    PERSONENKONTEN,
    ZAHLUNGSBEDINGUNGEN,
    Adresse,
    Bankverbindung,
    Kontobeschriftung,
    Personenkonto,
    Zahlungsbedingung,
    Zeitraum,
    display_name,
)
from tests.unit.formats.extf.files import Columns, read, refusal, text_of, warnings_of, with_columns


def person_row(changed: Columns) -> str:
    return with_columns("10001", changed, 254)


def read_person(changed: Columns) -> Personenkonto:
    (found,) = read(text_of(person_row(changed), category=PERSONENKONTEN))
    assert isinstance(found, Personenkonto), found
    return found


def test_every_column_of_a_company_that_has_a_meaning_is_read() -> None:
    columns = {
        1: "70001", 2: '"Grünholz GmbH & Co. ""KG"""', 3: '"Möbel"', 7: '"2"', 8: '"Grünholz"', 9: '"DE"',
        10: '"123456789"', 11: '"Firma"', 15: '"STR"', 16: '"Ringstraße 5"', 17: '"1234"', 18: '"04109"', 19: '"Köln"',
        20: '"DE"', 22: '"Hof 2"', 29: '"0221 5"', 33: '"a@gruenholz.example"', 37: '"0221 6"', 41: '"12345678"',
        42: '"Hausbank"', 45: '"DE02120300000000202051"', 47: '"BYLADEM1001"', 49: '"1"', 64: '"Zweitbank"',
        67: '"DE02500105170137075030"', 71: '"0"', 109: "14", 154: '"Postweg 1"', 156: '"50667"', 157: '"Köln"', 222: '"M-1"',
    }  # fmt: skip
    found = read_person(columns)
    assert json.loads(found.weitere) == {"3": "Möbel", "15": "STR", "41": "12345678", "222": "M-1"}
    assert found._replace(weitere="") == Personenkonto(
        line=3, konto="70001", name="", vorname="", firmenname='Grünholz GmbH & Co. "KG"', name_ohne_angabe="",
        adressattyp="2", anrede="Firma", ust_id="DE123456789",
        adressen=(
            Adresse("Ringstraße 5", "1234", "04109", "Köln", "DE", "Hof 2"),
            Adresse("Postweg 1", "", "50667", "Köln", "", "", rechnung=True),
        ),
        telefon="0221 5", email="a@gruenholz.example", fax="0221 6",
        bankverbindungen=(
            Bankverbindung(1, "DE02120300000000202051", "BYLADEM1001", "Hausbank", haupt=True),
            Bankverbindung(3, "DE02500105170137075030", "", "Zweitbank", haupt=False),
        ),
        zahlungsbedingung=14, kurzbezeichnung="Grünholz", weitere="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        ({2: "Grünholz GmbH", 4: "Falsch"}, "Grünholz GmbH"),
        ({4: "Beck", 5: "Ada", 7: "1"}, "Ada Beck"),
        ({4: "Beck"}, "Beck"),
        ({6: "Laufkundschaft", 7: "0"}, "Laufkundschaft"),
        ({8: "Kurz"}, "Kurz"),
        ({}, ""),
    ],
)
def test_a_person_a_company_and_what_is_neither_have_a_name(columns: Columns, name: str) -> None:
    assert display_name(read_person(columns)) == name


def test_an_account_with_nothing_but_its_number_is_accepted() -> None:
    found = read_person({})
    assert (found.adressen, found.bankverbindungen, found.zahlungsbedingung, found.weitere) == ((), (), 0, "")


def test_a_file_of_the_year_before_has_243_columns() -> None:
    titles = ";".join(PERSONENKONTEN.titles[:243]).replace("IBAN-Nr. ", "IBAN ").replace("EU-UStID", "EU-USt-IdNr.")
    row = with_columns("10001", {45: "DE02120300000000202051"}, 243)
    (found,) = read(text_of(row, category=PERSONENKONTEN, titles=titles))
    assert isinstance(found, Personenkonto)
    assert found.bankverbindungen == (Bankverbindung(1, "DE02120300000000202051", "", "", haupt=False),)


@pytest.mark.parametrize(
    ("changed", "column"),
    [
        ({1: "1000"}, "Konto"),
        ({1: "01000"}, "Konto"),
        ({1: "100000"}, "Konto"),
        ({1: "", 2: "Beck"}, "Konto"),
    ],
)
def test_what_a_personenkonto_cannot_hold_is_refused(changed: Columns, column: str) -> None:
    found = refusal(person_row(changed), PERSONENKONTEN)
    assert (found.line, found.column) == (3, column)
    assert f"'{next(iter(changed.values()))}'" in found.reason or found.reason == "The account is missing."


@pytest.mark.parametrize(
    ("changed", "column", "read_as"),
    [
        ({2: "x" * 51}, "Name (Adressattyp Unternehmen)", {"firmenname": "x" * 51}),
        ({10: "1" * 14}, "EU-UStID", {"ust_id": "1" * 14}),
        ({16: "x" * 37}, "Straße", {"adressen": (Adresse("x" * 37, "", "", "", "", ""),)}),
        ({158: "DEU"}, "Land (Rechnungsadresse)", {"adressen": (Adresse("", "", "", "", "DEU", "", rechnung=True),)}),
        ({56: "x" * 35}, "IBAN-Nr. 2", {"bankverbindungen": (Bankverbindung(2, "x" * 35, "", "", haupt=False),)}),
        ({7: "3"}, "Adressattyp", {"adressattyp": ""}),
        ({49: "ja"}, "Kennz. Hauptbankverb. 1", {"bankverbindungen": ()}),
        ({109: "1000"}, "Zahlungsbedingung", {"zahlungsbedingung": 0}),
        ({3: "Beck KG"}, "Unternehmensgegenstand", {"firmenname": "Beck KG", "weitere": '{"3":"Beck KG"}'}),
    ],
)
def test_what_a_personenkonto_should_not_hold_is_taken_with_a_warning(
    changed: Columns, column: str, read_as: dict[str, object]
) -> None:
    (warning,) = warnings_of(text_of(person_row(changed), category=PERSONENKONTEN))
    assert (warning.line, warning.column) == (3, column)
    assert f"'{next(iter(changed.values()))}'" in warning.found
    person = read_person(changed)
    assert person._asdict() == read_person({})._asdict() | read_as


def test_a_file_of_persons_may_have_ten_titles_and_an_older_version() -> None:
    titles = ";".join(PERSONENKONTEN.titles[:10])
    for count in (2, 10, 243, 254):
        row = with_columns("10001", {2: "Beck GmbH"}, count)
        (found,) = read(text_of(row, category=PERSONENKONTEN, titles=titles, header={5: "4"}))
        assert isinstance(found, Personenkonto)
        assert display_name(found) == "Beck GmbH"


def test_the_long_name_of_an_account_wins() -> None:
    rows = (
        '85;"Grundst.";"de-DE";"Grundstückswerte eigener bebauter Grundstücke"',
        '1200;"Bank";"de-DE";""',
        "10001;Beck;;",
    )
    assert read(text_of(*rows, category=KONTENBESCHRIFTUNGEN)) == [
        Kontobeschriftung(3, "0085", "Grundstückswerte eigener bebauter Grundstücke", "de-DE"),
        Kontobeschriftung(4, "1200", "Bank", "de-DE"),
        Kontobeschriftung(5, "10001", "Beck", ""),
    ]


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("x;Bank;de-DE;", "Konto"),
        ("1200;;de-DE;", "Kontobeschriftung"),
    ],
)
def test_a_wrong_name_of_an_account_is_refused(row: str, column: str) -> None:
    assert refusal(row, KONTENBESCHRIFTUNGEN).column == column


@pytest.mark.parametrize(
    ("row", "column", "name"),
    [
        (f"1200;{'x' * 41};de-DE;", "Kontobeschriftung", "x" * 41),
        (f"1200;Bank;de-DE;{'x' * 301}", "Kontenbeschriftung lang", "x" * 301),
        ("1200;Bank;deutsch;", "SprachId", "Bank"),
    ],
)
def test_a_name_that_is_too_long_is_kept_whole_with_a_warning(row: str, column: str, name: str) -> None:
    text = text_of(row, category=KONTENBESCHRIFTUNGEN)
    assert [warning.column for warning in warnings_of(text)] == [column]
    (found,) = read(text)
    assert isinstance(found, Kontobeschriftung)
    assert found.beschriftung == name


def bedingung_row(beginning: str, changed: Columns | None = None) -> str:
    return with_columns(beginning, changed or {}, 31)


def test_terms_by_days() -> None:
    row = bedingung_row('11;"3 % 7 Tage, 2 % 14 Tage";1;300;7;200;14;30', {11: "0", 13: "0", 31: "0"})
    assert read(text_of(row, category=ZAHLUNGSBEDINGUNGEN)) == [
        Zahlungsbedingung(3, 11, "3 % 7 Tage, 2 % 14 Tage", 1, Decimal("3.00"), 7, Decimal("2.00"), 14, 30, (), 0)
    ]


def test_terms_by_periods_of_the_month() -> None:
    row = '15;"Zweimal im Monat";2;250;0;000;0;0;15;25;0;;0;31;0;31;10;1;;0;15;1;;;;;;;;"";1'
    (found,) = read(text_of(row, category=ZAHLUNGSBEDINGUNGEN))
    assert isinstance(found, Zahlungsbedingung)
    assert (found.skonto1_prozent, found.skonto2_prozent, found.verwendung) == (Decimal("2.50"), Decimal("0.00"), 1)
    assert found.zeitraeume == (Zeitraum(15, 25, 0, 0, 0, 31, 0), Zeitraum(31, 10, 1, 0, 0, 15, 1))


def test_odd_terms_are_accepted_nevertheless() -> None:
    row = bedingung_row("20;Seltsam;1;200;14;2200;7;5")
    (found,) = read(text_of(row, category=ZAHLUNGSBEDINGUNGEN))
    assert isinstance(found, Zahlungsbedingung)
    assert (found.skonto2_prozent, found.faellig_tage) == (Decimal("22.00"), 5)


def test_a_percentage_with_a_comma_says_itself_what_it_means() -> None:
    (found,) = read(text_of(bedingung_row("20;Komma;1;2,5;14"), category=ZAHLUNGSBEDINGUNGEN))
    assert isinstance(found, Zahlungsbedingung)
    assert found.skonto1_prozent == Decimal("2.50")


@pytest.mark.parametrize(
    ("beginning", "column"),
    [
        (";Leer;1", "Nummer"),
        ("1000;Zu groß;1", "Nummer"),
        ("20;Kein Typ;", "Fälligkeitstyp"),
        ("20;Typ 3;3", "Fälligkeitstyp"),
        ("20;Über hundert;1;10001", "Skonto 1%"),
        ("20;Negativ;1;-300", "Skonto 1%"),
        ("20;Negativ;1;300;-1", "Skonto 1 Tage"),
        ("20;Kein Prozent;1;300;1;x", "Skonto 2 %"),
        ("20;Kein Tag;2;;;;;;32", "Rechnung bis / Zeitraum 1"),
        ("20;Kein Monat;2;;;;;;31;10;10", "Skonto 1 Monat / Zeitraum 1"),
    ],
)
def test_terms_that_cannot_be_represented_are_refused(beginning: str, column: str) -> None:
    assert refusal(bedingung_row(beginning), ZAHLUNGSBEDINGUNGEN).column == column


def test_a_description_that_is_too_long_is_kept_whole_with_a_warning() -> None:
    text = text_of(bedingung_row(f"20;{'x' * 41};1"), category=ZAHLUNGSBEDINGUNGEN)
    assert [warning.column for warning in warnings_of(text)] == ["Bezeichnung"]
    assert "x" * 41 in read(text)[0]
