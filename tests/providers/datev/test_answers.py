"""Answers of DATEV at once, taken apart: months of a trial balance, the sides of amounts, and refusals."""

from __future__ import annotations

from decimal import Decimal

import pytest

from kontobahn.datev.master_data import MonthValue, SumsAndBalances, susa_line, turnover
from kontobahn.datev.requests import HELP, failure
from kontobahn.ledger.errors import ProviderError
from kontobahn.outbound import Reply


def row(**values: object) -> SumsAndBalances:
    return SumsAndBalances(accountNumber=84000000, **values)  # type: ignore[arg-type]


def test_the_months_of_an_account_are_those_of_the_contract_in_their_order() -> None:
    months = [MonthValue(number, Decimal(number), "H") for number in (14, 15, 1, 0, 12)]
    assert turnover(row(sumsAndBalancesMonthValues=months)).months == [(1, -1_00), (12, -12_00), (14, -14_00)]


@pytest.mark.parametrize(
    ("debit", "credit", "opening"), [(None, None, None), ("1.50", None, 150), (None, "2.00", -200), ("0", "0", 0)]
)
def test_an_opening_balance_is_there_if_either_side_is(
    debit: str | None, credit: str | None, opening: int | None
) -> None:
    sides = {"openingBalanceDebit": debit, "openingBalanceCredit": credit}
    made = turnover(row(**{name: Decimal(value) for name, value in sides.items() if value is not None}))
    assert made.opening == opening
    assert (susa_line(made).ebWert is None) == (opening is None)


def test_a_side_that_is_none_is_no_amount() -> None:
    assert turnover(row(balance=Decimal(5), balanceDebitCreditIdentifier="H")).balance == -5_00
    with pytest.raises(ProviderError, match="names a side"):
        turnover(row(balance=Decimal(5), balanceDebitCreditIdentifier="X"))


@pytest.mark.parametrize(("status", "url"), [(302, ""), (400, HELP), (499, HELP), (500, ""), (503, "")])
def test_only_a_refusal_leads_to_a_page_of_datev(status: int, url: str) -> None:
    assert failure(Reply(status, {}, b"")).help_url == url
