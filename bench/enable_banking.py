"""The cost of the adapter for Enable Banking, against parsing the same answers with msgspec.

PYTHONPATH=.:src python -m bench.enable_banking
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from datetime import date
from functools import partial

import msgspec

from bench import measure, report
from kontobahn.bank_providers.enable_banking.rules import transaction_facts
from kontobahn.bank_providers.enable_banking.wire import Transactions
from simulators.enable_banking_data import transaction

PAGES, ROWS, ROUNDS = 40, 500, 7
MAX_TIMES = 2


def pages(count: int) -> list[bytes]:
    """Answers with every field that banks fill."""
    return [
        json.dumps({
            "transactions": [
                transaction(
                    f"-{number}.25", f"Rechnung {page}-{number} vom 01.03.2026, Kunde 4711", "2026-03-01", f"{page}-{number}",
                    debtor={"name": "Muster GmbH", "postal_address": None},
                    debtor_account={"iban": "DE02120300000000202051", "other": None},
                    creditor={"name": "Papier GmbH", "postal_address": None},
                    creditor_account={"iban": "DE75512108001245126199", "other": None},
                    bank_transaction_code={"description": "Überweisung", "code": "PMNT", "sub_code": "ICDT"},
                    transaction_date=None, merchant_category_code=None, creditor_agent=None, debtor_agent=None,
                    balance_after_transaction=None, reference_number=None, reference_number_schema=None, exchange_rate=None,
                    note=None, transaction_id=f"t-{page}-{number}",
                )
                for number in range(1, ROWS + 1)
            ],
            "continuation_key": str(page),
        }).encode()
        for page in range(count)
    ]  # fmt: skip


def microseconds(work: Callable[[bytes], object], content: list[bytes]) -> float:
    """CPU time for a transaction."""
    started = time.process_time()
    for page in content:
        work(page)
    return (time.process_time() - started) * 1_000_000 / (len(content) * ROWS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer pages and rounds")
    quick = parser.parse_args().quick
    content = pages(5 if quick else PAGES)
    into_structs = msgspec.json.Decoder(Transactions).decode
    own = frozenset({"DE02120300000000202051"})

    def adapt(page: bytes) -> object:
        return transaction_facts(into_structs(page).transactions, "uid", own, date(2026, 3, 2), [])

    works = (adapt, msgspec.json.decode, into_structs)
    ours, whole, structs = measure.interleave(
        2 if quick else ROUNDS, *(partial(microseconds, work, content) for work in works)
    )
    told = measure.spread(ours, " µs", 1)
    rows = [
        measure.at_most(
            "a transaction, from the answer to facts: beside msgspec parsing the whole answer", told, measure.spread(whole, " µs", 1),
            measure.median_ratio(ours, whole), MAX_TIMES,
        ),
        measure.for_information(
            "the same, beside msgspec parsing only the fields that are needed", told, measure.spread(structs, " µs", 1),
            measure.median_ratio(ours, structs),
        ),
    ]  # fmt: skip
    return report.finish(rows)


if __name__ == "__main__":
    sys.exit(main())
