"""Where credits go: the statement with filters, open reservations, and use by endpoint, key and source."""

from __future__ import annotations

from datetime import date
from typing import Literal, NamedTuple

from kontobahn.credits import MOVEMENTS, Movement
from kontobahn.db import Tx

By = Literal["endpoint", "api_key_id", "quelle"]


def statement(
    tx: Tx, organization_id: str, limit: int, *, kind: str = "", endpoint: str = "", key: str = "", before: int = 0
) -> list[Movement]:
    """The newest lines first; `before` is the last line of the page before."""
    bounds: list[tuple[str, str | int]] = [
        ("organization_id = ?", organization_id),
        ("line < ?", before),
        ("kind = ?", kind),
        ("endpoint = ?", endpoint),
        ("api_key_id = ?", key),
    ]
    given = [(condition, value) for condition, value in bounds if value]
    where = " AND ".join(condition for condition, _ in given)
    return MOVEMENTS.all(tx, f"{where} ORDER BY line DESC LIMIT ?", *(value for _, value in given), limit)


class Reservation(NamedTuple):
    id: str
    amount: int
    created_at: int
    expires_at: int
    endpoint: str


def reservations(tx: Tx, organization_id: str, limit: int = 20) -> list[Reservation]:
    """What is set aside for calls and payments under way, the oldest first."""
    rows = tx.all(
        "SELECT id, amount, created_at, expires_at, endpoint FROM credit_holds"
        " WHERE organization_id = ? ORDER BY created_at, id LIMIT ?",
        organization_id, limit,
    )  # fmt: skip
    return [Reservation(*row) for row in rows]


class Use(NamedTuple):
    name: str
    calls: int
    failed: int
    credits: int


def use_by(tx: Tx, organization_id: str, by: By, since: date) -> list[Use]:
    """The largest first."""
    rows = tx.all(
        f"SELECT {by}, SUM(calls), SUM(failed), SUM(credits) FROM usage_counts"
        f" WHERE organization_id = ? AND day >= ? GROUP BY {by} ORDER BY SUM(credits) DESC, SUM(calls) DESC, {by} LIMIT 100",
        organization_id, since.isoformat(),
    )  # fmt: skip
    return [Use(name, int(calls), int(failed), int(spent)) for name, calls, failed, spent in rows]


class Grant(NamedTuple):
    id: str
    amount: int
    created_at: int
    expires_at: int | None
    note: str


def grants(tx: Tx, organization_id: str) -> list[Grant]:
    """What was granted and has not lapsed, what expires first before the others."""
    rows = tx.all(
        "SELECT id, amount, created_at, expires_at, note FROM credit_grants WHERE organization_id = ? AND lapsed_at IS NULL"
        " ORDER BY COALESCE(expires_at, 9223372036854775807), created_at, id LIMIT 100",
        organization_id,
    )
    return [Grant(*row) for row in rows]
