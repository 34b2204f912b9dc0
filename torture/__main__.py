"""Runs every trial under fault, one after the other, prints one table and writes docs/reliability.md.

    python -m torture                          everything: some hours
    python -m torture --short                  some minutes, and the page stays as it is
    python -m torture --only "full disk" clock

Ends with exit code 1 if one of them does not hold.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime

from bench import machine
from bench.report import aligned
from torture import page
from torture.page import Result
from torture.trials import Trial, present

MAX_SECONDS = 3 * 3600
# Of what it printed, the end.
MAX_LINES = 40


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m torture", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="small numbers, and only the trials that can be short")
    parser.add_argument("--only", nargs="+", metavar="TRIAL", help="the names of trials, as in the table")
    chosen = parser.parse_args()
    trials = [trial for trial in present() if not chosen.short or trial.short is not None]
    if chosen.only:
        names = {trial.name for trial in trials}
        if unknown := set(chosen.only) - names:
            parser.error(f"there is no trial {', '.join(sorted(unknown))}: choose from {', '.join(sorted(names))}")
        trials = [trial for trial in trials if trial.name in chosen.only]
    rows, failed = [], False
    for trial in trials:
        result = run(trial, short=chosen.short)
        failed |= bool(result.code)
        lines = result.output.splitlines()
        rows.append([trial.name, result.verdict, f"{result.seconds} s", lines[-1] if lines else ""])
        if not chosen.short:
            # At once: what was found is kept, whatever happens to the next.
            page.keep(trial, result)
            page.write()
    print(f"\n{aligned(['trial', 'result', 'took', 'said last'], rows)}")
    return 1 if failed else 0


def run(trial: Trial, *, short: bool) -> Result:
    """Runs it in a process of its own, and shows what it prints as it comes."""
    arguments = shlex.split((trial.short or "") if short else trial.arguments)
    load, began, today = machine.load_average(), time.monotonic(), datetime.now(UTC).date().isoformat()
    command = trial.command(short=short)
    print(f"\n{command}", flush=True)
    with subprocess.Popen(
        [sys.executable, "-m", f"torture.{trial.module}", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        bound = threading.Timer(MAX_SECONDS, process.kill)
        bound.start()
        lines = []
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip())
        bound.cancel()
        code = process.wait()
    return Result(
        date=today, machine=machine.describe(), load=round(load, 2), seconds=round(time.monotonic() - began), code=code,
        command=command, output="\n".join(lines[-MAX_LINES:]),
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
