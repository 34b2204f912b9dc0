"""The append-only log of what was changed, by whom. Written in the transaction of the change."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kontobahn.db import Tx
from kontobahn.ids import new_id


class Actor(NamedTuple):
    """Who did it, and through which call."""

    name: str
    request_id: str | None = None
    ip: str | None = None


COMMAND_LINE = Actor("command line")
SYSTEM = Actor("system")


class AuditEntry(NamedTuple):
    id: str
    at: int
    actor: str
    action: str
    subject: str
    details: str
    request_id: str | None
    ip: str | None


def record(tx: Tx, organization_id: str, actor: Actor, action: str, subject: str, **details: Any) -> None:
    tx.run(
        "INSERT INTO audit_log (organization_id, id, at, actor, action, subject, details, request_id, ip)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        organization_id, new_id(), tx.now, actor.name, action, subject,
        msgspec.json.encode(details).decode(), actor.request_id, actor.ip,
    )  # fmt: skip


def entries(tx: Tx, organization_id: str) -> list[AuditEntry]:
    return [
        AuditEntry(*row)
        for row in tx.all(
            "SELECT id, at, actor, action, subject, details, request_id, ip FROM audit_log"
            " WHERE organization_id = ? ORDER BY at, id",
            organization_id,
        )
    ]
