"""Connections to the books of clients: how they are kept and found."""

from __future__ import annotations

from kontobahn.access.principal import in_scope
from kontobahn.clock import optional_datetime, to_datetime
from kontobahn.db import Tx
from kontobahn.ids import new_id
from kontobahn.ledger.model import ConnectionStatus, LedgerConnection


def listing(tx: Tx, organizations: tuple[str, ...]) -> list[LedgerConnection]:
    return [
        LedgerConnection(
            id=connection_id,
            bezeichnung=bezeichnung,
            status=status,
            verbunden_seit=optional_datetime(verbunden_seit),
            erstellt_am=to_datetime(erstellt_am),
        )
        for connection_id, bezeichnung, status, verbunden_seit, erstellt_am in tx.all(
            "SELECT id, bezeichnung, status, verbunden_seit, erstellt_am FROM ledger_connections"
            f" WHERE {in_scope(len(organizations))} ORDER BY erstellt_am, id",
            *organizations,
        )
    ]


def create(
    tx: Tx, organization_id: str, *, bezeichnung: str | None, provider: str, status: ConnectionStatus = "connected"
) -> str:
    connection_id = new_id()
    tx.run(
        "INSERT INTO ledger_connections (organization_id, id, bezeichnung, provider, status, verbunden_seit, erstellt_am)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        organization_id, connection_id, bezeichnung, provider, status,
        None if status == "pending" else tx.now, tx.now,
    )  # fmt: skip
    return connection_id
