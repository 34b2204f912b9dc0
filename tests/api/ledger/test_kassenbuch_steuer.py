"""The tax of a cash book entry: what was stated is what is booked, and what is not known is booked gross and told."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from kontobahn.books import cash_book, verification
from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line


@pytest.fixture
def books(service: Service) -> Books:
    books = Books(service, service.organization(), years=("2020-01-01", "2026-01-01"))
    assert books.send(KASSENBUCH, entry(line(1000, "1360"))).status_code == 201
    return books


def book(books: Books, *lines: dict[str, Any], **fields: Any) -> list[str]:
    """Books an entry and returns its warnings."""
    answer = books.send(KASSENBUCH, entry(*lines, **fields))
    assert answer.status_code == 201, answer.text
    assert books.service.db.read_now(verification.find_differences, books.client.mandant) == []
    return [item["nachricht"] for item in answer.json()["ledgerAntwort"]["meldungen"] if item["typ"] == "WARNUNG"]


def balances(books: Books, jahr: str = "2026-01-01") -> dict[str, Decimal]:
    rows = books.read("/v2/ledger-rewe-read/susa", geschaeftsjahrStartDatum=jahr)
    return {
        row["kontonummer"]: Decimal(str(row["saldo"]["betrag"])) * (1 if row["saldo"]["sollHabenKennzeichen"] == "SOLL" else -1)
        for row in rows
    }  # fmt: skip


@pytest.mark.parametrize(
    ("betrag", "prozent", "key", "konto", "tax"),
    [
        (119, 19, "3", "17760000", "-19"), (107, 7, "2", "17710000", "-7"), (116, 16, "5", "17750000", "-16"),
        (-119, 19, "9", "15760000", "19"), (-107, 7.0, "8", "15710000", "7"), (-105, 5, "6", "15680000", "5"),
    ],
)  # fmt: skip
@pytest.mark.either_engine
def test_a_stated_rate_is_booked_as_output_tax_of_income_and_input_tax_of_an_expense(
    books: Books, betrag: float, prozent: float, key: str, konto: str, tax: str
) -> None:
    account = "2700" if betrag > 0 else "4930"
    assert book(books, line(betrag, account, steuersatz={"prozent": prozent})) == []
    assert balances(books)[konto] == Decimal(tax)
    assert balances(books)[account + "0000"] == -Decimal(str(betrag)) - Decimal(tax)
    assert books.rows("SELECT bu_schluessel FROM books_bookings WHERE id = 2") == [(key,)]


def test_a_rate_of_the_second_half_of_2020_is_booked_by_the_key_of_that_time(books: Books) -> None:
    day = "2020-08-03T10:00:00+02:00"
    assert book(books, line(116, "2700", steuersatz={"prozent": 16}), transaktionsdatum=day) == []
    assert balances(books, "2020-01-01")["17750000"] == -16
    assert books.rows("SELECT bu_schluessel, aufteilung FROM books_bookings WHERE id = 2") == [("3", "U16g")]


@pytest.mark.parametrize(
    "given",
    [
        {"prozent": 19}, {"prozent": 19.0, "buSchluessel": ""}, {"prozent": 0, "buSchluessel": "40"},
    ],
)  # fmt: skip
def test_a_rate_that_agrees_with_the_account_or_the_key_says_nothing_new(books: Books, given: dict[str, Any]) -> None:
    assert book(books, line(119, steuersatz=given)) == []
    assert balances(books)["84000000"] == (-119 if given["prozent"] == 0 else -100)


@pytest.mark.parametrize(
    ("konto", "key"), [("2700", "501"), ("2700", "9401"), ("8400", "2"), ("10010", "3"), ("1200", "3"), ("8410", "")]
)
@pytest.mark.either_engine
def test_what_is_not_known_is_booked_gross_and_told(books: Books, konto: str, key: str) -> None:
    warned = book(books, line(10, "1360"), line(119, konto, steuersatz={"buSchluessel": key}))
    assert len(warned) == 1
    assert warned[0].startswith("Zeile 2: ")
    assert "brutto" in warned[0]
    number = konto.ljust(9 if len(konto) == 5 else 8, "0")
    assert balances(books)[number] == -119


def test_a_reversal_is_split_as_its_entry_was_whatever_the_rates_of_today(books: Books) -> None:
    book(books, line(116, "2700", steuersatz={"prozent": 16}), transaktionsdatum="2020-08-03T10:00:00+02:00")
    books.service.db.write_now(cash_book.reverse_entry, books.client, "Hauptkasse", 2, "Irrtum")
    assert books.rows("SELECT bu_schluessel, aufteilung FROM books_bookings WHERE id = 3") == [("3", "U16g")]
    assert balances(books)["17750000"] == 16
    assert books.service.db.read_now(verification.find_differences, books.client.mandant) == []
