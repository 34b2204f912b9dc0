"""When a core stood still: a virtual machine may be kept from running for half a second at a time, and then nothing on it answers.

One small process on each core wakes every few milliseconds and notes when it woke too late. Linux lets a process that hardly runs go
first, however busy the core is, so what it notes is time in which nobody ran there.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Self

from bench import measure

_EVERY_SECONDS = 0.005
# The time that a busy core takes to let us go first.
_LATE_SECONDS = 0.05
Span = tuple[float, float]


class Standstills:
    """Watches the cores while its `with` block runs. Times are those of `time.perf_counter`, which all processes of a machine share."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._notes, self.processes = [], []
            for core in os.sched_getaffinity(0):
                notes = stack.enter_context(tempfile.TemporaryFile())
                process = measure.Process("-m", "bench.standstills", str(core), stdout=notes.fileno())
                self.processes.append(stack.enter_context(process))
                self._notes.append(notes)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stack.close()

    def noted(self) -> list[list[Span]]:
        """Those of each core that have ended by now."""
        return [_read(notes.fileno()) for notes in self._notes]


def _read(descriptor: int) -> list[Span]:
    text = os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode()
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines.pop()  # it is being written
    return [(float(first), float(last)) for first, last in map(str.split, lines)]


def apart_from(span: Span, standstills: Sequence[Sequence[Span]]) -> float:
    """The seconds of a span without the time in which the cores stood still: half of it while one of two did."""
    begin, end = span
    stood = sum(max(0.0, min(end, last) - max(begin, first)) for core in standstills for first, last in core)
    return end - begin - stood / len(standstills)


def main() -> None:
    os.sched_setaffinity(0, {int(sys.argv[1])})
    starter = os.getppid()
    while os.getppid() == starter:
        began = time.perf_counter()
        time.sleep(_EVERY_SECONDS)
        woke = time.perf_counter()
        if woke - began > _LATE_SECONDS:
            print(began, woke, flush=True)


if __name__ == "__main__":
    main()
