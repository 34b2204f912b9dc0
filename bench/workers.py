"""Does a busy organisation grow with its workers? PostgreSQL (durable) and Redis, `serve` with one and with two workers.

1. A paid list of 100 transactions of one organisation: two workers beside one, and one beside FastAPI with SQLAlchemy on SQLite.
2. The same with a share of a core for each worker, which is what a second machine would be.
3. The same with one worker beside SQLite, for information.
4. A free call: two workers beside one, for information.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench import measure, report
from bench.cpu_share import NoShares, held_to
from bench.measure import Row
from bench.transactions import NO_LIMIT, PEERS, make, rows_of
from tests.services import PostgresServer, RedisServer

FREE = "/v2/banking/connections"
SHARE = 0.25
# The multiple of the lists a second of FastAPI with SQLAlchemy on SQLite they were with one worker, before units shared transactions on
# PostgreSQL (docs/performance.md). The target is three times that.
ONCE = 5.8


class Service(measure.Process):
    """`kontobahn serve` with a number of workers, in the way a user starts it."""

    def __init__(self, place: Path, workers: int, environ: dict[str, str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        super().__init__(
            "-m", "kontobahn", "serve", "--port", str(self.port), "--workers", str(workers), "--data", str(place),
            environ=NO_LIMIT | {"KONTOBAHN_LOG_LEVEL": "error"} | environ,
        )  # fmt: skip
        while time.perf_counter() - self.started < measure.START_SECONDS and self.running:
            try:
                if measure.ask_once(self.port, "/readyz", {})[0] == 200:
                    return
            except OSError:
                time.sleep(0.02)
        raise self.failed("The service did not start:")

    @property
    def worker_pids(self) -> list[int]:
        """The processes that answer calls: the children, if it has several workers, else itself."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
        return children or [self.pid]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter rounds")
    rounds, seconds = (3, 1) if parser.parse_args().quick else (5, 3)
    with tempfile.TemporaryDirectory(prefix="kontobahn-bench-") as name, ExitStack() as stack:
        place = Path(name)
        print(measure.describe_machine(place), flush=True)
        postgres = stack.enter_context(PostgresServer(durable=True))
        redis = stack.enter_context(RedisServer())
        services, paths = [], []
        for number, workers in enumerate((1, 2, 1)):
            on_sqlite = number == 2
            environ = {} if on_sqlite else {
                "KONTOBAHN_DATABASE_URL": postgres.create_database(f"workers_{number}"), "KONTOBAHN_REDIS_URL": redis.url,
            }  # fmt: skip
            key, account = make(place / str(number), 100, environ.get("KONTOBAHN_DATABASE_URL", ""))
            services.append(stack.enter_context(Service(place / str(number), workers, environ)))
            paths.append(({"x-api-key": key}, f"/v2/banking/transactions?account_id={account}"))

        (place / "rows.json").write_text(json.dumps(rows_of(services[0].port, paths[0][1], paths[0][0])), "utf-8")
        peer = str(PEERS / "fastapi_transactions.py")
        key = paths[0][0]["x-api-key"]
        fastapi = stack.enter_context(measure.Child(peer, str(place / "peer.sqlite3"), key, str(place / "rows.json")))

        def rate(which: int, path: str = "") -> float:
            headers, paid = paths[which]
            return measure.rate(services[which].port, path or paid, headers, seconds)

        def rate_of_share(which: int) -> float:
            with held_to(SHARE, services[which].worker_pids):
                return rate(which)

        one, two, sqlite, peers, free_one, free_two = measure.interleave(
            rounds, lambda: rate(0), lambda: rate(1), lambda: rate(2),
            lambda: measure.rate(fastapi.port, paths[0][1], paths[0][0], seconds),
            lambda: rate(0, FREE), lambda: rate(1, FREE),
        )  # fmt: skip
        shares = _two_beside_one(rounds, rate_of_share)
    found = [measure.spread(figures, "/s") for figures in (one, two, sqlite, free_one, free_two)]
    rows = [
        measure.at_least(
            "PostgreSQL, a paid list of 100: two workers, beside one",
            found[1], found[0], measure.median_ratio(two, one), 1.5,
        ),
        shares,
        measure.at_least(
            "PostgreSQL, a paid list of 100, one worker: beside FastAPI with SQLAlchemy on SQLite",
            found[0], measure.spread(peers, "/s"), measure.median_ratio(one, peers), 3 * ONCE,
        ),
        measure.for_information(
            "a paid list of 100, one worker: PostgreSQL, beside SQLite",
            found[0], found[2], measure.median_ratio(one, sqlite),
        ),
        measure.for_information(
            "PostgreSQL, a free call: two workers, beside one", found[4], found[3], measure.median_ratio(free_two, free_one)
        ),
    ]  # fmt: skip
    return report.finish(rows)


def _two_beside_one(rounds: int, rate_of_share: Callable[[int], float]) -> Row:
    question = f"PostgreSQL, a paid list of 100, {SHARE:.0%} of a core for each worker: two workers, beside one"
    try:
        one, two = measure.interleave(rounds, lambda: rate_of_share(0), lambda: rate_of_share(1))
    except NoShares as why:
        return measure.not_run(question, str(why), ">= 1.5")
    ratio = measure.median_ratio(two, one)
    return measure.at_least(question, measure.spread(two, "/s"), measure.spread(one, "/s"), ratio, 1.5)


if __name__ == "__main__":
    sys.exit(main())
