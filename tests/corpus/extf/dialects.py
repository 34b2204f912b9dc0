"""A Buchungsstapel as other programs write it: the same four postings in the dress of each, written here and copied from nobody.

Each function is named after the kind of program it imitates, and returns the file with what must come out of it.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kontobahn.formats.extf.format import BUCHUNGSSTAPEL_NUMERIC, BUCHUNGSSTAPEL_TITLES


class Posting(NamedTuple):
    """In the order of the columns; account numbers have four digits, those of persons five."""

    umsatz: str
    soll_haben: str
    konto: str
    gegenkonto: str
    bu_schluessel: str
    belegdatum: str
    belegfeld1: str
    buchungstext: str


POSTINGS = (
    Posting("119,00", "S", "10001", "8400", "", "1501", "RE-1001", "Rechnung Müller"),
    Posting("59,50", "H", "70001", "4930", "9", "0502", "ER/77-b", "Büromaterial"),
    Posting("119,00", "S", "1200", "10001", "", "0503", "RE-1001", "Zahlung Müller"),
    Posting("12,50", "S", "4970", "1200", "", "0501", "", "Kontoführung"),
)
# The balances at the end of the year, by the number in full.
BALANCES = {
    "10001": "0.00", "8400": "-100.00", "1776": "-19.00", "70001": "-59.50", "4930": "50.00", "1576": "9.50",
    "1200": "106.50", "4970": "12.50",
}  # fmt: skip
_COLUMNS = (1, 2, 7, 8, 9, 10, 11, 14)
_TEXTS_OF_HEADER = {1, 4, 8, 9, 10, 17, 18, 22, 24, 27, 30, 31}


class Dialect(NamedTuple):
    """A file and what must come out of it. Warnings are lines and columns; `weitere` is what a row keeps besides, by its line."""

    content: bytes
    length: int = 4
    postings: tuple[Posting, ...] = POSTINGS
    warnings: tuple[tuple[int, str], ...] = ()
    weitere: Mapping[int, str] = {}
    balances: Mapping[str, str] = BALANCES


def header(changed: Mapping[int, str] | None = None, *, fields: int = 31, quoted: str = "texts") -> str:
    """Line 1; `quoted` is what stands in quotes: texts, everything or nothing."""
    values = dict.fromkeys(range(1, fields + 1), "") | {
        1: "EXTF", 2: "700", 3: "21", 4: "Buchungsstapel", 5: "13", 6: "20240607101112131", 8: "RE", 11: "29098",
        12: "55003", 13: "20240101", 14: "4", 15: "20240101", 16: "20241231", 17: "Probe", 19: "1", 21: "0", 22: "EUR",
        27: "03",
    }  # fmt: skip
    values |= changed or {}
    return ";".join(_quoted(values[number], number in _TEXTS_OF_HEADER, quoted) for number in range(1, fields + 1))


def rows(
    postings: tuple[Posting, ...] = POSTINGS,
    *,
    columns: int = 125,
    quoted: str = "texts",
    length: int = 4,
    further: Mapping[int, str] | None = None,
) -> list[str]:
    """The rows from line 3 on, of so many columns; `further` has values of other columns, the same in each row."""
    lines = []
    for posting in postings:
        konten = {name: getattr(posting, name) for name in ("konto", "gegenkonto")}
        longer = {name: konto.ljust(length + len(konto) - 4, "0") for name, konto in konten.items()}
        values = dict(zip(_COLUMNS, posting._replace(**longer), strict=True)) | dict(further or {})
        lines.append(
            ";".join(
                _quoted(values.get(number, ""), number not in BUCHUNGSSTAPEL_NUMERIC, quoted)
                for number in range(1, columns + 1)
            )
        )
    return lines


def _quoted(value: str, is_text: bool, quoted: str) -> str:
    if quoted == "everything" or (quoted == "texts" and is_text):
        return '"' + value.replace('"', '""') + '"'
    return value


def titles(count: int = 125) -> str:
    return ";".join((*BUCHUNGSSTAPEL_TITLES, *[""] * 10)[:count])


def lines(*parts: str, end: str = "\r\n", encoding: str = "cp1252") -> bytes:
    return end.join([*parts, ""]).encode(encoding)


# --- The programs


def by_the_book() -> Dialect:
    return Dialect(lines(header(), titles(), *rows()))


def wage_program_of_datev() -> Dialect:
    head = header({1: "DTVF", 2: "510", 5: "7", 8: "LN", 9: "Lohn"})
    return Dialect(lines(head, titles(116), *rows(columns=116)))


def erp_with_marks_in_lower_case() -> Dialect:
    small = [row.replace('"S"', '"s"').replace('"H"', '"h"') for row in rows(columns=120)]
    return Dialect(lines(header(), titles(120), *small, end="\n", encoding="utf-8"))


def cash_register_with_14_titles() -> Dialect:
    """A header of 21 fields, and far more columns than titles."""
    head = header({2: "510", 5: "5", 6: "20240607101112"}, fields=21)
    return Dialect(lines(head, titles(14), *rows(columns=116)))


def shop_plugin_that_quotes_everything() -> Dialect:
    head = header({2: "510", 6: "20240607101112131415"}, quoted="everything")
    body = rows(quoted="everything", columns=124)
    quoted_titles = ";".join(f'"{title}"' for title in titles(124).split(";"))
    return Dialect(codecs.BOM_UTF8 + lines(head, quoted_titles, *body, encoding="utf-8"))


def time_tracker_that_quotes_nothing() -> Dialect:
    """No creation time, no currency; 116 fields under 20 titles, none of which is quoted."""
    head = header({6: "", 22: ""}, quoted="nothing")
    return Dialect(lines(head, titles(20), *rows(columns=116, quoted="nothing"), encoding="utf-8"))


def invoicing_tool_of_2008() -> Dialect:
    head = header({2: "300", 5: "2"}, fields=26)
    return Dialect(lines(head, titles(93), *rows(columns=93), end="\n"))


def spreadsheet() -> Dialect:
    """Leading zeros are lost, empty rows follow, and the last line has no end."""
    short = [row.replace(";0501;", ";501;").replace(";0502;", ";502;") for row in rows(quoted="nothing", columns=42)]
    head = header(quoted="nothing")
    return Dialect(lines(head, titles(42), *short, ";" * 41, ";" * 41).removesuffix(b"\r\n"))


def property_manager_with_long_numbers() -> Dialect:
    """A header as wide as the rows; ledger accounts of eight digits beside persons of nine."""
    head = header({5: "12", 14: "8"}, fields=124)
    return Dialect(lines(head, titles(124), *rows(columns=124, length=8)), length=8)


def club_software_without_a_period() -> Dialect:
    head = header({14: "6", 15: "", 16: ""})
    return Dialect(lines(head, titles(), *rows(length=6)), length=6, warnings=((1, "Datum von"),))


def hotel_system_with_a_period_of_another_year() -> Dialect:
    head = header({5: "9", 14: "7", 15: "20250101", 16: "20250131"})
    return Dialect(lines(head, titles(121), *rows(columns=121, length=7)), length=7, warnings=((1, "Datum von"),))


def monthly_export_with_a_stray_day() -> Dialect:
    head = header({15: "20240101", 16: "20240229"})
    return Dialect(lines(head, titles(), *rows()), warnings=((5, "Belegdatum"),))


def crm_with_titles_of_its_own() -> Dialect:
    own = (
        "Umsatz;S/H;Währung;Kurs;Basisumsatz;;Kontonummer;Gegenkonto;Steuerschlüssel;Rechnungsdatum;Belegnummer;;Rabatt;"
        "Text;KOST1 – Kostenstelle;Soll-/Haben-Kennzeichen"
    )
    return Dialect(codecs.BOM_UTF8 + lines(header(), own, *rows(columns=114), encoding="utf-8"))


def marketplace_with_long_texts() -> Dialect:
    """DATEV would cut the text; document numbers are in lower case and with underscores."""
    text = "Bestellung 4711 über den Marktplatz, Lieferung frei Haus, Zahlung per Lastschrift"
    postings = (
        POSTINGS[0]._replace(buchungstext=text, belegfeld1="re_2024/1001"),
        POSTINGS[1],
        POSTINGS[2]._replace(belegfeld1="re_2024/1001"),
        POSTINGS[3]._replace(belegfeld1="Konto 1"),
    )
    warnings = ((3, "Buchungstext"), (6, "Belegfeld 1"))
    return Dialect(lines(header(), titles(), *rows(postings)), postings=postings, warnings=warnings)


def archive_with_links_to_receipts() -> Dialect:
    """Inner quotes of the link: in the first row not doubled, in the second without quotes around them, then as they should be."""
    right, body = '"BEDI ""6A1F-77"""', rows(further={20: 'BEDI "6A1F-77"'})
    body[0] = body[0].replace(right, '"BEDI "6A1F-77""')
    body[1] = body[1].replace(right, 'BEDI "6A1F-77"')
    weitere = dict.fromkeys(range(3, 7), '{"20":"BEDI \\"6A1F-77\\""}')
    return Dialect(lines(header(), titles(), *body), weitere=weitere)


