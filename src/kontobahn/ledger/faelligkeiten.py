"""Open items by due date: the answer, and the rules by which a due date follows from a row, the terms of payment or the document.

Without the call (`routes/rewe_read.py`): the port and its adapters speak these types.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable, Mapping
from datetime import MAXYEAR, date
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal, NamedTuple

from kontobahn.api.wire import Answer
from kontobahn.days import days_later
from kontobahn.formats import extf
from kontobahn.ledger.konto import Kontenrahmen, is_debitor, is_personenkonto
from kontobahn.ledger.opos import OposKonto, Posten
from kontobahn.ledger.wire import Periode, Zahlungsbedingung

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


# An invoice that names no due date, which comes after those that do; and the mark of a credit note, which comes after every invoice.
NOT_NAMED, CREDIT = "~", "~"


def invoice_text(
    rahmen: Kontenrahmen, konto: str, other: str, *, soll: bool, belegdatum: str, reversal: bool, due: str
) -> str:
    """Returns the day of an invoice and its due date as a text of which the smallest is the first; "" if the leg of `konto` is none.

    An invoice is what a person account owes, or is owed: on the side of its kind, not against money, and no Generalumkehr. A credit
    note counts if it names a due date, but only where there is no invoice.
    """
    is_owed = soll == is_debitor(konto)
    if reversal or (due == NOT_NAMED and not is_owed) or (not is_personenkonto(other) and is_money(rahmen, other)):
        return ""
    return f"{belegdatum} {due}" if is_owed else f"{CREDIT}{belegdatum} {due}"


def earlier_invoice(first: str, second: str) -> str:
    """Returns the first invoice of a document that has both."""
    return min(first, second) if first and second else first or second


def as_invoice(text: str) -> FirstInvoice:
    day, _, due = text.removeprefix(CREDIT).partition(" ")
    named = None if due == NOT_NAMED else date.fromisoformat(due)
    return FirstInvoice(date.fromisoformat(day), named, text.startswith(CREDIT))


def is_money(rahmen: Kontenrahmen, konto: str) -> bool:
    return rahmen.geld[0] <= konto[:4] <= rahmen.geld[1]


def by_due_date(
    konten: list[OposKonto],
    stichtag: date,
    invoices: Mapping[tuple[str, str], FirstInvoice],
    terms: Mapping[str, Zahlungsbedingung],
) -> Faelligkeiten:
    """Returns open items with their due dates; `invoices` by person account and document, `terms` by person account."""
    found = [_with_due_dates(konto, stichtag, invoices, terms.get(konto.kontonummer)) for konto in konten]
    return Faelligkeiten(
        stichtag=stichtag,
        konten=found,
        debitoren=age_classes(posten for konto in found if konto.isDebitor for posten in konto.posten),
        kreditoren=age_classes(posten for konto in found if not konto.isDebitor for posten in konto.posten),
    )


def _with_due_dates(
    konto: OposKonto,
    stichtag: date,
    invoices: Mapping[tuple[str, str], FirstInvoice],
    terms: Zahlungsbedingung | None,
) -> FaelligesKonto:
    posten = [
        with_due_date(item, stichtag, invoices.get((konto.kontonummer, item.beleg)), terms, is_debitor=konto.isDebitor)
        for item in konto.posten
    ]
    return FaelligesKonto(
        kontonummer=konto.kontonummer,
        bezeichnung=konto.bezeichnung,
        isDebitor=konto.isDebitor,
        totalSaldo=konto.totalSaldo,
        altersklassen=age_classes(posten),
        posten=posten,
    )


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
        sums[age_class(posten)] += posten.saldo
    return Altersklassen(*sums)


def age_class(posten: FaelligerPosten) -> int:
    """Returns the place of an item among the `Altersklassen`."""
    return sum(posten.tageUeberfaellig > last for last in _LAST_DAYS)


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


# Payment terms: from a row of a file to the answer, and back. Periods are sentences there.


_HUNDREDTH = Decimal("0.01")
_NO_DISCOUNT, _AT_ONCE = "kein Skonto", "sofort fällig"


# --- From a row


def as_answer(bedingung: extf.Zahlungsbedingung) -> Zahlungsbedingung:
    by_period = bedingung.faelligkeitstyp == extf.ALS_ZEITRAUM
    return Zahlungsbedingung(
        id=str(bedingung.nummer),
        bezeichnung=bedingung.bezeichnung,
        skontoFrist1=None if by_period or not bedingung.skonto1_prozent else bedingung.skonto1_tage,
        skontoSatz1=bedingung.skonto1_prozent,
        skontoFrist2=None if by_period or not bedingung.skonto2_prozent else bedingung.skonto2_tage,
        skontoSatz2=bedingung.skonto2_prozent,
        nettoFrist=None if by_period else bedingung.faellig_tage,
        faelligkeitsart="ALS_ZEITRAUM" if by_period else "NACH_TAGE",
        perioden=_perioden(bedingung.zeitraeume) if by_period else [],
    )


def _perioden(zeitraeume: tuple[extf.Zeitraum, ...]) -> list[Periode]:
    first = 1
    perioden = []
    for zeitraum in zeitraeume:
        perioden.append(
            Periode(
                rechnungsbereich=f"Rechnungen vom {first}. bis {zeitraum.rechnung_bis}.",
                skontoFrist1=_deadline_of_terms(zeitraum.skonto1_tag, zeitraum.skonto1_monat) or _NO_DISCOUNT,
                skontoFrist2=_deadline_of_terms(zeitraum.skonto2_tag, zeitraum.skonto2_monat),
                nettoFrist=_deadline_of_terms(zeitraum.faellig_tag, zeitraum.faellig_monat) or _AT_ONCE,
            )
        )
        first = zeitraum.rechnung_bis + 1
    return perioden


def _deadline_of_terms(tag: int, monat: int) -> str | None:
    if not tag:
        return None
    month = MONTHS[monat] if monat < len(MONTHS) else f"des {monat}. Monats danach"
    return f"Monatsende {month}" if tag == END_OF_MONTH else f"{tag}. {month}"


# --- To a row: of terms that did not come from a file, or came before their rows were kept


def as_row(terms: Zahlungsbedingung) -> extf.Zahlungsbedingung | None:
    """Returns the terms as a file has them, or None if they are in other words than ours."""
    zeitraeume = [_zeitraum(periode) for periode in terms.perioden]
    if None in zeitraeume:
        return None
    return extf.Zahlungsbedingung(
        line=0,
        nummer=int(terms.id),
        bezeichnung=terms.bezeichnung,
        faelligkeitstyp=extf.NACH_TAGEN if terms.faelligkeitsart == "NACH_TAGE" else extf.ALS_ZEITRAUM,
        skonto1_prozent=terms.skontoSatz1.quantize(_HUNDREDTH),
        skonto1_tage=terms.skontoFrist1 or 0,
        skonto2_prozent=terms.skontoSatz2.quantize(_HUNDREDTH),
        skonto2_tage=terms.skontoFrist2 or 0,
        faellig_tage=terms.nettoFrist or 0,
        zeitraeume=tuple(filter(None, zeitraeume)),
        verwendung=0,
    )


def _zeitraum(periode: Periode) -> extf.Zeitraum | None:
    invoices = days_of(periode.rechnungsbereich)
    days = [_day(text) for text in (periode.skontoFrist1, periode.skontoFrist2 or _NO_DISCOUNT, periode.nettoFrist)]
    if invoices is None or None in days:
        return None
    first, second, netto = filter(None, days)
    return extf.Zeitraum(invoices[1], *first, *second, *netto)


def _day(text: str) -> tuple[int, int] | None:
    return (0, 0) if text in (_NO_DISCOUNT, _AT_ONCE) else day_and_months(text)
