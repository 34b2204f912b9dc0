"""The header of a DATEV-format file, line 1: read, checked and written."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from itertools import zip_longest
from typing import NamedTuple

from kontobahn.formats.extf.format import (
    BUCHUNGSSTAPEL,
    CATEGORIES,
    NOT_SUPPORTED,
    ZAHLUNGSBEDINGUNGEN,
    Category,
    ExtfError,
    RowWarning,
)
from kontobahn.formats.extf.values import EUR, KEPT, LEFT_OUT, is_digits, quote


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

    @property
    def has_chart(self) -> bool:
        """Whether the file has account numbers, so that their length and the chart of accounts mean something."""
        return self.category != ZAHLUNGSBEDINGUNGEN.number

    @property
    def period(self) -> tuple[date, date]:
        """The first and the last day for bookings: of the fiscal year, where the file names no period that meets it."""
        since, until = self.datum_von or self.wj_beginn, self.datum_bis or self.wj_ende
        if since > until or since > self.wj_ende or until < self.wj_beginn:
            return self.wj_beginn, self.wj_ende
        return since, until


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
# The version that we write; earlier ones have the same fields, or fewer at the end.
_HEADER_VERSION = 700
_OLDEST_HEADER_VERSION = 300
_ORIGIN = "KB"
_AS_EMPTY = "It was read as if it were empty."
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


def _parse_day(text: str) -> date | None:
    try:
        if re.fullmatch(r"(19|2[0-9])[0-9]{6}", text):
            return date(int(text[:4]), int(text[4:6]), int(text[6:]))
    except ValueError:
        pass
    return None


def _day(fields: dict[str, str], name: str) -> date:
    day = _parse_day(fields[name])
    if day is None:
        raise _invalid(name, f"'{fields[name]}' is not a date of the form YYYYMMDD.")
    return day


class _Lenient:
    """Reads fields that a file can do without: if they are wrong, it only warns."""

    def __init__(self, fields: dict[str, str], warned: list[RowWarning]) -> None:
        self._fields = fields
        self._warned = warned

    def warn(self, name: str, found: str, done: str) -> None:
        self._warned.append(RowWarning.of_header(name, found, done))

    def number(self, name: str, minimum: int, maximum: int) -> int:
        """Returns a number of up to this many digits, 0 if it is none; one that the format does not allow is kept."""
        text = self._fields[name]
        value = int(text) if is_digits(text, len(str(maximum))) else 0
        if not minimum <= value <= maximum:
            done = KEPT if value else "The file names no client by it."
            self.warn(name, f"'{text}' is not a number from {minimum} to {maximum}.", done)
        return value

    def choice(self, name: str, choices: dict[str, int]) -> int:
        text = self._fields[name]
        if text not in choices:
            self.warn(name, f"'{text}' is none of {', '.join(filter(None, choices))}.", _AS_EMPTY)
        return choices.get(text, choices[""])

    def day(self, name: str) -> date | None:
        text = self._fields[name]
        day = _parse_day(text)
        if text and day is None:
            self.warn(name, f"'{text}' is not a date of the form YYYYMMDD.", _AS_EMPTY)
        return day

    def timestamp(self, name: str) -> datetime | None:
        """Programs write it with or without fractions of a second."""
        text = self._fields[name]
        if not text:
            return None
        try:
            if re.fullmatch(r"[0-9]{14}([0-9]{3}|[0-9]{6})?", text):
                return datetime.fromisoformat(f"{text[:8]}T{text[8:14]}.{text[14:] or '000'}")
        except ValueError:
            pass
        self.warn(name, f"'{text}' is not of the form YYYYMMDDHHMMSSmmm.", _AS_EMPTY)
        return None


def parse_header(values: list[str], warned: list[RowWarning]) -> Header:
    """Parses the fields of line 1. Raises ExtfError that names the field without which the file cannot be read."""
    if values[0] not in {"EXTF", "DTVF"}:
        raise ExtfError(f"This is not a DATEV-format file: it begins with '{values[0][:20]}', not with EXTF or DTVF.")
    # Other programs leave out fields at the end, or write as many as the rows have columns.
    fields = {
        name: value.strip() for name, value in zip_longest(HEADER_FIELDS, values[: len(HEADER_FIELDS)], fillvalue="")
    }
    lenient = _Lenient(fields, warned)
    category, version = _category(fields, lenient)
    header = Header(
        kennzeichen=fields["Kennzeichen"],
        category=category.number,
        formatname=fields["Formatname"],
        version=version,
        erzeugt_am=lenient.timestamp("Erzeugt am"),
        herkunft=fields["Herkunft"],
        berater=lenient.number("Berater", 1001, 9_999_999),
        mandant=lenient.number("Mandant", 1, 99_999),
        wj_beginn=_day(fields, "WJ-Beginn"),
        sachkontenlaenge=_sachkontenlaenge(category, fields),
        datum_von=lenient.day("Datum von"),
        datum_bis=lenient.day("Datum bis"),
        bezeichnung=fields["Bezeichnung"],
        buchungstyp=lenient.choice("Buchungstyp", {"": 1, "1": 1, "2": 2}),
        festschreibung=bool(lenient.choice("Festschreibung", {"": 0, "0": 0, "1": 1})),
        waehrung=_waehrung(fields),
        skr=_skr(fields["SKR"]),
        exportiert_von=fields["Exportiert von"],
        diktatkuerzel=fields["Diktatkürzel"],
        rechnungslegungszweck=fields["Rechnungslegungszweck"],
        anwendungsinformation=fields["Anwendungsinformation"],
    )
    _check_end(values, warned)
    if category is BUCHUNGSSTAPEL:
        _check_period(header, lenient)
    return header


def _category(fields: dict[str, str], lenient: _Lenient) -> tuple[Category, int]:
    """Returns the category of the file and the version of its columns."""
    _number(fields, "Versionsnummer", _OLDEST_HEADER_VERSION, 9_999)
    text = fields["Formatkategorie"]
    number = int(text) if is_digits(text, 4) else 0
    if number in NOT_SUPPORTED:
        raise _invalid("Formatkategorie", f"'{text}' is {NOT_SUPPORTED[number]}, which is known, but not supported.")
    category = CATEGORIES.get(number)
    if category is None:
        raise _invalid("Formatkategorie", f"'{text}' is not a known category; {', '.join(map(str, CATEGORIES))} are.")
    text = fields["Formatversion"]
    version = int(text) if is_digits(text, 4) else 0
    if version < category.oldest_version:
        reason = (
            f"'{text}' is not a version of {category.name} that can be read; {category.oldest_version} and later are."
        )
        raise _invalid("Formatversion", reason)
    # So far every version has added columns at the end, and changed none before them.
    if version > category.version:
        found = f"Version {version} of {category.name} is newer than {category.version}, the newest we know."
        lenient.warn("Formatversion", found, f"The columns were read as those of version {category.version}.")
    return category, version


def _sachkontenlaenge(category: Category, fields: dict[str, str]) -> int:
    if category is ZAHLUNGSBEDINGUNGEN and not fields["Sachkontenlänge"]:
        return 0
    return _number(fields, "Sachkontenlänge", 4, 8)


def _waehrung(fields: dict[str, str]) -> str:
    waehrung = fields["WKZ"].upper() or EUR
    if not re.fullmatch(r"[A-Z]{3}", waehrung):
        raise _invalid("WKZ", f"'{fields['WKZ']}' is not a currency.")
    return waehrung


def _skr(text: str) -> str:
    """Returns the chart as DATEV writes it: 03, also where the file says 3 or SKR03."""
    digits = text.upper().removeprefix("SKR").strip()
    return digits.lstrip("0").zfill(2) if is_digits(digits, 4) and digits.strip("0") else text


def _check_end(values: list[str], warned: list[RowWarning]) -> None:
    beyond = ", ".join(f"'{value}'" for value in values[len(HEADER_FIELDS) :] if value)
    if beyond:
        found = f"The header goes on after its last field, {len(HEADER_FIELDS)}, with {beyond}."
        warned.append(RowWarning.of_header("", found, LEFT_OUT))


def _check_period(header: Header, lenient: _Lenient) -> None:
    year = f"the fiscal year from {header.wj_beginn} to {header.wj_ende}"
    if header.datum_von is None and header.datum_bis is None:
        lenient.warn("Datum von", "The period of the file is not given.", f"Every day of {year} is accepted.")
        return
    since, until = header.datum_von or header.wj_beginn, header.datum_bis or header.wj_ende
    if since > until:
        found = f"The period from {since} to {until} ends before it begins."
        lenient.warn("Datum von", found, f"Every day of {year} is accepted.")
    elif since < header.wj_beginn or until > header.wj_ende:
        # DATEV too reads days and months as those of the fiscal year, and ignores any other year.
        found = f"The period from {since} to {until} is not within {year}."
        lenient.warn("Datum von", found, "Each day was read as one of that fiscal year.")


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
        "Versionsnummer": str(_HEADER_VERSION), "Formatkategorie": str(category.number), "Formatversion": str(category.version),
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
