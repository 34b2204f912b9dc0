"""The figures that are published, in small: seeded clients and traps, through files and back. `make bench BENCH=matching` is the
whole of it."""

from __future__ import annotations

import random

from tests.matching import mixes
from tests.matching.hostile import TRAPS, make_traps
from tests.matching.judging import bank, figures, judge_traps, judge_world


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
