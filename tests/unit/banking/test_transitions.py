"""The table of a payment's transitions, and what a report does to a payment."""

from __future__ import annotations

import pytest

from kontobahn.banking.payments.transitions import FINAL, TRANSITIONS, Outcome, outcome_of
from kontobahn.banking.provider import PaymentReport, PaymentStatus


def test_nothing_follows_a_final_status() -> None:
    assert {"settled", "failed", "rejected"} == FINAL
    for before, following in TRANSITIONS.items():
        assert before not in following
        if before not in FINAL:
            assert {"settled", "failed", "rejected"} <= set(following)
    assert "initiated_info_required" in TRANSITIONS["authorizing"]
    assert "initiated_info_required" not in TRANSITIONS["authorized"]


@pytest.mark.parametrize(
    ("status", "report", "outcome"),
    [
        ("authorized", PaymentReport("executed", "ACSC"), "moved"),
        ("authorized", PaymentReport("authorized", "ACCP"), "noted"),
        ("authorized", PaymentReport("authorized", "ACTC"), "repeated"),
        ("authorized", PaymentReport("authorized"), "repeated"),
        ("authorized", PaymentReport("authorizing", "PATC"), "stale"),
        ("authorized", PaymentReport(None, "ZZZZ"), "noted"),
        ("authorized", PaymentReport(None), "not understood"),
        ("settled", PaymentReport(None, "ZZZZ"), "not understood"),
        ("settled", PaymentReport("executed", "ACSC"), "stale"),
        ("settled", PaymentReport("failed", "CANC"), "contradicts"),
    ],
)
def test_what_a_report_does(status: PaymentStatus, report: PaymentReport, outcome: Outcome) -> None:
    assert outcome_of(report, status, "ACTC") == outcome
