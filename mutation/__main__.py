"""`python -m mutation [MODULE …]`: plants every fault, or a sample of them, and runs the tests that are about the module."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from mutation.faults import Fault, planted
from mutation.subjects import SUBJECTS, Subject

ROOT = Path(__file__).resolve().parent.parent
# What a hanging run may take, as a multiple of a run without a fault.
PATIENCE = 10


class Outcome(NamedTuple):
    fault: Fault
    noticed: bool
    was: str


def main() -> int:
    options = _options()
    names = options.modules or sorted(SUBJECTS)
    unknown = [name for name in names if name not in SUBJECTS]
    if unknown:
        raise SystemExit(f"There are no tests named for {', '.join(unknown)} in mutation/subjects.py.")
    worst = 100.0
    for name in names:
        outcomes = _try_module(name, SUBJECTS[name], options)
        noticed = sum(outcome.noticed for outcome in outcomes)
        share = 100 * noticed / len(outcomes) if outcomes else 100.0
        worst = min(worst, share)
        print(f"{name}: {noticed} of {len(outcomes)} noticed ({share:.0f} %)", flush=True)
        for outcome in outcomes:
            if not outcome.noticed:
                print(f"  {name}:{outcome.fault.line}: {outcome.fault.what} | {outcome.was}", flush=True)
    return 0 if worst >= options.least else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="one of mutation/subjects.py; all, if none is named"
    )
    parser.add_argument("--sample", type=int, help="at most so many faults a module, chosen by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--least", type=float, default=90, help="exit code 1 below this share noticed (%%)")
    return parser.parse_args()


def _try_module(name: str, subject: Subject, options: argparse.Namespace) -> list[Outcome]:
    source = (ROOT / "src" / "kontobahn" / name).read_bytes()
    chosen = list(planted(source))
    if options.sample and len(chosen) > options.sample:
        chosen = random.Random(options.seed).sample(chosen, options.sample)
    with tempfile.TemporaryDirectory(prefix="kontobahn-mutation-") as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.workers):
            trees.put(_copy(Path(folder) / str(number)))
        first = trees.get()
        started = time.monotonic()
        if not _passes(first, subject, None):
            raise SystemExit(f"{name}: its tests fail without any fault; nothing can be said.")
        patience = 30 + PATIENCE * (time.monotonic() - started)
        trees.put(first)

        def attempt(fault: Fault, changed: bytes) -> Outcome:
            tree = trees.get()
            try:
                (tree / "src" / "kontobahn" / name).write_bytes(changed)
                passes = _passes(tree, subject, patience)
            finally:
                (tree / "src" / "kontobahn" / name).write_bytes(source)
                trees.put(tree)
            was = source.splitlines()[fault.line - 1].decode().strip()
            return Outcome(fault, noticed=not passes, was=was)

        with ThreadPoolExecutor(options.workers) as pool:
            return list(pool.map(lambda one: attempt(*one), sorted(chosen)))


def _copy(place: Path) -> Path:
    for name in ("src", "tests", "docs", "bench", "torture"):
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "Makefile"):
        shutil.copy(ROOT / name, place / name)
    return place


def _passes(tree: Path, subject: Subject, patience: float | None) -> bool:
    """Whether all tests pass; a run that hangs does not."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        *subject.tests,
    ]
    if not subject.on_postgres:
        command += ["-k", "not postgres"]
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree}", "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command,
        cwd=tree,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(patience) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
