"""VAT to the cent: the tax of the law, the sums of EN 16931 and the exact price, all at once."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kontobahn.mobility.invoices.rules import split_vat

RATES = (0, 7, 19)


def rounded(value: Fraction) -> int:
    """Rounds half up by another method than the code under test."""
    exact = Decimal(value.numerator) / Decimal(value.denominator)
    return int(exact.quantize(Decimal(1), ROUND_HALF_UP))


@given(prices=st.lists(st.integers(-99_999_999, 99_999_999), min_size=1, max_size=40), rate=st.sampled_from(RATES))
@settings(max_examples=300)
def test_every_sum_holds(prices: list[int], rate: int) -> None:
    gross, found = sum(prices), split_vat(prices, rate)
    assert found.vat == rounded(Fraction(gross * rate, 100 + rate)), "the tax in the sum of the prices, rounded once"
    assert found.vat == rounded(Fraction(found.net * rate, 100)), "BR-CO-17, to the letter"
    assert found.net + found.vat + found.rounding == gross
    assert abs(found.rounding) <= 1
    assert sum(found.line_nets) == found.net, "BR-CO-10"
    for price, net in zip(prices, found.line_nets, strict=True):
        assert abs(Fraction(price * 100, 100 + rate) - net) <= 1
        assert net == 0 or (net > 0) == (price > 0)


@given(prices=st.lists(st.integers(0, 99_999), min_size=1, max_size=20), rate=st.sampled_from(RATES))
@settings(max_examples=100)
def test_a_credit_reverses_what_the_invoice_charged(prices: list[int], rate: int) -> None:
    charged, credited = split_vat(prices, rate), split_vat([-price for price in prices], rate)
    assert (credited.net, credited.vat, credited.rounding) == (-charged.net, -charged.vat, -charged.rounding)


@pytest.mark.parametrize("rate", RATES)
def test_there_is_a_rounding_cent_only_if_no_net_amount_fits(rate: int) -> None:
    for gross in range(20 * (100 + rate)):  # it repeats with every 100 of net
        near = gross * 100 // (100 + rate)
        fits = any(net + rounded(Fraction(net * rate, 100)) == gross for net in range(near - 1, near + 3))
        assert (split_vat([gross], rate).rounding == 0) == fits, gross


def test_known_amounts() -> None:
    assert split_vat([11_900], 19)[:3] == (10_000, 1_900, 0)
    assert split_vat([5_985] * 21, 7)[:3] == (117_463, 8_222, 0)
    assert split_vat([10_500], 19)[:3] == (8_823, 1_676, 1)
    assert split_vat([1_000], 0)[:3] == (1_000, 0, 0)
    assert split_vat([100, 100, 100], 19).line_nets == [84, 84, 84]
    assert sum(split_vat([6_300] * 3, 7).line_nets) == 17_664
