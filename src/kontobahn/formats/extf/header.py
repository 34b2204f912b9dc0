"""The header of a DATEV-format file, line 1: read, checked and written."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import NamedTuple

from kontobahn.formats.extf.format import BUCHUNGSSTAPEL, CATEGORIES, Category, ExtfError
from kontobahn.formats.extf.values import EUR, is_digits, quote


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
    "reserviert 23", "Derivatskennzeichen", "reserviert 25", "reserviert 26", "SKR", "Branchenlösung-Id",
    "reserviert 29", "reserviert 30", "Anwendungsinformation",
)  # fmt: skip
# The present version, and the one before 2019, which has the same fields.
_HEADER_VERSIONS = ("700", "510")
_ORIGIN = "KB"
_MAX_LENGTHS = {
    "Herkunft": 2, "Exportiert von": 25, "Bezeichnung": 30, "Diktatkürzel": 2, "Anwendungsinformation": 16,
}  # fmt: skip


def _invalid(name: str, reason: str) -> ExtfError:
    return ExtfError(f"Header field {HEADER_FIELDS.index(name) + 1} ({name}): {reason}")


def _number(fields: dict[str, str], name: str, minimum: int, maximum: int) -> int:
    text = fields[name]
    if not (is_digits(text, 9) and minimum <= int(text) <= maximum):
        raise _invalid(name, f"'{text}' is not a number from {minimum} to {maximum}.")
    return int(text)


def _day(fields: dict[str, str], name: str) -> date:
    text = fields[name]
    try:
        if re.fullmatch(r"(19|2[0-9])[0-9]{6}", text):
            return date(int(text[:4]), int(text[4:6]), int(text[6:]))
    except ValueError:
        pass
    raise _invalid(name, f"'{text}' is not a date of the form YYYYMMDD.")


def _timestamp(fields: dict[str, str], name: str) -> datetime | None:
    text = fields[name]
    if not text:
        return None
    try:
        if re.fullmatch(r"[0-9]{14}([0-9]{3})?", text):
            return datetime.fromisoformat(f"{text[:8]}T{text[8:14]}.{text[14:] or '000'}")
    except ValueError:
        pass
    raise _invalid(name, f"'{text}' is not of the form YYYYMMDDHHMMSSmmm.")


def parse_header(values: list[str]) -> Header:
    """Parses the fields of line 1. Raises ExtfError that names the invalid field."""
    if values[0] not in {"EXTF", "DTVF"}:
        raise ExtfError(f"This is no DATEV-format file: it begins with '{values[0][:20]}', not with EXTF or DTVF.")
    if len(values) != len(HEADER_FIELDS):
        raise ExtfError(f"The header has {len(values)} fields, not {len(HEADER_FIELDS)}.")
    fields = dict(zip(HEADER_FIELDS, values, strict=True))
    category, version = _category(fields)
    if fields["Festschreibung"] not in {"", "0", "1"}:
        raise _invalid("Festschreibung", f"'{fields['Festschreibung']}' is neither 0 nor 1.")
    if not re.fullmatch(r"[A-Z]{3}|", fields["WKZ"]):
        raise _invalid("WKZ", f"'{fields['WKZ']}' is not a currency.")
    header = Header(
        kennzeichen=fields["Kennzeichen"],
        category=category.number,
        formatname=fields["Formatname"],
        version=version,
        erzeugt_am=_timestamp(fields, "Erzeugt am"),
        herkunft=fields["Herkunft"],
        berater=_number(fields, "Berater", 1001, 9_999_999),
        mandant=_number(fields, "Mandant", 1, 99_999),
        wj_beginn=_day(fields, "WJ-Beginn"),
        sachkontenlaenge=_number(fields, "Sachkontenlänge", 4, 8),
        datum_von=_day(fields, "Datum von") if fields["Datum von"] else None,
        datum_bis=_day(fields, "Datum bis") if fields["Datum bis"] else None,
        bezeichnung=fields["Bezeichnung"],
        buchungstyp=_number(fields, "Buchungstyp", 1, 2) if fields["Buchungstyp"] else 1,
        festschreibung=fields["Festschreibung"] == "1",
        waehrung=fields["WKZ"] or EUR,
        skr=fields["SKR"],
        exportiert_von=fields["Exportiert von"],
        diktatkuerzel=fields["Diktatkürzel"],
        rechnungslegungszweck=fields["Rechnungslegungszweck"],
        anwendungsinformation=fields["Anwendungsinformation"],
    )
    _check_period(header)
    return header


def _category(fields: dict[str, str]) -> tuple[Category, int]:
    """Returns the category of the file and the version of its columns."""
    if fields["Versionsnummer"] not in _HEADER_VERSIONS:
        known = " and ".join(_HEADER_VERSIONS)
        raise _invalid("Versionsnummer", f"'{fields['Versionsnummer']}' is not a known version; {known} are.")
    number = fields["Formatkategorie"]
    category = CATEGORIES.get(int(number)) if re.fullmatch(r"[0-9]{1,4}", number) else None
    if category is None:
        raise _invalid("Formatkategorie", f"'{number}' is not a known category; {', '.join(map(str, CATEGORIES))} are.")
    versions = {str(version): version for version in category.min_columns}
    version = fields["Formatversion"]
    if version not in versions:
        reason = f"'{version}' is not a known version of {category.name}; {', '.join(versions)} can be read."
        raise _invalid("Formatversion", reason)
    return category, versions[version]


def _check_period(header: Header) -> None:
    year = f"the fiscal year from {header.wj_beginn} to {header.wj_ende}"
    if header.datum_von and header.datum_von > header.wj_ende:
        raise _invalid("Datum von", f"{header.datum_von} lies after {year}.")
    if header.datum_bis and header.datum_bis < header.wj_beginn:
        raise _invalid("Datum bis", f"{header.datum_bis} lies before {year}.")
    if header.datum_von and header.datum_bis and header.datum_bis < header.datum_von:
        raise _invalid("Datum bis", f"{header.datum_bis} lies before the Datum von, {header.datum_von}.")


def format_header(header: Header, category: Category) -> str:
    """Returns line 1 for our own file of this category, in its newest version. Only postings have a period."""
    is_postings = category is BUCHUNGSSTAPEL
    created = header.erzeugt_am
    texts = {
        "Kennzeichen": "EXTF", "Formatname": category.name, "Herkunft": header.herkunft, "Exportiert von": header.exportiert_von,
        "Importiert von": "", "Bezeichnung": header.bezeichnung, "Diktatkürzel": header.diktatkuerzel,
        "WKZ": header.waehrung if is_postings else "", "Derivatskennzeichen": "", "SKR": header.skr, "reserviert 30": "",
        "Anwendungsinformation": header.anwendungsinformation,
    }  # fmt: skip
    for name, max_length in _MAX_LENGTHS.items():
        if len(texts[name]) > max_length:
            raise _invalid(name, f"'{texts[name]}' is longer than {max_length} characters.")
    fields = dict.fromkeys(HEADER_FIELDS, "") | {name: quote(text) for name, text in texts.items()}
    fields |= {
        "Versionsnummer": _HEADER_VERSIONS[0], "Formatkategorie": str(category.number), "Formatversion": str(category.version),
        "Erzeugt am": f"{created:%Y%m%d%H%M%S}{created.microsecond // 1000:03d}" if created else "",
        "Berater": str(header.berater), "Mandant": str(header.mandant), "WJ-Beginn": f"{header.wj_beginn:%Y%m%d}",
        "Sachkontenlänge": str(header.sachkontenlaenge),
    }  # fmt: skip
    if is_postings:
        fields |= {
            "Datum von": f"{header.datum_von:%Y%m%d}" if header.datum_von else "",
            "Datum bis": f"{header.datum_bis:%Y%m%d}" if header.datum_bis else "",
            "Buchungstyp": str(header.buchungstyp), "Rechnungslegungszweck": header.rechnungslegungszweck,
            "Festschreibung": str(int(header.festschreibung)),
        }  # fmt: skip
    return ";".join(fields.values())
