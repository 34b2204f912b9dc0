"""Files of other categories as other programs write them, and files with rows that nobody can book."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.formats.extf.format import KONTENBESCHRIFTUNGEN_TITLES, PERSONENKONTEN_TITLES, ZAHLUNGSBEDINGUNGEN_TITLES
from tests.corpus.extf.dialects import header, lines, rows, titles


class MasterData(NamedTuple):
    """A file; the names of accounts, or the descriptions of terms, that come out of it; lines and columns of its warnings."""

    content: bytes
    names: dict[str, str]
    warnings: tuple[tuple[int, str], ...] = ()


def _header(category: int, name: str, version: int, **changed: str) -> str:
    """No period, no currency; only postings have those."""
    without = {15: "", 16: "", 19: "", 21: "", 22: ""}
    fields = {int(number.removeprefix("field")): value for number, value in changed.items()}
    return header({3: str(category), 4: name, 5: str(version), **without, **fields})


def _person(konto: str, column: int, name: str, columns: int) -> str:
    return ";".join({1: konto, column: name}.get(number, "") for number in range(1, columns + 1))


def customers_of_a_shop_with_ten_titles() -> MasterData:
    """Version 4, ten titles over 243 columns; names in the columns 2, 3 and 6."""
    people = [
        _person("10001", 2, '"Müller GmbH"', 243),
        _person("10002", 3, '"Beck KG"', 243),
        _person("10003", 6, '"Laufkundschaft"', 243),
    ]
    return MasterData(
        lines(_header(16, "Debitoren/Kreditoren", 4), ";".join(PERSONENKONTEN_TITLES[:10]), *people, encoding="utf-8"),
        {"100010000": "Müller GmbH", "100020000": "Beck KG", "100030000": "Laufkundschaft"},
        ((4, "Unternehmensgegenstand"),),
    )


def suppliers_of_an_erp_with_all_columns() -> MasterData:
    long = "Vereinigte Werkstätten für Holz und Metall Sachsen GmbH & Co. KG"
    return MasterData(
        lines(
            _header(16, "Debitoren/Kreditoren", 5),
            ";".join(PERSONENKONTEN_TITLES),
            _person("70001", 2, f'"{long}"', 254),
            end="\n",
        ),
        {"700010000": long},
        ((3, "Name (Adressattyp Unternehmen)"),),
    )


def labels_without_the_long_column() -> MasterData:
    body = ('1200;"Hausbank";"de-DE"', "4970;Kosten des Geldverkehrs")
    return MasterData(
        lines(_header(20, "Kontenbeschriftungen", 2), ";".join(KONTENBESCHRIFTUNGEN_TITLES[:3]), *body),
        {"12000000": "Hausbank", "49700000": "Kosten des Geldverkehrs"},
    )


def terms_of_payment_without_a_chart() -> MasterData:
    """Neither a chart nor a length of account numbers; columns end after the days."""
    head = _header(46, "Zahlungsbedingungen", 2, field14="", field27="")
    return MasterData(
        lines(head, ";".join(ZAHLUNGSBEDINGUNGEN_TITLES[:8]), '11;"14 Tage netto";1;000;0;000;0;14'),
        {"11": "14 Tage netto"},
    )


def terms_of_payment_for_another_chart() -> MasterData:
    head = _header(46, "Zahlungsbedingungen", 2, field27="04")
    return MasterData(
        lines(head, ";".join(ZAHLUNGSBEDINGUNGEN_TITLES), '12;"sofort";1;000;0;000;0;0'), {"12": "sofort"}
    )


MASTER_DATA = (
    customers_of_a_shop_with_ten_titles, suppliers_of_an_erp_with_all_columns, labels_without_the_long_column,
    terms_of_payment_without_a_chart, terms_of_payment_for_another_chart,
)  # fmt: skip


# --- Rows that nobody can book: the file, and the lines and columns that are refused


class Unbookable(NamedTuple):
    content: bytes
    refused: tuple[tuple[int, str], ...]


def broken_quotes() -> Unbookable:
    body = rows()
    body[1] = body[1].replace('"Büromaterial"', '"Büro "und"; Material"')
    body[3] = body[3].replace('"Kontoführung"', '"Kontoführung')
    return Unbookable(lines(header(), titles(), *body), ((4, ""), (6, "")))


def account_against_itself() -> Unbookable:
    body = rows()
    body[3] = body[3].replace(";4970;1200;", ";1200;1200;")
    return Unbookable(lines(header(), titles(), *body), ((6, "Gegenkonto (ohne BU-Schlüssel)"),))


def no_amount_no_account_no_day() -> Unbookable:
    body = rows()
    body[0] = body[0].replace("119,00;", ";", 1)
    body[1] = body[1].replace(";4930;", ";;")
    body[2] = body[2].replace(";0503;", ";3102;")
    refused = ((3, "Umsatz (ohne Soll/Haben-Kz)"), (4, "Gegenkonto (ohne BU-Schlüssel)"), (5, "Belegdatum"))
    return Unbookable(lines(header(), titles(), *body), refused)


def transfer_that_broke_off() -> Unbookable:
    return Unbookable(lines(header(), titles(), *rows())[:-100], ((6, ""),))


UNBOOKABLE = (broken_quotes, account_against_itself, no_amount_no_account_no_day, transfer_that_broke_off)
