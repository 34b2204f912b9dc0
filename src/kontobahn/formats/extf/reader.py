"""Reads a DATEV-format file row by row, in bounded memory. A bad row is told, never skipped and never the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any, BinaryIO, cast

from kontobahn.formats.extf import buchungsstapel, kontenbeschriftungen, personenkonten, zahlungsbedingungen
from kontobahn.formats.extf.buchungsstapel import HEAD_COLUMNS, Buchungssatz, Ende, read_ende
from kontobahn.formats.extf.encoding import examine, lines_of
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
    check_titel,
)
from kontobahn.formats.extf.header import Kopf, parse_kopf
from kontobahn.formats.extf.kontenbeschriftungen import Kontobeschriftung
from kontobahn.formats.extf.personenkonten import Personenkonto
from kontobahn.formats.extf.rows import Ends, split_line, split_lines
from kontobahn.formats.extf.zahlungsbedingungen import Zahlungsbedingung

Datensatz = Buchungssatz | Personenkonto | Kontobeschriftung | Zahlungsbedingung
Source = str | os.PathLike[str] | BinaryIO

_Parse = Callable[..., Any]
PARSERS: dict[int, Callable[[Kopf], _Parse]] = {
    BUCHUNGSSTAPEL.nummer: buchungsstapel.parser,
    PERSONENKONTEN.nummer: personenkonten.parser,
    KONTENBESCHRIFTUNGEN.nummer: kontenbeschriftungen.parser,
    ZAHLUNGSBEDINGUNGEN.nummer: zahlungsbedingungen.parser,
}


def open_extf(source: Source) -> ExtfDatei:
    """Open a file by its path, or a seekable binary stream; ExtfError where it cannot be read at all."""
    with ExitStack() as opened:
        if isinstance(source, str | os.PathLike):
            source = opened.enter_context(open(source, "rb"))
        return ExtfDatei(source, opened)


class ExtfDatei:
    """An open file: its header, and by iteration its records, or a Zeilenfehler in the place of a refused row.

    It may be iterated again, but not twice at the same time. ``bytes_read`` of ``total_bytes`` is how far that has come.
    """

    def __init__(self, stream: BinaryIO, opened: ExitStack) -> None:
        self._stream = stream
        stream.seek(0)
        self._befund = examine(stream)
        self.sha256 = self._befund.sha256
        self.kodierung = self._befund.kodierung
        self.total_bytes = self._befund.total_bytes
        self.bytes_read = 0
        header, titel = self._first_lines()
        self.kopf: Kopf = parse_kopf(header)
        self.kategorie: Kategorie = KATEGORIEN[self.kopf.kategorie]
        check_titel(self.kategorie, self.kopf.version, titel)
        self._columns = len(titel)
        self._missing = [""] * (len(self.kategorie.titel) - len(titel))
        self._opened = opened.pop_all()

    @property
    def client_id(self) -> str:
        return self.kopf.client_id

    def _first_lines(self) -> tuple[list[str], list[str]]:
        lines: list[str] = []
        for block, _ in lines_of(self._stream, self._befund):
            lines += block
            if len(lines) > 1:
                break
        if not lines:
            raise ExtfError("The file is empty.")
        if "\0" in lines[0]:
            raise ExtfError("Line 1 holds NUL characters; a file in UTF-16 must have a byte order mark.")
        felder = []
        for number, line in enumerate(lines[:2], 1):
            try:
                felder.append(split_line(line))
            except Abgelehnt as refusal:
                raise ExtfError(f"Line {number} cannot be read: {refusal}") from refusal
        return felder[0] or [""], felder[1] if len(felder) > 1 else []

    def __iter__(self) -> Iterator[Datensatz | Zeilenfehler]:
        parse = PARSERS[self.kategorie.nummer](self.kopf)
        has_ends = self.kategorie is BUCHUNGSSTAPEL and self._columns > HEAD_COLUMNS
        ends = Ends(HEAD_COLUMNS, read_ende) if has_ends and self._befund.is_clean else None
        first = 1
        for lines, bytes_read in lines_of(self._stream, self._befund):
            self.bytes_read = bytes_read
            # Header and titles have been read; they count as empty lines.
            for index in range(min(3 - first, len(lines))):
                lines[index] = ""
            yield from self._by_block(lines, first, parse, ends) if ends else self._one_by_one(lines, first, parse)
            first += len(lines)

    def _by_block(
        self, lines: list[str], first: int, parse: _Parse, ends: Ends[Ende]
    ) -> Iterator[Datensatz | Zeilenfehler]:
        heads, known = ends.cut_off(lines)
        rows = split_lines(heads)
        if rows is None:
            yield from self._one_by_one(lines, first, parse)
            return
        unknown = []
        for zeile, felder, ende in zip(count(first), rows, known, strict=False):
            if ende is not None and len(felder) == HEAD_COLUMNS:
                yield parse(zeile, felder, ende)
            elif ende is None and len(felder) == self._columns:
                felder.extend(self._missing)
                unknown.append((lines[zeile - first], felder))
                yield parse(zeile, felder)
            elif felder or ende is not None:
                yield from self._one_by_one([lines[zeile - first]], zeile, parse)
        ends.learn(unknown)

    def _one_by_one(self, lines: list[str], first: int, parse: _Parse) -> Iterator[Datensatz | Zeilenfehler]:
        """Each on its own: a quote that is not closed takes no other line with it."""
        for zeile, line in enumerate(lines, first):
            try:
                felder = split_line(line)
            except Abgelehnt as refusal:
                titel = self.kategorie.titel
                yield Zeilenfehler(
                    zeile, titel[refusal.spalte - 1] if 0 < refusal.spalte <= len(titel) else "", str(refusal)
                )
                continue
            if len(felder) == self._columns:
                yield parse(zeile, felder + self._missing)
            elif felder:
                yield Zeilenfehler(zeile, "", f"The row has {len(felder)} columns; line 2 has {self._columns} titles.")

    def buchungssaetze(self) -> Iterator[Buchungssatz | Zeilenfehler]:
        return cast(Iterator[Buchungssatz | Zeilenfehler], self._records_of(BUCHUNGSSTAPEL))

    def personenkonten(self) -> Iterator[Personenkonto | Zeilenfehler]:
        return cast(Iterator[Personenkonto | Zeilenfehler], self._records_of(PERSONENKONTEN))

    def kontenbeschriftungen(self) -> Iterator[Kontobeschriftung | Zeilenfehler]:
        return cast(Iterator[Kontobeschriftung | Zeilenfehler], self._records_of(KONTENBESCHRIFTUNGEN))

    def zahlungsbedingungen(self) -> Iterator[Zahlungsbedingung | Zeilenfehler]:
        return cast(Iterator[Zahlungsbedingung | Zeilenfehler], self._records_of(ZAHLUNGSBEDINGUNGEN))

    def _records_of(self, kategorie: Kategorie) -> Iterator[Datensatz | Zeilenfehler]:
        if self.kategorie is not kategorie:
            raise ExtfError(f"The file holds {self.kategorie.name}, not {kategorie.name}.")
        return iter(self)

    def close(self) -> None:
        self._opened.close()

    def __enter__(self) -> ExtfDatei:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
