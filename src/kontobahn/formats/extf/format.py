"""The frame of a DATEV-format file: its categories, their versions and columns, and what goes wrong with a file or a row.

What the columns of a category mean is said in that category's module.
"""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.formats.extf import columns


class ExtfError(Exception):
    """A file that cannot be read at all, or a record that cannot be written."""

    def __init__(self, message: str) -> None:
        super().__init__(_shortened(message))


class Zeilenfehler(NamedTuple):
    """A row that was refused, and why. ``spalte`` is empty where the row as a whole is wrong."""

    zeile: int
    spalte: str
    grund: str


class Abgelehnt(Exception):
    """A value that is refused; the parser of the row, which knows the column, makes a Zeilenfehler of it."""

    def __init__(self, grund: str, spalte: int = 0) -> None:
        super().__init__(_shortened(grund))
        self.spalte = spalte


def _shortened(sentence: str) -> str:
    """A sentence names the value that it is about, and that may be a whole page."""
    return sentence if len(sentence) <= 300 else f"{sentence[:150]} … {sentence[-140:]}"


class Kategorie(NamedTuple):
    """A kind of file. ``gedeutet`` are the columns that we understand; the others are carried along as they are."""

    nummer: int
    name: str
    version: int
    fewest_columns: dict[int, int]
    titel: tuple[str, ...]
    zahlen: frozenset[int]
    gedeutet: frozenset[int]

    @property
    def weitere(self) -> tuple[int, ...]:
        return tuple(number for number in range(1, len(self.titel) + 1) if number not in self.gedeutet)


# Other programs write the older versions of a Buchungsstapel, and leave out columns at the end of a version.
_BUCHUNGSSTAPEL_VERSIONS = {**dict.fromkeys(range(7, 13), 14), 13: 125}
_BANKEN = range(41, 96, 11)

BUCHUNGSSTAPEL = Kategorie(
    21, "Buchungsstapel", 13, _BUCHUNGSSTAPEL_VERSIONS, columns.BUCHUNGSSTAPEL, columns.BUCHUNGSSTAPEL_ZAHLEN,
    frozenset({*range(1, 15), 37, 38, 118}),
)  # fmt: skip
PERSONENKONTEN = Kategorie(
    16, "Debitoren/Kreditoren", 5, {5: 243}, columns.PERSONENKONTEN, columns.PERSONENKONTEN_ZAHLEN,
    frozenset({1, 2, *range(4, 12), *range(16, 21), 22, 29, 33, 37, 109, *range(154, 159), 160})
    | {bank + field for bank in _BANKEN for field in (1, 4, 6, 8)},
)  # fmt: skip
KONTENBESCHRIFTUNGEN = Kategorie(
    20, "Kontenbeschriftungen", 3, {2: 3, 3: 4}, columns.KONTENBESCHRIFTUNGEN, columns.KONTENBESCHRIFTUNGEN_ZAHLEN,
    frozenset(range(1, 5)),
)  # fmt: skip
ZAHLUNGSBEDINGUNGEN = Kategorie(
    46, "Zahlungsbedingungen", 2, {2: 31}, columns.ZAHLUNGSBEDINGUNGEN, columns.ZAHLUNGSBEDINGUNGEN_ZAHLEN,
    frozenset({*range(1, 30), 31}),
)  # fmt: skip
KATEGORIEN = {
    kategorie.nummer: kategorie
    for kategorie in (PERSONENKONTEN, KONTENBESCHRIFTUNGEN, BUCHUNGSSTAPEL, ZAHLUNGSBEDINGUNGEN)
}


def check_titel(kategorie: Kategorie, version: int, titel: list[str]) -> None:
    """The titles must be ours from the first column on; only those that we give a meaning to are compared."""
    fewest, most = kategorie.fewest_columns[version], len(kategorie.titel)
    if not fewest <= len(titel) <= most:
        wanted = str(most) if fewest == most else f"{fewest} to {most}"
        raise ExtfError(f"Line 2 has {len(titel)} column titles; {kategorie.name} version {version} has {wanted}.")
    for number, (found, wanted) in enumerate(zip(titel, kategorie.titel, strict=False), 1):
        if number in kategorie.gedeutet and columns.plain(found) != columns.plain(wanted):
            raise ExtfError(f"Line 2, column {number} is titled '{found}', not '{wanted}'.")
