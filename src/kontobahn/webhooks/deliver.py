"""Sends what the outbox holds: at least once, in order for one subject, signed, with retries.

One loop writes down what ended and takes what is due, in one transaction a turn; each attempt is a task. Receivers that fail or are
slow share a quarter of the places among themselves, so they cannot take those of the others.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections import Counter
from contextlib import suppress

from kontobahn import log
from kontobahn.clock import SECOND, Clock
from kontobahn.db import Database
from kontobahn.errors import SetupError, Unavailable
from kontobahn.metrics import Metrics
from kontobahn.outbound import OutboundClient, Refused, Reply, Unreached
from kontobahn.settings import Settings
from kontobahn.vault import Vault
from kontobahn.webhooks import claims
from kontobahn.webhooks.claims import Claimed, Outcome, Room
from kontobahn.webhooks.endpoint import Keys
from kontobahn.webhooks.outbox import CHANNEL
from kontobahn.webhooks.signing import signed_headers

# Another process may have written the event, or a retry come due.
POLL_SECONDS = 1.0
# While much is on its way, outcomes are collected for as long before they are written down together.
GATHER_SECONDS = 0.01
SLOW_SECONDS = 2.0
PER_FAILING_ORGANIZATION = 2
MOST_ANSWER_BYTES = 4096
STOP_SECONDS = 5.0


class Deliverer:
    def __init__(
        self, db: Database, vault: Vault, door: OutboundClient, settings: Settings, clock: Clock, metrics: Metrics
    ) -> None:
        self._db = db
        self._keys = Keys(vault)
        self._door = door
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._woken = asyncio.Event()
        self._stopping = False
        self._loop_task: asyncio.Task[None] | None = None
        self._attempts: set[asyncio.Task[None]] = set()
        self._ended: list[Outcome] = []
        self._lanes: set[tuple[str, str]] = set()
        self._in_hand: Counter[str] = Counter()
        self._doubtful_in_hand = 0
        self._slow: set[str] = set()

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end_listening = self._db.listen(CHANNEL, self.wake)
        self._loop_task = asyncio.create_task(self._run(), name="webhook deliverer")

    def wake(self) -> None:
        """Look now, not at the next poll; from any thread."""
        with suppress(RuntimeError):  # the loop has gone
            self._loop.call_soon_threadsafe(self._woken.set)

    async def stop(self) -> None:
        """Let what is on its way end, for a while; give the rest back for others."""
        if self._loop_task is None:
            return
        self._stopping = True
        self._woken.set()
        self._end_listening()
        await self._loop_task
        self._loop_task = None
        if self._attempts:
            _, unfinished = await asyncio.wait(self._attempts, timeout=STOP_SECONDS)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
        try:
            await self._cycle(self._room()._replace(quick=0, doubtful=0))
            await self._db.write(claims.give_back, self._owner)
        except Unavailable as trouble:
            log.warning("webhook_claims_left_to_expire", detail=trouble.operator or str(trouble))

    async def _run(self) -> None:
        retake = self._db.engine.name == "sqlite"
        while not self._stopping:
            self._woken.clear()
            try:
                if retake:
                    await self._db.write(claims.give_back_all)
                    retake = False
                taken = await self._cycle(self._room())
            except Unavailable as trouble:
                log.warning("webhook_cycle_postponed", detail=trouble.operator or str(trouble))
                taken = 0
                await asyncio.sleep(POLL_SECONDS)
            except Exception as error:
                # What ended is not kept for the next turn, or one bad outcome would keep all the others from being written:
                # those claims run out.
                log.exception("webhook_cycle_failed", error)
                taken = 0
                await asyncio.sleep(POLL_SECONDS)
            if not taken:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), POLL_SECONDS)
            if self._attempts:
                await asyncio.sleep(GATHER_SECONDS)

    async def _cycle(self, room: Room) -> int:
        """One turn; the answer counts what was taken."""
        ended, self._ended = self._ended, []
        try:
            cycle = await self._db.write(
                claims.run_cycle,
                self._db.engine.name,
                self._owner,
                ended,
                room,
                claim_seconds=self._settings.webhook_timeout_seconds + claims.MARGIN_SECONDS,
                pause_days=self._settings.webhook_pause_days,
            )
        except Unavailable:
            self._ended = ended + self._ended
            raise
        oldest = self._clock.now() - claims.MARGIN_SECONDS * SECOND
        self._ended += [outcome for outcome in cycle.postponed if outcome.at > oldest]
        for organization_id, state in cycle.stopped:
            log.warning("webhook_url_stopped", organization_id=organization_id, state=state)
        for claimed in cycle.claimed:
            is_doubtful = claimed.failing_since is not None or claimed.organization_id in self._slow
            self._in_hand[claimed.organization_id] += 1
            self._lanes.add(claimed.lane)
            self._doubtful_in_hand += is_doubtful
            task = asyncio.create_task(self._attempt(claimed, is_doubtful))
            self._attempts.add(task)
            task.add_done_callback(self._attempts.discard)
        return len(cycle.claimed)

    def _room(self) -> Room:
        most = self._settings.webhook_concurrency
        for_doubtful = most // 4
        return Room(
            quick=most - for_doubtful - (self._in_hand.total() - self._doubtful_in_hand),
            doubtful=for_doubtful - self._doubtful_in_hand,
            per_organization=self._settings.webhook_concurrency_per_organization,
            per_failing_organization=min(PER_FAILING_ORGANIZATION, self._settings.webhook_concurrency_per_organization),
            in_hand=dict(self._in_hand),
            lanes=frozenset(self._lanes),
            slow=frozenset(self._slow),
        )

    async def _attempt(self, claimed: Claimed, is_doubtful: bool) -> None:
        organization_id = claimed.organization_id
        started, at = time.perf_counter(), self._clock.now()
        try:
            status, reason, retry_after = await self._send(claimed, at)
        finally:
            self._lanes.discard(claimed.lane)
            self._in_hand[organization_id] -= 1
            if not self._in_hand[organization_id]:
                del self._in_hand[organization_id]
            self._doubtful_in_hand -= is_doubtful
        seconds = time.perf_counter() - started
        (self._slow.add if seconds > SLOW_SECONDS else self._slow.discard)(organization_id)
        outcome = Outcome(claimed, at, round(seconds * 1000), status, reason, retry_after)
        self._ended.append(outcome)
        self._woken.set()
        self._metrics.note_delivery("delivered" if outcome.delivered else "failed", seconds)
        log.info(
            "webhook_attempt", organization_id=organization_id, event_id=claimed.id, event_name=claimed.event,
            attempt=claimed.attempts + 1, status=status, reason=reason, milliseconds=outcome.milliseconds,
        )  # fmt: skip

    async def _send(self, claimed: Claimed, at: int) -> tuple[int | None, str | None, int | None]:
        """Status, reason where it is no success, and how long the receiver asks us to wait."""
        body = claimed.body.encode()
        try:
            keys = self._keys.of(claimed.organization_id, claimed.sealed, at)
            reply = await self._door.send(
                "POST", claimed.url, body=body, headers=signed_headers(claimed.id, at // SECOND, body, keys),
                seconds=self._settings.webhook_timeout_seconds, most_bytes=MOST_ANSWER_BYTES,
            )  # fmt: skip
        except (Refused, Unreached) as failure:
            return None, str(failure), None
        except SetupError as error:
            log.error("webhook_secret_unreadable", organization_id=claimed.organization_id, error=str(error))
            return None, "The signing secret cannot be read.", None
        except Exception as error:
            log.exception("webhook_attempt_crashed", error, event_id=claimed.id)
            return None, "Something went wrong on our side.", None
        return reply.status, _reason(reply), _retry_after(reply)


def _reason(reply: Reply) -> str | None:
    # Choice 29: a redirect is a failure; the receiver's answer itself is nobody's to see.
    if 200 <= reply.status < 300:
        return None
    if 300 <= reply.status < 400:
        return "The receiver redirects; redirects are not followed."
    if reply.status == claims.GONE:
        return "The receiver wants no more events at this URL."
    return f"The receiver answered {reply.status}."


def _retry_after(reply: Reply) -> int | None:
    """Whole seconds, as 429 and 503 may ask for; the other form, a date, is not worth another clock to trust."""
    value = reply.headers.get("Retry-After", "").strip()
    if reply.status not in (429, 503) or not value.isdigit() or len(value) > 9:
        return None
    return int(value)
