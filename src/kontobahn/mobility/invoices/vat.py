"""Value added tax of a collective invoice, to the cent. Pure: cents in, cents out.

Ticket prices include the tax. For each rate it is extracted from the sum of the prices, as the law requires, and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Split(NamedTuple):
    """The prices of one rate: net + vat + rounding is their sum, and vat is net x rate, rounded to the cent."""

    net: int
    vat: int
    rounding: int
    # Each price's share of the net sum, in the order of the prices.
    line_nets: list[int]


def split(prices: Sequence[int], rate: int) -> Split:
    gross = sum(prices)
    vat = _round_quotient(gross * rate, 100 + rate)
    net = gross - vat
    if _round_quotient(net * rate, 100) != vat:
        # No net sum in whole cents adds up to this gross sum together with its own tax. The tax stays what the law says; the net
        # sum becomes the nearest one that has this tax, and the missing cent is a rounding amount.
        net += 1 if net * rate < vat * 100 else -1
    return Split(net, vat, gross - vat - net, _share_out(prices, 100, 100 + rate, net))


def _round_quotient(numerator: int, denominator: int) -> int:
    """Rounds half away from zero, so that a credit is rounded like the charge that it reverses."""
    quotient, rest = divmod(abs(numerator), denominator)
    rounded = quotient + (2 * rest >= denominator)
    return rounded if numerator >= 0 else -rounded


def _share_out(prices: Sequence[int], numerator: int, denominator: int, total: int) -> list[int]:
    """Rounds each exact net price down and gives the remaining cents to those that lost most by it."""
    exact = [price * numerator for price in prices]
    shares = [value // denominator for value in exact]
    left = total - sum(shares)
    by_loss = sorted(range(len(prices)), key=lambda index: exact[index] % denominator, reverse=True)
    for index in by_loss[:left]:
        shares[index] += 1
    return shares
