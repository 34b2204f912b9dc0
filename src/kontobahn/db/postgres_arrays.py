"""Many rows for one INSERT on PostgreSQL: each column travels as an array, so the server plans and runs one statement, not one a row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

_ONE_ROW = re.compile(
    r"(?P<into>INSERT INTO \w+ \((?P<columns>[\w, ]+)\)) VALUES \(\?(?:, \?)*\)"
    r"(?P<or_else> ON CONFLICT(?: \((?P<key>[\w, ]+)\))? DO (?:NOTHING|UPDATE SET [^?]+))?"
)
# What the parameters of our statements are, by the number of their type.
_TYPES = {
    16: "boolean", 17: "bytea", 20: "bigint", 21: "smallint", 23: "integer", 25: "text", 701: "float8", 1700: "numeric",
}  # fmt: skip


class ForManyRows(NamedTuple):
    sql: str
    # Where the key stands that an UPDATE instead goes by: one statement updates no row twice.
    key: tuple[int, ...]

    def takes(self, rows: Sequence[Sequence[Any]]) -> bool:
        if not self.key:
            return True
        return len(set(map(itemgetter(*self.key), rows))) == len(rows)


def takes_one_row(sql: str) -> bool:
    """Whether the statement inserts its parameters, and nothing else, as one row."""
    return _ONE_ROW.fullmatch(sql) is not None


def for_many_rows(sql: str, types: Sequence[int]) -> ForManyRows | None:
    """The statement that inserts the rows of arrays of these types; None if there is none."""
    match = _ONE_ROW.fullmatch(sql)
    if match is None or not all(number in _TYPES for number in types):
        return None
    arrays = ", ".join(f"?::{_TYPES[number]}[]" for number in types)
    or_else, columns = match["or_else"] or "", match["columns"].split(", ")
    key = match["key"].split(", ") if "DO UPDATE" in or_else else []
    return ForManyRows(
        f"{match['into']} SELECT * FROM unnest({arrays}){or_else}", tuple(columns.index(name) for name in key)
    )


def as_arrays(rows: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    """The columns of the rows, as PostgreSQL writes arrays."""
    return tuple(f"{{{','.join(_elements(column))}}}" for column in zip(*rows, strict=True))


def _elements(column: Sequence[Any]) -> list[str]:
    return [str(value) if type(value) is int else "NULL" if value is None else _quoted(value) for value in column]


def _quoted(value: Any) -> str:
    text = f"\\x{value.hex()}" if type(value) is bytes else str(value)
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
