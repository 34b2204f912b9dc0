"""Measures what credits and a keyed call cost. Five questions, each answered as a ratio to something run beside it.

1. Reserve and confirm on SQLite with group commit, beside a commit per operation.
2. The same on PostgreSQL, beside plain psycopg: one hot organisation, and sixteen.
3. A keyed, rate-limited, free call over HTTP, beside FastAPI with SQLAlchemy, Express with better-sqlite3 and a bare handler.
4. From the start of the process to its first answer, beside the start of Python itself.
5. Looking up keys, every other one an agency's, beside looking up ordinary keys only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench import measure, report
from bench.measure import Child, Row
from bench.peers import express
from bench.peers.plain_sql import CAUSE, HOLD_SECONDS, PlainPostgres, PlainSqlite
from kontobahn import credits, settings
from kontobahn.access import audit, keys, organizations
from kontobahn.access.sessions import Authenticator
from kontobahn.clock import SystemClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.db import Row as DbRow
from kontobahn.db.migrate import migrate
from kontobahn.ledger import connections
from kontobahn.settings import Settings
from kontobahn.vault import Vault, open_vault

CALLERS = 16
PLENTY = 10**12
PATH = "/v2/ledger-rewe-read/connections"
PEERS = Path(__file__).resolve().parent / "peers"


class Pace(NamedTuple):
    rounds: int
    seconds: float
    starts: int


FULL = Pace(rounds=7, seconds=1.2, starts=7)
QUICK = Pace(rounds=3, seconds=0.5, starts=3)


def seed(tx: Tx, vault: Vault) -> tuple[str, str]:
    """An organisation with credits, three connections and a key: its id and the key."""
    organization = organizations.create(tx, "Muster GmbH", audit.COMMAND_LINE)
    credits.grant(tx, organization.id, PLENTY)
    for number in range(3):
        connections.create(tx, organization.id, bezeichnung=f"Muster GmbH {number}", provider="books")
    key = keys.create(tx, vault, organization.id, "benchmark", audit.COMMAND_LINE, role="admin")
    return organization.id, key.secret


def open_seeded(chosen: Settings, organizations_wanted: int) -> tuple[Database, list[str]]:
    db = open_database(chosen, SystemClock())
    migrate(db)
    vault = open_vault(chosen)
    return db, [db.write_now(seed, vault)[0] for _ in range(organizations_wanted)]


def pairs_a_second(db: Database, callers: Sequence[str], seconds: float) -> float:
    """Reserve and confirm through `Database.write`: a task for each caller, named by its organisation, on one event loop."""

    async def call(organization_id: str, ends: float) -> int:
        done = 0
        while time.perf_counter() < ends:
            hold = await db.write_together(
                organization_id, credits.reserve, organization_id, 1, hold_seconds=HOLD_SECONDS, cause=CAUSE
            )
            await db.write_together(organization_id, credits.confirm, organization_id, hold.id)
            done += 1
        return done

    async def run() -> float:
        started = time.perf_counter()
        done = await asyncio.gather(*(call(organization_id, started + seconds) for organization_id in callers))
        return sum(done) / (time.perf_counter() - started)

    return asyncio.run(run())


def refuse_discrepancies(db: Database) -> None:
    """A fast ledger that is wrong is worth nothing. Only the totals are checked: the statement is too long to add up here."""

    def count(tx: Tx) -> list[DbRow]:
        return tx.all(
            "SELECT a.organization_id, a.last_line FROM credit_accounts a WHERE a.reserved <> 0"
            " OR a.last_line <> (SELECT COUNT(*) FROM credit_movements m WHERE m.organization_id = a.organization_id)"
            " OR a.spent * 2 + 1 <> a.last_line"
        )

    wrong = db.read_now(count)
    if wrong:
        raise AssertionError(f"The accounts do not add up: {wrong}")


def on_sqlite(pace: Pace, place: Path) -> list[Row]:
    ours, (ours_id,) = open_seeded(settings.load({}, data=str(place / "ours")), 1)
    beside_settings = settings.load({}, data=str(place / "beside"))
    beside, (beside_id,) = open_seeded(beside_settings, 1)
    beside.close()
    plain = PlainSqlite(beside_settings.sqlite_path)

    def plainly(threads: int) -> Callable[[], float]:
        return lambda: measure.operations_a_second(
            pace.seconds, threads, lambda _: plain.reserve_and_confirm(beside_id)
        )

    with_ours, one_thread, sixteen = measure.interleave(
        pace.rounds, lambda: pairs_a_second(ours, [ours_id] * CALLERS, pace.seconds), plainly(1), plainly(CALLERS)
    )
    refuse_discrepancies(ours)
    ours.close()
    plain.close()
    question = f"1 SQLite, {CALLERS} callers: reserve+confirm, beside "
    # It depends on the disk which is faster.
    slower, faster = sorted([one_thread, sixteen], key=statistics.median)
    ours_shown = measure.spread(with_ours, "/s")
    return [
        measure.at_least(
            question + f"a commit each in one thread or in {CALLERS}, the faster",
            ours_shown,
            measure.spread(faster, "/s"),
            measure.median_ratio(with_ours, faster),
            5,
        ),
        measure.for_information(
            question + "the slower of these",
            ours_shown,
            measure.spread(slower, "/s"),
            measure.median_ratio(with_ours, slower),
        ),
    ]


def on_postgres(pace: Pace, place: Path) -> list[Row]:
    from tests.services import PostgresServer

    rows = []
    with PostgresServer(durable=True) as server:
        for name, spread_over, least in (("one organisation", 1, 4), (f"{CALLERS} organisations", CALLERS, 2)):
            url = server.create_database(f"bench_{spread_over}")
            chosen = settings.load({}, data=str(place / name), database_url=url)
            db, ids = open_seeded(chosen, 2 * spread_over)
            ours, beside = ids[:spread_over], ids[spread_over:]
            plain = PlainPostgres(url, CALLERS)
            rows.append(_compare_on_postgres(pace, name, db, ours * (CALLERS // spread_over), plain, beside, least))
            refuse_discrepancies(db)
            plain.close()
            db.close()
    return rows


def _compare_on_postgres(
    pace: Pace,
    name: str,
    db: Database,
    callers: Sequence[str],
    plain: PlainPostgres,
    beside: Sequence[str],
    least: float,
) -> Row:
    def plainly(thread: int) -> None:
        plain.reserve_and_confirm(thread, beside[thread % len(beside)])

    with_ours, plainly_done = measure.interleave(
        pace.rounds,
        lambda: pairs_a_second(db, callers, pace.seconds),
        lambda: measure.operations_a_second(pace.seconds, CALLERS, plainly),
    )
    return measure.at_least(
        f"2 PostgreSQL, {CALLERS} callers on {name}: reserve+confirm, beside psycopg in threads",
        measure.spread(with_ours, "/s"),
        measure.spread(plainly_done, "/s"),
        measure.median_ratio(with_ours, plainly_done),
        least,
    )


def looking_up(pace: Pace, place: Path) -> list[Row]:
    from tests.services import PostgresServer

    rows = []
    with PostgresServer(durable=True) as server:
        for engine, url in (("SQLite", ""), ("PostgreSQL", server.create_database("bench_keys"))):
            chosen = settings.load({}, data=str(place / engine), database_url=url)
            db, vault = open_database(chosen, SystemClock()), open_vault(chosen)
            migrate(db)
            client, ordinary = db.write_now(seed, vault)
            agency = db.write_now(
                keys.create, vault, client, "agency", audit.COMMAND_LINE, role="admin", clients=(client,)
            ).secret
            # As another process would: whatever is learned of one kind of key must not be paid for by the other.
            other = open_database(chosen, SystemClock())
            mixed, alone = measure.interleave(
                pace.rounds,
                partial(look_ups_a_second, db, vault, (ordinary, agency), pace.seconds),
                partial(look_ups_a_second, other, vault, (ordinary,), pace.seconds),
            )
            rows.append(
                measure.at_least(
                    f"5 {engine}, {CALLERS} callers: keys looked up, every other an agency's, beside ordinary ones only",
                    measure.spread(mixed, "/s"), measure.spread(alone, "/s"), measure.median_ratio(mixed, alone), 0.85,
                )
            )  # fmt: skip
            db.close()
            other.close()
    return rows


def look_ups_a_second(db: Database, vault: Vault, secrets: Sequence[str], seconds: float) -> float:
    """The keys in turn, each looked up: the authenticator remembers none. SQLite's engine gives the rows again, as nothing is written."""

    async def call(ends: float) -> int:
        done = 0
        authenticator = Authenticator(db, vault, SystemClock())
        while time.perf_counter() < ends:
            await authenticator.by_key(secrets[done % len(secrets)])
            authenticator._cached.clear()
            done += 1
            await asyncio.sleep(0)
        return done

    async def run() -> float:
        started = time.perf_counter()
        done = await asyncio.gather(*(call(started + seconds) for _ in range(CALLERS)))
        return sum(done) / (time.perf_counter() - started)

    return asyncio.run(run())


