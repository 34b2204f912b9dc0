"""Every dialect is imported into real books: all of its rows, to the cent, with the warnings it deserves and no others."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from kontobahn.books.imports import ImportRefused, Report
from kontobahn.errors import Conflict
from kontobahn.formats.extf import ExtfError
from tests.corpus.extf.dialects import DIALECTS, Dialect, by_the_book, header, lines, rows, titles
from tests.corpus.extf.others import MASTER_DATA, UNBOOKABLE
from tests.harness import Service
from tests.ledger_builder import Books

COLUMNS = "umsatz, soll, konto, gegenkonto, bu_schluessel, belegdatum, belegfeld1, buchungstext, weitere"


def new_books(service: Service, length: int = 4) -> Books:
    return Books(service, service.organization(), laenge=length, years=("2024-01-01",))


def warnings_of(report: Report) -> tuple[tuple[int, str], ...]:
    assert all(warning.found.endswith(".") and warning.done.endswith(".") for warning in report.warnings)
    return tuple((warning.line, warning.column) for warning in report.warnings)


def booked(books: Books) -> list[tuple[Any, ...]]:
    return books.rows(f"SELECT {COLUMNS} FROM books_bookings WHERE mandant = ? ORDER BY id", books.client.mandant)


def expected(dialect: Dialect) -> list[tuple[Any, ...]]:
    return [
        (
            int(posting.umsatz.replace(",", "")), int(posting.soll_haben == "S"), in_full(posting.konto),
            in_full(posting.gegenkonto), posting.bu_schluessel, f"2024-{posting.belegdatum[2:]}-{posting.belegdatum[:2]}",
            posting.belegfeld1, posting.buchungstext, dialect.weitere.get(line, ""),
        )
        for line, posting in enumerate(dialect.postings, 3)
    ]  # fmt: skip


def in_full(konto: str) -> str:
    return konto.ljust(4 + len(konto), "0")


def balances(books: Books) -> dict[str, Decimal]:
    found = books.read("/v2/ledger-rewe-read/susa", geschaeftsjahrStartDatum="2024-01-01")
    signs = {"SOLL": 1, "HABEN": -1}
    return {
        row["kontonummer"]: signs[row["saldo"]["sollHabenKennzeichen"]] * Decimal(str(row["saldo"]["betrag"]))
        for row in found
    }


def test_every_dialect_gives_the_same_books(service: Service) -> None:
    assert len(DIALECTS) >= 17
    for write in DIALECTS:
        dialect = write()
        books = new_books(service, dialect.length)
        report = books.import_extf(dialect.content)
        assert (report.imported, report.refused) == (4, []), write.__name__
        assert warnings_of(report) == dialect.warnings, write.__name__
        assert booked(books) == expected(dialect), write.__name__
        right = {in_full(konto): Decimal(balance) for konto, balance in dialect.balances.items()}
        assert balances(books) == right, write.__name__


def test_every_file_of_master_data_is_imported(service: Service) -> None:
    for write in MASTER_DATA:
        file = write()
        books = new_books(service)
        report = books.import_extf(file.content)
        assert (report.imported, report.refused) == (len(file.names), []), write.__name__
        assert warnings_of(report) == file.warnings, write.__name__
        konten = books.read("/v2/ledger-rewe-read/konten", geschaeftsjahrStartDatum="2024-01-01")
        found = {konto["kontonummer"]: konto["kontobeschriftung"] for konto in konten}
        terms = books.read("/v2/ledger-rewe-read/zahlungsbedingungen", geschaeftsjahrStartDatum="2024-01-01")
        found |= {term["id"]: term["bezeichnung"] for term in terms}
        assert found.items() >= file.names.items(), write.__name__


@pytest.mark.either_engine
def test_what_nobody_can_book_is_refused_by_line_and_the_rest_can_be_had(service: Service) -> None:
    for write in UNBOOKABLE:
        file = write()
        books = new_books(service)
        with books.unchanged(), pytest.raises(ImportRefused) as refused:
            books.import_extf(file.content)
        whole = refused.value.report
        report = books.import_extf(file.content, partial=True)
        assert report.imported == 4 - len(file.refused), write.__name__
        for told in (whole, report):
            assert tuple((row.line, row.column) for row in told.refused) == file.refused, write.__name__
        lines_left = [line for line in range(3, 7) if line not in dict(file.refused)]
        all_rows = expected(Dialect(b""))
        assert booked(books) == [all_rows[line - 3] for line in lines_left], write.__name__


@pytest.mark.parametrize("number", [44, 48, 65, 66, 67])
@pytest.mark.either_engine
def test_a_category_that_is_known_but_not_supported_is_named(number: int, service: Service) -> None:
    content = lines(header({3: str(number)}), titles(), *rows())
    books = new_books(service)
    with books.unchanged(), pytest.raises(ExtfError, match="known, but not supported"):
        books.import_extf(content)


def test_the_same_batch_from_another_program_is_known(service: Service) -> None:
    books = new_books(service)
    books.import_extf(by_the_book().content)
    again = [write for write in DIALECTS if write()._replace(content=b"") == Dialect(b"")]
    assert len(again) > 10
    for write in again:
        with books.unchanged(), pytest.raises(Conflict, match=r"imported .*file\.csv"):
            books.import_extf(write().content, "again.csv")
