"""Measures how long other callers wait while a large batch is imported. The command line imports a million rows into the books of one
organisation and undoes them again, then 90,000 partners, then a statement of 100,000 entries, a second one into the same account, and as
many entries in twelve statements of one file. Another process stores as many transactions that were fetched from a bank for a new account,
those of a later fetch, and of the first fetch of a connection to an account that is there, and removes a connection. The service answers
another organisation meanwhile, on the same SQLite file: a paid call, which writes, and a free one, which reads. All are written and removed
in slices.

A wait counts without the time in which the cores of this machine stood still, and is told with it as well.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, TypeVar

from bench import books_data, measure, report
from bench.books_data import Installation
from bench.measure import Row
from bench.standstills import Span, Standstills, apart_from
from bench.statements import KINDS
from kontobahn.clock import SystemClock
from kontobahn.db import open_database
from kontobahn.ledger.connections import find_for_operator
from kontobahn.settings import load
from tests.statement_builder import DAY, IBAN, OTHER_IBAN, Sheet, camt

T = TypeVar("T")
LIMITS = {"KONTOBAHN_LIMIT_API_REQUESTS": "1000000000", "KONTOBAHN_LOG_LEVEL": "error"}
MAX_SECONDS = 1.0
STATEMENTS = 12
IMPORT_SECONDS = 1_800
FREE = "/v2/ledger-rewe-read/connections"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of each")
    parser.add_argument("--banks", action="store_true", help="only what comes from banks, and partners")
    chosen = parser.parse_args()
    count = 100_000 if chosen.quick else 1_000_000
    # All numbers that five digits have.
    entries, partners = count // 10, count * 9 // 100
    with tempfile.TemporaryDirectory(prefix="kontobahn-bench-") as folder:
        place = Path(folder)
        print(measure.describe_machine(place), flush=True)
        busy, other = (books_data.create_installation(place / "data") for _ in range(2))
        if not chosen.banks:
            books_data.write_extf(place / "EXTF_Buchungsstapel.csv", count, count * 8 // 100)
        books_data.write_partners(place / "EXTF_Partner.csv", partners)
        first = _sheet(entries, 0)
        (place / "camt.xml").write_bytes(camt(first))
        (place / "second.xml").write_bytes(camt(_sheet(entries, 300)._replace(opening=first.end, id="S-2")))
        (place / "several.xml").write_bytes(camt(*_several(entries)))
        with measure.Child("-m", "bench.peers.kontobahn_server", str(place / "data"), environ=LIMITS) as server:
            works = _works(place, busy, count, partners, entries, of_books=not chosen.banks)
            with Standstills() as watch:
                rows = [row for work in works for row in _measure(server, busy, other, work, watch)]
    return report.finish(rows)


class Work(NamedTuple):
    """Work that is done, how long others may wait for it, and the module that does it."""

    words: str
    most_seconds: float
    command: tuple[str, ...]


def _works(
    place: Path, busy: Installation, count: int, partners: int, entries: int, *, of_books: bool
) -> Iterator[Work]:
    """One after the other: the second needs what the first has made."""
    owner = _read(busy, find_for_operator, busy.connection_id).organization_id
    command = ("kontobahn", "import", "extf", "--connection", busy.connection_id)
    if of_books:
        yield Work(f"{count:,} rows are imported", MAX_SECONDS, (*command, str(place / "EXTF_Buchungsstapel.csv")))
        [(batch,)] = _read(busy, lambda tx: tx.all("SELECT id FROM books_batches ORDER BY id DESC LIMIT 1"))
        yield Work(f"{count:,} rows are undone", MAX_SECONDS, ("kontobahn", "books", "undo", batch))
    yield Work(f"{partners:,} partners are imported", MAX_SECONDS, (*command, str(place / "EXTF_Partner.csv")))
    files = {
        "camt.xml": f"a statement of {entries:,} entries is imported",
        "second.xml": f"a statement of {entries:,} entries is imported into an account that has as many",
        "several.xml": f"{STATEMENTS} statements of {entries:,} entries in one file are imported",
    }
    for file, words in files.items():
        yield Work(words, MAX_SECONDS, (
            "kontobahn", "import", "statements", str(place / file), "--organization", owner,
        ))  # fmt: skip
    fetch = ("bench.peers.store_fetch", owner, str(entries))
    yield Work(f"a fetch of {entries:,} transactions is stored", MAX_SECONDS, fetch)
    later = f"a later fetch of {entries:,} transactions, half of them known, is stored"
    yield Work(later, MAX_SECONDS, (*fetch, "--later"))
    known = f"the first fetch of {entries:,} transactions for an account that is there is stored"
    yield Work(known, MAX_SECONDS, (*fetch, "--iban", IBAN))
    yield Work(f"a connection with {entries * 3 // 2:,} transactions is removed", MAX_SECONDS, (*fetch, "--remove"))


def _read(installation: Installation, fn: Callable[..., T], *args: str) -> T:
    db = open_database(load({}, data=str(installation.data)), SystemClock())
    try:
        return db.read_now(fn, *args)
    finally:
        db.close()


def _sheet(count: int, first_day: int, days: int = 300) -> Sheet:
    """Bookings of so many days, each with its own reference."""
    bookings = []
    for number in range(count):
        booked = DAY + timedelta(first_day + number * days // count)
        reference = f"R{first_day}-{number}"
        bookings.append(KINDS[number % len(KINDS)]._replace(booked=booked, valued=booked, reference=reference))
    return Sheet(bookings, number=None, day=DAY + timedelta(first_day + days - 1), id=f"S-{first_day}")


def _several(count: int) -> list[Sheet]:
    """Statements of as many months."""
    sheets = [_sheet(count // STATEMENTS, 30 * month, 30)._replace(iban=OTHER_IBAN) for month in range(STATEMENTS)]
    for number in range(1, STATEMENTS):
        sheets[number] = sheets[number]._replace(opening=sheets[number - 1].end)
    return sheets


class Calls(NamedTuple):
    spans: list[Span]
    refused: list[int]

    def median(self) -> str:
        return f"{statistics.median(end - begin for begin, end in self.spans) * 1000:.1f} ms"


def _measure(
    server: measure.Child, busy: Installation, other: Installation, work: Work, watch: Standstills
) -> list[Row]:
    paid = f"/v2/ledger-rewe-read/opos?connectionId={other.connection_id}"
    idle = [_repeat(server, path, other.key, times=100) for path in (paid, FREE)]
    with measure.Process("-m", *work.command, "--data", str(busy.data)) as importing:
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
    asked = sum(len(calls.spans) for calls in meanwhile)
    stood = watch.noted()
    longest = max(apart_from(span, stood) for calls in meanwhile for span in calls.spans)
    print(f"{work.words}: {took:,.0f} s, beside {asked:,} calls, the longest of {longest:.2f} s", flush=True)
    rows = [
        _row(f"{name}, while {work.words}: its longest wait", calls, alone, work.most_seconds, stood)
        for name, calls, alone in zip(("a paid call", "a free call"), meanwhile, idle, strict=True)
    ]
    refused = sum(len(calls.refused) for calls in meanwhile)
    question = f"calls refused while {work.words}"
    return [*rows, Row(question, f"{refused:,} of {asked:,}", "", None, "0", refused == 0)]


def _row(question: str, calls: Calls, alone: Calls, most_seconds: float, stood: list[list[Span]]) -> Row:
    longest = max(apart_from(span, stood) for span in calls.spans)
    with_standstills = max(end - begin for begin, end in calls.spans)
    return Row(
        question,
        f"{longest:.2f} s (median {calls.median()}; with the time that cores stood still, {with_standstills:.2f} s)",
        f"a median of {alone.median()} with nothing else to do",
        None,
        f"< {most_seconds:g} s",
        longest < most_seconds,
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
    calls.spans.append((started, time.perf_counter()))
    if status != 200:
        calls.refused.append(status)


if __name__ == "__main__":
    sys.exit(main())
