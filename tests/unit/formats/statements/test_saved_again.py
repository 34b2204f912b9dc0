"""A file saved with another encoding or other line ends says the same; one whose figures were changed is noticed."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kontobahn.formats.statements import Entry, StatementError, StatementWarning
from tests.statement_builder import Booking, Sheet, camt, mt940
from tests.unit.formats.statements.reading import entries, read_all

WORDS = (
    "Grüße",
    "Straße",
    "Käse",
    "Müller",
    "Öl",
    "MÜLLER",
    "Äpfel",
    "Übung",
    "schön",
    "Miete",
    "Rechnung",
    "4711",
    "2026",
)
SEVEN_BIT = str.maketrans("ÄÖÜäöüß", "[\\]{|}~")
AMOUNTS = {
    "mt940": re.compile(rb":6(?:1:\d{10}R?[CD]|0F:[CD]\d{6}EUR|2F:[CD]\d{6}EUR)(\d+,\d\d)"),
    "camt": re.compile(rb'(?:<Ntry>|</Tp>)<Amt Ccy="EUR">(\d+\.\d\d)'),
}

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(lambda words: " ".join([*words, "für"]))
amounts = st.integers(-99_999, 99_999).filter(bool)
names = st.sampled_from(["Bäcker für alle", "Muster GmbH"])
bookings = st.lists(st.tuples(amounts, texts, names).map(lambda made: Booking(*made)), min_size=1, max_size=5)


def same(found: list[Entry], expected: list[Entry]) -> None:
    assert [entry.description for entry in found] == [entry.description for entry in expected]
    assert found == expected


@settings(max_examples=60)
@given(
    bookings,
    st.sampled_from(["utf-8", "utf-8-sig", "cp1252", "iso-8859-1", "cp850"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_mt940_in_any_code_page_says_the_same(found: list[Booking], encoding: str, newline: str) -> None:
    sheet = Sheet(found)
    same(entries(mt940(sheet, encoding=encoding, newline=newline)), entries(mt940(sheet)))


@settings(max_examples=40)
@given(bookings)
def test_mt940_in_seven_bits_says_the_same(found: list[Booking]) -> None:
    data = mt940(Sheet(found)).decode()
    # What would be braces within a word shows the code; a line's end in the middle of every such word leaves no sign of it.
    assume(re.search("[a-z][äü][a-z]", data))
    same(entries(data.translate(SEVEN_BIT).encode("ascii")), entries(data.encode()))


@settings(max_examples=40)
@given(bookings, st.sampled_from(["UTF-8", "ISO-8859-1", "windows-1252"]), st.sampled_from([b"\n", b"\r\n"]))
def test_camt_in_any_encoding_says_the_same(found: list[Booking], encoding: str, newline: bytes) -> None:
    sheet = Sheet(found)
    same(entries(camt(sheet, encoding=encoding).replace(b"\n", newline)), entries(camt(sheet)))


@pytest.mark.parametrize("write", [mt940, camt])
def test_a_changed_figure_is_noticed(write: object) -> None:
    make, pattern = (mt940, AMOUNTS["mt940"]) if write is mt940 else (camt, AMOUNTS["camt"])

    @settings(max_examples=120)
    @given(bookings, st.data())
    def check(found: list[Booking], data: st.DataObject) -> None:
        content = make(Sheet(found))
        places = [
            at for mark in pattern.finditer(content) for at in range(*mark.span(1)) if content[at : at + 1].isdigit()
        ]
        assert len(list(pattern.finditer(content))) == len(found) + 2
        at = data.draw(st.sampled_from(places))
        digit = data.draw(
            st.sampled_from([b"%d" % number for number in range(10) if b"%d" % number != content[at : at + 1]])
        )
        changed = content[:at] + digit + content[at + 1 :]
        try:
            items = read_all(changed)
        except StatementError:
            return
        assert any(isinstance(item, StatementWarning) for item in items)

    check()
