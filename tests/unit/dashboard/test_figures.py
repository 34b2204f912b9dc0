"""Amounts, numbers and days in both languages, and CSV files that no spreadsheet program runs."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kontobahn.api.pages import Language
from kontobahn.dashboard import figures, lists, words


@pytest.mark.parametrize(
    ("language", "cents", "text"),
    [
        ("de", 1234567, "12.345,67\u00a0€"),
        ("de", -5, "−0,05\u00a0€"),
        ("en", 1234567, "€12,345.67"),
        ("en", -123456, "−€1,234.56"),
    ],
)
def test_money_is_written_as_in_the_language(language: Language, cents: int, text: str) -> None:
    words.speak(language)
    assert figures.money(cents) == text
    assert figures.money(Decimal(cents).scaleb(-2)) == text


@given(cents=st.integers(-(10**13), 10**13), language=st.sampled_from(["de", "en"]))
@settings(deadline=None)
def test_an_amount_that_is_shown_can_be_typed_again(cents: int, language: Language) -> None:
    words.speak(language)
    assert figures.parse_amount(figures.plain_amount(cents)) == Decimal(cents).scaleb(-2)
    assert figures.parse_amount(figures.number(Decimal(cents).scaleb(-2), 2)) == Decimal(cents).scaleb(-2)


@pytest.mark.parametrize(
    ("typed", "german", "english"),
    [
        ("1.234,56", "1234.56", "1234.56"),
        ("1,234.56", "1234.56", "1234.56"),
        ("1.234", "1234.00", None),
        ("1,234", None, "1234.00"),
        ("12,5", "12.50", "12.50"),
        ("12.5", "12.50", "12.50"),
        ("1.234.567", "1234567.00", "1234567.00"),
        ("12.34.567", None, None),
        ("1.2345", None, None),
        ("", None, None),
        ("-", None, None),
        ("zwölf", None, None),
        ("1_000", None, None),
        ("1e5", None, None),
        (" 5 € ", "5.00", "5.00"),
    ],
)
def test_an_amount_is_read_as_typed_or_refused(typed: str, german: str | None, english: str | None) -> None:
    for language, wanted in (("de", german), ("en", english)):
        words.speak(words.choose(language))
        if wanted is None:
            with pytest.raises(ValueError, match=r"amount|decimals"):
                figures.parse_amount(typed)
        else:
            assert str(figures.parse_amount(typed)) == wanted, (language, typed)


def test_days_and_times_are_those_of_berlin() -> None:
    midnight = 1_772_319_600_000_000  # 2026-02-28 23:00 UTC
    words.speak("de")
    assert figures.day(midnight) == "01.03.2026"
    assert figures.moment(midnight) == "01.03.2026, 00:00"
    words.speak("en")
    assert figures.day(date(2026, 3, 1)) == "1 Mar 2026"
    assert figures.in_one_line(figures.moment(midnight)) == "1\xa0Mar\xa02026, 00:00"


def test_a_csv_file_is_no_program() -> None:
    words.speak("de")
    rows: list[list[lists.Cell]] = [
        ["=1+1", "+49 30", "-x", "@a", "\tb", 'a;"b"', -5, Decimal("-1234.5"), date(2026, 3, 1), None]
    ]
    text = lists.write_csv(["a"] * 10, rows).decode("utf-8-sig").splitlines()[1]
    assert text == '\'=1+1;\'+49 30;\'-x;\'@a;\'\tb;"a;""b""";-5;"-1234,50";2026-03-01;'
