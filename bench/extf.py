"""Import of an EXTF batch through the command line's unit of work, beside a bare executemany of the same rows into SQLite."""

from __future__ import annotations

import argparse
import csv
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench import books_data, measure, report
from bench.measure import Row, at_most, for_information
from bench.report import Curve, Series
from kontobahn.clock import SystemClock
from kontobahn.db import Tx, open_database
from kontobahn.formats.extf import open_extf
from kontobahn.ledger.books.importing import Job, Report, client_of, import_file
from kontobahn.ledger.connections import find_for_operator
from kontobahn.settings import load

MOST_TIMES = 5


class _Imported(NamedTuple):
    """Seconds of our import, of a bare executemany, and of splitting the rows, which that needs first."""

    size: int
    ours: float
    bare: float
    parse: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="at most 100,000 rows instead of a million")
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
            found.append(_Imported(size, _import_seconds(place, file, size), bare, parse))
    return report.finish(_rows(found[-1]), [_curve(found)])


def _rows(found: _Imported) -> list[Row]:
    ours, beside = f"{found.ours:,.1f} s", found.bare + found.parse
    return [
        at_most(
            f"import of {found.size:,} rows: beside executemany of them",
            ours, f"{found.bare:,.1f} s", found.ours / found.bare, MOST_TIMES,
        ),
        for_information(
            "the same, beside splitting the rows and executemany", ours, f"{beside:,.1f} s", found.ours / beside
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


def _import_seconds(place: Path, file: Path, count: int) -> float:
    installation = books_data.create_installation(place / "data")
    db = open_database(load({}, data=str(installation.data)), SystemClock())
    try:
        started = time.perf_counter()
        with open_extf(file) as opened:

            def unit(tx: Tx) -> Report:
                client = client_of(tx, find_for_operator(tx, installation.connection_id), None, opened)
                return import_file(tx, client, opened, Job(file.name, "bench"))

            report = db.write_now(unit)
        seconds = time.perf_counter() - started
    finally:
        db.close()
    assert (report.imported, report.refused) == (count, []), report
    return seconds


if __name__ == "__main__":
    sys.exit(main())
