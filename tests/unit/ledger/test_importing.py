"""Files into the books: corrected files after a partial import, what rows are compared with, and short fiscal years."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from kontobahn.books import batches, duplicates, store
from kontobahn.books.duplicates import LooksBooked
from kontobahn.books.imports import ImportRefused, Report
from kontobahn.errors import Conflict
from tests.harness import Service
from tests.ledger_builder import Books, parse, post_text
from tests.unit.formats.extf.files import Columns, satz, text_of

GOOD = [satz(f"{number},00;S;;;;;10001;8400;;1503;RE-{number};;;Rechnung") for number in range(1, 6)]
TWIN = satz("7,00;S;;;;;1000;8400;;1503;;;;Barverkauf")
BAD = satz("1,00;S;;;;;10001;8400;;3102;RE-9;;;Rechnung")
CORRECTED = satz("1,00;S;;;;;10001;8400;;2802;RE-9;;;Rechnung")


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization(), years=("2024-01-01",))


def import_rows(books: Books, *rows: str, header: Columns | None = None, **options: Any) -> Report:
    return books.import_extf(text_of(*rows, header=header).encode("cp1252"), **options)


def booked(books: Books) -> list[tuple[int, str]]:
    return sorted(books.rows("SELECT umsatz, belegfeld1 FROM books_bookings"))


def test_of_a_corrected_file_the_rows_imported_before_are_left_out(books: Books) -> None:
    partly = import_rows(books, *GOOD, TWIN, BAD, TWIN, partial=True)
    assert (partly.imported, len(partly.refused), partly.known) == (7, 1, 0)
    whole = import_rows(books, *GOOD, TWIN, CORRECTED, TWIN)
    assert (whole.imported, whole.refused, whole.known) == (1, [], 7)
    assert booked(books) == [
        (100, "RE-1"),
        (100, "RE-9"),
        *((n * 100, f"RE-{n}") for n in range(2, 6)),
        (700, ""),
        (700, ""),
    ]
    assert books.rows("SELECT COUNT(*) FROM books_partial_rows") == [(0,)]


def test_rows_that_an_older_version_imported_are_still_recognised(books: Books) -> None:
    """The digests are stored, so what they are made of must not change."""
    import_rows(books, GOOD[0], BAD, partial=True)
    rows = books.rows("SELECT digest, kopf, times FROM books_partial_rows")
    assert rows == [("8dce8884071eb4af3edfe5be", "e40cfe624cb4b010979d9e79", 1)]


def test_it_may_take_several_tries(books: Books) -> None:
    import_rows(books, *GOOD, BAD, BAD, partial=True)
    again = import_rows(books, *GOOD, CORRECTED, BAD, partial=True)
    assert (again.imported, len(again.refused), again.known) == (1, 1, 5)
    whole = import_rows(books, *GOOD, CORRECTED, TWIN)
    assert (whole.imported, whole.known) == (1, 6)
    assert len(booked(books)) == 7


def test_a_file_with_the_corrected_rows_alone_is_imported(books: Books) -> None:
    import_rows(books, *GOOD, BAD, partial=True)
    assert (import_rows(books, CORRECTED).imported, len(booked(books))) == (1, 6)


@pytest.mark.parametrize(
    ("rows", "header"),
    [
        ([*GOOD[1:], CORRECTED], None),
        ([GOOD[0], TWIN], None),
        ([*GOOD, CORRECTED], {17: '"Anderer Stapel"'}),
        ([*GOOD, CORRECTED], {16: "20241130"}),
    ],
)
@pytest.mark.either_engine
def test_any_other_file_with_such_rows_is_refused_unless_they_are_other_bookings(
    books: Books, rows: list[str], header: Columns | None
) -> None:
    import_rows(books, *GOOD, BAD, partial=True)
    for partial in (False, True):
        with books.unchanged(), pytest.raises(Conflict, match=r"of the 5 rows .* file\.csv .* --another"):
            import_rows(books, *rows, header=header, partial=partial)
    assert import_rows(books, *rows, header=header, another=True).imported == len(rows)
    assert len(booked(books)) == 5 + len(rows)


def test_a_row_that_two_partial_imports_have_belongs_to_its_own_file(books: Books) -> None:
    other: Columns = {17: '"Anderer Stapel"'}
    import_rows(books, *GOOD, BAD, partial=True)
    import_rows(books, GOOD[0], TWIN, BAD, header=other, partial=True, another=True)
    whole = import_rows(books, *GOOD, CORRECTED)
    assert (whole.imported, whole.known) == (1, 5)
    other_corrected = satz("1,00;S;;;;;10001;8400;;2802;RE-10;;;Rechnung")
    assert import_rows(books, GOOD[0], TWIN, other_corrected, header=other).known == 2


@pytest.mark.either_engine
def test_a_partial_import_without_refused_rows_leaves_nothing_to_mend(books: Books) -> None:
    import_rows(books, *GOOD, partial=True)
    with books.unchanged(), pytest.raises(LooksBooked):
        import_rows(books, *GOOD, CORRECTED)
    assert import_rows(books, *GOOD, CORRECTED, another=True).imported == 6


@pytest.mark.either_engine
def test_a_corrected_file_that_is_refused_again_imports_nothing(books: Books) -> None:
    import_rows(books, *GOOD, BAD, partial=True)
    with books.unchanged(), pytest.raises(ImportRefused):
        import_rows(books, *GOOD, BAD, CORRECTED)


# --- Short fiscal years

JULY: Columns = {13: "20240701", 15: "20240701", 16: "20250630"}


def years(books: Books) -> list[tuple[str, str]]:
    return [(jahr.start, jahr.end) for jahr in books.service.db.read_now(store.years, books.client)]


def open_year(books: Books, start: str, ende: str | None) -> None:
    last = date.fromisoformat(ende) if ende else None
    books.service.db.write_now(store.ensure_year, books.client, date.fromisoformat(start), last)


@pytest.mark.either_engine
def test_a_year_within_another_is_refused_with_how_to_make_that_one_short(books: Books) -> None:
    with books.unchanged(), pytest.raises(Conflict, match=r"overlap .* --start 2024-01-01 --end 2024-06-30"):
        import_rows(books, satz(changed={10: "1508"}), header=JULY)
    open_year(books, "2024-01-01", "2024-06-30")
    assert import_rows(books, satz(changed={10: "1508"}), header=JULY).imported == 1
    assert import_rows(books, satz(changed={10: "3006"})).imported == 1
    assert years(books) == [("2024-01-01", "2024-06-30"), ("2024-07-01", "2025-06-30")]
    with books.unchanged(), pytest.raises(ImportRefused) as refused:
        import_rows(books, satz(changed={10: "0107"}))
    (row,) = refused.value.report.refused
    assert (row.line, row.column) == (3, "Belegdatum")
    assert "ends on 2024-06-30" in row.reason


def test_a_year_before_another_ends_where_that_one_begins(service: Service) -> None:
    books = Books(service, service.organization(), years=("2024-07-01",))
    assert import_rows(books, satz(changed={10: "3006"})).imported == 1
    assert years(books) == [("2024-01-01", "2024-06-30"), ("2024-07-01", "2025-06-30")]


def test_a_year_is_not_made_shorter_than_its_bookings_nor_longer_than_its_room(books: Books) -> None:
    import_rows(books, satz(changed={10: "1508"}))
    with books.unchanged(), pytest.raises(Conflict, match="bookings up to 2024-08-15"):
        open_year(books, "2024-01-01", "2024-06-30")
    open_year(books, "2024-01-01", "2024-08-31")
    open_year(books, "2024-09-01", None)
    with books.unchanged(), pytest.raises(Conflict, match="overlap"):
        open_year(books, "2024-01-01", "2024-12-31")
    open_year(books, "2024-01-01", None)
    assert years(books) == [("2024-01-01", "2024-08-31"), ("2024-09-01", "2025-08-31")]


def test_looks_are_those_after_one_booking_up_to_another(books: Books) -> None:
    rows = [f"2024-02-0{day} S 10010 8400 1,00 RE-1" for day in range(1, 5)]
    books.post("\n".join(rows))
    found = books.service.db.read_now(duplicates.looks_between, books.client, 1, 3)
    between = [parse(row, books.client) for row in rows[1:3]]
    assert found == {hash((satz.belegdatum, duplicates.look_of(satz))) for satz in between}


def test_a_batch_leads_an_operator_to_the_client_that_has_it(books: Books) -> None:
    books.post("2024-02-01 S 10010 8400 1,00 RE-1")
    other = books.another_client("29098-55004", years=["2024-01-01"])
    books.service.db.write_now(post_text, other, "2024-02-01 S 10010 8400 1,00 RE-1")
    for batch, mandant in books.rows("SELECT id, mandant FROM books_batches"):
        assert books.service.db.read_now(batches.mandanten_of, batch) == [mandant]
    assert books.service.db.read_now(batches.mandanten_of, "nobody's") == []
