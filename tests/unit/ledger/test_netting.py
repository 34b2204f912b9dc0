"""The part of an opening balance beyond the documents is netted against those of the opposite sign, the oldest first, to the cent."""

from __future__ import annotations

from datetime import date

import pytest
from msgspec import json

from kontobahn.ledger.opos import (
    EB_RESIDUAL,
    RAW_EB_BELEG,
    Item,
    OpeningLeg,
    Rest,
    assemble,
    open_konto,
    raw,
    reconcile,
    twins,
)  # fmt: skip


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


@pytest.mark.parametrize("sign", [1, -1])
def test_a_cent_is_netted_as_any_amount(sign: int) -> None:
    owed = item("OLD", 0, 1, 10) if sign > 0 else item("OLD", 1, 0, 10)
    assert [each.saldo for each in reconcile([owed], Rest(sign, "2026-01-01", ""))] == [0]


@pytest.mark.parametrize("sign", [1, -1])
def test_as_they_are_opening_balances_are_a_document_with_the_legs_of_its_number(sign: int) -> None:
    other, opening = item("RE-1", 500, 0, 3), item(RAW_EB_BELEG, 70, 30, 2)
    later, earlier = Rest(sign * 100, "2026-01-05", "Vortrag"), Rest(sign * 100, "2026-01-01", "Vortrag")
    soll, haben = (100, 0) if sign > 0 else (0, 100)
    assert raw([other], later) == [other, Item(RAW_EB_BELEG, soll, haben, "2026-01-05", "Vortrag")]
    together = Item(RAW_EB_BELEG, 70 + soll, 30 + haben, "2026-01-02", RAW_EB_BELEG)
    assert raw([opening, other], later) == [other, together]
    assert raw([opening, other], earlier) == [other, together._replace(belegdatum="2026-01-01", buchungstext="Vortrag")]


def test_an_account_shows_what_has_a_balance_the_largest_first() -> None:
    items = [
        item("A", 100, 30, 1),
        item("B", 500, 500, 2),
        item("C", 50, 350, 3),
        item("D", 0, 70, 4),
        item("E", 1_000, 990, 5),
    ]
    found = open_konto("100010000", items)
    assert found is not None
    assert found[:2] == ("100010000", -290)
    wire = json.decode(f"{{{found[2]}")
    assert [(one["beleg"], one["saldo"]) for one in wire["posten"]] == [
        ("C", -3.0),
        ("A", 0.7),
        ("D", -0.7),
        ("E", 0.1),
    ]
    assert (wire["isDebitor"], wire["totalSaldo"]) == (True, -2.9)
    assert open_konto("700000000", [item("B", 500, 500, 2)]) is None


def test_accounts_are_listed_by_their_balance_and_summed_by_side() -> None:
    amounts = {"699999999": 100, "700000000": -30, "100010000": -20, "700010000": 900}
    konten = [open_konto(konto, [item("A", max(amount, 0), max(-amount, 0), 1)]) for konto, amount in amounts.items()]
    found = assemble(date(2026, 1, 31), [konto for konto in konten if konto is not None], {"699999999": "Anna"})
    wire = json.decode(json.encode(found))
    assert (wire["sumDebitoren"], wire["sumKreditoren"]) == (0.8, 8.7)
    assert [(one["kontonummer"], one["bezeichnung"]) for one in wire["konten"]] == [
        ("700010000", ""), ("699999999", "Anna"), ("700000000", ""), ("100010000", ""),
    ]  # fmt: skip


def leg(booking: int, betrag: int, *, is_reversal: bool = False) -> OpeningLeg:
    return OpeningLeg("2026-01-01", booking, betrag, "90000000", "EB", int(is_reversal))


@pytest.mark.parametrize(("before", "twin"), [(100, 2), (1, 2), (0, 2), (-1, 1), (-100, 1)])
def test_of_a_pair_the_leg_against_the_earlier_balance_is_the_twin(before: int, twin: int) -> None:
    """Without any it is the later one."""
    assert twins([leg(1, 500), leg(2, -500)], 0, before, has_history=True) == ({twin} if before else set())
    assert twins([leg(1, 500), leg(2, -500)], 0, before, has_history=False) == {twin}


def test_a_leg_that_was_reversed_is_no_half_of_a_pair_and_any_other_still_is() -> None:
    pair = [leg(1, 500), leg(2, -500)]
    assert twins([*pair, leg(3, 500, is_reversal=True)], 500, 100, has_history=True) == set()
    assert twins([*pair, leg(3, 700), leg(4, -700, is_reversal=True)], 0, 100, has_history=True) == {2}
    assert twins([*pair, leg(3, -500), leg(4, 500, is_reversal=True)], 0, 100, has_history=True) == {2}, "the last one"
