"""The clock is set back by an hour while the service runs: its jobs go on, and a rate window ends when it should.

The service's own processes see another time: a module that Python loads at its start reads from a file how far it is off.

    python -m torture.clock_back
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from torture.others import Target, call, target

HOUR = 3600
WINDOW_SECONDS = 20
PATIENCE_SECONDS = 100
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


def _jobs_go_on(running: Target) -> bool:
    """Every job with an interval of up to 30 seconds has run again under the new time."""
    deadline, waiting = time.monotonic() + PATIENCE_SECONDS, set(_last_runs(running))
    waiting -= {"purge what has expired", "lapse grants", "refresh bank connections"}
    began = time.monotonic()
    while waiting and time.monotonic() < deadline:
        latest = (time.time() - HOUR + PATIENCE_SECONDS) * 1_000_000
        waiting = {name for name in waiting if _last_runs(running)[name] > latest}
        time.sleep(0.2)
    print(
        f"{'FAILS' if waiting else 'holds'}  jobs after the clock went back:"
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


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        offset = Path(folder) / "offset"
        offset.write_text("0")
        (Path(folder) / "sitecustomize.py").write_text(_OFFSET_MODULE.format(file=str(offset)))
        limits = {"limit_webhook_requests": 3, "limit_webhook_window_seconds": WINDOW_SECONDS}
        with target(python_path=folder, **limits) as running:
            deadline = time.monotonic() + 60
            while len(_last_runs(running)) < 8 and time.monotonic() < deadline:
                time.sleep(0.2)
            while call(running, "GET", "/v2/banking/webhooks/x") != 429:
                pass
            offset.write_text(str(-HOUR))
            holds = _window_ends(running)
            holds &= _jobs_go_on(running)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
