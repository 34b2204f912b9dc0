"""The names behind the calls of programs: keys, and people with the assistants that they have connected."""

from __future__ import annotations

from kontobahn.access import keys
from kontobahn.assistants import grants
from kontobahn.db import Tx


def names(tx: Tx, organization_id: str) -> dict[str, str]:
    """By the id that the lists of calls and credits name."""
    return {key.id: key.name for key in keys.listing(tx, organization_id)} | grants.names(tx, organization_id)
