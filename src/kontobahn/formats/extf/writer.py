"""Writes DATEV-format files. Every row is parsed again before it is written, so our reader accepts our own files.

Rows are collected in a temporary file as UTF-8: only at the end is it known whether code page 1252 can hold them all.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, BinaryIO, TypeVar

from kontobahn.formats.extf import buchungsstapel, stammdaten
from kontobahn.formats.extf.buchungsstapel import Buchungssatz
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
from kontobahn.formats.extf.header import Header, format_header, parse_header
from kontobahn.formats.extf.rows import Tally, split_line, split_lines
from kontobahn.formats.extf.stammdaten import Kontobeschriftung, Personenkonto, Zahlungsbedingung

Target = str | os.PathLike[str] | BinaryIO

_ROWS_AT_ONCE = 100
_BYTES_IN_MEMORY = 8 * 1024 * 1024
_BLOCK = 256 * 1024
_R = TypeVar("_R", Buchungssatz, Personenkonto, Kontobeschriftung, Zahlungsbedingung)
_Parser = Callable[[int, list[str]], _R | RowError]
# From a record that cannot be written, and the reason, to what is written instead: others that can, or nothing.
Mend = Callable[[_R, str], Iterable[_R]]
# Of a file name, between EXTF_ and .csv.
MAX_NAME = 51


def write_buchungsstapel(
    target: Target, header: Header, records: Iterable[Buchungssatz], mend: Mend[Buchungssatz] | None = None
) -> int:
    """Writes postings to a path or a binary stream and returns their number.

    One that cannot be written is replaced by what `mend` says; without it, raises ExtfError. So do the functions below.
    """
    formatter = buchungsstapel.formatter(header)
    return _write(target, header, BUCHUNGSSTAPEL, records, formatter, buchungsstapel.parser, mend)


def write_personenkonten(
    target: Target, header: Header, records: Iterable[Personenkonto], mend: Mend[Personenkonto] | None = None
) -> int:
    formatter = stammdaten.person_formatter(header)
    return _write(target, header, PERSONENKONTEN, records, formatter, stammdaten.person_parser, mend)


def write_kontenbeschriftungen(
    target: Target, header: Header, records: Iterable[Kontobeschriftung], mend: Mend[Kontobeschriftung] | None = None
) -> int:
    formatter = stammdaten.label_formatter(header)
    return _write(target, header, KONTENBESCHRIFTUNGEN, records, formatter, stammdaten.label_parser, mend)


def write_zahlungsbedingungen(
    target: Target, header: Header, records: Iterable[Zahlungsbedingung], mend: Mend[Zahlungsbedingung] | None = None
) -> int:
    formatter = stammdaten.terms_formatter(header)
    return _write(target, header, ZAHLUNGSBEDINGUNGEN, records, formatter, stammdaten.terms_parser, mend)


def file_name(header: Header, suffix: str = "") -> str:
    """Returns EXTF_….csv with category, client and period; without the end of the period if that would be too long."""
    name = re.sub(r"[^A-Za-z]+", "_", CATEGORIES[header.category].name)
    stem = f"{name}_{header.berater}_{header.mandant}_{header.datum_von or header.wj_beginn:%Y%m%d}"
    until = f"_{header.datum_bis:%Y%m%d}" if header.datum_bis else ""
    if len(stem + until + suffix) > MAX_NAME:
        until = ""
    return f"EXTF_{stem}{until}{suffix}.csv"


def _write(
    target: Target,
    header: Header,
    category: Category,
    records: Iterable[_R],
    write_row: Callable[[_R], str],
    parser: Callable[[Header, list[RowWarning]], _Parser[_R]],
    mend: Mend[_R] | None,
) -> int:
    header_line = format_header(header, category)
    _check_header(header_line)
    # A value that is only warned about may be written: the books hold it, and an export leaves nothing out.
    warned: list[RowWarning] = []
    parse_row = parser(header, warned)
    count = 0
    with SpooledTemporaryFile(_BYTES_IN_MEMORY) as spool:
        text = _Text(spool)
        text.add([header_line, ";".join(category.titles)])
        remaining = iter(records)
        while batch := list(islice(remaining, _ROWS_AT_ONCE)):
            try:
                lines = _lines(category, batch, write_row, parse_row)
            except _Refused as refused:
                if mend is None:
                    raise ExtfError(f"Record {count + refused.index + 1} cannot be written: {refused}") from refused
                lines = [line for record in batch for line in _mended(category, record, write_row, parse_row, mend)]
            text.add(lines)
            count += len(lines)
            warned.clear()
        if isinstance(target, str | os.PathLike):
            _save(text, Path(target))
        else:
            text.copy_to(target)
    return count


def _check_header(line: str) -> None:
    """Raises ExtfError if our own reader would have anything to say about the header."""
    warned: list[RowWarning] = []
    try:
        parse_header(split_line(line), warned)
    except InvalidValue as error:
        raise ExtfError(f"The header cannot be written: {error}") from error
    if warned:
        raise ExtfError(f"The header cannot be written: {warned[0].column}: {warned[0].found}")


def _save(text: _Text, path: Path) -> None:
    """All or nothing: there is never half a file under its name."""
    unfinished = path.with_name(path.name + ".part")
    try:
        with open(unfinished, "wb") as file:
            text.copy_to(file)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


class _Refused(Exception):
    """A record of a batch that cannot be written."""

    def __init__(self, reason: str, index: int) -> None:
        super().__init__(reason)
        self.index = index


def _lines(category: Category, batch: list[_R], write_row: Callable[[_R], str], parse_row: _Parser[_R]) -> list[str]:
    lines: list[str] = []
    checked = 0
    try:
        lines.extend(map(write_row, batch))
        rows = (split_lines(lines) if _is_clean(lines) else None) or map(split_line, lines)
        for record, row in zip(batch, rows, strict=True):
            back = parse_row(record.line, row)
            if back != record:
                _check_same(category, record, back)
            checked += 1
    except InvalidValue as error:
        column = "" if error.column is None else f"{category.titles[error.column]}: "
        raise _Refused(f"{column}{error}", checked if len(lines) == len(batch) else len(lines)) from error
    except UnicodeEncodeError as error:
        index = next(number for number, line in enumerate(lines) if not _is_whole(line))
        raise _Refused(f"A text contains half a character, U+{ord(error.object[error.start]):04X}.", index) from error
    return lines


def _mended(
    category: Category, record: _R, write_row: Callable[[_R], str], parse_row: _Parser[_R], mend: Mend[_R]
) -> list[str]:
    try:
        return _lines(category, [record], write_row, parse_row)
    except _Refused as refused:
        others = mend(record, str(refused))
        return [line for other in others for line in _mended(category, other, write_row, parse_row, mend)]


def _is_clean(lines: list[str]) -> bool:
    tally = Tally()
    tally.feed("".join(lines).encode())
    return tally.is_clean and tally.line == 1


def _is_whole(line: str) -> bool:
    return all(not "\ud800" <= character <= "\udfff" for character in line)


def _check_same(category: Category, record: _R, back: _R | RowError) -> None:
    """Raises InvalidValue if the row reads back differently; only the order within ``weitere`` may change."""
    if isinstance(back, RowError):
        raise InvalidValue(back.reason, category.titles.index(back.column) if back.column else None)
    for name, value, read in zip(record._fields, record, back, strict=True):
        if value != read and name != "weitere":
            raise InvalidValue(f"{name} {value!r} would be read back as {read!r}.")


class _Text:
    """The lines of the file being written, and which encodings can hold them."""

    def __init__(self, spool: IO[bytes]) -> None:
        self._spool = spool
        self._fits_cp1252 = True
        self._is_ascii = True
        self._would_pass_for_utf8 = True

    def add(self, lines: list[str]) -> None:
        text = "\r\n".join([*lines, ""])
        data = text.encode()
        self._spool.write(data)
        if not data.isascii():
            self._is_ascii = False
            self._try_cp1252(text)

    def _try_cp1252(self, text: str) -> None:
        try:
            data = text.encode("cp1252")
        except UnicodeEncodeError:
            self._fits_cp1252 = False
            return
        try:
            data.decode()
        except UnicodeDecodeError:
            self._would_pass_for_utf8 = False

    def copy_to(self, target: BinaryIO | IO[bytes]) -> None:
        # A text like "Ã¼" in code page 1252 is also UTF-8, and a reader could not tell which is meant.
        in_cp1252 = self._is_ascii or (self._fits_cp1252 and not self._would_pass_for_utf8)
        decoder = codecs.getincrementaldecoder("utf-8")()
        self._spool.seek(0)
        if not in_cp1252:
            target.write(codecs.BOM_UTF8)
        while block := self._spool.read(_BLOCK):
            target.write(decoder.decode(block).encode("cp1252") if in_cp1252 else block)
