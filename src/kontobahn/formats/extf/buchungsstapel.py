"""Category 21, Buchungsstapel: a posting of one amount from an account to its counter-account.

The hot path of an import: a million rows go through ``parse``. Values that come again are remembered, empty columns
cost nothing, and ``spalte`` says which column is being read when a value is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import NamedTuple, Protocol

from kontobahn.formats.extf.format import BUCHUNGSSTAPEL, Abgelehnt, Zeilenfehler
from kontobahn.formats.extf.header import Kopf
from kontobahn.formats.extf.values import (
    EUR,
    Memo,
    check_lengths,
    felder_of,
    format_betrag,
    is_digits,
    join_weitere,
    kontonummer,
    parse_betrag,
    quote,
    weitere_reader,
)


class Buchungssatz(NamedTuple):
    """``soll`` refers to ``konto``. ``weitere`` keeps every column that has no field here, as a JSON object by number."""

    zeile: int
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


def betrag(satz: Buchungssatz) -> int:
    """The amount in cents of the euro: the base amount where the posting is in a foreign currency."""
    return satz.umsatz if satz.basis_umsatz is None else satz.basis_umsatz


_LONGEST = {11: 36, 12: 12, 14: 60, 37: 36, 38: 36}
_is_belegfeld = re.compile(r"[a-zA-Z0-9$&%*+,\-./]{1,36}").fullmatch
_is_kurs = re.compile(r"[0-9]{1,5}(?:,[0-9]{1,6})?").fullmatch
_is_waehrung = re.compile(r"[A-Z]{3}").fullmatch
_GENERALUMKEHR = {"": False, "0": False, "1": True, "G": True}

HEAD_COLUMNS = 38
_NONE_OF_15_TO_36 = [""] * 22
_weitere_of_15_to_36 = weitere_reader(BUCHUNGSSTAPEL, range(15, 37))
_weitere_of_the_end = weitere_reader(BUCHUNGSSTAPEL, range(HEAD_COLUMNS + 1, len(BUCHUNGSSTAPEL.titel) + 1))


class Ende(NamedTuple):
    """What the columns after the first 38 say; in most rows of a file the same."""

    generalumkehr: bool
    weitere: str


def read_ende(felder: list[str]) -> Ende:
    """From all columns of a row."""
    if felder[117] not in _GENERALUMKEHR:
        raise Abgelehnt(f"'{felder[117]}' is neither 0 nor 1.", 118)
    return Ende(_GENERALUMKEHR[felder[117]], _weitere_of_the_end(felder[HEAD_COLUMNS:]))


class Parse(Protocol):
    def __call__(self, zeile: int, felder: list[str], ende: Ende | None = None, /) -> Buchungssatz | Zeilenfehler: ...


def parser(kopf: Kopf) -> Parse:
    """A reader of rows: of all columns of the newest version, or of the first 38 with an end that was read before."""
    konten = Memo(kontonummer(kopf.sachkontenlaenge))
    belegdaten = Memo(_belegdatum(kopf))
    schluessel = Memo(_bu_schluessel)
    waehrung_of_file, make = kopf.waehrung, tuple.__new__

    def parse(zeile: int, felder: list[str], ende: Ende | None = None, /) -> Buchungssatz | Zeilenfehler:
        spalte = 1
        try:
            umsatz = parse_betrag(felder[0])
            if not umsatz:
                raise Abgelehnt(f"'{felder[0]}' is not greater than zero.")
            kennzeichen = felder[1]
            if kennzeichen not in ("S", "H"):
                raise Abgelehnt(f"'{kennzeichen}' is neither S nor H.", 2)
            waehrung = felder[2] or waehrung_of_file
            kurs, basis_umsatz = felder[3], None
            if kurs or felder[4] or felder[5] or waehrung != EUR:
                kurs, basis_umsatz = _basis(felder, waehrung)
            spalte = 7
            konto = konten[felder[6]]
            spalte = 8
            gegenkonto = konten[felder[7]]
            if konto == gegenkonto:
                raise Abgelehnt(f"'{felder[7]}' is the Konto itself.")
            spalte = 9
            bu_schluessel, generalumkehr = schluessel[felder[8]]
            spalte = 10
            belegdatum = belegdaten[felder[9]]
            belegfeld1, belegfeld2, buchungstext = felder[10], felder[11], felder[13]
            if belegfeld1 and not _is_belegfeld(belegfeld1):
                raise _wrong_belegfeld(belegfeld1)
            spalte = 13
            skonto = parse_betrag(felder[12]) if felder[12] else 0
            kost1, kost2 = felder[36], felder[37]
            if len(belegfeld2) > 12 or len(buchungstext) > 60 or len(kost1) > 36 or len(kost2) > 36:
                check_lengths(felder, _LONGEST)
            reversal, weitere = ende or read_ende(felder)
            between = felder[14:36]
            if between != _NONE_OF_15_TO_36:
                weitere = join_weitere(_weitere_of_15_to_36(between), weitere)
            return make(Buchungssatz, (
                zeile, umsatz, kennzeichen == "S", waehrung, kurs, basis_umsatz, konto, gegenkonto, bu_schluessel,
                belegdatum, belegfeld1, belegfeld2, skonto, buchungstext, kost1, kost2,
                generalumkehr or reversal, weitere,
            ))  # fmt: skip
        except Abgelehnt as refusal:
            return Zeilenfehler(zeile, BUCHUNGSSTAPEL.titel[(refusal.spalte or spalte) - 1], str(refusal))

    return parse


def _basis(felder: list[str], waehrung: str) -> tuple[str, int | None]:
    """Rate and base amount. Only the euro can do without, and a nought is as good as nothing."""
    if not _is_waehrung(waehrung):
        raise Abgelehnt(f"'{waehrung}' is not a currency of three capital letters.", 3)
    kurs, basis, waehrung_of_basis = felder[3:6]
    if kurs and not _is_kurs(kurs):
        raise Abgelehnt(f"'{kurs}' is not an exchange rate.", 4)
    try:
        basis_umsatz = (parse_betrag(basis) or None) if basis else None
    except Abgelehnt as refusal:
        raise Abgelehnt(str(refusal), 5) from refusal
    if basis_umsatz is None and waehrung != EUR:
        raise Abgelehnt(f"'{basis}' is no base amount in EUR, which a posting in {waehrung} must have.", 5)
    if waehrung_of_basis not in {"", EUR}:
        raise Abgelehnt(f"'{waehrung_of_basis}' is not EUR, the currency that we keep books in.", 6)
    return kurs if kurs.strip("0,") else "", basis_umsatz


def _bu_schluessel(text: str) -> tuple[str, bool]:
    """The key without leading zeros, and whether it is a Generalumkehr of the old style: the first of two digits is 2."""
    if text and not is_digits(text, 4):
        raise Abgelehnt(f"'{text}' is not a key of up to four digits.")
    key = text.lstrip("0")
    return key, len(key) == 2 and key[0] == "2"


def _wrong_belegfeld(text: str) -> Abgelehnt:
    if len(text) > _LONGEST[11]:
        return Abgelehnt(f"'{text}' is longer than {_LONGEST[11]} characters.", 11)
    return Abgelehnt(f"'{text}' has other characters than letters without umlauts, digits and $&%*+,-./.", 11)


def _belegdatum(kopf: Kopf) -> Callable[[str], str]:
    """A reader of TTMM: the ISO date of that day in the fiscal year and the period of the file."""
    since = kopf.datum_von or date.min
    until = kopf.datum_bis or date.max

    def parse(text: str) -> str:
        day = _day_of_the_year(text, kopf)
        if day is None:
            raise Abgelehnt(f"'{text}' is no day (TTMM) of the fiscal year that begins on {kopf.wj_beginn}.")
        if not since <= day <= until:
            period = f"{kopf.datum_von or 'the beginning'} to {kopf.datum_bis or 'the end'}"
            raise Abgelehnt(f"'{text}' is {day}, outside of the period of the file, {period}.")
        return day.isoformat()

    return parse


def _day_of_the_year(text: str, kopf: Kopf) -> date | None:
    # A spreadsheet loses the leading zero: 101 is the first of January.
    if not is_digits(text, 4) or len(text) < 3:
        return None
    day, month = int(text[:-2]), int(text[-2:])
    for year in (kopf.wj_beginn.year, kopf.wj_beginn.year + 1):
        try:
            candidate = date(year, month, day)
        except ValueError:
            continue
        if kopf.wj_beginn <= candidate <= kopf.wj_ende:
            return candidate
    return None


def formatter(kopf: Kopf) -> Callable[[Buchungssatz], str]:
    """A writer of rows."""
    rows = Memo(felder_of(BUCHUNGSSTAPEL), size=2_048)

    def write(satz: Buchungssatz) -> str:
        felder = rows[satz.weitere].copy()
        felder[0] = format_betrag(satz.umsatz)
        felder[1] = '"S"' if satz.soll else '"H"'
        if satz.waehrung != kopf.waehrung:
            felder[2] = quote(satz.waehrung)
        felder[3] = satz.kurs
        if satz.basis_umsatz is not None:
            felder[4], felder[5] = format_betrag(satz.basis_umsatz), quote(EUR)
        felder[6], felder[7], felder[8] = satz.konto, satz.gegenkonto, quote(satz.bu_schluessel)
        felder[9] = satz.belegdatum[8:] + satz.belegdatum[5:7]
        felder[10], felder[11] = quote(satz.belegfeld1), quote(satz.belegfeld2)
        if satz.skonto:
            felder[12] = format_betrag(satz.skonto)
        felder[13], felder[36], felder[37] = quote(satz.buchungstext), quote(satz.kost1), quote(satz.kost2)
        # A key of the old style says it already; a second mark could be taken for a reversal of the reversal.
        if satz.generalumkehr and not _bu_schluessel(satz.bu_schluessel)[1]:
            felder[117] = quote("1")
        return ";".join(felder)

    return write
