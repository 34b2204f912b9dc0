"""Claims that deliverers share through the database: which events are claimed by whom, and how each attempt ended.

A cycle is one transaction: it records the attempts that ended and claims what is due. A claim moves a lane's `next_at` to the
instant at which the claim expires, so what a killed process had claimed becomes due again. Nothing here reaches the network.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import NamedTuple

from kontobahn.clock import HOUR, MINUTE, SECOND
from kontobahn.db import Tx
from kontobahn.webhooks import outbox, receiver
from kontobahn.webhooks.outbox import IS_LANE, Lane
from kontobahn.webhooks.receiver import ReceiverKey, Sealed

# Choice 29: a first attempt, then one after each of these delays.
RETRY_AFTER = (5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR)
MAX_RETRY_AFTER = 10 * HOUR
JITTER = 0.1
# More than an attempt needs beyond its timeout, with the cycle that records it.
MARGIN_SECONDS = 30
GONE = 410


class Claimed(NamedTuple):
    """A claimed event, with all that an attempt needs."""

    organization_id: str
    receiver_id: str
    sequence: int
    subject: str
    # So far: attempts in all, and tries since it was last restarted.
    attempts: int
    tries: int
    id: str
    event: str
    body: str
    url: str
    sealed: Sealed
    failing_since: int | None

    @property
    def lane(self) -> Lane:
        return Lane(self.organization_id, self.receiver_id, self.subject)

    @property
    def receiver(self) -> ReceiverKey:
        return ReceiverKey(self.organization_id, self.receiver_id)


class Outcome(NamedTuple):
    """The end of an attempt. The status is None if there was no answer."""

    claimed: Claimed
    at: int
    milliseconds: int
    status: int | None
    reason: str | None
    retry_after: int | None = None

    @property
    def delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class Capacity(NamedTuple):
    """The number of events that may still be claimed: for receivers that answer, for those that fail or are slow, for one of them."""

    quick: int
    failing_or_slow: int
    per_receiver: int
    per_failing_receiver: int
    in_flight: Mapping[ReceiverKey, int]
    # Lanes that this process is still working on: if the clock jumped, their claims would seem to have expired.
    lanes: Collection[Lane]
    slow: frozenset[ReceiverKey]


class Stopped(NamedTuple):
    receiver: ReceiverKey
    state: receiver.State


class Cycle(NamedTuple):
    # Outcomes that could not be recorded yet, because their lane was locked.
    postponed: list[Outcome]
    claimed: list[Claimed]
    stopped: list[Stopped]


def run_cycle(
    tx: Tx,
    owner: str,
    outcomes: list[Outcome],
    capacity: Capacity,
    *,
    claim_seconds: float,
    pause_days: int,
) -> Cycle:
    postponed, stopped = _settle(tx, owner, outcomes, pause_days) if outcomes else ([], [])
    claimed = _claim(tx, owner, capacity, tx.now + round(claim_seconds * SECOND))
    return Cycle(postponed, claimed, stopped)


def release(tx: Tx, owner: str) -> None:
    """Releases what this owner has claimed, with its tries as they were."""
    held = tx.all("SELECT organization_id, receiver_id, subject FROM webhook_lanes WHERE owner = ?", owner)
    lanes = [Lane(*row) for row in held]
    tx.many(f"UPDATE webhook_lanes SET head = head WHERE {IS_LANE}", lanes)
    outbox.advance_lanes(tx, lanes)


def release_all(tx: Tx) -> None:
    """Releases every claim. Only for a single process at its start: what is claimed then belongs to a dead one."""
    for (owner,) in tx.all("SELECT DISTINCT owner FROM webhook_lanes WHERE owner IS NOT NULL"):
        release(tx, owner)


def _settle(tx: Tx, owner: str, outcomes: list[Outcome], pause_days: int) -> tuple[list[Outcome], list[Stopped]]:
    # A lane that an event is being written into is left to the next cycle.
    held = {
        Lane(*lane): (head, attempts)
        for head, attempts, *lane in tx.all(
            "SELECT l.head, d.attempts, l.organization_id, l.receiver_id, l.subject"
            " FROM webhook_lanes l JOIN webhook_deliveries d"
            " ON d.organization_id = l.organization_id AND d.receiver_id = l.receiver_id AND d.sequence = l.head"
            f" WHERE l.owner = ?{tx.unless_locked('l')}",
            owner,
        )
    }
    postponed = [item for item in outcomes if item.claimed.lane not in held]
    # One that is no longer the head of its lane, or was recorded before, belongs to a claim that had expired.
    by_lane = {
        item.claimed.lane: item
        for item in outcomes
        if held.get(item.claimed.lane) == (item.claimed.sequence, item.claimed.attempts)
    }
    ours = [by_lane[lane] for lane in sorted(by_lane)]
    standing = _standing(tx, [item.claimed for item in ours if not item.delivered])
    deliveries, attempts = [], []
    for item in ours:
        claimed, number = item.claimed, item.claimed.attempts + 1
        tries, url = standing.get(claimed.lane, (claimed.tries, claimed.url))
        if url == claimed.url:
            tries += 1
            state, due_at = _verdict(item, tries, tx.now)
        else:
            # The old address says nothing about the new one, which gets the event with all tries left.
            state, due_at = "pending", tx.now
        key = (claimed.organization_id, claimed.receiver_id, claimed.sequence)
        settled_at = None if state == "pending" else tx.now
        deliveries.append((*key, claimed.subject, state, number, tries, due_at, settled_at))
        attempts.append((*key, number, item.at, item.milliseconds, item.status, item.reason))
    # All of them exist, since their lanes are held: written as an INSERT, all are one statement, which finds each by its key.
    tx.many(
        "INSERT INTO webhook_deliveries (organization_id, receiver_id, sequence, subject, state, attempts, tries, due_at,"
        " settled_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (organization_id, sequence, receiver_id) DO UPDATE SET state = excluded.state,"
        " attempts = excluded.attempts, tries = excluded.tries, due_at = excluded.due_at, settled_at = excluded.settled_at",
        deliveries,
    )
    tx.many(
        "INSERT INTO webhook_attempts (organization_id, receiver_id, sequence, number, at, milliseconds, status, reason)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        attempts,
    )
    outbox.advance_lanes(tx, [item.claimed.lane for item in ours], owner=owner)
    return postponed, _note_health(tx, ours, pause_days)


def _standing(tx: Tx, claimed: list[Claimed]) -> dict[Lane, tuple[int, str | None]]:
    """Returns the tries of each as they are now, and where it is to be sent: it may have been restarted while it was on its way.

    Asked when the lanes are held, for whoever restarts them waits for these.
    """
    found = tx.each(
        "SELECT d.tries, r.url FROM webhook_deliveries d JOIN webhook_receivers r"
        " ON r.organization_id = d.organization_id AND r.id = d.receiver_id"
        " WHERE d.organization_id = ? AND d.receiver_id = ? AND d.sequence = ?",
        [(item.organization_id, item.receiver_id, item.sequence) for item in claimed],
    )
    return {item.lane: (tries, url) for item, [(tries, url)] in zip(claimed, found, strict=True)}


def _verdict(outcome: Outcome, tries: int, now: int) -> tuple[str, int]:
    """Returns the delivery's state after so many tries, and when it is due."""
    if outcome.delivered:
        return "delivered", now
    if outcome.status == GONE or tries > len(RETRY_AFTER):
        return "failed", now
    wait = RETRY_AFTER[tries - 1] * random.uniform(1 - JITTER, 1 + JITTER)
    if outcome.retry_after is not None:
        wait = max(wait, min(outcome.retry_after * SECOND, MAX_RETRY_AFTER))
    return "pending", now + round(wait)


