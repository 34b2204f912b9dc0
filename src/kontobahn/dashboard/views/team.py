"""The people of an organisation and what they did."""

from __future__ import annotations

from datetime import date, timedelta
from typing import NamedTuple

from kontobahn.access.audit import AUDIT_LOG, AuditEntry
from kontobahn.clock import start_of_day
from kontobahn.db import Tx


class AgencyClient(NamedTuple):
    """An organisation that keys of this one act for."""

    organization_id: str
    name: str
    keys: list[str]


def agency_clients(tx: Tx, organization_id: str) -> list[AgencyClient]:
    found: dict[str, AgencyClient] = {}
    for client_id, name, key in tx.all(
        "SELECT o.id, o.name, k.name FROM agency_clients a"
        " JOIN api_keys k ON k.organization_id = a.organization_id AND k.id = a.key_id AND k.revoked_at IS NULL"
        " JOIN organizations o ON o.id = a.client_organization_id WHERE a.organization_id = ?"
        " ORDER BY o.name, o.id, k.name",
        organization_id,
    ):
        found.setdefault(client_id, AgencyClient(client_id, name, [])).keys.append(key)
    return list(found.values())


def bank_connections_of_user(tx: Tx, organization_id: str, user_id: str) -> list[str]:
    """The names of the banks that a person connected."""
    rows = tx.all(
        "SELECT provider_name FROM banking_connections WHERE organization_id = ? AND owner_user_id = ?"
        " ORDER BY provider_name",
        organization_id, user_id,
    )  # fmt: skip
    return [name for (name,) in rows]


def audit_entries(
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
        ("at < ?", start_of_day(until + timedelta(days=1)) if until else None),
        ("action = ?", action or None),
        ("actor = ?", actor or None),
        ("subject = ?", subject or None),
    ]
    given = [(condition, value) for condition, value in bounds if value is not None]
    where = " AND ".join(condition for condition, _ in given)
    return AUDIT_LOG.all(tx, f"{where} ORDER BY id DESC LIMIT ?", *(value for _, value in given), limit)


def audit_actions(tx: Tx, organization_id: str) -> list[str]:
    """What has been done at least once, for a choice."""
    rows = tx.all("SELECT DISTINCT action FROM audit_log WHERE organization_id = ? ORDER BY action", organization_id)
    return [action for (action,) in rows]
