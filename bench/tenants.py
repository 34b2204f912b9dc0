"""Measures what many organisations cost. Bytes and processor time of one with a key, of one paid call, and memory of a key that is in use.

For docs/scaling.md, which works out what a million of them cost. Nothing is compared, so nothing can be missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers.plain_sql import CAUSE, HOLD_SECONDS
from kontobahn import credits
from kontobahn.access import audit, keys, organizations
from kontobahn.access.principal import Principal
from kontobahn.clock import SystemClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.db.migrate import migrate
from kontobahn.settings import load
from kontobahn.vault import Vault, open_vault
from tests.services import PostgresServer

BATCH = 500


def make(tx: Tx, vault: Vault, number: int) -> list[tuple[str, str]]:
    made = []
    for position in range(number):
        organization = organizations.create(tx, f"Muster GmbH {position}", audit.COMMAND_LINE)
        credits.grant(tx, organization.id, 10**9)
        made.append(
            (organization.id, keys.create(tx, vault, organization.id, "Buchhaltung", audit.COMMAND_LINE).secret)
        )
    return made


def pay(tx: Tx, organization_ids: list[str]) -> None:
    for organization_id in organization_ids:
        hold = credits.reserve(tx, organization_id, 1, hold_seconds=HOLD_SECONDS, cause=CAUSE)
        credits.confirm(tx, organization_id, hold.id)


def stored_bytes(db: Database) -> int:
    if db.engine.name == "postgres":
        sql = "SELECT SUM(pg_total_relation_size(oid))::bigint FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        return int(db.read_now(lambda tx: tx.all(sql))[0][0])
    pages = db.read_now(lambda tx: tx.all("SELECT page_count, page_size FROM pragma_page_count, pragma_page_size"))[0]
    return int(pages[0] * pages[1])


def measure(name: str, db: Database, vault: Vault, number: int) -> None:
    migrate(db)
    before, started = stored_bytes(db), time.process_time()
    ids = [pair[0] for _ in range(number // BATCH) for pair in db.write_now(make, vault, BATCH)]
    per = (time.process_time() - started) / len(ids) * 1e6
    print(
        f"{name}: an organisation with a grant and a key: {(stored_bytes(db) - before) / len(ids):,.0f} bytes, {per:.0f} µs of our CPU"
    )
    before, started, calls = stored_bytes(db), time.process_time(), 0
    for begin in range(0, len(ids), BATCH):
        db.write_now(pay, ids[begin : begin + BATCH])
        calls += len(ids[begin : begin + BATCH])
    per = (time.process_time() - started) / calls * 1e6
    print(
        f"{name}: a paid call (reserved, confirmed): {(stored_bytes(db) - before) / calls:,.0f} bytes, {per:.0f} µs of our CPU"
    )


def cached_key(db: Database, vault: Vault, number: int) -> None:
    """The same as `Authenticator` keeps for each key that was used in the last second."""
    secrets = [secret for _, secret in db.write_now(make, vault, number)]
    digests = [vault.token_hash(secret) for secret in secrets]
    now = SystemClock().now()
    tracemalloc.start()
    cached: dict[str, tuple[float, Principal]] = {}
    for secret, digest in zip(secrets, digests, strict=True):
        cached[secret] = time.monotonic(), db.read_now(keys.authenticate, digest, now)
    print(
        f"memory of a key in use: {tracemalloc.get_traced_memory()[0] / number:,.0f} bytes, of at most 20,000 in a process"
    )
    tracemalloc.stop()


@contextmanager
def opened(database_url: str) -> Iterator[tuple[Database, Vault]]:
    with tempfile.TemporaryDirectory() as folder:
        settings = load({}, data=folder, database_url=database_url, database_connections=2)
        Path(folder).mkdir(exist_ok=True)
        db = open_database(settings, SystemClock())
        try:
            yield db, open_vault(settings)
        finally:
            db.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--organizations", type=int, default=10_000)
    number = parser.parse_args().organizations
    with opened("") as (db, vault):
        measure("SQLite", db, vault, number)
        cached_key(db, vault, BATCH)
    with PostgresServer(durable=True) as server, opened(server.create_database("tenants")) as (db, vault):
        measure("PostgreSQL", db, vault, number)
    return 0


if __name__ == "__main__":
    sys.exit(main())
