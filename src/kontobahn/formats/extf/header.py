"""The header of a DATEV-format file, line 1: read, checked and written."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import NamedTuple

from kontobahn.formats.extf.format import BUCHUNGSSTAPEL, CATEGORIES, Category, ExtfError
from kontobahn.formats.extf.values import EUR, is_digits, quote, unquote


class Header(NamedTuple):
    """What kind of file it is, and of which client and fiscal year. The fields have the names of the format."""

    kennzeichen: str
    category: int
    formatname: str
    version: int
    erzeugt_am: datetime | None
    herkunft: str
    berater: int
    mandant: int
    wj_beginn: date
    sachkontenlaenge: int
    datum_von: date | None
    datum_bis: date | None
    bezeichnung: str
    buchungstyp: int
    festschreibung: bool
    waehrung: str
    skr: str
    exportiert_von: str = ""
    diktatkuerzel: str = ""
    rechnungslegungszweck: str = ""
    anwendungsinformation: str = ""

    @property
    def client_id(self) -> str:
        return f"{self.berater}-{self.mandant}"

    @property
    def wj_ende(self) -> date:
        """The last day of a full fiscal year; a short one ends earlier."""
        return _a_year_later(self.wj_beginn) - timedelta(days=1)


def make_header(
    category: Category,
    *,
    erzeugt_am: datetime | None,
    berater: int,
    mandant: int,
    wj_beginn: date,
    sachkontenlaenge: int,
    datum_von: date | None = None,
    datum_bis: date | None = None,
    bezeichnung: str = "",
    buchungstyp: int = 1,
    festschreibung: bool = False,
    skr: str = "",
) -> Header:
    """Returns the header for a file of our own, in euros."""
    return Header(
        kennzeichen="EXTF", category=category.number, formatname=category.name, version=category.version,
        erzeugt_am=erzeugt_am, herkunft=_ORIGIN, berater=berater, mandant=mandant, wj_beginn=wj_beginn,
        sachkontenlaenge=sachkontenlaenge, datum_von=datum_von, datum_bis=datum_bis, bezeichnung=bezeichnung,
        buchungstyp=buchungstyp, festschreibung=festschreibung, waehrung=EUR, skr=skr,
    )  # fmt: skip


def _a_year_later(day: date) -> date:
    if (day.month, day.day) == (2, 29):
        return date(day.year + 1, 3, 1)
    return day.replace(year=day.year + 1)


HEADER_FIELDS = (
    "Kennzeichen", "Versionsnummer", "Formatkategorie", "Formatname", "Formatversion", "Erzeugt am", "Importiert",
    "Herkunft", "Exportiert von", "Importiert von", "Berater", "Mandant", "WJ-Beginn", "Sachkontenlänge", "Datum von",
    "Datum bis", "Bezeichnung", "Diktatkürzel", "Buchungstyp", "Rechnungslegungszweck", "Festschreibung", "WKZ",
    "reserviert", "Derivatskennzeichen", "reserviert", "reserviert", "SKR", "Branchenlösung-Id", "reserviert",
    "reserviert", "Anwendungsinformation",
)  # fmt: skip
# The present version, and the one before 2019, which has the same fields.
_HEADER_VERSIONS = ("700", "510")
_ORIGIN = "KB"
_MAX_LENGTHS = {8: 2, 9: 25, 17: 30, 18: 2, 31: 16}


def _invalid(number: int, reason: str) -> ExtfError:
    return ExtfError(f"Header field {number} ({HEADER_FIELDS[number - 1]}): {reason}")


def _number(fields: list[str], number: int, minimum: int, maximum: int) -> int:
    text = fields[number - 1]
    if not (is_digits(text, 9) and minimum <= int(text) <= maximum):
        raise _invalid(number, f"'{text}' is not a number from {minimum} to {maximum}.")
    return int(text)


def _day(fields: list[str], number: int) -> date:
    text = fields[number - 1]
    try:
        if re.fullmatch(r"(19|2[0-9])[0-9]{6}", text):
            return date(int(text[:4]), int(text[4:6]), int(text[6:]))
    except ValueError:
        pass
    raise _invalid(number, f"'{text}' is not a date of the form YYYYMMDD.")


def _timestamp(text: str) -> datetime | None:
    if not text:
        return None
    try:
        if re.fullmatch(r"[0-9]{14}([0-9]{3})?", text):
            return datetime.fromisoformat(f"{text[:8]}T{text[8:14]}.{text[14:] or '000'}")
    except ValueError:
        pass
    raise _invalid(6, f"'{text}' is not of the form YYYYMMDDHHMMSSmmm.")


def parse_header(fields: list[str]) -> Header:
    """Parses the fields of line 1. Raises ExtfError that names the invalid field."""
    if fields[0] not in {"EXTF", "DTVF"}:
        raise ExtfError(f"This is no DATEV-format file: it begins with '{fields[0][:20]}', not with EXTF or DTVF.")
    if len(fields) != len(HEADER_FIELDS):
        raise ExtfError(f"The header has {len(fields)} fields, not {len(HEADER_FIELDS)}.")
    if fields[1] not in _HEADER_VERSIONS:
        raise _invalid(2, f"'{fields[1]}' is not a known version; {' and '.join(_HEADER_VERSIONS)} are.")
    category = CATEGORIES.get(int(fields[2])) if re.fullmatch(r"[0-9]{1,4}", fields[2]) else None
    if category is None:
        raise _invalid(3, f"'{fields[2]}' is not a known category; {', '.join(map(str, CATEGORIES))} are.")
    known = {str(version): version for version in category.min_columns}
    if fields[4] not in known:
        raise _invalid(5, f"'{fields[4]}' is not a known version of {category.name}; {', '.join(known)} can be read.")
    if fields[20] not in {"", "0", "1"}:
        raise _invalid(21, f"'{fields[20]}' is neither 0 nor 1.")
    if not re.fullmatch(r"[A-Z]{3}|", fields[21]):
        raise _invalid(22, f"'{fields[21]}' is not a currency.")
    header = Header(
        kennzeichen=fields[0], category=category.number, formatname=fields[3], version=known[fields[4]],
        erzeugt_am=_timestamp(fields[5]), herkunft=fields[7],
        berater=_number(fields, 11, 1001, 9_999_999), mandant=_number(fields, 12, 1, 99_999),
        wj_beginn=_day(fields, 13), sachkontenlaenge=_number(fields, 14, 4, 8),
        datum_von=_day(fields, 15) if fields[14] else None, datum_bis=_day(fields, 16) if fields[15] else None,
        bezeichnung=fields[16], buchungstyp=_number(fields, 19, 1, 2) if fields[18] else 1,
        festschreibung=fields[20] == "1", waehrung=fields[21] or EUR, skr=fields[26],
        exportiert_von=fields[8], diktatkuerzel=fields[17], rechnungslegungszweck=fields[19],
        anwendungsinformation=fields[30],
    )  # fmt: skip
    _check_period(header)
    return header


def _check_period(header: Header) -> None:
    year = f"the fiscal year from {header.wj_beginn} to {header.wj_ende}"
    if header.datum_von and header.datum_von > header.wj_ende:
        raise _invalid(15, f"{header.datum_von} lies after {year}.")
    if header.datum_bis and header.datum_bis < header.wj_beginn:
        raise _invalid(16, f"{header.datum_bis} lies before {year}.")
    if header.datum_von and header.datum_bis and header.datum_bis < header.datum_von:
        raise _invalid(16, f"{header.datum_bis} lies before the Datum von, {header.datum_von}.")


def format_header(header: Header, category: Category) -> str:
    """Returns line 1 for our own file of this category, in its newest version. Only postings have a period."""
    postings = category is BUCHUNGSSTAPEL
    created = header.erzeugt_am
    fields = dict.fromkeys(range(1, len(HEADER_FIELDS) + 1), "") | {
        1: quote("EXTF"), 2: _HEADER_VERSIONS[0], 3: str(category.number), 4: quote(category.name),
        5: str(category.version), 6: f"{created:%Y%m%d%H%M%S}{created.microsecond // 1000:03d}" if created else "",
        8: quote(header.herkunft), 9: quote(header.exportiert_von), 10: quote(""), 11: str(header.berater),
        12: str(header.mandant), 13: f"{header.wj_beginn:%Y%m%d}", 14: str(header.sachkontenlaenge),
        17: quote(header.bezeichnung), 18: quote(header.diktatkuerzel), 22: quote(header.waehrung if postings else ""),
        24: quote(""), 27: quote(header.skr), 30: quote(""), 31: quote(header.anwendungsinformation),
    }  # fmt: skip
    if postings:
        fields |= {
            15: f"{header.datum_von:%Y%m%d}" if header.datum_von else "",
            16: f"{header.datum_bis:%Y%m%d}" if header.datum_bis else "",
            19: str(header.buchungstyp), 20: header.rechnungslegungszweck, 21: str(int(header.festschreibung)),
        }  # fmt: skip
    for number, max_length in _MAX_LENGTHS.items():
        text = unquote(fields[number])
        if len(text) > max_length:
            raise _invalid(number, f"'{text}' is longer than {max_length} characters.")
    return ";".join(fields.values())
