"""Counts the events a second that reach healthy receivers while one in ten is dead, beside bare aiohttp posts of the same bodies.

The deliverer runs in this process on a real database, the receivers in one of their own. Dead ones are of two kinds: half refuse
the connection, half take it and never answer.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator

import aiohttp

from bench import report
from bench.measure import ROOT, Row, at_least, for_information, median_ratio, spread
from kontobahn import log
from kontobahn.access import audit, organizations
from kontobahn.clock import SystemClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.db.migrate import migrate
from kontobahn.metrics import Metrics
from kontobahn.outbound import OutboundClient, Rule
from kontobahn.settings import Settings, load
from kontobahn.vault import open_vault
from kontobahn.webhooks import endpoints, outbox
from kontobahn.webhooks.deliverer import Deliverer

ORGANIZATIONS = 40
DEAD = 4
TARGET, MIN_RATIO = 500, 0.3
_DATA = {
    "payment_id": "17",
    "status": "settled",
    "raw_provider_status": "ACSC",
    "template_identifier": "SEPA",
    "payment_attributes": {
        "amount": "129.90", "currency_code": "EUR", "description": "Rechnung RE-2026-0042",
        "creditor_iban": "DE89370400440532013000", "creditor_name": "Muster GmbH",
        "debtor_iban": "DE02120300000000202051", "end_to_end_id": "KB0000000000000017", "customer_ip_address": None,
    },
}  # fmt: skip


class Receivers:
    """Healthy ones and silent ones, in a process of their own; what arrived can be asked for."""

    async def __aenter__(self) -> Receivers:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.webhooks", "--receive", cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        self.healthy, self.silent, self.closed = map(int, line.split())
        self._http = aiohttp.ClientSession()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()
        self._process.terminate()
        await self._process.wait()

    async def count(self) -> int:
        async with self._http.get(f"http://127.0.0.1:{self.healthy}/count") as answer:
            return int(await answer.text())


async def receive() -> None:
    """The receivers' process: 204 to every POST on one port, silence on another, nothing on a third."""
    from aiohttp import web

    arrived = 0

    async def take(request: web.Request) -> web.Response:
        nonlocal arrived
        await request.read()
        arrived += 1
        return web.Response(status=204)

    async def count(_: web.Request) -> web.Response:
        return web.Response(text=str(arrived))

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while await reader.read(65536):
                pass

    app = web.Application()
    app.add_routes([web.get("/count", count), web.post("/{tail:.*}", take)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    silent = await asyncio.start_server(hold, "127.0.0.1", 0)
    closed = await asyncio.start_server(hold, "127.0.0.1", 0)
    ports = [runner.addresses[0][1], silent.sockets[0].getsockname()[1], closed.sockets[0].getsockname()[1]]
    closed.close()
    print(*ports, flush=True)
    await asyncio.Event().wait()


@contextlib.contextmanager
def installation(database_url: str, receivers: Receivers) -> Iterator[tuple[Database, Settings, list[str]]]:
    with tempfile.TemporaryDirectory() as data:
        ports = (receivers.healthy, receivers.silent, receivers.closed)
        allow = ",".join(f"127.0.0.1:{port}" for port in ports)
        settings = load({}, data=data, database_url=database_url, webhook_allow=allow, log_level="warning")
        db = open_database(settings, SystemClock())
        migrate(db)
        vault = open_vault(settings)
        ids = []
        for number in range(ORGANIZATIONS):
            owner = db.write_now(organizations.create, f"Bench {number}", audit.SYSTEM).id
            port = receivers.healthy
            if number < DEAD:
                port = receivers.silent if number % 2 else receivers.closed
            db.write_now(endpoints.set_url, vault, owner, f"http://127.0.0.1:{port}/{number}", audit.SYSTEM)
            ids.append(owner)
        try:
            yield db, settings, ids
        finally:
            db.close()


def emit_round(tx: Tx, ids: list[str], first: int, count: int) -> None:
    for number in range(first, first + count):
        outbox.emit(tx, ids[number % len(ids)], "payment_update", f"payment:{number}", _DATA)


async def ours(
    db: Database, settings: Settings, ids: list[str], receivers: Receivers, events: int, start: int
) -> float:
    """Events written, then delivered: healthy deliveries a second, from the first attempt to the last outcome written down."""
    for first in range(start, start + events, 500):
        await db.write(emit_round, ids, first, min(500, start + events - first))
    client = OutboundClient(Rule.of_setting(settings.webhook_allow))
    deliverer = Deliverer(db, open_vault(settings), client, settings, SystemClock(), Metrics())
    began = time.perf_counter()
    deliverer.start()
    while await db.read(_waiting, ids[DEAD:]):
        await asyncio.sleep(0.05)
    seconds = time.perf_counter() - began
    await deliverer.stop()
    await client.close()
    return events * (ORGANIZATIONS - DEAD) / ORGANIZATIONS / seconds


def _waiting(tx: Tx, ids: list[str]) -> int:
    row = tx.one(
        "SELECT COUNT(*) FROM webhook_deliveries WHERE state = 'pending'"
        f" AND organization_id IN ({', '.join('?' * len(ids))})",
        *ids,
    )
    return int(row[0]) if row else 0


async def bare(receivers: Receivers, posts: int, at_once: int = 64) -> float:
    """The same bodies to the same receivers by aiohttp alone: nothing stored, nothing signed, none of them dead."""
    import msgspec

    body = msgspec.json.encode({"event": "payment_update", "data": _DATA, "received_at": "2026-01-31T09:30:00Z"})
    connector = aiohttp.TCPConnector(limit=at_once)
    async with aiohttp.ClientSession(connector=connector) as http:

        async def worker(count: int) -> None:
            for _ in range(count):
                async with http.post(f"http://127.0.0.1:{receivers.healthy}/bare", data=body) as answer:
                    await answer.read()

        began = time.perf_counter()
        await asyncio.gather(*(worker(posts // at_once) for _ in range(at_once)))
        return posts // at_once * at_once / (time.perf_counter() - began)


def question(engine: str, database_url: str, *, events: int, rounds: int) -> list[Row]:
    loop = asyncio.new_event_loop()

    async def measure() -> list[list[float]]:
        async with Receivers() as receivers:
            with installation(database_url, receivers) as (db, settings, ids):
                figures: list[list[float]] = [[], []]
                for number in range(rounds + 1):
                    delivered = await ours(db, settings, ids, receivers, events, number * events)
                    posted = await bare(receivers, events)
                    if number:
                        figures[0].append(delivered)
                        figures[1].append(posted)
                return figures

    found, beside = loop.run_until_complete(measure())
    loop.close()
    ratio = median_ratio(found, beside)
    middle = statistics.median(found)
    asked = f"{engine}: deliveries to healthy receivers, one in ten dead, beside bare posts"
    return [
        at_least(asked, spread(found, "/s"), spread(beside, "/s"), ratio, MIN_RATIO)
        if engine == "PostgreSQL"
        else for_information(asked, spread(found, "/s"), spread(beside, "/s"), ratio),
        at_least(f"{engine}: the same, beside the target", f"{middle:,.0f}/s", f"{TARGET}/s", middle / TARGET, 1),
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short rounds")
    parser.add_argument("--receive", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=["sqlite", "postgres"])
    arguments = parser.parse_args()
    if arguments.receive:
        asyncio.run(receive())
        return 0
    log.configure("error")
    events, rounds = (1000, 1) if arguments.quick else (4000, 3)
    rows: list[Row] = []
    if arguments.only != "postgres":
        rows += question("SQLite", "", events=events, rounds=rounds)
    if arguments.only != "sqlite":
        from tests.services import PostgresServer

        with PostgresServer(durable=True) as server:
            url = server.create_database("bench_webhooks")
            rows += question("PostgreSQL", url, events=events, rounds=rounds)
    return report.finish(rows)


if __name__ == "__main__":
    sys.exit(main())
