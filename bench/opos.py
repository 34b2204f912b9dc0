"""Open items and the trial balance over HTTP, beside DuckDB, which groups the bookings on every query, and the command lines `ledger`
and `hledger`, which read a journal.

Asked at 10,000, 100,000 and 1,000,000 bookings: what a call costs must follow its answer, not the history.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import duckdb

from bench import books_data, measure, report
from bench.books_data import Installation
from bench.measure import Row, at_least, at_most, for_information, interleave, median_ratio, not_run, spread
from bench.report import Curve, Series

LIMITS = {"KONTOBAHN_LIMIT_API_REQUESTS": "1000000000", "KONTOBAHN_LOG_LEVEL": "error"}
JOURNAL_SECONDS = 600
# A million take hledger minutes, so it is asked about fewer. The bytes that it needs for a booking, with room to spare.
HLEDGER_BOOKINGS, HLEDGER_BYTES = 100_000, 12_000
MAX_MEGABYTES = 300
MAX_OF_DUCKDB = 0.3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="at most 100,000 bookings and short rounds")
    quick = parser.parse_args().quick
    sizes = [1_000, 10_000, 100_000] if quick else [10_000, 100_000, 1_000_000]
    rounds = 3 if quick else 5
    with tempfile.TemporaryDirectory(prefix="kontobahn-bench-") as folder:
        place = Path(folder)
        print(measure.describe_machine(place), flush=True)
        found = []
        for size in sizes:
            found.append(_at(place / str(size), size, size * 8 // 100, rounds))
            shutil.rmtree(place / str(size))
        few = 300 if quick else 3_000
        small = _with_few(place / "few", sizes, few, rounds)
    asked_of_hledger = [at for at in found if at.size <= HLEDGER_BOOKINGS][-1]
    rows = [*_rows(found[-1]), _beside_journal(asked_of_hledger, "hledger", asked_of_hledger.hledger)]
    return report.finish([*rows, *_few_rows(sizes, few, small, found[-1])], _curves(sizes, found, few, small))


class _At(NamedTuple):
    """Seconds at one size, round by round; of the command lines one time each, or why there is none."""

    size: int
    open_items: int
    accounts: int
    opos: list[float]
    duckdb_opos: list[float]
    susa: list[float]
    duckdb_susa: list[float]
    ledger: float | str
    hledger: float | str
    # Of `doctor --books`, which reckons all read models anew: the most memory it had, in bytes.
    doctor_bytes: int


def _at(place: Path, size: int, open_items: int, rounds: int) -> _At:
    with _Books(place / "books", size, open_items) as books:
        database = _duckdb(size, open_items)
        opos, duckdb_opos, susa, duckdb_susa = interleave(
            rounds,
            books.opos_seconds,
            lambda: _seconds(lambda: _group(database)),
            books.susa_seconds,
            lambda: _seconds(lambda: _balances(database)),
        )
        database.close()
    doctor_bytes = _doctor(place / "books")
    journal = place / "journal"
    books_data.write_journal(journal, size, open_items)
    ledger = _command_line(["ledger", "--file", str(journal), "--args-only"])
    if size > HLEDGER_BOOKINGS:
        hledger: float | str = f"it is asked about {HLEDGER_BOOKINGS:,} bookings at most"
    elif _memory_available() < size * HLEDGER_BYTES:
        hledger = "it needs more memory than there is"
    else:
        hledger = _command_line(["hledger", "--file", str(journal)])
    return _At(size, open_items, books.accounts, opos, duckdb_opos, susa, duckdb_susa, ledger, hledger, doctor_bytes)


def _with_few(place: Path, sizes: list[int], few: int, rounds: int) -> list[list[float]]:
    """The same number of open items, whatever the history."""
    with ExitStack() as stack:
        books = [stack.enter_context(_Books(place / str(size), size, few)) for size in sizes]
        return interleave(rounds * 2, *(one.opos_seconds for one in books))


def _rows(at: _At) -> list[Row]:
    return [
        at_most(
            f"OPOS, {at.size:,} bookings, {at.open_items:,} open: beside DuckDB",
            _ms(at.opos), _ms(at.duckdb_opos), median_ratio(at.opos, at.duckdb_opos), MAX_OF_DUCKDB,
        ),
        _beside_journal(at, "ledger", at.ledger, 100),
        for_information(
            f"SuSa, {at.size:,} bookings, {at.accounts:,} accounts: beside DuckDB",
            _ms(at.susa), _ms(at.duckdb_susa), median_ratio(at.susa, at.duckdb_susa),
        ),
        Row(
            f"`doctor --books`, {at.size:,} bookings: most memory", f"{at.doctor_bytes / 1e6:,.0f} MB", "", None,
            f"< {MAX_MEGABYTES} MB", at.doctor_bytes < MAX_MEGABYTES * 1e6,
        ),
    ]  # fmt: skip


def _beside_journal(at: _At, program: str, seconds: float | str, least: int | None = None) -> Row:
    question, ours = f"OPOS, {at.size:,} bookings: beside `{program}`", min(at.opos)
    if isinstance(seconds, str):
        return not_run(question, seconds, f">= {least}" if least else "")
    shown = (question, f"{ours * 1000:,.0f} ms", f"{seconds:,.1f} s", seconds / ours)
    return at_least(*shown, least) if least else for_information(*shown)


def _few_rows(sizes: list[int], few: int, small: list[list[float]], at: _At) -> list[Row]:
    ours, tenth, many = small[-1], small[-2], min(at.opos)
    return [
        at_most(
            f"OPOS with {few:,} open, as a part of our own with {at.open_items:,}",
            _ms(ours), f"{many * 1000:,.0f} ms", min(ours) / many, 0.1,
        ),
        at_most(
            f"OPOS, {few:,} open: {sizes[-1]:,} bookings beside {sizes[-2]:,}",
            _ms(ours), _ms(tenth), median_ratio(ours, tenth), 1.5,
        ),
    ]  # fmt: skip


def _curves(sizes: list[int], found: list[_At], few: int, small: list[list[float]]) -> list[Curve]:
    middle = statistics.median
    programs = (("ledger", [at.ledger for at in found]), ("hledger", [at.hledger for at in found]))
    return [
        Curve(
            "open-items", "Open items, 8 % of the bookings open", "bookings", sizes,
            [
                Series("Kontobahn, over HTTP", [middle(at.opos) for at in found]),
                Series("DuckDB, in memory", [middle(at.duckdb_opos) for at in found]),
                *(Series(name, [None if isinstance(one, str) else one for one in times]) for name, times in programs),
            ],
        ),
        Curve(
            "few-open-items", f"Open items, {few:,} open whatever the history", "bookings", sizes,
            [Series("Kontobahn, over HTTP", [middle(times) for times in small])],
        ),
        Curve(
            "trial-balance", "Trial balance", "bookings", sizes,
            [
                Series("Kontobahn, over HTTP", [middle(at.susa) for at in found]),
                Series("DuckDB, in memory", [middle(at.duckdb_susa) for at in found]),
            ],
        ),
    ]  # fmt: skip


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


def _balances(database: duckdb.DuckDBPyConnection) -> int:
    """Debit and credit of every account by month, which is what a trial balance is made of."""
    rows = database.execute(
        "SELECT konto, SUBSTR(datum, 1, 7) AS monat, SUM(CASE WHEN betrag > 0 THEN betrag ELSE 0 END),"
        " SUM(CASE WHEN betrag < 0 THEN -betrag ELSE 0 END) FROM legs GROUP BY konto, monat ORDER BY konto, monat"
    ).fetchall()
    return len(rows)


def _command_line(command: list[str]) -> float | str:
    """Seconds for the balances of all documents, or why there are none."""
    if shutil.which(command[0]) is None:
        return f"`{command[0]}` is not installed"
    started = time.perf_counter()
    try:
        subprocess.run(
            [*command, "balance", "--flat", "--no-total", "^Personen"],
            stdout=subprocess.DEVNULL, check=True, timeout=JOURNAL_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"it took more than {JOURNAL_SECONDS} s"
    except subprocess.CalledProcessError as error:
        return f"it ended with {error.returncode}"
    return time.perf_counter() - started


def _doctor(data: Path) -> int:
    most = 0
    with measure.Process(
        "-m", "kontobahn", "doctor", "--books", "--data", str(data), stdout=subprocess.DEVNULL
    ) as doctor:
        while doctor.running and time.perf_counter() - doctor.started < JOURNAL_SECONDS:
            most = max(most, doctor.peak_memory())
            time.sleep(0.02)
        # What else it finds missing on this machine is not asked here.
        if doctor.running or doctor.wait(0) not in (0, 1):
            raise doctor.failed("`doctor --books` failed:")
    return most


def _memory_available() -> int:
    [kilobytes] = re.findall(r"^MemAvailable: +(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(kilobytes) * 1024


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _ms(figures: list[float]) -> str:
    return spread([figure * 1000 for figure in figures], " ms", 1)


if __name__ == "__main__":
    sys.exit(main())
