"""A large import is undone in slices: nobody sees it before all of it is undone, and nobody else is stopped by it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from typing import Any

import httpx
import pytest

from kontobahn.books import bookings, claims, open_items, slices, undo
from kontobahn.books.undo import Undo
from tests.api.ledger.files import BAD, IMPORTS, ROWS, differences, file, imported, send_file, tidied, undone
from tests.api.ledger.test_large_files import CASH, INVOICES, OPENING, PAID, everything_read, make_slices_short
from tests.api.ledger.test_undo_imports import (
    test_a_closing_entry_is_taken_back_in_its_period,
    test_a_document_has_no_date_or_text_of_an_undone_import,
    test_a_payment_without_its_undone_invoice_is_one_sided_at_every_cut_off,
    test_a_reversal_says_all_that_its_booking_says,
    test_a_year_stays_carried_while_another_opening_is_left,
    test_an_undone_carry_over_does_not_leave_the_year_carried,
    test_an_undone_file_may_come_again_and_be_undone_again,
    test_an_undone_import_leaves_balances_and_open_items_as_they_were,
    test_an_undone_partial_import_leaves_nothing_to_mend,
    test_cash_entries_master_data_and_strangers_are_not_undone,
    test_the_same_idempotency_key_undoes_once,
    test_undoing_twice_is_refused_and_so_is_undoing_the_undoing,
    test_undone_rows_look_booked_no_more,
)
from tests.harness import Service
from tests.ledger_builder import Books, entry, line
from tests.unit.formats.extf.files import satz
from tests.waiting import PATIENCE_SECONDS, eventually

__all__ = [
    "test_a_closing_entry_is_taken_back_in_its_period",
    "test_a_document_has_no_date_or_text_of_an_undone_import",
    "test_a_payment_without_its_undone_invoice_is_one_sided_at_every_cut_off",
    "test_a_reversal_says_all_that_its_booking_says",
    "test_a_year_stays_carried_while_another_opening_is_left",
    "test_an_undone_carry_over_does_not_leave_the_year_carried",
    "test_an_undone_file_may_come_again_and_be_undone_again",
    "test_an_undone_import_leaves_balances_and_open_items_as_they_were",
    "test_an_undone_partial_import_leaves_nothing_to_mend",
    "test_cash_entries_master_data_and_strangers_are_not_undone",
    "test_the_same_idempotency_key_undoes_once",
    "test_undoing_twice_is_refused_and_so_is_undoing_the_undoing",
    "test_undone_rows_look_booked_no_more",
]
# Turnover went to and fro.
OF_JOURNAL = ("buchungen", "susa", "konten", "umsatzsteuer")
BEFORE = "2026-02-01 S 10010 8400 11,90 RE-1 Rechnung\n2026-02-20 S 1200 10010 5,00 RE-1 Zahlung"
# On the day on which the document began, where due dates are looked for.
DUE = satz("7,00;S;;;;;10010;8400;;0102;RE-1;;;Mit Termin", {117: "01052026"})


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization(credits_granted=1_000), years=("2025-01-01", "2026-01-01"))


@pytest.fixture(autouse=True)
def every_import_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "SLICED_FROM_ROWS", 1)
    make_slices_short(monkeypatch)
    monkeypatch.setattr(claims, "ROWS_AT_ONCE", 5)


class Gate:
    """Holds the work before its last transaction, in which all of it begins to count, or before its tidying up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        do = getattr(Undo, name)

        def held(work: Undo, undo_id: str) -> None:
            if name == "prepare":
                do(work, undo_id)
            self.reached.set()
            assert self.opened.wait(PATIENCE_SECONDS)
            if name == "tidy":
                do(work, undo_id)

        monkeypatch.setattr(Undo, name, held)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    yield (made := Gate(monkeypatch, "prepare"))
    made.opened.set()


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    yield (made := Gate(monkeypatch, "tidy"))
    made.opened.set()


