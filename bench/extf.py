"""Import of an EXTF batch as the command line does it, and its undo, beside a bare executemany of the same rows into SQLite; and how
long others wait meanwhile.

Both are told in processor time of all threads and children as well: on a busy machine that says more than the seconds do."""

from __future__ import annotations

import argparse
import csv
import resource
import sqlite3
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Self

from bench import books_data, measure, report
from bench.books_data import Installation
from bench.measure import Row, at_most, for_information
from bench.report import Curve, Series
from kontobahn.books import cash_book, store
from kontobahn.books.imports import Job, client_of, run_import
from kontobahn.books.store import Client
from kontobahn.books.undo import Undo
from kontobahn.cli.entry import collect_garbage_again
from kontobahn.clock import SystemClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.formats.extf import open_extf
from kontobahn.ids import new_id
from kontobahn.ledger.connections import find_for_operator
from kontobahn.ledger.kassenbuch import CashEntry, CashLine
from kontobahn.ledger.provider import Author
from kontobahn.settings import load

MAX_TIMES = 3
MAX_SECONDS = 1.0
# Ever more seldom, so that a large file leaves numbers for all of them however slow the machine is.
EVERY_SECONDS, SLOWER_BY = 0.1, 0.01


class _Spent(NamedTuple):
    """Seconds by the clock, and of processor time."""

    wall: float
    cpu: float

    def __add__(self, other: object) -> _Spent:
        assert isinstance(other, _Spent)
        return _Spent(self.wall + other.wall, self.cpu + other.cpu)

    def __str__(self) -> str:
        return f"{self.wall:,.1f} s"


class _Wait(NamedTuple):
    """The longest that a cash book entry of the same client waited, and how many there were."""

    longest: float
    entries: int


class _Imported(NamedTuple):
    """Our import and undo, a bare executemany, and splitting the rows, which that needs first; and others who wait for us."""

    size: int
    ours: _Spent
    undone: _Spent
    bare: _Spent
    parse: _Spent
    # In another import of the file, and its undo.
    import_wait: _Wait
    undo_wait: _Wait


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
            bare, parse = _bare(place, file)
            ours = _import_and_undo(place / "ours", file, size)
            found.append(_Imported(size, *ours, bare, parse, *_longest_waits(place / "meanwhile", file, size)))
    return report.finish(_rows(found[-1]), [_curve(found)])


def _rows(found: _Imported) -> list[Row]:
    size, bare, beside = found.size, found.bare, found.bare + found.parse
    rows = []
    for name, spent in (("import", found.ours), ("undo", found.undone)):
        rows += [
            at_most(
                f"{name} of {size:,} rows: beside executemany of them", str(spent), str(bare), spent.wall / bare.wall,
                MAX_TIMES,
            ),
            for_information(
                f"{name} of {size:,} rows, in processor time: beside executemany of them",
                f"{spent.cpu:,.1f} s", f"{bare.cpu:,.1f} s", spent.cpu / bare.cpu,
            ),
        ]  # fmt: skip
    about_splitting = "the import, beside splitting the rows and executemany"
    rows.append(for_information(about_splitting, str(found.ours), str(beside), found.ours.wall / beside.wall))
    for name, (longest, entries) in (("import", found.import_wait), ("undo", found.undo_wait)):
        question = f"longest wait of {entries:,} cash book entries of the same client during an {name} of {size:,} rows"
        rows.append(at_most(question, f"{longest:,.2f} s", f"{MAX_SECONDS:g} s", longest / MAX_SECONDS, 1))
    return rows


def _curve(found: list[_Imported]) -> Curve:
    return Curve(
        "import", "Import of a Buchungsstapel", "rows", [one.size for one in found],
        [
            Series("Kontobahn", [one.ours.wall for one in found]),
            Series("Kontobahn, undoing it", [one.undone.wall for one in found]),
            Series("splitting and executemany", [(one.bare + one.parse).wall for one in found]),
        ],
    )  # fmt: skip


class _Watch:
    """Adds up what is spent between entering and leaving it."""

    def __init__(self) -> None:
        self.spent = _Spent(0.0, 0.0)
        self._begun = self.spent

    def __enter__(self) -> Self:
        self._begun = _now()
        return self

    def __exit__(self, *_: object) -> None:
        now = _now()
        self.spent += _Spent(now.wall - self._begun.wall, now.cpu - self._begun.cpu)


