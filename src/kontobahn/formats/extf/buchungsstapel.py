"""Category 21, Buchungsstapel: a posting of one amount from an account to its counter-account.

The hot path of an import: a million rows go through ``parse``. Repeated values are cached, empty columns cost nothing,
and ``column`` is the one being read, for the error if its value is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import NamedTuple, Protocol

from kontobahn.formats.extf.format import BUCHUNGSSTAPEL, InvalidValue, RowError
from kontobahn.formats.extf.header import Header
from kontobahn.formats.extf.values import (
    EUR,
    Memo,
    check_lengths,
    format_amount,
    is_digits,
    join_weitere,
    kontonummer_parser,
    parse_amount,
    quote,
    row_maker,
    weitere_reader,
)


class Buchungssatz(NamedTuple):
    """``soll`` refers to ``konto``. ``weitere`` keeps every column that has no field here, as a JSON object by number."""

    line: int
    umsatz: int
    soll: bool
    waehrung: str
    kurs: str
    basis_umsatz: int | None
    konto: str
    gegenkonto: str
    bu_schluessel: str
    belegdatum: str
    belegfeld1: str
    belegfeld2: str
    skonto: int
    buchungstext: str
    kost1: str
    kost2: str
    generalumkehr: bool
    weitere: str


# Columns by their titles: indices into the fields of a row.
_at = BUCHUNGSSTAPEL.titles.index
_UMSATZ, _SOLL_HABEN, _WKZ = _at("Umsatz (ohne Soll/Haben-Kz)"), _at("Soll/Haben-Kennzeichen"), _at("WKZ Umsatz")
_KURS, _BASIS_UMSATZ, _BASIS_WKZ = _at("Kurs"), _at("Basis-Umsatz"), _at("WKZ Basis-Umsatz")
_KONTO, _GEGENKONTO = _at("Konto"), _at("Gegenkonto (ohne BU-Schlüssel)")
_BU_SCHLUESSEL, _BELEGDATUM = _at("BU-Schlüssel"), _at("Belegdatum")
_BELEGFELD1, _BELEGFELD2, _SKONTO, _TEXT = _at("Belegfeld 1"), _at("Belegfeld 2"), _at("Skonto"), _at("Buchungstext")
_KOST1, _KOST2, _UMKEHR = _at("KOST1 - Kostenstelle"), _at("KOST2 - Kostenstelle"), _at("Generalumkehr (GU)")

_MAX_LENGTHS = {_BELEGFELD1: 36, _BELEGFELD2: 12, _TEXT: 60, _KOST1: 36, _KOST2: 36}
_is_belegfeld = re.compile(r"[a-zA-Z0-9$&%*+,\-./]{1,36}").fullmatch
_is_kurs = re.compile(r"[0-9]{1,5}(?:,[0-9]{1,6})?").fullmatch
_is_waehrung = re.compile(r"[A-Z]{3}").fullmatch
_GENERALUMKEHR = {"": False, "0": False, "1": True, "G": True}

# A row is head, which differs from row to row, and tail. Between text and cost centres most rows are empty.
HEAD_COLUMNS = _KOST2 + 1
_BETWEEN = slice(_TEXT + 1, _KOST1)
_NOTHING_BETWEEN = [""] * (_KOST1 - _TEXT - 1)
_weitere_between = weitere_reader(BUCHUNGSSTAPEL, range(_TEXT + 2, _KOST1 + 1))
_weitere_of_tail = weitere_reader(BUCHUNGSSTAPEL, range(HEAD_COLUMNS + 1, len(BUCHUNGSSTAPEL.titles) + 1))


class RowTail(NamedTuple):
    """What the columns after the head say; in most rows of a file the same."""

    generalumkehr: bool
    weitere: str


def read_tail(fields: list[str]) -> RowTail:
    """Reads the tail from all fields of a row."""
    if fields[_UMKEHR] not in _GENERALUMKEHR:
        raise InvalidValue(f"'{fields[_UMKEHR]}' is neither 0 nor 1.", _UMKEHR)
    return RowTail(_GENERALUMKEHR[fields[_UMKEHR]], _weitere_of_tail(fields[HEAD_COLUMNS:]))


class Parse(Protocol):
    def __call__(self, line: int, fields: list[str], tail: RowTail | None = None, /) -> Buchungssatz | RowError: ...


def parser(header: Header) -> Parse:
    """Returns a parser of rows: of all columns of the newest version, or of the head with a tail that was read before."""
    konten = Memo(kontonummer_parser(header.sachkontenlaenge))
    belegdaten = Memo(_belegdatum(header))
    keys = Memo(_bu_schluessel)
    file_waehrung, make = header.waehrung, tuple.__new__

    def parse(line: int, fields: list[str], tail: RowTail | None = None, /) -> Buchungssatz | RowError:
        column = _UMSATZ
        try:
            umsatz = parse_amount(fields[_UMSATZ])
            if not umsatz:
                raise InvalidValue(f"'{fields[_UMSATZ]}' is not greater than zero.")
            soll_haben = fields[_SOLL_HABEN]
            if soll_haben not in ("S", "H"):
                raise InvalidValue(f"'{soll_haben}' is neither S nor H.", _SOLL_HABEN)
            waehrung = fields[_WKZ] or file_waehrung
            kurs, basis_umsatz = fields[_KURS], None
            if kurs or fields[_BASIS_UMSATZ] or fields[_BASIS_WKZ] or waehrung != EUR:
                kurs, basis_umsatz = _basis(fields, waehrung)
            column = _KONTO
            konto = konten[fields[_KONTO]]
            column = _GEGENKONTO
            gegenkonto = konten[fields[_GEGENKONTO]]
            if konto == gegenkonto:
                raise InvalidValue(f"'{fields[_GEGENKONTO]}' is the Konto itself.")
            column = _BU_SCHLUESSEL
            bu_schluessel, generalumkehr = keys[fields[_BU_SCHLUESSEL]]
            column = _BELEGDATUM
            belegdatum = belegdaten[fields[_BELEGDATUM]]
            belegfeld1, belegfeld2, buchungstext = fields[_BELEGFELD1], fields[_BELEGFELD2], fields[_TEXT]
            if belegfeld1 and not _is_belegfeld(belegfeld1):
                raise _invalid_belegfeld(belegfeld1)
            column = _SKONTO
            skonto = parse_amount(fields[_SKONTO]) if fields[_SKONTO] else 0
            kost1, kost2 = fields[_KOST1], fields[_KOST2]
            if len(belegfeld2) > 12 or len(buchungstext) > 60 or len(kost1) > 36 or len(kost2) > 36:
                check_lengths(fields, _MAX_LENGTHS)
            is_reversal, weitere = tail or read_tail(fields)
            between = fields[_BETWEEN]
            if between != _NOTHING_BETWEEN:
                weitere = join_weitere(_weitere_between(between), weitere)
            # As Buchungssatz(…), but without the cost of a call with 18 arguments.
            return make(Buchungssatz, (
                line, umsatz, soll_haben == "S", waehrung, kurs, basis_umsatz, konto, gegenkonto, bu_schluessel,
                belegdatum, belegfeld1, belegfeld2, skonto, buchungstext, kost1, kost2,
                generalumkehr or is_reversal, weitere,
            ))  # fmt: skip
        except InvalidValue as error:
            return RowError.of(BUCHUNGSSTAPEL, line, error, column)

    return parse


def _basis(fields: list[str], waehrung: str) -> tuple[str, int | None]:
    """Returns rate and base amount. Only a posting in euros may lack them; zeros count as empty."""
    if not _is_waehrung(waehrung):
        raise InvalidValue(f"'{waehrung}' is not a currency of three capital letters.", _WKZ)
    kurs, basis, basis_waehrung = fields[_KURS], fields[_BASIS_UMSATZ], fields[_BASIS_WKZ]
    if kurs and not _is_kurs(kurs):
        raise InvalidValue(f"'{kurs}' is not an exchange rate.", _KURS)
    try:
        basis_umsatz = (parse_amount(basis) or None) if basis else None
    except InvalidValue as error:
        raise InvalidValue(str(error), _BASIS_UMSATZ) from error
    if basis_umsatz is None and waehrung != EUR:
        raise InvalidValue(
            f"'{basis}' is no base amount in EUR, which a posting in {waehrung} must have.", _BASIS_UMSATZ
        )
    if basis_waehrung not in {"", EUR}:
        raise InvalidValue(f"'{basis_waehrung}' is not EUR, the currency that we keep books in.", _BASIS_WKZ)
    return kurs if kurs.strip("0,") else "", basis_umsatz


def _bu_schluessel(text: str) -> tuple[str, bool]:
    """Returns the key without leading zeros, and whether it is an old-style Generalumkehr: two digits, the first of them 2."""
    if text and not is_digits(text, 4):
        raise InvalidValue(f"'{text}' is not a key of up to four digits.")
    key = text.lstrip("0")
    return key, len(key) == 2 and key[0] == "2"


def _invalid_belegfeld(text: str) -> InvalidValue:
    if len(text) > _MAX_LENGTHS[_BELEGFELD1]:
        return InvalidValue(f"'{text}' is longer than {_MAX_LENGTHS[_BELEGFELD1]} characters.", _BELEGFELD1)
    return InvalidValue(
        f"'{text}' has other characters than letters without umlauts, digits and $&%*+,-./.", _BELEGFELD1
    )


def _belegdatum(header: Header) -> Callable[[str], str]:
    """Returns a parser of TTMM: the ISO date of that day, which must be in the fiscal year and the period of the file."""
    since = header.datum_von or date.min
    until = header.datum_bis or date.max

    def parse(text: str) -> str:
        day = _day_of_year(text, header)
        if day is None:
            raise InvalidValue(f"'{text}' is no day (TTMM) of the fiscal year that begins on {header.wj_beginn}.")
        if not since <= day <= until:
            period = f"{header.datum_von or 'the beginning'} to {header.datum_bis or 'the end'}"
            raise InvalidValue(f"'{text}' is {day}, outside of the period of the file, {period}.")
        return day.isoformat()

    return parse


def _day_of_year(text: str, header: Header) -> date | None:
    # A spreadsheet loses the leading zero: 101 is the first of January.
    if not is_digits(text, 4) or len(text) < 3:
        return None
    day, month = int(text[:-2]), int(text[-2:])
    for year in (header.wj_beginn.year, header.wj_beginn.year + 1):
        try:
            candidate = date(year, month, day)
        except ValueError:
            continue
        if header.wj_beginn <= candidate <= header.wj_ende:
            return candidate
    return None


def formatter(header: Header) -> Callable[[Buchungssatz], str]:
    """Returns a writer of rows."""
    rows = Memo(row_maker(BUCHUNGSSTAPEL), size=2_048)

    def write(record: Buchungssatz) -> str:
        fields = rows[record.weitere].copy()
        fields[_UMSATZ] = format_amount(record.umsatz)
        fields[_SOLL_HABEN] = '"S"' if record.soll else '"H"'
        if record.waehrung != header.waehrung:
            fields[_WKZ] = quote(record.waehrung)
        fields[_KURS] = record.kurs
        if record.basis_umsatz is not None:
            fields[_BASIS_UMSATZ] = format_amount(record.basis_umsatz)
            fields[_BASIS_WKZ] = quote(EUR)
        fields[_KONTO] = record.konto
        fields[_GEGENKONTO] = record.gegenkonto
        fields[_BU_SCHLUESSEL] = quote(record.bu_schluessel)
        fields[_BELEGDATUM] = record.belegdatum[8:] + record.belegdatum[5:7]
        fields[_BELEGFELD1] = quote(record.belegfeld1)
        fields[_BELEGFELD2] = quote(record.belegfeld2)
        if record.skonto:
            fields[_SKONTO] = format_amount(record.skonto)
        fields[_TEXT] = quote(record.buchungstext)
        fields[_KOST1] = quote(record.kost1)
        fields[_KOST2] = quote(record.kost2)
        # A key of the old style says it already; a second mark could be read as a reversal of the reversal.
        if record.generalumkehr and not _bu_schluessel(record.bu_schluessel)[1]:
            fields[_UMKEHR] = quote("1")
        return ";".join(fields)

    return write