def over_http(pace: Pace, place: Path) -> list[Row]:
    chosen = settings.load({}, data=str(place))
    db = open_database(chosen, SystemClock())
    migrate(db)
    _, key = db.write_now(seed, open_vault(chosen))
    db.close()
    headers = {"x-api-key": key}
    with ExitStack() as stack:
        ours = stack.enter_context(
            Child(str(PEERS / "kontobahn_server.py"), str(place), environ={"KONTOBAHN_LIMIT_API_REQUESTS": str(10**9)})
        )
        answer = _check_answer(ours, headers)
        (place / "answer.json").write_text(json.dumps(answer), "utf-8")
        bare, bare_on_our_loop = (
            stack.enter_context(Child(str(PEERS / "bare_asgi.py"), str(place / "answer.json"), *loop))
            for loop in ([], ["--our-loop"])
        )
        fastapi = [
            stack.enter_context(
                Child(str(PEERS / "fastapi_peer.py"), str(place / f"peer{number}.sqlite3"), key, *server)
            )
            for number, server in enumerate(([], ["granian"]))
        ]
        missing = express.install()
        node = [] if missing else [stack.enter_context(express.serve(str(place / "express.sqlite3"), key))]
        servers = [ours, bare, *fastapi, bare_on_our_loop, *node]
        for server in servers:
            _check_answer(server, headers)
        # wrk takes whole seconds; a few of them also smooth the hundredths that a process's time is counted in.
        loads: list[list[measure.Load]] = [[] for _ in servers]
        for number in range(max(3, pace.rounds - 2) + 1):
            for server, found in zip(servers, loads, strict=True):
                result = measure.load(server, PATH, headers, 2 if number and pace is FULL else 1)
                if number:
                    found.append(result)
    return [*_http_rows(*loads[:5]), _beside_express(loads[0], loads[5] if node else [], missing)]


