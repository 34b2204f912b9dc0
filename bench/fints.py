"""The cost of the adapter for FinTS, from the documents that a bank hands out to facts, beside reading the same bytes.

JSON readers do not apply: banks answer with camt (XML) and MT940. So it is measured beside our own reader of these files, which checks
every entry, and beside what the FinTS library would parse them with.

PYTHONPATH=.:src python -m bench.fints
"""

from __future__ import annotations

import argparse
import io
import sys
import time
from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from typing import Any

from bench import measure, report
from kontobahn.bank_providers.fints.rules import snapshot_of
from kontobahn.bank_providers.fints.wire import Documents, Login, SeenAccount
from kontobahn.formats.bank_files import read
from kontobahn.formats.statements import Entry
from simulators.fints_bank import camt_document

IBAN, BLZ, NUMBER = "DE02120300000000202051", "12030000", "202051"
PAGES, ROWS, ROUNDS = 40, 250, 5
MAX_TIMES = 2
_FIRST = date(2026, 1, 1)


def camt_pages(count: int) -> list[bytes]:
    return [
        camt_document(
            IBAN,
            _FIRST + timedelta(days=page),
            [
                (f"-{number}.25", f"EREF+E-{page}-{number} SVWZ+Rechnung {page}-{number} ABWA+Anna")
                for number in range(1, ROWS + 1)
            ],
            reference=f"P{page}",
        )
        for page in range(count)
    ]


def mt940_pages(count: int) -> list[bytes]:
    """A statement a day, each beginning with what the one before closed with."""
    found, balance = [], 10**9
    for page in range(count):
        day = f"{_FIRST + timedelta(days=page):%y%m%d}"
        lines = [":20:STARTUMS", f":25:{BLZ}/{NUMBER}", f":28C:{page + 1}/1", f":60F:C{day}EUR{_comma(balance)}"]
        for number in range(1, ROWS + 1):
            lines += [f":61:{day}{day[2:]}D{number},25NTRFE-{page}-{number}//B{page}-{number}",
                      f":86:117?00Dauerauftrag?10931?20EREF+E-{page}-{number}?21SVWZ+Rechnung {number}?32Papier GmbH"]  # fmt: skip
            balance -= number * 100 + 25
        found.append("\r\n".join([*lines, f":62F:C{day}EUR{_comma(balance)}", "-", ""]).encode("iso-8859-1"))
    return found


def _comma(cents: int) -> str:
    return f"{cents // 100},{cents % 100:02d}"


def adapt(pages: list[bytes]) -> int:
    """As the adapter does once the dialog is over: from its compressed documents to a snapshot."""
    documents = Documents()
    for page in pages:
        documents.add(0, page, is_pending=False)
    account = SeenAccount(iban=IBAN, bic="", number=NUMBER, sub="", blz=BLZ)
    login = Login(BLZ, "https://bank.example", "Bank", "muster")
    made = snapshot_of(login, [account], documents, provider_ref="r", provider_code="c", next_refresh_possible_at=0)
    return len(made.transactions)


def read_only(pages: list[bytes]) -> int:
    """Our own reader alone: every entry read and checked, and forgotten."""
    content = [b"".join(pages)] if pages[0][:1] != b"<" else pages
    ibans = {f"{BLZ}/{NUMBER}": IBAN}
    return sum(
        isinstance(item, Entry)
        for file in content
        for item in read(io.BytesIO(file), "x", ibans=ibans, unbalanced=True)
    )


def library_camt(pages: list[bytes]) -> int:
    from fints.camt_parser import camt053_to_dict

    return sum(len(camt053_to_dict(page)) for page in pages)


def library_mt940(pages: list[bytes]) -> int:
    from fints.utils import mt940_to_array

    return len(mt940_to_array(b"".join(pages).decode("iso-8859-1")))


def microseconds(work: Callable[[list[bytes]], int], pages: list[bytes]) -> float:
    """CPU time for a booking."""
    started = time.process_time()
    found = work(pages)
    seconds = time.process_time() - started
    assert found == len(pages) * ROWS, found
    return seconds * 1_000_000 / found


def rows_for(name: str, pages: list[bytes], library: Callable[[list[bytes]], int], rounds: int) -> list[Any]:
    works = (adapt, read_only, library)
    ours, reader, theirs = measure.interleave(rounds, *(partial(microseconds, work, pages) for work in works))
    told = measure.spread(ours, " µs", 1)
    question = f"a booking, from {name} to facts: beside"
    return [
        measure.at_most(
            f"{question} our own reader alone", told, measure.spread(reader, " µs", 1), measure.median_ratio(ours, reader), MAX_TIMES
        ),
        measure.for_information(
            f"{question} the parser of the FinTS library", told, measure.spread(theirs, " µs", 1), measure.median_ratio(ours, theirs)
        ),
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer pages and rounds")
    quick = parser.parse_args().quick
    pages, rounds = (4, 2) if quick else (PAGES, ROUNDS)
    rows = rows_for("camt", camt_pages(pages), library_camt, rounds)
    rows += rows_for("MT940", mt940_pages(pages), library_mt940, rounds)
    return report.finish(rows)


if __name__ == "__main__":
    sys.exit(main())
