"""`kontobahn books retax`: what was learned about tax reaches old bookings only on request, and only by other bookings."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from kontobahn.books import tax_corrections, verification
from kontobahn.books.tax_corrections import Change, Difference
from kontobahn.ledger import steuer
from kontobahn.ledger.kontierung import PLAIN
from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line

YEAR = date(2026, 1, 1)
LEDGER = """
    2026-02-01 S 10010 2700 119,00 RE-1 bu=777
    2026-02-02 S 10010 2700 238,00 RE-2 bu=777
    2026-02-03 H 10010 2700 119,00 RE-1 bu=777 gu=1
    2026-02-04 S 10010 8400 119,00 RE-3
    2026-02-05 H 70001 4930 100,00 ER-1 bu=888
"""


@pytest.fixture
def books(service: Service) -> Books:
    books = Books(service, service.organization())
    books.post(LEDGER)
    books.post("2026-12-31 S 10010 2700 11,90 RE-9 bu=777", is_closing=True)
    assert books.send(KASSENBUCH, entry(line(59.5, "2700", steuersatz={"buSchluessel": "777"}))).status_code == 201
    return books


@pytest.fixture
def learned(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that were not known when the books were written."""
    monkeypatch.setitem(steuer._KEYS, "777", ("U", "voll"))
    monkeypatch.setitem(steuer._KEYS, "888", ("R", "voll"))


FOUND = [
    Difference(Change("777", "", "!", "U19g"), 5, 3800 + 190 + 950, 0),
    Difference(Change("888", "", "!", "R19g"), 1, 1900, 1900),
]


def balances(books: Books) -> dict[str, tuple[Any, ...]]:
    """Account → balance, debit and credit turnover."""
    rows = books.read("/v2/ledger-rewe-read/susa", geschaeftsjahrStartDatum="2026-01-01")
    return {
        row["kontonummer"]: (
            Decimal(str(row["saldo"]["betrag"])) * (1 if row["saldo"]["sollHabenKennzeichen"] == "SOLL" else -1),
            row["umsatzSoll"],
            row["umsatzHaben"],
        )
        for row in rows
    }


@pytest.mark.usefixtures("learned")
def test_it_shows_what_today_s_rule_would_split_otherwise_and_changes_nothing(books: Books) -> None:
    with books.unchanged():
        assert books.service.db.read_now(tax_corrections.differences, books.client, YEAR) == FOUND


def test_nothing_is_found_where_nothing_was_learned(books: Books) -> None:
    with books.unchanged():
        assert books.service.db.write_now(tax_corrections.apply, books.client, YEAR) == []


@pytest.mark.usefixtures("learned")
def test_it_is_corrected_by_other_bookings_once(books: Books) -> None:
    db, mandant = books.service.db, books.client.mandant
    before = balances(books)
    bookings = books.rows("SELECT * FROM books_bookings ORDER BY id")
    items = books.read("/v2/ledger-rewe-read/opos")
    assert db.write_now(tax_corrections.apply, books.client, YEAR) == FOUND
    assert books.rows("SELECT * FROM books_bookings WHERE id <= 7 ORDER BY id") == bookings
    after = balances(books)
    # Turnover too is as if it had been split so from the beginning: 238 + 11.90 + 59.50 gross, and 119 there and back.
    assert after["27000000"] == (Decimal("-260.00"), 0, 260)
    assert after["17760000"] == (Decimal("-68.40"), 0, 68.4)
    assert after["17870000"] == (Decimal(-19), 0, 19)
    assert after["15770000"] == (Decimal(19), 19, 0)
    # Persons, money and everything else stay where they were, and so do the open items.
    changed = {"27000000", "17760000", "17870000", "15770000"}
    assert {konto: row for konto, row in after.items() if konto not in changed} == {
        konto: row for konto, row in before.items() if konto not in changed
    }
    assert books.read("/v2/ledger-rewe-read/opos") == items
    assert db.read_now(verification.find_differences, mandant) == []
    # Each in the period it was in, the closing entry in 13.
    assert dict(books.rows("SELECT periode, COUNT(*) FROM books_bookings WHERE id > 7 GROUP BY periode")) == {
        2: 8,
        3: 2,
        13: 2,
    }
    with books.unchanged():
        assert db.write_now(tax_corrections.apply, books.client, YEAR) == []


@pytest.mark.usefixtures("learned")
def test_figures_of_tax_are_those_of_the_corrected_bookings(books: Books) -> None:
    def figures() -> Any:
        return books.read("/v2/ledger-rewe-read/umsatzsteuer", geschaeftsjahrStartDatum="2026-01-01")

    assert figures()["summeUmsatzsteuer"] == 19
    books.service.db.write_now(tax_corrections.apply, books.client, YEAR)
    found = figures()
    assert (found["summeUmsatzsteuer"], found["summeVorsteuer"]) == (19 + 49.4 + 19, 19)
    assert found["bruttoGebucht"] == 0


def test_a_change_without_a_key_names_the_account_that_carries_the_tax_on_whichever_side(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    books.post("""
        2026-04-01 S 10010 2710 119,00 RE-20
        2026-04-02 H 2710 10010 119,00 RE-21
        2026-04-03 S 10010 8400 119,00 RE-22
        2026-04-04 H 8400 10010 119,00 RE-23
    """)
    automatic = steuer.automatic_taxes("SKR03", steuer.era_of("2026-04-01"))
    monkeypatch.setitem(automatic, "2710", automatic["8400"])
    monkeypatch.setitem(automatic, "8400", steuer.NO_TAX)
    found = books.service.db.read_now(tax_corrections.differences, books.client, YEAR)
    assert {(item.change.konto, item.change.before, item.change.after, item.bookings) for item in found} == {
        ("27100000", PLAIN, "U19g", 1),
        ("27100000", PLAIN, "U19k", 1),
        # One of the ledger that all tests here have.
        ("84000000", "U19g", "F0g", 2),
        ("84000000", "U19k", "F0k", 1),
    }


def test_a_corrected_discount_follows_an_invoice_that_comes_later(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    books.post("2026-04-01 S 1200 10010 116,62 RE-30 bu=777 skonto=2,38")
    monkeypatch.setitem(steuer._KEYS, "777", ("U", "ermaessigt"))
    books.service.db.write_now(tax_corrections.apply, books.client, YEAR)
    assert balances(books)["87310000"][0] == Decimal("2.22")
    books.post("2026-03-01 S 10010 8400 119,00 RE-30")
    after = balances(books)
    assert ("87310000" in after, after["87360000"][0]) == (False, Decimal(2))
    assert books.service.db.read_now(verification.find_differences, books.client.mandant) == []
