"""How long do other callers wait while a large batch is imported? The command line imports a million rows into the books of one
organisation; the service answers another meanwhile, on the same SQLite file: a paid call, which writes, and a free one, which reads.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from bench import books_data, measure, report
from bench.books_data import Installation
from bench.measure import Row

LIMITS = {"KONTOBAHN_LIMIT_API_REQUESTS": "1000000000", "KONTOBAHN_LOG_LEVEL": "error"}
MOST_SECONDS = 1.0
IMPORT_SECONDS = 1_800
FREE = "/v2/ledger-rewe-read/connections"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100,000 rows instead of a million")
    count = 100_000 if parser.parse_args().quick else 1_000_000
    with tempfile.TemporaryDirectory(prefix="kontobahn-bench-") as folder:
        place = Path(folder)
        print(measure.describe_machine(place), flush=True)
        busy, other = (books_data.create_installation(place / "data") for _ in range(2))
        file = place / "EXTF_Buchungsstapel.csv"
        books_data.write_extf(file, count, count * 8 // 100)
        with measure.Child("-m", "bench.peers.kontobahn_server", str(place / "data"), environ=LIMITS) as server:
            rows = _measure(server, busy, other, file, count)
    return report.finish(rows)


class Calls(NamedTuple):
    seconds: list[float]
    refused: list[int]


def _measure(server: measure.Child, busy: Installation, other: Installation, file: Path, count: int) -> list[Row]:
    paid = f"/v2/ledger-rewe-read/opos?connectionId={other.connection_id}"
    idle = [_repeat(server, path, other.key, times=100) for path in (paid, FREE)]
    with measure.Process(
        "-m", "kontobahn", "import", "extf", str(file), "--connection", busy.connection_id, "--data", str(busy.data)
    ) as importing:
        meanwhile = [Calls([], []), Calls([], [])]
        callers = [
            threading.Thread(target=_repeat_into, args=(server, path, other.key, importing, calls))
            for path, calls in zip((paid, FREE), meanwhile, strict=True)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        took = time.perf_counter() - importing.started
        if importing.wait(IMPORT_SECONDS) != 0:
            raise importing.failed("The import failed:")
    print(f"imported {count:,} rows in {took:,.0f} s, beside {sum(len(calls.seconds) for calls in meanwhile):,} calls")
    rows = [
        _row(f"{name}, while {count:,} rows are imported: its longest wait", calls, alone.seconds)
        for name, calls, alone in zip(("a paid call", "a free call"), meanwhile, idle, strict=True)
    ]
    refused = sum(len(calls.refused) for calls in meanwhile)
    asked = sum(len(calls.seconds) for calls in meanwhile)
    question = f"calls refused while {count:,} rows are imported"
    return [*rows, Row(question, f"{refused:,} of {asked:,}", "", None, "0", refused == 0)]


def _row(question: str, calls: Calls, alone: list[float]) -> Row:
    longest = max(calls.seconds)
    return Row(
        question,
        f"{longest:.2f} s (median {statistics.median(calls.seconds) * 1000:.1f} ms)",
        f"a median of {statistics.median(alone) * 1000:.1f} ms with nothing else to do",
        None,
        f"< {MOST_SECONDS:g} s",
        longest < MOST_SECONDS,
    )


def _repeat(server: measure.Child, path: str, key: str, times: int) -> Calls:
    calls = Calls([], [])
    for _ in range(times):
        _call(server, path, key, calls)
    return calls


def _repeat_into(server: measure.Child, path: str, key: str, importing: measure.Process, calls: Calls) -> None:
    while importing.running:
        _call(server, path, key, calls)
        # As a person or another program would call, not as a load: what is asked is how long one waits.
        time.sleep(0.005)


def _call(server: measure.Child, path: str, key: str, calls: Calls) -> None:
    started = time.perf_counter()
    status, _, _ = measure.ask_once(server.port, path, {"x-api-key": key})
    calls.seconds.append(time.perf_counter() - started)
    if status != 200:
        calls.refused.append(status)


if __name__ == "__main__":
    sys.exit(main())
