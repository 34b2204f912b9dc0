"""The findings that a benchmark hands over: its lines, the curves of what grows, further tables; and what is kept of a run.

A script ends with `finish`. Run by itself it prints its table; run by `make bench` it writes a file that the runner reads.
bench/results/ has a file for each script with its last two runs, from which bench/page.py writes docs/performance.md.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.measure import Row

RESULTS = Path(__file__).resolve().parent / "results"
# Tells a script where to write what it found.
VARIABLE = "BENCH_RESULT"
KEPT = 2
VERDICTS = {True: "met", False: "MISSED", None: ""}


class Series(msgspec.Struct, frozen=True):
    """Seconds at each size of its curve, None at a size that was not asked. Ours comes first in a curve."""

    name: str
    seconds: list[float | None]


class Curve(msgspec.Struct, frozen=True):
    # Of its picture, docs/pictures/growth-NAME.svg.
    name: str
    title: str
    # The things counted: "bookings".
    what: str
    sizes: list[int]
    series: list[Series]


class Table(msgspec.Struct, frozen=True):
    name: str
    head: list[str]
    lines: list[list[str]]


class Found(msgspec.Struct, frozen=True):
    rows: list[Row]
    curves: list[Curve] = []
    tables: list[Table] = []


class Run(msgspec.Struct, frozen=True):
    """`load` is the load average at the start, None for figures that were once noted by hand; `stolen` the share of its time that
    the host of a virtual machine gave to others meanwhile."""

    date: str
    machine: str
    load: float | None
    busy: bool
    short: bool
    seconds: int
    found: Found
    stolen: float = 0.0


def finish(rows: Sequence[Row], curves: Sequence[Curve] = (), tables: Sequence[Table] = ()) -> int:
    """Prints or hands over what was found. Returns the exit code: 1 if a target is missed."""
    found = Found(list(rows), list(curves), list(tables))
    if target := os.environ.get(VARIABLE):
        Path(target).write_bytes(msgspec.json.encode(found))
    else:
        print_found(found)
    return int(any(row.met is False for row in rows))


def print_found(found: Found) -> None:
    for table in found.tables:
        print(f"\n{table.name}\n{aligned(table.head, table.lines)}")
    print(f"\n{aligned(HEAD, map(line_of, found.rows))}")


HEAD = ("question", "ours", "beside it", "ratio", "target", "")


def line_of(row: Row) -> list[str]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return [row.question, row.ours, row.beside, ratio, row.target, VERDICTS[row.met]]


def aligned(head: Sequence[str], lines: Sequence[Sequence[str]] | map[list[str]]) -> str:
    """A table in Markdown that can be read as it is."""
    cells = [[cell.replace("|", "\\|") for cell in line] for line in (head, *lines)]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    texts = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in cells]
    return "\n".join([texts[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *texts[1:]])


def load_runs(name: str, folder: Path = RESULTS) -> list[Run]:
    """The newest first."""
    path = folder / f"{name}.json"
    return msgspec.json.decode(path.read_bytes(), type=list[Run]) if path.exists() else []


def add_run(name: str, run: Run, folder: Path = RESULTS) -> None:
    """Keeps the last two. A short run is kept only as long as there are not two full ones."""
    runs = [run, *load_runs(name, folder)]
    full = [item for item in runs if not item.short][:KEPT]
    short = [item for item in runs if item.short][: KEPT - len(full)]
    kept = [item for item in runs if item in full or item in short]
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