def _note_health(tx: Tx, outcomes: list[Outcome], pause_days: int) -> list[Stopped]:
    stopped = []
    answered = {(item.claimed.receiver, item.claimed.url) for item in outcomes if item.delivered}
    was_failing = {
        (item.claimed.receiver, item.claimed.url) for item in outcomes if item.claimed.failing_since is not None
    }
    for key, url in sorted(answered & was_failing):
        receiver.note_success(tx, key, url)
    failed = {(item.claimed.receiver, item.claimed.url) for item in outcomes if not item.delivered}
    gone = {(item.claimed.receiver, item.claimed.url) for item in outcomes if item.status == GONE}
    for key, url in sorted(failed):
        if (key, url) in gone:
            if receiver.note_gone(tx, key, url):
                stopped.append(Stopped(key, "gone"))
        elif (key, url) not in answered and receiver.note_failure(tx, key, url, pause_days=pause_days):
            stopped.append(Stopped(key, "paused"))
    return stopped


class _Due(NamedTuple):
    """A receiver with something due."""

    organization_id: str
    id: str
    url: str
    secret: bytes
    previous_secret: bytes | None
    previous_until: int | None
    failing_since: int | None

    @property
    def key(self) -> ReceiverKey:
        return ReceiverKey(self.organization_id, self.id)

    @property
    def sealed(self) -> Sealed:
        return Sealed(self.secret, self.previous_secret, self.previous_until)


