"""The postings of a client's fiscal year: a job at DATEV that takes minutes, its rows kept here as long as DATEV keeps them.

Whoever asks drives the job a step further and waits a bounded time; the same question later finds it done. DATEV has no filter, so
every question about a year is answered from the same rows.
"""

from __future__ import annotations

import asyncio
import zlib
from datetime import date
from typing import NamedTuple

import msgspec
from msgspec import Struct

from kontobahn import log
from kontobahn.clock import HOUR, SECOND, Clock
from kontobahn.datev.rows import KeptPart, konto_of, pack
from kontobahn.datev.services import MAX_LIST_BYTES, Services, part, understood
from kontobahn.db import Database, Tx
from kontobahn.db.leases import Lease, renewing
from kontobahn.json_text import encode
from kontobahn.ledger.errors import ProviderError
from kontobahn.ledger.provider import ConnectionRef
from kontobahn.outbound import Reply
from kontobahn.threads import Pool

# DATEV keeps the result of a job this long, and we its rows.
KEPT = 12 * HOUR
# A call waits this long for a job, looking this often whether another process has finished it.
WAIT_SECONDS, LOOK_SECONDS = 20.0, 0.1
# The pauses between questions about a job: at most ten in an hour.
_PAUSES = (5, 10, 20, 40, 80, 160, 300, 600, 900, 1500)
_LAST_PAUSE = 600
# Another process may be done long before DATEV may be asked again.
MAX_RETRY_SECONDS = 60
# After a job that failed no other is begun for this long.
AFTER_FAILURE = 900 * SECOND
LEASE_SECONDS = 120.0
MAX_PAGES = 25_000


# --- The job


class JobKey(NamedTuple):
    organization_id: str
    connection_id: str
    client_id: str
    # The first day of the fiscal year.
    jahr: str


class Job(NamedTuple):
    job_id: str
    state: str
    asked_at: int
    polls: int
    next_poll_at: int
    labels: bytes


class NewJob(Struct):
    jobId: str


class JobState(Struct):
    jobState: str


_LEASE = Lease("datev_jobs", JobKey._fields, LEASE_SECONDS)


