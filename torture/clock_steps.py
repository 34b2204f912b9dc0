"""The clock is set back or forward by an hour while the service runs: its jobs go on, a rate window ends when it should, credits add up.

The service's own processes see another time: a module that Python loads at its start reads from a file how far it is off.

    python -m torture.clock_steps
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.journeys.process import kontobahn
from torture.others import Target, call, target

HOUR = 3600
WINDOW_SECONDS = 20
PATIENCE_SECONDS = 100
PAID = "/v2/banking/transactions?account_id={account_id}"
_OFFSET_MODULE = """
import time
_real, _file, _state = time.time_ns, {file!r}, [0.0, 0]
def _now_ns():
    if time.monotonic() > _state[0]:
        with open(_file) as offset:
            _state[:] = [time.monotonic() + 0.1, int(offset.read()) * 10**9]
    return _real() + _state[1]
time.time_ns = _now_ns
time.time = lambda: _now_ns() / 10**9
"""


def _last_runs(running: Target) -> dict[str, int]:
    with closing(sqlite3.connect(running.data / "kontobahn.sqlite3")) as connection:
        return dict(connection.execute("SELECT name, finished_at FROM job_leases WHERE finished_at IS NOT NULL"))


def _jobs_go_on(running: Target, step: int) -> bool:
    """Every job with an interval of up to 30 seconds has run again under the new time."""
    deadline, waiting = time.monotonic() + PATIENCE_SECONDS, set(_last_runs(running))
    waiting -= {"purge what has expired", "lapse grants", "refresh bank connections"}
    began = time.monotonic()
    while waiting and time.monotonic() < deadline:
        # Nearer to the new time than to the old one.
        middle = (time.time() + step / 2) * 1_000_000
        ran = _last_runs(running)
        waiting = {name for name in waiting if (ran[name] > middle) != (step > 0)}
        time.sleep(0.2)
    print(
        f"{'FAILS' if waiting else 'holds'}  jobs after the clock went {'forward' if step > 0 else 'back'}:"
        f" {'not run: ' + ', '.join(sorted(waiting)) if waiting else f'all ran within {time.monotonic() - began:.0f} s'}"
    )
    return not waiting


def _window_ends(running: Target) -> bool:
    began = time.monotonic()
    while call(running, "GET", "/v2/banking/webhooks/x") == 429 and time.monotonic() - began < PATIENCE_SECONDS:
        time.sleep(0.5)
    seconds = time.monotonic() - began
    holds = seconds < WINDOW_SECONDS + 5
    print(f"{'holds' if holds else 'FAILS'}  a window of {WINDOW_SECONDS} s was over after {seconds:.0f} s")
    return holds


def _credits_add_up(running: Target) -> bool:
    """Calls are charged as before: what was reserved under the old time is neither lost nor counted twice."""
    statuses = {call(running, "GET", PAID.format(**running.facts["banking"]), key=running.key) for _ in range(20)}
    # Not its findings about jobs: this process has the time of the machine.
    found = kontobahn("doctor", "--json", data=running.data, expect=None).stdout
    wrong = [item for item in json.loads(found) if item["area"] == "credits" and item["state"] == "failed"]
    holds = statuses == {200} and not wrong
    print(f"{'holds' if holds else 'FAILS'}  paid calls {sorted(statuses)}, credits {wrong or 'add up'}")
    return holds


def _step(step: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        offset = Path(folder) / "offset"
        offset.write_text("0")
        (Path(folder) / "sitecustomize.py").write_text(_OFFSET_MODULE.format(file=str(offset)))
        limits: dict[str, Any] = {"limit_webhook_requests": 3, "limit_webhook_window_seconds": WINDOW_SECONDS}
        with target(python_path=folder, **limits) as running:
            deadline = time.monotonic() + 60
            while len(_last_runs(running)) < 8 and time.monotonic() < deadline:
                time.sleep(0.2)
            while call(running, "GET", "/v2/banking/webhooks/x") != 429:
                pass
            offset.write_text(str(step))
            holds = _window_ends(running)
            holds &= _jobs_go_on(running, step)
            return holds & _credits_add_up(running)


def main() -> int:
    holds = [_step(-HOUR), _step(HOUR)]
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
