"""Reads the event log: an entry by id, or many in the order of their numbers, each with how its delivery to one receiver went."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from kontobahn.access.principal import Principal, in_scope
from kontobahn.db import Row, Tx, chunked
from kontobahn.errors import Conflict
from kontobahn.sentences import said, same
from kontobahn.webhooks import endpoints, outbox
from kontobahn.webhooks.outbox import WEBHOOK_URL
from kontobahn.webhooks.receiver import Receiver

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
    # The receiver of the deliveries; of a further endpoint, only events that were for it.
    receiver_id: str = WEBHOOK_URL


_COLUMNS = (
    "SELECT e.organization_id, e.sequence, e.id, e.subject, e.body, COALESCE(d.state, 'none'), d.due_at, d.settled_at"
)
_DELIVERED_TO = "ON d.organization_id = e.organization_id AND d.sequence = e.sequence AND d.receiver_id = ?"
_EVENTS = f"{_COLUMNS} FROM webhook_events e LEFT JOIN webhook_deliveries d {_DELIVERED_TO}"
# Begun at the deliveries: an endpoint may have few of many events.
_DELIVERIES = f"{_COLUMNS} FROM webhook_deliveries d JOIN webhook_events e {_DELIVERED_TO}"


def find(tx: Tx, principal: Principal, event_id: str) -> Entry:
    """An event in the principal's scope, with its delivery to the contract's one URL."""
    rows = tx.all(
        f"{_EVENTS} WHERE e.{in_scope(len(principal.scope))} AND e.id = ?", WEBHOOK_URL, *principal.scope, event_id
    )
    if not rows:
        raise principal.missing("Event")
    return _with_attempts(tx, rows, WEBHOOK_URL)[0]


def find_of(tx: Tx, principal: Principal, receiver: Receiver, event_id: str) -> Entry:
    """An event of a further endpoint's organisation, with its delivery there."""
    rows = tx.all(
        f"{_EVENTS} WHERE e.organization_id = ? AND e.id = ?", receiver.id, receiver.organization_id, event_id
    )
    if not rows:
        raise principal.missing("Event")
    return _with_attempts(tx, rows, receiver.id)[0]


def _of_event(wanted: Filter) -> tuple[tuple[str, Any], ...]:
    """Conditions on an event itself, each with its value or None."""
    return (
        ("e.event = ?", wanted.event),
        ("e.subject = ?", wanted.subject),
        ("e.received_at >= ?", wanted.since),
        ("e.received_at < ?", wanted.until),
    )


def walk(
    tx: Tx, organization_id: str, wanted: Filter, *, cursor: int | None, newest_first: bool, limit: int
) -> list[Entry]:
    """The events after the cursor in the order of their commits, or before it with the newest first."""
    walked, log = (_EVENTS, "e") if wanted.receiver_id == WEBHOOK_URL else (_DELIVERIES, "d")
    conditions = [f"{log}.organization_id = ?"]
    params: list[Any] = [wanted.receiver_id, organization_id]
    for condition, value in (
        (f"{log}.sequence {'<' if newest_first else '>'} ?", cursor),
        *_of_event(wanted),
        ("COALESCE(d.state, 'none') = ?", wanted.state),
    ):
        if value is not None:
            conditions.append(condition)
            params.append(value)
    order = "DESC" if newest_first else "ASC"
    rows = tx.all(f"{walked} WHERE {' AND '.join(conditions)} ORDER BY {log}.sequence {order} LIMIT ?", *params, limit)
    return _with_attempts(tx, rows, wanted.receiver_id)


# --- With the deliveries to every receiver


class Delivery(NamedTuple):
    receiver_id: str
    state: DeliveryState
    due_at: int | None
    attempts: list[Attempt]


class Logged(NamedTuple):
    """An event, and how its delivery to each receiver went."""

    organization_id: str
    sequence: int
    id: str
    event: str
    subject: str
    body: str
    received_at: int
    deliveries: list[Delivery]


_LOGGED = "SELECT organization_id, sequence, id, event, subject, body, received_at FROM webhook_events e WHERE "
_DELIVERY = "SELECT 1 FROM webhook_deliveries d WHERE d.organization_id = e.organization_id AND d.sequence = e.sequence"


def find_logged(tx: Tx, principal: Principal, event_id: str) -> Logged:
    rows = tx.all(f"{_LOGGED}{in_scope(len(principal.scope))} AND id = ?", *principal.scope, event_id)
    if not rows:
        raise principal.missing("Event")
    return _with_deliveries(tx, rows, None)[0]


def latest(
    tx: Tx, organization_id: str, wanted: Filter, receiver_id: str | None, *, before: int | None, limit: int
) -> list[Logged]:
    """Returns the newest first, of all receivers or of one: only events that were for it, with its delivery alone."""
    conditions = ["organization_id = ?"]
    params: list[Any] = [organization_id]
    delivery: list[tuple[str, Any]] = [("d.receiver_id = ?", receiver_id)]
    if wanted.state == "none":
        conditions.append(f"NOT EXISTS ({_DELIVERY})")
    else:
        delivery.append(("d.state = ?", wanted.state))
    of_delivery = [(condition, value) for condition, value in delivery if value is not None]
    for condition, value in (("e.sequence < ?", before), *_of_event(wanted)):
        if value is not None:
            conditions.append(condition)
            params.append(value)
    if of_delivery:
        conditions.append(f"EXISTS ({' AND '.join([_DELIVERY, *(condition for condition, _ in of_delivery)])})")
        params += [value for _, value in of_delivery]
    rows = tx.all(f"{_LOGGED}{' AND '.join(conditions)} ORDER BY sequence DESC LIMIT ?", *params, limit)
    return _with_deliveries(tx, rows, receiver_id)


