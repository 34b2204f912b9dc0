"""What deliverers share through the database: which events are claimed by whom, and how each attempt ended.

A cycle is one transaction: it records the attempts that ended and claims what is due. A claim moves a lane's `next_at` to the
instant at which the claim expires, so what a killed process had claimed becomes due again. Nothing here reaches the network.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import NamedTuple

from kontobahn.clock import HOUR, MINUTE, SECOND
from kontobahn.db import Tx
from kontobahn.webhooks import endpoint, outbox
from kontobahn.webhooks.endpoint import Sealed

# Choice 29: a first attempt, then one after each of these delays.
RETRY_AFTER = (5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR)
MAX_RETRY_AFTER = 10 * HOUR
JITTER = 0.1
# More than an attempt needs beyond its timeout, with the cycle that records it.
MARGIN_SECONDS = 30
GONE = 410
# PostgreSQL: a lane that an event is being written into is left to the next cycle instead of waited for.
_SKIP_LOCKED = {"sqlite": "", "postgres": " FOR UPDATE OF l SKIP LOCKED"}


class Claimed(NamedTuple):
    """A claimed event, with all that an attempt needs."""

    organization_id: str
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
    def lane(self) -> tuple[str, str]:
        return self.organization_id, self.subject


class Outcome(NamedTuple):
    """How an attempt ended. The status is None if there was no answer."""

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
    """How many more events may be claimed: for receivers that answer, for those that fail or are slow, for one organisation."""

    quick: int
    failing_or_slow: int
    per_organization: int
    per_failing_organization: int
    in_flight: Mapping[str, int]
    # Lanes that this process is still working on: if the clock jumped, their claims would seem to have expired.
    lanes: Collection[tuple[str, str]]
    slow: frozenset[str]


class Stopped(NamedTuple):
    organization_id: str
    state: endpoint.State


class Cycle(NamedTuple):
    # Outcomes that could not be recorded yet, because their lane was locked.
    postponed: list[Outcome]
    claimed: list[Claimed]
    stopped: list[Stopped]


def run_cycle(
    tx: Tx,
    engine: str,
    owner: str,
    outcomes: list[Outcome],
    capacity: Capacity,
    *,
    claim_seconds: float,
    pause_days: int,
) -> Cycle:
    postponed, stopped = _settle(tx, engine, owner, outcomes, pause_days) if outcomes else ([], [])
    claimed = _claim(tx, engine, owner, capacity, tx.now + round(claim_seconds * SECOND))
    return Cycle(postponed, claimed, stopped)


def release(tx: Tx, owner: str) -> None:
    """Releases what this owner has claimed, with its tries as they were."""
    lanes = tx.all("SELECT organization_id, subject FROM webhook_lanes WHERE owner = ?", owner)
    tx.many("UPDATE webhook_lanes SET head = head WHERE organization_id = ? AND subject = ?", lanes)
    outbox.advance_lanes(tx, [(organization_id, subject) for organization_id, subject in lanes])


def release_all(tx: Tx) -> None:
    """Releases every claim. Only for a single process at its start: what is claimed then belongs to a dead one."""
    for (owner,) in tx.all("SELECT DISTINCT owner FROM webhook_lanes WHERE owner IS NOT NULL"):
        release(tx, owner)


def _settle(
    tx: Tx, engine: str, owner: str, outcomes: list[Outcome], pause_days: int
) -> tuple[list[Outcome], list[Stopped]]:
    held = {
        (organization_id, subject): (head, attempts)
        for organization_id, subject, head, attempts in tx.all(
            "SELECT l.organization_id, l.subject, l.head, d.attempts FROM webhook_lanes l JOIN webhook_deliveries d"
            " ON d.organization_id = l.organization_id AND d.sequence = l.head"
            f" WHERE l.owner = ?{_SKIP_LOCKED[engine]}",
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
    deliveries, attempts = [], []
    for item in ours:
        claimed, number = item.claimed, item.claimed.attempts + 1
        state, due_at = _verdict(item, tx.now)
        key = (claimed.organization_id, claimed.sequence)
        settled_at = None if state == "pending" else tx.now
        deliveries.append((state, number, claimed.tries + 1, due_at, settled_at, *key))
        attempts.append((*key, number, item.at, item.milliseconds, item.status, item.reason))
    tx.many(
        "UPDATE webhook_deliveries SET state = ?, attempts = ?, tries = ?, due_at = ?, settled_at = ?"
        " WHERE organization_id = ? AND sequence = ?",
        deliveries,
    )
    tx.many(
        "INSERT INTO webhook_attempts (organization_id, sequence, number, at, milliseconds, status, reason)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        attempts,
    )
    outbox.advance_lanes(tx, [item.claimed.lane for item in ours])
    return postponed, _note_health(tx, ours, pause_days)


def _verdict(outcome: Outcome, now: int) -> tuple[str, int]:
    """Returns the delivery's next state, and when it is due."""
    if outcome.delivered:
        return "delivered", now
    tries = outcome.claimed.tries + 1
    if outcome.status == GONE or tries > len(RETRY_AFTER):
        return "failed", now
    wait = RETRY_AFTER[tries - 1] * random.uniform(1 - JITTER, 1 + JITTER)
    if outcome.retry_after is not None:
        wait = max(wait, min(outcome.retry_after * SECOND, MAX_RETRY_AFTER))
    return "pending", now + round(wait)