class Postings:
    def __init__(self, db: Database, clock: Clock, services: Services, pool: Pool) -> None:
        self._db, self._clock, self._services, self._pool = db, clock, services, pool

    async def ready(self, connection: ConnectionRef, client_id: str, years: list[date]) -> int:
        """Returns as of when the postings of these years are, once all are there. Raises ProviderError with 503 if that takes longer."""
        keys = [JobKey(connection.organization_id, connection.id, client_id, year.isoformat()) for year in years]
        found = await asyncio.gather(*(self._ready(connection, key) for key in keys), return_exceptions=True)
        for one in found:
            if isinstance(one, BaseException):
                raise one
        return min((one for one in found if isinstance(one, int)), default=self._clock.now())

    async def _ready(self, connection: ConnectionRef, key: JobKey) -> int:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + WAIT_SECONDS
        while True:
            job = await self._db.read(find_job, key)
            now = self._clock.now()
            if job is not None and job.state == "done" and now < job.asked_at + KEPT:
                return job.asked_at
            is_due = job is None or job.next_poll_at <= now
            if is_due and await self._db.write(_claim, key):
                await self._step(connection, key)
                continue
            wait = max(1, -(-((job.next_poll_at if job else now) - now) // SECOND))
            if loop.time() >= give_up_at or wait > WAIT_SECONDS:
                raise ProviderError(
                    503, "DATEV is putting the postings together: ask again later", type="pending",
                    retry_after_seconds=min(wait, MAX_RETRY_SECONDS),
                )  # fmt: skip
            await asyncio.sleep(LOOK_SECONDS)

    async def _step(self, connection: ConnectionRef, key: JobKey) -> None:
        """Begins the job, or asks how it is, and takes its rows if it is done; while the lease is ours."""
        held = renewing(self._db, LEASE_SECONDS / 3, _renew, key)
        try:
            job = await self._db.read(find_job, key)
            assert job is not None
            if job.state == "none" or job.asked_at + KEPT <= self._clock.now():
                job = await self._begin(connection, key)
            await self._look(connection, key, job)
        except ProviderError as error:
            # DATEV does not want to be asked again at once, whatever it was.
            if error.status != 401:
                await self._db.write(_postpone, key, self._clock.now() + error.retry_after_seconds * SECOND)
            raise
        finally:
            held.cancel()
            await self._db.write(_give_up, key)

    async def _begin(self, connection: ConnectionRef, key: JobKey) -> Job:
        path = f"clients/{part(key.client_id)}/fiscal-years/{year_id(key.jahr)}/account-postings"
        made = understood(await self._services.ask(connection, "POST", "exchange", path), NewJob)
        return await self._db.write(_begun, key, made.jobId)

    async def _look(self, connection: ConnectionRef, key: JobKey, job: Job) -> None:
        await self._db.write(_polled, key, _next_poll(job.polls, self._clock.now()))
        path = f"clients/{part(key.client_id)}/jobs/{part(job.job_id)}/state"
        found = await self._services.get(connection, "exchange", path, JobState, tells_state=True)
        if found.jobState == "COMPLETED":
            await self._take(connection, key, job)
        elif found.jobState == "DELETED":
            await self._db.write(_forget, key, next_poll_at=0)
        elif found.jobState == "FAILED":
            await self._db.write(_forget, key, next_poll_at=self._clock.now() + AFTER_FAILURE)
            raise ProviderError(
                503, "DATEV could not put the postings together", type="FAILED",
                retry_after_seconds=AFTER_FAILURE // SECOND,
            )  # fmt: skip

    async def _take(self, connection: ConnectionRef, key: JobKey, job: Job) -> None:
        labels = await self._labels(connection, key)
        number = 1
        for page in range(1, MAX_PAGES + 1):
            path = f"clients/{part(key.client_id)}/account-postings-jobs/{part(job.job_id)}?page={page}"
            reply = await self._services.ask(connection, "GET", "exchange", path, max_bytes=MAX_LIST_BYTES)
            parts, count = await self._pool.run(pack, reply.content, number)
            await self._db.write(_keep_parts, key, job.job_id, parts, is_first=page == 1)
            number += count
            if page >= _pages(reply):
                break
        await self._db.write(_done, key, job.job_id, labels)
        log.info(
            "datev_postings_taken", connection=connection.id, client=key.client_id, year=key.jahr, postings=number - 1
        )

    async def _labels(self, connection: ConnectionRef, key: JobKey) -> bytes:
        rows = await accounts(self._services, connection, key.client_id, key.jahr)
        return zlib.compress(encode({konto: text for konto, text in rows if text}), 1)


class Account(Struct):
    accountNumber: int
    caption: str | None = None


async def accounts(
    services: Services, connection: ConnectionRef, client_id: str, jahr: str, *, only_booked: bool = False
) -> list[tuple[str, str]]:
    """Returns the accounts of a fiscal year with their labels, persons included."""
    path = f"clients/{part(client_id)}/fiscal-years/{year_id(jahr)}/general-ledger-accounts"
    query = f"includesPersonalAccounts=true{'&onlyBooked=true' if only_booked else ''}"
    rows = await services.lines(connection, "exchange", f"{path}?{query}", Account)
    return [(konto_of(row.accountNumber), row.caption or "") for row in rows]


def year_id(jahr: str) -> str:
    return jahr.replace("-", "")


def _pages(reply: Reply) -> int:
    text = reply.headers.get("x-total-pages", "1")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 1


def pause_seconds(polls: int) -> int:
    """Returns how long to wait until the next question about a job that was asked after so many times before this one."""
    return _PAUSES[polls] if polls < len(_PAUSES) else _LAST_PAUSE


def _next_poll(polls: int, now: int) -> int:
    return now + pause_seconds(polls) * SECOND


# --- Rows


_IS_JOB = " AND ".join(f"{name} = ?" for name in JobKey._fields)
_COLUMNS = ", ".join(Job._fields)


def find_job(tx: Tx, key: JobKey) -> Job | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM datev_jobs WHERE {_IS_JOB}", *key)
    return None if row is None else Job._make(row)


class KeptYear(NamedTuple):
    """The postings of a fiscal year, all of them there: their parts with the bytes that each has, and the labels of accounts."""

    key: JobKey
    job_id: str
    asked_at: int
    sizes: dict[int, int]
    labels: bytes

    def names(self) -> dict[str, str]:
        return msgspec.json.decode(zlib.decompress(self.labels), type=dict[str, str]) if self.labels else {}


def kept_year(tx: Tx, key: JobKey) -> KeptYear | None:
    """Returns None unless they are there."""
    job = find_job(tx, key)
    if job is None or job.state != "done":
        return None
    rows = tx.all(
        f"SELECT part, LENGTH(content) FROM datev_postings WHERE {_IS_JOB} AND job_id = ? ORDER BY part",
        *key,
        job.job_id,
    )
    return KeptYear(key, job.job_id, job.asked_at, dict(rows), job.labels)


def contents(tx: Tx, year: KeptYear, first: int, end: int) -> list[bytes]:
    """Returns the parts whose numbers are at least `first` and below `end`."""
    rows = tx.all(
        f"SELECT content FROM datev_postings WHERE {_IS_JOB} AND job_id = ? AND part >= ? AND part < ? ORDER BY part",
        *year.key, year.job_id, first, end,
    )  # fmt: skip
    return [content for (content,) in rows]


def _claim(tx: Tx, key: JobKey) -> bool:
    tx.run(
        "INSERT INTO datev_jobs (organization_id, connection_id, client_id, jahr, job_id, state, asked_at, polls, next_poll_at, labels,"
        " lease_until) VALUES (?, ?, ?, ?, '', 'none', 0, 0, 0, ?, 0) ON CONFLICT DO NOTHING",
        *key, b"",
    )  # fmt: skip
    return _LEASE.claim(tx, *key) is not None


def _renew(tx: Tx, key: JobKey) -> None:
    _LEASE.renew(tx, *key)


def _give_up(tx: Tx, key: JobKey) -> None:
    _LEASE.give_up(tx, *key)


def _begun(tx: Tx, key: JobKey, job_id: str) -> Job:
    tx.run(
        f"UPDATE datev_jobs SET job_id = ?, state = 'running', asked_at = ?, polls = 0, next_poll_at = 0 WHERE {_IS_JOB}",
        job_id, tx.now, *key,
    )  # fmt: skip
    found = find_job(tx, key)
    assert found is not None
    return found


def _polled(tx: Tx, key: JobKey, next_poll_at: int) -> None:
    tx.run(f"UPDATE datev_jobs SET polls = polls + 1, next_poll_at = ? WHERE {_IS_JOB}", next_poll_at, *key)


def _postpone(tx: Tx, key: JobKey, until: int) -> None:
    tx.run(f"UPDATE datev_jobs SET next_poll_at = ? WHERE {_IS_JOB} AND next_poll_at < ?", until, *key, until)


def _forget(tx: Tx, key: JobKey, *, next_poll_at: int) -> None:
    tx.run(f"UPDATE datev_jobs SET state = 'none', next_poll_at = ? WHERE {_IS_JOB}", next_poll_at, *key)


def _keep_parts(tx: Tx, key: JobKey, job_id: str, parts: list[KeptPart], *, is_first: bool) -> None:
    if is_first:
        # Of an attempt that did not come to its end.
        tx.run(f"DELETE FROM datev_postings WHERE {_IS_JOB} AND job_id = ?", *key, job_id)
    tx.many(
        "INSERT INTO datev_postings (organization_id, connection_id, client_id, jahr, job_id, part, content) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(*key, job_id, *part) for part in parts],
    )


def _done(tx: Tx, key: JobKey, job_id: str, labels: bytes) -> None:
    tx.run(f"UPDATE datev_jobs SET state = 'done', labels = ? WHERE {_IS_JOB}", labels, *key)
    tx.run(f"DELETE FROM datev_postings WHERE {_IS_JOB} AND job_id <> ?", *key, job_id)


def forget_all(tx: Tx, connection: ConnectionRef) -> None:
    """Deletes everything that was read over a connection."""
    for table in ("datev_postings", "datev_jobs"):
        tx.run(
            f"DELETE FROM {table} WHERE organization_id = ? AND connection_id = ?",
            connection.organization_id,
            connection.id,
        )
