"""Receipts of cash entries: chained with them, never changed, and filed again once their entries are reversed."""

from __future__ import annotations

import base64
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kontobahn.books import cash_book, verification
from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line, refusal
from tests.unit.ledger.test_verify import APPEND_ONLY

PDF = b"%PDF-1.7\n"


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization())


def sent(name: str = "Beleg.pdf", lines: int = 1, **fields: Any) -> dict[str, Any]:
    image = {"content": base64.b64encode(PDF).decode(), "dateiname": name}
    return entry(*[line(1 + number) for number in range(lines)], belegbilder=[image], **fields)


def reverse(books: Books, number: int) -> None:
    books.service.db.write_now(cash_book.reverse_entry, books.client, "Hauptkasse", number, "falsch")


def agree(books: Books) -> None:
    assert books.service.db.read_now(verification.find_differences, books.client.mandant) == []


def test_the_checksum_of_a_receipt_is_part_of_every_entry_it_came_with(books: Books) -> None:
    books.send(KASSENBUCH, sent(lines=2))
    books.send(KASSENBUCH, entry(line(1)))
    records = [json.loads(text) for (text,) in books.rows("SELECT record FROM books_cash_entries ORDER BY nummer")]
    digest = hashlib.sha256(PDF).hexdigest()
    assert [record["belege"] for record in records] == [[digest], [digest], []]
    agree(books)


@pytest.mark.parametrize("table", APPEND_ONLY)
@pytest.mark.parametrize("statement", ["UPDATE {} SET mandant = mandant", "DELETE FROM {}"])
def test_the_database_refuses_to_change_them(books: Books, table: str, statement: str) -> None:
    books.send(KASSENBUCH, sent())
    with pytest.raises(Exception, match="append-only"):
        books.service.db.write_now(lambda tx: tx.run(statement.format(table)))
    agree(books)


def test_it_may_be_filed_again_when_every_entry_it_came_with_is_reversed(books: Books) -> None:
    first = books.send(KASSENBUCH, sent("first.pdf", lines=2)).json()["belegbilder"][0]
    reverse(books, 1)
    with books.unchanged():
        assert "first.pdf" in refusal(books.send(KASSENBUCH, sent()), 409, "belegbilder[0]")["error"]
    reverse(books, 2)
    again = books.send(KASSENBUCH, sent("second.pdf"))
    assert again.status_code == 201, again.text
    second = again.json()["belegbilder"][0]
    assert (second["id"], second["dateiname"]) == (first["id"], "second.pdf")
    # It is filed with an entry that stands now.
    assert "second.pdf" in refusal(books.send(KASSENBUCH, sent()), 409, "belegbilder[0]")["error"]
    assert books.get(f"/v2/ledger-duo/belegbilder/{first['id']}").content == PDF
    agree(books)


def test_of_several_who_file_it_again_at_once_one_succeeds(books: Books) -> None:
    books.send(KASSENBUCH, sent())
    reverse(books, 1)
    for number in range(1, 5):
        books.cash_book(f"Kasse {number}", str(1000 + number))
    bodies = [sent(kassenname=f"Kasse {number}") for number in range(1, 5)]
    with ThreadPoolExecutor(4) as pool:
        statuses = sorted(answer.status_code for answer in pool.map(lambda body: books.send(KASSENBUCH, body), bodies))
    assert statuses == [201, 409, 409, 409]
    agree(books)
