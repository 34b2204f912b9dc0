"""Category 46, Zahlungsbedingungen: terms of payment, by days or by up to three periods of the month."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

from kontobahn.formats.extf.format import ZAHLUNGSBEDINGUNGEN, InvalidValue, RowError, RowWarning
from kontobahn.formats.extf.header import Header
from kontobahn.formats.extf.values import parse_number, quote, too_long
from kontobahn.sentences import said

NACH_TAGEN, ALS_ZEITRAUM = 1, 2


class Zeitraum(NamedTuple):
    """For invoices up to a day of the month: the days on which discounts end and the rest is due; 0 means none.

    Months count from that of the invoice (0, then 1 for the next); a day of 31 is the last one of the month. The fields
    are in the order of the columns.
    """

    rechnung_bis: int
    skonto1_tag: int
    skonto1_monat: int
    skonto2_tag: int
    skonto2_monat: int
    faellig_tag: int
    faellig_monat: int


class Zahlungsbedingung(NamedTuple):
    line: int
    nummer: int
    bezeichnung: str
    faelligkeitstyp: int
    skonto1_prozent: Decimal
    skonto1_tage: int
    skonto2_prozent: Decimal
    skonto2_tage: int
    faellig_tage: int
    zeitraeume: tuple[Zeitraum, ...]
    verwendung: int


# Columns by their titles: indices into the fields of a row.
_at = ZAHLUNGSBEDINGUNGEN.titles.index
_NUMMER, _BEZEICHNUNG, _FAELLIGKEITSTYP = _at("Nummer"), _at("Bezeichnung"), _at("Fälligkeitstyp")
_SKONTO1_PROZENT, _SKONTO1_TAGE = _at("Skonto 1%"), _at("Skonto 1 Tage")
_SKONTO2_PROZENT, _SKONTO2_TAGE = _at("Skonto 2 %"), _at("Skonto 2 Tage")
_FAELLIG_TAGE, _VERWENDUNG = _at("Fällig Tage"), _at("Verwendung")
# The first column of each period; the others follow in the order of Zeitraum.
_ZEITRAEUME = tuple(_at(f"Rechnung bis / Zeitraum {number}") for number in (1, 2, 3))
_MAX_OF_ZEITRAUM = Zeitraum(31, 31, 9, 31, 9, 31, 9)
_MAX = {
    _NUMMER: 999, _FAELLIGKEITSTYP: 2, _SKONTO1_TAGE: 999, _SKONTO2_TAGE: 999, _FAELLIG_TAGE: 999, _VERWENDUNG: 9,
    **{start + field: maximum for start in _ZEITRAEUME for field, maximum in enumerate(_MAX_OF_ZEITRAUM)},
}  # fmt: skip


def parser(_header: Header, warned: list[RowWarning]) -> Callable[[int, list[str]], Zahlungsbedingung | RowError]:
    def parse(line: int, fields: list[str]) -> Zahlungsbedingung | RowError:
        column = _NUMMER
        numbers: dict[int, int] = {}
        try:
            for column, maximum in _MAX.items():
                numbers[column] = parse_number(fields[column], maximum)
            if not numbers[_NUMMER]:
                raise InvalidValue(said("'{text}' is not a number from 1 to 999.", text=fields[_NUMMER]), _NUMMER)
            if not numbers[_FAELLIGKEITSTYP]:
                raise InvalidValue(
                    said("'{text}' is neither 1 (days) nor 2 (periods).", text=fields[_FAELLIGKEITSTYP]),
                    _FAELLIGKEITSTYP,
                )
            warned.extend(too_long(ZAHLUNGSBEDINGUNGEN, line, fields, {_BEZEICHNUNG: 40}))
            return Zahlungsbedingung(
                line=line, nummer=numbers[_NUMMER], bezeichnung=fields[_BEZEICHNUNG],
                faelligkeitstyp=numbers[_FAELLIGKEITSTYP], skonto1_prozent=_prozent(fields, _SKONTO1_PROZENT),
                skonto1_tage=numbers[_SKONTO1_TAGE], skonto2_prozent=_prozent(fields, _SKONTO2_PROZENT),
                skonto2_tage=numbers[_SKONTO2_TAGE], faellig_tage=numbers[_FAELLIG_TAGE],
                zeitraeume=_zeitraeume(numbers), verwendung=numbers[_VERWENDUNG],
            )  # fmt: skip
        except InvalidValue as error:
            return RowError.of(ZAHLUNGSBEDINGUNGEN, line, error, column)

    return parse


def _zeitraeume(numbers: dict[int, int]) -> tuple[Zeitraum, ...]:
    """Returns those that name a day; the months of an unused one are often written as 0."""
    found = (Zeitraum._make(numbers[start + field] for field in range(7)) for start in _ZEITRAEUME)
    return tuple(
        zeitraum
        for zeitraum in found
        if zeitraum.rechnung_bis or zeitraum.skonto1_tag or zeitraum.skonto2_tag or zeitraum.faellig_tag
    )


def _prozent(fields: list[str], column: int) -> Decimal:
    """Without a comma the number is in hundredths: 300 is 3 %, and so is 3,00."""
    text = fields[column] or "0"
    if re.fullmatch(r"[0-9]{1,5}", text):
        prozent = Decimal(int(text)).scaleb(-2)
    elif re.fullmatch(r"[0-9]{1,3},[0-9]{1,2}", text):
        prozent = Decimal(text.replace(",", "."))
    else:
        raise InvalidValue(said("'{text}' is not a percentage in hundredths.", text=text), column)
    if prozent > 100:
        raise InvalidValue(said("'{text}' is more than 100 per cent.", text=text), column)
    return prozent.quantize(Decimal("0.01"))


def formatter(_header: Header) -> Callable[[Zahlungsbedingung], str]:
    def write(record: Zahlungsbedingung) -> str:
        if len(record.zeitraeume) > len(_ZEITRAEUME):
            raise InvalidValue(
                said("'{text}' periods are more than three.", text=len(record.zeitraeume)), _ZEITRAEUME[0]
            )
        fields = [""] * len(ZAHLUNGSBEDINGUNGEN.titles)
        fields[_NUMMER] = str(record.nummer)
        fields[_BEZEICHNUNG] = quote(record.bezeichnung)
        fields[_FAELLIGKEITSTYP] = str(record.faelligkeitstyp)
        fields[_SKONTO1_PROZENT] = f"{record.skonto1_prozent.scaleb(2):03.0f}"
        fields[_SKONTO1_TAGE] = str(record.skonto1_tage)
        fields[_SKONTO2_PROZENT] = f"{record.skonto2_prozent.scaleb(2):03.0f}"
        fields[_SKONTO2_TAGE] = str(record.skonto2_tage)
        fields[_FAELLIG_TAGE] = str(record.faellig_tage)
        for start, zeitraum in zip(_ZEITRAEUME, record.zeitraeume, strict=False):
            for index, (name, value) in enumerate(zeitraum._asdict().items(), start):
                fields[index] = str(value) if name.endswith("_monat") else str(value or "")
        fields[_at("Leerfeld")] = quote("")
        fields[_VERWENDUNG] = str(record.verwendung)
        return ";".join(fields)

    return write
