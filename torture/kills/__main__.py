"""kill -9 under mixed load, again and again; then everything is calculated again.

    python -m torture.kills --kills 100 --seed 1 --engine sqlite

What is done, by whom, when it is killed and how follow from the seed; how far a call has got at that moment follows from the machine
as well.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from torture.kills.run import run


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="torture.kills", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--runs", type=int, default=1, help="so many runs, each with the next seed and a new database")
    chosen = parser.parse_args()
    seeds = range(chosen.seed, chosen.seed + chosen.runs)
    failed = sum(not one_run(chosen.engine, chosen.kills, seed) for seed in seeds)
    return 1 if failed else 0


def one_run(engine: str, kills: int, seed: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="kontobahn-torture-") as folder:
        result = run(Path(folder), engine, kills, seed)
    print(f"{'FAILS' if result.faults else 'holds'}  {result.figures}", flush=True)
    for fault in result.faults:
        print(f"       {fault}")
    if result.faults:
        print(f"again: make torture TORTURE=kills ARGS='--kills {kills} --seed {seed} --engine {engine}'", flush=True)
    return not result.faults


if __name__ == "__main__":
    sys.exit(main())
