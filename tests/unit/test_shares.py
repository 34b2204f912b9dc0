"""Tests that take long are shared among the workers that run them side by side."""

from __future__ import annotations

import pytest

from tests.shares import dealt

LONG = ["a1", "a2", "b1", "c1", "c2", "d1"]
OTHERS = [f"x{number}" for number in range(40)]


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7])
def test_each_worker_begins_with_long_tests_and_each_runs_once(workers: int) -> None:
    order = dealt(LONG, OTHERS, workers, by=lambda name: name[0])
    assert sorted(order) == sorted(LONG + OTHERS)
    left, begins = len(order), []
    for number in range(workers):
        begins.append(order[len(order) - left])
        left -= left // (workers - number)
    assert begins[:4] == ["a1", "b1", "c1", "d1"][:workers]


def test_tests_of_a_module_stay_together() -> None:
    order = dealt(LONG, OTHERS, 4, by=lambda name: name[0])
    assert order.index("a2") == order.index("a1") + 1
    assert order.index("c2") == order.index("c1") + 1


def test_more_long_tests_than_a_share_holds_are_all_run() -> None:
    order = dealt(["a"] * 30 + ["b"], ["x"], 4, by=str)
    assert sorted(order) == [*["a"] * 30, "b", "x"]