def _with_deliveries(tx: Tx, rows: list[Row], only: str | None) -> list[Logged]:
    """The rows of one organisation, each with its deliveries, to one receiver or to all."""
    found = [Logged._make((*row, [])) for row in rows]
    deliveries: dict[tuple[int, str], Delivery] = {}
    by_sequence = {event.sequence: event for event in found}
    for some, is_one in chunked(by_sequence):
        of_events = f"WHERE organization_id = ? AND sequence {is_one}"
        for sequence, receiver_id, state, due_at in tx.all(
            f"SELECT sequence, receiver_id, state, due_at FROM webhook_deliveries {of_events} ORDER BY sequence, receiver_id",
            found[0].organization_id, *some,
        ):  # fmt: skip
            if only in (None, receiver_id):
                deliveries[sequence, receiver_id] = delivery = Delivery(receiver_id, state, due_at, [])
                by_sequence[sequence].deliveries.append(delivery)
        for sequence, receiver_id, *columns in tx.all(
            "SELECT sequence, receiver_id, number, at, milliseconds, status, reason FROM webhook_attempts"
            f" {of_events} ORDER BY sequence, receiver_id, number",
            found[0].organization_id, *some,
        ):  # fmt: skip
            if (sequence, receiver_id) in deliveries:
                deliveries[sequence, receiver_id].attempts.append(_with_reason(Attempt(*columns)))
    return found


# --- Sending again


def resend(tx: Tx, principal: Principal, event_id: str) -> Entry:
    """Delivers an event to the contract's one URL once more, or a pending one now."""
    entry = find(tx, principal, event_id)
    outbox.lock_event_log(tx, entry.organization_id)
    check_url(endpoints.find_url(tx, entry.organization_id))
    outbox.deliver_later(tx, entry.organization_id, WEBHOOK_URL, entry.sequence, entry.subject)
    return find(tx, principal, event_id)


def resend_to(tx: Tx, principal: Principal, receiver: Receiver, event_id: str) -> Entry:
    """Delivers an event to a further endpoint once more, whatever its filter says."""
    entry = find_of(tx, principal, receiver, event_id)
    check_active(receiver)
    outbox.deliver_later(tx, entry.organization_id, receiver.id, entry.sequence, entry.subject)
    return find_of(tx, principal, receiver, event_id)


def check_url(found: Receiver | None) -> None:
    """Raises Conflict if nothing can be sent to the contract's one URL."""
    state = "none" if found is None else found.state
    if state != "active":
        why = {
            "none": "There is no webhook URL",
            "paused": "The webhook URL is paused",
            "gone": "The webhook URL is gone",
        }
        raise Conflict(said("{why}: set it with PUT /v2/banking/webhook-url, then resend.", why=why[state]))


def check_active(receiver: Receiver) -> None:
    if receiver.state != "active":
        raise Conflict(said("This webhook endpoint is {state}: resume it, then resend.", state=receiver.state))


_FAILED = (
    " FROM webhook_deliveries d JOIN webhook_events e ON e.organization_id = d.organization_id AND e.sequence = d.sequence"
    " WHERE d.organization_id = ? AND d.receiver_id = ? AND d.state = 'failed' AND e.received_at >= ?"
)


def count_failed(tx: Tx, organization_id: str, receiver_id: str, since: int) -> int:
    """Returns how many events since this moment a receiver did not take in all attempts."""
    row = tx.one(f"SELECT COUNT(*){_FAILED}", organization_id, receiver_id, since)
    return int(row[0]) if row else 0


def resend_failed(tx: Tx, organization_id: str, receiver_id: str, since: int, limit: int) -> tuple[int, bool]:
    """Delivers them once more, the earliest first. Returns how many, and whether there are more. The event log is locked."""
    found = tx.all(
        f"SELECT d.sequence, d.subject{_FAILED} ORDER BY d.sequence LIMIT ?",
        organization_id, receiver_id, since, limit + 1,
    )  # fmt: skip
    for sequence, subject in found[:limit]:
        outbox.deliver_later(tx, organization_id, receiver_id, sequence, subject)
    return min(len(found), limit), len(found) > limit


def any_delivered(tx: Tx, organization_id: str) -> bool:
    """Returns whether a receiver of this organisation has ever taken an event."""
    row = tx.one(
        "SELECT 1 FROM webhook_deliveries WHERE organization_id = ? AND state = 'delivered' LIMIT 1", organization_id
    )
    return row is not None


def _with_attempts(tx: Tx, rows: list[Row], receiver_id: str) -> list[Entry]:
    """The rows of one organisation, each with the attempts to deliver it to this receiver."""
    found = [Entry._make((*row, [])) for row in rows]
    attempts = {entry.sequence: entry.attempts for entry in found}
    for some, is_one in chunked(attempts):
        for sequence, *columns in tx.all(
            "SELECT sequence, number, at, milliseconds, status, reason FROM webhook_attempts WHERE organization_id = ?"
            f" AND receiver_id = ? AND sequence {is_one} ORDER BY sequence, number",
            found[0].organization_id, receiver_id, *some,
        ):  # fmt: skip
            attempts[sequence].append(_with_reason(Attempt(*columns)))
    return found


def _with_reason(attempt: Attempt) -> Attempt:
    """The reason as a sentence, where the row has its parameters."""
    if attempt.reason is None:
        return attempt
    reason = same(
        attempt.reason,
        said("The receiver answered {status}.", status=attempt.status),
        said("No complete answer within {seconds} seconds.", seconds=attempt.milliseconds // 1000),
    )
    return attempt._replace(reason=reason)
