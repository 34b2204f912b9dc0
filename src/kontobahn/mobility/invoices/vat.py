"""Value added tax of a collective invoice, to the cent. Pure: cents in, cents out.

Ticket prices include the tax. For each rate it is taken out of the sum of the prices, as the law has it, and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Split(NamedTuple):
    """The prices of one rate: net + vat + rounding is their sum, and vat is net x rate, rounded to the cent."""

    net: int
    vat: int
    rounding: int
    # The share of the net sum that falls to each price, in their order.
    line_nets: list[int]


def split(prices: Sequence[int], rate: int) -> Split:
    gross = sum(prices)
    vat = _nearest(gross * rate, 100 + rate)
    net = gross - vat
    if _nearest(net * rate, 100) != vat:
        # No whole number of cents is a net sum that together with its own tax makes this gross sum. The tax stays what the law
        # says; the net sum is the nearest one of which it is the tax, and the cent between them is a rounding amount.
        net += 1 if net * rate < vat * 100 else -1
    return Split(net, vat, gross - vat - net, _share_out(prices, 100, 100 + rate, net))


def _nearest(numerator: int, denominator: int) -> int:
    """Half up, away from zero: as one rounds by hand, and the same for a credit as for what it takes back."""
    quotient, rest = divmod(abs(numerator), denominator)
    rounded = quotient + (2 * rest >= denominator)
    return rounded if numerator >= 0 else -rounded


def _share_out(prices: Sequence[int], numerator: int, denominator: int, total: int) -> list[int]:
    """Each price's exact net rounded down, and the cents that are left to those that lost most by it."""
    exact = [price * numerator for price in prices]
    shares = [value // denominator for value in exact]
    left = total - sum(shares)
    by_loss = sorted(range(len(prices)), key=lambda index: exact[index] % denominator, reverse=True)
    for index in by_loss[:left]:
        shares[index] += 1
    return shares
