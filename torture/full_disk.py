"""The disk with database and log on it fills up under load, to the last byte, and has room again: 503 meanwhile, nothing half done.

The disk is a small tmpfs, so this needs the right to mount one.

    python -m torture.full_disk --rounds 4 --seed 1
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.journeys.process import kontobahn
from torture.frozen_database import MAX_CALL_SECONDS, send_again, timed, write_until
from torture.others import MEBIBYTE, Target

CALLERS = 6
DISK_BYTES = 64 * MEBIBYTE
FULL = (0.5, 2.0)
BETWEEN = (0.3, 1.0)
PATIENCE_SECONDS = 60
HOLD_SECONDS = 5


@contextmanager
def small_disk() -> Iterator[Path | None]:
    """A folder on a disk of its own; None if this machine does not permit one."""
    with tempfile.TemporaryDirectory(prefix="kontobahn-disk-") as folder:
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "none", folder]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            yield None
            return
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


def _fill(path: Path) -> None:
    """Takes whatever room there is, the last byte too; what is freed meanwhile is taken at the next call."""
    with open(path, "ab", buffering=0) as balloon:
        for size in (MEBIBYTE, 4096, 1):
            try:
                while True:
                    balloon.write(bytes(size))
            except OSError:
                pass


def _one_round(running: Target, chance: random.Random) -> tuple[Counter[int], float]:
    """Returns how writes were answered while there was no room, and how long it took until they were taken again."""
    balloon, full = running.data / "balloon", Counter[int]()
    until = time.monotonic() + chance.uniform(*FULL)
    try:
        while time.monotonic() < until:
            _fill(balloon)
            full[timed(running, "/healthz")[0]] += 1
    finally:
        balloon.unlink()
    began = time.monotonic()
    while timed(running, "/readyz")[0] != 200 and time.monotonic() - began < PATIENCE_SECONDS:
        time.sleep(0.02)
    return full, time.monotonic() - began


def _attack(running: Target, rounds: int, chance: random.Random) -> bool:
    ended = threading.Event()
    timed(running, "/readyz")
    alive: Counter[int] = Counter()
    longest_wait = 0.0
    with ThreadPoolExecutor(CALLERS) as callers:
        writers = [callers.submit(write_until, running, ended, number) for number in range(CALLERS)]
        for _ in range(rounds):
            time.sleep(chance.uniform(*BETWEEN))
            answers, seconds = _one_round(running, chance)
            alive += answers
            longest_wait = max(longest_wait, seconds)
        ended.set()
        calls = [item for writer in writers for item in writer.result()]
    time.sleep(HOLD_SECONDS)
    again, ours = send_again(running, calls)
    statuses = Counter(status for _, status, _ in calls)
    longest = max(seconds for _, _, seconds in calls)
    holds = ours == len(calls) and set(again) <= {201} and set(statuses) == {201, 503} and set(alive) == {200}
    holds = holds and longest < MAX_CALL_SECONDS and longest_wait < PATIENCE_SECONDS and running.process.poll() is None
    print(
        f"{'holds' if holds else 'FAILS'}  no room {rounds} times: {len(calls)} writes {dict(statuses)}, longest {longest:.1f} s,"
        f" /healthz {dict(alive)}, ready again at most {longest_wait:.1f} s after; sent again {dict(again)},"
        f" {ours} customers for {len(calls)} keys"
    )
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with small_disk() as disk:
        if disk is None:
            print(f"left out  a full disk: user {os.getuid()} may not mount a tmpfs on this machine; run it as root")
            return 0
        running = Target(
            disk, limit_api_requests=10**9, log_level="debug", log_requests="all", call_hold_seconds=HOLD_SECONDS
        )
        try:
            holds = _attack(running, options.rounds, random.Random(options.seed))
        finally:
            running.stop()
        # It finds that there is little room, which is so.
        found = json.loads(kontobahn("doctor", "--books", "--json", data=disk, expect=None).stdout)
        wrong = [item["finding"] for item in found if item["state"] == "failed" and item["area"] != "disk"]
        print(f"{'FAILS' if wrong else 'holds'}  the database afterwards: {wrong or 'sound'}")
    return 0 if holds and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
