"""Named jobs on a schedule. A lease in the database lets one process at a time run a job; that of a dead process expires."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from kontobahn import log
from kontobahn.clock import SECOND
from kontobahn.db import Database, Tx, leases
from kontobahn.errors import Unavailable

LEASE_SECONDS = 12
RENEW_SECONDS = 4
STOP_SECONDS = 10
# The time by which the clocks of two machines may differ before one of them counts as set back.
CLOCK_SLACK_SECONDS = 60
# A job is overdue when it was due this many intervals ago, but never within the first seconds after that.
OVERDUE_INTERVALS = 3
OVERDUE_SECONDS = 30
_LEASE = leases.Lease("job_leases", key=("name", "owner"), seconds=LEASE_SECONDS)


class Job(NamedTuple):
    name: str
    every_seconds: float
    run: Callable[[], Awaitable[None]]


class JobRunner:
    def __init__(self, db: Database, jobs: list[Job]) -> None:
        self._db = db
        self._jobs = jobs
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._stopping.clear()
        self._tasks = [asyncio.create_task(self._repeat(job), name=f"job {job.name}") for job in self._jobs]

    async def stop(self) -> None:
        """Lets running jobs finish. One that takes too long is cancelled, and its lease expires."""
        self._stopping.set()
        if self._tasks:
            _, unfinished = await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)

    async def run_due(self) -> list[str]:
        """Runs every job that is due and not running elsewhere, and returns their names."""
        return [job.name for job in self._jobs if await self._run_if_due(job)]

    async def _repeat(self, job: Job) -> None:
        while not self._stopping.is_set():
            try:
                ran = await self._run_if_due(job)
            except Exception as error:
                # Whatever it was, the job is tried again: only a stop ends this loop.
                log.exception("job_loop_failed", error, job=job.name)
                ran = False
            # Another process has it, and may be dead: look again when its lease must have expired.
            seconds = job.every_seconds if ran else min(job.every_seconds, LEASE_SECONDS)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), seconds * random.uniform(0.9, 1.1))

    async def _run_if_due(self, job: Job) -> bool:
        try:
            if not await self._db.write(_claim, job.name, self._owner, job.every_seconds):
                return False
            renewing = leases.renewing(self._db, RENEW_SECONDS, _LEASE.renew, job.name, self._owner)
            try:
                error = await _outcome(job)
            finally:
                renewing.cancel()
            await self._db.write(_release, job.name, self._owner, job.every_seconds, error)
        except Unavailable as unavailable:
            log.warning("job_postponed", job=job.name, detail=unavailable.operator or str(unavailable))
            return False
        return error is None


async def _outcome(job: Job) -> str | None:
    try:
        await job.run()
    except Unavailable:
        raise
    except Exception as error:
        log.exception("job_failed", error, job=job.name)
        return f"{type(error).__name__}: {error}"
    return None


def _claim(tx: Tx, name: str, owner: str, every_seconds: float) -> bool:
    until = _LEASE.ends_at(tx.now)
    tx.run(
        "INSERT INTO job_leases (name, owner, lease_until, next_at) VALUES (?, '', 0, 0) ON CONFLICT DO NOTHING", name
    )
    # No lease and no interval reaches further ahead than this: one that does is from before the clock was set back.
    latest_lease = until + CLOCK_SLACK_SECONDS * SECOND
    latest_turn = tx.now + round((every_seconds + CLOCK_SLACK_SECONDS) * SECOND)
    return bool(
        tx.run(
            "UPDATE job_leases SET owner = ?, lease_until = ? WHERE name = ? AND (lease_until <= ? OR lease_until > ?)"
            " AND (next_at <= ? OR next_at > ?)",
            owner, until, name, tx.now, latest_lease, tx.now, latest_turn,
        )
    )  # fmt: skip


def _release(tx: Tx, name: str, owner: str, every_seconds: float, error: str | None) -> None:
    # Due again a little before the full interval, so that a process waking on schedule is not too early.
    next_at = tx.now + round(every_seconds * 0.8 * SECOND)
    _LEASE.give_up(tx, name, owner, next_at=next_at, finished_at=tx.now, last_error=error)


def lags(tx: Tx) -> dict[str, float]:
    """Returns how long each job has been due without being run, in seconds; 0 while it runs."""
    rows = tx.all("SELECT name, next_at, lease_until FROM job_leases")
    return {
        name: 0.0 if lease_until > tx.now or next_at <= 0 else max(0, tx.now - next_at) / SECOND
        for name, next_at, lease_until in rows
    }


def failed(tx: Tx) -> list[tuple[str, str | None]]:
    """Jobs that failed the last time, for `kontobahn doctor`."""
    return [
        (name, error) for name, error in tx.all("SELECT name, last_error FROM job_leases WHERE last_error IS NOT NULL")
    ]


class Overdue(NamedTuple):
    """A job that should have run long ago."""

    name: str
    seconds: int


def overdue(tx: Tx, jobs: Sequence[Job], since: int | None = None) -> list[Overdue]:
    """Jobs overdue by three intervals, for `kontobahn doctor`, `/readyz` and metrics.

    One that has never finished counts from `since`, or not at all.
    """
    finished: dict[str, int | None] = dict(tx.all("SELECT name, finished_at FROM job_leases"))
    found = []
    for job in jobs:
        last = finished.get(job.name) or since
        if last is None:
            continue
        late = tx.now - last - round(job.every_seconds * SECOND)
        if late > max(job.every_seconds * OVERDUE_INTERVALS, OVERDUE_SECONDS) * SECOND:
            found.append(Overdue(job.name, late // SECOND))
    return found