def _check_answer(server: Child, headers: dict[str, str]) -> dict[str, object]:
    """The response that every peer must send: three connections, with the headers of the contract."""
    status, sent, body = measure.ask_once(server.port, PATH, headers)
    wanted = {"x-request-id", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "ratelimit-policy"}
    if status != 200 or len(json.loads(body)["connections"]) != 3 or not wanted <= sent.keys():
        raise AssertionError(f"An unexpected answer: {status} {sent} {body[:500]!r}")
    kept = [(name, value) for name, value in sent.items() if name not in ("date", "server", "connection")]
    return {"headers": kept, "body": body.decode()}


def _http_rows(
    ours: list[measure.Load],
    bare: list[measure.Load],
    uvicorn: list[measure.Load],
    granian: list[measure.Load],
    bare_on_our_loop: list[measure.Load],
) -> list[Row]:
    def cpu(loads: list[measure.Load]) -> list[float]:
        return [load.cpu_microseconds for load in loads]

    def rate(loads: list[measure.Load]) -> list[float]:
        return [load.requests_a_second for load in loads]

    def show_cpu(loads: list[measure.Load]) -> str:
        return measure.spread(cpu(loads), " µs")

    question = "3 GET connections, one worker: "
    return [
        measure.at_least(
            question + "calls for the same CPU, beside FastAPI on uvicorn",
            show_cpu(ours), show_cpu(uvicorn), measure.median_ratio(cpu(uvicorn), cpu(ours)), 8,
        ),
        measure.for_information(
            question + "calls for the same CPU, beside FastAPI on our server",
            show_cpu(ours), show_cpu(granian), measure.median_ratio(cpu(granian), cpu(ours)),
        ),
        measure.at_most(
            question + "CPU a call, beside a bare handler",
            show_cpu(ours), show_cpu(bare), measure.median_ratio(cpu(ours), cpu(bare)), 3,
        ),
        measure.for_information(
            question + "CPU a call, beside a bare handler on our event loop",
            show_cpu(ours), show_cpu(bare_on_our_loop), measure.median_ratio(cpu(ours), cpu(bare_on_our_loop)),
        ),
        measure.for_information(
            question + "calls a second, beside FastAPI on uvicorn",
            measure.spread(rate(ours), "/s"), measure.spread(rate(uvicorn), "/s"),
            measure.median_ratio(rate(ours), rate(uvicorn)),
        ),
        measure.for_information(
            question + "calls a second, beside a bare handler",
            measure.spread(rate(ours), "/s"), measure.spread(rate(bare), "/s"),
            measure.median_ratio(rate(ours), rate(bare)),
        ),
    ]  # fmt: skip


