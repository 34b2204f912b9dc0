"""The append-only log of what was changed, by whom. Written in the transaction of the change."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kontobahn.db import Table, Tx
from kontobahn.ids import new_id


class Actor(NamedTuple):
    """Who made a change, and in which call."""

    name: str
    request_id: str | None = None
    ip: str | None = None


COMMAND_LINE = Actor("command line")
SYSTEM = Actor("system")


class AuditEntry(NamedTuple):
    organization_id: str
    id: str
    at: int
    actor: str
    action: str
    subject: str
    details: str
    request_id: str | None
    ip: str | None


AUDIT_LOG = Table("audit_log", AuditEntry)


def record(tx: Tx, organization_id: str, actor: Actor, action: str, subject: str, **details: Any) -> None:
    entry = AuditEntry(
        organization_id=organization_id,
        id=new_id(),
        at=tx.now,
        actor=actor.name,
        action=action,
        subject=subject,
        details=msgspec.json.encode(details).decode(),
        request_id=actor.request_id,
        ip=actor.ip,
    )
    AUDIT_LOG.insert(tx, entry)


def entries(tx: Tx, organization_id: str) -> list[AuditEntry]:
    return AUDIT_LOG.all(tx, "organization_id = ? ORDER BY at, id", organization_id)
