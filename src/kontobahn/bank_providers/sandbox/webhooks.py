"""Reports of the sandbox bank: queued in the transaction of the change, signed, and posted to our endpoint for providers' webhooks.

The sender is the bank's own. It knows our address and the signing key, and nothing of what happens to a delivery.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import msgspec

from kontobahn import log
from kontobahn.bank_providers.sandbox.store import CHANNEL
from kontobahn.banking.payments.rules import TRANSITIONS
from kontobahn.banking.provider import (
    BadSignature,
    ConnectionFailed,
    ConnectionFinished,
    ConnectionGone,
    PayeeFinding,
    PaymentReport,
    PaymentReported,
    Report,
)
from kontobahn.clock import DAY, MINUTE, SECOND, Clock, to_datetime
from kontobahn.db import Database, Tx
from kontobahn.errors import Unavailable
from kontobahn.ids import new_id

PATH = "/v2/banking/webhooks/sandbox"
TOLERANCE = 5 * MINUTE
RETRY_AFTER = (SECOND, 2 * SECOND, 5 * SECOND, 15 * SECOND, MINUTE, 5 * MINUTE, 30 * MINUTE, 120 * MINUTE)
# The time that one attempt may take before another process may make the next.
ATTEMPT_LEASE = MINUTE
# After 429.
RATE_LIMIT_PAUSE = 10 * SECOND
RETENTION = 7 * DAY
BATCH_SIZE = 50
POLL_SECONDS = 1.0
MAX_PAGE_WAIT_SECONDS = 5.0
_ID = re.compile(r"[A-Za-z0-9_]{1,100}")
_SECONDS = re.compile(r"[0-9]{1,12}")


class WebhookClient(Protocol):
    """Posts to the service; opened by the composition root."""

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> int:
        """Returns the status of the response. Raises an error if there was none."""

    async def close(self) -> None: ...


# --- Queueing


def queue(tx: Tx, subject: str, data: Mapping[str, Any]) -> str:
    """Queues a delivery after all that were queued before it, and returns its id."""
    body = msgspec.json.encode({"data": data, "meta": {"version": "1", "time": to_datetime(tx.now)}})
    delivery_id = f"dlv_{new_id().replace('-', '')}"
    tx.run(
        "INSERT INTO sandbox_deliveries (number, id, subject, body, state, attempts, next_attempt_at, created_at)"
        " SELECT COALESCE(MAX(number), 0) + 1, ?, ?, ?, 'waiting', 0, ?, ? FROM sandbox_deliveries",
        delivery_id, subject, body, tx.now, tx.now,
    )  # fmt: skip
    return delivery_id


def drop(tx: Tx, subject: str) -> None:
    tx.run("DELETE FROM sandbox_deliveries WHERE subject = ? AND state = 'waiting'", subject)


def redeliver_latest(tx: Tx, count: int) -> int:
    """Queues the latest deliveries once more, under their old ids."""
    tx.notify(CHANNEL)
    return tx.run(
        "UPDATE sandbox_deliveries SET state = 'waiting', attempts = 0, next_attempt_at = ? WHERE number IN"
        " (SELECT number FROM sandbox_deliveries WHERE state <> 'waiting' ORDER BY number DESC LIMIT ?)",
        tx.now, count,
    )  # fmt: skip


def make_due(tx: Tx) -> int:
    """Makes everything that is waiting due now."""
    return tx.run("UPDATE sandbox_deliveries SET next_attempt_at = ? WHERE state = 'waiting'", tx.now)


def waiting(tx: Tx) -> list[tuple[str, bytes]]:
    """Returns ids and bodies in order, for callers that apply them without the network."""
    rows = tx.all("SELECT id, body FROM sandbox_deliveries WHERE state = 'waiting' ORDER BY number")
    return [(row[0], bytes(row[1])) for row in rows]


def mark_delivered(tx: Tx, delivery_id: str, answer: str) -> None:
    tx.run("UPDATE sandbox_deliveries SET state = 'delivered', last_answer = ? WHERE id = ?", answer, delivery_id)


def purge(tx: Tx) -> int:
    return tx.run("DELETE FROM sandbox_deliveries WHERE created_at <= ? AND state <> 'waiting'", tx.now - RETENTION)


# --- Reading what was delivered


def reports(body: bytes) -> list[Report]:
    data = msgspec.json.decode(body, type=dict[str, Any])["data"]
    if "payment_ref" in data:
        # Choice 27: a status that is not in the table is not guessed at.
        status = data["status"] if data["status"] in TRANSITIONS else None
        payee = PayeeFinding(*data["payee"]) if data.get("payee") else None
        report = PaymentReport(status, data["raw_status"], data["error_class"], data["error_message"], payee=payee)
        return [PaymentReported(data["payment_ref"], report)]
    match data["stage"]:
        case "finish":
            return [ConnectionFinished(data["connection_ref"], data["pending_token"])]
        case "error":
            return [
                ConnectionFailed(
                    data["error_class"], data["error_message"], data["connection_ref"], data["pending_token"]
                )
            ]
        case "destroy":
            return [ConnectionGone(data["connection_ref"])]
    # The bank has begun to fetch: nothing to do yet.
    return []


# --- Signing


def sign(key: bytes, delivery_id: str, timestamp: str, body: bytes) -> str:
    digest = hmac.digest(key, f"{delivery_id}.{timestamp}.".encode() + body, "sha256")
    return "v1," + base64.b64encode(digest).decode()


def check(key: bytes, headers: Mapping[str, str], body: bytes, now: int) -> str:
    """Returns the delivery's id. Raises BadSignature unless the bank signed it, and recently."""
    # Choice 30: the signature covers the raw body.
    delivery_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not _ID.fullmatch(delivery_id) or not _SECONDS.fullmatch(timestamp):
        raise BadSignature("webhook-id or webhook-timestamp is missing or malformed")
    expected, received = sign(key, delivery_id, timestamp, body).encode(), headers.get("webhook-signature", "").encode()
    if not hmac.compare_digest(expected, received):
        raise BadSignature("webhook-signature does not match")
    if abs(int(timestamp) * SECOND - now) > TOLERANCE:
        raise BadSignature("webhook-timestamp is too far from now")
    return delivery_id


