"""A customer with more tickets than an invoice takes, and documents that need more than they may. Others must be answered meanwhile.

python -m torture.large_invoice --tickets 12000
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import httpx

from torture.others import Bystander, target

CHUNK = 500
CUSTOMER = {"name": "Muster GmbH", "street": "Musterstraße 1", "postal_code": "10115", "city": "Berlin"}


def ticket(number: int) -> dict[str, Any]:
    return {
        "product": "Deutschlandticket Job", "holder_reference": f"PN-{number}", "valid_from": "2026-03",
        "price_in_cents": 6300, "vat_rate": 7,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tickets", type=int, default=12_000)
    options = parser.parse_args()
    holds = True
    with target() as running:
        http = httpx.Client(
            base_url=f"http://127.0.0.1:{running.port}/v2/mobility", headers={"x-api-key": running.key},
            timeout=300, trust_env=False,
        )  # fmt: skip
        customer = http.post("/customers", json=CUSTOMER).json()["id"]
        for first in range(0, options.tickets, CHUNK):
            tickets = [ticket(number) for number in range(first, min(first + CHUNK, options.tickets))]
            http.post(f"/customers/{customer}/tickets", json={"tickets": tickets}).raise_for_status()
        taken, left = 0, options.tickets
        with Bystander(running) as others:
            while left:
                issued = http.post(f"/customers/{customer}/invoice")
                issued.raise_for_status()
                invoice, left = issued.json(), int(issued.headers["x-tickets-left"])
                taken += invoice["ticket_count"]
                document = http.get(f"/invoices/{invoice['id']}/pdf")
                holds &= document.status_code == 200 and document.content.startswith(b"%PDF")
                print(
                    f"an invoice of {invoice['ticket_count']} tickets, {left} left, PDF {len(document.content)} bytes"
                )
        holds &= others.verdict(f"{options.tickets} tickets")
        holds &= taken == options.tickets
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
