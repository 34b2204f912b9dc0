"""The table of a payment's transitions, whole, and what a report does to a payment."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from kontobahn.banking.payments.rules import AWAITING_PAYER, FINAL, STATUS_BY_ISO_CODE, TRANSITIONS, Outcome, outcome_of
from kontobahn.banking.provider import PaymentReport, PaymentStatus
from tests.payment_table import ISO_CODES, MEANING, STATUSES, documented

OUTCOMES = {"→": "moved", "=": "repeated", ".": "stale", "!": "contradicts"}


def test_the_table_is_that_of_the_specification() -> None:
    assert set(STATUSES) == set(get_args(PaymentStatus))
    moves = {before: [after for after in STATUSES if MEANING[before, after] == "→"] for before in STATUSES}
    assert documented() == {before: following for before, following in moves.items() if following}
    assert {before: sorted(following) for before, following in TRANSITIONS.items()} == {
        before: sorted(following) for before, following in moves.items()
    }
    assert {"settled", "failed", "rejected"} == FINAL
    assert {"initiated", "initiated_info_required", "authorizing"} == AWAITING_PAYER
    assert STATUS_BY_ISO_CODE == ISO_CODES


def test_every_report_on_every_status_does_what_the_table_says() -> None:
    for before, reported in product(STATUSES, STATUSES):
        expected = OUTCOMES[MEANING[before, reported]]
        for code in (None, "OLD"):
            assert outcome_of(PaymentReport(reported, code), before, "OLD") == expected, (before, reported)
        # The same status with another code of the bank's is worth noting; nothing else depends on the code.
        expected = "noted" if expected == "repeated" else expected
        assert outcome_of(PaymentReport(reported, "NEW"), before, "OLD") == expected, (before, reported)
        assert outcome_of(PaymentReport(reported, "NEW"), before, None) == expected, (before, reported)


@pytest.mark.parametrize("before", STATUSES)
def test_what_we_do_not_understand_decides_nothing(before: PaymentStatus) -> None:
    new: Outcome = "not understood" if before in ("settled", "failed", "rejected") else "noted"
    assert outcome_of(PaymentReport(None, "ZZZZ"), before, "ACTC") == new
    assert outcome_of(PaymentReport(None, "ZZZZ"), before, "ZZZZ") == "not understood"
    assert outcome_of(PaymentReport(None), before, "ACTC") == "not understood"
