"""A history is hidden and found again: what counts as a payment, which movement belongs to it, and what is counted."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from kontobahn.formats.extf import Buchungssatz
from kontobahn.formats.statements import Entry, Party
from kontobahn.formats.statements.purpose import Purpose
from kontobahn.reconciliation.backtest import Report, backtest
from kontobahn.reconciliation.core.model import Person

DAY = date(2026, 5, 4)
BANK, ERLOESE, ANNA, BERT = "12000000", "84000000", "100010000", "100020000"
NAMES = (Person(ANNA, "Anna Muster"), Person(BERT, "Bert Beispiel"))


def row(konto: str, gegenkonto: str, amount: int, beleg: str = "RE-2026-00123", **changed: Any) -> Buchungssatz:
    base = Buchungssatz(
        line=0, umsatz=amount, soll=True, waehrung="EUR", kurs="", basis_umsatz=None, konto=konto, gegenkonto=gegenkonto,
        bu_schluessel="", belegdatum=DAY.isoformat(), belegfeld1=beleg, belegfeld2="", skonto=0, buchungstext="Anna Muster",
        kost1="", kost2="", generalumkehr=False, weitere="",
    )  # fmt: skip
    return base._replace(**changed)


# More of the shape, so that it is known which places of a number vary.
OTHERS = [row(BERT, ERLOESE, 1_000 + n, f"RE-2026-00{n}") for n in (311, 422, 533)]
INVOICE = row(ANNA, ERLOESE, 11_900)
PAYMENT = row(BANK, ANNA, 11_900, belegdatum="2026-05-10")


def entry(amount: int = 11_900, day: str = "2026-05-10", text: str = "RE-2026-00123", **changed: Any) -> Entry:
    anna = Party(name="Anna Muster", iban="DE89370400440532013000")
    fields: dict[str, Any] = {
        "status": "posted", "amount_minor": amount, "currency": "EUR", "booking_date": date.fromisoformat(day),
        "value_date": None, "description": text, "purpose": Purpose(svwz=text), "counterparty": anna, "payer": anna,
        "payee": Party(),
    }  # fmt: skip
    return Entry(**fields | changed)


def history(*records: Buchungssatz, entries: tuple[Entry, ...] = ()) -> Report:
    return backtest([*OTHERS, *records], NAMES, entries)


def test_a_payment_with_its_movement_is_found_by_its_number() -> None:
    found = history(INVOICE, PAYMENT, entries=(entry(),))
    assert (found.payments, found.with_statement, found.unknown) == (1, 1, 0)
    assert found.classes == [("A2", 1, 1, 1, 0, 1, 1)]
    assert found.all_classes == ("all", 1, 1, 1, 0, 1, 1)


def test_without_a_statement_the_text_of_the_booking_is_all_there_is() -> None:
    assert history(INVOICE, PAYMENT).classes == [("B4", 1, 0, 0, 0, 1, 1)]
    assert history(INVOICE, PAYMENT._replace(buchungstext="", belegfeld2="RE-2026-00123")).classes[0].evidence == "B1"
    assert history(INVOICE, PAYMENT._replace(buchungstext="")).classes[0].evidence == "C"


@pytest.mark.parametrize(
    ("found_at_bank", "paired"),
    [
        ((entry(day="2026-05-05"),), 1),
        ((entry(day="2026-05-04"),), 0),
        ((entry(day="2026-05-15"),), 1),
        ((entry(day="2026-05-16"),), 0),
        ((entry(11_901),), 0),
        ((entry(status="pending"),), 0),
        ((entry(), entry(day="2026-05-11")), 1),
        ((entry(day="2026-05-09"), entry(day="2026-05-11")), 0),
    ],
)
def test_the_movement_has_the_amount_a_day_near_by_and_no_second_as_near(
    found_at_bank: tuple[Entry, ...], paired: int
) -> None:
    assert history(INVOICE, PAYMENT, entries=found_at_bank).with_statement == paired


def test_each_movement_is_of_one_payment() -> None:
    second = PAYMENT._replace(belegdatum="2026-05-12", buchungstext="x", umsatz=11_900)
    twice = history(INVOICE._replace(umsatz=23_800), PAYMENT, second, entries=(entry(),))
    assert (twice.payments, twice.with_statement) == (2, 1)


def test_rows_of_a_day_an_account_a_text_and_a_statement_are_one_payment() -> None:
    more = row(ANNA, ERLOESE, 20_000, "RE-2026-00124")
    both = (PAYMENT, row(BANK, ANNA, 20_000, "RE-2026-00124", belegdatum="2026-05-10"))
    text = "RE-2026-00123 RE-2026-00124"
    found = history(INVOICE, more, *both, entries=(entry(31_900, text=text),))
    assert (found.payments, found.with_statement, found.classes[0][:4]) == (1, 1, ("A4", 1, 1, 1))
    for other in (
        both[1]._replace(buchungstext="x"),
        both[1]._replace(belegfeld2="x"),
        both[1]._replace(belegdatum="2026-05-11"),
    ):
        assert history(INVOICE, more, both[0], other).payments == 2


def test_skonto_is_a_line_of_the_truth_and_an_opening_balance_is_no_movement() -> None:
    paid = PAYMENT._replace(umsatz=11_662, skonto=238)
    found = history(INVOICE, paid, entries=(entry(11_662),))
    # Terms of payment are not known: a part payment is proposed, and is not what happened.
    assert (found.with_statement, found.classes) == (1, [("B1", 1, 0, 0, 0, 0, 0)])
    opening = row(ANNA, "90000000", 500, "RE-2026-00777")
    assert history(INVOICE, opening, PAYMENT._replace(belegfeld1="RE-2026-00777")).unknown == 1


@pytest.mark.parametrize("side", [0, 1])
def test_either_account_may_be_the_person_s_and_a_reversal_takes_back(side: int) -> None:
    turned = PAYMENT._replace(konto=ANNA, gegenkonto=BANK, soll=False)
    paid = turned if side else PAYMENT
    assert history(INVOICE, paid, entries=(entry(),)).classes[0].right == 1
    back = paid._replace(soll=not paid.soll, generalumkehr=True)
    assert history(INVOICE, back, entries=(entry(),)).with_statement == 1, "a reversal of a return is money in"
    both = history(INVOICE, paid, paid._replace(generalumkehr=True))
    assert both.payments == 0, "what was booked and reversed on a day is no payment"


def test_in_another_currency_the_amount_in_euro_counts() -> None:
    foreign = PAYMENT._replace(umsatz=13_000, waehrung="USD", basis_umsatz=11_900)
    assert history(INVOICE, foreign, entries=(entry(),)).classes[0].right == 1


def test_a_document_is_owed_from_its_day_on() -> None:
    early = PAYMENT._replace(belegdatum="2026-05-03")
    same_day = PAYMENT._replace(belegdatum=DAY.isoformat())
    assert history(INVOICE, early, entries=(entry(day="2026-05-03"),)).classes[0].right == 0
    assert history(INVOICE, same_day, entries=(entry(day="2026-05-04"),)).classes[0].right == 1


def test_what_was_paid_is_settled_for_the_next_and_its_payer_is_learned() -> None:
    stranger = Party(name="Zentrale Abrechnung", iban="DE12500105170648489890")
    invoices = [row(ANNA, ERLOESE, 5_000 + n, f"RE-2026-0070{n}") for n in range(3)]
    days = [(DAY + timedelta(20 * n + 1)).isoformat() for n in range(3)]
    payments = [row(BANK, ANNA, 5_000 + n, f"RE-2026-0070{n}", belegdatum=days[n]) for n in range(3)]
    entries = tuple(entry(5_000 + n, days[n], text="danke", counterparty=stranger, payer=stranger) for n in range(3))
    found = history(*invoices, *payments, entries=entries)
    assert [(one.evidence, one.payments) for one in found.classes] == [("B2", 1), ("B4", 1), ("C", 1)]
    again = PAYMENT._replace(belegdatum="2026-06-10")
    twice = history(INVOICE, PAYMENT, again, entries=(entry(), entry(day="2026-06-10")))
    assert [(one.evidence, one.would_act) for one in twice.classes] == [("A2", 1), ("B1", 0)]


def test_only_accounts_of_banks_are_paid_from() -> None:
    cash = PAYMENT._replace(konto="10000000")
    assert history(INVOICE, cash).payments == 0
    assert backtest([INVOICE, cash], banks=("10",)).payments == 1
    assert backtest([INVOICE, row("120010000", ANNA, 500)]).payments == 0, "a person account is no bank"