def banking_tool_with_53_fields_under_42_titles() -> Dialect:
    body = rows(columns=53, further={48: "Kontoauszug", 49: "Blatt 7"})
    return Dialect(
        lines(header(), titles(42), *body), weitere=dict.fromkeys(range(3, 7), '{"48":"Kontoauszug","49":"Blatt 7"}')
    )


def travel_expenses_with_padded_keys() -> Dialect:
    body = [row.replace(';"9";', ';"0009";') for row in rows(columns=49)]
    return Dialect(lines(header({6: "20240607101112"}), titles(49), *body))


def erp_with_tax_keys_of_its_own() -> Dialect:
    """The key is kept and warned about, and the amount is booked gross."""
    postings = (POSTINGS[0], POSTINGS[1]._replace(bu_schluessel="VST19"), *POSTINGS[2:])
    gross = {konto: balance for konto, balance in BALANCES.items() if konto != "1576"} | {"4930": "59.50"}
    return Dialect(
        lines(header(), titles(), *rows(postings)), postings=postings, balances=gross,
        warnings=((4, "BU-Schlüssel"), (4, "BU-Schlüssel")),
    )  # fmt: skip


def accounting_suite_in_utf16() -> Dialect:
    return Dialect(codecs.BOM_UTF16_LE + lines(header(), titles(), *rows(), encoding="utf-16-le"))


