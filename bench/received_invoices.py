"""Received invoices of 20 lines, read and checked, beside lxml parsing the same files alone; and one invoice of 20,000 lines within
its bounds."""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path

from lxml import etree

from bench import measure, report
from bench.measure import at_most
from kontobahn.formats import invoice_files
from kontobahn.formats.invoices.model import Invoice, Totals, VatBreakdown
from kontobahn.formats.invoices.source import MAX_FILE_BYTES
from kontobahn.xml_text import PARSER_OPTIONS
from tests.invoice_corpus import BOOK, PLAIN, XRECHNUNG, written

MAX_TIMES = 3
MAX_SECONDS = 5
MAX_MEGABYTES = 300
ROUNDS = 5
ON = date(2026, 11, 17)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 invoices instead of 1,000")
    options = parser.parse_args()
    count = 100 if options.quick else 1_000
    with tempfile.TemporaryDirectory(prefix="kontobahn-bench-") as folder:
        print(measure.describe_machine(Path(folder)), flush=True)
    rows = []
    # The largest first: how much memory a process has taken never falls.
    seconds, megabytes = _long()
    for dress in ("cii", "ubl"):
        # As nearly all programs write them: one element in a line of the file.
        tree = etree.fromstring(written(_invoice(20), "cii" if dress == "cii" else "ubl", XRECHNUNG))
        etree.indent(tree, "  ")
        xml = etree.tostring(tree, xml_declaration=True, encoding="UTF-8")
        ours, alone = measure.interleave(ROUNDS, _timed(count, _checked, xml), _timed(count, _parsed, xml))
        question = f"{count:,} invoices of 20 lines in {dress.upper()}, read and checked: beside lxml parsing alone"
        spreads = measure.spread(ours, " s", 2), measure.spread(alone, " s", 2)
        rows.append(at_most(question, *spreads, measure.median_ratio(ours, alone), MAX_TIMES))
    rows.append(
        at_most("an invoice of 20,000 lines, as a part of 5 seconds", f"{seconds:.2f} s", "", seconds / MAX_SECONDS, 1)
    )
    part = megabytes / MAX_MEGABYTES
    rows.append(
        at_most("memory of the process at its highest, as a part of 300 MB", f"{megabytes:.0f} MB", "", part, 1)
    )
    return report.finish(rows)


def _invoice(lines: int) -> Invoice:
    net = lines * (BOOK.net_minor or 0)
    vat = net * 7 // 100
    return PLAIN._replace(
        lines=tuple(BOOK._replace(id=str(number), seller_item=f"A-{number}") for number in range(1, lines + 1)),
        vat_breakdown=(VatBreakdown("S", Decimal(7), net, vat),),
        totals=Totals(net, net, vat, net + vat, net + vat),
    )


def _checked(xml: bytes) -> None:
    assert invoice_files.read(xml, "", on=ON).is_valid


def _parsed(xml: bytes) -> None:
    etree.fromstring(xml, etree.XMLParser(**PARSER_OPTIONS))


def _timed(count: int, work: Callable[[bytes], None], xml: bytes) -> Callable[[], float]:
    def run() -> float:
        started = time.process_time()
        for _ in range(count):
            work(xml)
        return time.process_time() - started

    return run


def _long() -> tuple[float, float]:
    xml = written(_invoice(20_000), "ubl", XRECHNUNG)
    assert len(xml) <= MAX_FILE_BYTES, len(xml)
    started = time.process_time()
    _checked(xml)
    return time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024


if __name__ == "__main__":
    sys.exit(main())
