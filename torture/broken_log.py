"""A log on a full disk, into a pipe nobody holds, into a pipe nobody reads: answers and jobs must not change.

python -m torture.broken_log
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from contextlib import closing

from torture.others import Bystander, Target, call, target

CALLS = 300


def _runs(running: Target) -> int:
    with closing(sqlite3.connect(running.data / "kontobahn.sqlite3")) as connection:
        found = connection.execute("SELECT finished_at FROM job_leases WHERE name = 'apply bank deliveries'").fetchone()
    return int(found[0] or 0) if found else 0


def _attack(name: str, stderr: int, *, close: int | None = None) -> bool:
    with target(stderr=stderr, log_requests="all", log_level="debug") as running:
        os.close(stderr)
        if close is not None:
            os.close(close)
        with Bystander(running) as others:
            statuses = {call(running, "GET", "/v2/auth/users", key=running.key) for _ in range(CALLS)}
            statuses |= {call(running, "GET", "/v2/nothing" + "x" * 500, key=running.key) for _ in range(CALLS)}
            before, deadline = _runs(running), time.monotonic() + 30
            while _runs(running) == before and time.monotonic() < deadline:
                time.sleep(0.2)
            job_runs = _runs(running) > before
        print(f"{'holds' if job_runs else 'FAILS'}  {name}: the jobs {'go on' if job_runs else 'have stopped'}")
        return others.verdict(f"{name} {sorted(statuses)}") and job_runs and statuses == {200, 404}


def main() -> int:
    holds = _attack("full disk", os.open("/dev/full", os.O_WRONLY))
    reader, writer = os.pipe()
    holds &= _attack("dead pipe", writer, close=reader)
    reader, writer = os.pipe()
    holds &= _attack("pipe that nobody reads", writer)
    os.close(reader)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
