"""The log of outgoing events. `emit` writes one in the transaction of the change it reports, with what its delivery needs.

An event's body is made here, once: what is logged is what is signed and sent. Nothing here reaches the network.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import msgspec

from kontobahn.clock import DAY, SECOND, to_datetime
from kontobahn.db import Tx
from kontobahn.ids import new_id
from kontobahn.metrics import Backlog

CHANNEL = "webhooks"
# The id of the receiver that is the contract's one URL.
WEBHOOK_URL = "url"
ID_PREFIX = "evt_"


class Lane(NamedTuple):
    """A receiver and a subject with something to deliver."""

    organization_id: str
    receiver_id: str
    subject: str


IS_LANE = "organization_id = ? AND receiver_id = ? AND subject = ?"
_encode = msgspec.json.Encoder(decimal_format="number").encode


def emit(
    tx: Tx,
    organization_id: str,
    event: str,
    subject: str,
    data: dict[str, Any] | msgspec.Struct,
    *,
    only: str | None = None,
) -> str:
    """Reports to the organisation's receivers what this transaction changed, and returns the event's id.

    ``subject`` says what it is about, `payment:17` or `connection:5`: events of one subject arrive in the order they were emitted.
    ``only`` names the one receiver of a test.
    """
    row = tx.one(
        "INSERT INTO webhook_logs (organization_id, last_sequence) VALUES (?, 1)"
        " ON CONFLICT (organization_id) DO UPDATE SET last_sequence = webhook_logs.last_sequence + 1"
        " RETURNING last_sequence",
        organization_id,
    )
    assert row is not None
    sequence: int = row[0]
    event_id = ID_PREFIX + new_id().replace("-", "")
    # Choice 29: the body is exactly the envelope; what a delivery adds is in its headers.
    body = _encode({"event": event, "data": data, "received_at": to_datetime(tx.now)}).decode()
    tx.run(
        "INSERT INTO webhook_events (organization_id, sequence, id, event, subject, body, received_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        organization_id, sequence, event_id, event, subject, body, tx.now,
    )  # fmt: skip
    # Events wait for a paused receiver; one that is gone asked for no more.
    for receiver_id, wanted in tx.all(
        "SELECT id, events FROM webhook_receivers WHERE organization_id = ? AND (state = 'active' OR state = 'paused')"
        " ORDER BY id",
        organization_id,
    ):
        if receiver_id == only or (only is None and _wants(receiver_id, wanted, event)):
            deliver_later(tx, organization_id, receiver_id, sequence, subject)
    tx.notify(CHANNEL)
    return event_id


def _wants(receiver_id: str, wanted: str | None, event: str) -> bool:
    if receiver_id == WEBHOOK_URL:
        return EVENT_TYPES[event].to_webhook_url
    if wanted is None:
        return not EVENT_TYPES[event].must_be_chosen
    return event in wanted.split()


def lock_event_log(tx: Tx, organization_id: str) -> None:
    """Blocks other transactions from writing events of the organisation until the commit; for changes of where events go."""
    tx.run(
        "INSERT INTO webhook_logs (organization_id, last_sequence) VALUES (?, 0)"
        " ON CONFLICT (organization_id) DO UPDATE SET last_sequence = webhook_logs.last_sequence",
        organization_id,
    )


def deliver_later(tx: Tx, organization_id: str, receiver_id: str, sequence: int, subject: str) -> None:
    """Puts an event into the lane of its receiver and subject, due now. One that was delivered or given up starts again."""
    tx.run(
        "INSERT INTO webhook_deliveries (organization_id, sequence, receiver_id, subject, state, attempts, tries, due_at)"
        " VALUES (?, ?, ?, ?, 'pending', 0, 0, ?) ON CONFLICT (organization_id, sequence, receiver_id)"
        " DO UPDATE SET state = 'pending', tries = 0, due_at = excluded.due_at, settled_at = NULL",
        organization_id, sequence, receiver_id, subject, tx.now,
    )  # fmt: skip
    # An existing lane is locked until the commit even if nothing changes: its owner may be finding it empty right now.
    tx.run(
        "INSERT INTO webhook_lanes (organization_id, receiver_id, subject, head, next_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (organization_id, receiver_id, subject) DO UPDATE SET"
        " head = CASE WHEN webhook_lanes.owner IS NULL AND excluded.head <= webhook_lanes.head"
        " THEN excluded.head ELSE webhook_lanes.head END,"
        " next_at = CASE WHEN webhook_lanes.owner IS NULL AND excluded.head <= webhook_lanes.head"
        " THEN excluded.next_at ELSE webhook_lanes.next_at END",
        organization_id, receiver_id, subject, sequence, tx.now,
    )  # fmt: skip
    tx.notify(CHANNEL)


def advance_lanes(tx: Tx, lanes: list[Lane], *, owner: str | None = None) -> None:
    """After some of their events were settled: each lane waits for its earliest pending event, unclaimed, or is deleted.

    The caller holds the locks of these lanes; otherwise an event that is being emitted could be left in a deleted lane.
    If all are claimed by one `owner`, one statement deletes them: the owner's other lanes have their event pending, and stay.
    """
    earliest = (
        "FROM webhook_deliveries d WHERE d.organization_id = webhook_lanes.organization_id"
        " AND d.receiver_id = webhook_lanes.receiver_id"
        " AND d.subject = webhook_lanes.subject AND d.state = 'pending' ORDER BY d.sequence LIMIT 1"
    )
    empty = f"(SELECT d.sequence {earliest}) IS NULL RETURNING organization_id, receiver_id, subject"
    if owner is None:
        of_each = tx.each(f"DELETE FROM webhook_lanes WHERE {IS_LANE} AND {empty}", lanes)
        found = [row for rows in of_each for row in rows]
    else:
        found = tx.all(f"DELETE FROM webhook_lanes WHERE owner = ? AND {empty}", owner) if lanes else []
    deleted = {Lane(*row) for row in found}
    tx.many(
        f"UPDATE webhook_lanes SET head = (SELECT d.sequence {earliest}), next_at = (SELECT d.due_at {earliest}),"
        f" owner = NULL WHERE {IS_LANE}",
        [lane for lane in lanes if lane not in deleted],
    )


def cancel_pending(tx: Tx, organization_id: str, receiver_id: str) -> None:
    """Sends a receiver no more of what is pending. It stays in the log, and can be resent."""
    tx.run("DELETE FROM webhook_lanes WHERE organization_id = ? AND receiver_id = ?", organization_id, receiver_id)
    tx.run(
        "UPDATE webhook_deliveries SET state = 'cancelled', settled_at = ?"
        " WHERE organization_id = ? AND receiver_id = ? AND state = 'pending'",
        tx.now, organization_id, receiver_id,
    )  # fmt: skip


def restart_pending(tx: Tx, organization_id: str, receiver_id: str) -> None:
    """Makes what is pending for a receiver due now, with all its tries left."""
    # Also the lanes of what is on its way are held until the commit: its outcome is settled before this, or by what this wrote.
    tx.run(
        "UPDATE webhook_lanes SET next_at = CASE WHEN owner IS NULL THEN ? ELSE next_at END"
        " WHERE organization_id = ? AND receiver_id = ?",
        tx.now, organization_id, receiver_id,
    )  # fmt: skip
    tx.run(
        "UPDATE webhook_deliveries SET tries = 0, due_at = ?"
        " WHERE organization_id = ? AND receiver_id = ? AND state = 'pending'",
        tx.now, organization_id, receiver_id,
    )  # fmt: skip
    tx.notify(CHANNEL)


def purge(tx: Tx, *, days: int, limit: int = 500) -> int:
    """Deletes the oldest events that have been kept long enough, delivered or not. Returns how many."""
    old = tx.all(
        "SELECT e.organization_id, e.sequence, e.subject, d.receiver_id, d.state"
        " FROM (SELECT organization_id, sequence, subject FROM webhook_events WHERE received_at <= ?"
        " ORDER BY received_at LIMIT ?) e LEFT JOIN webhook_deliveries d"
        " ON d.organization_id = e.organization_id AND d.sequence = e.sequence",
        tx.now - days * DAY, limit,
    )  # fmt: skip
    keys = sorted({(organization_id, sequence) for organization_id, sequence, *_ in old})
    lanes = sorted(
        {
            Lane(organization_id, receiver_id, subject)
            for organization_id, _, subject, receiver_id, state in old
            if state == "pending"
        }
    )
    # The lanes first: an emit into one of them waits, and then finds it as the purge left it.
    tx.many(f"UPDATE webhook_lanes SET head = head WHERE {IS_LANE}", lanes)
    for table in ("webhook_attempts", "webhook_deliveries", "webhook_events"):
        tx.many(f"DELETE FROM {table} WHERE organization_id = ? AND sequence = ?", keys)
    advance_lanes(tx, lanes)
    return len(keys)


EventName = Literal[
    "refresh_complete", "connection_error", "connection_destroyed", "payment_progress", "payment_update",
    "consent_expiring", "match_proposed", "match_confirmed", "match_undone", "batch_created", "payment.payee_check",
    "payable.received", "payable.released", "payable.rejected", "payable.paid", "webhook_test",
]  # fmt: skip
TEST_EVENT: EventName = "webhook_test"


class EventType(NamedTuple):
    name: EventName
    # The contract's one URL gets it; if not, only further endpoints do, which have asked for more than the contract.
    to_webhook_url: bool = True
    # Only endpoints whose filter names it get it: one without a filter was made before there was such an event.
    must_be_chosen: bool = False
    # A test is sent to the receiver that is tested, whatever its filter.
    is_test: bool = False


EVENT_TYPES: dict[str, EventType] = {
    event.name: event
    for event in (
        EventType("refresh_complete"),
        EventType("connection_error"),
        EventType("connection_destroyed"),
        EventType("payment_progress"),
        EventType("payment_update"),
        EventType("consent_expiring", to_webhook_url=False),
        EventType("match_proposed", to_webhook_url=False),
        EventType("match_confirmed", to_webhook_url=False),
        EventType("match_undone", to_webhook_url=False),
        EventType("batch_created", to_webhook_url=False),
        # Choice 46: only to receivers that chose it.
        EventType("payment.payee_check", to_webhook_url=False, must_be_chosen=True),
        EventType("payable.received", to_webhook_url=False),
        EventType("payable.released", to_webhook_url=False),
        EventType("payable.rejected", to_webhook_url=False),
        EventType("payable.paid", to_webhook_url=False),
        EventType(TEST_EVENT, is_test=True),
    )
}
assert list(EVENT_TYPES) == list(get_args(EventName))


# Counting more would cost more than the figure is worth.
MAX_COUNTED = 100_000


def measure_backlog(tx: Tx) -> Backlog:
    waiting = tx.one(
        f"SELECT COUNT(*), MIN(due_at) FROM (SELECT due_at FROM webhook_deliveries WHERE state = 'pending' LIMIT {MAX_COUNTED}) w"
    )
    assert waiting is not None
    events, due_at = waiting
    return Backlog(int(events), 0.0 if due_at is None else max(0, tx.now - int(due_at)) / SECOND)
