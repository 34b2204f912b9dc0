"""Reading a camt.053 file entry by entry, checked and taken apart, beside a bare lxml iterparse over the same file; and importing a
statement whose bookings are new, and one whose bookings are known, beside reading it and a bare executemany of its rows."""

from __future__ import annotations

import argparse
import io
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from lxml import etree

from bench import measure, report
from bench.measure import Row, at_most, for_information
from kontobahn import settings
from kontobahn.access import audit, organizations
from kontobahn.banking.imports.files import ReadFile
from kontobahn.banking.imports.importer import StatementImporter
from kontobahn.banking.imports.store import ImportResult
from kontobahn.clock import SystemClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.db.migrate import migrate
from kontobahn.formats.bank_files import read
from kontobahn.formats.statements import Closing
from tests.services import PostgresServer
from tests.statement_builder import DAY, Booking, Sheet, camt, camt_entry, camt_pieces, mt940

MAX_TIMES = 3
# Beside reading the file and a bare executemany of its rows.
MAX_TIMES_IMPORT = 4
ROUNDS = 3
# Bookings of a small company's account: a debit with mandate, a credit with tags in its text, a card payment, a fee.
KINDS = (
    Booking(
        -4_990,
        text="Rechnung 20260314 Kundennummer 7700123, vielen Dank",
        name="Stadtwerke Musterstadt GmbH",
        end_to_end_id="SW-20260314-7700123",
        mandate="MND-7700123-01",
        creditor_id="DE98ZZZ09999999999",
        reference="2026031400012345",
        booking_text="FOLGELASTSCHRIFT",
    ),
    Booking(
        119_000,
        text="EREF+RE-2026-0815 SVWZ+Rechnung RE-2026-0815 vom 01.03.2026 ABWA+Anna Beispiel",
        name="Beispiel & Partner mbB",
        end_to_end_id="NOTPROVIDED",
        reference="2026031400012346",
        booking_text="GUTSCHRIFT",
    ),
    Booking(
        -2_350,
        text="Kartenzahlung 14.03.2026 12:31 Baumarkt Musterstadt",
        name="Baumarkt Musterstadt",
        end_to_end_id="65180413302026031412310",
        reference="2026031400012347",
        booking_text="KARTENZAHLUNG",
    ),
    Booking(-590, text="Entgelt 01.02.2026 - 28.02.2026", name=None, iban=None, bic=None, booking_text="ABSCHLUSS"),
)

