"""Splits lines into fields, and refuses malformed lines.

The rows of a Buchungsstapel have 87 columns after the last one that most of them fill, and the tails of most rows are
equal. A tail that was seen before is cut off and not split again, which takes a quarter off the time of an import.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from typing import Generic, TypeVar

from kontobahn.formats.extf.format import InvalidValue

_T = TypeVar("_T")

_MAX_TAILS = 4_096
_MAX_LENGTHS = 3
_LEARNT_AT_ONCE = 4


class KnownTails(Generic[_T]):
    """Tails of lines that were seen, from a column on, with what was read from them. They have few different lengths."""

    def __init__(self, head_columns: int, read_tail: Callable[[list[str]], _T]) -> None:
        self.head_columns = head_columns
        self._read_tail = read_tail
        self._known: dict[str, _T] = {}
        self._lengths: list[int] = []

    def cut_off(self, lines: list[str]) -> tuple[list[str], list[_T | None]]:
        """Returns the head of each line and what its tail says; the whole line and None if its tail is not known."""
        heads: list[str] = []
        tails: list[_T | None] = []
        known, lengths = self._known, self._lengths
        for line in lines:
            for length in lengths:
                tail = known.get(line[-length:])
                if tail is not None:
                    heads.append(line[:-length])
                    tails.append(tail)
                    break
            else:
                heads.append(line)
                tails.append(None)
        return heads, tails

    def learn(self, lines: list[tuple[str, list[str]]]) -> None:
        """Remembers the tails of some of these well-formed lines, which come with their fields."""
        for line, fields in lines[:_LEARNT_AT_ONCE]:
            try:
                value = self._read_tail(fields)
            except InvalidValue:
                continue
            if len(self._known) >= _MAX_TAILS:
                self._known.clear()
            tail = line[_head_length(line, self.head_columns) :]
            self._known[tail] = value
            # The latest comes first, so a length that no longer occurs drops out.
            self._lengths = [len(tail), *(length for length in self._lengths if length != len(tail))][:_MAX_LENGTHS]


def _head_length(line: str, columns: int) -> int:
    """Returns the length of the first `columns` fields of a well-formed line."""
    position = -1
    for _ in range(columns):
        position += 1
        if line.startswith('"', position):
            position = line.index('"', position + 1)
            while line.startswith('"', position + 1):
                position = line.index('"', position + 2)
        position = line.index(";", position)
    return position


# BEDI "…" is a text with quotes of its own, which some programs do not double.
_BELEGLINK = re.compile(r'(?<![^;])"([A-Z]{2,8}) "([^";]+)""(?![^;\r])')


def _double_quotes_of_links(line: str) -> str:
    return _BELEGLINK.sub(r'"\1 ""\2"""', line)


def split_lines(lines: list[str]) -> list[list[str]] | None:
    """Returns the fields of each line, or None if any line is malformed."""
    rows = _split_all(lines)
    return rows if rows is not None else _split_all(list(map(_double_quotes_of_links, lines)))


def _split_all(lines: list[str]) -> list[list[str]] | None:
    try:
        rows = list(csv.reader(lines, delimiter=";", strict=True))
    except csv.Error:
        return None
    # A quote that is not closed swallows the line after it, and there are fewer rows than lines.
    return rows if len(rows) == len(lines) else None


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def split_line(line: str) -> list[str]:
    """Returns the fields of one line. Raises InvalidValue if a quote is misplaced or a text holds a control character."""
    line = line.removesuffix("\r")
    control = _CONTROL.search(line)
    rows = split_lines([_CONTROL.sub("\0", line)])
    if rows is None:
        raise InvalidValue("A quoted text is not closed on this line, or something other than a semicolon follows it.")
    if control:
        column = next(index for index, field in enumerate(rows[0]) if "\0" in field)
        raise InvalidValue(f"The text holds the control character 0x{ord(control[0]):02X}.", column)
    return rows[0]
