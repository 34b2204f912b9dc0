"""Master data of a file is read before its transaction: nobody waits for the reading, and what is written is the same."""

from __future__ import annotations

import io
import itertools
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kontobahn.books import imports
from kontobahn.books.imports import FileImport, FindClient, Job, Report
from kontobahn.books.store import Client
from kontobahn.db import Tx
from kontobahn.errors import Conflict, Unavailable
from kontobahn.formats.extf import ExtfFile, open_extf
from tests.api.ledger.files import send_file
from tests.api.ledger.test_imports import ended, large
from tests.harness import Service
from tests.ledger_builder import Books
from tests.mobility_builder import CUSTOMER
from tests.waiting import PATIENCE_SECONDS

__all__ = ["large"]
HEAD = "EXTF;700;16;Debitoren/Kreditoren;5;20260302090000000;;;;;29098;55003;20260101;4;;;;;;;;;;;;;;;;;"
NAMES = {"10010": "Erste GmbH", "10011": "Zweite GmbH", "10012": "Dritte GmbH"}


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization())


@pytest.fixture(autouse=True)
def a_chunk_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "CHUNK", 2)


def partners(**names: str) -> bytes:
    rows = "".join(f"{konto};{name}\n" for konto, name in names.items())
    return f"{HEAD}\nKonto;Name (Adressattyp Unternehmen)\n{rows}".encode("cp1252")


def labels(books: Books) -> dict[str, str]:
    marks = ", ".join("?" * len(NAMES))
    rows = books.rows(
        f"SELECT konto, beschriftung FROM books_accounts WHERE konto IN ({marks})", *(f"{konto}0000" for konto in NAMES)
    )
    return {konto.removesuffix("0000"): text for konto, text in rows}


def versions(books: Books) -> list[Any]:
    return books.rows("SELECT konto, version FROM books_persons ORDER BY konto")


def test_partners_come_in_the_order_of_the_file(books: Books) -> None:
    assert books.import_extf(partners(**NAMES)).imported == 3
    assert labels(books) == NAMES
    assert versions(books) == [("100100000", 1), ("100110000", 1), ("100120000", 1)]
    again = partners(**{**NAMES, "10010": "Andere GmbH"})
    assert books.import_extf(again + b"10010;Letzte GmbH\n").imported == 4
    assert labels(books) == {**NAMES, "10010": "Letzte GmbH"}
    assert versions(books)[0] == ("100100000", 3)


def test_an_account_that_a_file_names_twice_in_a_row_has_both_versions(books: Books) -> None:
    assert books.import_extf(partners(**{"10010": "Erste GmbH"}) + b"10010;Letzte GmbH\n").imported == 2
    assert versions(books) == [("100100000", 2)]
    assert [
        json.loads(record)["firmenname"] for (record,) in books.rows("SELECT record FROM books_person_history")
    ] == ["Erste GmbH"]


def test_many_partners_are_written_in_slices_and_those_of_a_file_that_broke_off_once(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "LARGE", 5)
    monkeypatch.setattr(imports, "MAX_CHUNKS", 1)
    many = {str(10010 + number): f"Partner {number} GmbH" for number in range(7)}
    written, write = list[int](), imports.MasterData._write_some

    def dying(self: imports.MasterData, tx: Tx, find: Any, some: list[list[Any]]) -> bool:
        if len(written) == 2:
            raise Unavailable("The process has died.")
        written.append(sum(map(len, some)))
        return write(self, tx, find, some)

    monkeypatch.setattr(imports.MasterData, "_write_some", dying)
    with pytest.raises(Unavailable):
        books.import_extf(partners(**many))
    assert (written, len(versions(books))) == ([2, 2], 4)
    written[:] = [0] * 3
    assert books.import_extf(partners(**many)).imported == 7
    assert written[3:] == [2, 2, 2, 1]
    assert versions(books) == [(f"{konto}0000", 1) for konto in many]
    assert books.rows("SELECT konto FROM books_person_history") == []
    # One that is refused writes nothing before it is.
    written[:] = [0] * 3
    with pytest.raises(Conflict):
        books.import_extf(partners(**many))
    bad = partners(**{**many, "10010": "Andere GmbH"}) + b"x;Fehler\n"
    with pytest.raises(imports.ImportRefused):
        books.import_extf(bad)
    assert (written, versions(books)[0]) == ([0] * 3, ("100100000", 1))


def test_nobody_waits_while_master_data_is_read(large: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, opened = threading.Event(), threading.Event()
    read = ExtfFile.__iter__

    def held(file: ExtfFile) -> Iterator[Any]:
        reached.set()
        assert opened.wait(PATIENCE_SECONDS)
        yield from read(file)

    monkeypatch.setattr(ExtfFile, "__iter__", held)
    answer = send_file(large, partners(**NAMES))
    assert answer.status_code == 202, answer.text
    assert reached.wait(PATIENCE_SECONDS)
    try:
        other = large.service.organization()
        assert large.service.post("/v2/mobility/customers", other.key, json=CUSTOMER).status_code == 201
    finally:
        opened.set()
    assert ended(large, answer.json()["data"]["id"])["uebernommen"] == 3
    assert labels(large) == NAMES


def run(books: Books, change: Any, find: FindClient | None = None) -> Report:
    """Imports partners; `change` happens after they were read."""
    find = find or (lambda tx: books.client)
    with open_extf(io.BytesIO(partners(**NAMES))) as file:
        work = FileImport(books.service.db, find, file, Job("partner.csv", "test"))
        try:
            work.prepare("11111111-1111-4111-8111-111111111111")
            change(work)
            return books.service.db.write_now(work.commit, "11111111-1111-4111-8111-111111111111")
        finally:
            work.tidy("")


def test_the_transaction_may_run_again(books: Books) -> None:
    class Again(Exception):
        """As a deadlock would have it."""

    def fail_once(work: FileImport) -> None:
        def failing(tx: Tx) -> None:
            work.commit(tx, "11111111-1111-4111-8111-111111111111")
            raise Again

        with pytest.raises(Again):
            books.service.db.write_now(failing)
        assert versions(books) == []

    assert run(books, fail_once).imported == 3
    assert labels(books) == NAMES
    assert [version for _, version in versions(books)] == [1, 1, 1]


def test_what_was_read_for_other_books_is_read_again(books: Books) -> None:
    def change_client(work: FileImport) -> None:
        books.client = books.another_client("29098-55004", years=["2026-01-01"])

    assert run(books, change_client).imported == 3
    assert books.rows("SELECT DISTINCT mandant FROM books_persons") == [(books.client.mandant,)]


def test_all_partners_are_there_after_the_client_was_another_one_for_a_while(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "LARGE", 1)
    other, asked = books.another_client("29098-55004"), itertools.count()

    def find(tx: Tx) -> Client:
        # First to read the file, then for each slice.
        return other if next(asked) == 2 else books.client

    assert run(books, lambda work: None, find).imported == 3
    assert next(asked) == 4
    assert labels(books) == NAMES