FORMS: dict[str, Callable[[Sheet], bytes]] = {"camt.053": camt, "MT940": mt940}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5,000 entries")
    parser.add_argument("--entries", type=int, default=20_000, help="how many, rounded down to thousands (20,000)")
    options = parser.parse_args()
    count = 5_000 if options.quick else max(options.entries // 1_000, 1) * 1_000
    with tempfile.TemporaryDirectory(prefix="kontobahn-bench-") as folder:
        place = Path(folder)
        print(measure.describe_machine(place), flush=True)
        rows = []
        for version in ("08", "02"):
            file = place / f"camt.053.001.{version}.xml"
            size = _write(file, count, version)

            ours, bare, events = measure.interleave(
                ROUNDS,
                partial(_ours, file, count),
                partial(_bare, file),
                partial(_events, file),
            )
            question = f"camt.053.001.{version}, {count:,} entries, {size / 1e6:,.0f} MB: beside iterparse"
            rows.append(
                at_most(
                    f"{question} of its entries",
                    measure.spread(ours, " s", 2),
                    measure.spread(bare, " s", 2),
                    measure.median_ratio(ours, bare),
                    MAX_TIMES,
                )
            )
            rows.append(
                for_information(
                    f"{question} of its elements",
                    measure.spread(ours, " s", 2),
                    measure.spread(events, " s", 2),
                    measure.median_ratio(ours, events),
                )
            )
        rows += _imports(place, 5_000 if options.quick else 100_000)
    return report.finish(rows)


def _write(file: Path, count: int, version: str) -> int:
    moved = sum(KINDS[number % len(KINDS)].amount for number in range(count))
    first, last = "".join(camt_pieces([Sheet(opening=0, closing=moved)], "053", version)).split("</Stmt>")
    entries = "".join(camt_entry(KINDS[number % len(KINDS)], version=version) for number in range(1_000))
    with file.open("w", encoding="utf-8") as target:
        target.write(first)
        for _ in range(count // 1_000):
            target.write(entries)
        target.write(f"</Stmt>{last}")
    return file.stat().st_size


def _imports(place: Path, count: int) -> list[Row]:
    rows = _imports_into("SQLite", open_database(settings.load({}, data=str(place / "data")), SystemClock()), count)
    with PostgresServer(durable=True) as server:
        given = {"KONTOBAHN_DATABASE_URL": server.create_database("statements")}
        return rows + _imports_into("PostgreSQL", open_database(settings.load(given), SystemClock()), count)


def _imports_into(engine: str, db: Database, count: int) -> list[Row]:
    try:
        migrate(db)
        return [row for form in FORMS for row in _imports_of(engine, db, form, count)]
    finally:
        db.close()


def _imports_of(engine: str, db: Database, form: str, count: int) -> Iterator[Row]:
    """A statement, and then the same bookings in one with another head, so that each must be recognised."""
    owner = db.write_now(organizations.create, "Muster GmbH", audit.COMMAND_LINE)
    bookings = [
        KINDS[number % len(KINDS)]._replace(booked=DAY + timedelta(number * 300 // count), reference=None)
        for number in range(count)
    ]
    bare = None
    for number, kind in enumerate(("new", "known"), 1):
        sheet = Sheet(bookings, id=kind, number=number, day=DAY + timedelta(300))
        content = FORMS[form](sheet)
        reading = _reading(content)
        started = time.process_time()
        result = _import(db, owner.id, content)
        seconds = time.process_time() - started
        assert result.added == (count if kind == "new" else 0), result
        bare = bare or _executemany(db.read_now(_stored, owner.id))
        yield at_most(
            f"{engine}, {form}: importing {count:,} {kind} bookings, beside reading them and a bare executemany",
            f"{seconds:.2f} s", f"{reading:.2f} s and {bare:.2f} s", seconds / (reading + bare), MAX_TIMES_IMPORT,
        )  # fmt: skip


def _reading(content: bytes) -> float:
    started = time.process_time()
    for _ in read(io.BytesIO(content), "bench", max_bytes=10**11):
        pass
    return time.process_time() - started


def _stored(tx: Tx, organization_id: str) -> list[tuple[Any, ...]]:
    return tx.all(
        "SELECT t.* FROM banking_transactions t JOIN banking_accounts a ON a.id = t.account_id WHERE a.organization_id = ?",
        organization_id,
    )


def _executemany(rows: list[tuple[Any, ...]]) -> float:
    """Into a table of SQLite without an index, in one durable transaction."""
    columns = len(rows[0])
    with tempfile.TemporaryDirectory(prefix="kontobahn-bench-") as folder:
        database = sqlite3.connect(f"{folder}/bare.sqlite3", isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute(f"CREATE TABLE transactions ({', '.join(f'c{number}' for number in range(columns))})")
        started = time.process_time()
        database.execute("BEGIN")
        database.executemany(f"INSERT INTO transactions VALUES ({', '.join('?' * columns)})", rows)
        database.execute("COMMIT")
        seconds = time.process_time() - started
        database.close()
    return seconds


def _import(db: Database, organization_id: str, content: bytes) -> ImportResult:
    """As the service does it: read before the transaction."""
    with ReadFile(read(io.BytesIO(content), "bench", max_bytes=10**11)) as file:
        return db.write_now(lambda tx: StatementImporter(tx, organization_id, "bench").import_file(file))


# CPU time, so that what else the machine does is not counted; either side runs in one thread.
def _ours(path: Path, count: int) -> float:
    started = time.process_time()
    with path.open("rb") as file:
        for item in read(file, path.name, max_bytes=10**11):  # noqa: B007 - the last one is used below
            pass
    seconds = time.process_time() - started
    assert isinstance(item, Closing)
    assert item.entries == count
    return seconds


def _bare(path: Path) -> float:
    """Only the entries' ends, each dropped at once: the least that a reader of entries must do."""
    started = time.process_time()
    with path.open("rb") as file:
        for _, element in etree.iterparse(file, tag="{*}Ntry"):
            element.clear()
            before, parent = element.getprevious(), element.getparent()
            if before is not None and parent is not None and before.tag == element.tag:
                parent.remove(before)
    return time.process_time() - started


def _events(path: Path) -> float:
    started = time.process_time()
    with path.open("rb") as file:
        for _, element in etree.iterparse(file):
            element.clear()
    return time.process_time() - started


if __name__ == "__main__":
    sys.exit(main())
