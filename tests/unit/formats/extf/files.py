"""Small files of our own making, written as text."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import date, datetime

from kontobahn.formats.extf import (
    BUCHUNGSSTAPEL,
    Buchungssatz,
    Datensatz,
    Kategorie,
    Kopf,
    Zeilenfehler,
    make_kopf,
    open_extf,
)

Columns = Mapping[int, str]

_KOPF = '"EXTF";700;{nummer};"{name}";{version};20240607101112131;;"RE";"";"";4711;12;20240101;4;{period};;;"EUR";;"";;;"03";;;"";""'


def kopf_line(kategorie: Kategorie = BUCHUNGSSTAPEL, changed: Columns | None = None) -> str:
    """A header for the calendar year 2024 with accounts of four digits; ``changed`` has fields by number."""
    period = '20240101;20241231;"Probe";"";1' if kategorie is BUCHUNGSSTAPEL else ';;"Probe";"";'
    line = _KOPF.format(nummer=kategorie.nummer, name=kategorie.name, version=kategorie.version, period=period)
    return with_columns(line, changed or {})


def with_columns(line: str, changed: Columns, columns: int = 0) -> str:
    """The line with other values in some columns, and so many columns; none of its texts has a semicolon."""
    felder = line.split(";")
    felder += [""] * (columns - len(felder))
    for number, value in changed.items():
        felder[number - 1] = value
    return ";".join(felder)


def satz(beginning: str = "119,00;S;;;;;10001;8400;;1503;RE-1;;;Rechnung", changed: Columns | None = None) -> str:
    """The row of a posting from its first columns."""
    return with_columns(beginning, changed or {}, 125)


def text_of(
    *rows: str, kategorie: Kategorie = BUCHUNGSSTAPEL, kopf: Columns | None = None, titel: str = "", end: str = "\r\n"
) -> str:
    lines = [kopf_line(kategorie, kopf), titel or ";".join(kategorie.titel), *rows]
    return end.join([*lines, ""])


def read(text: str | bytes) -> list[Datensatz | Zeilenfehler]:
    with open_extf(io.BytesIO(text if isinstance(text, bytes) else text.encode("cp1252"))) as datei:
        return list(datei)


def read_satz(row: str, kopf: Columns | None = None) -> Buchungssatz:
    (found,) = read(text_of(row, kopf=kopf))
    assert isinstance(found, Buchungssatz), found
    return found


def refusal(row: str, kategorie: Kategorie = BUCHUNGSSTAPEL, kopf: Columns | None = None) -> Zeilenfehler:
    (found,) = read(text_of(row, kategorie=kategorie, kopf=kopf))
    assert isinstance(found, Zeilenfehler), found
    return found


def kopf_2024(kategorie: Kategorie = BUCHUNGSSTAPEL) -> Kopf:
    """A header to write with."""
    period = (date(2024, 1, 1), date(2024, 12, 31)) if kategorie is BUCHUNGSSTAPEL else (None, None)
    return make_kopf(
        kategorie, erzeugt_am=datetime(2024, 6, 7, 10, 11, 12, 131_000), berater=4711, mandant=12,
        wj_beginn=date(2024, 1, 1), sachkontenlaenge=4, datum_von=period[0], datum_bis=period[1],
        bezeichnung="Probe", skr="03",
    )  # fmt: skip
