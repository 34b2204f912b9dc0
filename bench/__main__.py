"""Runs the benchmarks, or those named, prints one table, keeps what was found in bench/results and writes docs/performance.md.

Each script runs in a process of its own, one after the other, so that none warms up another. Ends with exit code 1 if a target
is missed or a script fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench import machine, measure, page
from bench.peers import express
from bench.report import HEAD, RESULTS, VARIABLE, Found, Run, add_run, aligned, line_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("scripts", nargs="*", help=f"which of {', '.join(page.PARTS)}; all, if none is named")
    parser.add_argument("--quick", action="store_true", help="short rounds and small sizes, for trying")
    options = parser.parse_args()
    for name in options.scripts:
        if name not in page.PARTS:
            parser.error(f"there is no benchmark {name}: choose from {', '.join(page.PARTS)}")
    if set(options.scripts or page.PARTS) & express.USED_BY:
        express.install()
    load, busy = (machine.load_average(), True) if options.quick else machine.settle()
    print(f"{machine.describe()}; load {load:.2f}{', busy' if busy else ''}", flush=True)
    lines, failed = [], []
    for name in options.scripts or page.PARTS:
        run = _run(name, load, busy=busy, quick=options.quick)
        if run is None:
            failed.append(name)
            continue
        lines += [[f"{name}: {cells[0]}", *cells[1:]] for cells in map(line_of, run.found.rows)]
        # At once: what was measured is kept, whatever happens to the next.
        add_run(name, run)
        page.write(RESULTS)
    print(f"\n{aligned(HEAD, lines)}\n")
    print(*(f"bench/{name}.py failed: see above." for name in failed), sep="\n")
    return int(bool(failed) or any(line[-1] == "MISSED" for line in lines))


def _run(name: str, load: float, *, busy: bool, quick: bool) -> Run | None:
    """Returns None if the script ended without a result."""
    # What others do now counts; the load average would tell of the script before.
    busy = busy or machine.share_in_use() >= machine.BUSY_SHARE
    print(f"\nbench/{name}.py{' (busy machine)' if busy else ''}", flush=True)
    started, theft, date = time.monotonic(), machine.Theft(), datetime.now(UTC).date().isoformat()
    with tempfile.TemporaryDirectory(prefix="kontobahn-bench-") as folder:
        result = Path(folder) / "result.json"
        subprocess.run(
            [sys.executable, "-m", f"bench.{name}", *(["--quick"] if quick else [])],
            cwd=measure.ROOT,
            env=measure.environment() | {VARIABLE: str(result)},
            check=False,
        )
        if not result.exists():
            return None
        found = msgspec.json.decode(result.read_bytes(), type=Found)
    seconds, stolen = round(time.monotonic() - started), round(theft.share(), 3)
    busy = busy or stolen >= machine.BUSY_STOLEN
    return Run(date, machine.describe(), round(load, 2), busy, quick, seconds, found, stolen)


if __name__ == "__main__":
    os.environ.pop(VARIABLE, None)
    sys.exit(main())
