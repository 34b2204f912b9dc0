"""PostgreSQL stopped in the middle of its work (SIGSTOP), then continued. Calls must be refused in time, and none done twice.

python -m torture.frozen_database --seconds 20
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import httpx

from tests.services import PostgresServer, _children
from torture.others import Target, target

CALLERS = 40
MAX_CALL_SECONDS = 15
MAX_READY_SECONDS = 2
# Whoever is refused does not ask again at once.
PAUSE_SECONDS = 0.1
PATH = "/v2/mobility/customers"
CUSTOMER = {"name": "Muster GmbH", "street": "Musterstraße 1", "postal_code": "10115", "city": "Berlin"}


def signal_all(server: PostgresServer, number: signal.Signals) -> None:
    for pid in (server.pid, *_children(server.pid)):
        os.kill(pid, number)


def timed(running: Target, path: str, **headers: str) -> tuple[int, float]:
    """Makes a call, a write if it has an idempotency key; by the plainest client, which costs the least time of its own."""
    body = json.dumps(CUSTOMER) if headers else None
    connection = HTTPConnection("127.0.0.1", running.port, timeout=120)
    started = time.monotonic()
    try:
        given = {"x-api-key": running.key, "content-type": "application/json", **headers}
        connection.request("POST" if headers else "GET", path, body, given)
        answer = connection.getresponse()
        answer.read()
        return answer.status, time.monotonic() - started
    finally:
        connection.close()


def write_until(running: Target, ended: threading.Event, caller: int) -> list[tuple[str, int, float]]:
    done: list[tuple[str, int, float]] = []
    while not ended.is_set():
        key = f"{caller}-{len(done)}"
        done.append((key, *timed(running, PATH, **{"idempotency-key": key})))
        if done[-1][1] != 201:
            time.sleep(PAUSE_SECONDS)
    return done


def send_again(running: Target, calls: list[tuple[str, int, float]]) -> tuple[Counter[int], int]:
    """Sends again, with its key, whatever was not done. Returns how these were answered, and how many customers there are."""
    again = Counter(
        timed(running, PATH, **{"idempotency-key": key})[0] for key, status, _ in calls if status != 201
    )  # fmt: skip
    listed = httpx.get(
        f"http://127.0.0.1:{running.port}{PATH}", headers={"x-api-key": running.key}, timeout=120, trust_env=False
    ).json()
    return again, sum(item["name"] == CUSTOMER["name"] for item in listed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    with PostgresServer() as server, target(database_url=server.create_database("frozen")) as running:
        ended = threading.Event()
        timed(running, "/readyz")  # the first time, its page is made
        with ThreadPoolExecutor(CALLERS) as callers:
            writers = [callers.submit(write_until, running, ended, number) for number in range(CALLERS)]
            time.sleep(2)
            signal_all(server, signal.SIGSTOP)
            try:
                ready = [timed(running, "/readyz") for _ in range(max(1, int(options.seconds // 2)))]
                time.sleep(options.seconds / 2)
            finally:
                signal_all(server, signal.SIGCONT)
            began = time.monotonic()
            while timed(running, "/readyz")[0] != 200:
                pass
            recovered = time.monotonic() - began
            time.sleep(2)
            ended.set()
            calls = [item for writer in writers for item in writer.result()]
        again, ours = send_again(running, calls)
        longest, slowest = max(seconds for _, _, seconds in calls), max(seconds for _, seconds in ready)
        # 409: the key is held until its call is known to have died; nothing was written under it.
        holds = ours == len(calls) - again[409] and set(again) <= {201, 409} and longest < MAX_CALL_SECONDS
        holds = holds and slowest < MAX_READY_SECONDS and {status for status, _ in ready} == {503}
        print(
            f"{'holds' if holds else 'FAILS'}  frozen for {options.seconds:.0f} s: {len(calls)} writes"
            f" {dict(Counter(status for _, status, _ in calls))}, longest {longest:.1f} s, /readyz at most {slowest:.2f} s,"
            f" ready again {recovered:.1f} s after; sent again {dict(again)}, {ours} customers for {len(calls)} keys"
        )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
