"""A long history is read from a bank: none of it lost, none twice, ids rising, others answered meanwhile, and memory as for a short one.

python -m torture.long_history --provider fints --transactions 100000
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

from torture.bank_trials import TRIALS, Person, Trial
from torture.others import MEBIBYTE, Target, target

PER_PAGE = 250
# By how much more memory may be needed for ten times as much.
MAX_GROWTH = 60 * MEBIBYTE


def peak_bytes(running: Target) -> int:
    """The most memory that the service ever had."""
    status = Path(f"/proc/{running.process.pid}/status").read_text("ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def read_history(trial: Trial, transactions: int) -> tuple[float, int]:
    """Connects an account with so many transactions to a new service. Returns the seconds, and the most memory the service had."""
    trial.book(transactions - trial.booked().total())
    trial.asks_for_confirmation(False)
    with target(**trial.settings) as running:
        person = Person(trial, 1)
        person.begin(running)
        started = time.monotonic()
        person.walk(running)
        seconds, peak = time.monotonic() - started, peak_bytes(running)
        ids, seen = person.transactions(running)
    assert seen == trial.booked(), (len(ids), (seen - trial.booked()).total(), (trial.booked() - seen).total())
    assert ids == sorted(set(ids)), "ids do not rise"
    assert trial.faults == [], trial.faults[:3]
    print(f"{transactions:,} transactions in {seconds:.1f} s, at most {peak / MEBIBYTE:.0f} MiB; none lost, none twice")
    return seconds, peak


def run(provider: str, transactions: int) -> bool:
    trial = TRIALS[provider]()
    trial.per_page = PER_PAGE
    try:
        _, short = read_history(trial, transactions // 10)
        _, long = read_history(trial, transactions)
    finally:
        trial.close()
    growth = long - short
    print(f"ten times as many need {growth / MEBIBYTE:+.0f} MiB; allowed are {MAX_GROWTH / MEBIBYTE:.0f}")
    return growth <= MAX_GROWTH


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", choices=sorted(TRIALS), default="fints")
    parser.add_argument("--transactions", type=int, default=100_000)
    chosen = parser.parse_args()
    return 0 if run(chosen.provider, chosen.transactions) else 1


if __name__ == "__main__":
    sys.exit(main())
