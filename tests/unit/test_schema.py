"""Every table leads with the organisation, or with what implies it, so that it could be distributed by organisation as it is."""

from __future__ import annotations

import pytest

from kontobahn.db import Tx
from tests.harness import Service

# A client of the books, an edition of its read models and a bank account belong to one organisation for ever.
IMPLY_THE_ORGANISATION = {"mandant", "edition", "account_id"}
OF_THE_INSTALLATION = {
    "organizations": "it is the organisation",
    "schema_migrations": "one schema",
    "counters": "numbers that are unique over all organisations",
    "job_leases": "which process does a job",
    "banking_inbox": "deliveries of providers, taken before it is known whose they are",
    "banking_removals": "what is still to be removed at a provider, after the organisation's rows are gone",
    "fints_dialogs": "one dialog at a time for a login, whoever uses it",
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
