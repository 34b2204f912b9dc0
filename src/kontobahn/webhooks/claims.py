"""What deliverers share through the database: which events are in whose hand, and what became of each attempt.

A cycle is one transaction: it writes down the attempts that ended and takes what is due. A claim is a lane's `next_at` moved to
where the claim runs out, so what a killed process had in hand comes up again by itself. Nothing here reaches the network.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import NamedTuple

from kontobahn.clock import HOUR, MINUTE, SECOND
from kontobahn.db import Row, Tx
from kontobahn.webhooks import endpoint, outbox
from kontobahn.webhooks.endpoint import Sealed

# Choice 29: a first try, then one after each of these.
RETRY_AFTER = (5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR)
LONGEST_RETRY_AFTER = 10 * HOUR
JITTER = 0.1
# Longer than any attempt with the cycle that writes it down.
MARGIN_SECONDS = 30
GONE = 410
# PostgreSQL: a lane that an event is just being written into is left for the next cycle instead of waited for.
_SKIP_LOCKED = {"sqlite": "", "postgres": " FOR UPDATE OF l SKIP LOCKED"}


class Claimed(NamedTuple):
    """An event in our hand, with all that an attempt needs."""

    organization_id: str
    sequence: int
    subject: str
    # What came before: attempts in all, and tries since it was last started.
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
    """How an attempt ended. No status: there was no answer."""

    claimed: Claimed
    at: int
    milliseconds: int
    status: int | None
    reason: str | None
    retry_after: int | None = None

    @property
    def delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class Room(NamedTuple):
    """How much more may be taken: of receivers that answer, of those that fail or are slow, and of one organisation."""

    quick: int
    doubtful: int
    per_organization: int
    per_failing_organization: int
    in_hand: Mapping[str, int]
    # Lanes that this process still works on: were the clock to jump, their claims would seem to have run out.
    lanes: Collection[tuple[str, str]]
    slow: frozenset[str]


class Stopped(NamedTuple):
    organization_id: str
    state: endpoint.State


class Cycle(NamedTuple):
    # Outcomes that could not be written yet, because their lane was locked.
    postponed: list[Outcome]
    claimed: list[Claimed]
    stopped: list[Stopped]


def run_cycle(
    tx: Tx, engine: str, owner: str, outcomes: list[Outcome], room: Room, *, claim_seconds: float, pause_days: int
) -> Cycle:
    postponed, stopped = _settle(tx, engine, owner, outcomes, pause_days) if outcomes else ([], [])
    claimed = _claim(tx, engine, owner, room, tx.now + round(claim_seconds * SECOND))
    return Cycle(postponed, claimed, stopped)


def give_back(tx: Tx, owner: str) -> None:
    """What is in this owner's hand is free for others, with its tries as they were."""
    lanes = tx.all("SELECT organization_id, subject FROM webhook_lanes WHERE owner = ?", owner)
    tx.many("UPDATE webhook_lanes SET head = head WHERE organization_id = ? AND subject = ?", lanes)
    outbox.advance_lanes(tx, [(organization_id, subject) for organization_id, subject in lanes])


def give_back_all(tx: Tx) -> None:
    """The same for whoever had it, where there is only one process: what is in hand at its start is a dead one's."""
    for (owner,) in tx.all("SELECT DISTINCT owner FROM webhook_lanes WHERE owner IS NOT NULL"):
        give_back(tx, owner)


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
    # One that is no longer the lane's head, or was written down before, tells of a claim that had run out.
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
    """The delivery's next state, and when it is due."""
    if outcome.delivered:
        return "delivered", now
    tries = outcome.claimed.tries + 1
    if outcome.status == GONE or tries > len(RETRY_AFTER):
        return "failed", now
    wait = RETRY_AFTER[tries - 1] * random.uniform(1 - JITTER, 1 + JITTER)
    if outcome.retry_after is not None:
        wait = max(wait, min(outcome.retry_after * SECOND, LONGEST_RETRY_AFTER))
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


def _claim(tx: Tx, engine: str, owner: str, room: Room, until: int) -> list[Claimed]:
    if room.quick <= 0 and room.doubtful <= 0:
        return []
    due = tx.all(
        "SELECT organization_id, url, secret, previous_secret, previous_until, failing_since FROM webhook_endpoints e"
        " WHERE state = 'active' AND EXISTS"
        " (SELECT 1 FROM webhook_lanes l WHERE l.organization_id = e.organization_id AND l.next_at <= ?)",
        tx.now,
    )
    random.shuffle(due)
    doubtful = [row for row in due if row[5] is not None or row[0] in room.slow]
    quick = [row for row in due if row[5] is None and row[0] not in room.slow]
    claimed: list[Claimed] = []
    for rows, space in ((quick, room.quick), (doubtful, room.doubtful)):
        left = space
        for number, row in enumerate(rows):
            if left <= 0:
                break
            # An equal share of what is left, so that no organisation's backlog takes all of it.
            share = max(1, left // (len(rows) - number))
            found = _claim_of_organization(tx, engine, row, min(share, left, _free(room, row)))
            taken = [item for item in found if item.lane not in room.lanes]
            claimed += taken
            left -= len(taken)
    tx.many(
        "UPDATE webhook_lanes SET owner = ?, next_at = ? WHERE organization_id = ? AND subject = ?",
        [(owner, until, *item.lane) for item in claimed],
    )
    return claimed


def _free(room: Room, row: Row) -> int:
    organization_id, failing_since = row[0], row[5]
    most = room.per_organization if failing_since is None else room.per_failing_organization
    return most - room.in_hand.get(organization_id, 0)


def _claim_of_organization(tx: Tx, engine: str, row: Row, most: int) -> list[Claimed]:
    if most <= 0:
        return []
    organization_id, url, secret, previous, previous_until, failing_since = row
    found = tx.all(
        "SELECT l.organization_id, l.head, l.subject, d.attempts, d.tries, e.id, e.event, e.body FROM webhook_lanes l"
        " JOIN webhook_deliveries d ON d.organization_id = l.organization_id AND d.sequence = l.head"
        " JOIN webhook_events e ON e.organization_id = l.organization_id AND e.sequence = l.head"
        f" WHERE l.organization_id = ? AND l.next_at <= ? ORDER BY l.next_at LIMIT ?{_SKIP_LOCKED[engine]}",
        organization_id, tx.now, most,
    )  # fmt: skip
    sealed = Sealed(secret, previous, previous_until)
    return [Claimed._make((*columns, url, sealed, failing_since)) for columns in found]
