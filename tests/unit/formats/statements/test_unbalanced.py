"""Statements that do not add up: refused with the figures, or taken with a warning if that is asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kontobahn.formats.statements import Closing, StatementWarning
from tests.statement_builder import Booking, Sheet, camt, mt940
from tests.unit.formats.statements.reading import closings, entries, read_all, refused

WRONG = Sheet([Booking(5), Booking(-7)], opening=100, closing=90)
FIGURES = "1.00 at the beginning and -0.02 in 2 entries make 0.98 EUR, but the statement closes with 0.90"


@pytest.mark.parametrize("write", [camt, mt940])
def test_balances_that_do_not_add_up_are_refused_unless_asked_for(write: Callable[..., bytes]) -> None:
    data = write(WRONG)
    error = refused(data)
    assert FIGURES in error.sentence
    assert "--unbalanced" in error.sentence
    warning, closing = read_all(data, unbalanced=True)[-2:]
    assert isinstance(warning, StatementWarning)
    assert isinstance(closing, Closing)
    assert warning.place.startswith("statement ")
    assert FIGURES in warning.found
    assert closing.balance is not None
    assert (closing.adds_up, closing.balance.amount_minor, closing.moved_minor) == (False, 90, -2)
    assert len(entries(data, unbalanced=True)) == 2


@pytest.mark.parametrize("write", [camt, mt940])
def test_what_adds_up_is_not_warned_about(write: Callable[..., bytes]) -> None:
    data = write(WRONG._replace(closing=None))
    assert read_all(data, unbalanced=True) == read_all(data)
    assert [closing.adds_up for closing in closings(data)] == [True]
