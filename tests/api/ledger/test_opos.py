"""GET /v2/ledger-rewe-read/opos."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.ledger.routes import rewe_read
from tests.harness import Service
from tests.ledger_builder import PERSONENKONTO, Books, refusal

PATH = "/v2/ledger-rewe-read/opos"
# The worked example of how carry-overs and documents are netted.
EXAMPLE = """
    2024-01-01 S 10010 9008 300,00 EB Saldovortrag
    2024-02-10 S 1200 10010 200,00 RE-ALT Zahlung
    2024-03-01 S 10010 8400 1190,00 RE-1 Rechnung
    2024-04-01 S 1200 10010 1190,00 RE-1 Zahlung
    2024-11-15 S 10010 8400 595,00 RE-2 Rechnung
    2025-01-01 S 10010 9008 695,00 EB Saldovortrag
    2025-02-01 S 1200 10010 595,00 RE-2 Zahlung
"""


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization(), years=("2024-01-01", "2025-01-01", "2026-01-01"))


def ask(books: Books, **query: str) -> dict[str, Any]:
    answer = books.service.get(PATH, books.owner.key, params=books.query(**query))
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


def items(answer: dict[str, Any]) -> dict[str, float]:
    return {item["beleg"]: item["saldo"] for konto in answer["data"]["konten"] for item in konto["posten"]}


@pytest.mark.parametrize(
    ("stichtag", "reconciled", "raw", "total"),
    [
        ("2024-12-31", {"RE-2": 595, "EB-RESIDUAL": 100}, {"RE-2": 595, "0": 300, "RE-ALT": -200}, 695),
        ("2025-01-31", {"RE-2": 595, "EB-RESIDUAL": 100}, {"RE-2": 595, "0": 300, "RE-ALT": -200}, 695),
        ("2025-12-31", {"EB-RESIDUAL": 100}, {"0": 300, "RE-ALT": -200}, 100),
    ],
)
def test_the_worked_example(
    books: Books, stichtag: str, reconciled: dict[str, int], raw: dict[str, int], total: int
) -> None:
    books.post(EXAMPLE)
    answer = ask(books, stichtag=stichtag)
    assert items(answer) == reconciled
    assert items(ask(books, stichtag=stichtag, ebModus="raw")) == raw
    konto = answer["data"]["konten"][0]
    assert (konto["kontonummer"], konto["isDebitor"], konto["totalSaldo"]) == ("100100000", True, total)
    assert (answer["data"]["sumDebitoren"], answer["data"]["sumKreditoren"]) == (total, 0)


def test_the_answer_has_the_contract_s_shape_and_costs_five(books: Books) -> None:
    books.post("2026-01-15 S 10010 8400 119,00 RE-7 Rechnung Januar")
    assert ask(books) == {
        "data": {
            "stichtag": "2026-03-02",
            "konten": [
                {
                    "kontonummer": "100100000",
                    "bezeichnung": "",
                    "isDebitor": True,
                    "totalSaldo": 119.00,
                    "posten": [
                        {
                            "beleg": "RE-7",
                            "belegdatum": "2026-01-15",
                            "buchungstext": "Rechnung Januar",
                            "saldo": 119.00,
                        }
                    ],
                }
            ],
            "sumDebitoren": 119.00,
            "sumKreditoren": 0.00,
        },
        "platform": {"neuesGuthaben": 95},
    }


def test_items_and_accounts_come_by_size_and_sides_are_told_apart(books: Books) -> None:
    books.post(
        """
        2026-01-10 S 10010 8400 10,00 A
        2026-01-11 S 10010 8400 30,00 B
        2026-01-12 S 10010 8400 20,00 C
        2026-01-12 S 10020 8400 500,00 D
        2026-01-13 H 70001 3400 200,00 ER-1
        2026-01-14 S 70001 1200 50,00 ER-1
        """
    )
    answer = ask(books)["data"]
    assert [konto["kontonummer"] for konto in answer["konten"]] == ["100200000", "700010000", "100100000"]
    assert [item["beleg"] for item in answer["konten"][2]["posten"]] == ["B", "C", "A"]
    assert (answer["sumDebitoren"], answer["sumKreditoren"]) == (560.00, -150.00)
    assert list(items(ask(books, filter="debitors"))) == ["D", "B", "C", "A"]
    assert items(ask(books, filter="creditors")) == {"ER-1": -150.00}
    assert items(ask(books, kontonummer="10010")) == {"A": 10, "B": 30, "C": 20}
    assert items(ask(books, kontonummer="10010", filter="creditors")) == {}


def test_documents_are_matched_to_the_letter(books: Books) -> None:
    books.post("2026-01-10 S 10010 8400 10,00 re-1\n2026-01-11 S 1200 10010 10,00 RE-1")
    assert items(ask(books)) == {"re-1": 10, "RE-1": -10}


def test_skonto_clears_the_whole_document(books: Books) -> None:
    books.post("2026-01-10 S 10010 8400 119,00 RE-1\n2026-01-20 S 1200 10010 116,62 RE-1 skonto=2,38")
    assert items(ask(books)) == {}


def test_a_reversal_clears_its_booking(books: Books) -> None:
    books.post("2026-01-10 S 10010 8400 119,00 RE-1\n2026-01-20 H 10010 8400 119,00 RE-1 gu=1 bu=20")
    assert items(ask(books)) == {}


def test_ledger_accounts_are_no_open_items(books: Books) -> None:
    books.post("2026-01-10 S 1410 8400 119,00 RE-1")
    assert ask(books)["data"]["konten"] == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"stichtag": "2026-02-31"}, "stichtag"),
        ({"stichtag": "heute"}, "stichtag"),
        ({"filter": "debitoren"}, "filter"),
        ({"ebModus": "both"}, "ebModus"),
        ({"kontonummer": "84000000"}, "kontonummer"),
        ({"kontonummer": "123"}, "kontonummer"),
        ({"clientId": "1-1"}, "clientId"),
        ({"clientId": "29098-1"}, "clientId"),
        ({"stichtagg": "2026-01-01"}, "stichtagg"),
    ],
)
@pytest.mark.either_engine
def test_a_wrong_question_is_400_and_free(books: Books, query: dict[str, str], field: str) -> None:
    answer = books.service.get(PATH, books.owner.key, params=books.query(**query))
    assert answer.status_code == 400, answer.text
    assert answer.json()["field"] == field
    assert answer.headers["x-credits-charged"] == "0"
    assert books.service.balance(books.owner).available == 100


@pytest.mark.either_engine
def test_a_day_off_the_calendar_is_refused_as_such(books: Books) -> None:
    body = refusal(books.get(PATH, stichtag="2026-02-31"), 400, "stichtag")
    assert "must be a day of the calendar" in body["error"]


def test_without_a_connection_it_names_the_parameter(books: Books) -> None:
    answer = books.service.get(PATH, books.owner.key)
    assert answer.status_code == 400
    assert "`connectionId` is required" in answer.json()["error"]


def test_names_and_texts_come_through_whatever_they_hold(books: Books) -> None:
    body = {
        "personenkontoNummer": "10010", "kontaktTyp": "COMPANY", "kontenrahmen": "SKR03", "kontonummernLaenge": 4,
        "geschaeftsjahrStartDatum": "2026-01-01", "firmenname": 'Müller "& Söhne" \\ {Bau} \u20ac \U0001f4b6',
    }  # fmt: skip
    assert books.send(PERSONENKONTO, body).status_code == 201
    books.post('2026-01-15 S 10010 8400 119,00 RE"7\\ Text "in" Anführung {0} \u2028')
    (konto,) = ask(books)["data"]["konten"]
    assert konto["bezeichnung"] == body["firmenname"]
    assert (konto["posten"][0]["beleg"], konto["posten"][0]["saldo"]) == ('RE"7\\', 119.00)
    assert konto["posten"][0]["buchungstext"] == 'Text "in" Anführung {0}'
    (row,) = books.read("/v2/ledger-rewe-read/susa", geschaeftsjahrStartDatum="2026-01-01", kontonummer="10010")
    assert row["kontobeschriftung"] == body["firmenname"]


def test_amounts_are_written_with_two_decimals(books: Books) -> None:
    books.post(
        "2026-01-15 S 10010 8400 0,05 A\n2026-01-15 H 10010 8400 1000000000,10 B\n2026-01-15 H 10020 8400 0,99 C"
    )
    content = books.service.get(PATH, books.owner.key, params=books.query()).content
    for text in (b'"saldo":0.05}', b'"saldo":-1000000000.10}', b'"saldo":-0.99}', b'"totalSaldo":-1000000000.05,'):
        assert text in content


def test_in_january_before_the_carry_over_the_old_year_s_items_stay(books: Books) -> None:
    books.post("2025-11-15 S 10010 8400 119,00 RE-1\n2026-01-10 S 10010 8400 238,00 RE-2")
    assert items(ask(books)) == {"RE-1": 119, "RE-2": 238}
    books.post("2026-01-01 S 10010 9008 119,00 EB")
    assert items(ask(books)) == {"RE-1": 119, "RE-2": 238}
    assert items(ask(books, ebModus="raw")) == {"RE-1": 119, "RE-2": 238}


def test_carrying_over_ledger_accounts_alone_leaves_the_persons_as_they_were(books: Books) -> None:
    """Accounting programs carry the two kinds of accounts over in separate steps."""
    books.post(EXAMPLE)
    before = {mode: items(ask(books, ebModus=mode)) for mode in ("reconcile", "raw")}
    books.post("2026-01-01 S 1200 9000 5000,00 EB")
    assert {mode: items(ask(books, ebModus=mode)) for mode in ("reconcile", "raw")} == before
    books.post("2026-01-01 S 10010 9008 40,00 EB")
    assert items(ask(books)) == {"EB-RESIDUAL": 40}


def test_an_account_with_very_many_open_items_is_listed_like_any_other(books: Books) -> None:
    lines = [f"2025-03-01 S 10010 8400 {number},00 RE-{number:04}" for number in range(1, 1202)]
    books.post("\n".join([*lines, "2025-03-01 S 10020 8400 1,00 RE-X"]))
    konten = ask(books)["data"]["konten"]
    assert [(konto["kontonummer"], len(konto["posten"])) for konto in konten] == [("100100000", 1201), ("100200000", 1)]
    assert konten[0]["totalSaldo"] == 1201 * 1202 / 2
    assert [item["saldo"] for item in konten[0]["posten"]] == list(range(1201, 0, -1))
    books.post("\n".join(f"2025-04-01 S 1200 10010 {number},00 RE-{number:04}" for number in range(4, 1202)))
    assert items(ask(books, kontonummer="10010")) == {"RE-0003": 3, "RE-0002": 2, "RE-0001": 1}
    assert len(items(ask(books, kontonummer="10010", stichtag="2025-03-31"))) == 1201


def test_a_late_booking_in_a_carried_year_counts_once_it_is_carried_too(books: Books) -> None:
    books.post("2025-11-15 S 10010 8400 119,00 RE-1\n2026-01-01 S 10010 9008 119,00 EB")
    books.post("2025-12-31 S 10010 8400 59,50 RE-9")
    assert ask(books)["data"]["konten"][0]["totalSaldo"] == 119
    books.post("2026-01-01 S 10010 9008 59,50 EB")
    assert items(ask(books)) == {"RE-1": 119, "RE-9": 59.5}


def test_an_opening_without_its_documents_is_netted_against_the_oldest_payments_first(books: Books) -> None:
    books.post(
        """
        2026-01-01 S 10010 9008 100,00 EB
        2026-02-20 S 1200 10010 80,00 Z-2
        2026-02-10 S 1200 10010 50,00 Z-1
        2026-02-15 S 10010 8400 30,00 RE-1
        2026-02-16 S 1200 10010 40,00 RE-1
        """
    )
    # 100 covers the 50 and fifty of the 80; the overpaid RE-1 has its document and is left alone.
    assert items(ask(books)) == {"Z-2": -30, "RE-1": -10}


def test_bookings_between_two_person_accounts_move_both(books: Books) -> None:
    books.post("2026-01-10 S 10010 70001 50,00 V-1")
    answer = ask(books)["data"]
    assert (answer["sumDebitoren"], answer["sumKreditoren"]) == (50, -50)


def test_without_enough_credits_it_is_402(service: Service) -> None:
    books = Books(service, service.organization(credits_granted=4))
    body = refusal(books.get(PATH), 402)
    assert (body["benoetigt"], body["verfuegbar"]) == (5, 4)


def test_a_long_list_is_sent_in_parts_and_says_the_same(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    books.post("""
        2026-01-10 S 10010 8400 119,00 RE-1 Rechnung
        2026-01-11 S 10020 8400 238,00 RE-2 Rechnung
        2026-01-12 H 70010 3400 59,50 ER-1 Wareneingang
    """)
    whole = ask(books)["data"]
    assert [konto["kontonummer"] for konto in whole["konten"]] == ["100200000", "100100000", "700100000"]
    nobody = ask(books, kontonummer="100300000")["data"]
    assert nobody["konten"] == []
    monkeypatch.setattr(rewe_read, "_PART_BYTES", -1)
    assert ask(books)["data"] == whole
    assert ask(books, kontonummer="100300000")["data"] == nobody
