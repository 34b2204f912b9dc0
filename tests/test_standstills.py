"""The time in which a core stood still is told from the time in which a call was kept waiting by us."""

from __future__ import annotations

import os
import signal
import time

import pytest

from bench.standstills import Span, Standstills, apart_from
from tests.waiting import eventually, take_time


@pytest.mark.parametrize(
    ("standstills", "left"),
    [
        ([[], []], 10.0),
        ([[(12.0, 13.0), (15.0, 16.5)], []], 8.75),
        # Two cores at the same time.
        ([[(12.0, 14.0)], [(13.0, 15.0)]], 8.0),
        # It had begun before the call, or ended after it.
        ([[(8.0, 11.0), (19.0, 25.0)]], 8.0),
        ([[(8.0, 9.0), (21.0, 22.0)]], 10.0),
        ([[(5.0, 25.0)], [(5.0, 25.0)]], 0.0),
    ],
)
def test_a_wait_counts_without_the_standstills_in_it(standstills: list[list[Span]], left: float) -> None:
    assert apart_from((10.0, 20.0), standstills) == pytest.approx(left)


def test_a_process_that_was_kept_from_running_is_noted() -> None:
    with Standstills() as watch:
        watched = watch.processes[0]
        began = time.perf_counter()

        def kept_from_running() -> bool:
            """Held for a moment again and again, because it may not have begun to watch yet."""
            os.kill(watched.pid, signal.SIGSTOP)
            take_time(0.1)
            os.kill(watched.pid, signal.SIGCONT)
            return any(last - first >= 0.1 for first, last in watch.noted()[0])

        eventually(kept_from_running)
        assert all(began <= first < last <= time.perf_counter() for core in watch.noted() for first, last in core)
        assert watched.running
    assert not watched.running
