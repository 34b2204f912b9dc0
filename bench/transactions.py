"""Measures what a paid list of transactions costs. Two questions, each answered as a ratio to something run beside it.

1. A paid list of 100 transactions on one worker at full durability, beside FastAPI with SQLAlchemy and Express with better-sqlite3
   on the same rows.
2. A million transactions walked by `from_id` over HTTP, beside reading and joining the stored texts alone.

Both at three sizes of the account, too: a list costs what it returns, not what there is.
"""

from __future__ import annotations

import argparse
import http.client
import json
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

from bench import measure, report
from bench.measure import Child, Row
from bench.peers import express
from bench.report import Curve, Series
from kontobahn import credits, settings
from kontobahn.access import audit, keys, organizations
from kontobahn.banking.connections import sources
from kontobahn.banking.connections import store as connections
from kontobahn.banking.provider import AccountFacts, BankConnectionFacts, TransactionFacts
from kontobahn.banking.transactions.ingest import TransactionIngest
from kontobahn.banking.transactions.recognition import Delivery
from kontobahn.banking.transactions.wire import reported
from kontobahn.clock import SystemClock
from kontobahn.db import Tx, open_database
from kontobahn.db.migrate import migrate
from kontobahn.money import from_minor
from kontobahn.vault import Vault, open_vault

PEERS = Path(__file__).resolve().parent / "peers"
PLENTY = 10**12
LISTED, PAGE = 100, 10_000
EXPRESS = "Express with better-sqlite3"
NO_LIMIT = {"KONTOBAHN_LIMIT_API_REQUESTS": str(10**9)}


def bookings(count: int) -> Iterator[TransactionFacts]:
    first = date(2020, 1, 1)
    return (
        TransactionFacts(
            account_ref="giro",
            made_on=first + timedelta(days=number % 2000),
            amount_minor=(number * 7919) % 100_000 - 50_000,
            currency_code="EUR",
            description=f"EREF+RE-{number:08d}MREF+M-{number % 977}CRED+DE98ZZZ09999999999SVWZ+Rechnung {number} vom Mai, Danke",
            provider_ref=f"b{number}",
            extra={
                "payee": "Muster Handels GmbH", "payer": "Beispiel AG", "posting_date": first,
                "account_balance_snapshot": from_minor(number * 13),
            },
        )
        for number in range(count)
    )  # fmt: skip


def seed(tx: Tx, vault: Vault, count: int) -> tuple[str, int]:
    """Creates an organisation with one account of this many transactions. Returns its key and the account's id."""
    owner = organizations.create(tx, "Muster GmbH", audit.COMMAND_LINE)
    credits.grant(tx, owner.id, PLENTY)
    key = keys.create(tx, vault, owner.id, "benchmark", audit.COMMAND_LINE, role="admin")
    bank = BankConnectionFacts(
        "bank", "musterbank", "Musterbank", "DE", "", (), tx.now * 2, tx.now, automatic_refresh=False
    )
    row = connections.create(tx, owner.id, provider="files", api="partner", owner_user_id=None, facts=bank)
    facts = AccountFacts("giro", "Girokonto", "checking", 0, "EUR", "DE89370400440532013000", "Muster GmbH")
    [account] = sources.open_some(tx, owner.id, row.id, [facts])
    ingest = TransactionIngest(tx, account, Delivery(source=row.id))
    ingest.add(map(reported, bookings(count)))
    ingest.finish()
    return key.secret, account.id


def make(place: Path, count: int, database_url: str = "") -> tuple[str, int]:
    chosen = settings.load({}, data=str(place), database_url=database_url)
    db = open_database(chosen, SystemClock())
    migrate(db)
    seeded = db.write_now(seed, open_vault(chosen), count)
    db.close()
    return seeded


def paid_list(place: Path, rounds: int, seconds: float) -> list[Row]:
    key, account = make(place, LISTED)
    headers, path = {"x-api-key": key}, f"/v2/banking/transactions?account_id={account}"
    with ExitStack() as stack:
        ours = stack.enter_context(Child(str(PEERS / "kontobahn_server.py"), str(place), environ=NO_LIMIT))
        rows = rows_of(ours.port, path, headers)
        (place / "rows.json").write_text(json.dumps(rows), "utf-8")
        peer = stack.enter_context(
            Child(str(PEERS / "fastapi_transactions.py"), str(place / "peer.sqlite3"), key, str(place / "rows.json"))
        )
        missing = express.install()
        node = (
            [stack.enter_context(express.serve(str(place / "express.sqlite3"), key, str(place / "rows.json")))]
            if not missing
            else []
        )
        servers = [ours, peer, *node]
        for server in servers[1:]:
            if [row["id"] for row in rows_of(server.port, path, headers)] != [row["id"] for row in rows]:
                raise AssertionError("They do not return the same rows.")
        loads: list[list[measure.Load]] = [[] for _ in servers]
        for number in range(rounds + 1):
            for server, found in zip(servers, loads, strict=True):
                result = measure.load(server, path, headers, seconds)
                if number:
                    found.append(result)
    lines = _beside("FastAPI", loads[0], loads[1], 25)
    if missing:
        return [*lines, measure.not_run(_question(EXPRESS), missing)]
    return [*lines, *_beside(EXPRESS, loads[0], loads[2], None)]


