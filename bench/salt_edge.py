"""Reading bookings through the adapter of Salt Edge, from signed requests to facts, beside decoding the same answers with msgspec."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from bench import measure, report
from bench.measure import at_most, for_information
from kontobahn.bank_providers.salt_edge.adapter import SaltEdgeProvider
from kontobahn.bank_providers.salt_edge.client import SaltEdgeClient
from kontobahn.bank_providers.salt_edge.wire import Page, Transaction
from kontobahn.banking.provider import TransactionFacts
from kontobahn.clock import SystemClock
from kontobahn.outbound import Reply
from simulators.salt_edge import SaltEdge, key

MAX_TIMES = 2
_encode = msgspec.json.Encoder(decimal_format="number").encode
ROUNDS = 5
TEXTS = (
    "EREF+RE-2026-0815 SVWZ+Rechnung RE-2026-0815 vom 01.03.2026 ABWA+Anna Beispiel",
    "Kartenzahlung 14.03.2026 12:31 Baumarkt Musterstadt",
    "Entgelt 01.02.2026 - 28.02.2026",
)


class Answers:
    """The answers of the simulator, made beforehand: no network, and nothing of its cost counts."""

    def __init__(self, remote: SaltEdge) -> None:
        self._remote = remote
        self._made: dict[str, bytes] = {}
        self.bookings: list[bytes] = []

    async def send(self, method: str, url: str, *, headers: Mapping[str, str], **_: Any) -> Reply:
        if url not in self._made:
            parts = urlsplit(url)
            query = dict(parse_qsl(parts.query))
            found = self._remote._route(method, parts.path.removeprefix("/api/v6"), query, b"")
            self._made[url] = _encode(found)
            if parts.path.endswith("/transactions"):
                self.bookings.append(self._made[url])
        return Reply(200, {}, self._made[url])

    async def close(self) -> None:
        """Does nothing: there is nothing open."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10,000 bookings")
    parser.add_argument("--bookings", type=int, default=100_000)
    options = parser.parse_args()
    count = 10_000 if options.quick else options.bookings
    print(measure.describe_machine(Path(tempfile.gettempdir())), flush=True)
    remote = SaltEdge()
    connection = remote.open_connection("1")
    account = remote.add_account(connection, "DE02120300000000202051")
    for number in range(count):
        extra = {"payee": "Stadtwerke Musterstadt GmbH", "posting_date": "2026-03-02", "end_to_end_id": f"E-{number}",
                 "account_balance_snapshot": Decimal(f"{number}.50")}  # fmt: skip
        day = f"2025-{number % 12 + 1:02d}-{number % 28 + 1:02d}"
        remote.book(connection, account, f"{number}.25", day, TEXTS[number % 3], extra=extra)
    answers = Answers(remote)
    client = SaltEdgeClient(answers, SystemClock(), "https://www.saltedge.com/api/v6", "app", "secret", key("app"))
    provider = SaltEdgeProvider(client, SystemClock(), [], b"", sandboxes=False)

    def ours() -> float:
        started = time.process_time()
        found = asyncio.run(_count(provider, connection.id))
        seconds = time.process_time() - started
        assert found == count
        return seconds

    # Exact numbers, as any reader of money must have them; and as structs with just the fields that are read.
    whole = msgspec.json.Decoder(float_hook=Decimal).decode
    structs = msgspec.json.Decoder(Page[Transaction]).decode
    mine, bare, typed = measure.interleave(
        ROUNDS, ours, lambda: _decoding(whole, answers.bookings), lambda: _decoding(structs, answers.bookings)
    )
    size = sum(map(len, answers.bookings)) / 1e6
    question = f"{count:,} bookings of Salt Edge, {size:,.0f} MB: beside decoding the answers"
    said = measure.spread(mine, " s", 2)
    rows = [
        at_most(question, said, measure.spread(bare, " s", 2), measure.median_ratio(mine, bare), MAX_TIMES),
        for_information(
            f"{question} into structs", said, measure.spread(typed, " s", 2), measure.median_ratio(mine, typed)
        ),
    ]
    return report.finish(rows)


async def _count(provider: SaltEdgeProvider, provider_ref: str) -> int:
    found: list[TransactionFacts] = []
    page: str | None = ""
    while page is not None:
        snapshot = await provider.fetch(provider_ref, None, page or None)
        found += snapshot.transactions
        page = snapshot.next_page
    return len(found)


def _decoding(decode: Callable[[bytes], Any], answers: list[bytes]) -> float:
    started = time.process_time()
    kept = [decode(content) for content in answers]
    seconds = time.process_time() - started
    assert len(kept) == len(answers)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
