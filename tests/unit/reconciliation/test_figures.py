"""The figures that are published, in small: seeded clients and traps, through files and back. `make bench BENCH=matching` is the
whole of it."""

from __future__ import annotations

import random

from tests.matching import mixes
from tests.matching.hostile import TRAPS, make_traps
from tests.matching.judging import (
    bank,
    figures,
    judge_everyday,
    judge_impostors,
    judge_traps,
    judge_world,
)


def test_acting_alone_is_right_and_the_truth_stands_first() -> None:
    with bank() as read_back:
        verdicts = [
            verdict
            for seed, format in ((1, "camt"), (2, "mt940"))
            for verdict in judge_world(random.Random(seed), mixes.VERDICT, read_back, format, 40, 200)
        ]
        found = figures(verdicts)
        assert [v.event for v in verdicts if v.acted and not v.right] == []
        assert found.acted_of_counterparts >= 0.7 * found.counterparts
        assert found.first >= 0.92 * found.counterparts
        assert found.first_three >= 0.97 * found.counterparts
        hostile = judge_traps(make_traps(3, 20 * len(TRAPS)), read_back)
        assert [(v.kind, v.event.booking.text) for v in hostile if v.acted and not v.right] == []
        assert len({v.kind for v in hostile}) == len(TRAPS)


def test_payments_of_impostors_are_left_to_a_person_and_those_of_an_ordinary_day_are_not() -> None:
    with bank() as read_back:
        hostile = judge_impostors(11, 70, read_back)
        assert [(v.kind, v.event.booking.text, v.proposals[0].lines) for v in hostile if v.acted and not v.right] == []
        assert len({v.kind for v in hostile}) >= 33
        ordinary = judge_everyday(11, 120, read_back)
        found = figures(ordinary)
        assert [(v.kind, v.event.booking.text) for v in ordinary if v.acted and not v.right] == []
        assert found.acted >= 0.75 * found.all
        assert found.first >= 0.92 * found.counterparts
