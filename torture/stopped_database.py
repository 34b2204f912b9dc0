"""PostgreSQL shut down or killed under load, and started again: calls are refused in time, nothing is lost or done twice.

python -m torture.stopped_database --rounds 6 --seed 1
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.services import PostgresServer
from torture.frozen_database import MAX_CALL_SECONDS, MAX_READY_SECONDS, send_again, timed, write_until
from torture.others import Target, target

CALLERS = 8
PATIENCE_SECONDS = 60
DOWN = (0.5, 3.0)
BETWEEN = (0.3, 1.5)


def _stop_and_start(server: PostgresServer, running: Target, chance: random.Random) -> tuple[list[float], float]:
    """Returns how long /readyz took to say no meanwhile, and how long it took from the start to yes."""
    chance.choice((server.stop, server.kill))()
    waits, until = [], time.monotonic() + chance.uniform(*DOWN)
    while time.monotonic() < until:
        status, seconds = timed(running, "/readyz")
        waits.append(seconds if status == 503 else MAX_READY_SECONDS)
    server.start()
    began = time.monotonic()
    while timed(running, "/readyz")[0] != 200 and time.monotonic() - began < PATIENCE_SECONDS:
        time.sleep(0.05)
    return waits, time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    # Durable: what was acknowledged must be there after the server was killed.
    with PostgresServer(durable=True) as server, target(
        database_url=server.create_database("stopped"), call_hold_seconds=MAX_CALL_SECONDS
    ) as running:  # fmt: skip
        ended = threading.Event()
        timed(running, "/readyz")  # the first time, its page is made
        with ThreadPoolExecutor(CALLERS) as callers:
            writers = [callers.submit(write_until, running, ended, number) for number in range(CALLERS)]
            no: list[float] = []
            yes: list[float] = []
            for _ in range(options.rounds):
                time.sleep(chance.uniform(*BETWEEN))
                waits, seconds = _stop_and_start(server, running, chance)
                no += waits
                yes.append(seconds)
            time.sleep(1)
            ended.set()
            calls = [item for writer in writers for item in writer.result()]
        time.sleep(MAX_CALL_SECONDS)  # what was cut off holds its key until then
        again, ours = send_again(running, calls)
        statuses = Counter(status for _, status, _ in calls)
        longest = max(seconds for _, _, seconds in calls)
        holds = ours == len(calls) and set(again) <= {201} and set(statuses) <= {201, 503}
        holds = holds and longest < MAX_CALL_SECONDS and max(no) < MAX_READY_SECONDS and max(yes) < PATIENCE_SECONDS
        print(
            f"{'holds' if holds else 'FAILS'}  stopped or killed {options.rounds} times: {len(calls)} writes {dict(statuses)},"
            f" longest {longest:.1f} s, /readyz at most {max(no):.2f} s, ready again at most {max(yes):.1f} s after;"
            f" sent again {dict(again)}, {ours} customers for {len(calls)} keys"
        )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
