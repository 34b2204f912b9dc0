"""Opening balances written as a pair of SOLL and HABEN: they come to the same as a single one, in open items and trial balance."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.books import verification
from tests.harness import Service
from tests.ledger_builder import Books

OPOS, SUSA = "/v2/ledger-rewe-read/opos", "/v2/ledger-rewe-read/susa"
YEARS = ("2024-01-01", "2025-01-01", "2026-01-01")
MOVEMENTS = """
    2024-02-10 S 1200 10010 200,00 RE-ALT Zahlung
    2024-03-01 S 10010 8400 1190,00 RE-1 Rechnung
    2024-04-01 S 1200 10010 1190,00 RE-1 Zahlung
    2024-11-15 S 10010 8400 595,00 RE-2 Rechnung
    2025-02-01 S 1200 10010 595,00 RE-2 Zahlung
"""
SINGLE = """
    2024-01-01 S 10010 9008 300,00 EB
    2025-01-01 S 10010 9008 695,00 EB
"""
PAIRS = """
    2024-01-01 S 10010 9008 300,00 0
    2024-01-01 H 10010 9008 300,00 0
    2025-01-01 H 10010 9008 695,00 0
    2025-01-01 S 10010 9008 695,00 0
"""
# From the side of the carry-over account, and under two numbers.
TURNED = """
    2024-01-01 S 10010 9008 300,00 EB
    2025-01-01 S 9008 10010 695,00 SB
    2025-01-01 H 9008 10010 695,00 EB
