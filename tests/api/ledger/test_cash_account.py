"""A cash book and its account are one: bookings of files count for its balance, day by day."""

from __future__ import annotations

import pytest

from kontobahn.books import cash_book, cash_days, verification
from kontobahn.errors import Conflict
from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line, refusal
from tests.unit.formats.extf.files import satz
from tests.unit.ledger.test_importing import import_rows


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization(), years=("2024-01-01", "2025-01-01", "2026-01-01"))


def agree(books: Books) -> None:
    assert books.service.db.read_now(verification.find_differences, books.client.mandant) == []


def take(books: Books, betrag: float, day: str = "2026-03-02", status: int = 201, **fields: str) -> dict[str, object]:
    """Sends a payout (or an income) of a day."""
    body = entry(line(betrag, "4930"), transaktionsdatum=f"{day}T10:00:00+01:00", **fields)
    answer = books.send(KASSENBUCH, body)
    assert answer.status_code == status, answer.text
    agree(books)
    return dict(answer.json())


def test_an_opening_balance_can_be_spent_to_the_cent(books: Books) -> None:
    books.post("2026-01-01 S 1000 9000 500,00 EB")
    take(books, -500)
    refused = take(books, -0.01, status=409)
    assert refused["kassensaldo"] == 0


def test_bookings_of_files_count_on_their_day_and_on_either_side(books: Books) -> None:
    books.post("2026-02-01 S 1000 8400 100,00 A\n2026-02-10 S 4930 1000 30,00 B")
    take(books, -80, "2026-02-05", 409)
    take(books, -70, "2026-02-05")
    take(books, -1, "2026-02-12", 409)


def test_an_opening_balance_replaces_the_years_before_it(books: Books) -> None:
    take(books, 300, "2025-06-01")
    books.post("2026-01-01 S 1000 9000 300,00 EB")
    take(books, -301, status=409)
    take(books, -300)
    # Late entries of the closed year do not reach beyond the opening balance.
    take(books, -300, "2025-12-31")
    take(books, -1, "2025-12-31", 409)


def test_an_opening_balance_that_was_taken_back_opens_nothing(books: Books) -> None:
    take(books, 300, "2025-06-01")
    books.post("2026-01-01 S 1000 9000 20,00 EB\n2026-01-01 H 1000 9000 20,00 EB gu=1")
    take(books, -300)


def test_a_file_may_make_it_negative_with_a_warning_and_what_comes_in_is_booked(service: Service) -> None:
    books = Books(service, service.organization(), years=("2024-01-01",))
    report = import_rows(books, satz("50,00;S;;;;;4930;1000;;1503;A;;;Briefmarken"))
    assert [(told.line, told.found) for told in report.warnings if told.line == 0] == [
        (0, "The cash book “Hauptkasse” is negative on 2024-03-15: -50.00 EUR.")
    ]
    take(books, 20, "2024-03-20")
    take(books, -1, "2024-03-21", 409)
    take(books, 50, "2024-03-15")
    assert import_rows(books, satz("1,00;S;;;;;1000;8400;;2003;B;;;Bar")).warnings[1:] == []


def test_what_an_entry_takes_from_another_cash_book_counts_there(books: Books) -> None:
    books.cash_book("Nebenkasse", "1010")
    answer = books.send(KASSENBUCH, entry(line(50, "1010")))
    assert [item["typ"] for item in answer.json()["ledgerAntwort"]["meldungen"]] == ["WARNUNG", "INFO"]
    assert "Nebenkasse" in answer.json()["ledgerAntwort"]["meldungen"][0]["nachricht"]
    take(books, -1, status=409, kassenname="Nebenkasse")
    assert books.send(KASSENBUCH, entry(line(60), kassenname="Nebenkasse")).status_code == 201
    take(books, -10, kassenname="Nebenkasse")
    refusal(books.send(KASSENBUCH, entry(line(-1, "4930"), kassenname="Nebenkasse")), 409)


def test_a_cash_book_begins_with_what_was_on_its_account_and_has_it_alone(books: Books) -> None:
    books.post("2026-01-01 S 1010 9000 40,00 EB\n2026-02-01 S 1010 8400 2,00 A")
    books.cash_book("Nebenkasse", "1010")
    take(books, -42, kassenname="Nebenkasse")
    with pytest.raises(Conflict, match="Nebenkasse"):
        books.cash_book("Dritte", "1010")


def test_older_books_are_counted_anew(books: Books) -> None:
    books.post("2026-02-01 S 1000 8400 100,00 A")
    take(books, -10)
    before = books.rows("SELECT * FROM books_cash_days ORDER BY datum")
    assert [row[2:] for row in before] == [("2026-02-01", 10_000), ("2026-03-02", -1_000)]
    books.service.db.write_now(lambda tx: tx.run("DELETE FROM books_cash_days"))
    books.service.db.write_now(cash_days.rewrite, books.client)
    assert books.rows("SELECT * FROM books_cash_days ORDER BY datum") == before


def test_reversing_by_hand_keeps_the_balance_of_the_account(books: Books) -> None:
    books.post("2026-01-01 S 1000 9000 5,00 EB")
    take(books, 10)
    books.service.db.write_now(cash_book.reverse_entry, books.client, "Hauptkasse", 1, "falsch")
    take(books, -5)
    take(books, -1, status=409)
