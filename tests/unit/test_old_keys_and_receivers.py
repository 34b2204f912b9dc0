"""A database from before keys had scopes and organisations had several receivers: nothing is lost, and everybody can do what they could."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kontobahn.access import keys, organizations
from kontobahn.access.audit import COMMAND_LINE
from kontobahn.access.scopes import SCOPES
from kontobahn.clock import SystemClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.db.migrate import known_migrations, migrate
from kontobahn.events.entries import Filter, walk
from kontobahn.settings import load
from kontobahn.vault import Vault
from kontobahn.webhooks import endpoint, outbox
from kontobahn.webhooks.claims import Capacity, run_cycle
from kontobahn.webhooks.receiver import Keys
from kontobahn.webhooks.signing import key_of, new_secret
from tests.services import PostgresServer

ORGANIZATION, URL = "0193b2a0-0000-7000-8000-000000000001", "https://receiver.example/events"
VAULT = Vault(b"x" * 32)


@pytest.fixture
def db(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Database]:
    server: PostgresServer | None = request.getfixturevalue("postgres") if engine == "postgres" else None
    url = server.create_database("before_receivers") if server else ""
    database = open_database(load({}, data=str(tmp_path), database_url=url), SystemClock())
    yield database
    database.close()
    if server:
        server.drop_database("before_receivers")


def _old_data(tx: Tx, secret: bytes) -> None:
    tx.run("INSERT INTO organizations (id, name, created_at) VALUES (?, 'Muster', 1)", ORGANIZATION)
    for role in ("member", "admin"):
        tx.run(
            "INSERT INTO api_keys (organization_id, id, name, token_hash, hint, role, is_agency, created_at)"
            " VALUES (?, ?, 'old', ?, 'kb_live_', ?, 0, 1)",
            ORGANIZATION, role, role, role,
        )  # fmt: skip
    tx.run(
        "INSERT INTO webhook_endpoints (organization_id, url, state, secret, updated_at) VALUES (?, ?, 'active', ?, 7)",
        ORGANIZATION, URL, secret,
    )  # fmt: skip
    tx.run("INSERT INTO webhook_logs (organization_id, last_sequence) VALUES (?, 2)", ORGANIZATION)
    for sequence, state in ((1, "delivered"), (2, "pending")):
        tx.run(
            "INSERT INTO webhook_events (organization_id, sequence, id, event, subject, body, received_at)"
            " VALUES (?, ?, ?, 'payment_update', 'payment:1', '{}', 1)",
            ORGANIZATION, sequence, f"evt_{sequence}",
        )  # fmt: skip
        tx.run(
            "INSERT INTO webhook_deliveries (organization_id, sequence, subject, state, attempts, tries, due_at)"
            " VALUES (?, ?, 'payment:1', ?, 1, 1, 5)",
            ORGANIZATION, sequence, state,
        )  # fmt: skip
        tx.run(
            "INSERT INTO webhook_attempts (organization_id, sequence, number, at, milliseconds, status)"
            " VALUES (?, ?, 1, 2, 3, 204)",
            ORGANIZATION, sequence,
        )  # fmt: skip
    tx.run(
        "INSERT INTO webhook_lanes (organization_id, subject, head, next_at) VALUES (?, 'payment:1', 2, 5)",
        ORGANIZATION,
    )


def test_old_keys_and_receivers_go_on_as_they_were(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, secret = known_migrations(db.engine.name), new_secret()
    before = [
        step for step in steps if step.version < next(item.version for item in steps if item.name == "key_rights")
    ]
    with monkeypatch.context() as old:
        old.setattr("kontobahn.db.migrate.known_migrations", lambda _: before)
        migrate(db)
    db.write_now(_old_data, VAULT.seal(secret.encode(), f"webhook_endpoints {ORGANIZATION}"))
    migrate(db)

    rights = {key.id: key.rights.scopes for key in db.read_now(keys.listing, ORGANIZATION)}
    assert rights == {"member": SCOPES, "admin": None}

    receiver = db.read_now(endpoint.find, ORGANIZATION)
    assert receiver is not None
    assert (receiver.url, receiver.state, receiver.updated_at) == (URL, "active", 7)
    log = db.read_now(walk, ORGANIZATION, Filter(), cursor=0, newest_first=False, limit=10)
    assert [(entry.id, entry.state, [item.status for item in entry.attempts]) for entry in log] == [
        ("evt_1", "delivered", [204]),
        ("evt_2", "pending", [204]),
    ]
    capacity = Capacity(9, 9, 9, 9, {}, (), frozenset())
    cycle = db.write_now(run_cycle, db.engine.name, "me", [], capacity, claim_seconds=45, pause_days=5)
    (claimed,) = cycle.claimed
    assert (claimed.id, claimed.url, claimed.attempts) == ("evt_2", URL, 1)
    assert Keys(VAULT).of(claimed.receiver, claimed.sealed, 0) == [key_of(secret)]
    # What is new is written beside what is old.
    assert db.write_now(outbox.emit, ORGANIZATION, "payment_update", "payment:2", {})
    assert db.write_now(organizations.create, "Neue", COMMAND_LINE)
