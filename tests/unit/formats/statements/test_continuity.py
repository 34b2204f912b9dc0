"""Whether a statement follows the one before it, across files: what the store asks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kontobahn.formats.statements import Opening, StatementState, follows, state_after
from tests.statement_builder import DAY, Booking, Sheet, camt, follow_up, mt940
from tests.unit.formats.statements.reading import closings, opening

FIRST = Sheet([Booking(5)])
SECOND = follow_up(FIRST, Booking(6))


def state(sheet: Sheet = FIRST) -> StatementState:
    return state_after(closings(camt(sheet))[0])


def begins(sheet: Sheet, **changes: Any) -> Opening:
    return opening(camt(sheet))._replace(**changes)


@pytest.mark.parametrize(
    ("sheet", "verdict", "sentence"),
    [
        (SECOND, "next", ""),
        (FIRST, "repeat", ""),
        (SECOND._replace(number=None), "next", ""),
        (SECOND._replace(number=1), "next", ""),
        (
            SECOND._replace(opening=1),
            "gap",
            "It opens with 0.01 EUR (2026-03-03), but statement S-1 before it closed with",
        ),
        (SECOND._replace(number=3), "gap", "number 2 is missing"),
        (SECOND._replace(number=9), "gap", "numbers 2 to 8 are missing"),
        (SECOND._replace(opening=1, day=DAY - timedelta(9)), "overlap", ""),
        (SECOND._replace(balances="CLBD"), "unknown", ""),
        (SECOND._replace(balances="CLBD", number=4), "gap", "numbers 2 to 3 are missing"),
    ],
)
def test_how_a_statement_stands_to_the_one_before(sheet: Sheet, verdict: str, sentence: str) -> None:
    found = follows(state(), begins(sheet))
    assert found.verdict == verdict
    assert sentence in found.sentence
    assert bool(found.sentence) == (verdict == "gap")


def test_numbers_begin_again_with_a_year() -> None:
    assert follows(state(FIRST._replace(number=250)), begins(SECOND._replace(number=1))).verdict == "next"


def test_only_booked_statements_must_follow_one_another() -> None:
    assert follows(state(), begins(SECOND._replace(opening=1), kind="intraday")).verdict == "unknown"


def test_camt_follows_mt940() -> None:
    before = state_after(closings(mt940(FIRST))[0])
    assert follows(before, begins(SECOND)).verdict == "next"


def test_a_page_follows_its_page_across_files() -> None:
    first = FIRST._replace(page=(1, False), balances="OPBD ITBD")
    last = Sheet([Booking(6)], opening=first.end, page=(2, True), balances="ITBD> CLBD")
    assert follows(state(first), begins(last)).verdict == "next"
    assert follows(state(first), begins(last._replace(page=(3, True), balances="CLBD"))).verdict == "gap"
    assert follows(state(first), begins(last._replace(opening=7))).verdict == "gap"
    assert "Page 2" in follows(state(first), begins(SECOND)).sentence