def _claim(tx: Tx, owner: str, capacity: Capacity, until: int) -> list[Claimed]:
    if capacity.quick <= 0 and capacity.failing_or_slow <= 0:
        return []
    rows = tx.all(
        f"SELECT {', '.join(_Due._fields)} FROM webhook_receivers r WHERE state = 'active' AND EXISTS (SELECT 1"
        " FROM webhook_lanes l WHERE l.organization_id = r.organization_id AND l.receiver_id = r.id AND l.next_at <= ?)",
        tx.now,
    )
    random.shuffle(rows)
    quick: list[_Due] = []
    failing_or_slow: list[_Due] = []
    for due in map(_Due._make, rows):
        is_quick = due.failing_since is None and due.key not in capacity.slow
        (quick if is_quick else failing_or_slow).append(due)
    wanted = [*_shares(quick, capacity.quick, capacity), *_shares(failing_or_slow, capacity.failing_or_slow, capacity)]
    claimed = [item for item in _due_events(tx, wanted) if item.lane not in capacity.lanes]
    tx.many(
        "INSERT INTO webhook_lanes (organization_id, receiver_id, subject, head, next_at, owner) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (organization_id, receiver_id, subject) DO UPDATE SET owner = excluded.owner, next_at = excluded.next_at",
        [(*item.lane, item.sequence, until, owner) for item in claimed],
    )
    return claimed


def _shares(receivers: list[_Due], places: int, capacity: Capacity) -> list[tuple[_Due, int]]:
    """Returns how many events of each receiver may be claimed: equal shares, so that no receiver's backlog takes all places."""
    found, left = [], places
    for number, due in enumerate(receivers):
        share = max(1, left // (len(receivers) - number))
        limit = min(share, left, _places_left(capacity, due))
        if limit > 0:
            found.append((due, limit))
            left -= limit
    return found


def _places_left(capacity: Capacity, due: _Due) -> int:
    places = capacity.per_failing_receiver if due.failing_since is not None else capacity.per_receiver
    return places - capacity.in_flight.get(due.key, 0)


def _due_events(tx: Tx, wanted: list[tuple[_Due, int]]) -> list[Claimed]:
    by_receiver = tx.each(
        "SELECT l.head, l.subject, d.attempts, d.tries, e.id, e.event, e.body FROM webhook_lanes l"
        " JOIN webhook_deliveries d"
        " ON d.organization_id = l.organization_id AND d.receiver_id = l.receiver_id AND d.sequence = l.head"
        " JOIN webhook_events e ON e.organization_id = l.organization_id AND e.sequence = l.head"
        " WHERE l.organization_id = ? AND l.receiver_id = ? AND l.next_at <= ?"
        f" ORDER BY l.next_at LIMIT ?{tx.unless_locked('l')}",
        [(*due.key, tx.now, limit) for due, limit in wanted],
    )
    return [
        Claimed._make((*due.key, *columns, due.url, due.sealed, due.failing_since))
        for (due, _), found in zip(wanted, by_receiver, strict=True)
        for columns in found
    ]