def script_that_quotes_the_numbers_of_its_header() -> Dialect:
    return Dialect(lines(header(quoted="everything"), titles(), *rows(quoted="nothing")))


def plugin_with_a_remark_beyond_the_last_column() -> Dialect:
    body = rows()
    body[1] += ';;"Kostenstelle fehlt"'
    return Dialect(lines(header(), titles() + ";Bemerkung", *body), warnings=((4, ""),))


def program_of_next_year() -> Dialect:
    return Dialect(lines(header({2: "710", 5: "14"}), titles(), *rows()), warnings=((1, "Formatversion"),))


DIALECTS: tuple[Callable[[], Dialect], ...] = (
    by_the_book, wage_program_of_datev, erp_with_marks_in_lower_case, cash_register_with_14_titles,
    shop_plugin_that_quotes_everything, time_tracker_that_quotes_nothing, invoicing_tool_of_2008, spreadsheet,
    property_manager_with_long_numbers, club_software_without_a_period, hotel_system_with_a_period_of_another_year,
    monthly_export_with_a_stray_day, crm_with_titles_of_its_own, marketplace_with_long_texts,
    archive_with_links_to_receipts, banking_tool_with_53_fields_under_42_titles, travel_expenses_with_padded_keys,
    erp_with_tax_keys_of_its_own, accounting_suite_in_utf16, script_that_quotes_the_numbers_of_its_header,
    plugin_with_a_remark_beyond_the_last_column, program_of_next_year,
)  # fmt: skip
