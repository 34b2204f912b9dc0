"""The header of a DATEV-format file, line 1: read, checked and written."""

from __future__ import annotations

import re
from datetime import date, datetime
from itertools import zip_longest
from typing import NamedTuple

from kontobahn.days import year_end
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
from kontobahn.sentences import said


class Header(NamedTuple):
    """The kind of the file, its client and its fiscal year. The fields have the names of the format."""

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
        return year_end(self.wj_beginn)

    @property
    def has_chart(self) -> bool:
        """Returns whether the file has account numbers, so that their length and the chart of accounts mean something."""
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
    return ExtfError(
        said("Header field {number} ({name}): {reason}", number=HEADER_FIELDS.index(name) + 1, name=name, reason=reason)
    )


def _number(fields: dict[str, str], name: str, minimum: int, maximum: int) -> int:
    text = fields[name]
    if not (is_digits(text, 9) and minimum <= int(text) <= maximum):
        raise _invalid(
            name, said("'{text}' is not a number from {low} to {high}.", text=text, low=minimum, high=maximum)
        )
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
        raise _invalid(name, said("'{text}' is not a date of the form YYYYMMDD.", text=fields[name]))
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
            self.warn(
                name, said("'{text}' is not a number from {low} to {high}.", text=text, low=minimum, high=maximum), done
            )
        return value

    def choice(self, name: str, choices: dict[str, int]) -> int:
        text = self._fields[name]
        if text not in choices:
            self.warn(
                name,
                said("'{text}' is none of {choices}.", text=text, choices=", ".join(filter(None, choices))),
                _AS_EMPTY,
            )
        return choices.get(text, choices[""])

    def day(self, name: str) -> date | None:
        text = self._fields[name]
        day = _parse_day(text)
        if text and day is None:
            self.warn(name, said("'{text}' is not a date of the form YYYYMMDD.", text=text), _AS_EMPTY)
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
        self.warn(name, said("'{text}' is not of the form YYYYMMDDHHMMSSmmm.", text=text), _AS_EMPTY)
        return None


def parse_header(values: list[str], warned: list[RowWarning]) -> Header:
    """Parses the fields of line 1. Raises ExtfError that names the field without which the file cannot be read."""
    if values[0] not in {"EXTF", "DTVF"}:
        raise ExtfError(
            said(
                "This is not a DATEV-format file: it begins with '{text}', not with EXTF or DTVF.", text=values[0][:20]
            )
        )
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
        raise _invalid(
            "Formatkategorie",
            said("'{text}' is {what}, which is known, but not supported.", text=text, what=NOT_SUPPORTED[number]),
        )
    category = CATEGORIES.get(number)
    if category is None:
        raise _invalid(
            "Formatkategorie",
            said("'{text}' is not a known category; {known} are.", text=text, known=", ".join(map(str, CATEGORIES))),
        )
    text = fields["Formatversion"]
    version = int(text) if is_digits(text, 4) else 0
    if version < category.oldest_version:
        reason = said(
            "'{text}' is not a version of {name} that can be read; {oldest} and later are.",
            text=text,
            name=category.name,
            oldest=category.oldest_version,
        )
        raise _invalid("Formatversion", reason)
    # So far every version has added columns at the end, and changed none before them.
    if version > category.version:
        found = said(
            "Version {version} of {name} is newer than {known}, the newest we know.",
            version=version,
            name=category.name,
            known=category.version,
        )
        lenient.warn(
            "Formatversion",
            found,
            said("The columns were read as those of version {version}.", version=category.version),
        )
    return category, version


def _sachkontenlaenge(category: Category, fields: dict[str, str]) -> int:
    if category is ZAHLUNGSBEDINGUNGEN and not fields["Sachkontenlänge"]:
        return 0
    return _number(fields, "Sachkontenlänge", 4, 8)


def _waehrung(fields: dict[str, str]) -> str:
    waehrung = fields["WKZ"].upper() or EUR
    if not re.fullmatch(r"[A-Z]{3}", waehrung):
        raise _invalid("WKZ", said("'{text}' is not a currency.", text=fields["WKZ"]))
    return waehrung


def _skr(text: str) -> str:
    """Returns the chart as DATEV writes it: 03, even where the file says 3 or SKR03."""
    digits = text.upper().removeprefix("SKR").strip()
    return digits.lstrip("0").zfill(2) if is_digits(digits, 4) and digits.strip("0") else text


def _check_end(values: list[str], warned: list[RowWarning]) -> None:
    beyond = ", ".join(f"'{value}'" for value in values[len(HEADER_FIELDS) :] if value)
    if beyond:
        found = said(
            "The header goes on after its last field, {count}, with {beyond}.", count=len(HEADER_FIELDS), beyond=beyond
        )
        warned.append(RowWarning.of_header("", found, LEFT_OUT))


def _check_period(header: Header, lenient: _Lenient) -> None:
    year = f"the fiscal year from {header.wj_beginn} to {header.wj_ende}"
    if header.datum_von is None and header.datum_bis is None:
        lenient.warn(
            "Datum von", "The period of the file is not given.", said("Every day of {year} is accepted.", year=year)
        )
        return
    since, until = header.datum_von or header.wj_beginn, header.datum_bis or header.wj_ende
    if since > until:
        found = said("The period from {day} to {day_to} ends before it begins.", day=since, day_to=until)
        lenient.warn("Datum von", found, said("Every day of {year} is accepted.", year=year))
    elif since < header.wj_beginn or until > header.wj_ende:
        # DATEV too reads days and months as those of the fiscal year, and ignores any other year.
        found = said("The period from {day} to {day_to} is not within {year}.", day=since, day_to=until, year=year)
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
            raise _invalid(name, said("'{text}' is longer than {most} characters.", text=texts[name], most=max_length))
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
