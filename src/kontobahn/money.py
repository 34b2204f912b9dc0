"""Exact money. On the wire a JSON number, inside whole cents (``*_minor``); a float never comes into it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import cast

import msgspec

from kontobahn.sentences import said

CENT = Decimal("0.01")
MAX_AMOUNT = Decimal("999999999999.99")
MINUS = "−"
# Currencies that people write with a sign.
SIGNS = {"EUR": "€", "USD": "$", "GBP": "£"}


def euro(value: Decimal) -> Decimal:
    """Returns the amount with exactly two decimals. Raises ValueError, with the reason, if that would change it."""
    # Choice 8: two decimals for EUR; a third is refused, never rounded.
    if not value.is_finite():
        raise ValueError("must be a finite number")
    # Not `abs`, which calculates and fails on 1e99999999.
    if value.copy_abs() > MAX_AMOUNT:
        raise ValueError(said("must lie between {low} and {high}", low=-MAX_AMOUNT, high=MAX_AMOUNT))
    cents = value.quantize(CENT)
    if cents != value:
        raise ValueError("must have at most two decimals")
    return cents if cents else abs(cents)


def to_minor(value: Decimal) -> int:
    return int(euro(value).scaleb(2))


def from_minor(cents: int) -> Decimal:
    return Decimal(cents).scaleb(-2).quantize(CENT)


def allocate(cents: int, weights: Sequence[int]) -> list[int]:
    """Divides an amount by weights, exact to the cent: what rounding leaves goes to the largest remainders, the first of equal ones."""
    total, size = sum(weights), abs(cents)
    parts = [size * weight // total for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda place: -(size * weights[place] % total))
    for place in by_remainder[: size - sum(parts)]:
        parts[place] += 1
    return parts if cents >= 0 else [-part for part in parts]


def amount_text(cents: int) -> str:
    """An amount as it is written in JSON."""
    return f"{cents // 100}.{cents % 100:02d}" if cents >= 0 else f"-{-cents // 100}.{-cents % 100:02d}"


def to_wire(cents: int) -> Decimal:
    """An amount that will only be encoded: its JSON text, which costs a tenth of what a Decimal does."""
    return cast(Decimal, msgspec.Raw(amount_text(cents)))
