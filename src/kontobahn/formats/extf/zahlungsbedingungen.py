"""Category 46, Zahlungsbedingungen: terms of payment, by days or by up to three periods of the month."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

from kontobahn.formats.extf.format import ZAHLUNGSBEDINGUNGEN, Abgelehnt, Zeilenfehler
from kontobahn.formats.extf.header import Kopf
from kontobahn.formats.extf.values import check_lengths, quote, whole_number

NACH_TAGEN, ALS_ZEITRAUM = 1, 2


class Zeitraum(NamedTuple):
    """For invoices up to a day of the month: the days on which discounts end and the rest is due; 0 is no day.

    Months count from that of the invoice (0, then 1 for the next); a day of 31 is the last of the month.
    """

    rechnung_bis: int
    skonto1_tag: int
    skonto1_monat: int
    skonto2_tag: int
    skonto2_monat: int
    faellig_tag: int
    faellig_monat: int


class Zahlungsbedingung(NamedTuple):
    zeile: int
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


_FIRST_ZEITRAUM = 9
_MOST_OF_ZEITRAUM = Zeitraum(31, 31, 9, 31, 9, 31, 9)
_MOST = {1: 999, 3: 2, 5: 999, 7: 999, 8: 999, 31: 9} | {
    _FIRST_ZEITRAUM + 7 * zeitraum + field: most
    for zeitraum in range(3)
    for field, most in enumerate(_MOST_OF_ZEITRAUM)
}


def parser(_kopf: Kopf) -> Callable[[int, list[str]], Zahlungsbedingung | Zeilenfehler]:
    def parse(zeile: int, felder: list[str]) -> Zahlungsbedingung | Zeilenfehler:
        spalte = 1
        zahlen: dict[int, int] = {}
        try:
            for spalte, most in _MOST.items():
                zahlen[spalte] = whole_number(felder[spalte - 1], most)
            if not zahlen[1]:
                raise Abgelehnt(f"'{felder[0]}' is not a number from 1 to 999.", 1)
            if not zahlen[3]:
                raise Abgelehnt(f"'{felder[2]}' is neither 1 (days) nor 2 (periods).", 3)
            check_lengths(felder, {2: 40})
            return Zahlungsbedingung(
                zeile, zahlen[1], felder[1], zahlen[3], _prozent(felder, 4), zahlen[5], _prozent(felder, 6), zahlen[7],
                zahlen[8], _zeitraeume(zahlen), zahlen[31],
            )  # fmt: skip
        except Abgelehnt as refusal:
            return Zeilenfehler(zeile, ZAHLUNGSBEDINGUNGEN.titel[(refusal.spalte or spalte) - 1], str(refusal))

    return parse


def _zeitraeume(zahlen: dict[int, int]) -> tuple[Zeitraum, ...]:
    """Those that name a day; the months of an unused one are often written as 0."""
    starts = range(_FIRST_ZEITRAUM, _FIRST_ZEITRAUM + 21, 7)
    zeitraeume = (Zeitraum._make(zahlen[start + field] for field in range(7)) for start in starts)
    return tuple(
        zeitraum
        for zeitraum in zeitraeume
        if zeitraum.rechnung_bis or zeitraum.skonto1_tag or zeitraum.skonto2_tag or zeitraum.faellig_tag
    )


def _prozent(felder: list[str], spalte: int) -> Decimal:
    """Two decimals without a comma, 300 being 3 %; with a comma it says itself what it means."""
    text = felder[spalte - 1] or "0"
    if re.fullmatch(r"[0-9]{1,5}", text):
        prozent = Decimal(int(text)).scaleb(-2)
    elif re.fullmatch(r"[0-9]{1,3},[0-9]{1,2}", text):
        prozent = Decimal(text.replace(",", "."))
    else:
        raise Abgelehnt(f"'{text}' is not a percentage in hundredths.", spalte)
    if prozent > 100:
        raise Abgelehnt(f"'{text}' is more than 100 per cent.", spalte)
    return prozent.quantize(Decimal("0.01"))


def formatter(_kopf: Kopf) -> Callable[[Zahlungsbedingung], str]:
    def write(bedingung: Zahlungsbedingung) -> str:
        if len(bedingung.zeitraeume) > 3:
            raise Abgelehnt(f"'{len(bedingung.zeitraeume)}' periods are more than three.", _FIRST_ZEITRAUM)
        felder = [
            str(bedingung.nummer), quote(bedingung.bezeichnung), str(bedingung.faelligkeitstyp),
            f"{bedingung.skonto1_prozent.scaleb(2):03.0f}", str(bedingung.skonto1_tage),
            f"{bedingung.skonto2_prozent.scaleb(2):03.0f}", str(bedingung.skonto2_tage), str(bedingung.faellig_tage),
        ]  # fmt: skip
        for zeitraum in bedingung.zeitraeume:
            days = (0, 1, 3, 5)
            felder += [str(value or "") if field in days else str(value) for field, value in enumerate(zeitraum)]
        felder += [""] * (29 - len(felder))
        return ";".join((*felder, quote(""), str(bedingung.verwendung)))

    return write
