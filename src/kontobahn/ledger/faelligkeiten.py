"""Open items by due date: the answer, and the rules by which a due date follows from a row, the terms of payment or the document.

Without the call (`routes/rewe_read.py`): the port and its adapters speak these types.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable
from datetime import MAXYEAR, date
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal, NamedTuple

from kontobahn.api.wire import Answer
from kontobahn.days import days_later
from kontobahn.ledger.opos import Posten
from kontobahn.ledger.wire import Zahlungsbedingung

Faelligkeitsquelle = Literal["zeile", "zahlungsbedingung", "belegdatum"]
# Last day overdue of each class but the last.
_LAST_DAYS = (0, 30, 60, 90)
# The wording of terms by period.
MONTHS = ("des laufenden Monats", "des Folgemonats", "des übernächsten Monats")
END_OF_MONTH = 31
_RANGE = re.compile(r"Rechnungen vom (\d+)\. bis (\d+)\.")
_DEADLINE = re.compile(rf"(?:(\d+)\.|Monatsende) (?:({'|'.join(MONTHS)})|des (\d+)\. Monats danach)")
_CENT = Decimal("0.01")


class Skonto(Answer):
    bis: date
    prozent: Decimal
    betrag: Decimal


class FaelligerPosten(Answer, kw_only=True):
    beleg: str
    belegdatum: date
    buchungstext: str
    saldo: Decimal
    faelligAm: date
    faelligkeitsquelle: Faelligkeitsquelle
    tageUeberfaellig: int
    skonto: list[Skonto]


class Altersklassen(Answer):
    nichtFaellig: Decimal
    bis30Tage: Decimal
    bis60Tage: Decimal
    bis90Tage: Decimal
    ueber90Tage: Decimal


class FaelligesKonto(Answer, kw_only=True):
    kontonummer: str
    bezeichnung: str
    isDebitor: bool
    totalSaldo: Decimal
    altersklassen: Altersklassen
    posten: list[FaelligerPosten]


class Faelligkeiten(Answer, kw_only=True):
    stichtag: date
    konten: list[FaelligesKonto]
    debitoren: Altersklassen
    kreditoren: Altersklassen


class Due(NamedTuple):
    day: date
    source: Faelligkeitsquelle


class FirstInvoice(NamedTuple):
    """The first invoice of a document, and the due date that its booking names; or a credit note, if it names one."""

    day: date
    due: date | None
    is_credit: bool = False


def with_due_date(
    posten: Posten, stichtag: date, invoice: FirstInvoice | None, terms: Zahlungsbedingung | None, *, is_debitor: bool
) -> FaelligerPosten:
    """Returns the item with its due date: that of its invoice, whatever it began with."""
    # A payment or a credit note is due at once: terms are for what is owed.
    is_owed = (posten.saldo > 0) == is_debitor
    if not is_owed:
        terms = None
    if invoice is None or invoice.is_credit == is_owed or invoice.day > stichtag:
        invoice = FirstInvoice(posten.belegdatum, None)
    found = due(invoice.day, invoice.due, terms)
    return FaelligerPosten(
        beleg=posten.beleg,
        belegdatum=posten.belegdatum,
        buchungstext=posten.buchungstext,
        saldo=posten.saldo,
        faelligAm=found.day,
        faelligkeitsquelle=found.source,
        tageUeberfaellig=max((stichtag - found.day).days, 0),
        skonto=_skonti(posten.saldo, invoice.day, terms) if terms is not None else [],
    )


def due(belegdatum: date, of_row: date | None, terms: Zahlungsbedingung | None) -> Due:
    if of_row is not None:
        return Due(of_row, "zeile")
    if terms is not None:
        day = _netto(belegdatum, terms)
        if day is not None:
            return Due(day, "zahlungsbedingung")
    return Due(belegdatum, "belegdatum")


def age_classes(items: Iterable[FaelligerPosten]) -> Altersklassen:
    sums = [Decimal("0.00")] * (len(_LAST_DAYS) + 1)
    for posten in items:
        sums[sum(posten.tageUeberfaellig > last for last in _LAST_DAYS)] += posten.saldo
    return Altersklassen(*sums)


def day_of_column(text: str) -> date | None:
    """Returns the day in column 117 (TTMMJJJJ), or None if it holds none."""
    digits = text.zfill(8)
    try:
        return date(int(digits[4:]), int(digits[2:4]), int(digits[:2]))
    except ValueError:
        return None


def _netto(belegdatum: date, terms: Zahlungsbedingung) -> date | None:
    if terms.nettoFrist is not None:
        return days_later(belegdatum, terms.nettoFrist)
    for periode in terms.perioden:
        if _covers(periode.rechnungsbereich, belegdatum):
            return _deadline(belegdatum, periode.nettoFrist) or belegdatum
    return None


def _skonti(saldo: Decimal, day: date, terms: Zahlungsbedingung) -> list[Skonto]:
    ends: list[tuple[date | None, Decimal]] = []
    if terms.faelligkeitsart == "NACH_TAGE":
        for tage, satz in ((terms.skontoFrist1, terms.skontoSatz1), (terms.skontoFrist2, terms.skontoSatz2)):
            ends.append((None if tage is None else days_later(day, tage), satz))
    for periode in terms.perioden:
        if _covers(periode.rechnungsbereich, day):
            ends.append((_deadline(day, periode.skontoFrist1), terms.skontoSatz1))
            ends.append((_deadline(day, periode.skontoFrist2 or ""), terms.skontoSatz2))
            break
    return [
        Skonto(bis=end, prozent=satz, betrag=(abs(saldo) * satz / 100).quantize(_CENT, ROUND_HALF_UP))
        for end, satz in ends
        if end is not None and satz
    ]


def _covers(rechnungsbereich: str, day: date) -> bool:
    days = days_of(rechnungsbereich)
    return days is not None and days[0] <= day.day <= days[1]


def days_of(rechnungsbereich: str) -> tuple[int, int] | None:
    """Returns the first and the last day of the month that `Rechnungen vom 1. bis 15.` names."""
    found = _RANGE.fullmatch(rechnungsbereich)
    return None if found is None else (int(found[1]), int(found[2]))


def day_and_months(text: str) -> tuple[int, int] | None:
    """Returns the day of the month in a sentence like `15. des Folgemonats`, and how many months later that is."""
    found = _DEADLINE.fullmatch(text)
    if found is None:
        return None
    day, month, later = found.groups()
    return int(day or END_OF_MONTH), MONTHS.index(month) if month else int(later)


def _deadline(belegdatum: date, text: str) -> date | None:
    """Returns the day that a sentence names; a month without that day ends earlier."""
    found = day_and_months(text)
    if found is None:
        return None
    day, months = found
    month = belegdatum.month - 1 + months
    year, month = belegdatum.year + month // 12, month % 12 + 1
    if year > MAXYEAR:
        return date.max
    return date(year, month, min(day, monthrange(year, month)[1]))
