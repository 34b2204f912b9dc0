"""Two transactions that decide at once about the books of one client, on PostgreSQL."""

from __future__ import annotations

import hashlib
import io
from datetime import date
from typing import Any

import msgspec
import pytest

from kontobahn.books import batches, bookings, cash_book, partners, store, tax_corrections, undo, verification
from kontobahn.books.imports import Job, import_file
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.formats.extf import open_extf
from kontobahn.ledger.buchungen import NeueBuchung
from kontobahn.ledger.connections import find_for_operator
from kontobahn.ledger.kassenbuch import CashEntry, CashLine, ReceiptImage
from kontobahn.ledger.personenkonto import Personenkonto
from kontobahn.ledger.provider import Author
from tests.api.ledger.test_kassenbuch import entries
from tests.api.ledger.test_personenkonto import FULL
from tests.harness import START, Service
from tests.interleaving import Overlap, on_postgres, overlap
from tests.ledger_builder import Books

pytestmark = on_postgres
AUTHOR = Author("req_1", "test")
IMAGE = ReceiptImage("bon.png", "image/png", hashlib.sha256(b"bon").hexdigest(), b"bon")


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization())


def enter(books: Books, betrag: int, kasse: str = "Hauptkasse", *images: ReceiptImage) -> Any:
    line = CashLine("Bon", "8400", betrag, None, None, None, (None, None))
    made = CashEntry(kasse, "EUR", betrag, to_datetime(START), (line,), images)
    return lambda tx: cash_book.create_entry(tx, books.client, made, AUTHOR)


def both(books: Books, first: Any, second: Any, lock: str) -> Overlap:
    """Runs them at once; the second waits for this lock, and the books are sound afterwards."""
    outcome = overlap(books.service.db, first, second)
    assert outcome.lock == lock
    assert not isinstance(outcome.first, Exception), outcome.first
    assert books.service.db.read_now(verification.find_differences, books.client.mandant) == []
    return outcome


# --- Cash books


def test_entries_at_once_are_numbered_and_chained_one_after_the_other(books: Books) -> None:
    outcome = both(books, enter(books, 100), enter(books, 200), "kassenbuch")
    assert not isinstance(outcome.second, Exception)
    assert [(record["nummer"], record["betrag"]) for record in entries(books)] == [(1, 100), (2, 200)]


def test_the_last_money_is_taken_once_and_an_entry_reversed_once(books: Books) -> None:
    books.service.db.write_now(enter(books, 100))
    assert isinstance(both(books, enter(books, -60), enter(books, -60), "kassenbuch").second, Conflict)

    def reverse(tx: Tx) -> int:
        return cash_book.reverse_entry(tx, books.client, "Hauptkasse", 2, "doppelt")

    assert isinstance(both(books, reverse, reverse, "kassenbuch").second, Conflict)
    assert [record["betrag"] for record in entries(books)] == [100, -60, 60]


def test_an_account_has_one_cash_book(books: Books) -> None:
    def create(name: str) -> Any:
        return lambda tx: cash_book.create_cash_book(tx, books.client, name, "10100000")

    assert isinstance(both(books, create("Erste"), create("Zweite"), "kassenbuecher").second, Conflict)


def test_a_receipt_is_filed_with_one_entry(books: Books) -> None:
    filed = both(
        books,
        enter(books, 100, "Hauptkasse", IMAGE),
        lambda tx: cash_book.file_image(tx, books.client, "another", 0, IMAGE),
        "belegbild",
    )
    assert isinstance(filed.second, Conflict)


# --- Partners, clients, fiscal years


