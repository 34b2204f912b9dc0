"""Open items and the trial balance over HTTP, beside DuckDB, which groups the bookings on every query, and the command line's `ledger`.

Asked at 10,000, 100,000 and 1,000,000 bookings: what a call costs must follow its answer, not the history.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from bench import books_data, measure
from bench.books_data import Installation
from bench.measure import Row, at_least, at_most, for_information, interleave, median_ratio, spread

LIMITS = {"KONTOBAHN_LIMIT_API_REQUESTS": "1000000000", "KONTOBAHN_LOG_LEVEL": "error"}
LEDGER_SECONDS = 600


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="at most 100,000 bookings and short rounds")
    options = parser.parse_args()
    largest = 100_000 if options.quick else 1_000_000
    many = largest * 8 // 100
    rounds = 3 if options.quick else 5
    with tempfile.TemporaryDirectory(prefix="kontobahn-bench-") as place:
        print(measure.describe_machine(Path(place)), flush=True)
        rows = _questions(Path(place), largest, many, rounds)
    measure.print_table(rows)
    return 1 if any(row.met is False for row in rows) else 0


def _questions(place: Path, largest: int, many: int, rounds: int) -> list[Row]:
    rows: list[Row] = []
    few = 3_000 if largest == 1_000_000 else 300
    with _Books(place / "many", largest, many) as books:
        database = _duckdb(largest, many)
        ours, beside = interleave(rounds, books.opos_seconds, lambda: _seconds(lambda: _group(database)))
        rows.append(
            at_most(
                f"OPOS, {largest:,} bookings, {many:,} open: beside DuckDB",
                _ms(ours),
                _ms(beside),
                median_ratio(ours, beside),
                1,
            )
        )
        opos_many = min(ours)
        rows += _beside_ledger(place, largest, many, opos_many)
        susa = [books.susa_seconds() for _ in range(rounds)]
        accounts = books.accounts
    rows.append(
        for_information(
            f"SuSa, {largest:,} bookings, {accounts:,} accounts: µs an account",
            _ms(susa),
            "",
            min(susa) * 1e6 / accounts,
        )
    )
    with _Books(place / "few", largest, few) as books, _Books(place / "tenth", largest // 10, few) as tenth:
        ours, smaller = interleave(rounds, books.opos_seconds, tenth.opos_seconds)
    rows.append(
        at_most(
            f"OPOS with {few:,} open, as a part of our own with {many:,}",
            _ms(ours),
            f"{opos_many * 1000:,.0f} ms",
            min(ours) / opos_many,
            0.1,
        )
    )
    rows.append(
        at_most(
            f"OPOS, {few:,} open: {largest:,} bookings beside {largest // 10:,}",
            _ms(ours),
            _ms(smaller),
            median_ratio(ours, smaller),
            1.5,
        )
    )
    return rows


class _Books:
    """A running service with this many bookings."""

    def __init__(self, data: Path, count: int, open_items: int) -> None:
        started = time.perf_counter()
        self._installation: Installation = books_data.create_installation(data)
        books_data.post_into(self._installation, count, open_items)
        print(f"posted {count:,} bookings in {time.perf_counter() - started:,.1f} s", flush=True)
        self._open_items = open_items
        self._server = measure.Child("-m", "bench.peers.kontobahn_server", str(data), environ=LIMITS)
        self.accounts = 0

    def __enter__(self) -> _Books:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    def opos_seconds(self) -> float:
        path = f"/v2/ledger-rewe-read/opos?connectionId={self._installation.connection_id}"
        seconds, body = self._ask(path)
        assert body.count(b'"beleg":') == self._open_items, body[:300]
        return seconds

    def susa_seconds(self) -> float:
        path = f"/v2/ledger-rewe-read/susa?connectionId={self._installation.connection_id}&geschaeftsjahrStartDatum={books_data.START}"
        seconds, body = self._ask(path)
        self.accounts = body.count(b'"kontonummer":')
        return seconds

    def _ask(self, path: str) -> tuple[float, bytes]:
        started = time.perf_counter()
        status, _, body = measure.ask_once(self._server.port, path, {"x-api-key": self._installation.key})
        seconds = time.perf_counter() - started
        assert status == 200, body[:300]
        return seconds, body


def _duckdb(count: int, open_items: int) -> duckdb.DuckDBPyConnection:
    """Legs of person accounts in columns, as an analyst would load them."""
    database = duckdb.connect()
    database.execute("CREATE TABLE legs (konto VARCHAR, beleg VARCHAR, betrag BIGINT, datum VARCHAR, text VARCHAR)")
    with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8") as file:
        for item in books_data.bookings(count, open_items):
            for konto, sign in ((item.konto, 1), (item.gegenkonto, -1)):
                file.write(f"{konto},{item.beleg},{sign * item.cents},{item.datum},{item.text}\n")
        file.flush()
        database.execute(f"COPY legs FROM '{file.name}'")
    return database


def _group(database: duckdb.DuckDBPyConnection) -> int:
    rows = database.execute(
        "SELECT konto, beleg, SUM(betrag) AS saldo, MIN(datum), ARG_MIN(text, datum) FROM legs"
        " WHERE LENGTH(konto) = 5 AND datum <= '2099-12-31' GROUP BY konto, beleg HAVING SUM(betrag) <> 0"
        " ORDER BY konto, ABS(SUM(betrag)) DESC"
    ).fetchall()
    return len(rows)


def _beside_ledger(place: Path, count: int, open_items: int, ours: float) -> list[Row]:
    program = shutil.which("ledger")
    if program is None:
        print("The command line's `ledger` is not installed (Debian: ledger); that question is left out.")
        return []
    journal = place / "journal"
    books_data.write_journal(journal, count, open_items)
    started = time.perf_counter()
    command = [program, "--file", str(journal), "--args-only", "balance", "--flat", "--no-total", "^Personen"]
    with (place / "balance").open("wb") as output:
        subprocess.run(command, stdout=output, check=True, timeout=LEDGER_SECONDS)
    seconds = time.perf_counter() - started
    journal.unlink()
    return [
        at_least(
            f"OPOS, {count:,} bookings: beside `ledger`",
            f"{ours * 1000:,.0f} ms",
            f"{seconds:,.1f} s",
            seconds / ours,
            100,
        )
    ]


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _ms(figures: list[float]) -> str:
    return spread([figure * 1000 for figure in figures], " ms", 1)


if __name__ == "__main__":
    sys.exit(main())
