"""A table as a CSV file that spreadsheet programs open as it is meant, and do not run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal

from kontobahn.dashboard import figures
from kontobahn.dashboard.words import language

Cell = str | int | Decimal | date | None
# Characters that a spreadsheet program may take as the start of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")
# Without it, spreadsheet programs take UTF-8 for something else.
_BYTE_ORDER_MARK = "\ufeff"


def write(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> bytes:
    """Text is defused; Decimals are amounts, written as the language does."""
    separator = ";" if language() == "de" else ","
    lines = [separator.join(_quoted(title, separator) for title in head)]
    lines += [separator.join(_cell(value, separator) for value in row) for row in rows]
    return (_BYTE_ORDER_MARK + "\r\n".join(lines) + "\r\n").encode()


def _cell(value: Cell, separator: str) -> str:
    if value is None:
        return ""
    if isinstance(value, Decimal):
        return _quoted(figures.plain_amount(value), separator)
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, int):
        return str(value)
    return _quoted(f"'{value}" if value.startswith(_FORMULA) else value, separator)


def _quoted(text: str, separator: str) -> str:
    if any(character in text for character in (separator, '"', "\n", "\r", ",", ";")):
        return '"' + text.replace('"', '""') + '"'
    return text
