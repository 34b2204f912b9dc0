"""Category 21, Buchungsstapel: a posting of one amount from an account to its counter-account.

The hot path of an import: a million rows go through ``parse``. Repeated values are cached, empty columns cost nothing,
and ``column`` is the one being read, for the error if its value is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date
from typing import NamedTuple, Protocol

from kontobahn.formats.extf.format import BUCHUNGSSTAPEL, InvalidValue, RowError, RowWarning
from kontobahn.formats.extf.header import Header
from kontobahn.formats.extf.values import (
    EUR,
    KEPT,
    Memo,
    format_amount,
    is_digits,
    join_weitere,
    kontonummer_parser,
    parse_amount,
    quote,
    row_maker,
    too_long,
    weitere_reader,
)
from kontobahn.sentences import said


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

# The first of two digits: reversal of a key of one digit, of 9x, 1x, 5x and 4x.
_REVERSALS = frozenset("23678")
_MAX_LENGTHS = {_BELEGFELD2: 12, _TEXT: 60, _KOST1: 36, _KOST2: 36}
_is_belegfeld = re.compile(r"[a-zA-Z0-9_$&%*+,\-./]{1,36}").fullmatch
_is_kurs = re.compile(r"[0-9]{1,5}(?:,[0-9]{1,6})?").fullmatch
_is_waehrung = re.compile(r"[A-Z]{3}").fullmatch
# Without an indicator it is a debit, as DATEV documents the column.
_SOLL = {"S": True, "H": False, "s": True, "h": False, "": True}
_GENERALUMKEHR = {"": False, "0": False, "1": True, "G": True}

# A row is head, which differs from row to row, and tail. Between text and cost centres most rows are empty.
HEAD_COLUMNS = _KOST2 + 1
_BETWEEN = slice(_TEXT + 1, _KOST1)
_NOTHING_BETWEEN = [""] * (_KOST1 - _TEXT - 1)
_weitere_between = weitere_reader(BUCHUNGSSTAPEL, range(_TEXT + 2, _KOST1 + 1))
_weitere_of_tail = weitere_reader(BUCHUNGSSTAPEL, range(HEAD_COLUMNS + 1, len(BUCHUNGSSTAPEL.titles) + 1))


class RowTail(NamedTuple):
    """The columns after the head; in most rows of a file they say the same."""

    generalumkehr: bool
    weitere: str


def read_tail(fields: list[str]) -> RowTail:
    """Reads the tail from all fields of a row."""
    return RowTail(_GENERALUMKEHR.get(fields[_UMKEHR], False), _weitere_of_tail(fields[HEAD_COLUMNS:]))


class Parse(Protocol):
    def __call__(self, line: int, fields: list[str], tail: RowTail | None = None, /) -> Buchungssatz | RowError: ...


def parser(header: Header, warned: list[RowWarning]) -> Parse:
    """Returns a parser of rows, whole or with a tail that was read before. It adds its warnings to `warned`."""
    konten, keys = Memo(kontonummer_parser(header.sachkontenlaenge)), Memo(_bu_schluessel)
    belegdaten = Memo(_belegdatum(header, outside := set[str]()))
    file_waehrung, make = header.waehrung, tuple.__new__

    def parse(line: int, fields: list[str], tail: RowTail | None = None, /) -> Buchungssatz | RowError:
        column = _UMSATZ
        try:
            umsatz = parse_amount(fields[_UMSATZ])
            if not umsatz:
                raise InvalidValue(said("'{text}' is not greater than zero.", text=fields[_UMSATZ]))
            soll_haben = fields[_SOLL_HABEN]
            if soll_haben not in _SOLL:
                raise InvalidValue(said("'{text}' is neither S nor H.", text=soll_haben), _SOLL_HABEN)
            waehrung, kurs, basis_umsatz = fields[_WKZ] or file_waehrung, fields[_KURS], None
            if kurs or fields[_BASIS_UMSATZ] or fields[_BASIS_WKZ] or waehrung != EUR:
                waehrung, kurs, basis_umsatz = _basis(fields, waehrung.upper())
            column = _KONTO
            konto = konten[fields[_KONTO]]
            column = _GEGENKONTO
            gegenkonto = konten[fields[_GEGENKONTO]]
            if konto == gegenkonto:
                raise InvalidValue(said("'{text}' is the Konto itself.", text=fields[_GEGENKONTO]))
            bu_schluessel, generalumkehr, is_key = keys[fields[_BU_SCHLUESSEL]]
            column = _BELEGDATUM
            belegdatum = belegdaten[fields[_BELEGDATUM]]
            column = _SKONTO
            skonto = parse_amount(fields[_SKONTO]) if fields[_SKONTO] else 0
            belegfeld1, belegfeld2, buchungstext = fields[_BELEGFELD1], fields[_BELEGFELD2], fields[_TEXT]
            kost1, kost2, between = fields[_KOST1], fields[_KOST2], fields[_BETWEEN]
            if (
                (belegfeld1 and not _is_belegfeld(belegfeld1)) or len(buchungstext) > 60 or len(belegfeld2) > 12
                or len(kost1) > 36 or len(kost2) > 36 or not (soll_haben and is_key) or belegdatum in outside
                or kurs != fields[_KURS] or (tail is None and fields[_UMKEHR] not in _GENERALUMKEHR)
            ):  # fmt: skip
                warned.extend(_unusual(line, fields, belegdatum if belegdatum in outside else "", header))
            is_reversal, weitere = tail or read_tail(fields)
            if between != _NOTHING_BETWEEN:
                weitere = join_weitere(_weitere_between(between), weitere)
            # As Buchungssatz(…), but without the cost of a call with 18 arguments.
            return make(Buchungssatz, (
                line, umsatz, _SOLL[soll_haben], waehrung, kurs, basis_umsatz, konto, gegenkonto, bu_schluessel,
                belegdatum, belegfeld1, belegfeld2, skonto, buchungstext, kost1, kost2,
                generalumkehr or is_reversal, weitere,
            ))  # fmt: skip
        except InvalidValue as error:
            return RowError.of(BUCHUNGSSTAPEL, line, error, column)

    return parse


def _basis(fields: list[str], waehrung: str) -> tuple[str, str, int | None]:
    """Returns currency, rate and base amount. Only a posting in euros may lack the amount; zeros count as empty."""
    if not _is_waehrung(waehrung):
        raise InvalidValue(said("'{text}' is not a currency of three letters.", text=waehrung), _WKZ)
    basis, basis_waehrung = fields[_BASIS_UMSATZ], fields[_BASIS_WKZ].upper()
    try:
        basis_umsatz = (parse_amount(basis) or None) if basis else None
    except InvalidValue as error:
        raise InvalidValue(str(error), _BASIS_UMSATZ) from error
    if basis_umsatz is None and waehrung != EUR:
        raise InvalidValue(
            said(
                "'{text}' is not a base amount in EUR, which a posting in {currency} must have.",
                text=basis,
                currency=waehrung,
            ),
            _BASIS_UMSATZ,
        )
    if basis_umsatz is not None and basis_waehrung not in {"", EUR}:
        raise InvalidValue(
            said("'{text}' is not EUR, the currency that we keep books in.", text=basis_waehrung), _BASIS_WKZ
        )
    kurs = fields[_KURS]
    return waehrung, kurs if _is_kurs(kurs) and kurs.strip("0,") else "", basis_umsatz


def _bu_schluessel(text: str) -> tuple[str, bool, bool]:
    """Returns the key without leading zeros, whether it is an old-style Generalumkehr (two digits, and the first says so),
    and whether it is a key at all."""
    if text and not is_digits(text, 4):
        return text, False, False
    key = text.lstrip("0")
    return key, len(key) == 2 and key[0] in _REVERSALS, True


def _unusual(line: int, fields: list[str], outside: str, header: Header) -> Iterator[RowWarning]:
    """Yields warnings about an accepted row; `outside` is its day if it lies outside the period."""

    def warning(column: int, found: str, done: str) -> RowWarning:
        return RowWarning.of(BUCHUNGSSTAPEL, line, column, found, done)

    if not fields[_SOLL_HABEN]:
        yield warning(_SOLL_HABEN, "Neither S nor H is given.", "It was read as S, as DATEV does.")
    if fields[_KURS].strip("0,") and not _is_kurs(fields[_KURS]):
        yield warning(
            _KURS,
            said("'{text}' is not an exchange rate.", text=fields[_KURS]),
            "It was left out; the amounts were read.",
        )
    if fields[_BU_SCHLUESSEL] and not is_digits(fields[_BU_SCHLUESSEL], 4):
        yield warning(
            _BU_SCHLUESSEL, said("'{text}' is not a key of up to four digits.", text=fields[_BU_SCHLUESSEL]), KEPT
        )
    if outside:
        since, until = header.period
        found = said(
            "'{text}' is {day}, outside of the period of the file, {day_from} to {day_to}.",
            text=fields[_BELEGDATUM],
            day=outside,
            day_from=since,
            day_to=until,
        )
        yield warning(_BELEGDATUM, found, "It was read as a day of the fiscal year.")
    belegfeld1 = unusual_belegfeld1(line, fields[_BELEGFELD1])
    if belegfeld1 is not None:
        yield belegfeld1
    yield from too_long(BUCHUNGSSTAPEL, line, fields, _MAX_LENGTHS)
    if len(fields) > HEAD_COLUMNS and fields[_UMKEHR] not in _GENERALUMKEHR:
        yield warning(
            _UMKEHR, said("'{text}' is neither 0 nor 1.", text=fields[_UMKEHR]), "The row was read as no reversal."
        )


def unusual_belegfeld1(line: int, text: str) -> RowWarning | None:
    """Returns a warning if DATEV would not take this document number as it is."""
    if not text or _is_belegfeld(text):
        return None
    reason = "is longer than 36 characters"
    if len(text) <= 36:
        reason = "has other characters than letters without umlauts, digits and _$&%*+,-./"
    # Open items are matched by this text.
    done = said("{done} A payment that came through DATEV may name the document differently.", done=KEPT)
    return RowWarning.of(BUCHUNGSSTAPEL, line, _BELEGFELD1, f"'{text}' {reason}.", done)


def _belegdatum(header: Header, outside: set[str]) -> Callable[[str], str]:
    """Returns a parser of TTMM: the ISO date of that day of the fiscal year. One that is not of the period is added to `outside`."""
    since, until = header.period

    def parse(text: str) -> str:
        day = _day_of_year(text, header)
        if day is None:
            raise InvalidValue(
                said(
                    "'{text}' is not a day (TTMM) of the fiscal year that begins on {day}.",
                    text=text,
                    day=header.wj_beginn,
                )
            )
        if not since <= day <= until:
            outside.add(day.isoformat())
        return day.isoformat()

    return parse


def _day_of_year(text: str, header: Header) -> date | None:
    # A spreadsheet loses the leading zero: 101 is the first of January. Some programs write the year as well.
    if not is_digits(text, 8) or len(text) not in (3, 4, 8):
        return None
    day, month = (int(text[:2]), int(text[2:4])) if len(text) == 8 else (int(text[:-2]), int(text[-2:]))
    years = (int(text[4:]),) if len(text) == 8 else (header.wj_beginn.year, header.wj_beginn.year + 1)
    for year in years:
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
