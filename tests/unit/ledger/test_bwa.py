"""The line of the profit and loss that an account belongs to, at the edges of its spans."""

from __future__ import annotations

import pytest

from kontobahn.ledger.bwa import LINES, UNASSIGNED, Group, group_of, is_profit_and_loss


@pytest.mark.parametrize("skr", ["SKR03", "SKR04"])
def test_every_span_is_of_its_group_from_the_first_account_to_the_last(skr: str) -> None:
    for line in LINES:
        if isinstance(line, Group):
            for first, last in line.skr03 if skr == "SKR03" else line.skr04:
                for number in (first, last):
                    for konto in (f"{number}0000", f"{number}1234"):
                        assert group_of(skr, konto) == line.bezeichnung
                        assert is_profit_and_loss(skr, konto)


@pytest.mark.parametrize(
    ("skr", "konto", "belongs"),
    [
        ("SKR03", "19990000", False),
        ("SKR03", "20000000", True),
        ("SKR03", "39700000", False),
        ("SKR03", "39900000", True),
        ("SKR03", "69999999", True),
        ("SKR03", "70000000", False),
        ("SKR03", "80000000", True),
        ("SKR04", "39999999", False),
        ("SKR04", "79999999", True),
        ("SKR04", "80000000", False),
        ("SKR03", "840000000", False),  # a person account, whatever its digits
        ("SKR04", "440000000", False),
    ],
)
def test_the_result_is_made_of_ledger_accounts_of_profit_and_loss(skr: str, konto: str, belongs: bool) -> None:
    assert is_profit_and_loss(skr, konto) == belongs


def test_an_account_of_no_group_is_shown_as_such() -> None:
    assert group_of("SKR03", "44000000") == group_of("SKR04", "72500000") == UNASSIGNED
