"""Purpose texts taken apart: banks' ways of writing them, and texts nobody would write."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple

from kontobahn.formats.statements.purpose import Purpose, join_lines, parse

IBAN = "DE89370400440532013000"

CASES: dict[str, dict[str, str]] = {
    "": {},
    "   ": {},
    "Miete März": {"svwz": "Miete März"},
    "SVWZ+Rechnung 4711": {"svwz": "Rechnung 4711"},
    "EREF+ABC123SVWZ+Rechnung": {"end_to_end_id": "ABC123", "svwz": "Rechnung"},
    "Vorspann EREF+ABC123SVWZ+Rechnung": {"end_to_end_id": "ABC123", "svwz": "Rechnung", "additional": "Vorspann"},
    "Vorspann EREF+ABC": {"end_to_end_id": "ABC", "svwz": "Vorspann"},
    "Vorspann EREF+ABC SVWZ+": {"end_to_end_id": "ABC", "svwz": "Vorspann"},
    "1+1 Telecom EREF+ABC SVWZ+X": {"end_to_end_id": "ABC", "svwz": "X", "additional": "1+1 Telecom"},
    "1+1 Telecom": {"svwz": "1+1 Telecom"},
    "C+A Mode, ABCD+x": {"svwz": "C+A Mode, ABCD+x"},
    "IBAN+ DE89370400440532013000 BIC+ COBADEFFXXX": {"iban": IBAN, "bic": "COBADEFFXXX"},
    "IBAN+DE89370400440532013000BIC+COBADEFFXXX": {"iban": IBAN, "bic": "COBADEFFXXX"},
    "BIC +COBADEFF SVWZ+x": {"bic": "COBADEFF", "svwz": "x"},
    "SVWZ+ARABIC+SHOP": {"svwz": "ARABIC+SHOP"},
    "eref+abc svwz+danke": {"end_to_end_id": "abc", "svwz": "danke"},
    "xeref+abc": {"svwz": "xeref+abc"},
    "EREF: 123 MREF: 456": {"end_to_end_id": "123", "mref": "456"},
    "Beitrag 2026 EREF: 12 CRED: DE98ZZZ09999999999": {
        "svwz": "Beitrag 2026", "end_to_end_id": "12", "cred": "DE98ZZZ09999999999",
    },
    "Text IBAN: DE89 3704 0044 0532 0130 00 BIC: COBADEFFXXX ABWA: Anna": {
        "svwz": "Text", "iban": IBAN, "bic": "COBADEFFXXX", "abwa": "Anna",
    },
    "SVWZ+Miete KREF: 6": {"svwz": "Miete", "kref": "6"},
    "SVWZ+Miete EREF: 5 EREF+7": {"svwz": "Miete", "end_to_end_id": "7", "additional": "EREF: 5"},
    "SVWZ+C+A Mode, SVWZ+zweiter": {"svwz": "C+A Mode,", "additional": "SVWZ+zweiter"},
    "EREF+A SVWZ+x EREF+A": {"end_to_end_id": "A", "svwz": "x"},
    "EREF+ SVWZ+x EREF+B": {"end_to_end_id": "B", "svwz": "x"},
    "S VWZ+Rechnung": {"svwz": "Rechnung"},
    "EREF+1 SVW Z+Rechnung MREF +M7": {"end_to_end_id": "1", "svwz": "Rechnung", "mref": "M7"},
    "SVWZ+Was kostet das?? 5 Euro?": {"svwz": "Was kostet das?? 5 Euro?"},
    "EREF+NOTPROVIDED MREF+NOTPROVIDED SVWZ+x": {"svwz": "x"},
    "EREF+NOTPROVIDE D SVWZ+x": {"svwz": "x"},
    "NOTPROVIDED": {},
    "IBAN+DE89370400440532013000 Rest SVWZ+x": {"iban": IBAN, "svwz": "x", "additional": "Rest"},
    "IBAN+AT61 1904 3002 3457 3201 Rest": {"iban": "AT611904300234573201", "svwz": "Rest"},
    "SVWZ+x IBAN+siehe oben": {"svwz": "x", "additional": "siehe oben"},
    "ABWA+Anna ABWE+Bert PURP+SALA OAMT+12,00 COAM+3,00 DEBT+D1 KREF+K1": {
        "abwa": "Anna", "abwe": "Bert", "purp": "SALA", "oamt": "12,00", "coam": "3,00", "debt": "D1", "kref": "K1",
    },
    "EREF+1 MDAT+20260101 SQTP+FRST ORMR+O1 ORCR+O2 DDAT+D BREF+B RREF+R": {
        "end_to_end_id": "1", "mdat": "20260101", "sqtp": "FRST", "ormr": "O1", "orcr": "O2", "ddat": "D", "bref": "B",
        "rref": "R",
    },
    "EREF+ABC\nSVWZ+Miete\nMai": {"end_to_end_id": "ABC", "svwz": "Miete Mai"},
    "SVWZ+Rechnung 4711 vom 12.0\r\n3.2026": {"svwz": "Rechnung 4711 vom 12.03.2026"},
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_a_text_is_taken_apart(text: str) -> None:
    assert parse(text) == Purpose(**CASES[text])


def test_a_line_cut_at_a_forms_width_goes_on_without_a_blank() -> None:
    assert join_lines(["x" * 27, "y", "z"]) == "x" * 27 + "y z"
    assert join_lines(["x ", "y"]) == "x y"


words = st.one_of(
    st.sampled_from(
        ["EREF", "SVWZ+", "+", ":", "IBAN+", "BIC+", "bic:", "S VWZ+", " ", "\n", "?", "ABWA: ", "eref+", IBAN, "1+1"]
    ),
    st.text(max_size=6),
)


@settings(max_examples=200)
@given(st.lists(words, max_size=20).map("".join))
def test_every_character_is_kept_somewhere(text: str) -> None:
    """Everything that is in no value was a tag, a blank, a missing value's mark, or came twice."""
    found = parse(text)
    kept = Counter("".join(value for value in astuple(found) if value).upper())
    source = Counter(char for char in text.upper() if not char.isspace())
    letters = set("ABCDEFGHIJKLMNOPQRSTUVWXYZ:+0123456789")
    for char, count in source.items():
        if char not in letters and "NOTPROVIDED" not in text.upper():
            assert kept[char] >= count or len(char.upper()) > 1 or _comes_twice(text), (char, found)


