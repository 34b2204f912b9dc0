"""A file in another dress is the same file: encoding, line ends, quotes, titles and empty columns at the end change no record."""

from __future__ import annotations

import codecs
import csv
import io
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kontobahn.formats.extf import (
    BUCHUNGSSTAPEL,
    KONTENBESCHRIFTUNGEN,
    PERSONENKONTEN,
    ZAHLUNGSBEDINGUNGEN,
    Category,
)
from tests.unit.formats.extf.files import header_line, read_all, satz, text_of, with_columns

# Code page 1252 holds all of them, and there no two of them together look like UTF-8.
TEXTS = st.text("äöüßÄÖÜabcXYZ019 ;,\"'.", max_size=70)
ENCODINGS = {
    "cp1252": b"", "utf-8": b"", "utf-8-sig": b"", "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE,
}  # fmt: skip


class Dress(NamedTuple):
    encoding: str
    end: str
    last_end: bool
    quoting: int
    columns: int
    titles: str


DRESSES = st.builds(
    Dress,
    encoding=st.sampled_from(sorted(ENCODINGS)),
    end=st.sampled_from(["\r\n", "\n"]),
    last_end=st.booleans(),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    columns=st.integers(-300, 300),
    titles=st.sampled_from(["", "Titel;Titel", ";;;", ";".join(["Spalte"] * 400)]),
)


@st.composite
def postings(draw: st.DrawFn) -> str:
    changed = {
        1: draw(st.sampled_from(["1,00", "119", "0,01", "12,5", "x", ""])),
        2: draw(st.sampled_from(["S", "H", "s", ""])),
        7: draw(st.sampled_from(["10001", "1200", "85", "8400"])),
        9: draw(st.sampled_from(["", "9", "0009", "40", "9a"])),
        10: draw(st.sampled_from(["1503", "101", "3112", "3102", "15032024"])),
    }
    texts = draw(
        st.dictionaries(st.sampled_from([11, 12, 14, 20, 37, 38, 39, 48, 103, 118, 121, 125]), TEXTS, max_size=6)
    )
    quoted = {number: '"' + text.replace('"', '""') + '"' for number, text in texts.items()}
    return satz(changed=changed | quoted)


@st.composite
def persons(draw: st.DrawFn) -> str:
    texts = draw(st.dictionaries(st.sampled_from([2, 3, 4, 5, 6, 7, 16, 45, 49, 109, 154, 254]), TEXTS, max_size=6))
    quoted = {number: '"' + text.replace('"', '""') + '"' for number, text in texts.items()}
    return with_columns(draw(st.sampled_from(["10001", "70001", "1200", "x"])), quoted, 254)


LABELS = st.builds(lambda text: '1200;"{}";de-DE;'.format(text.replace('"', '""')), TEXTS)
TERMS = st.builds(
    lambda text, days: with_columns('11;"{}";1;300;7;200;14;{}'.format(text.replace('"', '""'), days), {}, 31),
    TEXTS,
    st.integers(0, 999),
)


def dressed(rows: list[str], category: Category, dress: Dress) -> bytes:
    """The rows, from well-formed text, written again."""
    fields = list(csv.reader([header_line(category), *rows], delimiter=";", strict=True))
    width = len(category.titles)
    target = io.StringIO()
    writer = csv.writer(target, delimiter=";", quoting=dress.quoting, lineterminator=dress.end)  # type: ignore[arg-type]
    writer.writerow(fields[0])
    target.write((dress.titles or ";".join(category.titles)) + dress.end)
    for row in fields[1:]:
        used = max((number for number, field in enumerate(row, 1) if field), default=1)
        columns = max(used, width + dress.columns)
        writer.writerow((row + [""] * columns)[:columns])
    text = target.getvalue()
    # A file that ends within a row cannot be told from one whose last row is short.
    is_even = dress.columns >= 0
    text = text if dress.last_end or not is_even else text.removesuffix(dress.end)
    return ENCODINGS[dress.encoding] + text.encode(dress.encoding)


@pytest.mark.parametrize(
    ("category", "rows"),
    [
        (BUCHUNGSSTAPEL, postings()),
        (PERSONENKONTEN, persons()),
        (KONTENBESCHRIFTUNGEN, LABELS),
        (ZAHLUNGSBEDINGUNGEN, TERMS),
    ],
    ids=["Buchungsstapel", "Personenkonten", "Kontenbeschriftungen", "Zahlungsbedingungen"],
)
@settings(max_examples=50)
@given(data=st.data(), dress=DRESSES)
def test_the_dress_of_a_file_changes_nothing_that_is_read(
    category: Category, rows: st.SearchStrategy[str], data: st.DataObject, dress: Dress
) -> None:
    drawn = data.draw(st.lists(rows, max_size=8))
    plain = read_all(text_of(*drawn, category=category))
    assert read_all(dressed(drawn, category, dress)) == plain
