"""Reads a DATEV-format file row by row, in bounded memory. A bad row is told, never skipped and never the end."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO, cast

from kontobahn.ledger.extf import buchungsstapel, kontenbeschriftungen, personenkonten, zahlungsbedingungen
from kontobahn.ledger.extf.buchungsstapel import Buchungssatz
from kontobahn.ledger.extf.format import (
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
from kontobahn.ledger.extf.kodierung import examine, lines_of
from kontobahn.ledger.extf.kontenbeschriftungen import Kontobeschriftung
from kontobahn.ledger.extf.kopf import Kopf, parse_kopf
from kontobahn.ledger.extf.personenkonten import Personenkonto
from kontobahn.ledger.extf.zahlungsbedingungen import Zahlungsbedingung

Datensatz = Buchungssatz | Personenkonto | Kontobeschriftung | Zahlungsbedingung
Source = str | os.PathLike[str] | BinaryIO

PARSERS: dict[int, Callable[[Kopf], Callable[[int, list[str]], Any]]] = {
    BUCHUNGSSTAPEL.nummer: buchungsstapel.parser,
    PERSONENKONTEN.nummer: personenkonten.parser,
    KONTENBESCHRIFTUNGEN.nummer: kontenbeschriftungen.parser,
    ZAHLUNGSBEDINGUNGEN.nummer: zahlungsbedingungen.parser,
}


def open_extf(source: Source) -> ExtfDatei:
    """Open a file by its path, or a seekable binary stream; ExtfError where it cannot be read at all."""
    with ExitStack() as opened:
        if isinstance(source, str | os.PathLike):
            datei = ExtfDatei(opened.enter_context(open(source, "rb")))
        else:
            datei = ExtfDatei(source)
        datei.closing = opened.pop_all()
    return datei


class ExtfDatei:
    """An open file: its header, and by iteration its records, or a Zeilenfehler in the place of a refused row."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        stream.seek(0)
        self._befund = examine(stream)
        self.closing = ExitStack()
        self.sha256 = self._befund.sha256
        self.kodierung = self._befund.kodierung
        self.total_bytes = self._befund.total_bytes
        self.bytes_read = 0
        header, titel = self._first_lines()
        self.kopf: Kopf = parse_kopf(header)
        self.kategorie: Kategorie = KATEGORIEN[self.kopf.kategorie]
        check_titel(self.kategorie, self.kopf.version, titel)
        self._columns = len(titel)

    @property
    def client_id(self) -> str:
        return self.kopf.client_id

    def _first_lines(self) -> tuple[list[str], list[str]]:
        lines: list[str] = []
        for block, _ in lines_of(self._stream, self._befund):
            lines += block
            if len(lines) > 1:
                break
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
        columns = self._columns
        missing = [""] * (len(self.kategorie.titel) - columns)
        first = 1
        for lines, bytes_read in lines_of(self._stream, self._befund):
            self.bytes_read = bytes_read
            rows, refused = self._rows(lines, first)
            for zeile, felder in enumerate(rows, first):
                if zeile < 3:
                    continue
                if len(felder) == columns:
                    yield parse(zeile, felder + missing if missing else felder)
                elif zeile in refused:
                    yield refused[zeile]
                elif felder:
                    yield Zeilenfehler(zeile, "", f"The row has {len(felder)} columns, line 2 has {columns} titles.")
            first += len(lines)

    def _rows(self, lines: list[str], first: int) -> tuple[list[list[str]], dict[int, Zeilenfehler]]:
        """The fields of each line. A line that is refused has none here, and its reason in the dictionary."""
        if self._befund.is_clean:
            try:
                rows = list(csv.reader(lines, delimiter=";", strict=True))
            except csv.Error:
                rows = []
            # A quote that is not closed swallows the line after it, and there are fewer rows than lines.
            if len(rows) == len(lines):
                return rows, {}
        rows, refused = [], {}
        for zeile, line in enumerate(lines, first):
            try:
                rows.append(split_line(line))
            except Abgelehnt as refusal:
                rows.append([])
                refused[zeile] = Zeilenfehler(zeile, self._titel_of(refusal.spalte), str(refusal))
        return rows, refused

    def _titel_of(self, spalte: int) -> str:
        return self.kategorie.titel[spalte - 1] if 0 < spalte <= len(self.kategorie.titel) else ""

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
        self.closing.close()

    def __enter__(self) -> ExtfDatei:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
