"""The frame of a DATEV-format file: its categories, their versions and columns, and the errors of a file or a row.

What the columns of a category mean is defined in that category's module.
"""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.formats.extf import columns
from kontobahn.sentences import Sentence, shortened


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


class RowWarning(NamedTuple):
    """Something that does not follow the format but was accepted: two sentences, what was found and what was done.

    ``column`` is its title, or on line 1 the name of the field in the header; empty if the line as a whole is meant.
    """

    line: int
    column: str
    found: str
    done: str

    @classmethod
    def of(cls, category: Category, line: int, column: int | None, found: str, done: str) -> RowWarning:
        return cls(line, "" if column is None else category.titles[column], _shortened(found), done)

    @classmethod
    def of_header(cls, field: str, found: str, done: str) -> RowWarning:
        return cls(1, field, _shortened(found), done)


class InvalidValue(Exception):
    """A refused value; the parser of the row turns it into a RowError.

    ``column`` is an index into the fields of the row, None if it is the column the parser is reading.
    """

    def __init__(self, reason: str, column: int | None = None) -> None:
        super().__init__(_shortened(reason))
        self.column = column


_LONGEST = 300


def _shortened(message: str) -> str:
    """A message quotes the offending value, which may be very long."""
    if isinstance(message, Sentence):
        return message if len(message) <= _LONGEST else shortened(message, _LONGEST // 3)
    return shortened(message, _LONGEST)


class Category(NamedTuple):
    """A kind of file. Columns are numbered from 1, as in DATEV's documentation.

    ``version`` is the newest one, which has all columns. Those since ``oldest_version`` have the same ones, or fewer at the end.
    ``understood`` are the columns that we give a meaning to; the others are kept as they are. ``numeric`` are those that
    are written without quotes.
    """

    number: int
    name: str
    version: int
    oldest_version: int
    titles: tuple[str, ...]
    numeric: frozenset[int]
    understood: frozenset[int]

    @property
    def not_understood(self) -> tuple[int, ...]:
        return tuple(number for number in range(1, len(self.titles) + 1) if number not in self.understood)


_BANKS = (*range(41, 96, 11), *range(165, 220, 11))

BUCHUNGSSTAPEL = Category(
    21, "Buchungsstapel", 13, 2, columns.BUCHUNGSSTAPEL, columns.BUCHUNGSSTAPEL_NUMERIC,
    frozenset({*range(1, 15), 37, 38, 118}),
)  # fmt: skip
PERSONENKONTEN = Category(
    16, "Debitoren/Kreditoren", 5, 4, columns.PERSONENKONTEN, columns.PERSONENKONTEN_NUMERIC,
    frozenset({1, 2, *range(4, 12), *range(16, 21), 22, 29, 33, 37, 109, *range(154, 159), 160})
    | {bank + field for bank in _BANKS for field in (1, 4, 6, 8)},
)  # fmt: skip
KONTENBESCHRIFTUNGEN = Category(
    20, "Kontenbeschriftungen", 3, 2, columns.KONTENBESCHRIFTUNGEN, columns.KONTENBESCHRIFTUNGEN_NUMERIC,
    frozenset(range(1, 5)),
)  # fmt: skip
ZAHLUNGSBEDINGUNGEN = Category(
    46, "Zahlungsbedingungen", 2, 2, columns.ZAHLUNGSBEDINGUNGEN, columns.ZAHLUNGSBEDINGUNGEN_NUMERIC,
    frozenset({*range(1, 30), 31}),
)  # fmt: skip
CATEGORIES = {
    category.number: category
    for category in (PERSONENKONTEN, KONTENBESCHRIFTUNGEN, BUCHUNGSSTAPEL, ZAHLUNGSBEDINGUNGEN)
}

# Categories that DATEV has and we do not import.
NOT_SUPPORTED = {
    44: "Textschlüssel", 47: "Konto-Notizen", 48: "Diverse Adressen", 62: "Filialen der Anlagenbuchführung",
    63: "Buchungssatzvorlagen der Anlagenbuchführung", 65: "Wiederkehrende Buchungen", 66: "Natural-Stapel",
    67: "Buchungstextkonstanten",
}  # fmt: skip
