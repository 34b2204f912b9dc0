"""Spans of the overview lead to the page of their figures, wherever the fiscal year begins."""

from __future__ import annotations

from calendar import monthrange
from datetime import date
from urllib.parse import parse_qs, urlsplit

import pytest

from kontobahn.dashboard import bookshelf
from kontobahn.dashboard.bookshelf import ShelvedBooks, Span, Vat

BOOKS = ShelvedBooks("c", "1001-1", "Muster GmbH", 4)


@pytest.mark.parametrize(
    ("begins", "first", "months", "name"),
    [(1, 4, 3, "q2"), (1, 4, 1, "m4"), (2, 4, 3, "t3"), (3, 4, 3, "t2"), (4, 4, 3, "q1"), (3, 12, 1, "m10")],
)
def test_a_month_and_a_quarter_of_the_calendar_have_a_page(begins: int, first: int, months: int, name: str) -> None:
    last = first + months - 1
    span = Span(date(2026, first, 1), date(2026, last, monthrange(2026, last)[1]))
    address = bookshelf.vat_page(BOOKS, span, Vat(1900, 700, date(2026, begins, 1)))
    assert parse_qs(urlsplit(address).query)["span"] == [name]


def test_a_span_of_two_fiscal_years_has_none() -> None:
    assert bookshelf.vat_page(BOOKS, Span(date(2026, 1, 1), date(2026, 3, 31)), Vat(1900, 700, None)) == ""
