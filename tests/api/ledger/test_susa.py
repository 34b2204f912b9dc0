"""GET /v2/ledger-rewe-read/susa."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from kontobahn.books import store
from tests.harness import Service
from tests.ledger_builder import Books, refusal

PATH = "/v2/ledger-rewe-read/susa"
YEAR = {"geschaeftsjahrStartDatum": "2026-01-01"}
LEDGER = """
    2025-06-01 S 10010 8400 119,00 RE-0
    2026-01-01 S 10010 9008 119,00 EB
    2026-01-01 S 1200 9000 5000,00 EB
    2026-01-01 H 70001 9009 238,00 EB
    2026-01-31 S 10010 8400 1190,00 RE-1
    2026-02-01 S 1200 10010 1309,00 RE-1
    2026-02-28 H 70001 3400 107,10 ER-1
    2026-12-31 H 1200 4930 26,87 Q-1 bu=9
"""


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization(), years=("2025-01-01", "2026-01-01"))


def rows(books: Books, **query: str) -> dict[str, dict[str, Any]]:
    """The rows by account, with exact amounts; every one is consistent, and all of them add up to zero."""
    answer = books.get(PATH, **{**YEAR, **query})
    assert answer.status_code == 200, answer.text
    found = json.loads(answer.content, parse_float=Decimal)["data"]
    for row in found:
        periods = sum(map(signed, row["periodenwerte"]), Decimal(0))
        assert periods == row["umsatzSoll"] - row["umsatzHaben"], row
        assert signed(row) == (signed({"saldo": row["ebWert"]}) if row["ebWert"] else 0) + periods, row
        assert row["saldo"]["betrag"] >= 0
        numbers = [item["periode"] for item in row["periodenwerte"]]
        assert numbers == sorted(set(numbers))
        assert set(numbers) <= set(range(1, 15))
    if "kontonummer" not in query:
        assert sum(map(signed, found), Decimal(0)) == 0
        assert sum((row["umsatzSoll"] - row["umsatzHaben"] for row in found), Decimal(0)) == 0
    return {row["kontonummer"]: row for row in found}


def signed(item: dict[str, Any]) -> Decimal:
    saldo = item["saldo"]
    return Decimal(saldo["betrag"] if saldo["sollHabenKennzeichen"] == "SOLL" else -saldo["betrag"])


def periods(row: dict[str, Any]) -> dict[int, Decimal]:
    return {item["periode"]: signed(item) for item in row["periodenwerte"]}


def test_the_answer_has_the_contract_s_shape_and_costs_one(books: Books) -> None:
    books.post(LEDGER)
    answer = books.get(PATH, **YEAR, kontonummer="1200")
    assert answer.headers["x-credits-charged"] == "1"
    assert answer.json() == {
        "data": [
            {
                "kontobeschriftung": "Bank",
                "kontonummer": "12000000",
                "saldo": {"betrag": 6282.13, "sollHabenKennzeichen": "SOLL"},
                "periodenwerte": [
                    {"periode": 2, "saldo": {"betrag": 1309.00, "sollHabenKennzeichen": "SOLL"}},
                    {"periode": 12, "saldo": {"betrag": 26.87, "sollHabenKennzeichen": "HABEN"}},
                ],
                "ebWert": {"betrag": 5000.00, "sollHabenKennzeichen": "SOLL"},
                "umsatzHaben": 26.87,
                "umsatzSoll": 1309.00,
            }
        ],
        "platform": {"neuesGuthaben": 99},
    }


def test_amounts_have_two_decimals_on_the_wire(books: Books) -> None:
    books.post("2026-01-31 S 1200 1360 0,10 A\n2026-01-31 S 1200 1360 0,20 B")
    assert b'"umsatzSoll":0.30}' in books.get(PATH, **YEAR, kontonummer="1200").content


def test_balances_openings_and_turnover_of_every_account(books: Books) -> None:
    books.post(LEDGER)
    found = rows(books)
    assert {konto: signed(row) for konto, row in found.items()} == {
        "12000000": Decimal("6282.13"), "15760000": Decimal("21.39"), "17760000": Decimal("-190.00"),
        "34000000": Decimal("90.00"), "49300000": Decimal("22.58"), "84000000": Decimal("-1000.00"),
        "90000000": Decimal("-5000.00"), "90080000": Decimal("-119.00"), "90090000": Decimal("238.00"),
        "100100000": Decimal("0.00"), "700010000": Decimal("-345.10"),
    }  # fmt: skip
    assert found["84000000"]["ebWert"] is None
    assert found["100100000"]["saldo"] == {"betrag": 0, "sollHabenKennzeichen": "SOLL"}
    assert (found["100100000"]["umsatzSoll"], found["100100000"]["umsatzHaben"]) == (1190, 1309)
    assert found["700010000"]["ebWert"] == {"betrag": 238, "sollHabenKennzeichen": "HABEN"}
    assert periods(found["15760000"]) == {2: Decimal("17.10"), 12: Decimal("4.29")}


def test_ledger_accounts_come_before_person_accounts_by_number(books: Books) -> None:
    books.post(LEDGER)
    numbers = list(rows(books))
    assert numbers == sorted(numbers, key=lambda number: (len(number), number))
    assert len(numbers[0]) == 8
    assert len(numbers[-1]) == 9


def test_every_year_stands_for_itself(books: Books) -> None:
    books.post(LEDGER)
    found = rows(books, geschaeftsjahrStartDatum="2025-01-01")
    assert {konto: signed(row) for konto, row in found.items()} == {
        "17760000": -19, "84000000": -100, "100100000": 119,
    }  # fmt: skip


@pytest.mark.either_engine
def test_only_accounts_with_bookings_are_listed(books: Books) -> None:
    assert rows(books) == {}
    assert rows(books, kontonummer="4711") == {}


@pytest.mark.parametrize("kontonummer", ["10010", "100100000"])
def test_the_filter_takes_the_client_s_own_number_and_the_full_one(books: Books, kontonummer: str) -> None:
    books.post(LEDGER)
    assert list(rows(books, kontonummer=kontonummer)) == ["100100000"]


@pytest.mark.parametrize("kontonummer", ["1200", "12000000"])
def test_the_filter_never_takes_a_ledger_account_for_a_person(books: Books, kontonummer: str) -> None:
    books.post(LEDGER + "2026-03-01 S 12000 8400 11,90 RE-9")
    assert list(rows(books, kontonummer=kontonummer)) == ["12000000"]


def test_a_full_number_is_not_taken_for_a_person_where_own_numbers_have_seven_digits(service: Service) -> None:
    books = Books(service, service.organization(), laenge=7, years=("2026-01-01",))
    books.post("2026-02-01 S 1200000 84000010 119,00 RE-1")
    assert set(rows(books)) == {"12000000", "840000100"}
    for given, found in (("12000000", "12000000"), ("1200000", "12000000"), ("84000010", "840000100")):
        assert set(rows(books, kontonummer=given)) == {found}, given
    assert rows(books, kontonummer="13000000") == {}


def test_a_new_label_shows_at_once(books: Books) -> None:
    books.post(LEDGER)
    books.service.db.write_now(store.label_accounts, books.client, [("12000000", "Bank „Süd“")])
    assert rows(books)["12000000"]["kontobeschriftung"] == "Bank „Süd“"


def test_periods_are_months_of_a_fiscal_year_that_starts_in_july(service: Service) -> None:
    books = Books(service, service.organization(), years=("2024-07-01", "2025-07-01"))
    books.post(
        """
        2024-07-01 S 1200 9000 10,00 EB
        2024-07-01 S 1200 1360 1,00 A
        2024-07-31 S 1200 1360 2,00 A
        2024-12-31 S 1200 1360 4,00 A
        2025-01-01 S 1200 1360 8,00 A
        2025-06-30 S 1200 1360 16,00 A
        2025-07-01 S 1200 9000 41,00 EB
        2025-07-01 S 1200 1360 32,00 A
        """
    )
    first = rows(books, geschaeftsjahrStartDatum="2024-07-01")["12000000"]
    assert periods(first) == {1: 3, 6: 4, 7: 8, 12: 16}
    assert (first["ebWert"]["betrag"], first["saldo"]["betrag"]) == (10, 41)
    second = rows(books, geschaeftsjahrStartDatum="2025-07-01")["12000000"]
    assert periods(second) == {1: 32}
    assert second["saldo"]["betrag"] == 73
    refusal(books.get(PATH, geschaeftsjahrStartDatum="2025-01-01"), 404)


def test_a_general_reversal_takes_turnover_back_on_its_own_side(books: Books) -> None:
    books.post(
        """
        2026-01-10 S 10010 8400 119,00 RE-1
        2026-01-10 S 10010 8400 238,00 RE-2
        2026-02-10 H 10010 8400 119,00 RE-1 gu=1 bu=20
        """
    )
    found = rows(books)
    turnover = {konto: (row["umsatzSoll"], row["umsatzHaben"]) for konto, row in found.items()}
    assert turnover == {"17760000": (0, 38), "84000000": (0, 200), "100100000": (238, 0)}
    assert periods(found["100100000"]) == {1: 357, 2: -119}
    assert periods(found["84000000"]) == {1: -300, 2: 100}


def test_an_ordinary_reversal_adds_turnover_to_the_other_side(books: Books) -> None:
    books.post("2026-01-10 S 10010 8400 119,00 RE-1\n2026-02-10 H 10010 8400 119,00 RE-1")
    found = rows(books)
    turnover = {konto: (row["umsatzSoll"], row["umsatzHaben"]) for konto, row in found.items()}
    assert turnover == {"17760000": (19, 19), "84000000": (100, 100), "100100000": (119, 119)}


def test_closing_entries_are_period_thirteen(books: Books) -> None:
    books.post("2026-12-31 S 4830 0400 100,00 AfA")
    books.post("2026-12-31 S 4830 0400 50,00 AfA", is_closing=True)
    found = rows(books)
    assert periods(found["48300000"]) == {12: 100, 13: 50}
    assert (found["48300000"]["umsatzSoll"], found["48300000"]["saldo"]["betrag"]) == (150, 150)


def test_openings_count_as_openings_and_not_as_turnover(books: Books) -> None:
    books.post("2026-01-01 S 1200 9000 10,00 EB\n2026-01-01 H 1000 9000 4,00 EB\n2026-01-02 S 1200 9000 1,00 spaeter")
    found = rows(books)
    assert (found["12000000"]["ebWert"]["betrag"], found["12000000"]["umsatzSoll"]) == (10, 1)
    assert found["10000000"]["ebWert"] == {"betrag": 4, "sollHabenKennzeichen": "HABEN"}
    assert (found["10000000"]["periodenwerte"], found["10000000"]["umsatzHaben"]) == ([], 0)


def test_a_sale_on_new_year_s_day_is_no_opening_whatever_its_number(books: Books) -> None:
    books.post("2025-12-01 S 10010 8400 119,00 RE-1\n2026-01-01 S 1000 8400 119,00 0")
    found = rows(books)
    assert found["84000000"]["ebWert"] is None
    assert found["10000000"]["umsatzSoll"] == 119
    (konto,) = books.read("/v2/ledger-rewe-read/opos", stichtag="2026-01-31")["konten"]
    assert [(item["beleg"], item["saldo"]) for item in konto["posten"]] == [("RE-1", 119.00)]


def test_a_discount_is_split_into_net_and_tax(books: Books) -> None:
    books.post("2026-01-10 S 10010 8400 119,00 RE-1\n2026-01-20 S 1200 10010 116,62 RE-1 skonto=2,38")
    found = {konto: signed(row) for konto, row in rows(books).items()}
    assert found == {
        "12000000": Decimal("116.62"), "17760000": Decimal("-18.62"), "84000000": -100, "87360000": 2, "100100000": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ({}, 400, "geschaeftsjahrStartDatum"),
        ({"geschaeftsjahrStartDatum": "2026"}, 400, "geschaeftsjahrStartDatum"),
        ({"geschaeftsjahrStartDatum": "2026-02-30"}, 400, "geschaeftsjahrStartDatum"),
        ({**YEAR, "kontonummer": "120"}, 400, "kontonummer"),
        ({**YEAR, "kontonummer": "120000"}, 400, "kontonummer"),
        ({**YEAR, "kontonummer": "12000001"}, 400, "kontonummer"),
        ({**YEAR, "kontonummer": "12OO"}, 400, "kontonummer"),
        ({**YEAR, "konto": "1200"}, 400, "konto"),
        ({**YEAR, "zweck": "dropdown"}, 400, "zweck"),
        ({**YEAR, "clientId": "29098-1"}, 400, "clientId"),
        ({"geschaeftsjahrStartDatum": "2024-01-01"}, 404, None),
        ({"geschaeftsjahrStartDatum": "2026-01-02"}, 404, None),
    ],
)
@pytest.mark.either_engine
def test_a_wrong_question_is_refused_and_free(
    books: Books, query: dict[str, str], status: int, field: str | None
) -> None:
    with books.unchanged():
        refusal(books.get(PATH, **query), status, field)


@pytest.mark.either_engine
def test_an_unknown_fiscal_year_is_answered_with_the_known_ones(books: Books) -> None:
    error = refusal(books.get(PATH, geschaeftsjahrStartDatum="2024-01-01"), 404)["error"]
    assert "2025-01-01, 2026-01-01" in error


def test_another_client_of_the_connection_has_its_own_balance(books: Books) -> None:
    books.another_client("29098-2", years=["2026-01-01"])
    books.post(LEDGER)
    assert rows(books, clientId="29098-2") == {}
    assert len(rows(books, clientId="29098-55003")) == 11
