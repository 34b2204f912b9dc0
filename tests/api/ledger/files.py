"""Buchungsstapel of 2026 for the tests of imports: written as text, sent by call."""

from __future__ import annotations

from typing import Any

import httpx

from kontobahn.api.tasks import Tasks
from kontobahn.books import verification
from tests.ledger_builder import Books
from tests.unit.formats.extf.files import Columns, satz, text_of
from tests.waiting import PATIENCE_SECONDS

IMPORTS = "/v2/ledger-rewe/imports"
OF_2026: Columns = {11: "29098", 12: "55003", 13: "20260101", 15: "20260101", 16: "20261231"}
INVOICE = satz("119,00;S;;;;;10010;8400;;1501;RE-1;;;Rechnung Käse")
PAYMENT = satz("19,00;S;;;;;1200;10010;;0102;RE-1;;;Zahlung")
PURCHASE = satz("59,50;H;;;;;70001;3400;;1601;ER-1;;;Wareneingang")
ROWS = [INVOICE, PAYMENT, PURCHASE]
BAD = satz("1,00;S;;;;;10010;10010;;0202;RE-9;;;Konto gleich Gegenkonto")
CORRECTED = satz("1,00;S;;;;;10010;8400;;0202;RE-9;;;Rechnung")


def file(*rows: str, header: Columns | None = None, end: str = "\r\n", encoding: str = "cp1252") -> bytes:
    return text_of(*rows, header={**OF_2026, **(header or {})}, end=end).encode(encoding)


def send_file(books: Books, content: bytes, name: str = "maerz.csv", **query: str) -> httpx.Response:
    return books.service.post(
        IMPORTS, books.owner.key, params=books.query(**query), content=content,
        headers={"content-type": "text/csv", "content-disposition": f'attachment; filename="{name}"'},
    )  # fmt: skip


def imported(books: Books, content: bytes, name: str = "maerz.csv", **query: str) -> Any:
    """The `data` of an import that must succeed."""
    answer = send_file(books, content, name, **query)
    assert answer.status_code == 201, answer.text
    tidied(books)
    return answer.json()["data"]


def tidied(books: Books) -> None:
    """Waits until what a large file leaves is taken away, which is after its answer."""
    books.service.run(books.service.application.context.part(Tasks).finish_running(PATIENCE_SECONDS))
    assert differences(books) == []


def undone(books: Books, import_id: str) -> Any:
    answer = books.service.post(f"{IMPORTS}/{import_id}/undo", books.owner.key, params=books.query())
    assert answer.status_code == 201, answer.text
    assert differences(books) == []
    tidied(books)
    return answer.json()["data"]


def differences(books: Books) -> list[str]:
    return books.service.db.read_now(verification.find_differences, books.client.mandant)


def count(books: Books) -> int:
    return int(books.rows("SELECT COUNT(*) FROM books_bookings")[0][0])
