"""The lists of the ledger: cash books, invoice folders, document types, connections; and their free use as dropdowns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from kontobahn import credits
from kontobahn.db import Tx
from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line, refusal

KASSENBUECHER, ORDNER = "/v2/ledger-duo/kassenbuecher", "/v2/ledger-duo/rechnungsordner"
TERMS, BELEGTYPEN = "/v2/ledger-rewe-read/zahlungsbedingungen", "/v2/ledger-duo/belegtypen"
CONNECTIONS = ("/v2/ledger-rewe-read/connections", "/v2/ledger-duo/connections")
YEAR = {"geschaeftsjahrStartDatum": "2026-01-01"}
# The calls that are free as a dropdown, with what they need to be asked.
DROPDOWNS: list[tuple[str, dict[str, str]]] = [(KASSENBUECHER, {}), (ORDNER, {}), (TERMS, YEAR)]
# Priced calls that are not.
OTHERS = ["opos", "susa", "buchungen", "konten"]
HEADER = {"x-request-purpose": "dropdown"}


@pytest.fixture
def books(service: Service) -> Books:
    books = Books(service, service.organization())

    def fill(tx: Tx) -> None:
        folders = (("EINGANGSRECHNUNG", "Eingang"), ("AUSGANGSRECHNUNG", "Ausgang"), ("EINGANGSRECHNUNG", "Bewirtung"))
        tx.many(
            "INSERT INTO books_folders (mandant, ordnertyp, bezeichnung) VALUES (?, ?, ?)",
            [(books.client.mandant, *folder) for folder in folders],
        )
        tx.many(
            "INSERT INTO books_document_types (mandant, bezeichnung, kategorie) VALUES (?, ?, ?)",
            [(books.client.mandant, "Rechnungseingang", "invoices_received"), (books.client.mandant, "Kasse", "other_documents")],
        )  # fmt: skip

    service.db.write_now(fill)
    books.cash_book("Barkasse", "1010")
    return books


def ask(books: Books, path: str, query: Mapping[str, str] = {}, headers: Mapping[str, str] = {}) -> httpx.Response:
    answer = books.service.get(path, books.owner.key, params=books.query(**query), headers=headers)
    assert answer.status_code == 200, answer.text
    return answer


def test_cash_books_are_listed_by_name_and_cost_one(books: Books) -> None:
    answer = ask(books, KASSENBUECHER)
    assert answer.headers["x-credits-charged"] == "1"
    assert answer.json() == {
        "data": [{"bezeichnung": "Barkasse"}, {"bezeichnung": "Hauptkasse"}],
        "platform": {"neuesGuthaben": 99},
    }


def test_a_listed_cash_book_is_the_kassenname_of_an_entry(books: Books) -> None:
    for item in books.read(KASSENBUECHER):
        assert books.send(KASSENBUCH, entry(line(1), kassenname=item["bezeichnung"])).status_code == 201


def test_folders_are_listed_all_or_of_one_kind_and_cost_one(books: Books) -> None:
    answer = ask(books, ORDNER)
    assert answer.headers["x-credits-charged"] == "1"
    outgoing = [{"bezeichnung": "Ausgang", "ordnertyp": "AUSGANGSRECHNUNG"}]
    incoming = [{"bezeichnung": name, "ordnertyp": "EINGANGSRECHNUNG"} for name in ("Bewirtung", "Eingang")]
    assert answer.json() == {"data": outgoing + incoming, "platform": {"neuesGuthaben": 99}}
    assert books.read(ORDNER, ordnertyp="AUSGANGSRECHNUNG") == outgoing
    assert books.read(ORDNER, ordnertyp="EINGANGSRECHNUNG") == incoming
    with books.unchanged():
        refusal(books.get(ORDNER, ordnertyp="eingangsrechnung"), 400, "ordnertyp")
        refusal(books.get(ORDNER, ordner="EINGANGSRECHNUNG"), 400, "ordner")


def test_document_types_are_free(books: Books) -> None:
    answer = ask(books, BELEGTYPEN)
    assert "x-credits-charged" not in answer.headers
    assert answer.json() == {
        "data": [
            {"bezeichnung": "Kasse", "kategorie": "other_documents"},
            {"bezeichnung": "Rechnungseingang", "kategorie": "invoices_received"},
        ],
        "platform": {"neuesGuthaben": 100},
    }
    assert books.service.balance(books.owner).spent == 0


def test_an_empty_client_has_empty_lists(service: Service) -> None:
    books = Books(service, service.organization())
    assert books.read(ORDNER) == []
    assert books.read(BELEGTYPEN) == []


@pytest.mark.parametrize("path", CONNECTIONS)
@pytest.mark.parametrize("status", ["pending", "connected", "expired", "revoked", "error"])
@pytest.mark.either_engine
def test_a_connection_is_listed_in_every_state_by_both_lists(service: Service, path: str, status: Any) -> None:
    books = Books(service, service.organization(credits_granted=0))
    books.set_status(status)
    answer = service.get(path, books.owner.key)
    assert answer.status_code == 200
    (item,) = answer.json()["connections"]
    assert sorted(item) == ["bezeichnung", "erstellt_am", "id", "status", "verbunden_seit"]
    assert (item["id"], item["status"]) == (books.connection_id, status)


@pytest.mark.parametrize("path", CONNECTIONS)
def test_a_listed_connection_is_the_connection_id_of_the_other_calls(books: Books, path: str) -> None:
    (item,) = books.service.get(path, books.owner.key).json()["connections"]
    for given in (item["id"], item["id"].upper()):
        answer = books.service.get(KASSENBUECHER, books.owner.key, params={"connection_id": given})
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(("path", "query"), DROPDOWNS)
@pytest.mark.parametrize("way", ["header", "zweck"])
@pytest.mark.either_engine
def test_used_as_a_dropdown_it_is_free_and_tells_the_unchanged_balance(
    books: Books, path: str, query: dict[str, str], way: str
) -> None:
    paid = ask(books, path, query)
    free = ask(books, path, query, HEADER) if way == "header" else ask(books, path, {**query, "zweck": "dropdown"})
    assert (paid.headers["x-credits-charged"], free.headers["x-credits-charged"]) == ("1", "0")
    assert free.json() == paid.json()
    assert free.json()["platform"] == {"neuesGuthaben": 99}
    assert (books.service.balance(books.owner).spent, books.service.balance(books.owner).reserved) == (1, 0)


def test_a_dropdown_works_without_any_credit(service: Service) -> None:
    books = Books(service, service.organization(credits_granted=0))
    answer = ask(books, KASSENBUECHER, headers=HEADER)
    assert answer.json() == {"data": [{"bezeichnung": "Hauptkasse"}], "platform": {"neuesGuthaben": 0}}
    refusal(books.get(KASSENBUECHER), 402)


def test_sixty_dropdown_calls_an_hour_are_free_for_a_key_and_then_charged(books: Books) -> None:
    ways: list[Any] = [
        lambda: ask(books, KASSENBUECHER, headers=HEADER),
        lambda: ask(books, ORDNER, {"zweck": "dropdown"}),
        lambda: ask(books, TERMS, YEAR, {"X-Request-Purpose": "Dropdown"}),
    ]
    charged = [ways[number % 3]().headers["x-credits-charged"] for number in range(63)]
    assert charged == ["0"] * 60 + ["1"] * 3
    assert books.service.balance(books.owner).spent == 3
    books.service.clock.advance(seconds=3600)
    assert ask(books, KASSENBUECHER, headers=HEADER).headers["x-credits-charged"] == "0"
    assert books.service.balance(books.owner).spent == 3


def test_ordinary_calls_use_up_no_free_ones(books: Books) -> None:
    for _ in range(61):
        assert ask(books, KASSENBUECHER).headers["x-credits-charged"] == "1"
    assert ask(books, KASSENBUECHER, headers=HEADER).headers["x-credits-charged"] == "0"


@pytest.mark.either_engine
def test_only_the_three_marked_calls_are_free_as_a_dropdown(books: Books) -> None:
    for name in OTHERS:
        path = f"/v2/ledger-rewe-read/{name}"
        query = {} if name == "opos" else YEAR
        assert ask(books, path, query, HEADER).headers["x-credits-charged"] == ("5" if name == "opos" else "1")
        refusal(books.get(path, **query, zweck="dropdown"), 400, "zweck")


def test_any_other_purpose_is_charged(books: Books) -> None:
    assert ask(books, KASSENBUECHER, headers={"x-request-purpose": "sync"}).headers["x-credits-charged"] == "1"
    with books.unchanged():
        refusal(books.get(KASSENBUECHER, zweck="sync"), 400, "zweck")


def test_the_statement_names_call_and_source(books: Books) -> None:
    ask(books, KASSENBUECHER, {"quelle": "n8n"})
    line_of_charge = books.service.db.read_now(credits.statement, books.owner.id)[-1]
    assert (line_of_charge.endpoint, line_of_charge.quelle) == (f"GET {KASSENBUECHER}", "n8n")
