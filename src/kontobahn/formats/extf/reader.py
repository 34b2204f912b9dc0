"""Reads a DATEV-format file row by row, in bounded memory. An invalid row is reported and does not end the reading.

Columns go by their position, as DATEV reads them; the titles are for people. A row may have fewer columns than the format, or more.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any, BinaryIO, cast

from kontobahn.formats.extf import buchungsstapel, stammdaten
from kontobahn.formats.extf.buchungsstapel import HEAD_COLUMNS, Buchungssatz, RowTail, read_tail
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
    RowWarning,
)
from kontobahn.formats.extf.header import Header, parse_header
from kontobahn.formats.extf.rows import Inspection, KnownTails, inspect, lines_of, split_line, split_lines
from kontobahn.formats.extf.stammdaten import Kontobeschriftung, Personenkonto, Zahlungsbedingung
from kontobahn.formats.extf.values import LEFT_OUT
from kontobahn.sentences import said

Record = Buchungssatz | Personenkonto | Kontobeschriftung | Zahlungsbedingung
Source = str | os.PathLike[str] | BinaryIO

_Parse = Callable[..., Any]
_Found = Iterator[Record | RowError | RowWarning]
PARSERS: dict[int, Callable[[Header, list[RowWarning]], _Parse]] = {
    BUCHUNGSSTAPEL.number: buchungsstapel.parser,
    PERSONENKONTEN.number: stammdaten.person_parser,
    KONTENBESCHRIFTUNGEN.number: stammdaten.label_parser,
    ZAHLUNGSBEDINGUNGEN.number: stammdaten.terms_parser,
}


def open_extf(source: Source, inspection: Inspection | None = None) -> ExtfFile:
    """Opens a file by its path, or a seekable binary stream. Raises ExtfError if it cannot be read at all.

    `inspection` is that of another ExtfFile of the same bytes: it takes reading all of them.
    """
    with ExitStack() as opened:
        if isinstance(source, str | os.PathLike):
            source = opened.enter_context(open(source, "rb"))
        return ExtfFile(source, opened, inspection)


class ExtfFile:
    """An open file: its header with `warnings` about it, and by iteration its records.

    A RowError stands in place of each refused row, and a RowWarning before the record that it is about. The file may be iterated
    again, but not twice at the same time. ``bytes_read`` of ``total_bytes`` is the progress.
    """

    def __init__(self, stream: BinaryIO, opened: ExitStack, inspection: Inspection | None = None) -> None:
        self._stream = stream
        stream.seek(0)
        self.inspection = inspection or inspect(stream)
        self.encoding = self.inspection.encoding
        self.total_bytes = self.inspection.total_bytes
        self.bytes_read = 0
        self.warnings: list[RowWarning] = []
        first, second = self._first_lines()
        self.header: Header = parse_header(first, self.warnings)
        self.category: Category = CATEGORIES[self.header.category]
        self._first_row = 3
        # Every category has an amount or a number in its first column, and no title begins with a digit.
        if second.lstrip('"')[:1].isdigit():
            self._first_row = 2
            self.warnings.append(RowWarning(2, "", "The line holds a row instead of titles.", "It was read as a row."))
        self._opened = opened.pop_all()

    def _first_lines(self) -> tuple[list[str], str]:
        """Returns the fields of the header, and the line after it."""
        lines: list[str] = []
        for block, _, _ in lines_of(self._stream, self.inspection):
            lines += block
            if len(lines) > 1:
                break
        if not lines:
            raise ExtfError("The file is empty.")
        if "\0" in lines[0]:
            raise ExtfError("Line 1 holds NUL characters; a file in UTF-16 must have a byte order mark.")
        try:
            header = split_line(lines[0])
        except InvalidValue as error:
            raise ExtfError(said("Line 1 cannot be read: {why}", why=error)) from error
        if header[:1] == ["EXTF"] and len(lines) == 1:
            raise ExtfError("The file ends after its header, line 1.")
        return header or [""], lines[1] if len(lines) > 1 else ""

    def __iter__(self) -> _Found:
        warned: list[RowWarning] = []
        parse = PARSERS[self.category.number](self.header, warned)
        in_blocks = self.category is BUCHUNGSSTAPEL and self.inspection.is_clean
        tails = KnownTails(HEAD_COLUMNS, read_tail) if in_blocks else None
        first, before = 1, ""
        for lines, bytes_read, is_open in lines_of(self._stream, self.inspection):
            self.bytes_read = bytes_read
            # Header and titles have been read; they count as empty lines.
            for index in range(min(self._first_row - first, len(lines))):
                lines[index] = ""
            if is_open and _is_cut_off(lines[0], before):
                yield RowError(
                    first, "", "The file ends within this row, which has fewer columns than the one before it."
                )
            elif tails:
                yield from self._by_block(lines, first, parse, warned, tails)
            else:
                yield from self._one_by_one(lines, first, parse, warned)
            first += len(lines)
            before = lines[-1] if lines else before

    def _by_block(
        self, lines: list[str], first: int, parse: _Parse, warned: list[RowWarning], tails: KnownTails[RowTail]
    ) -> _Found:
        heads, known = tails.cut_off(lines)
        rows = split_lines(heads)
        if rows is None:
            yield from self._one_by_one(lines, first, parse, warned)
            return
        unknown = []
        for number, fields, tail in zip(count(first), rows, known, strict=False):
            if tail is not None and len(fields) == HEAD_COLUMNS:
                record = parse(number, fields, tail)
            elif tail is not None:
                yield from self._one_by_one([lines[number - first]], number, parse, warned)
                continue
            elif fields:
                has_tail = len(fields) > HEAD_COLUMNS
                whole = self._fitted(number, fields, warned)
                record = parse(number, whole)
                # A tail that is warned about is read in full each time; in a refused row it was not looked at.
                if has_tail and not warned and type(record) is not RowError:
                    unknown.append((lines[number - first], whole))
            else:
                continue
            if warned or type(record) is RowError:
                yield from _with_warnings(record, warned, lines[number - first])
            else:
                yield record
        tails.learn(unknown)

    def _one_by_one(self, lines: list[str], first: int, parse: _Parse, warned: list[RowWarning]) -> _Found:
        """Parses each line on its own, so that an unclosed quote affects no other line."""
        for number, line in enumerate(lines, first):
            try:
                fields = split_line(line)
            except InvalidValue as error:
                yield RowError(number, self._title(error.column), str(error))
                continue
            if fields:
                record = parse(number, self._fitted(number, fields, warned))
                yield from _with_warnings(record, warned, line)

    def _fitted(self, line: int, fields: list[str], warned: list[RowWarning]) -> list[str]:
        """Returns as many fields as the format has columns: missing ones are empty, and those beyond have no meaning."""
        columns = len(self.category.titles)
        beyond = fields[columns:]
        if any(beyond):
            filled = ", ".join(f"'{field}'" for field in beyond if field)
            found = said("The row goes on after its last column, {count}, with {beyond}.", count=columns, beyond=filled)
            warned.append(RowWarning.of(self.category, line, None, found, LEFT_OUT))
        return fields[:columns] if beyond else fields + [""] * (columns - len(fields))

    def _title(self, column: int | None) -> str:
        titles = self.category.titles
        return titles[column] if column is not None and column < len(titles) else ""

    def descriptor(self) -> int | None:
        """Returns the descriptor of the file, by which another process may read it; None if it is in memory."""
        try:
            return self._stream.fileno()
        except OSError:
            return None

    def rows_sha256(self) -> str:
        """Identifies the bytes of the rows, without the header, which holds the time of its creation."""
        digest = hashlib.sha256()
        self._stream.seek(0)
        self._stream.readline(), self._stream.readline()
        while block := self._stream.read(1 << 20):
            digest.update(block)
        return digest.hexdigest()

    def buchungssaetze(self) -> Iterator[Buchungssatz | RowError | RowWarning]:
        return cast(Iterator[Buchungssatz | RowError | RowWarning], self._records_of(BUCHUNGSSTAPEL))

    def personenkonten(self) -> Iterator[Personenkonto | RowError | RowWarning]:
        return cast(Iterator[Personenkonto | RowError | RowWarning], self._records_of(PERSONENKONTEN))

    def kontenbeschriftungen(self) -> Iterator[Kontobeschriftung | RowError | RowWarning]:
        return cast(Iterator[Kontobeschriftung | RowError | RowWarning], self._records_of(KONTENBESCHRIFTUNGEN))

    def zahlungsbedingungen(self) -> Iterator[Zahlungsbedingung | RowError | RowWarning]:
        return cast(Iterator[Zahlungsbedingung | RowError | RowWarning], self._records_of(ZAHLUNGSBEDINGUNGEN))

    def _records_of(self, category: Category) -> _Found:
        if self.category is not category:
            raise ExtfError(
                said("The file holds {found}, not {wanted}.", found=self.category.name, wanted=category.name)
            )
        return iter(self)

    def close(self) -> None:
        self._opened.close()

    def __enter__(self) -> ExtfFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_cut_off(line: str, before: str) -> bool:
    """Returns whether a last line without a line end is only the beginning of a row, as after an interrupted transfer."""
    try:
        return 0 < len(split_line(line)) < len(split_line(before))
    except InvalidValue:
        return False


def _with_warnings(
    record: Record | RowError, warned: list[RowWarning], line: str
) -> list[Record | RowError | RowWarning]:
    """Returns the warnings, then the record. A refused row gives only its error, an empty one nothing at all."""
    warnings = warned.copy()
    warned.clear()
    if isinstance(record, RowError):
        return [record] if line.strip(' ;"\r') else []
    return [*warnings, record]
