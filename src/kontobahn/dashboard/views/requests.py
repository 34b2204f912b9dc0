"""Calls of the API, as they were logged, and how many there were lately."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.api.request_log import REQUEST_LOG, LoggedRequest
from kontobahn.clock import DAY, HOUR
from kontobahn.db import Tx


class Wanted(NamedTuple):
    key: str = ""
    quelle: str = ""
    endpoint: str = ""
    # 2 for 200 to 299, and so on; 0 for all.
    status_class: int = 0
    request_id: str = ""


def logged(tx: Tx, organization_id: str, wanted: Wanted, *, before: int, limit: int) -> list[LoggedRequest]:
    """The latest first; `before` is the id of the last one of the page before.

    What filters look through is bounded by the number of rows that are kept of an organisation.
    """
    lowest = wanted.status_class * 100
    bounds: list[tuple[str, str | int]] = [
        ("organization_id = ?", organization_id),
        ("id < ?", before),
        ("api_key_id = ?", wanted.key),
        ("quelle = ?", wanted.quelle),
        ("endpoint = ?", wanted.endpoint),
        ("status >= ?", lowest),
        ("status < ?", lowest and lowest + 100),
        ("request_id = ?", wanted.request_id),
    ]
    given = [(condition, value) for condition, value in bounds if value]
    where = " AND ".join(condition for condition, _ in given)
    return REQUEST_LOG.all(tx, f"{where} ORDER BY id DESC LIMIT ?", *(value for _, value in given), limit)


def one(tx: Tx, organization_id: str, request_number: int) -> LoggedRequest | None:
    return REQUEST_LOG.one(tx, "organization_id = ? AND id = ?", organization_id, request_number)


class Lately(NamedTuple):
    calls: int
    failed: int


def lately(tx: Tx, organization_id: str) -> Lately:
    """The last 24 hours, counted by full hours: all calls, also those that are no longer listed."""
    since = (tx.now - DAY) // HOUR * HOUR
    row = tx.one(
        "SELECT COALESCE(SUM(calls), 0), COALESCE(SUM(failed), 0) FROM request_hours"
        " WHERE organization_id = ? AND hour_at > ?",
        organization_id, since,
    )  # fmt: skip
    assert row is not None
    return Lately(int(row[0]), int(row[1]))
