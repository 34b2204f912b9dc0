"""A collective invoice of 1,000 tickets, from the call to the stored documents, beside compiling its PDF alone; and how long
other calls wait meanwhile."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import msgspec
import typst

from bench import measure, report
from bench.measure import at_most, for_information, median_ratio, spread
from kontobahn.clock import SystemClock
from kontobahn.db import open_database
from kontobahn.formats import cii
from kontobahn.mobility.invoices import pdf
from kontobahn.mobility.invoices.rules import to_cii
from kontobahn.mobility.invoices.store import load as load_invoice
from kontobahn.settings import load
from tests.journeys.process import ServerProcess, serving

MAX_RATIO = 3
MAX_WAIT = 0.25
OTHER_CALL = "/v2/ledger-rewe-read/connections"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two rounds instead of five")
    options = parser.parse_args()
    rounds = 2 if options.quick else 5
    with tempfile.TemporaryDirectory(prefix="kontobahn-bench-") as folder:
        place = Path(folder)
        print(measure.describe_machine(place), flush=True)
        with serving(place / "data", limit_api_requests=10_000_000) as server:
            rows = _measure(server, place / "data", rounds)
            server.stop()
    return report.finish(rows)


def _measure(server: ServerProcess, data: Path, rounds: int) -> list[measure.Row]:
    invoice_id = _invoice(server, _customer(server, 1_000)).json()["id"]
    compile_alone = _compilation(server, data, invoice_id)
    waits: list[float] = []
    customers = [_customer(server, 1_000) for _ in range(2 * (rounds + 1))]

    def issue() -> float:
        started = time.perf_counter()
        _invoice(server, customers.pop())
        return time.perf_counter() - started

    def issue_beside_other_calls() -> float:
        customer_id, found = customers.pop(), []
        issuing = threading.Thread(target=_invoice, args=(server, customer_id))
        with httpx.Client(
            base_url=server.facts["base_url"], headers={"x-api-key": server.key}, trust_env=False
        ) as http:
            http.get(OTHER_CALL)
            started = time.perf_counter()
            issuing.start()
            while issuing.is_alive():
                found.append(_seconds(http))
            waits.extend(found)
            return max(found) / (time.perf_counter() - started)

    ours, alone, longest = measure.interleave(rounds, issue, compile_alone, issue_beside_other_calls)
    with httpx.Client(base_url=server.facts["base_url"], headers={"x-api-key": server.key}, trust_env=False) as http:
        idle = [_seconds(http) for _ in range(200)]
    ratio = statistics.median(longest)
    return [
        at_most("invoice of 1,000 tickets, PDF and XML stored: beside compiling its PDF alone", spread(ours, " s", 2),
                spread(alone, " s", 2), median_ratio(ours, alone), MAX_RATIO),
        at_most("longest wait of another call meanwhile, as a part of the invoice's time", f"{max(waits) * 1000:.0f} ms",
                "", ratio, MAX_WAIT),
        for_information("another call meanwhile, beside the same with nothing else to do",
                        f"{statistics.median(waits) * 1000:.1f} ms", f"{statistics.median(idle) * 1000:.1f} ms",
                        statistics.median(waits) / statistics.median(idle)),
    ]  # fmt: skip


def _seconds(http: httpx.Client) -> float:
    started = time.perf_counter()
    assert http.get(OTHER_CALL).status_code == 200
    return time.perf_counter() - started


def _post(server: ServerProcess, path: str, body: Any = None) -> httpx.Response:
    headers = {"x-api-key": server.key}
    answer = httpx.post(server.facts["base_url"] + path, headers=headers, json=body, timeout=120, trust_env=False)
    assert answer.status_code == 201, answer.text
    return answer


def _customer(server: ServerProcess, tickets: int) -> str:
    address = {"street": "Musterstraße 1", "postal_code": "10115", "city": "Berlin"}
    made = _post(
        server, "/v2/mobility/customers", {"name": "Muster GmbH", "email": "rechnung@muster.example", **address}
    )
    customer_id = str(made.json()["id"])
    new = [
        {"product": ("Deutschlandticket Job", "Firmenticket AB", "Stellplatz")[number % 3], "holder_reference": f"PN-{number}",
         "valid_from": "2026-03", "price_in_cents": 6300, "discount_in_cents": 315, "employer_share_in_cents": 1575,
         "vat_rate": 19 if number % 3 == 2 else 7}
        for number in range(tickets)
    ]  # fmt: skip
    _post(server, f"/v2/mobility/customers/{customer_id}/tickets", {"tickets": new})
    return customer_id


def _invoice(server: ServerProcess, customer_id: str) -> httpx.Response:
    return _post(server, f"/v2/mobility/customers/{customer_id}/invoice")


def _compilation(server: ServerProcess, data: Path, invoice_id: str) -> Any:
    """Returns a function that only compiles this invoice's PDF: the data are ready and the compiler is warm."""
    db = open_database(load({}, data=str(data)), SystemClock())
    row, facts = db.read_now(load_invoice, server.facts["organization_id"], invoice_id)
    db.close()
    (xml,) = cii.write(to_cii(facts), "en16931")
    inputs = {
        "data": msgspec.json.encode(pdf.compose(facts)).decode(),
        "code": pdf.giro_code(facts) or "",
        "xml": xml.decode(),
    }
    compiler = typst.Compiler(ignore_system_fonts=True)
    count = 0

    def run() -> float:
        nonlocal count
        count += 1
        # Different data each time, or the compiler would use its cache.
        changed = {**inputs, "data": inputs["data"].replace("PN-", f"P{count}-")}
        started = time.perf_counter()
        compiler.compile(
            pdf._template(),
            sys_inputs=changed,
            format="pdf",
            pdf_standards=["a-3b"],
            timestamp=row.invoiced_at // 10**6,
        )
        return time.perf_counter() - started

    return run


if __name__ == "__main__":
    sys.exit(main())
