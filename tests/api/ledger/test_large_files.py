"""A large file is written in slices: nobody sees it before all of it is there, and nobody else is stopped by it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kontobahn import children
from kontobahn.books import claims, imports, reader, slices
from tests.api.ledger.files import IMPORTS, differences, file, imported, send_file, undone
from tests.api.ledger.test_imports import (
    ended,
    large,
    test_a_file_is_imported_and_listed_with_who_and_when,
    test_a_large_file_that_is_refused_is_failed_with_its_protocol,
    test_a_row_looks_booked_as_often_as_it_stands_in_the_books,
    test_refused_rows_are_a_bad_request_with_every_reason,
    test_rows_that_look_booked_already_are_named_and_nothing_is_written,
    test_warnings_are_kept_with_the_import,
)
from tests.harness import Service
from tests.ledger_builder import Books, entry, line
from tests.unit.formats.extf.files import satz
from tests.waiting import PATIENCE_SECONDS, eventually

__all__ = [
    "large",
    "test_a_file_is_imported_and_listed_with_who_and_when",
    "test_a_large_file_that_is_refused_is_failed_with_its_protocol",
    "test_a_row_looks_booked_as_often_as_it_stands_in_the_books",
    "test_refused_rows_are_a_bad_request_with_every_reason",
    "test_rows_that_look_booked_already_are_named_and_nothing_is_written",
    "test_warnings_are_kept_with_the_import",
]
INVOICES = [
    satz(f"{number},00;S;;;;;{10010 + number % 3};8400;;1502;RE-{number};;;Rechnung") for number in range(1, 31)
]
# Of a document that the books have already, after the cut-off of one of the reads.
PAID = satz("3,00;S;;;;;1200;10010;;1602;RE-1;;;Zahlung")
OPENING = satz("200,00;S;;;;;10010;9008;;0101;0;;;Saldovortrag")
CASH = "/v2/ledger-duo/kassenbuch-advanced"
YEAR = {"geschaeftsjahrStartDatum": "2026-01-01"}
READS: dict[str, dict[str, str]] = {
    "/v2/ledger-rewe-read/opos": {},
    "/v2/ledger-rewe-read/opos?eb": {"ebModus": "raw", "stichtag": "2026-02-14"},
    "/v2/ledger-rewe-read/faelligkeiten": {},
    "/v2/ledger-rewe-read/susa": YEAR,
    "/v2/ledger-rewe-read/buchungen": YEAR,
    "/v2/ledger-rewe-read/konten": YEAR,
    "/v2/ledger-rewe-read/bwa": YEAR,
    "/v2/ledger-rewe-read/umsatzsteuer": YEAR,
    "/v2/ledger-rewe-read/zahlungsbedingungen": YEAR,
}


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization())


def make_slices_short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_ROWS", "MIN_ROWS", "MAX_ROWS"):
        monkeypatch.setattr(slices, name, 4)
    monkeypatch.setattr(slices, "ROWS_GATHERED", 9)
    monkeypatch.setattr(claims, "HEADROOM", 6)


@pytest.fixture(autouse=True)
def every_file_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "SLICED_FROM_BYTES", 0)
    make_slices_short(monkeypatch)


class Gate:
    """Holds the import before its last transaction: everything is written, and nothing of it counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        finish = slices.SlicedPoster.finish

        def held(poster: slices.SlicedPoster) -> int:
            count = finish(poster)
            self.reached.set()
            assert self.opened.wait(PATIENCE_SECONDS)
            return count

        monkeypatch.setattr(slices.SlicedPoster, "finish", held)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate(monkeypatch)
    yield made
    made.opened.set()


def begin(books: Books, gate: Gate, content: bytes) -> str:
    answer = send_file(books, content)
    assert answer.status_code == 202
    assert gate.reached.wait(PATIENCE_SECONDS)
    return str(answer.json()["data"]["id"])


def everything_read(books: Books) -> dict[str, Any]:
    return {path: books.read(path.partition("?")[0], **query) for path, query in READS.items()}


def test_nobody_sees_a_file_before_all_of_it_is_there(large: Books, gate: Gate) -> None:
    large.post("2026-02-01 S 10010 8400 11,90 RE-1 Rechnung\n2026-02-20 S 1200 10010 5,00 RE-1 Zahlung")
    before = everything_read(large)
    running = begin(large, gate, file(OPENING, *INVOICES, PAID))
    assert everything_read(large) == before
    assert differences(large) == []
    hidden = large.rows("SELECT COUNT(*) FROM books_bookings WHERE id > 2")[0][0]
    assert hidden == len(INVOICES) + 2 - claims.HEADROOM
    assert [item["status"] for item in large.read(IMPORTS) if item["id"] == running] == ["running"]
    gate.opened.set()
    assert ended(large, running)["uebernommen"] == len(INVOICES) + 2
    after = everything_read(large)
    assert [path for path in READS if after[path] == before[path]] == ["/v2/ledger-rewe-read/zahlungsbedingungen"]
    assert differences(large) == []