def _comes_twice(text: str) -> bool:
    """A tag with the same value again is left out."""
    upper = text.upper().replace(" ", "")
    return any(upper.count(tag) > 1 for tag in ("SVWZ", "EREF", "ABWA", "IBAN", "BIC"))


@given(st.text(alphabet=st.characters(exclude_characters="+:\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=60))
def test_a_text_without_tags_stays_as_it_is(text: str) -> None:
    expected = text.strip()
    if expected.upper().replace(" ", "") != "NOTPROVIDED":
        assert parse(text).svwz == (expected or None)


@pytest.mark.parametrize(
    "piece", ["+", "SVWZ+", "IBAN+ ", "S VWZ+a", "BIC:", ": ", "EREF: x ", "IBAN+a b ", "\n", "SVWZ+EREF:"]
)
def test_time_grows_with_the_text_and_no_faster(piece: str) -> None:
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        started = time.process_time()
        parse(text)
        return time.process_time() - started

    short = min(seconds(6_000) for _ in range(3))
    # Sixteen times the text: a quadratic parser would take 256 times as long.
    assert min(seconds(96_000) for _ in range(2)) < 80 * max(short, 0.001)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["Rechnung 4711 v", "om Mai"], "Rechnung 4711 vom Mai"),
        (["vom 12.0", "3.2026"], "vom 12.03.2026"),
        (["Summe 1.234,", "56"], "Summe 1.234,56"),
        (["Konto DE0212030000000", "0202051"], f"Konto {'DE02120300000000202051'}"),
        (["Nord-", "Süd"], "Nord-Süd"),
        (["Miete ER", "EF+5"], "Miete EREF+5"),
        (["x EREF", "+5"], "x EREF+5"),
        (["Danke", "Rechnung 12"], "Danke Rechnung 12"),
        (["Rechnung", "4711"], "Rechnung 4711"),
        (["Abschlag fuer Ihren Vertrag", "Zeitraum Mai"], "Abschlag fuer Ihren Vertrag Zeitraum Mai"),
        (["Zahlung ueber den Dienst Pay", "Pal Europe"], "Zahlung ueber den Dienst Pay Pal Europe"),
        (["Zahlung ueber Dienste - Pay", "Pal Europe"], "Zahlung ueber Dienste - PayPal Europe"),
        (["EREF+aBcDeFgHiJkLmNoPqRsTuv", "Wxyz"], "EREF+aBcDeFgHiJkLmNoPqRsTuvWxyz"),
    ],
)
def test_a_break_is_a_blank_unless_a_word_goes_on(lines: list[str], expected: str) -> None:
    assert join_lines(lines) == expected


@pytest.mark.parametrize("value", ["NONREF", "NOTPROVIDED", "not provided", "NON REF"])
def test_no_reference_is_not_a_reference(value: str) -> None:
    assert parse(f"EREF+{value} SVWZ+x").end_to_end_id is None
    assert parse(f"x EREF: {value}").end_to_end_id is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EREF+E-1 MREF: M-7 CRED: DE98ZZZ09999999999 SVWZ: Miete Mai", ("E-1", "M-7", "Miete Mai")),
        ("EREF+E-1 SVWZ+Miete MREF: M-7", ("E-1", "M-7", "Miete")),
        ("EREF+12:34:56 SVWZ+Miete", ("12:34:56", None, "Miete")),
        ("EREF+IBAN: 5 SVWZ+Miete", ("IBAN: 5", None, "Miete")),
        ("EREF+RE:2026-5 MREF+M: 7 SVWZ+Kunde: 5", ("RE:2026-5", "M: 7", "Kunde: 5")),
    ],
)
def test_tags_with_colons_behind_one_with_a_plus_sign(text: str, expected: tuple[str, str | None, str]) -> None:
    found = parse(text)
    assert (found.end_to_end_id, found.mref, found.svwz) == expected
