"""Open items from a million postings of DATEV: read, packed, unpacked, grouped and written as an answer, beside reading the same lines
with msgspec and grouping them; and the memory that the answer needs, at a tenth of the postings and at all of them."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import cast

import msgspec

from bench import books_data, measure, report
from bench.measure import Row, at_most
from kontobahn.datev import rows
from kontobahn.datev.open_items import OpenItems, range_of
from kontobahn.datev.rows import LAST_LEDGER_ACCOUNT, PERSON_SHARES, KeptPart
from kontobahn.ledger.konto import KONTENRAHMEN
from kontobahn.ledger.opos import OposSelection

ROUNDS = 3
PAGE_ROWS = 50_000
MAX_TIMES = 2.0
# Beside the memory for a tenth of the postings.
MAX_GROWTH = 2.0
SELECTION = OposSelection(date(2026, 12, 31), "all", "reconcile", None)


class Exact(msgspec.Struct):
    """A posting as any reader of money would declare it."""

    accountNumber: int
    date: date
    contraAccountNumber: int | None = None
    amountDebit: Decimal | None = None
    amountCredit: Decimal | None = None
    accountingTransactionKey: int | None = None
    documentField1: str | None = None
    documentField2: str | None = None
    postingDescription: str | None = None
    kost1CostCenterId: str | None = None
    kost2CostCenterId: str | None = None
    isOpeningBalancePosting: bool | None = None
    generalReversal: bool | None = None
    followOnPostingType: str | None = None
    currencyCode: str | None = None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100,000 postings")
    parser.add_argument("--memory", type=int, metavar="POSTINGS", help="only prints the most memory, in kB")
    options = parser.parse_args()
    if options.memory:
        _answer(_packed(_pages(options.memory)))
        print(measure.peak_memory() // 1024)
        return 0
    count = 100_000 if options.quick else 1_000_000
    print(measure.describe_machine(Path(tempfile.gettempdir())), flush=True)
    pages = list(_pages(count))
    ours, bare = measure.interleave(ROUNDS, lambda: _seconds_of_ours(pages), lambda: _seconds_of_msgspec(pages))
    question = f"Open items of {count:,} postings of DATEV: beside msgspec reading and grouping them"
    found: list[Row] = [
        at_most(
            question, measure.spread(ours, " s", 2), measure.spread(bare, " s", 2), measure.median_ratio(ours, bare), MAX_TIMES
        )
    ]  # fmt: skip
    small, large = _memory_of(count // 10), _memory_of(count)
    found.append(
        at_most(
            f"Most memory for {count:,} postings, beside a tenth of them",
            f"{large / 1e3:,.0f} MB", f"{small / 1e3:,.0f} MB", large / small, MAX_GROWTH,
        )
    )  # fmt: skip
    return report.finish(found)


def _pages(count: int) -> Iterator[bytes]:
    lines: list[bytes] = []
    for one in books_data.bookings(count, count * 8 // 100):
        row = {
            "accountNumber": int(one.konto) * 10_000, "contraAccountNumber": int(one.gegenkonto) * 10_000,
            "amountDebit": one.cents / 100, "date": one.datum, "currencyCode": "EUR", "accountingSequenceId": 1,
            "recordType": "financial_accounting", "isOpeningBalancePosting": False, "generalReversal": False,
            "documentField1": one.beleg, "postingDescription": one.text, "followOnPostingType": "journal_entry",
        }  # fmt: skip
        lines.append(msgspec.json.encode(row))
        if len(lines) == PAGE_ROWS:
            yield b"\n".join(lines)
            lines = []
    if lines:
        yield b"\n".join(lines)


def _seconds_of_ours(pages: list[bytes]) -> float:
    started = time.process_time()
    _answer(_packed(pages))
    return time.process_time() - started


def _packed(pages: Iterable[bytes]) -> list[KeptPart]:
    parts: list[KeptPart] = []
    number = 1
    for page in pages:
        more, count = rows.pack(page, number)
        parts += more
        number += count
    return parts


def _answer(parts: list[KeptPart]) -> None:
    of_share: dict[int, list[bytes]] = defaultdict(list)
    for part, content in parts:
        of_share[rows.place_of(part)[0]].append(content)
    found = OpenItems(SELECTION, range_of("all", None), KONTENRAHMEN["SKR03"])
    for share in range(PERSON_SHARES):
        for content in of_share[share]:
            found.add("2025-01-01", rows.unpack(content))
        found.calculate(range(share, share + 1))
    assert bytes(cast(msgspec.Raw, found.answer({}).konten)) != b"[]"


def _seconds_of_msgspec(pages: list[bytes]) -> float:
    started = time.process_time()
    decode = msgspec.json.Decoder(Exact).decode_lines
    sums: dict[tuple[int, str | None], int] = defaultdict(int)
    for page in pages:
        for row in decode(page):
            cents = int((row.amountDebit or 0) * 100) - int((row.amountCredit or 0) * 100)
            if row.accountNumber > LAST_LEDGER_ACCOUNT:
                sums[row.accountNumber, row.documentField1] += cents
            if row.contraAccountNumber is not None and row.contraAccountNumber > LAST_LEDGER_ACCOUNT:
                sums[row.contraAccountNumber, row.documentField1] -= cents
    assert any(sums.values())
    return time.process_time() - started


def _memory_of(count: int) -> int:
    """The most memory, in kB, of a process that packs page by page and answers; what is kept is in memory as well."""
    made = subprocess.run(
        [sys.executable, "-m", "bench.datev", "--memory", str(count)],
        cwd=measure.ROOT, env=measure.environment(), check=True, capture_output=True,
    )  # fmt: skip
    return int(made.stdout)


if __name__ == "__main__":
    sys.exit(main())
