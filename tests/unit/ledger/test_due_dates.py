"""When an item is due, what may be deducted until when, and how old it is: the rules alone, day by day."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from kontobahn.formats import extf
from kontobahn.ledger.faelligkeiten import (
    NOT_NAMED,
    FaelligerPosten,
    FirstInvoice,
    age_classes,
    as_answer,
    day_and_months,
    day_of_column,
    days_of,
    invoice_text,
    is_money,
    with_due_date,
)
from kontobahn.ledger.konto import KONTENRAHMEN
from kontobahn.ledger.opos import Posten
from kontobahn.ledger.wire import Periode, Zahlungsbedingung

INVOICED, TODAY = date(2026, 1, 31), date(2026, 4, 30)
# The last account before money, the first and the last that are, and the next one.
MONEY = {
    "SKR03": ("09990000", "10000000", "13690000", "13700000"),
    "SKR04": ("14590000", "14600000", "18990000", "19000000"),
}


def terms(**changes: Any) -> Zahlungsbedingung:
    fields: dict[str, Any] = {
        "id": "1",
        "bezeichnung": "",
        "skontoFrist1": None,
        "skontoSatz1": Decimal(0),
        "skontoFrist2": None,
        "skontoSatz2": Decimal(0),
        "nettoFrist": None,
        "faelligkeitsart": "NACH_TAGE",
        "perioden": [],
    }
    return Zahlungsbedingung(**fields | changes)


def period(days: str, netto: str, first: str = "", second: str | None = None) -> Periode:
    return Periode(rechnungsbereich=days, skontoFrist1=first, skontoFrist2=second, nettoFrist=netto)


def item(
    saldo: str = "119.00",
    *,
    invoice: FirstInvoice | None = None,
    debitor: bool = True,
    by: Zahlungsbedingung | None = None,
) -> FaelligerPosten:
    posten = Posten(beleg="RE-1", belegdatum=INVOICED, buchungstext="x", saldo=Decimal(saldo))
    return with_due_date(posten, TODAY, invoice, by, is_debitor=debitor)


THIRTY = terms(nettoFrist=30)
ROW = date(2026, 3, 3)


@pytest.mark.parametrize(
    ("saldo", "debitor", "invoice", "due", "source"),
    [
        ("119.00", True, None, date(2026, 3, 2), "zahlungsbedingung"),
        ("-119.00", False, None, date(2026, 3, 2), "zahlungsbedingung"),
        # A payment or a credit note is due at once.
        ("-119.00", True, None, INVOICED, "belegdatum"),
        ("119.00", False, None, INVOICED, "belegdatum"),
        # The row of the invoice goes before the terms, and the invoice's day before that of the document.
        ("119.00", True, FirstInvoice(INVOICED, ROW), ROW, "zeile"),
        ("119.00", True, FirstInvoice(date(2026, 2, 10), None), date(2026, 3, 12), "zahlungsbedingung"),
        ("119.00", True, FirstInvoice(TODAY, ROW), ROW, "zeile"),
        # An invoice of later is not known yet, and a credit note says nothing about what is owed.
        ("119.00", True, FirstInvoice(date(2026, 5, 1), ROW), date(2026, 3, 2), "zahlungsbedingung"),
        ("119.00", True, FirstInvoice(INVOICED, ROW, is_credit=True), date(2026, 3, 2), "zahlungsbedingung"),
        ("-119.00", True, FirstInvoice(INVOICED, ROW, is_credit=True), ROW, "zeile"),
        ("-119.00", True, FirstInvoice(INVOICED, ROW), INVOICED, "belegdatum"),
    ],
)
def test_the_invoice_decides_then_the_terms_then_the_document(
    saldo: str, debitor: bool, invoice: FirstInvoice | None, due: date, source: str
) -> None:
    found = item(saldo, invoice=invoice, debitor=debitor, by=THIRTY)
    assert (found.faelligAm, found.faelligkeitsquelle) == (due, source)
    assert found.tageUeberfaellig == (TODAY - due).days


def test_what_is_not_due_is_not_overdue() -> None:
    assert item(by=terms(nettoFrist=89)).tageUeberfaellig == 0
    assert item(by=terms(nettoFrist=88)).tageUeberfaellig == 1
    assert item(by=terms(nettoFrist=200)).tageUeberfaellig == 0
    assert item().faelligkeitsquelle == "belegdatum"


@pytest.mark.parametrize(
    ("sentence", "due"),
    [
        ("15. des laufenden Monats", date(2026, 1, 15)),
        ("30. des Folgemonats", date(2026, 2, 28)),
        ("Monatsende des übernächsten Monats", date(2026, 3, 31)),
        ("1. des 11. Monats danach", date(2026, 12, 1)),
        ("1. des 12. Monats danach", date(2027, 1, 1)),
        ("1. des 95676. Monats danach", date(9999, 1, 1)),
        ("1. des 95688. Monats danach", date.max),
        ("irgendwann", INVOICED),
    ],
)
def test_a_period_names_a_day_of_a_month_or_the_last_it_has(sentence: str, due: date) -> None:
    found = item(by=terms(faelligkeitsart="PERIODE", perioden=[period("Rechnungen vom 1. bis 31.", sentence)]))
    assert (found.faelligAm, found.faelligkeitsquelle) == (due, "zahlungsbedingung")


@pytest.mark.parametrize(("first", "last", "covers"), [(31, 31, True), (1, 31, True), (1, 30, False), (16, 31, True)])
def test_a_period_is_for_the_invoices_of_its_days(first: int, last: int, covers: bool) -> None:
    by = terms(perioden=[period(f"Rechnungen vom {first}. bis {last}.", "15. des Folgemonats")])
    assert item(by=by).faelligAm == (date(2026, 2, 15) if covers else INVOICED)
    tenth = FirstInvoice(date(2026, 2, 10), None)
    assert item(invoice=tenth, by=by).faelligAm == (date(2026, 3, 15) if first <= 10 <= last else tenth.day)
    assert item(by=terms(perioden=[period("alle", "15. des Folgemonats")])).faelligAm == INVOICED


def deductions(found: FaelligerPosten) -> list[tuple[date, str, str]]:
    return [(one.bis, str(one.prozent), str(one.betrag)) for one in found.skonto]


def test_skonto_by_days_is_a_share_of_what_is_open_rounded_half_up() -> None:
    by = terms(nettoFrist=30, skontoFrist1=8, skontoSatz1=Decimal(3), skontoFrist2=0, skontoSatz2=Decimal(2))
    first, second = (date(2026, 2, 8), "3"), (INVOICED, "2")
    assert deductions(item("100.50", by=by)) == [(*first, "3.02"), (*second, "2.01")]
    assert deductions(item("-100.50", debitor=False, by=by)) == [(*first, "3.02"), (*second, "2.01")]
    assert deductions(item("-100.50", by=by)) == [], "nothing is deducted from a credit note"
    assert deductions(item(by=terms(skontoFrist1=8, skontoSatz2=Decimal(2)))) == [], (
        "a day without a rate, and the reverse"
    )
    invoiced = FirstInvoice(date(2026, 2, 10), None)
    assert deductions(item(invoice=invoiced, by=by))[0][0] == date(2026, 2, 18)


def test_skonto_by_period_is_that_of_the_first_that_covers_the_invoice() -> None:
    periods = [
        period("Rechnungen vom 1. bis 15.", "1. des Folgemonats", "2. des Folgemonats"),
        period("Rechnungen vom 16. bis 31.", "28. des Folgemonats", "10. des Folgemonats", "20. des Folgemonats"),
        period("Rechnungen vom 1. bis 31.", "1. des Folgemonats", "3. des Folgemonats"),
    ]
    by = terms(faelligkeitsart="PERIODE", perioden=periods, skontoSatz1=Decimal(3), skontoSatz2=Decimal(2))
    assert deductions(item(by=by)) == [(date(2026, 2, 10), "3", "3.57"), (date(2026, 2, 20), "2", "2.38")]
    assert item(by=by).faelligAm == date(2026, 2, 28)
    one = terms(faelligkeitsart="PERIODE", perioden=periods[2:], skontoSatz1=Decimal(3), skontoSatz2=Decimal(2))
    assert [bis for bis, _, _ in deductions(item(by=one))] == [date(2026, 2, 3)]


def test_items_are_summed_by_age_to_the_day() -> None:
    aged = [item(f"{2**n}.00", by=terms(nettoFrist=89 - days)) for n, days in enumerate((0, 1, 30, 31, 60, 61, 90, 91))]
    assert [one.tageUeberfaellig for one in aged] == [0, 1, 30, 31, 60, 61, 90, 91]
    sums = age_classes(aged)
    assert [sums.nichtFaellig, sums.bis30Tage, sums.bis60Tage, sums.bis90Tage, sums.ueber90Tage] == [1, 6, 24, 96, 128]


def test_days_as_columns_and_sentences_write_them() -> None:
    assert day_of_column("03122026") == day_of_column("3122026") == date(2026, 12, 3)
    assert day_of_column("31022026") is None
    assert day_of_column("x") is None
    assert days_of("Rechnungen vom 1. bis 15.") == (1, 15)
    assert days_of("Rechnungen vom 1. bis 15. Mai") is None
    assert day_and_months("Monatsende des laufenden Monats") == (31, 0)
    assert day_and_months("5. des 3. Monats danach") == (5, 3)
    assert day_and_months("5. Mai") is None


@pytest.mark.parametrize(
    ("konto", "other", "soll"), [("100100000", "84000000", True), ("700010000", "34000000", False)]
)
def test_an_invoice_is_on_the_side_of_its_account_and_not_against_money(konto: str, other: str, soll: bool) -> None:
    """A credit note is on the other side, and counts with a due date alone, after every invoice."""

    def text(other: str = other, *, soll: bool = soll, reversal: bool = False, due: str = NOT_NAMED) -> str:
        return invoice_text(
            KONTENRAHMEN["SKR03"], konto, other, soll=soll, belegdatum="2026-01-31", reversal=reversal, due=due
        )

    assert (text(), text(due="2026-02-05")) == ("2026-01-31 ~", "2026-01-31 2026-02-05")
    assert text(reversal=True) == ""
    assert text("12000000") == ""
    assert text("100200000") == "2026-01-31 ~", "another person's account is no money, whatever it begins with"
    assert (text(soll=not soll), text(soll=not soll, due="2026-02-05")) == ("", "~2026-01-31 2026-02-05")


@pytest.mark.parametrize("skr", MONEY)
def test_money_is_within_the_chart_s_bounds(skr: str) -> None:
    assert [is_money(KONTENRAHMEN[skr], konto) for konto in MONEY[skr]] == [False, True, True, False]


@pytest.mark.parametrize("prozent", [Decimal(2), Decimal(0)])
def test_days_of_a_discount_are_told_where_there_is_one_and_it_counts_in_days(prozent: Decimal) -> None:
    for typ, by_period in ((extf.NACH_TAGEN, False), (extf.ALS_ZEITRAUM, True)):
        row = extf.Zahlungsbedingung(
            line=0, nummer=11, bezeichnung="", faelligkeitstyp=typ, skonto1_prozent=prozent, skonto1_tage=5,
            skonto2_prozent=prozent, skonto2_tage=10, faellig_tage=30, zeitraeume=(), verwendung=0,
        )  # fmt: skip
        found = as_answer(row)
        days = (None, None) if by_period or not prozent else (5, 10)
        assert (found.skontoFrist1, found.skontoFrist2) == days
        assert found.nettoFrist == (None if by_period else 30)