@contextmanager
def undoing(books: Books, import_id: str, gate: Gate) -> Iterator[Future[httpx.Response]]:
    """Undoes the import by call, up to the gate."""
    with ThreadPoolExecutor(1) as thread:
        path, query = f"{IMPORTS}/{import_id}/undo", books.query()
        answer = thread.submit(books.service.post, path, books.owner.key, params=query)
        try:
            eventually(lambda: gate.reached.is_set() or answer.done())
            assert gate.reached.is_set(), answer.result().text
            yield answer
        finally:
            gate.opened.set()


def read_in_all_ways(books: Books) -> dict[str, Any]:
    """By call, and what reconciliation and the pages read."""
    db, client = books.service.db, books.client
    document = db.read_now(bookings.of_document, client, "100100000", "RE-1", "", 100)
    return everything_read(books) | {
        "movements": db.read_now(open_items.belegbewegungen, client, date(2026, 1, 1), 1_000),
        "document": document,
    }


def without_journal(found: dict[str, Any]) -> dict[str, Any]:
    """Everything that has no trace of an import that was undone."""
    return {name: read for name, read in found.items() if not name.endswith(OF_JOURNAL)}


def test_nobody_sees_an_undoing_before_all_of_it_is_there(books: Books, gate: Gate, swept: Gate) -> None:
    books.post(BEFORE)
    never = read_in_all_ways(books)
    made = imported(books, file(OPENING, *INVOICES, PAID, DUE), another="true")
    with_it, imports = read_in_all_ways(books), books.read(IMPORTS)
    assert [name for name in never if with_it[name] == never[name]] == ["/v2/ledger-rewe-read/zahlungsbedingungen"]
    with undoing(books, made["id"], gate) as answer:
        assert (read_in_all_ways(books), books.read(IMPORTS)) == (with_it, imports)
        assert differences(books) == []
        gate.opened.set()
        taken_back = answer.result()
        assert taken_back.status_code == 201, taken_back.text
        # What nobody reads any more is still there.
        assert swept.reached.wait(PATIENCE_SECONDS)
        assert len(books.rows("SELECT booking FROM books_item_moves")) == len(INVOICES) + 4
        after = read_in_all_ways(books)
        assert without_journal(after) == without_journal(never)
        assert differences(books) == []
        swept.opened.set()
    tidied(books)
    assert len(books.rows("SELECT booking FROM books_item_moves")) == 2
    assert read_in_all_ways(books) == after


