"""Lines into fields, and which lines are refused before any field is looked at.

The rows of a Buchungsstapel have 87 columns after the last that most of them fill, and end alike or in a few ways. So an
end that was seen before is cut off and not split again, which takes a quarter off the time of an import.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from typing import Generic, TypeVar

from kontobahn.formats.extf.format import Abgelehnt

_E = TypeVar("_E")

_MOST_ENDS = 4_096
_MOST_LENGTHS = 3
_LEARNT_AT_ONCE = 4


class Ends(Generic[_E]):
    """Ends of lines that were seen, from a column on, with what was read from them. They have few different lengths."""

    def __init__(self, head_columns: int, read_end: Callable[[list[str]], _E]) -> None:
        self.head_columns = head_columns
        self._read_end = read_end
        self._known: dict[str, _E] = {}
        self._lengths: list[int] = []

    def cut_off(self, lines: list[str]) -> tuple[list[str], list[_E | None]]:
        """What remains of each line, and its end where that is known."""
        heads: list[str] = []
        ends: list[_E | None] = []
        known, lengths = self._known, self._lengths
        for line in lines:
            for length in lengths:
                end = known.get(line[-length:])
                if end is not None:
                    heads.append(line[:-length])
                    ends.append(end)
                    break
            else:
                heads.append(line)
                ends.append(None)
        return heads, ends

    def learn(self, lines: list[tuple[str, list[str]]]) -> None:
        """From some well-formed lines whose end was not known, with their fields."""
        for line, felder in lines[:_LEARNT_AT_ONCE]:
            try:
                value = self._read_end(felder)
            except Abgelehnt:
                continue
            if len(self._known) >= _MOST_ENDS:
                self._known.clear()
            end = line[_length_of(line, self.head_columns) :]
            self._known[end] = value
            # The latest comes first, so a length that is not met any more drops out.
            self._lengths = [len(end), *(length for length in self._lengths if length != len(end))][:_MOST_LENGTHS]


def _length_of(line: str, columns: int) -> int:
    """Where the first so many fields of a well-formed line end."""
    position = -1
    for _ in range(columns):
        position += 1
        if line.startswith('"', position):
            position = line.index('"', position + 1)
            while line.startswith('"', position + 1):
                position = line.index('"', position + 2)
        position = line.index(";", position)
    return position


def split_lines(lines: list[str]) -> list[list[str]] | None:
    """The fields of each line, quickly; None where a line is malformed."""
    try:
        rows = list(csv.reader(lines, delimiter=";", strict=True))
    except csv.Error:
        return None
    # A quote that is not closed swallows the line after it, and there are fewer rows than lines.
    return rows if len(rows) == len(lines) else None


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def split_line(line: str) -> list[str]:
    """The fields of one line; Abgelehnt where a quote is wrong or a text holds a control character."""
    line = line.removesuffix("\r")
    control = _CONTROL.search(line)
    try:
        row: list[str] = next(csv.reader([_CONTROL.sub("\0", line)], delimiter=";", strict=True))
    except csv.Error as error:
        raise Abgelehnt(
            "A quoted text is not closed on this line, or something other than a semicolon follows it."
        ) from error
    if control:
        spalte = next(number for number, feld in enumerate(row, 1) if "\0" in feld)
        raise Abgelehnt(f"The text holds the control character 0x{ord(control[0]):02X}.", spalte)
    return row
