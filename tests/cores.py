"""The core that a process stays on."""

from __future__ import annotations

import os


def stay_on_one(number: int) -> None:
    """Keeps this process, its threads and whatever it starts on one core, which follows from the number.

    A test, its service and its database do little but wake each other: across the cores of a virtual machine that takes ten times as long.
    """
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})