def test_it_is_answered_and_read_as_in_one_transaction(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that a cash book is negative without the import, and what it began with."""
    cash_opening = satz("5,00;S;;;;;1000;9000;;0101;;;;EB")
    rows = [OPENING, cash_opening, satz("50,00;S;;;;;1000;8400;;0102;;;;Einlage"), *INVOICES, PAID, DUE]
    answers, reads = [], []
    cash = "SELECT kassenname, datum, booking FROM books_cash_rows WHERE mandant = ? ORDER BY booking"
    for from_rows in (1, len(rows) + 1):
        monkeypatch.setattr(undo, "SLICED_FROM_ROWS", from_rows)
        books = Books(service, service.organization(), years=("2025-01-01", "2026-01-01"))
        books.post(f"{BEFORE}\n2026-02-03 H 1000 4900 40,00 B Bar")
        answer = undone(books, imported(books, file(*rows), another="true")["id"])
        assert (answer["uebernommen"], answer["bekannt"]) == (len(rows), 0)
        answers.append({**answer, "id": "", "stornoVon": "", "erstelltVon": ""})
        reads.append((read_in_all_ways(books), books.rows(cash, books.client.mandant)))
    assert "negative on 2026-02-03" in str(answers[0]["protokoll"])
    assert answers[0] == answers[1]
    assert reads[0] == reads[1]


def test_others_book_meanwhile_also_to_its_documents(books: Books, gate: Gate) -> None:
    made = imported(books, file(*INVOICES))
    with undoing(books, made["id"], gate) as answer:
        # As many as there are numbers left; the first to a document of the import.
        books.post("2026-03-01 S 1200 10011 1,00 RE-1 Zahlung")
        for number in range(claims.HEADROOM - 1):
            assert books.send(CASH, entry(line(number + 1))).status_code == 201
        refused = books.send(CASH, entry(line(99)))
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert differences(books) == []
    assert answer.result().status_code == 201
    assert differences(books) == []
    (konto,) = books.read("/v2/ledger-rewe-read/opos")["konten"]
    assert [(item["beleg"], item["belegdatum"], item["saldo"]) for item in konto["posten"]] == [
        ("RE-1", "2026-03-01", -1)
    ]
    count = 2 * len(INVOICES) + claims.HEADROOM
    assert [number for (number,) in books.rows("SELECT id FROM books_bookings ORDER BY id")] == list(
        range(1, count + 1)
    )
    tidied(books)


def test_what_cannot_go_on_beside_it_is_told_to_wait(books: Books, gate: Gate) -> None:
    first, second = imported(books, file(*INVOICES)), imported(books, file(*ROWS))
    with undoing(books, first["id"], gate) as answer:
        for import_id in (first["id"], second["id"]):
            other = books.service.post(f"{IMPORTS}/{import_id}/undo", books.owner.key, params=books.query())
            assert (other.status_code, other.headers["retry-after"]) == (409, "5")
            assert other.json()["error"] == f"The import {first['id']} is being undone. Try again when that is done."
        another = send_file(books, file(OPENING))
        assert (another.status_code, another.headers["retry-after"]) == (409, "5")
    assert answer.result().status_code == 201
    undone(books, second["id"])
    assert imported(books, file(*INVOICES, *ROWS))["uebernommen"] == len(INVOICES) + len(ROWS)


def test_a_call_that_was_told_to_wait_succeeds_later_with_its_key(books: Books, gate: Gate) -> None:
    first, second = imported(books, file(*INVOICES)), imported(books, file(*ROWS))

    def undo_second() -> httpx.Response:
        return books.service.post(
            f"{IMPORTS}/{second['id']}/undo", books.owner.key, params=books.query(), headers={"idempotency-key": "second"}
        )  # fmt: skip

    with undoing(books, first["id"], gate):
        for _ in range(2):
            waits = undo_second()
            assert (waits.status_code, waits.headers.get("retry-after")) == (409, "5")
    answers = [undo_second(), undo_second()]
    assert [(answer.status_code, answer.headers.get("idempotent-replayed")) for answer in answers] == [
        (201, None), (201, "true")
    ]  # fmt: skip
    tidied(books)


def test_an_undoing_that_fails_is_tidied_up_and_may_be_repeated(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    made = imported(books, file(OPENING, *INVOICES))
    with books.unchanged(), monkeypatch.context() as broken:
        broken.setattr(slices.SlicedPoster, "finish", lambda poster: 1 // 0)
        answer = books.service.post(f"{IMPORTS}/{made['id']}/undo", books.owner.key, params=books.query())
        assert answer.status_code == 500
        assert differences(books) == []
    undone(books, made["id"])


def test_rows_of_a_partial_import_are_unknown_as_soon_as_it_is_undone(books: Books, swept: Gate) -> None:
    made = imported(books, file(*INVOICES, BAD), partial="true")
    answer = books.service.post(f"{IMPORTS}/{made['id']}/undo", books.owner.key, params=books.query())
    assert answer.status_code == 201, answer.text
    assert len(books.rows("SELECT digest FROM books_partial_rows")) == len(INVOICES)
    assert imported_at_once(books)["bekannt"] == 0
    swept.opened.set()
    tidied(books)
    assert books.rows("SELECT digest FROM books_partial_rows") == []


def imported_at_once(books: Books) -> Any:
    """Without waiting for what others leave."""
    answer = send_file(books, file(*INVOICES))
    assert answer.status_code == 201, answer.text
    assert differences(books) == []
    return answer.json()["data"]


def test_a_small_import_is_undone_in_one_transaction(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "SLICED_FROM_ROWS", len(ROWS) + 1)
    monkeypatch.setattr(slices, "begin", lambda *_: pytest.fail("it is small"))
    made = imported(books, file(*ROWS))
    assert undone(books, made["id"])["uebernommen"] == len(ROWS)
    assert len(ROWS) < undo.PAGE
