"""The dashboard's own read views: figures that no call of the API answers, read from the areas' tables. Nothing here writes."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import accumulate
from statistics import median
from typing import NamedTuple

from kontobahn.access.audit import AUDIT_LOG, AuditEntry
from kontobahn.banking.accounts import AccountRow
from kontobahn.clock import start_of_day
from kontobahn.db import Tx


class Steps(NamedTuple):
    """The first steps of an organisation, each a fact in the database."""

    key_made: bool
    call_seen: bool
    bank_connected: bool
    event_received: bool


def first_steps(tx: Tx, organization_id: str) -> Steps:
    row = tx.one(
        "SELECT EXISTS (SELECT 1 FROM api_keys WHERE organization_id = ?),"
        " EXISTS (SELECT 1 FROM api_keys WHERE organization_id = ? AND last_used_at IS NOT NULL),"
        " EXISTS (SELECT 1 FROM banking_accounts WHERE organization_id = ?),"
        " EXISTS (SELECT 1 FROM webhook_deliveries WHERE organization_id = ? AND state = 'delivered')",
        organization_id, organization_id, organization_id, organization_id,
    )  # fmt: skip
    assert row is not None
    return Steps(*map(bool, row))


class DayUse(NamedTuple):
    day: date
    calls: int
    failed: int
    credits: int


def use_by_day(tx: Tx, organization_id: str, today: date, days: int) -> list[DayUse]:
    """Calls by Berlin calendar day, the earliest first; a day without calls has zeros."""
    first = today - timedelta(days=days - 1)
    found = {
        day: (int(calls), int(failed), int(spent))
        for day, calls, failed, spent in tx.all(
            "SELECT day, SUM(calls), SUM(failed), SUM(credits) FROM usage_counts WHERE organization_id = ? AND day >= ?"
            " GROUP BY day",
            organization_id, first.isoformat(),
        )
    }  # fmt: skip
    wanted = [first + timedelta(days=number) for number in range(days)]
    return [DayUse(day, *found.get(day.isoformat(), (0, 0, 0))) for day in wanted]


def days_left(available: int, use: list[DayUse]) -> int | None:
    """How long the credits last at the median day of use; None if nothing is used."""
    usual = median(day.credits for day in use) if use else 0
    return int(available / usual) if usual else None


def balance_by_day(tx: Tx, account: AccountRow, today: date, days: int) -> list[tuple[date, int]]:
    """An account's balance at the end of each day, counted back from what the bank says now."""
    first = today - timedelta(days=days - 1)
    moved = {
        day: int(amount)
        for day, amount in tx.all(
            "SELECT made_on, SUM(amount_minor) FROM banking_transactions"
            " WHERE account_id = ? AND made_on > ? AND status = 'posted' GROUP BY made_on",
            account.id, first.isoformat(),
        )
    }  # fmt: skip
    later_first = [today - timedelta(days=number) for number in range(days)]
    changes = [-moved.get(day.isoformat(), 0) for day in later_first[:-1]]
    return list(zip(later_first, accumulate(changes, initial=account.balance_minor), strict=True))[::-1]


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


def audit_actions(tx: Tx, organization_id: str) -> list[tuple[str, str]]:
    """What has been done at least once, for a choice."""
    rows = tx.all("SELECT DISTINCT action FROM audit_log WHERE organization_id = ? ORDER BY action", organization_id)
    return [(action, action) for (action,) in rows]
