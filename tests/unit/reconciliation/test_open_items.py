"""The open items of a client: found by account and amount, reduced as they are paid; and the discounts and sums that settle them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kontobahn.reconciliation.core.model import (
    Discount,
    Line,
    OpenItems,
    discount_taken,
    discounts_on,
    exact_choice,
    exact_sums,
    lines_for,
    payments_of,
    same_way,
)
from tests.unit.reconciliation.client import ANNA, BERT, DAY, item


def test_items_are_found_by_amount_in_an_account_or_in_all() -> None:
    mine, his = item("1"), item("2", konto=BERT.konto)
    more = [item("3", 5), item("4", 5, BERT.konto), item("5", 5, BERT.konto), item("6", 7)]
    items = OpenItems([mine, his, *more])
    assert items.with_amount(11_900, DAY) == [mine, his]
    assert items.with_amount(11_900, DAY, most=1) == [mine]
    assert items.with_amount(11_900, DAY, ANNA.konto) == [mine]
    assert items.with_amount(5, DAY, ANNA.konto) == [more[0]]
    assert items.with_amount(5, DAY, BERT.konto) == more[1:3]
    assert items.with_amount(5, DAY, BERT.konto, most=1) == more[1:2]
    assert items.with_amount(5, DAY - timedelta(11)) == items.of(BERT.konto, DAY - timedelta(11), 9) == []
    assert items.with_amount(7, DAY, BERT.konto) == items.with_amount(8, DAY) == []


def test_a_payment_reduces_an_item_and_what_is_given_back_opens_it_again() -> None:
    one, twin = item("1"), item("2")
    items = OpenItems([one, twin])

    def found() -> tuple[list[str], list[str], list[str]]:
        return (
            [it.beleg for it in items.with_amount(11_900, DAY)],
            [it.beleg for it in items.with_amount(1_900, DAY, ANNA.konto)],
            [it.beleg for it in items.of(ANNA.konto, DAY, 9)],
        )

    items.reduce(one.key, 10_000)
    assert found() == (["2"], ["1"], ["2", "1"])
    items.reduce(one.key, 1_900)
    assert found() == (["2"], [], ["2"])
    assert items.with_amount(0, DAY, ANNA.konto) == []
    items.reduce(one.key, -11_900)
    assert found() == (["2", "1"], [], ["2", "1"])
    items.reduce(("none", "1"), 5)
    assert len(list(items)) == 2


def test_the_first_of_two_items_of_one_document_counts() -> None:
    assert [it.open_minor for it in OpenItems([item("1", 5), item("1", 7)])] == [5]


@pytest.mark.parametrize(
    ("one", "other", "same"), [(1, 1, True), (-1, -1, True), (1, -1, False), (0, 1, False), (-1, 0, False)]
)
def test_amounts_go_the_same_way_if_both_come_in_or_both_go_out(one: int, other: int, same: bool) -> None:
    assert same_way(one, other) == same


@pytest.mark.parametrize("sign", [1, -1])
def test_a_discount_is_more_than_nothing_and_less_than_what_is_open(sign: int) -> None:
    terms = tuple(Discount(DAY, "2", amount) for amount in (0, 1, 11_899, 11_900, 11_901))
    owed = item("1", sign * 11_900, discounts=terms)
    assert discounts_on(owed, DAY) == [sign * 1, sign * 11_899]
    assert payments_of(owed, DAY) == [sign * 11_900, sign * 11_899, sign * 1]


@pytest.mark.parametrize(("late", "in_time"), [(0, True), (3, True), (4, False)])
def test_a_discount_has_three_days_of_grace(late: int, in_time: bool) -> None:
    owed = item("1", discounts=(Discount(DAY, "2", 238),))
    day = DAY + timedelta(late)
    assert discounts_on(owed, day) == [238] * in_time
    assert discounts_on(owed, day, late=True) == [238] * (not in_time)
    assert discount_taken(owed, 11_662, day) == (238 if in_time else None)


def test_the_lines_of_a_discount_settle_the_item() -> None:
    owed = item("1", -11_900)
    assert lines_for(owed, -11_662, -238) == (
        Line("item", owed.konto, "1", -11_900),
        Line("skonto", owed.konto, "1", 238),
    )


def test_two_to_five_amounts_make_a_sum_and_two_ways_are_told() -> None:
    assert exact_sums([1, 2, 4, 8, 16, 32], 31) == [(0, 1, 2, 3, 4)]
    assert exact_sums([1, 2, 4, 8, 16, 32], 63) == exact_sums([5, 9], 5) == exact_sums([5, 9], 15) == []
    assert exact_sums([1, 1, 1], 2) == [(0, 1), (0, 2)]
    assert exact_sums([5, -5, 3, -3], 0) == [(0, 1), (0, 1, 2, 3)]


def test_a_choice_may_miss_the_sum_by_its_slack_the_nearest_first() -> None:
    options = [[100, 98], [50, 49]]
    assert exact_choice(options, 150) == [(0, 0)]
    assert exact_choice(options, 146) == []
    assert exact_choice(options, 146, slack=1) == [(1, 1)]
    assert exact_choice(options, 148, slack=1) == [(1, 0), (0, 1)]
    assert exact_choice(options, -150, slack=1) == []
    assert exact_choice([[100, 99, 98]], 99, slack=1) == [(1,), (0,)], "two of three"
    assert exact_choice([[5, 5, 5], [1, 1]], 6) == [(0, 0), (1, 0)]
