"""A bank that checks payees may list only some payments of a file and count the others: what that says of those not listed."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.banking.payments.submissions import MATCH, _counted_as_match
from kontobahn.formats.statements import ReportedStatus

NO_MATCH = "RVNM"


def reported(status: str, level: Any = "transaction", **counts: int) -> ReportedStatus:
    return ReportedStatus(level, status, "M", None, None, None, None, (), counts=tuple(counts.items()))


@pytest.mark.parametrize(
    ("counts", "listed", "matched"),
    [
        ({"RCVC": 3}, {}, [1, 2, 3]),
        ({"RCVC": 2, "RVNM": 1}, {3: NO_MATCH}, [1, 2]),
        ({"RCVC": 3}, {3: MATCH}, [1, 2]),
        ({"RCVC": 2}, {}, []),
        ({"RCVC": 2, "RVNM": 1}, {}, []),
        ({"RCVC": 1, "RVNM": 2}, {3: NO_MATCH}, []),
        ({"RCVC": 2, "RVNM": 1}, {3: MATCH}, []),
    ],
)
def test_payments_that_are_not_listed_match_if_the_counts_say_so_of_each(
    counts: dict[str, int], listed: dict[int, str], matched: list[int]
) -> None:
    latest = {payment: reported(status) for payment, status in listed.items()}
    found, warning = _counted_as_match(reported("RVCM", "group", **counts), [1, 2, 3], latest)
    assert (found, warning is None) == (matched, bool(matched))
    if warning is not None:
        more = counts["RCVC"] - list(listed.values()).count(MATCH)
        assert str(warning.found) == f"It lists {len(listed)} of 3 payments and counts {more} more that match."


def test_fewer_matches_than_are_listed_are_told_as_none() -> None:
    latest = {1: reported(MATCH), 2: reported(MATCH)}
    found, warning = _counted_as_match(reported("RVCM", "group", RCVC=1), [1, 2, 3], latest)
    assert (found, warning is not None and "counts 0 more" in str(warning.found)) == ([], True)