def _question(peer: str) -> str:
    return f"paid list of 100 transactions, one worker: calls a second, beside {peer}"


def _beside(peer: str, ours: list[measure.Load], theirs: list[measure.Load], least: float | None) -> list[Row]:
    rates = [[load.requests_a_second for load in found] for found in (ours, theirs)]
    costs = [[load.cpu_microseconds for load in found] for found in (ours, theirs)]
    mine, other = (measure.spread(found, "/s") for found in rates)
    ratio = measure.median_ratio(*rates)
    return [
        measure.for_information(_question(peer), mine, other, ratio)
        if least is None
        else measure.at_least(_question(peer), mine, other, ratio, least),
        measure.for_information(
            f"the same: calls for the same CPU, beside {peer}", measure.spread(costs[0], " µs"), measure.spread(costs[1], " µs"),
            measure.median_ratio(costs[1], costs[0]),
        ),
    ]  # fmt: skip


def rows_of(port: int, path: str, headers: dict[str, str]) -> list[dict[str, object]]:
    status, _, body = measure.ask_once(port, path, headers)
    rows: list[dict[str, object]] = json.loads(body)["data"]
    if status != 200 or len(rows) != LISTED:
        raise AssertionError(f"An unexpected answer: {status} {body[:300]!r}")
    return rows


class Walked(NamedTuple):
    """Seconds of one list of 100 and of a whole walk, round by round, and of reading the texts beside it."""

    listed: list[float]
    walked: list[float]
    texts: list[float]


def walk(place: Path, count: int, rounds: int) -> Walked:
    key, account = make(place, count)
    with Child(str(PEERS / "kontobahn_server.py"), str(place), environ=NO_LIMIT) as server:

        def one_list() -> float:
            path = f"/v2/banking/transactions?account_id={account}&limit={LISTED}"
            started = time.perf_counter()
            rows_of(server.port, path, {"x-api-key": key})
            return time.perf_counter() - started

        def over_http() -> float:
            started, seen, last = time.perf_counter(), 0, "0"
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            while True:
                query = f"account_id={account}&sort=id&limit={PAGE}&from_id={last}"
                connection.request("GET", f"/v2/banking/transactions?{query}", headers={"x-api-key": key})
                body = connection.getresponse().read()
                if len(body) < 20:
                    break
                # The last id of the page, without reading all of it as JSON: that would be the client's cost.
                begins = body.rindex(b'{"id":"', 0, len(body)) + 7
                last = body[begins : body.index(b'"', begins)].decode()
                seen += body.count(b'"account_id":"')
            connection.close()
            if seen != count:
                raise AssertionError(f"{seen} of {count} transactions were seen.")
            return time.perf_counter() - started

        def texts_alone() -> float:
            started, seen, last = time.perf_counter(), 0, 0
            database = sqlite3.connect(f"file:{place / 'kontobahn.sqlite3'}?mode=ro", uri=True)
            sql = "SELECT id, wire FROM banking_transactions WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?"
            while rows := database.execute(sql, (account, last, PAGE)).fetchall():
                body = f'{{"data":[{",".join([wire for _, wire in rows])}]}}'.encode()
                seen, last = seen + len(rows), rows[-1][0]
                assert body
            database.close()
            if seen != count:
                raise AssertionError(f"{seen} of {count} transactions were read.")
            return time.perf_counter() - started

        [listed] = measure.interleave(rounds * 10, one_list)
        return Walked(listed, *measure.interleave(rounds, over_http, texts_alone))


def _walk_row(count: int, found: Walked) -> Row:
    return measure.at_most(
        f"{count:,} transactions walked by from_id, beside reading and joining the texts",
        measure.spread([second * 1000 for second in found.walked], " ms"),
        measure.spread([second * 1000 for second in found.texts], " ms"),
        measure.median_ratio(found.walked, found.texts), 1.5,
    )  # fmt: skip


def _curves(sizes: list[int], found: list[Walked]) -> list[Curve]:
    middle = statistics.median
    return [
        Curve(
            "list", "A paid list of 100 transactions, over HTTP", "transactions in the account", sizes,
            [Series("Kontobahn", [middle(one.listed) for one in found])],
        ),
        Curve(
            "walk", "All transactions walked, 10,000 a page", "transactions", sizes,
            [
                Series("Kontobahn, over HTTP", [middle(one.walked) for one in found]),
                Series("reading the stored texts", [middle(one.texts) for one in found]),
            ],
        ),
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and a tenth of the transactions")
    quick = parser.parse_args().quick
    sizes = [1_000, 10_000, 100_000] if quick else [10_000, 100_000, 1_000_000]
    with tempfile.TemporaryDirectory(prefix="kontobahn-bench-") as folder:
        place = Path(folder)
        for name in ("list", *map(str, sizes)):
            (place / name).mkdir()
        rows = paid_list(place / "list", 3 if quick else 5, 1 if quick else 2)
        found = []
        for size in sizes:
            found.append(walk(place / str(size), size, 2 if quick else 3))
            shutil.rmtree(place / str(size))
    return report.finish([*rows, _walk_row(sizes[-1], found[-1])], _curves(sizes, found))


if __name__ == "__main__":
    sys.exit(main())
