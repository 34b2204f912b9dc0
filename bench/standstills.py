"""When a core stood still: a virtual machine may be kept from running for half a second at a time, and then nothing on it answers.

One small process on each core wakes every few milliseconds and notes when it woke too late. Linux lets a process that hardly runs go
first, however busy the core is, so what it notes is time in which nobody ran there.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Self

from bench import measure

_EVERY_SECONDS = 0.005
# What a busy core takes to let us go first.
_LATE_SECONDS = 0.05
Span = tuple[float, float]


class Standstills:
    """Watches the cores while its `with` block runs. Times are those of `time.perf_counter`, which all processes of a machine share."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._notes = stack.enter_context(tempfile.TemporaryFile())
            self.processes = [
                stack.enter_context(measure.Process("-m", "bench.standstills", str(core), stdout=self._notes.fileno()))
                for core in os.sched_getaffinity(0)
            ]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stack.close()

    def noted(self) -> list[Span]:
        """Those that have ended by now."""
        lines = os.pread(self._notes.fileno(), os.fstat(self._notes.fileno()).st_size, 0).decode()
        found = (line.split() for line in lines.splitlines())
        return [(float(first), float(last)) for first, last in found]


def apart_from(span: Span, standstills: Iterable[Span]) -> float:
    """The seconds of a span in which no core stood still."""
    begin, end = span
    left, reached = 0.0, begin
    for first, last in sorted(standstills):
        if last > reached and first < end:
            left += max(0.0, first - reached)
            reached = last
    return left + max(0.0, end - reached)


def main() -> None:
    os.sched_setaffinity(0, {int(sys.argv[1])})
    starter = os.getppid()
    while os.getppid() == starter:
        began = time.perf_counter()
        time.sleep(_EVERY_SECONDS)
        woke = time.perf_counter()
        if woke - began > _LATE_SECONDS:
            # One write of one line: the processes share a file.
            os.write(sys.stdout.fileno(), f"{began} {woke}\n".encode())


if __name__ == "__main__":
    main()