def _beside_express(ours: list[measure.Load], node: list[measure.Load], missing: str) -> Row:
    question = "3 GET connections, one worker: calls for the same CPU, beside Express with better-sqlite3"
    if missing:
        return measure.not_run(question, missing)
    mine, theirs = ([load.cpu_microseconds for load in loads] for loads in (ours, node))
    return measure.for_information(
        question, measure.spread(mine, " µs"), measure.spread(theirs, " µs"), measure.median_ratio(theirs, mine)
    )


def from_start_to_answer(pace: Pace, place: Path) -> list[Row]:
    with Started(place) as service:
        service.wait_for("/healthz", {})
    chosen = settings.load({}, data=str(place))
    db = open_database(chosen, SystemClock())
    _, key = db.write_now(seed, open_vault(chosen))
    db.close()

    def until(path: str, headers: dict[str, str]) -> Callable[[], float]:
        def run() -> float:
            with Started(place) as service:
                return service.wait_for(path, headers)

        return run

    healthy, keyed, python = measure.interleave(
        pace.starts, until("/healthz", {}), until(PATH, {"x-api-key": key}), start_python
    )
    rows = []
    for what, found in (("/healthz", healthy), ("a keyed call", keyed)):
        seconds, ratio = statistics.median(found), measure.median_ratio(found, python)
        question = f"4 start to the first answer, {what}, beside importing http.server"
        ours, beside = measure.spread(found, " s", 2), measure.spread(python, " s", 2)
        rows.append(Row(question, ours, beside, ratio, "< 0.6 s", seconds < 0.6))
    return rows


def start_python() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import http.server"], check=True, env=measure.environment())
    return time.perf_counter() - started


class Started(measure.Process):
    """`kontobahn serve --demo` on a free port, which it writes into the facts of the demo."""

    def __init__(self, data: Path) -> None:
        self._facts = data / "demo.json"
        self._before = self._stamp()
        super().__init__("-m", "kontobahn", "serve", "--demo", "--port", "0", "--data", str(data))

    def wait_for(self, path: str, headers: dict[str, str]) -> float:
        """Seconds from the start to the first 200 on this path."""
        while time.perf_counter() - self.started < measure.START_SECONDS and self.running:
            time.sleep(0.002)
            if self._stamp() == self._before:
                continue
            try:
                port = int(json.loads(self._facts.read_text("utf-8"))["base_url"].rpartition(":")[2])
                status, _, _ = measure.ask_once(port, path, headers)
            except (OSError, ValueError, KeyError):
                continue  # not the whole file, or not listening yet
            if status == 200:
                return time.perf_counter() - self.started
        raise self.failed(f"The service did not answer {path}:")

    def _stamp(self) -> int | None:
        try:
            return self._facts.stat().st_mtime_ns
        except FileNotFoundError:
            return None


QUESTIONS = {1: on_sqlite, 2: on_postgres, 3: over_http, 4: from_start_to_answer, 5: looking_up}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short rounds, for trying")
    parser.add_argument("--only", type=int, choices=sorted(QUESTIONS), help="answer this question alone")
    options = parser.parse_args()
    rows: list[Row] = []
    failed = False
    with tempfile.TemporaryDirectory(prefix="kontobahn-bench-") as name:
        place = Path(name)
        print(measure.describe_machine(place), flush=True)
        for number in [options.only] if options.only else sorted(QUESTIONS):
            directory = place / str(number)
            directory.mkdir()
            try:
                rows += QUESTIONS[number](QUICK if options.quick else FULL, directory)
            except (RuntimeError, OSError) as error:
                print(f"Question {number} has no answer: {error}", flush=True)
                rows.append(measure.not_run(f"{number} all of it", "it failed"))
                failed = True
    return report.finish(rows) or int(failed)


if __name__ == "__main__":
    sys.exit(main())
