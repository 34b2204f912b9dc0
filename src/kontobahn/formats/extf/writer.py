"""Writes DATEV-format files. Every row is read back before it leaves, so a file of ours is one that our reader takes.

Rows are collected in a temporary file, as UTF-8; only at the end it is known whether code page 1252 can hold them all.
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

from kontobahn.formats.extf import buchungsstapel, kontenbeschriftungen, personenkonten, zahlungsbedingungen
from kontobahn.formats.extf.buchungsstapel import Buchungssatz
from kontobahn.formats.extf.encoding import Tally
from kontobahn.formats.extf.format import (
    BUCHUNGSSTAPEL,
    KATEGORIEN,
    KONTENBESCHRIFTUNGEN,
    PERSONENKONTEN,
    ZAHLUNGSBEDINGUNGEN,
    Abgelehnt,
    ExtfError,
    Kategorie,
    Zeilenfehler,
)
from kontobahn.formats.extf.header import Kopf, format_kopf, parse_kopf
from kontobahn.formats.extf.kontenbeschriftungen import Kontobeschriftung
from kontobahn.formats.extf.personenkonten import Personenkonto
from kontobahn.formats.extf.rows import split_line, split_lines
from kontobahn.formats.extf.zahlungsbedingungen import Zahlungsbedingung

Target = str | os.PathLike[str] | BinaryIO

_ROWS_AT_ONCE = 100
_BYTES_IN_MEMORY = 8 * 1024 * 1024
_BLOCK = 256 * 1024
_R = TypeVar("_R", Buchungssatz, Personenkonto, Kontobeschriftung, Zahlungsbedingung)
_Parser = Callable[[int, list[str]], _R | Zeilenfehler]


def write_buchungsstapel(target: Target, kopf: Kopf, saetze: Iterable[Buchungssatz]) -> int:
    """Write postings to a path or a binary stream, and say how many; ExtfError names the record that cannot be written."""
    return _write(target, kopf, BUCHUNGSSTAPEL, saetze, buchungsstapel.formatter(kopf), buchungsstapel.parser(kopf))


def write_personenkonten(target: Target, kopf: Kopf, personen: Iterable[Personenkonto]) -> int:
    return _write(target, kopf, PERSONENKONTEN, personen, personenkonten.formatter(kopf), personenkonten.parser(kopf))


def write_kontenbeschriftungen(target: Target, kopf: Kopf, konten: Iterable[Kontobeschriftung]) -> int:
    formatter, parser = kontenbeschriftungen.formatter(kopf), kontenbeschriftungen.parser(kopf)
    return _write(target, kopf, KONTENBESCHRIFTUNGEN, konten, formatter, parser)


def write_zahlungsbedingungen(target: Target, kopf: Kopf, bedingungen: Iterable[Zahlungsbedingung]) -> int:
    formatter, parser = zahlungsbedingungen.formatter(kopf), zahlungsbedingungen.parser(kopf)
    return _write(target, kopf, ZAHLUNGSBEDINGUNGEN, bedingungen, formatter, parser)


def file_name(kopf: Kopf) -> str:
    """EXTF_….csv, with what is in it, whose it is and of which time."""
    name = re.sub(r"[^A-Za-z]+", "_", KATEGORIEN[kopf.kategorie].name)
    time = f"{kopf.datum_von or kopf.wj_beginn:%Y%m%d}"
    if kopf.datum_bis:
        time += f"_{kopf.datum_bis:%Y%m%d}"
    return f"EXTF_{name}_{kopf.berater}_{kopf.mandant}_{time}.csv"


def _write(
    target: Target,
    kopf: Kopf,
    kategorie: Kategorie,
    records: Iterable[_R],
    write_row: Callable[[_R], str],
    parse_row: _Parser[_R],
) -> int:
    header = format_kopf(kopf, kategorie)
    try:
        parse_kopf(split_line(header))
    except Abgelehnt as refusal:
        raise ExtfError(f"The header cannot be written: {refusal}") from refusal
    count = 0
    with SpooledTemporaryFile(_BYTES_IN_MEMORY) as spool:
        text = _Text(spool)
        text.add([header, ";".join(kategorie.titel)])
        remaining = iter(records)
        while batch := list(islice(remaining, _ROWS_AT_ONCE)):
            text.add(_lines(kategorie, count, batch, write_row, parse_row))
            count += len(batch)
        if isinstance(target, str | os.PathLike):
            _put(text, Path(target))
        else:
            text.copy_to(target)
    return count


def _put(text: _Text, path: Path) -> None:
    """All or nothing: under its name there is never half a file."""
    unfinished = path.with_name(path.name + ".part")
    try:
        with open(unfinished, "wb") as file:
            text.copy_to(file)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _lines(
    kategorie: Kategorie, before: int, batch: list[_R], write_row: Callable[[_R], str], parse_row: _Parser[_R]
) -> list[str]:
    lines: list[str] = []
    checked = 0
    try:
        lines.extend(map(write_row, batch))
        rows = (split_lines(lines) if _is_clean(lines) else None) or map(split_line, lines)
        for record, row in zip(batch, rows, strict=True):
            back = parse_row(record.zeile, row)
            if back != record:
                _check_same(kategorie, record, back)
            checked += 1
    except Abgelehnt as refusal:
        number = before + (checked if len(lines) == len(batch) else len(lines)) + 1
        spalte = f"{kategorie.titel[refusal.spalte - 1]}: " if refusal.spalte else ""
        raise ExtfError(f"Record {number} cannot be written: {spalte}{refusal}") from refusal
    return lines


def _is_clean(lines: list[str]) -> bool:
    tally = Tally()
    try:
        tally.at("".join(lines).encode())
    except UnicodeEncodeError as error:
        raise ExtfError(f"A text holds half a character, U+{ord(error.object[error.start]):04X}.") from error
    return tally.is_clean and tally.line == 1


def _check_same(kategorie: Kategorie, record: _R, back: _R | Zeilenfehler) -> None:
    """The order of the further columns may differ; all else must come back as it was given."""
    if isinstance(back, Zeilenfehler):
        raise Abgelehnt(back.grund, kategorie.titel.index(back.spalte) + 1 if back.spalte else 0)
    for name, given, read in zip(record._fields, record, back, strict=True):
        if given != read and name != "weitere":
            raise Abgelehnt(f"{name} {given!r} would be read back as {read!r}.")


class _Text:
    """The lines of a file that is being made, and which encodings it may have."""

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
            self._look_at_cp1252(text)

    def _look_at_cp1252(self, text: str) -> None:
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
