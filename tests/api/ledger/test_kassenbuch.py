"""POST /v2/ledger-duo/kassenbuch-advanced: what is answered, numbered, posted and kept."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest

from kontobahn.books import cash_book
from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line

SUSA = "/v2/ledger-rewe-read/susa"
NOW = "2026-03-02T09:00:00Z"


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization(), years=("2025-01-01", "2026-01-01"))


def book(books: Books, *lines: dict[str, Any], **fields: Any) -> dict[str, Any]:
    answer = books.send(KASSENBUCH, entry(*lines, **fields))
    assert answer.status_code == 201, answer.text
    result: dict[str, Any] = answer.json()
    return result


def balances(books: Books) -> dict[str, str]:
    """Account and signed balance of the year 2026, as written on the wire."""
    answer = books.get(SUSA, geschaeftsjahrStartDatum="2026-01-01")
    rows = json.loads(answer.content, parse_float=Decimal)["data"]
    signs = {"SOLL": "", "HABEN": "-"}
    found = {
        row["kontonummer"]: signs[row["saldo"]["sollHabenKennzeichen"]] + str(row["saldo"]["betrag"]) for row in rows
    }
    assert sum(map(Decimal, found.values())) == 0
    return found


def entries(books: Books, kassenname: str = "Hauptkasse") -> list[dict[str, Any]]:
    """The records of a cash book, its chain of hashes recomputed on the way."""
    previous, result, saldo = "0" * 64, [], 0
    for nummer, betrag, record, stored in books.rows(
        "SELECT nummer, betrag, record, hash FROM books_cash_entries WHERE kassenname = ? ORDER BY nummer", kassenname
    ):
        previous = hashlib.sha256(f"{previous}\n{record}".encode()).hexdigest()
        assert stored == previous
        content = json.loads(record)
        saldo += betrag
        assert (content["nummer"], content["betrag"], content["saldo"]) == (nummer, betrag, saldo)
        result.append(content)
    state = "SELECT last_nummer, last_hash, saldo FROM books_cash_books WHERE bezeichnung = ?"
    assert books.rows(state, kassenname) == [(len(result), previous, saldo)]
    assert [item["nummer"] for item in result] == list(range(1, len(result) + 1))
    return result


def test_the_answer_has_the_contract_s_shape_and_costs_one(books: Books) -> None:
    lines = (
        line(119, belegNummer="B-1", steuersatz={"prozent": 19, "buSchluessel": ""}, kostenstelle1="100"),
        line(
            -26.87, "4930", belegtext="Papier", steuersatz={"buSchluessel": "9"}, kostenstelle1="1", kostenstelle2="2"
        ),
        line(5, "1360"),
    )
    answer = books.send(KASSENBUCH, entry(*lines))
    assert (answer.status_code, answer.headers["x-credits-charged"]) == (201, "1")
    shared = {"erstellungsdatum": NOW, "waehrung": "EUR"}
    assert answer.json() == {
        **shared,
        "kassenname": "Hauptkasse",
        "betrag": 97.13,
        "transaktionsdatum": "2026-03-02T10:00:00+01:00",
        "belegzeilen": [
            {
                **shared, "gegenkonto": "8400", "belegtext": "Barverkauf", "belegnummer": "B-1", "betrag": 119.00,
                "steuersatz": {"prozent": 19, "buSchluessel": None}, "kostenstellen": [{"name": "100"}],
            },
            {
                **shared, "gegenkonto": "4930", "belegtext": "Papier", "belegnummer": None, "betrag": -26.87,
                "steuersatz": {"prozent": None, "buSchluessel": "9"}, "kostenstellen": [{"name": "1"}, {"name": "2"}],
            },
            {
                **shared, "gegenkonto": "1360", "belegtext": "Barverkauf", "belegnummer": None, "betrag": 5.00,
                "steuersatz": None, "kostenstellen": [],
            },
        ],
        "belegbilder": [],
        "ledgerAntwort": {
            "status": "SUCCESS",
            "meldungen": [
                {"dateiname": None, "nachricht": "Die Kassenbucheinträge 1 bis 3 wurden gebucht.", "zeitstempel": NOW, "typ": "INFO"}
            ],
        },
        "platform": {"neuesGuthaben": 99},
    }  # fmt: skip
    assert books.service.balance(books.owner).spent == 1


def test_money_is_written_with_two_decimals_and_never_as_a_float(books: Books) -> None:
    answer = books.send(KASSENBUCH, entry(line(0.1), line(0.2), betrag=0.3))
    assert answer.status_code == 201, answer.text
    assert b'"betrag":0.30,' in answer.content
    assert b'"betrag":0.10,' in answer.content
    large = books.send(KASSENBUCH, entry(line(9_999_999_999.99, "1360")))
    assert b'"betrag":9999999999.99,' in large.content


def test_each_line_is_an_entry_and_numbers_run_on_from_call_to_call(books: Books) -> None:
    book(books, line(10), line(20), line(-5, "4930"))
    book(books, line(1))
    kept = entries(books)
    assert [(item["nummer"], item["betrag"], item["saldo"]) for item in kept] == [
        (1, 1000, 1000), (2, 2000, 3000), (3, -500, 2500), (4, 100, 2600),
    ]  # fmt: skip
    assert {item["datum"] for item in kept} == {"2026-03-02"}


def test_a_late_entry_goes_to_its_day_and_takes_the_next_number(books: Books) -> None:
    book(books, line(10))
    book(books, line(20), transaktionsdatum="2026-01-15T08:00:00Z")
    assert [(item["nummer"], item["datum"]) for item in entries(books)] == [(1, "2026-03-02"), (2, "2026-01-15")]
    (kasse,) = books.read(SUSA, geschaeftsjahrStartDatum="2026-01-01", kontonummer="1000")
    assert [(item["periode"], item["saldo"]["betrag"]) for item in kasse["periodenwerte"]] == [(1, 20), (3, 10)]


def test_the_day_of_an_entry_is_the_calendar_day_in_berlin(books: Books) -> None:
    book(books, line(1), transaktionsdatum="2025-12-31T23:30:00Z")
    book(books, line(1), transaktionsdatum="2026-01-01T00:30:00+02:00")
    assert [item["datum"] for item in entries(books)] == ["2026-01-01", "2025-12-31"]


def test_cash_books_are_numbered_each_for_itself(books: Books) -> None:
    books.cash_book("Nebenkasse", "1010")
    book(books, line(10))
    book(books, line(7), kassenname="Nebenkasse")
    book(books, line(10))
    assert len(entries(books)) == 2
    assert len(entries(books, "Nebenkasse")) == 1
    assert balances(books) == {"10000000": "20.00", "10100000": "7.00", "17760000": "-4.32", "84000000": "-22.68"}


def test_twenty_calls_at_once_leave_no_gap_even_where_some_are_refused(books: Books) -> None:
    book(books, line(100))

    def call(number: int) -> int:
        body = entry(line(1), line(2)) if number % 4 else entry(line(5), line(-9_999, "4930"))
        return books.send(KASSENBUCH, body).status_code

    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(call, range(20)))
    assert (statuses.count(201), statuses.count(409)) == (15, 5)
    kept = entries(books)
    assert len(kept) == 31
    assert kept[-1]["saldo"] == 10_000 + 15 * 300
    # The two lines of a call stand side by side.
    assert [item["betrag"] for item in kept[1:]] == [100, 200] * 15
    assert books.service.balance(books.owner).spent == 16
    assert books.service.balance(books.owner).reserved == 0
    assert balances(books)["10000000"] == "145.00"


def test_withdrawals_at_once_never_overdraw_the_cash_book(books: Books) -> None:
    book(books, line(100))
    with ThreadPoolExecutor(20) as pool:
        calls = [pool.submit(books.send, KASSENBUCH, entry(line(-15, "4930"))) for _ in range(20)]
    statuses = [call.result().status_code for call in calls]
    assert (statuses.count(201), statuses.count(409)) == (6, 14)
    assert entries(books)[-1]["saldo"] == 1_000


@pytest.mark.parametrize(
    ("skr", "lines", "expected"),
    [
        # Income, with the tax in the account or in the key.
        ("SKR03", [line(1190)], {"1000": "1190.00", "8400": "-1000.00", "1776": "-190.00"}),
        ("SKR03", [line(107, "8300")], {"1000": "107.00", "8300": "-100.00", "1771": "-7.00"}),
        ("SKR03", [line(119, "2700", steuersatz={"buSchluessel": "3"})], {"1000": "119.00", "2700": "-100.00", "1776": "-19.00"}),
        ("SKR03", [line(107, "2700", steuersatz={"buSchluessel": "2"})], {"1000": "107.00", "2700": "-100.00", "1771": "-7.00"}),
        ("SKR03", [line(50, "8100", steuersatz={"buSchluessel": "1"})], {"1000": "50.00", "8100": "-50.00"}),
        ("SKR03", [line(50, "1360")], {"1000": "50.00", "1360": "-50.00"}),
        # Key 40 switches the account's own tax off.
        ("SKR03", [line(119, steuersatz={"buSchluessel": "40"})], {"1000": "119.00", "8400": "-119.00"}),
        # Expense; the cash that pays for it comes first.
        ("SKR03", [line(200, "1360"), line(-119, "3400")],
         {"1000": "81.00", "1360": "-200.00", "3400": "100.00", "1576": "19.00"}),
        ("SKR03", [line(200, "1360"), line(-107, "3300")],
         {"1000": "93.00", "1360": "-200.00", "3300": "100.00", "1571": "7.00"}),
        ("SKR03", [line(200, "1360"), line(-26.87, "4930", steuersatz={"buSchluessel": "9"})],
         {"1000": "173.13", "1360": "-200.00", "4930": "22.58", "1576": "4.29"}),
        ("SKR03", [line(200, "1360"), line(-10.70, "4940", steuersatz={"buSchluessel": "8"})],
         {"1000": "189.30", "1360": "-200.00", "4940": "10.00", "1571": "0.70"}),
        # A refund takes turnover and tax back.
        ("SKR03", [line(119), line(-11.90)], {"1000": "107.10", "8400": "-90.00", "1776": "-17.10"}),
        ("SKR04", [line(1190, "4400")], {"1600": "1190.00", "4400": "-1000.00", "3806": "-190.00"}),
        ("SKR04", [line(107, "4300")], {"1600": "107.00", "4300": "-100.00", "3801": "-7.00"}),
        ("SKR04", [line(200, "1460"), line(-119, "5400")],
         {"1600": "81.00", "1460": "-200.00", "5400": "100.00", "1406": "19.00"}),
        ("SKR04", [line(200, "1460"), line(-26.87, "6815", steuersatz={"buSchluessel": "9"})],
         {"1600": "173.13", "1460": "-200.00", "6815": "22.58", "1406": "4.29"}),
        ("SKR04", [line(119, "4830", steuersatz={"buSchluessel": "3"})],
         {"1600": "119.00", "4830": "-100.00", "3806": "-19.00"}),
        ("SKR04", [line(200, "1460"), line(-10.70, "6820", steuersatz={"buSchluessel": "8"})],
         {"1600": "189.30", "1460": "-200.00", "6820": "10.00", "1401": "0.70"}),
    ],
)  # fmt: skip
@pytest.mark.either_engine
def test_an_entry_is_posted_net_and_tax_apart(
    service: Service, skr: str, lines: list[dict[str, Any]], expected: dict[str, str]
) -> None:
    books = Books(service, service.organization(), skr=skr)
    book(books, *lines)
    assert balances(books) == {konto + "0000": saldo for konto, saldo in expected.items()}


@pytest.mark.parametrize(("laenge", "given"), [(4, "84000000"), (5, "84000"), (6, "840000"), (8, "84000000")])
@pytest.mark.either_engine
def test_a_counter_account_may_be_written_in_full_or_in_the_client_s_length(
    service: Service, laenge: int, given: str
) -> None:
    books = Books(service, service.organization(), laenge=laenge)
    book(books, line(119, given))
    assert balances(books) == {"10000000": "119.00", "17760000": "-19.00", "84000000": "-100.00"}


def test_cash_from_a_customer_settles_the_open_item_of_its_number(books: Books) -> None:
    books.post("2026-02-01 S 10010 8400 119,00 RE-1")
    book(books, line(100, "10010", belegNummer="RE-1"))
    (konto,) = books.read("/v2/ledger-rewe-read/opos")["konten"]
    assert [(item["beleg"], item["saldo"]) for item in konto["posten"]] == [("RE-1", 19.00)]


def test_a_payment_on_new_year_s_day_is_no_opening_balance_whatever_its_number(books: Books) -> None:
    books.post("2025-12-01 S 10020 8400 119,00 RE-1")
    book(books, line(10, "10010", belegNummer="0"), transaktionsdatum="2026-01-01T12:00:00+01:00")
    konten = books.read("/v2/ledger-rewe-read/opos")["konten"]
    found = {konto["kontonummer"]: [(item["beleg"], item["saldo"]) for item in konto["posten"]] for konto in konten}
    assert found == {"100200000": [("RE-1", 119.00)], "100100000": [("0", -10.00)]}


def test_an_entry_is_among_the_bookings(books: Books) -> None:
    book(books, line(12.5, "1360"), line(-2.5, "4930", belegNummer="Q/7", kostenstelle1="KST"))
    shared = {"buSchluessel": None, "belegdatum": "2026-03-02T00:00:00Z"}
    nobody, kst = {"kost1": None, "kost2": None}, {"kost1": "KST", "kost2": None}
    further = {"skonto": None, "basisUmsatz": None, "generalumkehr": False}
    assert books.read("/v2/ledger-rewe-read/buchungen", geschaeftsjahrStartDatum="2026-01-01") == [
        {
            "id": "1", "waehrung": "EUR", "sollHabenKennzeichen": "SOLL", "buchungstext": "Barverkauf",
            "buchungszeilen": [
                {**shared, "kontonummer": "10000000", "umsatz": 12.5, "belegfeld1": "", "kostenstellen": nobody},
                {**shared, "kontonummer": "13600000", "umsatz": 12.5, "belegfeld1": "", "kostenstellen": nobody},
            ],
            **further,
        },
        {
            "id": "2", "waehrung": "EUR", "sollHabenKennzeichen": "HABEN", "buchungstext": "Barverkauf",
            "buchungszeilen": [
                {**shared, "kontonummer": "10000000", "umsatz": 2.5, "belegfeld1": "Q/7", "kostenstellen": kst},
                {**shared, "kontonummer": "49300000", "umsatz": 2.5, "belegfeld1": "Q/7", "kostenstellen": kst},
            ],
            **further,
        },
    ]  # fmt: skip


def test_the_log_keeps_what_was_answered_and_who_asked(books: Books) -> None:
    pdf = {"content": "JVBERi0xLjcK", "dateiname": "Quittung.pdf"}
    body = entry(line(119, "2700", steuersatz={"buSchluessel": "777"}), belegbilder=[pdf])
    answer = books.send(KASSENBUCH, body, query={"quelle": "n8n"}, headers={"x-request-id": "run-7"})
    answered = answer.json()["ledgerAntwort"]
    assert [item["typ"] for item in answered["meldungen"]] == ["INFO", "WARNUNG", "INFO"]
    assert answered["meldungen"][0]["dateiname"] == "Quittung.pdf"
    book(books, line(1))
    kept = books.rows("SELECT kind, status, request_id, quelle, meldungen FROM books_tasks ORDER BY quelle DESC")
    assert kept[0][:4] == ("kassenbuch", "SUCCESS", "run-7", "n8n")
    assert json.loads(kept[0][4]) == answered["meldungen"]
    assert kept[1][3] == "API"


def test_a_repeat_with_the_same_idempotency_key_books_nothing_twice(books: Books) -> None:
    headers = {"idempotency-key": "Kasse-1"}
    first = books.send(KASSENBUCH, entry(line(10)), headers=headers)
    with books.unchanged():
        second = books.send(KASSENBUCH, entry(line(10)), headers=headers)
        assert second.headers["idempotent-replayed"] == "true"
        assert second.headers["x-credits-charged"] == "0"
        assert books.send(KASSENBUCH, entry(line(11)), headers=headers).status_code == 422
    assert (first.status_code, first.content) == (second.status_code, second.content)
    assert len(entries(books)) == 1


def test_the_same_key_sent_twenty_times_at_once_books_once(books: Books) -> None:
    def call(_: int) -> int:
        return books.send(KASSENBUCH, entry(line(10)), headers={"idempotency-key": "Kasse-1"}).status_code

    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(call, range(20)))
    assert set(statuses) <= {201, 409}
    assert 201 in statuses
    assert len(entries(books)) == 1
    assert books.service.balance(books.owner).spent == 1


def test_five_thousand_lines_are_booked_in_order(books: Books) -> None:
    book(books, *(line(number % 100 + 1, belegNummer=f"B{number}") for number in range(5_000)))
    kept = entries(books)
    assert [item["belegnummer"] for item in kept] == [f"B{number}" for number in range(5_000)]
    assert kept[-1]["saldo"] == sum(number % 100 + 1 for number in range(5_000)) * 100


@pytest.mark.either_engine
def test_an_entry_is_reversed_by_its_opposite_and_only_once(books: Books) -> None:
    book(books, line(119, belegNummer="B-1", kostenstelle1="K"))
    book(books, line(-26.87, "4930", steuersatz={"buSchluessel": "9"}))
    reverse = cash_book.reverse_entry
    assert books.service.db.write_now(reverse, books.client, "Hauptkasse", 2, "doppelt") == 3
    assert balances(books)["10000000"] == "119.00"
    assert balances(books)["15760000"] == "0.00"
    with books.unchanged():
        for nummer, status in ((2, 409), (9, 404)):
            with pytest.raises(Exception, match="entry") as refused:
                books.service.db.write_now(reverse, books.client, "Hauptkasse", nummer, "nochmal")
            assert refused.value.status == status  # type: ignore[attr-defined]
    assert books.service.db.write_now(reverse, books.client, "Hauptkasse", 1, "storniert") == 4
    last = entries(books)[-1]
    assert (last["storno_von"], last["belegnummer"], last["kost1"], last["saldo"]) == (1, "B-1", "K", 0)
    assert set(balances(books).values()) == {"0.00"}


@pytest.mark.either_engine
def test_what_was_spent_since_cannot_be_reversed(books: Books) -> None:
    book(books, line(100))
    book(books, line(-60, "4930"))
    with books.unchanged(), pytest.raises(Exception, match="would make it negative"):
        books.service.db.write_now(cash_book.reverse_entry, books.client, "Hauptkasse", 1, "falsch")
