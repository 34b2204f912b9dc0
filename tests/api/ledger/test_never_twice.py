"""The same fact is booked once, whatever its text and door; and what was undone or reversed can come again, exactly that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from kontobahn.books import imports, undo
from tests.api.ledger.files import (
    BAD,
    CORRECTED,
    INVOICE,
    PAYMENT,
    ROWS,
    count,
    differences,
    file,
    imported,
    send_file,
    undone,
)
from tests.command_line import CommandLine
from tests.dashboard.browsing import Browser
from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line
from tests.unit.formats.extf.files import satz

CASH = satz("50,00;S;;;;;4930;1000;;1502;K-7;;;Briefmarken und Umschläge für den Versand der Rechnungen im Februar")
LATE = "2026-02-15T10:00:00+01:00"
BUCHUNGEN = "/v2/ledger-rewe/buchungen"


@pytest.fixture
def books(service: Service) -> Books:
    made = Books(service, service.organization(credits_granted=1_000))
    made.post("2026-01-02 S 1000 8400 500,00 A-1 Einlage")
    return made


def cash(books: Books, text: str = "Porto", *, another: bool = False, **fields: Any) -> httpx.Response:
    body = entry(line(-50, "4930", belegtext=text, **{"belegNummer": "K-7", **fields}), transaktionsdatum=LATE)
    return books.send(KASSENBUCH, body, query={"another": "true"} if another else {})


def call(books: Books, text: str, *, another: bool = False) -> httpx.Response:
    booking = {
        "umsatz": 50, "sollHabenKennzeichen": "HABEN", "konto": "1000", "gegenkonto": "4930", "belegdatum": "2026-02-15",
        "belegfeld1": "K-7", "buchungstext": text,
    }  # fmt: skip
    return books.send(BUCHUNGEN, {"buchungen": [booking]}, query={"another": "true"} if another else {})


def upload(browser: Browser, content: bytes, **choices: str) -> httpx.Response:
    files = {"file": ("stapel.csv", content, "text/csv")}
    return browser.send(
        "POST", "/dashboard/batches", data=choices, files=files, headers={"origin": browser.service.base_url}
    )


def with_text(row: str, text: str) -> str:
    return satz(row, {14: text})


# --- By text


@pytest.mark.parametrize(
    "text", ["Rechnung Käse ", "Rechnung", "", "Anders", "Rechnung Käse" + "x" * 50], ids=["blank", "cut", "none", "other", "long"]
)  # fmt: skip
@pytest.mark.either_engine
def test_a_row_that_differs_in_its_text_alone_is_asked_about(books: Books, text: str) -> None:
    imported(books, file(INVOICE), "januar.csv")
    again = file(with_text(INVOICE, text), CORRECTED)
    with books.unchanged():
        answer = send_file(books, again)
        assert answer.status_code == 409, answer.text
        assert "line 3 like booking 2 from januar.csv" in answer.json()["error"]
        assert "partial=true" in answer.json()["error"]
        assert [row["zeile"] for row in answer.json()["protokoll"] if row["art"] == "ABGELEHNT"] == [3]
    partly = imported(books, again, partial="true")
    assert (partly["uebernommen"], partly["abgelehnt"]) == (1, 1)
    assert imported(books, file(with_text(INVOICE, f"{text}!")), another="true")["uebernommen"] == 1


def test_of_rows_that_look_alike_the_one_with_a_new_text_is_the_new_one(books: Books) -> None:
    rows = [with_text(INVOICE, text) for text in ("eins", "zwei")]
    imported(books, file(*rows))
    partly = imported(books, file(with_text(INVOICE, "neu"), *reversed(rows)), partial="true")
    assert (partly["uebernommen"], [row["zeile"] for row in partly["protokoll"]]) == (1, [4, 5])
    assert books.rows("SELECT buchungstext FROM books_bookings ORDER BY id DESC LIMIT 1") == [("neu",)]


@pytest.mark.parametrize("first", ["file", "call", "cash"])
def test_every_door_sees_what_came_through_the_others(
    books: Books, browser: Browser, cli: CommandLine, tmp_path: Path, first: str
) -> None:
    if first == "file":
        imported(books, file(CASH), "februar.csv")
    elif first == "call":
        assert call(books, "Briefmarken").status_code == 201
    else:
        assert cash(books).status_code == 201
    other = file(with_text(CASH, "ganz anders"))
    path = tmp_path / "EXTF_februar.csv"
    path.write_bytes(other)
    asked = 0
    with books.unchanged():
        for answer in (send_file(books, other), call(books, "Marken")):
            assert answer.status_code == 409, answer.text
            assert "row looks booked already" in answer.json()["error"]
            assert "another" in answer.json()["error"]
            asked += 1
        assert upload(browser, other).status_code == 422
        done = cli.run("import", "extf", str(path), "--connection", books.connection_id)
        assert (done.code, "row looks booked already" in done.out) == (1, True), done
        if first != "cash":
            answer = cash(books)
            assert answer.status_code == 409
            assert "line 1 like booking 2" in answer.json()["error"]
    # Equal entries of the cash book itself are no question.
    assert cash(books, another=first != "cash").status_code == 201
    assert call(books, "Marken", another=True).status_code == 201
    assert upload(browser, other, another="1").status_code == 303
    assert differences(books) == []
    assert asked == 2


def test_the_cash_form_asks_too_and_has_a_way_out(books: Books, browser: Browser) -> None:
    imported(books, file(CASH))
    form = {
        "day": "2026-02-15",
        "direction": "out",
        "amount": "50.00",
        "text": "Porto",
        "account": "4930",
        "document": "K-7",
    }
    origin = {"origin": browser.service.base_url}
    path = "/dashboard/cash-book/new"
    empty = {"receipt": ("", b"")}
    once = {"once": "0f8fad5b-d9cb-469f-a165-70867728950e"}
    assert 'name="another"' not in browser.get(path).text
    refused = browser.send("POST", path, data={**form, **once}, files=empty, headers=origin)
    assert refused.status_code == 422
    assert 'name="another"' in refused.text
    made = browser.send("POST", path, data={**form, **once, "another": "1"}, files=empty, headers=origin)
    assert made.status_code == 303, made.text


def test_a_cash_entry_of_an_opening_balance_sees_the_imported_one(books: Books) -> None:
    imported(books, file(satz("100,00;S;;;;;1000;9000;;0101;EB;;;Saldovortrag")))
    body = entry(line(100, "9000", belegNummer="EB"), transaktionsdatum="2026-01-01T10:00:00+01:00")
    assert books.send(KASSENBUCH, body).status_code == 409


# --- After an undo


@pytest.fixture(params=["whole", "in slices"])
def slicing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in slices":
        monkeypatch.setattr(imports, "SLICED_FROM_BYTES", 0)
        monkeypatch.setattr(undo, "SLICED_FROM_ROWS", 0)


@pytest.mark.usefixtures("slicing")
@pytest.mark.parametrize("query", [{}, {"partial": "true"}, {"another": "true"}], ids=["plain", "partial", "another"])
@pytest.mark.either_engine
def test_a_file_whose_rows_are_partly_undone_takes_exactly_those(books: Books, query: dict[str, str]) -> None:
    first = imported(books, file(INVOICE, PAYMENT))
    whole = file(*ROWS, CORRECTED)
    second = imported(books, whole, partial="true")
    assert (second["uebernommen"], second["abgelehnt"]) == (2, 2)
    undone(books, first["id"])
    again = imported(books, whole, **query)
    assert (again["uebernommen"], again["bekannt"], again["abgelehnt"]) == (2, 2, 0)
    assert "2 of them stand" in again["protokoll"][0]["gefunden"]
    assert "2 rows that do not were booked again" in again["protokoll"][0]["getan"]
    assert texts(books) == ["Einlage", "Rechnung", "Rechnung Käse", "Wareneingang", "Zahlung"]
    for option in ({}, {"partial": "true"}, {"another": "true"}):
        assert send_file(books, whole, **option).status_code == 409
    # What is missing now came with the other import.
    undone(books, second["id"])
    last = imported(books, whole, **query)
    assert (last["uebernommen"], last["bekannt"]) == (2, 2)
    assert texts(books) == ["Einlage", "Rechnung", "Rechnung Käse", "Wareneingang", "Zahlung"]


@pytest.mark.either_engine
def test_of_one_row_is_told_as_of_one(books: Books) -> None:
    first = imported(books, file(PAYMENT))
    whole = file(INVOICE, PAYMENT)
    imported(books, whole, partial="true")
    undone(books, first["id"])
    (told,) = imported(books, whole)["protokoll"]
    assert told["gefunden"].endswith("; 1 of them stands in the books.")
    assert told["getan"] == "1 row that does not was booked again."


def texts(books: Books) -> list[str]:
    """The texts of the bookings that stand."""
    rows = books.rows(
        "SELECT b.buchungstext FROM books_bookings b JOIN books_batches t ON t.mandant = b.mandant AND t.id = b.batch"
        " WHERE t.undone_by = '' AND t.undoes = '' ORDER BY b.buchungstext"
    )
    return [text for (text,) in rows]


@pytest.mark.usefixtures("slicing")
@pytest.mark.either_engine
def test_a_mended_file_comes_again_when_its_first_part_is_undone(books: Books) -> None:
    partly = imported(books, file(*ROWS, BAD), partial="true")
    mended = file(*ROWS, CORRECTED)
    assert imported(books, mended)["bekannt"] == 3
    undone(books, partly["id"])
    again = imported(books, mended)
    assert (again["uebernommen"], again["bekannt"]) == (3, 1)
    assert send_file(books, mended, another="true").status_code == 409


@pytest.mark.usefixtures("slicing")
@pytest.mark.parametrize("day", ["1501", "0102"], ids=["same day", "later"])
@pytest.mark.parametrize("key", [{118: "1"}, {9: "20"}], ids=["column", "key"])
@pytest.mark.either_engine
def test_a_row_that_a_later_file_reversed_comes_again_if_the_caller_says_so(
    books: Books, day: str, key: dict[int, str]
) -> None:
    whole = file(*ROWS)
    imported(books, whole)
    reversal = satz(f"119,00;H;;;;;10010;8400;;{day};RE-1;;;Storno", key)
    imported(books, file(reversal), "storno.csv")
    # The reversal itself is known, with any text.
    assert send_file(books, file(satz(reversal, {14: "noch einmal"}))).status_code == 409
    asked = send_file(books, whole)
    assert asked.status_code == 409, asked.text
    assert (
        f"and a Generalumkehr has reversed them since: line {3 + ROWS.index(INVOICE)}. Nothing was booked."
        in asked.text
    )
    assert "another=true" in asked.text
    assert count(books) == 5
    again = imported(books, whole, another="true")
    assert (again["uebernommen"], again["bekannt"]) == (1, 2)
    for option in ({}, {"partial": "true"}, {"another": "true"}):
        assert send_file(books, whole, **option).status_code == 409
    assert count(books) == 6


@pytest.mark.usefixtures("slicing")
@pytest.mark.either_engine
def test_of_a_known_file_partial_takes_what_was_undone_and_leaves_what_was_reversed(books: Books) -> None:
    first = imported(books, file(PAYMENT))
    whole = file(*ROWS)
    assert imported(books, whole, partial="true")["uebernommen"] == 2
    imported(books, file(satz("119,00;H;;;;;10010;8400;;0102;RE-1;;;Storno", {118: "1"})), "storno.csv")
    undone(books, first["id"])
    assert send_file(books, whole).status_code == 409
    again = imported(books, whole, partial="true")
    assert (again["uebernommen"], again["bekannt"], again["abgelehnt"]) == (1, 1, 1)
    assert "reversed by a Generalumkehr" in str(again["protokoll"])


@pytest.mark.either_engine
def test_a_corrected_booking_after_a_reversal_is_not_asked_about(books: Books) -> None:
    imported(books, file(*ROWS))
    imported(books, file(satz("119,00;H;;;;;10010;8400;;1501;RE-1;;;Storno", {118: "1"})), "storno.csv")
    assert imported(books, file(satz(INVOICE, {14: "Rechnung, richtig"}), CORRECTED))["uebernommen"] == 2


def test_a_file_with_a_reversed_row_and_its_reversal_brings_neither_again(books: Books) -> None:
    reversal = satz("119,00;H;;;;;10010;8400;;0102;RE-1;;;Storno", {118: "1"})
    imported(books, file(*ROWS))
    imported(books, file(reversal))
    partly = imported(books, file(*ROWS, reversal, CORRECTED), partial="true")
    assert (partly["uebernommen"], partly["abgelehnt"]) == (1, 4)


def test_what_a_reversed_cash_entry_stood_for_can_come_by_file(books: Books) -> None:
    assert cash(books).status_code == 201
    whole = file(CASH, INVOICE)
    assert imported(books, whole, partial="true")["uebernommen"] == 1
    assert send_file(books, whole).status_code == 409
    answer = books.send("/v2/ledger-duo/kassenbuch/1/storno", {"kassenname": "Hauptkasse", "grund": "falsch"})
    assert answer.status_code == 201, answer.text
    again = imported(books, whole)
    assert (again["uebernommen"], again["bekannt"]) == (1, 1)
    assert send_file(books, whole, another="true").status_code == 409


def test_what_was_booked_by_call_and_undone_can_come_by_cash_entry(books: Books) -> None:
    made = call(books, "Marken").json()["importe"][0]
    assert cash(books).status_code == 409
    undone(books, made)
    assert cash(books).status_code == 201
