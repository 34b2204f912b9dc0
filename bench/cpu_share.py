"""Processes held to a share of a core each, as if they had slower machines of their own.

Where database, load and service share two cores, a second worker has no core to run on, and its figure says nothing about the
service. Held to a share that leaves cores idle, two workers have twice the processor time of one, as on a second machine.
Needs root and Linux's control groups.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
# Short, so that whoever waits for a process that has used up its share does not wait long.
PERIOD_MICROSECONDS = 4_000


class NoShares(Exception):
    """Processor time cannot be shared out here."""


@contextmanager
def held_to(share: float, pids: Iterable[int]) -> Iterator[None]:
    """Holds each of these processes, with all its threads, to this share of a core. Raises NoShares if that cannot be done here."""
    made: list[Path] = []
    try:
        for pid in pids:
            made.append(_make_group(f"kontobahn-bench-{os.getpid()}-{pid}", round(share * PERIOD_MICROSECONDS)))
            (made[-1] / "cgroup.procs").write_text(str(pid))
        yield
    except OSError as error:
        raise NoShares(f"no control groups for the processor: {error}") from error
    finally:
        for group in made:
            _end_group(group)


def _make_group(name: str, quota_microseconds: int) -> Path:
    if (_GROUPS / "cgroup.controllers").exists():
        (_GROUPS / "cgroup.subtree_control").write_text("+cpu")
        group = _GROUPS / name
        group.mkdir()
        (group / "cpu.max").write_text(f"{quota_microseconds} {PERIOD_MICROSECONDS}")
    else:
        group = _GROUPS / "cpu" / name
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
        (group / "cpu.cfs_quota_us").write_text(str(quota_microseconds))
    return group


def _end_group(group: Path) -> None:
    for pid in (group / "cgroup.procs").read_text().split():
        (group.parent / "cgroup.procs").write_text(pid)
    for _ in range(50):
        try:
            group.rmdir()
            return
        except OSError:
            time.sleep(0.02)
