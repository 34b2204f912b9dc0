"""GET /v2/ledger-rewe-read/zahlungsbedingungen."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from kontobahn.books import store
from kontobahn.ledger.wire import Periode, Zahlungsbedingung
from tests.harness import Service
from tests.ledger_builder import Books, refusal

PATH = "/v2/ledger-rewe-read/zahlungsbedingungen"
YEAR = {"geschaeftsjahrStartDatum": "2026-01-01"}


@pytest.fixture
def books(service: Service) -> Books:
    books = Books(service, service.organization(), years=("2026-01-01",))
    save(books, id="110", bezeichnung="14 Tage netto", nettoFrist=14)
    save(
        books, id="11", bezeichnung="5 Tage 3 %; 10 Tage 2,5 %; 30 Tage netto", skontoFrist1=5, skontoSatz1=Decimal("3.00"),
        skontoFrist2=10, skontoSatz2=Decimal("2.50"), nettoFrist=30,
    )  # fmt: skip
    period = Periode(
        rechnungsbereich="Rechnungen vom 1. bis 10.",
        skontoFrist1="20. des laufenden Monats",
        skontoFrist2=None,
        nettoFrist="Monatsende des laufenden Monats",
    )
    save(books, id="14", bezeichnung="Zeitraum", faelligkeitsart="ALS_ZEITRAUM", perioden=[period])
    return books


def save(books: Books, **fields: Any) -> None:
    defaults: dict[str, Any] = {
        "skontoFrist1": None, "skontoSatz1": Decimal(0), "skontoFrist2": None, "skontoSatz2": Decimal(0), "nettoFrist": None,
        "faelligkeitsart": "NACH_TAGE", "perioden": [],
    }  # fmt: skip
    books.service.db.write_now(store.save_payment_terms, books.client, Zahlungsbedingung(**{**defaults, **fields}))


def test_terms_come_by_number_in_the_contract_s_shape_and_cost_one(books: Books) -> None:
    answer = books.get(PATH, **YEAR)
    assert (answer.status_code, answer.headers["x-credits-charged"]) == (200, "1")
    nothing = {"skontoFrist1": None, "skontoSatz1": 0, "skontoFrist2": None, "skontoSatz2": 0}
    assert answer.json() == {
        "data": [
            {
                "id": "11",
                "bezeichnung": "5 Tage 3 %; 10 Tage 2,5 %; 30 Tage netto",
                "skontoFrist1": 5,
                "skontoSatz1": 3,
                "skontoFrist2": 10,
                "skontoSatz2": 2.5,
                "nettoFrist": 30,
                "faelligkeitsart": "NACH_TAGE",
                "perioden": [],
            },
            {
                **nothing,
                "id": "14",
                "bezeichnung": "Zeitraum",
                "nettoFrist": None,
                "faelligkeitsart": "ALS_ZEITRAUM",
                "perioden": [
                    {
                        "rechnungsbereich": "Rechnungen vom 1. bis 10.",
                        "skontoFrist1": "20. des laufenden Monats",
                        "skontoFrist2": None,
                        "nettoFrist": "Monatsende des laufenden Monats",
                    }
                ],
            },
            {
                **nothing,
                "id": "110",
                "bezeichnung": "14 Tage netto",
                "nettoFrist": 14,
                "faelligkeitsart": "NACH_TAGE",
                "perioden": [],
            },
        ],
        "platform": {"neuesGuthaben": 99},
    }


def test_a_term_of_the_same_number_replaces_the_old_one(books: Books) -> None:
    save(books, id="110", bezeichnung="10 Tage netto", nettoFrist=10)
    found = {term["id"]: term["nettoFrist"] for term in books.read(PATH, **YEAR)}
    assert found == {"11": 30, "14": None, "110": 10}


def test_another_client_has_its_own_terms(books: Books) -> None:
    books.another_client("29098-2", years=["2026-01-01"])
    assert books.read(PATH, **YEAR, clientId="29098-2") == []


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ({}, 400, "geschaeftsjahrStartDatum"),
        ({"geschaeftsjahrStartDatum": "gestern"}, 400, "geschaeftsjahrStartDatum"),
        ({**YEAR, "zweck": "Auswahl"}, 400, "zweck"),
        ({**YEAR, "limit": "1"}, 400, "limit"),
        ({"geschaeftsjahrStartDatum": "2025-01-01"}, 404, None),
    ],
)
@pytest.mark.either_engine
def test_a_wrong_question_is_refused_and_free(
    books: Books, query: dict[str, str], status: int, field: str | None
) -> None:
    with books.unchanged():
        refusal(books.get(PATH, **query), status, field)
