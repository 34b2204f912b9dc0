"""Category 20, Kontenbeschriftungen: the names of accounts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kontobahn.formats.extf.format import KONTENBESCHRIFTUNGEN, InvalidValue, RowError, RowWarning
from kontobahn.formats.extf.header import Header
from kontobahn.formats.extf.values import kontonummer_parser, quote, too_long
from kontobahn.sentences import said

_KONTO, _SHORT, _LANGUAGE, _LONG = range(len(KONTENBESCHRIFTUNGEN.titles))
_MAX_SHORT = 40
_MAX_LENGTHS = {_SHORT: _MAX_SHORT, _LANGUAGE: 5, _LONG: 300}


class Kontobeschriftung(NamedTuple):
    """``beschriftung`` is the long one if there is one; ``sprache`` is like de-DE."""

    line: int
    konto: str
    beschriftung: str
    sprache: str


def parser(header: Header, warned: list[RowWarning]) -> Callable[[int, list[str]], Kontobeschriftung | RowError]:
    parse_konto = kontonummer_parser(header.sachkontenlaenge)

    def parse(line: int, fields: list[str]) -> Kontobeschriftung | RowError:
        try:
            konto = parse_konto(fields[_KONTO])
            warned.extend(too_long(KONTENBESCHRIFTUNGEN, line, fields, _MAX_LENGTHS))
            beschriftung = fields[_LONG] or fields[_SHORT]
            if not beschriftung:
                raise InvalidValue(said("The name of the account '{konto}' is missing.", konto=konto), _SHORT)
            return Kontobeschriftung(line, konto, beschriftung, fields[_LANGUAGE])
        except InvalidValue as error:
            return RowError.of(KONTENBESCHRIFTUNGEN, line, error, _KONTO)

    return parse


def formatter(_header: Header) -> Callable[[Kontobeschriftung], str]:
    def write(record: Kontobeschriftung) -> str:
        text = record.beschriftung
        return ";".join((
            record.konto, quote(text[:_MAX_SHORT]), quote(record.sprache), quote(text if len(text) > _MAX_SHORT else ""),
        ))  # fmt: skip

    return write