def _now() -> _Spent:
    # A child counts from when it has ended.
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return _Spent(time.perf_counter(), time.process_time() + children.ru_utime + children.ru_stime)


def _bare(place: Path, file: Path) -> tuple[_Spent, _Spent]:
    """Returns what the rows cost as they are in the file, all columns, in one transaction; and splitting them first."""
    columns = 125
    database = sqlite3.connect(place / "bare.sqlite3", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute(f"CREATE TABLE bookings ({', '.join(f'c{number} TEXT' for number in range(columns))})")
    insert = f"INSERT INTO bookings VALUES ({', '.join('?' * columns)})"
    inserting, parsing = _Watch(), _Watch()
    with file.open(encoding="cp1252", newline="") as source:
        rows = csv.reader(source, delimiter=";")
        next(rows), next(rows)
        database.execute("BEGIN")
        while True:
            with parsing:
                chunk = [row for _, row in zip(range(20_000), rows, strict=False)]
            if not chunk:
                break
            with inserting:
                database.executemany(insert, chunk)
        with inserting:
            database.execute("COMMIT")
    database.close()
    return inserting.spent, parsing.spent


def _import_and_undo(data: Path, file: Path, count: int) -> tuple[_Spent, _Spent]:
    installation = books_data.create_installation(data)
    db = open_database(load({}, data=str(installation.data)), SystemClock())
    importing, undoing = _Watch(), _Watch()
    try:
        with importing:
            batch = _import(db, installation, file, count)
        with undoing:
            _undo(db, installation, batch, count)
    finally:
        db.close()
    return importing.spent, undoing.spent


def _import(db: Database, installation: Installation, file: Path, count: int) -> str:
    """Returns the batch."""
    with open_extf(file) as opened:

        def find(tx: Tx) -> Client:
            return client_of(tx, find_for_operator(tx, installation.connection_id), None, opened)

        report = run_import(db, find, opened, Job(file.name, "bench"))
    assert (report.imported, report.refused) == (count, []), report
    return report.batch


def _undo(db: Database, installation: Installation, batch: str, count: int) -> None:
    def find(tx: Tx) -> Client:
        return store.find_client(tx, find_for_operator(tx, installation.connection_id), None)

    work, undo_id = Undo(db, find, batch, "bench"), new_id()
    try:
        work.prepare(undo_id)
        undone = db.write_now(work.commit, undo_id)
    finally:
        work.tidy(undo_id)
    assert undone is not None
    assert undone.records == count, undone


def _longest_waits(data: Path, file: Path, count: int) -> tuple[_Wait, _Wait]:
    """Makes cash book entries while the file is imported, and while it is undone."""
    installation = books_data.create_installation(data)
    db = open_database(load({}, data=str(installation.data)), SystemClock())
    try:
        with _Entries(db, installation) as meanwhile:
            batch = _import(db, installation, file, count)
        with _Entries(db, installation) as later:
            _undo(db, installation, batch, count)
    finally:
        db.close()
    return meanwhile.wait(), later.wait()


class _Entries:
    """A thread that makes one cash book entry after the other."""

    def __init__(self, db: Database, installation: Installation) -> None:
        self._db, self._installation = db, installation
        self._waits: list[float] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._enter)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def wait(self) -> _Wait:
        return _Wait(max(self._waits, default=0.0), len(self._waits))

    def _enter(self) -> None:
        db = self._db
        connection = db.read_now(find_for_operator, self._installation.connection_id)
        client = db.read_now(store.find_client, connection, None)
        name = db.read_now(cash_book.kassenbuecher, client)[0].bezeichnung
        line = CashLine("Bon", "8400", 100, None, None, None, (None, None))
        entry = CashEntry(name, "EUR", 100, datetime(2025, 3, 1, tzinfo=UTC), (line,), ())
        begun = time.perf_counter()
        while not self._is_over.wait(EVERY_SECONDS + SLOWER_BY * (time.perf_counter() - begun)):
            started = time.perf_counter()
            db.write_now(cash_book.create_entry, client, entry, Author("bench", "bench"))
            self._waits.append(time.perf_counter() - started)


if __name__ == "__main__":
    sys.exit(main())
