"""Reads a DATEV-format file row by row, in bounded memory. An invalid row is reported and does not end the reading."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any, BinaryIO, cast

from kontobahn.formats.extf import buchungsstapel, kontenbeschriftungen, personenkonten, zahlungsbedingungen
from kontobahn.formats.extf.buchungsstapel import HEAD_COLUMNS, Buchungssatz, RowTail, read_tail
from kontobahn.formats.extf.encoding import inspect, lines_of
from kontobahn.formats.extf.format import (
    BUCHUNGSSTAPEL,
    CATEGORIES,
    KONTENBESCHRIFTUNGEN,
    PERSONENKONTEN,
    ZAHLUNGSBEDINGUNGEN,
    Category,
    ExtfError,
    InvalidValue,
    RowError,
    check_titles,
)
from kontobahn.formats.extf.header import Header, parse_header
from kontobahn.formats.extf.kontenbeschriftungen import Kontobeschriftung
from kontobahn.formats.extf.personenkonten import Personenkonto
from kontobahn.formats.extf.rows import KnownTails, split_line, split_lines
from kontobahn.formats.extf.zahlungsbedingungen import Zahlungsbedingung

Record = Buchungssatz | Personenkonto | Kontobeschriftung | Zahlungsbedingung
Source = str | os.PathLike[str] | BinaryIO

_Parse = Callable[..., Any]
PARSERS: dict[int, Callable[[Header], _Parse]] = {
    BUCHUNGSSTAPEL.number: buchungsstapel.parser,
    PERSONENKONTEN.number: personenkonten.parser,
    KONTENBESCHRIFTUNGEN.number: kontenbeschriftungen.parser,
    ZAHLUNGSBEDINGUNGEN.number: zahlungsbedingungen.parser,
}


def open_extf(source: Source) -> ExtfFile:
    """Opens a file by its path, or a seekable binary stream. Raises ExtfError if it cannot be read at all."""
    with ExitStack() as opened:
        if isinstance(source, str | os.PathLike):
            source = opened.enter_context(open(source, "rb"))
        return ExtfFile(source, opened)


class ExtfFile:
    """An open file: its header, and by iteration its records, with a RowError in place of each refused row.

    It may be iterated again, but not twice at the same time. ``bytes_read`` of ``total_bytes`` is the progress.
    """

    def __init__(self, stream: BinaryIO, opened: ExitStack) -> None:
        self._stream = stream
        stream.seek(0)
        self._inspection = inspect(stream)
        self.encoding = self._inspection.encoding
        self.total_bytes = self._inspection.total_bytes
        self.bytes_read = 0
        header_fields, titles = self._first_lines()
        self.header: Header = parse_header(header_fields)
        self.category: Category = CATEGORIES[self.header.category]
        check_titles(self.category, self.header.version, titles)
        self._columns = len(titles)
        self._missing = [""] * (len(self.category.titles) - len(titles))
        self._opened = opened.pop_all()

    def _first_lines(self) -> tuple[list[str], list[str]]:
        lines: list[str] = []
        for block, _ in lines_of(self._stream, self._inspection):
            lines += block
            if len(lines) > 1:
                break
        if not lines:
            raise ExtfError("The file is empty.")
        if "\0" in lines[0]:
            raise ExtfError("Line 1 holds NUL characters; a file in UTF-16 must have a byte order mark.")
        fields = []
        for number, line in enumerate(lines[:2], 1):
            try:
                fields.append(split_line(line))
            except InvalidValue as error:
                raise ExtfError(f"Line {number} cannot be read: {error}") from error
        return fields[0] or [""], fields[1] if len(fields) > 1 else []

    def __iter__(self) -> Iterator[Record | RowError]:
        parse = PARSERS[self.category.number](self.header)
        has_tails = self.category is BUCHUNGSSTAPEL and self._columns > HEAD_COLUMNS
        tails = KnownTails(HEAD_COLUMNS, read_tail) if has_tails and self._inspection.is_clean else None
        first = 1
        for lines, bytes_read in lines_of(self._stream, self._inspection):
            self.bytes_read = bytes_read
            # Header and titles have been read; they count as empty lines.
            for index in range(min(3 - first, len(lines))):
                lines[index] = ""
            yield from self._by_block(lines, first, parse, tails) if tails else self._one_by_one(lines, first, parse)
            first += len(lines)

    def _by_block(
        self, lines: list[str], first: int, parse: _Parse, tails: KnownTails[RowTail]
    ) -> Iterator[Record | RowError]:
        heads, known = tails.cut_off(lines)
        rows = split_lines(heads)
        if rows is None:
            yield from self._one_by_one(lines, first, parse)
            return
        unknown = []
        for number, fields, tail in zip(count(first), rows, known, strict=False):
            if tail is not None and len(fields) == HEAD_COLUMNS:
                yield parse(number, fields, tail)
            elif tail is None and len(fields) == self._columns:
                fields.extend(self._missing)
                unknown.append((lines[number - first], fields))
                yield parse(number, fields)
            elif fields or tail is not None:
                yield from self._one_by_one([lines[number - first]], number, parse)
        tails.learn(unknown)

    def _one_by_one(self, lines: list[str], first: int, parse: _Parse) -> Iterator[Record | RowError]:
        """Parses each line on its own, so that an unclosed quote affects no other line."""
        for number, line in enumerate(lines, first):
            try:
                fields = split_line(line)
            except InvalidValue as error:
                yield RowError(number, self._title(error.column), str(error))
                continue
            if len(fields) == self._columns:
                yield parse(number, fields + self._missing)
            elif fields:
                yield RowError(number, "", f"The row has {len(fields)} columns; line 2 has {self._columns} titles.")

    def _title(self, column: int | None) -> str:
        titles = self.category.titles
        return titles[column] if column is not None and column < len(titles) else ""

    def buchungssaetze(self) -> Iterator[Buchungssatz | RowError]:
        return cast(Iterator[Buchungssatz | RowError], self._records_of(BUCHUNGSSTAPEL))

    def personenkonten(self) -> Iterator[Personenkonto | RowError]:
        return cast(Iterator[Personenkonto | RowError], self._records_of(PERSONENKONTEN))

    def kontenbeschriftungen(self) -> Iterator[Kontobeschriftung | RowError]:
        return cast(Iterator[Kontobeschriftung | RowError], self._records_of(KONTENBESCHRIFTUNGEN))

    def zahlungsbedingungen(self) -> Iterator[Zahlungsbedingung | RowError]:
        return cast(Iterator[Zahlungsbedingung | RowError], self._records_of(ZAHLUNGSBEDINGUNGEN))

    def _records_of(self, category: Category) -> Iterator[Record | RowError]:
        if self.category is not category:
            raise ExtfError(f"The file holds {self.category.name}, not {category.name}.")
        return iter(self)

    def close(self) -> None:
        self._opened.close()

    def __enter__(self) -> ExtfFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
