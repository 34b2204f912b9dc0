"""Sends what is in the outbox: at least once, in order within a subject, signed, with retries.

One loop records what ended and claims what is due, in one transaction per turn; each attempt is a task. Receivers that fail or are
slow share a quarter of the places, so they cannot take those of the others.
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
from kontobahn.posts import WebhookClient
from kontobahn.sentences import said
from kontobahn.settings import Settings
from kontobahn.vault import Vault
from kontobahn.webhooks import claims
from kontobahn.webhooks.claims import Capacity, Claimed, Outcome
from kontobahn.webhooks.outbox import CHANNEL, Lane
from kontobahn.webhooks.receiver import Keys, ReceiverKey, signed_headers

# Another process may have written the event, or a retry may have become due.
POLL_SECONDS = 1.0
# While attempts are running, outcomes are collected for this long and then recorded together.
GATHER_SECONDS = 0.01
SLOW_SECONDS = 2.0
PER_FAILING_RECEIVER = 2
MAX_ANSWER_BYTES = 4096
STOP_SECONDS = 5.0


class Deliverer:
    def __init__(
        self, db: Database, vault: Vault, outbound: OutboundClient, settings: Settings, clock: Clock, metrics: Metrics
    ) -> None:
        self._db = db
        self._keys = Keys(vault)
        self._posts = WebhookClient(outbound)
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._woken = asyncio.Event()
        self._stopping = False
        self._loop_task: asyncio.Task[None] | None = None
        self._attempts: set[asyncio.Task[None]] = set()
        self._ended: list[Outcome] = []
        self._lanes: set[Lane] = set()
        self._in_flight: Counter[ReceiverKey] = Counter()
        self._failing_or_slow_in_flight = 0
        self._slow: set[ReceiverKey] = set()

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end_listening = self._db.listen(CHANNEL, self.wake)
        self._loop_task = asyncio.create_task(self._run(), name="webhook deliverer")

    def wake(self) -> None:
        """Looks now, not at the next poll. May be called from any thread."""
        with suppress(RuntimeError):  # the loop has gone
            self._loop.call_soon_threadsafe(self._woken.set)

    async def stop(self) -> None:
        """Gives running attempts some time to end, then releases the rest for others."""
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
        self._posts.close()
        try:
            await self._cycle(self._capacity()._replace(quick=0, failing_or_slow=0))
            await self._db.write(claims.release, self._owner)
        except Unavailable as unavailable:
            log.warning("webhook_claims_left_to_expire", detail=unavailable.operator or str(unavailable))

    async def _run(self) -> None:
        # With one process, whatever is claimed now was claimed by one that has died.
        has_old_claims = self._db.has_one_process
        while not self._stopping:
            self._woken.clear()
            try:
                if has_old_claims:
                    await self._db.write(claims.release_all)
                    has_old_claims = False
                taken = await self._cycle(self._capacity())
            except Unavailable as unavailable:
                log.warning("webhook_cycle_postponed", detail=unavailable.operator or str(unavailable))
                await asyncio.sleep(POLL_SECONDS)
                continue
            except Exception as error:
                # The outcomes are not kept for the next turn, or one bad one would stop all the others from being recorded;
                # their claims expire.
                log.exception("webhook_cycle_failed", error)
                await asyncio.sleep(POLL_SECONDS)
                continue
            if not taken:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), POLL_SECONDS)
            if self._attempts:
                await asyncio.sleep(GATHER_SECONDS)

    async def _cycle(self, capacity: Capacity) -> int:
        """Runs one turn, and returns how many events were claimed."""
        ended, self._ended = self._ended, []
        try:
            cycle = await self._db.write(
                claims.run_cycle,
                self._owner,
                ended,
                capacity,
                claim_seconds=self._settings.webhook_timeout_seconds + claims.MARGIN_SECONDS,
                pause_days=self._settings.webhook_pause_days,
            )
        except Unavailable:
            self._ended = ended + self._ended
            raise
        oldest = self._clock.now() - claims.MARGIN_SECONDS * SECOND
        self._ended += [outcome for outcome in cycle.postponed if outcome.at > oldest]
        for receiver, state in cycle.stopped:
            log.warning(
                "webhook_url_stopped", organization_id=receiver.organization_id, receiver_id=receiver.id, state=state
            )
        for claimed in cycle.claimed:
            is_failing_or_slow = claimed.failing_since is not None or claimed.receiver in self._slow
            self._in_flight[claimed.receiver] += 1
            self._lanes.add(claimed.lane)
            self._failing_or_slow_in_flight += is_failing_or_slow
            task = asyncio.create_task(self._attempt(claimed, is_failing_or_slow))
            self._attempts.add(task)
            task.add_done_callback(self._attempts.discard)
        return len(cycle.claimed)

    def _capacity(self) -> Capacity:
        places = self._settings.webhook_concurrency
        for_failing_or_slow = places // 4
        return Capacity(
            quick=places - for_failing_or_slow - (self._in_flight.total() - self._failing_or_slow_in_flight),
            failing_or_slow=for_failing_or_slow - self._failing_or_slow_in_flight,
            per_receiver=self._settings.webhook_concurrency_per_organization,
            per_failing_receiver=min(PER_FAILING_RECEIVER, self._settings.webhook_concurrency_per_organization),
            in_flight=dict(self._in_flight),
            lanes=frozenset(self._lanes),
            slow=frozenset(self._slow),
        )

    async def _attempt(self, claimed: Claimed, is_failing_or_slow: bool) -> None:
        receiver = claimed.receiver
        started, at = time.perf_counter(), self._clock.now()
        try:
            status, reason, retry_after = await self._send(claimed, at)
        finally:
            self._lanes.discard(claimed.lane)
            self._in_flight[receiver] -= 1
            if not self._in_flight[receiver]:
                del self._in_flight[receiver]
            self._failing_or_slow_in_flight -= is_failing_or_slow
        seconds = time.perf_counter() - started
        (self._slow.add if seconds > SLOW_SECONDS else self._slow.discard)(receiver)
        outcome = Outcome(claimed, at, round(seconds * 1000), status, reason, retry_after)
        self._ended.append(outcome)
        self._woken.set()
        self._metrics.note_delivery("delivered" if outcome.delivered else "failed", seconds)
        log.info(
            "webhook_attempt", organization_id=receiver.organization_id, receiver_id=receiver.id, event_id=claimed.id,
            event_name=claimed.event, attempt=claimed.attempts + 1, status=status, reason=reason, milliseconds=outcome.milliseconds,
        )  # fmt: skip

    async def _send(self, claimed: Claimed, at: int) -> tuple[int | None, str | None, int | None]:
        """Returns the status, the reason if it failed, and how many seconds the receiver asks us to wait."""
        body = claimed.body.encode()
        try:
            keys = self._keys.of(claimed.receiver, claimed.sealed, at)
            reply = await self._posts.post(
                claimed.url, signed_headers(claimed.id, at // SECOND, body, keys), body,
                seconds=self._settings.webhook_timeout_seconds, max_bytes=MAX_ANSWER_BYTES,
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
    # Choice 29: a redirect is a failure; the receiver's own answer is shown to nobody.
    if 200 <= reply.status < 300:
        return None
    if 300 <= reply.status < 400:
        return "The receiver redirects; redirects are not followed."
    if reply.status == claims.GONE:
        return "The receiver wants no more events at this URL."
    return said("The receiver answered {status}.", status=reply.status)


def _retry_after(reply: Reply) -> int | None:
    """The seconds that 429 and 503 may ask for. The other form, a date, would mean trusting the receiver's clock."""
    value = reply.headers.get("retry-after", "").strip()
    if reply.status not in (429, 503) or not value.isdigit() or len(value) > 9:
        return None
    return int(value)