"""
FORMS = {"single": SINGLE, "pairs": PAIRS, "turned": TURNED}
# Cut-off → reconciled, raw, total.
EXPECTED: dict[str, tuple[dict[str, int], dict[str, int], int]] = {
    "2024-01-01": ({"EB-RESIDUAL": 300}, {"0": 300}, 300),
    "2024-02-10": ({"EB-RESIDUAL": 100}, {"0": 300, "RE-ALT": -200}, 100),
    "2024-12-31": ({"RE-2": 595, "EB-RESIDUAL": 100}, {"RE-2": 595, "0": 300, "RE-ALT": -200}, 695),
    "2025-01-01": ({"RE-2": 595, "EB-RESIDUAL": 100}, {"RE-2": 595, "0": 300, "RE-ALT": -200}, 695),
    "2025-01-31": ({"RE-2": 595, "EB-RESIDUAL": 100}, {"RE-2": 595, "0": 300, "RE-ALT": -200}, 695),
    "2025-12-31": ({"EB-RESIDUAL": 100}, {"0": 300, "RE-ALT": -200}, 100),
}


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization(), years=YEARS)


def items(books: Books, **query: str) -> dict[str, float]:
    konten = books.read(OPOS, **query)["konten"]
    return {item["beleg"]: item["saldo"] for konto in konten for item in konto["posten"]}


def balances(books: Books, jahr: str) -> dict[str, tuple[float, float]]:
    """Account → opening balance and balance."""

    def signed(value: Any) -> float:
        return 0 if value is None else value["betrag"] * (1 if value["sollHabenKennzeichen"] == "SOLL" else -1)

    rows = books.read(SUSA, geschaeftsjahrStartDatum=jahr)
    return {row["kontonummer"]: (signed(row["ebWert"]), signed(row["saldo"])) for row in rows}


def agree(books: Books) -> None:
    assert books.service.db.read_now(verification.find_differences, books.client.mandant) == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("openings_first", [True, False])
@pytest.mark.either_engine
def test_the_worked_example_holds_in_every_form_and_at_every_cut_off(
    books: Books, form: str, openings_first: bool
) -> None:
    parts = [FORMS[form], MOVEMENTS]
    for text in parts if openings_first else reversed(parts):
        books.post(text)
    for stichtag, (reconciled, raw, total) in EXPECTED.items():
        assert items(books, stichtag=stichtag) == reconciled
        assert items(books, stichtag=stichtag, ebModus="raw") == raw
        assert books.read(OPOS, stichtag=stichtag)["sumDebitoren"] == total
    assert balances(books, "2024-01-01")["100100000"] == (300, 695)
    of_2025 = balances(books, "2025-01-01")
    assert (of_2025["100100000"], of_2025["90080000"]) == ((695, 100), (-695, -695))
    assert sum(saldo for _, saldo in of_2025.values()) == 0
    agree(books)


def test_the_sign_is_that_of_what_the_account_stood_at_not_of_its_last_movements(books: Books) -> None:
    books.post("2024-01-01 S 10010 9008 1000,00 EB\n2024-05-01 S 1200 10010 300,00 RE-0")
    books.post("2025-01-01 H 10010 9008 700,00 0\n2025-01-01 S 10010 9008 700,00 0")
    assert books.read(OPOS)["sumDebitoren"] == 700
    assert balances(books, "2025-01-01")["100100000"] == (700, 700)
    agree(books)


def test_creditors_are_carried_in_pairs_too(books: Books) -> None:
    books.post("2024-05-01 H 70001 3400 119,00 ER-1")
    books.post("2025-01-01 S 70001 9009 119,00 0\n2025-01-01 H 70001 9009 119,00 0")
    assert items(books) == {"ER-1": -119}
    assert balances(books, "2025-01-01")["700010000"] == (-119, -119)
    agree(books)


def test_what_arrives_later_for_an_earlier_year_turns_the_pair(books: Books) -> None:
    books.post("2025-01-01 H 10010 9008 50,00 0\n2025-01-01 S 10010 9008 50,00 0")
    # Nothing before it: the first leg counts.
    assert items(books) == {"EB-RESIDUAL": -50}
    books.post("2024-06-01 S 10010 8400 50,00 RE-1")
    assert items(books) == {"RE-1": 50}
    assert balances(books, "2025-01-01")["100100000"] == (50, 50)
    agree(books)


def test_a_pair_that_was_taken_back_counts_for_nothing(books: Books) -> None:
    books.post("2025-01-01 S 10010 9008 50,00 0\n2025-01-01 H 10010 9008 50,00 0")
    books.post("2025-01-01 H 10010 9008 50,00 0 gu=1\n2025-01-01 S 10010 9008 50,00 0 gu=1")
    assert items(books) == {}
    books.post("2025-01-01 S 10010 9008 80,00 0\n2025-01-01 H 10010 9008 80,00 0")
    assert items(books) == {"EB-RESIDUAL": 80}
    agree(books)


@pytest.mark.either_engine
def test_a_wrong_opening_that_was_reversed_and_written_anew_is_no_pair(books: Books) -> None:
    books.post("2024-06-01 S 10010 8400 350,00 RE-1")
    books.post("2025-01-01 S 10010 9008 300,00 EB\n2025-01-01 H 10010 9008 300,00 EB")
    books.post("2025-01-01 S 10010 9008 350,00 EB")
    assert items(books) == {"RE-1": 350}
    agree(books)


def test_an_invoice_and_a_credit_of_one_amount_carried_item_by_item_are_no_pair(books: Books) -> None:
    books.post("2025-01-01 S 10010 9008 100,00 RE-1\n2025-01-01 H 10010 9008 100,00 GS-1")
    assert items(books) == {}
    books.post("2024-06-01 S 10020 8400 100,00 RE-1\n2024-07-01 H 10020 8400 100,00 GS-1")
    books.post("2025-01-01 S 10020 9008 100,00 0\n2025-01-01 H 10020 9008 100,00 0")
    assert items(books) == {"RE-1": 100, "GS-1": -100}
    assert balances(books, "2025-01-01")["100200000"] == (0, 0)
    agree(books)


def test_a_payment_and_its_return_on_the_first_day_are_no_pair(books: Books) -> None:
    books.post("2025-01-01 S 1200 10010 50,00 0\n2025-01-01 H 1200 10010 50,00 0")
    assert items(books) == {}
    agree(books)


def test_a_year_that_begins_within_a_month_has_calendar_months_as_periods(service: Service) -> None:
    books = Books(service, service.organization(), years=("2024-03-15",))
    books.post(
        """
        2024-03-31 S 10010 8400 1,00 A
        2024-04-01 S 10010 8400 2,00 B
        2024-12-31 S 10010 8400 4,00 C
        2025-02-28 S 10010 8400 8,00 D
        2025-03-14 S 10010 8400 16,00 E
        """
    )
    (row,) = books.read(SUSA, geschaeftsjahrStartDatum="2024-03-15", kontonummer="10010")
    periods = {item["periode"]: item["saldo"]["betrag"] for item in row["periodenwerte"]}
    # The fourteen days of the thirteenth calendar month belong to the twelfth period.
    assert periods == {1: 1, 2: 2, 10: 4, 12: 24}
    agree(books)