def test_a_file_that_another_process_reads_gives_the_same_books(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def command(module: str, *arguments: str) -> list[str]:
        started.append(module)
        return command_of(module, *arguments)

    command_of = children.command
    monkeypatch.setattr(children, "command", command)
    rows = [OPENING, *INVOICES, PAID, satz("0,00;S;;;;;10010;8400;;1502;RE-0;;;Null")]
    first = imported(books, file(*rows), partial="true")
    before = everything_read(books)
    undone(books, first["id"])
    assert started == []
    monkeypatch.setattr(reader, "APART_FROM_BYTES", 0)
    second = imported(books, file(*rows), partial="true")
    assert set(started) == {"kontobahn.books.reader"}
    fields = ("uebernommen", "abgelehnt", "warnungen")
    assert [second[field] for field in fields] == [first[field] for field in fields] == [len(INVOICES) + 2, 1, 0]
    found = [books.read(f"{IMPORTS}/{one['id']}")["protokoll"] for one in (first, second)]
    assert found[0] == found[1] != []
    after = everything_read(books)
    # What was undone stays among the bookings.
    assert [path for path in READS if after[path] != before[path]] == ["/v2/ledger-rewe-read/buchungen"]
    # Known by its content, whoever reads it.
    monkeypatch.setattr(reader, "APART_FROM_BYTES", 1 << 40)
    again = send_file(books, file(*reversed(rows)), partial="true")
    assert again.status_code == 409
    assert "imported before" in again.json()["error"]


def test_others_book_meanwhile_and_numbers_have_no_gap(large: Books, gate: Gate) -> None:
    running = begin(large, gate, file(*INVOICES))
    for number in range(claims.HEADROOM):
        made = large.service.post(CASH, large.owner.key, params=large.query(), json=entry(line(number + 1)))
        assert made.status_code == 201, made.text
    refused = large.service.post(CASH, large.owner.key, params=large.query(), json=entry(line(99)))
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert differences(large) == []
    gate.opened.set()
    assert ended(large, running)["status"] == "done"
    assert differences(large) == []
    ids = [number for (number,) in large.rows("SELECT id FROM books_bookings ORDER BY id")]
    assert ids == list(range(1, len(INVOICES) + claims.HEADROOM + 1))
    (own,) = large.rows("SELECT first_booking, last_booking FROM books_batches WHERE id = ?", running)
    assert own == (claims.HEADROOM + 1, ids[-1])
    undone(large, running)
    assert large.read("/v2/ledger-rewe-read/opos")["konten"] == []
    gate.reached.clear()
    again = begin(large, gate, file(*INVOICES))
    assert ended(large, again)["status"] == "done"


def test_what_cannot_go_on_beside_it_is_told_to_wait(large: Books, gate: Gate) -> None:
    gate.opened.set()
    first = begin(large, gate, file(INVOICES[0]))
    assert ended(large, first)["status"] == "done"
    gate.opened.clear()
    gate.reached.clear()
    running = begin(large, gate, file(*INVOICES[1:]))
    other = send_file(large, file(OPENING)).json()["data"]["id"]
    eventually(lambda: large.read(f"{IMPORTS}/{other}")["status"] == "failed")
    assert f"(import {running})" in large.read(f"{IMPORTS}/{other}")["fehler"]
    undo = large.service.post(f"{IMPORTS}/{first}/undo", large.owner.key, params=large.query())
    assert (undo.status_code, undo.headers["retry-after"]) == (409, "5")
    assert f"The file maerz.csv is being written into these books (import {running})." in undo.json()["error"]
    gate.opened.set()
    assert ended(large, running)["status"] == "done"
    undone(large, first)


def test_what_others_booked_meanwhile_is_not_booked_twice(large: Books, gate: Gate) -> None:
    running = begin(large, gate, file(*INVOICES))
    large.post("2026-02-15 S 10011 8400 1,00 RE-1 Rechnung")
    gate.opened.set()
    failed = ended(large, running)
    assert (failed["status"], "made while it was read" in failed["fehler"]) == ("failed", True)
    assert len(large.rows("SELECT id FROM books_bookings")) == 1
    assert differences(large) == []


def test_a_year_that_only_the_file_needs_comes_with_it(large: Books, gate: Gate) -> None:
    of_2028 = {13: "20280101", 15: "20280101", 16: "20281231"}
    running = begin(large, gate, file(*INVOICES, header=of_2028))
    assert large.rows("SELECT jahr FROM books_years WHERE jahr > '2027'") == []
    gate.opened.set()
    assert ended(large, running)["status"] == "done"
    assert large.rows("SELECT jahr FROM books_years WHERE jahr > '2027'") == [("2028-01-01",)]
