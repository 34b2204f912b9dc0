"""The header of a DATEV-format file, line 1: read, checked and written."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import NamedTuple

from kontobahn.formats.extf.format import BUCHUNGSSTAPEL, KATEGORIEN, ExtfError, Kategorie
from kontobahn.formats.extf.values import EUR, is_digits, quote, unquote


class Kopf(NamedTuple):
    """The header: what kind of file, of which client and fiscal year."""

    kennzeichen: str
    kategorie: int
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
        """The last day of twelve months from the beginning; a short fiscal year ends earlier."""
        return _a_year_later(self.wj_beginn) - timedelta(days=1)


def make_kopf(
    kategorie: Kategorie,
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
) -> Kopf:
    """The header for a file of our own, in euros."""
    return Kopf(
        kennzeichen="EXTF", kategorie=kategorie.nummer, formatname=kategorie.name, version=kategorie.version,
        erzeugt_am=erzeugt_am, herkunft=_HERKUNFT, berater=berater, mandant=mandant, wj_beginn=wj_beginn,
        sachkontenlaenge=sachkontenlaenge, datum_von=datum_von, datum_bis=datum_bis, bezeichnung=bezeichnung,
        buchungstyp=buchungstyp, festschreibung=festschreibung, waehrung=EUR, skr=skr,
    )  # fmt: skip


def _a_year_later(day: date) -> date:
    if (day.month, day.day) == (2, 29):
        return date(day.year + 1, 3, 1)
    return day.replace(year=day.year + 1)


KOPFFELDER = (
    "Kennzeichen", "Versionsnummer", "Formatkategorie", "Formatname", "Formatversion", "Erzeugt am", "Importiert",
    "Herkunft", "Exportiert von", "Importiert von", "Berater", "Mandant", "WJ-Beginn", "Sachkontenlänge", "Datum von",
    "Datum bis", "Bezeichnung", "Diktatkürzel", "Buchungstyp", "Rechnungslegungszweck", "Festschreibung", "WKZ",
    "reserviert", "Derivatskennzeichen", "reserviert", "reserviert", "SKR", "Branchenlösung-Id", "reserviert",
    "reserviert", "Anwendungsinformation",
)  # fmt: skip
# The header of today, and the one of the years before 2019, which has the same fields.
_HEADER_VERSIONS = ("700", "510")
_HERKUNFT = "KB"
_LONGEST = {8: 2, 9: 25, 17: 30, 18: 2, 31: 16}


def _wrong(number: int, reason: str) -> ExtfError:
    return ExtfError(f"Header field {number} ({KOPFFELDER[number - 1]}): {reason}")


def _number(felder: list[str], number: int, least: int, most: int) -> int:
    text = felder[number - 1]
    if not (is_digits(text, 9) and least <= int(text) <= most):
        raise _wrong(number, f"'{text}' is not a number from {least} to {most}.")
    return int(text)


def _day(felder: list[str], number: int) -> date:
    text = felder[number - 1]
    try:
        if re.fullmatch(r"(19|2[0-9])[0-9]{6}", text):
            return date(int(text[:4]), int(text[4:6]), int(text[6:]))
    except ValueError:
        pass
    raise _wrong(number, f"'{text}' is not a date of the form YYYYMMDD.")


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        if re.fullmatch(r"[0-9]{14}([0-9]{3})?", text):
            return datetime.fromisoformat(f"{text[:8]}T{text[8:14]}.{text[14:] or '000'}")
    except ValueError:
        pass
    raise _wrong(6, f"'{text}' is not of the form YYYYMMDDHHMMSSmmm.")


def parse_kopf(felder: list[str]) -> Kopf:
    """The header from the fields of line 1; ExtfError names the field that is wrong."""
    if felder[0] not in {"EXTF", "DTVF"}:
        raise ExtfError(f"This is no DATEV-format file: it begins with '{felder[0][:20]}', not with EXTF or DTVF.")
    if len(felder) != len(KOPFFELDER):
        raise ExtfError(f"The header has {len(felder)} fields, not {len(KOPFFELDER)}.")
    if felder[1] not in _HEADER_VERSIONS:
        raise _wrong(2, f"'{felder[1]}' is not a known version; {' and '.join(_HEADER_VERSIONS)} are.")
    kategorie = KATEGORIEN.get(int(felder[2])) if re.fullmatch(r"[0-9]{1,4}", felder[2]) else None
    if kategorie is None:
        raise _wrong(3, f"'{felder[2]}' is not a known category; {', '.join(map(str, KATEGORIEN))} are.")
    known = {str(version): version for version in kategorie.fewest_columns}
    if felder[4] not in known:
        raise _wrong(5, f"'{felder[4]}' is not a known version of {kategorie.name}; {', '.join(known)} can be read.")
    if felder[20] not in {"", "0", "1"}:
        raise _wrong(21, f"'{felder[20]}' is neither 0 nor 1.")
    if not re.fullmatch(r"[A-Z]{3}|", felder[21]):
        raise _wrong(22, f"'{felder[21]}' is not a currency.")
    kopf = Kopf(
        kennzeichen=felder[0], kategorie=kategorie.nummer, formatname=felder[3], version=known[felder[4]],
        erzeugt_am=_moment(felder[5]), herkunft=felder[7],
        berater=_number(felder, 11, 1001, 9_999_999), mandant=_number(felder, 12, 1, 99_999),
        wj_beginn=_day(felder, 13), sachkontenlaenge=_number(felder, 14, 4, 8),
        datum_von=_day(felder, 15) if felder[14] else None, datum_bis=_day(felder, 16) if felder[15] else None,
        bezeichnung=felder[16], buchungstyp=_number(felder, 19, 1, 2) if felder[18] else 1,
        festschreibung=felder[20] == "1", waehrung=felder[21] or EUR, skr=felder[26],
        exportiert_von=felder[8], diktatkuerzel=felder[17], rechnungslegungszweck=felder[19],
        anwendungsinformation=felder[30],
    )  # fmt: skip
    _check_period(kopf)
    return kopf


def _check_period(kopf: Kopf) -> None:
    year = f"the fiscal year from {kopf.wj_beginn} to {kopf.wj_ende}"
    if kopf.datum_von and kopf.datum_von > kopf.wj_ende:
        raise _wrong(15, f"{kopf.datum_von} lies after {year}.")
    if kopf.datum_bis and kopf.datum_bis < kopf.wj_beginn:
        raise _wrong(16, f"{kopf.datum_bis} lies before {year}.")
    if kopf.datum_von and kopf.datum_bis and kopf.datum_bis < kopf.datum_von:
        raise _wrong(16, f"{kopf.datum_bis} lies before the Datum von, {kopf.datum_von}.")


def format_kopf(kopf: Kopf, kategorie: Kategorie) -> str:
    """Line 1 for our own file of this category, in its newest version. What only postings have is left out elsewhere."""
    postings = kategorie is BUCHUNGSSTAPEL
    moment = kopf.erzeugt_am
    felder = dict.fromkeys(range(1, len(KOPFFELDER) + 1), "") | {
        1: quote("EXTF"), 2: _HEADER_VERSIONS[0], 3: str(kategorie.nummer), 4: quote(kategorie.name),
        5: str(kategorie.version), 6: f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}" if moment else "",
        8: quote(kopf.herkunft), 9: quote(kopf.exportiert_von), 10: quote(""), 11: str(kopf.berater),
        12: str(kopf.mandant), 13: f"{kopf.wj_beginn:%Y%m%d}", 14: str(kopf.sachkontenlaenge),
        17: quote(kopf.bezeichnung), 18: quote(kopf.diktatkuerzel), 22: quote(kopf.waehrung if postings else ""),
        24: quote(""), 27: quote(kopf.skr), 30: quote(""), 31: quote(kopf.anwendungsinformation),
    }  # fmt: skip
    if postings:
        felder |= {
            15: f"{kopf.datum_von:%Y%m%d}" if kopf.datum_von else "",
            16: f"{kopf.datum_bis:%Y%m%d}" if kopf.datum_bis else "",
            19: str(kopf.buchungstyp), 20: kopf.rechnungslegungszweck, 21: str(int(kopf.festschreibung)),
        }  # fmt: skip
    for number, longest in _LONGEST.items():
        text = unquote(felder[number])
        if len(text) > longest:
            raise _wrong(number, f"'{text}' is longer than {longest} characters.")
    return ";".join(felder.values())
