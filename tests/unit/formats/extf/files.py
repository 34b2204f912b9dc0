"""Small files of our own making, written as text."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import date, datetime

from kontobahn.formats.extf import (
    BUCHUNGSSTAPEL,
    Buchungssatz,
    Category,
    Header,
    Record,
    RowError,
    RowWarning,
    make_header,
    open_extf,
)

Columns = Mapping[int, str]

_HEADER = '"EXTF";700;{number};"{name}";{version};20240607101112131;;"RE";"";"";4711;12;20240101;4;{period};;;"EUR";;"";;;"03";;;"";""'


def header_line(category: Category = BUCHUNGSSTAPEL, changed: Columns | None = None) -> str:
    """A header for the calendar year 2024 with accounts of four digits; ``changed`` has fields by number."""
    period = '20240101;20241231;"Probe";"";1' if category is BUCHUNGSSTAPEL else ';;"Probe";"";'
    line = _HEADER.format(number=category.number, name=category.name, version=category.version, period=period)
    return with_columns(line, changed or {})


def with_columns(line: str, changed: Columns, columns: int = 0) -> str:
    """The line with other values in some columns, and so many columns; none of its texts has a semicolon."""
    fields = line.split(";")
    fields += [""] * (columns - len(fields))
    for number, value in changed.items():
        fields[number - 1] = value
    return ";".join(fields)


def satz(beginning: str = "119,00;S;;;;;10001;8400;;1503;RE-1;;;Rechnung", changed: Columns | None = None) -> str:
    """The row of a posting from its first columns."""
    return with_columns(beginning, changed or {}, 125)


def text_of(
    *rows: str, category: Category = BUCHUNGSSTAPEL, header: Columns | None = None, titles: str = "", end: str = "\r\n"
) -> str:
    lines = [header_line(category, header), titles or ";".join(category.titles), *rows]
    return end.join([*lines, ""])


def read_all(text: str | bytes) -> list[Record | RowError | RowWarning]:
    """The warnings about the header, then what the rows give."""
    with open_extf(io.BytesIO(text if isinstance(text, bytes) else text.encode("cp1252"))) as file:
        return [*file.warnings, *file]


def read(text: str | bytes) -> list[Record | RowError]:
    return [found for found in read_all(text) if not isinstance(found, RowWarning)]


def warnings_of(text: str | bytes) -> list[RowWarning]:
    found = read_all(text)
    assert not any(isinstance(row, RowError) for row in found), found
    return [row for row in found if isinstance(row, RowWarning)]


def read_satz(row: str, header: Columns | None = None) -> Buchungssatz:
    (found,) = read(text_of(row, header=header))
    assert isinstance(found, Buchungssatz), found
    return found


def refusal(row: str, category: Category = BUCHUNGSSTAPEL, header: Columns | None = None) -> RowError:
    (found,) = read(text_of(row, category=category, header=header))
    assert isinstance(found, RowError), found
    return found


def header_2024(category: Category = BUCHUNGSSTAPEL) -> Header:
    """A header to write with."""
    period = (date(2024, 1, 1), date(2024, 12, 31)) if category is BUCHUNGSSTAPEL else (None, None)
    return make_header(
        category, erzeugt_am=datetime(2024, 6, 7, 10, 11, 12, 131_000), berater=4711, mandant=12,
        wj_beginn=date(2024, 1, 1), sachkontenlaenge=4, datum_von=period[0], datum_bis=period[1],
        bezeichnung="Probe", skr="03",
    )  # fmt: skip
