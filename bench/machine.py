"""The machine that a run is measured on: what it is, and whether others use it."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

# Above these a run is marked: its ratios can be trusted less, its times not at all.
BUSY_LOAD, BUSY_SHARE, BUSY_STOLEN = 0.5, 0.1, 0.05
_PATIENCE_SECONDS = 240
_SAMPLE_SECONDS = 3.0


def describe() -> str:
    cores = os.cpu_count() or 1
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    model = _model()
    return (
        f"{cores} core{'s' if cores > 1 else ''}{f' ({model})' if model else ''}, {pages / 2**30:.0f} GB,"
        f" {platform.system()}, Python {platform.python_version()}"
    )


def _model() -> str:
    """The name that lscpu has for it, which knows more processors than /proc/cpuinfo does."""
    try:
        said = subprocess.run(["lscpu"], capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.CalledProcessError):
        return ""
    names = [line.partition(":")[2].strip() for line in said.stdout.splitlines() if line.startswith("Model name:")]
    return names[0].replace("(R)", "").replace("(TM)", "").replace("|", "/") if names else ""


def load_average() -> float:
    return os.getloadavg()[0]


def share_in_use(seconds: float = _SAMPLE_SECONDS) -> float:
    """The share of all cores that is used while we do nothing ourselves, from 0 to 1."""
    before = _ticks()
    time.sleep(seconds)
    after = _ticks()
    return _share(after.busy - before.busy, after.whole - before.whole)


class Theft:
    """A virtual machine is not given all the time of its cores: how much its host gave to others since this began."""

    def __init__(self) -> None:
        self._before = _ticks()

    def share(self) -> float:
        """From 0 to 1, of what we would have used."""
        after = _ticks()
        return _share(after.stolen - self._before.stolen, after.busy - self._before.busy)


class _Ticks(NamedTuple):
    """Of all cores; `busy` are those in use, with the stolen ones."""

    stolen: int
    busy: int
    whole: int


def _ticks() -> _Ticks:
    fields = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    return _Ticks(fields[7], sum(fields) - fields[3] - fields[4], sum(fields))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def settle() -> tuple[float, bool]:
    """Returns the load average, and whether the machine is busy.

    The average remembers a benchmark that ended a minute ago, so where nothing runs any more we wait until it has forgotten.
    """
    ends = time.monotonic() + _PATIENCE_SECONDS
    while load_average() > BUSY_LOAD and share_in_use() < BUSY_SHARE and time.monotonic() < ends:
        time.sleep(_SAMPLE_SECONDS)
    load = load_average()
    return load, load > BUSY_LOAD or share_in_use() >= BUSY_SHARE