# --- Sending


class _Claimed(NamedTuple):
    id: str
    body: bytes
    attempts: int


class DeliverySender:
    """Lets the bank act when something is due, and delivers its reports. Runs at each change in this process and once a second."""

    def __init__(
        self, db: Database, clock: Clock, key: bytes, base_url: str, client: WebhookClient, advance: Callable[[Tx], None],
        is_due: Callable[[Tx], bool],
    ) -> None:  # fmt: skip
        self._db = db
        self._clock = clock
        self._key = key
        self._url = ""
        self.set_base_url(base_url)
        self._client = client
        self._advance = advance
        self._is_due = is_due
        self._turn: asyncio.Lock | None = None
        self._task: asyncio.Task[None] | None = None

    def set_base_url(self, base_url: str) -> None:
        """Says where the service is; nothing is delivered while that is unknown."""
        self._url = base_url + PATH if base_url else ""

    def start(self) -> None:
        self._task = asyncio.create_task(self._repeat(), name="sandbox bank")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        await self._client.close()

    async def run(self) -> int:
        """Does all that is due now, and returns how many deliveries were accepted."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            delivered = 0
            if await self._db.read(self._is_due):
                await self._db.write(self._advance)
            if self._url:
                while await self._db.read(is_waiting):
                    accepted = await self._deliver_some()
                    delivered += accepted
                    if not accepted:
                        break
            return delivered

    async def run_briefly(self) -> None:
        """The same while a person waits: what takes longer is left to the next run."""
        with suppress(TimeoutError):
            async with asyncio.timeout(MAX_PAGE_WAIT_SECONDS):
                await self.run()

    async def _deliver_some(self) -> int:
        accepted = 0
        batch = await self._db.write(_claim)
        for position, claimed in enumerate(batch):
            answer = await self._deliver(claimed)
            if answer == "429":
                # The rate limit counts everything from here, so the others wait as well.
                await self._db.write(_pause, batch[position:])
                break
            if answer == "200":
                accepted += 1
                await self._db.write(mark_delivered, claimed.id, answer)
            else:
                await self._db.write(_postpone, claimed, answer)
        return accepted

    async def _deliver(self, claimed: _Claimed) -> str:
        timestamp = str(self._clock.now() // SECOND)
        headers = {
            "content-type": "application/json",
            "webhook-id": claimed.id,
            "webhook-timestamp": timestamp,
            "webhook-signature": sign(self._key, claimed.id, timestamp, claimed.body),
        }
        try:
            return str(await self._client.post(self._url, headers, claimed.body))
        except Exception as error:  # whatever goes wrong, the delivery waits for its next attempt
            log.warning("sandbox_delivery_failed", delivery_id=claimed.id, detail=f"{type(error).__name__}: {error}")
            return f"{type(error).__name__}: {error}"[:200]

    async def _repeat(self) -> None:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(woken.set)

        stop_listening = self._db.listen(CHANNEL, wake)
        try:
            while True:
                woken.clear()
                try:
                    await self.run()
                except Unavailable as error:
                    log.warning("sandbox_postponed", detail=error.operator or str(error))
                except Exception as error:
                    log.exception("sandbox_failed", error)
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), POLL_SECONDS)
        finally:
            stop_listening()


# Deliveries that may be sent now: the first waiting delivery of each subject.
_NEXT = (
    "SELECT d.number, d.id, d.body, d.attempts FROM sandbox_deliveries d WHERE d.state = 'waiting' AND d.next_attempt_at <= ?"
    " AND NOT EXISTS (SELECT 1 FROM sandbox_deliveries e WHERE e.state = 'waiting' AND e.subject = d.subject"
    " AND e.number < d.number) ORDER BY d.number LIMIT ?"
)


def is_waiting(tx: Tx) -> bool:
    return bool(tx.all(_NEXT, tx.now, 1))


def _claim(tx: Tx) -> list[_Claimed]:
    tx.lock("sandbox_deliveries")
    claimed = []
    for number, delivery_id, body, attempts in tx.all(_NEXT, tx.now, BATCH_SIZE):
        tx.run(
            "UPDATE sandbox_deliveries SET attempts = attempts + 1, next_attempt_at = ? WHERE number = ?",
            tx.now + ATTEMPT_LEASE, number,
        )  # fmt: skip
        claimed.append(_Claimed(delivery_id, bytes(body), attempts + 1))
    return claimed


def _pause(tx: Tx, batch: list[_Claimed]) -> None:
    """Postpones deliveries without counting an attempt."""
    for claimed in batch:
        tx.run(
            "UPDATE sandbox_deliveries SET attempts = ?, next_attempt_at = ?, last_answer = '429'"
            " WHERE id = ? AND state = 'waiting'",
            claimed.attempts - 1, tx.now + RATE_LIMIT_PAUSE, claimed.id,
        )  # fmt: skip


def _postpone(tx: Tx, claimed: _Claimed, answer: str) -> None:
    given_up = claimed.attempts >= len(RETRY_AFTER)
    tx.run(
        "UPDATE sandbox_deliveries SET state = ?, next_attempt_at = ?, last_answer = ? WHERE id = ? AND state = 'waiting'",
        "given_up" if given_up else "waiting", tx.now + RETRY_AFTER[min(claimed.attempts, len(RETRY_AFTER)) - 1], answer,
        claimed.id,
    )  # fmt: skip
