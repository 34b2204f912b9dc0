"""The append-only log of what was changed, by whom. Written in the transaction of the change."""

from __future__ import annotations

from datetime import date
from typing import Any, NamedTuple

import msgspec

from kontobahn.clock import end_of_day, start_of_day
from kontobahn.db import Table, Tx
from kontobahn.ids import new_id


class Actor(NamedTuple):
    """The author of a change, and in which call."""

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


def latest(
    tx: Tx,
    organization_id: str,
    limit: int,
    *,
    since: date | None = None,
    until: date | None = None,
    action: str = "",
    actor: str = "",
    subject: str = "",
    after: str = "",
) -> list[AuditEntry]:
    """The newest entries first; `after` is the id of the last one of the page before."""
    bounds: list[tuple[str, str | int | None]] = [
        ("organization_id = ?", organization_id),
        ("id < ?", after or None),
        ("at >= ?", start_of_day(since) if since else None),
        ("at < ?", end_of_day(until) if until else None),
        ("action = ?", action or None),
        ("actor = ?", actor or None),
        ("subject = ?", subject or None),
    ]
    given = [(condition, value) for condition, value in bounds if value is not None]
    where = " AND ".join(condition for condition, _ in given)
    return AUDIT_LOG.all(tx, f"{where} ORDER BY id DESC LIMIT ?", *(value for _, value in given), limit)


def actions(tx: Tx, organization_id: str) -> list[str]:
    """Returns the actions that have been done at least once, for a choice."""
    found: list[str] = []
    # One look for each: there are some dozens of them, and any number of entries.
    following = "SELECT MIN(action) FROM audit_log WHERE organization_id = ? AND action > ?"
    while (row := tx.one(following, organization_id, found[-1] if found else "")) and row[0] is not None:
        found.append(row[0])
    return found


def name_of(tx: Tx, organization_id: str, actor: str) -> str:
    """The name of a person, a key, or a person with an assistant; otherwise the actor as it is."""
    kind, _, number = actor.partition(":")
    row = None
    if kind == "assistant":
        user_id, _, assistant = number.partition("/")
        return f"{name_of(tx, organization_id, f'user:{user_id}')} · {assistant}"
    if kind == "user":
        # Also somebody of another organisation who has access to this one.
        row = tx.one("SELECT name FROM users WHERE id = ?", number)
    elif kind == "key":
        row = tx.one("SELECT name FROM api_keys WHERE organization_id = ? AND id = ?", organization_id, number)
    return str(row[0]) if row else actor
