"""The order of tests in which each worker has its share of the long ones, and begins with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, TypeVar

T = TypeVar("T")


def dealt(long: Sequence[T], others: Sequence[T], workers: int, *, by: Callable[[T], Any]) -> list[T]:
    """Deals the groups of long ones to the workers in turn, and fills their shares up with the others.

    The scheduler gives each worker as many neighbours, and moves half of what one has left to another that has nothing more to
    do: a worker with all long tests would still be at them when the others are done.
    """
    hands: list[list[T]] = [[] for _ in range(workers)]
    for number, (_, group) in enumerate(groupby(long, key=by)):
        hands[number % workers] += group
    order: list[T] = []
    rest = list(others)
    for number, hand in enumerate(hands):
        left = len(long) + len(others) - len(order)
        short = max(0, left // (workers - number) - len(hand))
        order += [*hand, *rest[:short]]
        del rest[:short]
    return order + rest
