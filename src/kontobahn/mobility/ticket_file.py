"""Reads tickets from a CSV file, row by row; every refusal has its line, column and reason. Writes nothing.

A file that is wrong as a whole (encoding, columns) is refused as a whole. An unknown column is not skipped, as it may hold
something that matters.
"""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from kontobahn.api.wire import plain_words
from kontobahn.errors import BadRequest
from kontobahn.mobility.tickets import MAX_PRICE_IN_CENTS, NewTicket, RefusedTicket, TicketReport
from kontobahn.sentences import said

MAX_ROWS = 100_000
REQUIRED = ("product", "holder_reference", "valid_from", "price_in_cents", "vat_rate")
COLUMNS = (*REQUIRED, "valid_to", "discount_in_cents", "employer_share_in_cents", "reference")
_NUMBERS = ("price_in_cents", "vat_rate", "discount_in_cents", "employer_share_in_cents")
# Other names that a spreadsheet may use for a column; compared without case, blanks and underscores.
_OTHER_NAMES = {
    "produkt": "product", "ticket": "product", "holder": "holder_reference", "personalnummer": "holder_reference",
    "personalreferenz": "holder_reference", "month": "valid_from", "validmonth": "valid_from", "monat": "valid_from",
    "validity": "valid_from", "gültigab": "valid_from", "gültigbis": "valid_to", "price": "price_in_cents",
    "preisincent": "price_in_cents", "vat": "vat_rate", "ust": "vat_rate", "ustsatz": "vat_rate", "discount": "discount_in_cents",
    "rabattincent": "discount_in_cents", "employershare": "employer_share_in_cents", "arbeitgeberanteilincent": "employer_share_in_cents",
    "ticketnumber": "reference", "ticketnummer": "reference",
}  # fmt: skip
_MONTH_FIRST = re.compile(r"^(0[1-9]|1[0-2])[./](20[0-9]{2})$")


class TicketFile(NamedTuple):
    """The content of a file: tickets that can be read, and rows that cannot."""

    reports: list[TicketReport]
    refused: list[RefusedTicket]


def read(content: bytes) -> TicketFile:
    """Returns the rows of a file. Raises BadRequest if it is wrong as a whole."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BadRequest(said("The file is not UTF-8 (line {line}). Save it as “CSV UTF-8”.", line=line)) from None
    if "\0" in text:
        raise BadRequest("The file contains NUL characters; it is not a CSV file.")
    first_line = text.lstrip("\r\n").partition("\n")[0]
    delimiter = max(";,\t", key=first_line.count)
    rows = _rows(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    _, header = next(rows, (0, []))
    columns = _columns(header)
    found = TicketFile([], [])
    for line, cells in rows:
        if len(found.reports) + len(found.refused) >= MAX_ROWS:
            raise BadRequest(said("The file has more than {most} rows; split it.", most=f"{MAX_ROWS:,}"))
        ticket = _ticket(line, columns, cells)
        if isinstance(ticket, RefusedTicket):
            found.refused.append(ticket)
        else:
            found.reports.append(TicketReport(ticket, line=line))
    return found


def _rows(reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows that are not empty, with the line they begin on."""
    line = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield line, [cell.strip() for cell in cells]
            line = reader.line_num + 1
    except csv.Error as error:
        raise BadRequest(said("The file is not valid CSV from line {line} on: {why}.", line=line, why=error)) from None


def _columns(header: list[str]) -> list[str]:
    if not header:
        raise BadRequest("The file is empty: its first row must name the columns.")
    columns = [_column(title) for title in header]
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise BadRequest(said("The column `{name}` appears twice.", name=twice))
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise BadRequest(
            said("The file lacks these columns: {names}.", names=", ".join(missing))
            if missing[1:]
            else said("The file lacks the column: {names}.", names=missing[0])
        )
    return columns


def _column(title: str) -> str:
    plain = re.sub(r"[\s_-]", "", title).lower()
    by_plain_name = {name.replace("_", ""): name for name in COLUMNS} | _OTHER_NAMES
    if plain in by_plain_name:
        return by_plain_name[plain]
    near = difflib.get_close_matches(plain, by_plain_name, n=1)
    hint = (
        said("Did you mean {name}?", name=by_plain_name[near[0]])
        if near
        else said("Known are: {names}.", names=", ".join(COLUMNS))
    )
    raise BadRequest(said("The file has an unknown column “{title}”. {hint}", title=title[:40], hint=hint))


def _ticket(line: int, columns: list[str], cells: list[str]) -> NewTicket | RefusedTicket:
    if len(cells) != len(columns):
        return RefusedTicket(
            line, "", said("the row has {count} cells, the first row has {first}", count=len(cells), first=len(columns))
        )
    values: dict[str, Any] = {name: cell for name, cell in zip(columns, cells, strict=True) if cell}
    for name in REQUIRED:
        if name not in values:
            return RefusedTicket(line, name, "is empty")
    for name in _NUMBERS:
        if name in values:
            reason = _number_error(name, values[name])
            if reason is not None:
                return RefusedTicket(line, name, reason)
            values[name] = int(values[name])
    for name in ("valid_from", "valid_to"):
        if name in values:
            values[name] = _MONTH_FIRST.sub(r"\2-\1", values[name])
    return _convert(line, values)


def _number_error(name: str, text: str) -> str | None:
    if re.fullmatch(r"[0-9]{1,12}", text):
        if name != "vat_rate" and int(text) > MAX_PRICE_IN_CENTS:
            return said("{text} is more than {most}", text=text, most=MAX_PRICE_IN_CENTS)
        return None
    if re.fullmatch(r"-[0-9]+", text):
        return said("{text} is less than 0", text=text)
    if name == "vat_rate":
        return said("“{text}” is not a whole percentage: 0, 7 or 19", text=text[:20])
    return said("“{text}” is not a whole number of cents", text=text[:20])


def _convert(line: int, values: dict[str, Any]) -> NewTicket | RefusedTicket:
    for field in msgspec.structs.fields(NewTicket):
        if field.name in values:
            try:
                msgspec.convert(values[field.name], field.type)
            except msgspec.ValidationError as error:
                shown = str(values[field.name])[:40]
                reason = said("“{text}” {reason}", text=shown, reason=plain_words(str(error)))
                if field.name == "vat_rate":
                    reason = said("“{text}” is not a rate; the rates are 0, 7 and 19", text=shown)
                return RefusedTicket(line, field.name, reason)
    return NewTicket(**values)
