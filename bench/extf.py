"""Import of an EXTF batch as the command line does it, beside a bare executemany of the same rows into SQLite; and how long others
wait meanwhile."""

from __future__ import annotations

import argparse
import csv
import sqlite3
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bench import books_data, measure, report
from bench.books_data import Installation
from bench.measure import Row, at_most, for_information
from bench.report import Curve, Series
from kontobahn.books import cash_book, store
from kontobahn.books.imports import Job, client_of, run_import
from kontobahn.books.store import Client
from kontobahn.cli.entry import collect_garbage_again
from kontobahn.clock import SystemClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.formats.extf import open_extf
from kontobahn.ledger.connections import find_for_operator
from kontobahn.ledger.kassenbuch import CashEntry, CashLine
from kontobahn.ledger.provider import Author
from kontobahn.settings import load

MAX_TIMES = 3
MAX_SECONDS = 1.0
EVERY_SECONDS = 0.05


class _Imported(NamedTuple):
    """Seconds of our import, of a bare executemany, of splitting the rows, which that needs first, and of others who wait."""

    size: int
    ours: float
    bare: float
    parse: float
    # The longest that a cash book entry of the same client waited, in another import of the file, and how many there were.
    wait: float
    entries: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="at most 100,000 rows instead of a million")
    collect_garbage_again()
    sizes = [1_000, 10_000, 100_000] if parser.parse_args().quick else [10_000, 100_000, 1_000_000]
    found = []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="kontobahn-bench-") as folder:
            place = Path(folder)
            if size == sizes[0]:
                print(measure.describe_machine(place), flush=True)
            file = place / "EXTF_Buchungsstapel.csv"
            books_data.write_extf(file, size, size * 8 // 100)
            bare, parse = _bare_seconds(place, file)
            ours = _import_seconds(place / "ours", file, size)
            found.append(_Imported(size, ours, bare, parse, *_longest_wait(place / "meanwhile", file, size)))
    return report.finish(_rows(found[-1]), [_curve(found)])


def _rows(found: _Imported) -> list[Row]:
    ours, beside = f"{found.ours:,.1f} s", found.bare + found.parse
    return [
        at_most(
            f"import of {found.size:,} rows: beside executemany of them",
            ours, f"{found.bare:,.1f} s", found.ours / found.bare, MAX_TIMES,
        ),
        for_information(
            "the same, beside splitting the rows and executemany", ours, f"{beside:,.1f} s", found.ours / beside
        ),
        at_most(
            f"longest wait of {found.entries:,} cash book entries of the same client during an import of {found.size:,} rows",
            f"{found.wait:,.2f} s", f"{MAX_SECONDS:g} s", found.wait / MAX_SECONDS, 1,
        ),
    ]  # fmt: skip


def _curve(found: list[_Imported]) -> Curve:
    return Curve(
        "import", "Import of a Buchungsstapel", "rows", [one.size for one in found],
        [
            Series("Kontobahn", [one.ours for one in found]),
            Series("splitting and executemany", [one.bare + one.parse for one in found]),
        ],
    )  # fmt: skip


def _bare_seconds(place: Path, file: Path) -> tuple[float, float]:
    """Returns the seconds for the rows as they are in the file, all columns, in one transaction; and for splitting them first."""
    columns = 125
    database = sqlite3.connect(place / "bare.sqlite3", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute(f"CREATE TABLE bookings ({', '.join(f'c{number} TEXT' for number in range(columns))})")
    insert = f"INSERT INTO bookings VALUES ({', '.join('?' * columns)})"
    seconds = parse = 0.0
    with file.open(encoding="cp1252", newline="") as source:
        rows = csv.reader(source, delimiter=";")
        next(rows), next(rows)
        database.execute("BEGIN")
        while True:
            started = time.perf_counter()
            chunk = [row for _, row in zip(range(20_000), rows, strict=False)]
            parse += time.perf_counter() - started
            if not chunk:
                break
            started = time.perf_counter()
            database.executemany(insert, chunk)
            seconds += time.perf_counter() - started
        started = time.perf_counter()
        database.execute("COMMIT")
        seconds += time.perf_counter() - started
    database.close()
    return seconds, parse


def _import_seconds(data: Path, file: Path, count: int) -> float:
    installation = books_data.create_installation(data)
    db = open_database(load({}, data=str(installation.data)), SystemClock())
    try:
        return _import(db, installation, file, count)
    finally:
        db.close()


def _import(db: Database, installation: Installation, file: Path, count: int) -> float:
    started = time.perf_counter()
    with open_extf(file) as opened:

        def find(tx: Tx) -> Client:
            return client_of(tx, find_for_operator(tx, installation.connection_id), None, opened)

        report = run_import(db, find, opened, Job(file.name, "bench"))
    assert (report.imported, report.refused) == (count, []), report
    return time.perf_counter() - started


def _longest_wait(data: Path, file: Path, count: int) -> tuple[float, int]:
    """Makes cash book entries while the file is imported. Returns the longest wait of one, and their number."""
    installation = books_data.create_installation(data)
    db = open_database(load({}, data=str(installation.data)), SystemClock())
    waits: list[float] = []
    is_over = threading.Event()

    def enter() -> None:
        connection = db.read_now(find_for_operator, installation.connection_id)
        client = db.read_now(store.find_client, connection, None)
        name = db.read_now(cash_book.kassenbuecher, client)[0].bezeichnung
        line = CashLine("Bon", "8400", 100, None, None, None, (None, None))
        entry = CashEntry(name, "EUR", 100, datetime(2025, 3, 1, tzinfo=UTC), (line,), ())
        while not is_over.wait(EVERY_SECONDS):
            started = time.perf_counter()
            db.write_now(cash_book.create_entry, client, entry, Author("bench", "bench"))
            waits.append(time.perf_counter() - started)

    thread = threading.Thread(target=enter)
    thread.start()
    try:
        _import(db, installation, file, count)
    finally:
        is_over.set()
        thread.join()
        db.close()
    return max(waits, default=0.0), len(waits)


if __name__ == "__main__":
    sys.exit(main())
