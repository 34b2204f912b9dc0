"""The frame of a DATEV-format file: its categories, their versions and columns, and the errors of a file or a row.

What the columns of a category mean is defined in that category's module.
"""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.formats.extf import columns


class ExtfError(Exception):
    """A file that cannot be read at all, or a record that cannot be written."""

    def __init__(self, message: str) -> None:
        super().__init__(_shortened(message))


class RowError(NamedTuple):
    """A refused row and the reason. ``column`` is its title, empty if the row as a whole is wrong."""

    line: int
    column: str
    reason: str

    @classmethod
    def of(cls, category: Category, line: int, error: InvalidValue, column: int) -> RowError:
        """`column` is the one that was being read, if the error names none."""
        return cls(line, category.titles[column if error.column is None else error.column], str(error))


class InvalidValue(Exception):
    """A refused value; the parser of the row turns it into a RowError.

    ``column`` is an index into the fields of the row, None if it is the column the parser is reading.
    """

    def __init__(self, reason: str, column: int | None = None) -> None:
        super().__init__(_shortened(reason))
        self.column = column


def _shortened(message: str) -> str:
    """A message quotes the offending value, which may be very long."""
    return message if len(message) <= 300 else f"{message[:150]} … {message[-140:]}"


class Category(NamedTuple):
    """A kind of file. Columns are numbered from 1, as in DATEV's documentation.

    ``understood`` are the columns that we give a meaning to; the others are kept as they are. ``numeric`` are those that
    are written without quotes.
    """

    number: int
    name: str
    version: int
    min_columns: dict[int, int]
    titles: tuple[str, ...]
    numeric: frozenset[int]
    understood: frozenset[int]

    @property
    def not_understood(self) -> tuple[int, ...]:
        return tuple(number for number in range(1, len(self.titles) + 1) if number not in self.understood)


# Other programs write the older versions of a Buchungsstapel, and leave out columns at the end of a version.
_BUCHUNGSSTAPEL_VERSIONS = {**dict.fromkeys(range(7, 13), 14), 13: 125}
_BANKS = range(41, 96, 11)

BUCHUNGSSTAPEL = Category(
    21, "Buchungsstapel", 13, _BUCHUNGSSTAPEL_VERSIONS, columns.BUCHUNGSSTAPEL, columns.BUCHUNGSSTAPEL_NUMERIC,
    frozenset({*range(1, 15), 37, 38, 118}),
)  # fmt: skip
PERSONENKONTEN = Category(
    16, "Debitoren/Kreditoren", 5, {5: 243}, columns.PERSONENKONTEN, columns.PERSONENKONTEN_NUMERIC,
    frozenset({1, 2, *range(4, 12), *range(16, 21), 22, 29, 33, 37, 109, *range(154, 159), 160})
    | {bank + field for bank in _BANKS for field in (1, 4, 6, 8)},
)  # fmt: skip
KONTENBESCHRIFTUNGEN = Category(
    20, "Kontenbeschriftungen", 3, {2: 3, 3: 4}, columns.KONTENBESCHRIFTUNGEN, columns.KONTENBESCHRIFTUNGEN_NUMERIC,
    frozenset(range(1, 5)),
)  # fmt: skip
ZAHLUNGSBEDINGUNGEN = Category(
    46, "Zahlungsbedingungen", 2, {2: 31}, columns.ZAHLUNGSBEDINGUNGEN, columns.ZAHLUNGSBEDINGUNGEN_NUMERIC,
    frozenset({*range(1, 30), 31}),
)  # fmt: skip
CATEGORIES = {
    category.number: category
    for category in (PERSONENKONTEN, KONTENBESCHRIFTUNGEN, BUCHUNGSSTAPEL, ZAHLUNGSBEDINGUNGEN)
}


def check_titles(category: Category, version: int, titles: list[str]) -> None:
    """Raises ExtfError if the titles are not the category's; only columns that we understand are compared."""
    minimum, maximum = category.min_columns[version], len(category.titles)
    if not minimum <= len(titles) <= maximum:
        wanted = str(maximum) if minimum == maximum else f"{minimum} to {maximum}"
        raise ExtfError(f"Line 2 has {len(titles)} column titles; {category.name} version {version} has {wanted}.")
    for number, (found, wanted) in enumerate(zip(titles, category.titles, strict=False), 1):
        if number in category.understood and columns.plain(found) != columns.plain(wanted):
            raise ExtfError(f"Line 2, column {number} is titled '{found}', not '{wanted}'.")
