"""A file is known by its content, however it was written down; a figure that differs makes it another file."""

from __future__ import annotations

import io
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kontobahn.books.content import _CONTENT_OF_BOOKING, Content, content_of
from kontobahn.books.reader import Wanted, rows_of
from kontobahn.books.satz import Satz
from kontobahn.formats.extf import RowError, RowWarning, open_extf
from tests.unit.formats.extf.files import Columns, satz, text_of

ROWS = [
    satz("119,00;S;;;;;10001;8400;;1503;RE-1;;;Rechnung Käse"),
    satz("59,50;H;;;;;70001;3400;9;1603;ER-1;;;Wareneingang"),
    satz("7,00;S;;;;;1000;8400;;1503;;;;Barverkauf"),
    satz("7,00;S;;;;;1000;8400;;1503;;;;Barverkauf"),
]


def content(data: bytes) -> str:
    with open_extf(io.BytesIO(data)) as file:
        found = Content(file.header)
        for _, row in rows_of(file, Wanted(Satz._fields, "0000"), found):
            assert not isinstance(row, RowError | RowWarning)
    return found.digest()


def written(rows: list[str], header: Columns | None = None, *, end: str = "\r\n", encoding: str = "cp1252") -> bytes:
    return text_of(*rows, header=header, end=end).encode(encoding)


KNOWN = content(written(ROWS))


def test_contents_that_were_stored_are_known_by_later_versions() -> None:
    """The digests are stored, so what they are made of must not change."""
    assert KNOWN == "77c4fab01e7f0bfc1f73e7aa4c6a896341d590cea7f522d536e2c4bcc3f9288a"


def _quoted(row: str) -> str:
    fields = row.split(";")
    return ";".join(f'"{field}"' if index in (6, 7, 13) and field else field for index, field in enumerate(fields))


@settings(max_examples=50)
@given(
    order=st.permutations(range(len(ROWS))),
    end=st.sampled_from(["\r\n", "\n"]),
    encoding=st.sampled_from(["cp1252", "utf-8-sig", "utf-16"]),
    quoted=st.booleans(),
    made_at=st.sampled_from(["20240607101112131", "20250101000000000"]),
)
def test_the_same_rows_are_known_however_they_are_written(
    order: list[int], end: str, encoding: str, quoted: bool, made_at: str
) -> None:
    rows = [_quoted(ROWS[index]) if quoted else ROWS[index] for index in order]
    assert content(written(rows, {6: made_at, 17: '"Anderer Name"'}, end=end, encoding=encoding)) == KNOWN


@settings(max_examples=60)
@given(data=st.data())
def test_one_changed_figure_makes_another_content(data: Any) -> None:
    row = data.draw(st.integers(0, len(ROWS) - 1))
    column, value = data.draw(
        st.sampled_from([(1, "7,01"), (7, "10002"), (8, "8300"), (10, "1703"), (11, "X"), (14, "y")])
    )
    rows = [*ROWS]
    rows[row] = satz(rows[row], {column: value})
    assert content(written(rows)) != KNOWN


def test_the_number_of_equal_rows_the_year_and_the_period_count() -> None:
    assert content(written(ROWS[:-1])) != KNOWN
    assert content(written([*ROWS, ROWS[-1]])) != KNOWN
    assert content(written(ROWS, {16: "20241130"})) != KNOWN
    assert content(written(ROWS, {13: "20250101", 15: "20250101", 16: "20251231"})) != KNOWN


def test_what_makes_the_content_of_a_booking_is_taken_by_name() -> None:
    fields = tuple(reversed(_CONTENT_OF_BOOKING))
    assert content_of(fields)(fields) == _CONTENT_OF_BOOKING