def _note_health(tx: Tx, outcomes: list[Outcome], pause_days: int) -> list[Stopped]:
    stopped = []
    answered = {item.claimed.organization_id for item in outcomes if item.delivered}
    was_failing = {item.claimed.organization_id for item in outcomes if item.claimed.failing_since is not None}
    for organization_id in sorted(answered & was_failing):
        endpoint.note_success(tx, organization_id)
    failed = {(item.claimed.organization_id, item.claimed.url): item.status for item in outcomes if not item.delivered}
    gone = {(item.claimed.organization_id, item.claimed.url) for item in outcomes if item.status == GONE}
    for organization_id, url in sorted(failed):
        if (organization_id, url) in gone:
            if endpoint.note_gone(tx, organization_id, url):
                stopped.append(Stopped(organization_id, "gone"))
        elif organization_id not in answered and endpoint.note_failure(tx, organization_id, url, pause_days=pause_days):
            stopped.append(Stopped(organization_id, "paused"))
    return stopped


class _Receiver(NamedTuple):
    """An endpoint with something due."""

    organization_id: str
    url: str
    secret: bytes
    previous_secret: bytes | None
    previous_until: int | None
    failing_since: int | None


def _claim(tx: Tx, engine: str, owner: str, capacity: Capacity, until: int) -> list[Claimed]:
    if capacity.quick <= 0 and capacity.failing_or_slow <= 0:
        return []
    rows = tx.all(
        f"SELECT {', '.join(_Receiver._fields)} FROM webhook_endpoints e WHERE state = 'active' AND EXISTS"
        " (SELECT 1 FROM webhook_lanes l WHERE l.organization_id = e.organization_id AND l.next_at <= ?)",
        tx.now,
    )
    random.shuffle(rows)
    quick: list[_Receiver] = []
    failing_or_slow: list[_Receiver] = []
    for receiver in map(_Receiver._make, rows):
        is_quick = receiver.failing_since is None and receiver.organization_id not in capacity.slow
        (quick if is_quick else failing_or_slow).append(receiver)
    claimed: list[Claimed] = []
    for receivers, places in ((quick, capacity.quick), (failing_or_slow, capacity.failing_or_slow)):
        left = places
        for number, receiver in enumerate(receivers):
            if left <= 0:
                break
            # An equal share of what is left, so that no organisation's backlog takes all of it.
            share = max(1, left // (len(receivers) - number))
            found = _due_events(tx, engine, receiver, min(share, left, _places_left(capacity, receiver)))
            taken = [item for item in found if item.lane not in capacity.lanes]
            claimed += taken
            left -= len(taken)
    tx.many(
        "UPDATE webhook_lanes SET owner = ?, next_at = ? WHERE organization_id = ? AND subject = ?",
        [(owner, until, *item.lane) for item in claimed],
    )
    return claimed


def _places_left(capacity: Capacity, receiver: _Receiver) -> int:
    is_failing = receiver.failing_since is not None
    places = capacity.per_failing_organization if is_failing else capacity.per_organization
    return places - capacity.in_flight.get(receiver.organization_id, 0)


def _due_events(tx: Tx, engine: str, receiver: _Receiver, limit: int) -> list[Claimed]:
    if limit <= 0:
        return []
    found = tx.all(
        "SELECT l.organization_id, l.head, l.subject, d.attempts, d.tries, e.id, e.event, e.body FROM webhook_lanes l"
        " JOIN webhook_deliveries d ON d.organization_id = l.organization_id AND d.sequence = l.head"
        " JOIN webhook_events e ON e.organization_id = l.organization_id AND e.sequence = l.head"
        f" WHERE l.organization_id = ? AND l.next_at <= ? ORDER BY l.next_at LIMIT ?{_SKIP_LOCKED[engine]}",
        receiver.organization_id, tx.now, limit,
    )  # fmt: skip
    sealed = Sealed(receiver.secret, receiver.previous_secret, receiver.previous_until)
    return [Claimed._make((*columns, receiver.url, sealed, receiver.failing_since)) for columns in found]
