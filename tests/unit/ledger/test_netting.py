"""What an opening balance holds beyond the documents is netted against those of the opposite sign, the oldest first, to the cent."""

from __future__ import annotations

import pytest

from kontobahn.ledger.opos import EB_RESIDUAL, Item, Rest, reconcile


def item(beleg: str, soll: int, haben: int, day: int) -> Item:
    return Item(beleg, soll, haben, f"2026-01-{day:02d}", beleg)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (300, {"OLD": 0, "NEW": -500, "PART": -70, "SAME": 50}),
        (299, {"OLD": -1, "NEW": -500, "PART": -70, "SAME": 50}),
        (700, {"OLD": 0, "NEW": -100, "PART": -70, "SAME": 50}),
        (801, {"OLD": 0, "NEW": 0, "PART": -70, "SAME": 50, EB_RESIDUAL: 1}),
        (0, {"OLD": -300, "NEW": -500, "PART": -70, "SAME": 50}),
    ],
)
def test_the_oldest_is_netted_first_and_the_remainder_is_an_item(
    sign: int, rest: int, expected: dict[str, int]
) -> None:
    """PART has movements on both sides, so it is not what was carried; SAME has the sign of the rest."""
    items = [item("NEW", 0, 500, 20), item("OLD", 0, 300, 10), item("PART", 30, 100, 1), item("SAME", 50, 0, 2)]
    if sign < 0:
        items = [each._replace(soll=each.haben, haben=each.soll) for each in items]
    found = reconcile(items, Rest(sign * rest, "2026-01-01", "Saldovortrag"))
    assert {each.beleg: sign * each.saldo for each in found} == expected
    assert sum(each.saldo for each in found) == sum(each.saldo for each in items) + sign * rest
