"""Every table stands in the file of a room, and leads with the organisation, or with what implies it, so that it could be distributed
by organisation as it is."""

from __future__ import annotations

import re

import pytest

from kontobahn.db import Tx
from kontobahn.db.migrate import ROOMS
from tests.harness import Service
from tests.tidy_rules import ROOT

FILES = sorted((ROOT / "src/kontobahn/db/schema").iterdir())
SOURCE = ROOT / "src/kontobahn"

# A client of the books, an edition of its read models and a bank account belong to one organisation for ever.
IMPLY_THE_ORGANISATION = {"mandant", "edition", "account_id"}
OF_THE_INSTALLATION = {
    "organizations": "it is the organisation",
    "schema_migrations": "one schema",
    "counters": "numbers that are unique over all organisations",
    "job_leases": "which process does a job",
    "banking_inbox": "deliveries of providers, taken before it is known whose they are",
    "banking_removals": "what is still to be removed at a provider, after the organisation's rows are gone",
    "fints_dialogs": "its key is a digest, of the organisation as well",
    "idempotency_keys": "its scope names the organisation",
    "sign_in_attempts": "counted by address and account, before anybody is known",
    "sign_in_challenges": "found by the token alone, before anybody is known",
}


def _primary_keys(tx: Tx) -> dict[str, str]:
    tables = tx.all("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return {
        name: next(column for _, column, *_, place in tx.all(f"PRAGMA table_info({name})") if place == 1)
        for (name,) in tables
    }


@pytest.mark.parametrize("engine", ["sqlite"])
def test_every_table_leads_with_the_organisation(service: Service) -> None:
    first_columns = service.db.read_now(_primary_keys)
    assert len(first_columns) > 80
    leading = {"organization_id"} | IMPLY_THE_ORGANISATION
    others = {name for name, column in first_columns.items() if column not in leading}
    # The sandbox bank is a bank outside, in a schema of its own.
    assert {name for name in others if not name.startswith("sandbox_")} == set(OF_THE_INSTALLATION)


def test_every_file_is_that_of_a_room() -> None:
    kinds = {"sql", "sqlite.sql", "postgres.sql", "older.sql"}
    named = [file.name.partition(".") for file in FILES]
    assert [name for name in named if name[2] not in kinds] == []
    assert {room for room, _, _ in named} == set(ROOMS)
    places = (SOURCE, SOURCE / "bank_providers")
    homeless = [
        room
        for room in ROOMS
        if not any((place / room).is_dir() or (place / f"{room}.py").is_file() for place in places)
    ]
    assert homeless == []


@pytest.mark.parametrize("engine", ["sqlite"])
def test_every_table_stands_in_one_file(service: Service) -> None:
    texts = [file.read_text("utf-8") for file in FILES]
    written = [table for text in texts for table in re.findall(r"^CREATE TABLE (\w+)", text, re.MULTILINE)]
    # The history of the steps is made before anything else.
    assert sorted([*written, "schema_migrations"]) == sorted(service.db.read_now(_primary_keys))
