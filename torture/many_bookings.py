"""A long history through a simulator of Salt Edge: none lost, none twice, ids that rise, and memory that does not grow with it.

python -m torture.many_bookings --bookings 100000
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from simulators.salt_edge import SaltEdge
from tests.providers.salt_edge.person import NAME, settings_for
from torture.others import MEBIBYTE, Target, target

# The memory that the service may hold more than at the beginning, at its highest. A long history waits on disk: ten times the bookings need
# about twice the memory.
MAX_PEAK_BYTES = 150 * MEBIBYTE
ROUNDS = 3


def remote_side(pipe: Pipe, folder: str) -> None:
    """The simulator in a process of its own, so that its memory is not the service's. Does what it is told, and answers."""
    remote = SaltEdge()
    pipe.send(settings_for(remote, remote.serve(), Path(folder)))
    connection = None
    while True:
        what, *args = pipe.recv()
        if what == "sign in":
            url, base_url, count = args
            remote.callback_url = f"{base_url}/v2/banking/webhooks/{NAME}"
            back, connection = remote.finish(url)
            assert connection is not None
            account = remote.add_account(connection, "DE02120300000000202051")
            book(remote, connection, account, count)
            pipe.send(back)
        elif what == "news":
            assert connection is not None
            book(remote, connection, connection.accounts[0]["id"], args[0])
            remote.attempt(connection)
            pipe.send(remote.deliver(times=2, backwards=True))
        else:
            pipe.send(remote.faults)
            return


def book(remote: SaltEdge, connection: Any, account: str, count: int) -> None:
    first = len(connection.transactions)
    for number in range(first, first + count):
        day = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 86400 * (300 - number * 300 // (first + count))))
        extra = {"payee": "Stadtwerke Musterstadt GmbH", "end_to_end_id": f"E-{number}"}
        # Many look alike: only their ids tell them apart.
        remote.book(
            connection, account, f"-{number % 50}.25", day, f"Abschlag {number % 7}", extra=extra if number % 3 else {}
        )


@contextmanager
def highest(running: Target) -> Iterator[list[int]]:
    """Measures the service's memory all the time; the list has the highest figure at the end."""
    seen, over = [running.resident_bytes()], threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            seen[0] = max(seen[0], running.resident_bytes())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bookings", type=int, default=100_000)
    count = parser.parse_args().bookings
    ours, theirs = multiprocessing.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        process = multiprocessing.get_context("spawn").Process(target=remote_side, args=(theirs, folder), daemon=True)
        process.start()
        with target(**ours.recv(), limit_webhook_requests=10**9) as running:
            held = trial(running, ours, count)
        ours.send(("end",))
        faults = ours.recv()
        process.join(30)
    print(f"faults in what was sent: {faults or 'none'}")
    return 0 if held and not faults else 1


def trial(running: Target, pipe: Any, count: int) -> bool:
    base_url = f"http://127.0.0.1:{running.port}"
    http = httpx.Client(base_url=base_url, headers={"x-api-key": running.key}, timeout=600, trust_env=False)
    begun = http.post("/v2/banking/connect", json={}).json()
    assert urlsplit(begun["connect_url"]).scheme == "https"
    before = running.resident_bytes()
    pipe.send(("sign in", begun["connect_url"], base_url, count))
    back = urlsplit(pipe.recv())
    started = time.monotonic()
    holds = True
    with highest(running) as peak:
        while http.get(f"{back.path}?{back.query}").status_code == 503:
            time.sleep(1)
        seconds = time.monotonic() - started
        connection = http.get(f"/v2/banking/connections/{begun['pending_token']}").json()["data"]
        holds &= check(http, connection["id"], count, 0)
    grown = peak[0] - before
    print(f"{count:,} bookings in {seconds:.0f} s; memory at most {grown / MEBIBYTE:.0f} MiB above the beginning")
    holds &= grown <= MAX_PEAK_BYTES
    for number in range(1, ROUNDS + 1):
        started = time.monotonic()
        with highest(running) as peak:
            pipe.send(("news", 100))
            answered = set(pipe.recv())
        print(
            f"100 more, told twice and backwards: {answered}, {time.monotonic() - started:.0f} s;"
            f" memory at most {(peak[0] - before) / MEBIBYTE:.0f} MiB above the beginning"
        )
        holds &= answered == {200} and check(http, connection["id"], count + number * 100, 0)
        holds &= peak[0] - before <= MAX_PEAK_BYTES
    return holds


def check(http: httpx.Client, connection_id: str, count: int, from_id: int) -> bool:
    """Tells whether the bookings are all there, each once, in pages whose ids rise."""
    seen, ids, last = 0, set(), from_id
    while True:
        params: dict[str, Any] = {"connection_id": connection_id, "from_id": last, "sort": "id", "limit": 10_000}
        rows = http.get("/v2/banking/transactions", params=params).raise_for_status().json()["data"]
        numbers = [int(row["id"]) for row in rows]
        if numbers != sorted(numbers) or (numbers and numbers[0] <= last):
            print("ids do not rise")
            return False
        if not rows:
            break
        seen, last = seen + len(rows), numbers[-1]
        ids.update(numbers)
    if not seen == len(ids) == count:
        print(f"{seen} bookings instead of {count}")
    return seen == len(ids) == count


if __name__ == "__main__":
    sys.exit(main())
