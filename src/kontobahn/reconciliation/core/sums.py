"""Which of a few open items make up an amount exactly, and whether only these do. Bounded."""

from __future__ import annotations

from collections.abc import Sequence

MOST_TOGETHER = 5
# With more open items a sum that fits says little: by chance others fit too.
MOST_ITEMS = 10
# Ways to pay several named items: each in full or less one of its discounts.
MOST_STATES = 4_096


def exact_sums(amounts: Sequence[int], target: int, most: int = MOST_TOGETHER, limit: int = 2) -> list[tuple[int, ...]]:
    """Returns up to `limit` combinations of two to `most` places whose amounts sum to the target."""
    found: list[tuple[int, ...]] = []

    def search(start: int, chosen: tuple[int, ...], left: int) -> None:
        if len(chosen) >= 2 and left == 0:
            found.append(chosen)
        if len(found) >= limit or len(chosen) == most:
            return
        for place in range(start, len(amounts)):
            search(place + 1, (*chosen, place), left - amounts[place])
            if len(found) >= limit:
                return

    search(0, (), target)
    return found


def exact_choice(options: Sequence[Sequence[int]], target: int, slack: int = 0) -> list[tuple[int, ...]]:
    """Chooses one amount of each list so that they sum to the target. Returns up to two choices, as places.

    Returns nothing if that would take too many states: then only a person can tell.
    """
    states: dict[int, list[tuple[int, ...]]] = {0: [()]}
    for amounts in options:
        after: dict[int, list[tuple[int, ...]]] = {}
        for total, choices in states.items():
            for place, amount in enumerate(amounts):
                kept = after.setdefault(total + amount, [])
                kept += [(*choice, place) for choice in choices[: 2 - len(kept)]]
        if len(after) > MOST_STATES:
            return []
        states = after
    found: list[tuple[int, ...]] = []
    for total in sorted(states, key=lambda total: abs(total - target)):
        if abs(total - target) > slack:
            break
        found += states[total]
    return found[:2]
