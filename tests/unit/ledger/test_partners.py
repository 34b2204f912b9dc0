"""Partners and the movements of their documents, as pages and reconciliation read them."""

from __future__ import annotations

from datetime import date

import pytest

from kontobahn.books import open_items, partners
from kontobahn.ledger.opos import Belegbewegung
from kontobahn.ledger.personenkonto import Geschaeftspartner
from tests.harness import Service
from tests.ledger_builder import PERSONENKONTO, Books

IBAN = "DE02120300000000202051"


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization())


def add_partner(books: Books, konto: str, name: str, **fields: object) -> None:
    body = {
        "personenkontoNummer": konto, "kontaktTyp": "COMPANY", "kontenrahmen": "SKR03", "kontonummernLaenge": 4,
        "geschaeftsjahrStartDatum": "2026-01-01", "firmenname": name, **fields,
    }  # fmt: skip
    assert books.send(PERSONENKONTO, body).status_code == 201


def test_a_partner_has_whatever_names_a_payer(books: Books) -> None:
    add_partner(books, "10010", "Eins GmbH", ustId="DE136695976", bankkonten=[{"iban": IBAN}])
    add_partner(books, "10011", "Zwei GmbH")
    assert books.service.db.read_now(partners.geschaeftspartner, books.client) == [
        Geschaeftspartner("100100000", "10010", "Eins GmbH", (IBAN,), "DE136695976"),
        Geschaeftspartner("100110000", "10011", "Zwei GmbH", (), ""),
    ]


def test_a_search_is_by_its_first_five_words(books: Books) -> None:
    add_partner(books, "10010", "Eins Zwei Drei Vier Fünf")
    for text, count in (("vier 100", 1), ("eins zwei drei vier sechs", 0), ("eins zwei drei vier 100 sechs", 1)):
        assert len(books.service.db.read_now(partners.search, books.client, text, "", 10)) == count, text


def movements(books: Books, text: str, limit: int = 100) -> list[Belegbewegung]:
    books.post(text)
    return books.service.db.read_now(open_items.belegbewegungen, books.client, date(2026, 1, 1), limit)


def test_each_reversal_takes_one_movement_back_and_is_none_itself(books: Books) -> None:
    found = movements(books, """
        2026-02-01 S 10010 8400 119,00 RE-1 Rechnung
        2026-02-02 S 1200 10010 40,00 RE-1
        2026-02-03 S 1200 10010 40,00 RE-1
        2026-02-04 S 1200 10010 40,00 RE-1
        2026-02-05 H 1200 10010 40,00 RE-1 gu=1
        2026-02-06 S 1200 10010 30,00
        2026-02-07 S 1200 10020 40,00 RE-1
    """)  # fmt: skip
    assert [(row.konto, row.belegdatum.day, row.betrag) for row in found] == [
        ("100200000", 7, -4000),
        ("100100000", 3, -4000),
        ("100100000", 2, -4000),
        ("100100000", 1, 11900),
    ]
    assert {(row.beginn, row.text, row.ist_ausgeglichen) for row in found[1:]} == {
        (date(2026, 2, 1), "Rechnung", False)
    }


def test_money_and_cash_are_told_by_the_ranges_of_the_chart(books: Books) -> None:
    found = movements(books, """
        2026-02-01 S 0999 10010 1,00 RE-1
        2026-02-02 S 1000 10010 1,00 RE-2
        2026-02-03 S 10010 1099 1,00 RE-3
        2026-02-04 S 1100 10010 1,00 RE-4
        2026-02-05 S 1369 10010 1,00 RE-5
        2026-02-06 S 1370 10010 1,00 RE-6
        2026-02-07 S 70001 10010 1,00 RE-7
    """)  # fmt: skip
    of_debtor = {row.beleg: row for row in found if row.konto == "100100000"}
    assert {beleg: (row.gegenkonto[:5], row.ist_zahlung, row.ist_bar) for beleg, row in of_debtor.items()} == {
        "RE-1": ("09990", False, False),
        "RE-2": ("10000", True, True),
        "RE-3": ("10990", True, True),
        "RE-4": ("11000", True, False),
        "RE-5": ("13690", True, False),
        "RE-6": ("13700", False, False),
        "RE-7": ("70001", False, False),
    }


def test_parts_at_several_rates_are_known_if_all_of_the_document_is_read(books: Books) -> None:
    rows = """
        2026-02-01 S 10010 8400 119,00 RE-1
        2026-02-01 S 10010 8300 107,00 RE-1
        2026-02-02 S 1200 10010 26,00 RE-1
        2026-02-03 S 10011 8400 119,00 RE-2
        2026-02-03 S 10011 8300 107,00 RE-2
        2026-02-03 H 10011 8300 117,00 RE-2
    """
    assert {(row.beleg, row.anteile) for row in movements(books, rows)} == {
        ("RE-1", ((7, 10700), (19, 11900))),
        # A credit note is on the other side.
        ("RE-2", ()),
    }
    assert {row.anteile for row in movements(books, "", limit=5)} == {()}
