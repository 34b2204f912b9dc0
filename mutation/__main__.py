"""`python -m mutation [MODULE …]`: plants every fault, or a sample of them, and runs the tests that are about the module."""

from __future__ import annotations

import argparse
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from mutation import excused
from mutation.faults import Fault, planted
from mutation.subjects import LOCKS, SUBJECTS, Subject
from mutation.trial import Job, Unplantable, statement_of
from tests.shared_services import FRESH

# So many faults of a module are tried, others each week.
SAMPLE = 10
ROOT = Path(__file__).resolve().parent.parent
# The seconds after which a run of all tests of a module hangs.
HANGS = 900
_LOCK = re.compile(r"not called: (?:\w+\.)*(?:lock|lock_years|begin_change)")


class Planted(NamedTuple):
    """A fault in a module."""

    name: str
    fault: Fault


def main() -> int:
    options = _options()
    print(f"Seed {options.seed}: the same again with --seed {options.seed}.", flush=True)
    if options.locks:
        return _try_locks(options)
    names = options.modules or sorted(SUBJECTS)
    unknown = [name for name in names if name not in SUBJECTS]
    if unknown:
        raise SystemExit(f"There are no tests named for {', '.join(unknown)} in mutation/subjects.py.")
    worst = 100.0
    for subject, group in groupby(sorted(names, key=lambda name: SUBJECTS[name]), key=lambda name: SUBJECTS[name]):
        chosen = {name: _choose(name, options) for name in group}
        verdicts = _try_all(subject, chosen, options)
        for name, faults in chosen.items():
            worst = min(worst, _report(name, {fault: verdicts[Planted(name, fault)] for fault in faults}))
    return 0 if worst >= options.least else 1


def week_of(day: date) -> int:
    """The seed of a day: year and week, 202647."""
    year, week, _ = day.isocalendar()
    return year * 100 + week


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="one of mutation/subjects.py; all, if none is named"
    )
    parser.add_argument("--sample", type=int, default=SAMPLE, help="at most so many faults a module; 0 for all of them")
    parser.add_argument("--seed", type=int, default=week_of(date.today()), help="chooses the sample; that of the week")
    parser.add_argument("--lines", help="only faults in these lines, as 12,40-60")
    parser.add_argument("--locks", action="store_true", help="only forgotten locks, but of every module")
    parser.add_argument("--verbose", action="store_true", help="tell each fault as soon as it was tried")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--least", type=float, default=90, help="exit code 1 below this share noticed (%%)")
    return parser.parse_args()


def _try_locks(options: argparse.Namespace) -> int:
    """Forgets every lock of every module, one at a time."""
    options.sample = 0
    chosen = {}
    for path in sorted((ROOT / "src" / "kontobahn").rglob("*.py")):
        name = str(path.relative_to(ROOT / "src" / "kontobahn"))
        found = [fault for fault in _choose(name, options) if _LOCK.fullmatch(fault.what)]
        if found:
            chosen[name] = found
    verdicts = _try_all(LOCKS, chosen, options)
    shares = [_report(name, {fault: verdicts[Planted(name, fault)] for fault in chosen[name]}) for name in chosen]
    return 0 if min(shares) >= options.least else 1


def _path(name: str, root: Path = ROOT) -> Path:
    return root / "src" / "kontobahn" / name


def _choose(name: str, options: argparse.Namespace) -> list[Fault]:
    source = _path(name).read_bytes()
    lines, excuses = source.decode().splitlines(), excused.read()
    chosen = [fault for fault, _ in planted(source) if not any(excuse.covers(name, fault, lines) for excuse in excuses)]
    if options.lines:
        spans = [span.split("-") for span in options.lines.split(",")]
        chosen = [fault for fault in chosen if any(int(span[0]) <= fault.line <= int(span[-1]) for span in spans)]
    if options.sample and len(chosen) > options.sample:
        chosen = sorted(random.Random(options.seed).sample(chosen, options.sample))
    return chosen


def _report(name: str, verdicts: dict[Fault, str]) -> float:
    """Prints what was not noticed, and returns the share that was."""
    lines = _path(name).read_text().splitlines()
    missed = {fault: verdict for fault, verdict in verdicts.items() if verdict not in ("noticed", "hung")}
    noticed = len(verdicts) - len(missed)
    share = 100 * noticed / len(verdicts) if verdicts else 100.0
    print(f"{name}: {noticed} of {len(verdicts)} noticed ({share:.0f} %)", flush=True)
    for fault, verdict in missed.items():
        print(f"  {name}:{fault.line}: {verdict}: {fault.what} | {lines[fault.line - 1].strip()}", flush=True)
    return share


def _try_all(subject: Subject, chosen: dict[str, list[Fault]], options: argparse.Namespace) -> dict[Planted, str]:
    everything = [Planted(name, fault) for name, faults in chosen.items() for fault in faults]
    verdicts = _in_functions(subject, list(filter(_is_in_function, everything)), options)
    with tempfile.TemporaryDirectory(prefix="kontobahn-mutation-") as folder:
        for item in everything:
            if item not in verdicts:
                verdicts[item] = _in_a_copy(Path(folder), subject, item)
    return verdicts


def _is_in_function(item: Planted) -> bool:
    try:
        statement_of(_path(item.name).read_bytes(), item.fault)
    except Unplantable:
        return False
    return True


def _in_functions(subject: Subject, items: list[Planted], options: argparse.Namespace) -> dict[Planted, str]:
    """Tries these in forked copies of one process, see `trial`; leaves out what could not be planted so."""
    if not items:
        return {}
    faults = [(str(_path(item.name)), item.fault) for item in items]
    job = pickle.dumps(tuple(Job(faults, subject.tests, subject.on_postgres, options.workers)))
    verdicts = {}
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "mutation.trial"], cwd=ROOT, env={**os.environ, FRESH: "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin as stdin:
            stdin.write(job)
        for line in process.stdout:
            number, verdict = line.decode().rstrip().split(" ", 1)
            item = items[int(number)]
            if verdict != "unplantable":
                verdicts[item] = verdict
            if options.verbose:
                print(f"- {item.name}:{item.fault.line}: {verdict}: {item.fault.what}", file=sys.stderr, flush=True)
        if process.wait() != 0:
            errors.seek(0)
            raise SystemExit(f"{items[0].name}: nothing can be said.\n{errors.read().decode()[-2000:]}")
    return verdicts


def _in_a_copy(tree: Path, subject: Subject, item: Planted) -> str:
    """Tries a fault that must be there when the module is imported, with all tests of the subject."""
    if not any(tree.iterdir()):
        _copy(tree)
        if not _passes(tree, subject.tests):
            raise SystemExit(
                f"{item.name}: nothing can be said: its tests fail in a copy of the project without any fault."
            )
    changed = _path(item.name, tree)
    source = changed.read_bytes()
    changed.write_bytes(item.fault.planted_in(source))
    passes = _passes(tree, subject.tests)
    changed.write_bytes(source)
    return "unnoticed" if passes else "noticed"


def _copy(place: Path) -> None:
    """Whatever a test reads must be there, or each fault would seem to be noticed."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).exists():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)


def _passes(tree: Path, tests: Iterable[str]) -> bool:
    """Tells whether all tests pass on SQLite; a run that hangs does not."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", "not postgres", *tests],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree}", "PYTHONDONTWRITEBYTECODE": "1", FRESH: "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(HANGS) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
