"""Reads the event log: an entry by id, or many in the order of their numbers, each with how its delivery went."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from kontobahn.access.principal import Principal, in_scope
from kontobahn.db import Row, Tx
from kontobahn.errors import Conflict
from kontobahn.webhooks import endpoint, outbox

_CHUNK = 50
DeliveryState = Literal["none", "pending", "delivered", "failed", "cancelled"]


class Attempt(NamedTuple):
    number: int
    at: int
    milliseconds: int
    status: int | None
    reason: str | None


class Entry(NamedTuple):
    organization_id: str
    sequence: int
    id: str
    subject: str
    body: str
    state: DeliveryState
    due_at: int | None
    settled_at: int | None
    attempts: list[Attempt]


class Filter(NamedTuple):
    event: str | None = None
    subject: str | None = None
    state: DeliveryState | None = None
    # Instants; the second is exclusive.
    since: int | None = None
    until: int | None = None


_COLUMNS = (
    "SELECT e.organization_id, e.sequence, e.id, e.subject, e.body, COALESCE(d.state, 'none'), d.due_at, d.settled_at"
    " FROM webhook_events e LEFT JOIN webhook_deliveries d"
    " ON d.organization_id = e.organization_id AND d.sequence = e.sequence"
)


def find(tx: Tx, principal: Principal, event_id: str) -> Entry:
    """An event in the principal's scope."""
    rows = tx.all(f"{_COLUMNS} WHERE e.{in_scope(len(principal.scope))} AND e.id = ?", *principal.scope, event_id)
    if not rows:
        raise principal.missing("Event")
    return _with_attempts(tx, rows)[0]


def walk(
    tx: Tx, organization_id: str, wanted: Filter, *, cursor: int | None, newest_first: bool, limit: int
) -> list[Entry]:
    """The events after the cursor in the order of their commits, or before it with the newest first."""
    conditions = ["e.organization_id = ?"]
    params: list[Any] = [organization_id]
    for condition, value in (
        ("e.sequence < ?" if newest_first else "e.sequence > ?", cursor),
        ("e.event = ?", wanted.event),
        ("e.subject = ?", wanted.subject),
        ("COALESCE(d.state, 'none') = ?", wanted.state),
        ("e.received_at >= ?", wanted.since),
        ("e.received_at < ?", wanted.until),
    ):
        if value is not None:
            conditions.append(condition)
            params.append(value)
    order = "DESC" if newest_first else "ASC"
    rows = tx.all(f"{_COLUMNS} WHERE {' AND '.join(conditions)} ORDER BY e.sequence {order} LIMIT ?", *params, limit)
    return _with_attempts(tx, rows)


def resend(tx: Tx, principal: Principal, event_id: str) -> Entry:
    """Delivers an event once more, or a pending one now."""
    entry = find(tx, principal, event_id)
    outbox.lock_event_log(tx, entry.organization_id)
    receiver = endpoint.find(tx, entry.organization_id)
    if receiver.state != "active":
        why = {
            "none": "There is no webhook URL",
            "paused": "The webhook URL is paused",
            "gone": "The webhook URL is gone",
        }
        raise Conflict(f"{why[receiver.state]}: set it with PUT /v2/banking/webhook-url, then resend.")
    outbox.deliver_later(tx, entry.organization_id, entry.sequence, entry.subject)
    return find(tx, principal, event_id)


def _with_attempts(tx: Tx, rows: list[Row]) -> list[Entry]:
    """The rows of one organisation, each with its attempts."""
    found = [Entry._make((*row, [])) for row in rows]
    attempts = {entry.sequence: entry.attempts for entry in found}
    sequences = list(attempts)
    for start in range(0, len(sequences), _CHUNK):
        chunk = sequences[start : start + _CHUNK]
        # Always the same number of marks, so that there is one statement to prepare and not one for each length.
        chunk += chunk[-1:] * (_CHUNK - len(chunk))
        for sequence, *columns in tx.all(
            "SELECT sequence, number, at, milliseconds, status, reason FROM webhook_attempts WHERE organization_id = ?"
            f" AND sequence IN ({', '.join('?' * _CHUNK)}) ORDER BY sequence, number",
            found[0].organization_id, *chunk,
        ):  # fmt: skip
            attempts[sequence].append(Attempt(*columns))
    return found