def test_a_partner_is_created_once_and_then_changed(books: Books) -> None:
    person = msgspec.convert(FULL, Personenkonto)

    def save(tx: Tx) -> Any:
        return partners.save(tx, books.client, person, AUTHOR)

    saved = both(books, save, save, "personenkonten")
    assert (saved.first[1], saved.second[1]) == (True, False)
    renamed = msgspec.structs.replace(person, firmenname="Andere GmbH")
    imported = both(
        books,
        lambda tx: import_persons(tx, books, "Aus der Datei GmbH"),
        lambda tx: partners.save(tx, books.client, renamed, AUTHOR),
        "personenkonten",
    )
    assert imported.second[1] is False
    [(version, text)] = books.rows("SELECT version, record FROM books_persons")
    assert (version, msgspec.json.decode(text)["firmenname"]) == (4, "Andere GmbH")


def import_persons(tx: Tx, books: Books, name: str) -> Any:
    head = "EXTF;700;16;Debitoren/Kreditoren;5;20260302090000000;;;;;29098;55003;20260101;4;;;;;;;;;;;;;;;;;"
    content = f"{head}\nKonto;Name (Adressattyp Unternehmen)\n10010;{name}\n".encode("cp1252")
    with open_extf(io.BytesIO(content)) as file:
        return import_file(tx, books.client, file, Job("partner.csv", "test"))


def test_one_client_of_a_connection_is_its_default(books: Books) -> None:
    def create(number: str) -> Any:
        def unit(tx: Tx) -> store.Client:
            connection = find_for_operator(tx, connection_id)
            return store.create_client(
                tx, connection, client_id=number, bezeichnung="Neu", kontenrahmen="SKR03", konto_laenge=4
            )

        return unit

    connection_id = books.service.ledger_connection(books.owner)
    outcome = both(books, create("29098-1"), create("29098-2"), "books")
    assert (outcome.first.is_default, outcome.second.is_default) == (1, 0)
    assert isinstance(both(books, create("29098-3"), create("29098-3"), "books").second, Conflict)


def test_fiscal_years_do_not_overlap(books: Books) -> None:
    def open_year(start: date) -> Any:
        return lambda tx: store.ensure_year(tx, books.client, start)

    outcome = both(books, open_year(date(2027, 1, 1)), open_year(date(2027, 7, 1)), "books_years")
    assert isinstance(outcome.second, Conflict)


def test_nothing_is_booked_into_a_year_that_is_being_shortened(books: Books) -> None:
    sale = {"umsatz": 119, "sollHabenKennzeichen": "SOLL", "konto": "1200", "gegenkonto": "8400"}
    late = msgspec.convert({**sale, "belegdatum": "2026-02-15"}, NeueBuchung)

    def shorten(last: date) -> Any:
        return lambda tx: store.ensure_year(tx, books.client, date(2026, 1, 1), last)

    def book(tx: Tx) -> Any:
        return bookings.book(tx, books.client, [late], AUTHOR, another=False)

    assert isinstance(both(books, shorten(date(2026, 2, 28)), enter(books, 100), "books_years").second, Conflict)
    refused = both(books, shorten(date(2026, 2, 10)), book, "books_years").second
    assert isinstance(refused, BadRequest | Conflict), refused


# --- Batches


def test_the_same_content_is_imported_once(books: Books) -> None:
    def identified(tx: Tx) -> None:
        jahr = store.years(tx, books.client)[0]
        batch = batches.open_batch(tx, books.client, jahr, kind="extf 21", source="a.csv", author="test")
        if batches.identify(tx, books.client, batch.id, "content") is not None:
            raise Conflict("The content is known.")

    assert isinstance(both(books, identified, identified, "books_batches").second, Conflict)


def test_a_batch_is_undone_and_corrected_once(books: Books) -> None:
    books.post("2026-02-10 S 1200 8400 119,00 RE-1")
    [(batch,)] = books.rows("SELECT id FROM books_batches")

    def undone(tx: Tx) -> Any:
        return undo.undo_batch(tx, books.client, batch, "test")

    assert isinstance(both(books, undone, undone, "books_years").second, Conflict)
    both(books, *(lambda tx: tax_corrections.apply(tx, books.client, date(2026, 1, 1)),) * 2, "books_years")
