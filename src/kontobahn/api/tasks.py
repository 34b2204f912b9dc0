"""Work that takes long: imports of large uploads, which continue after their answer, and files that are written to be sent."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, BinaryIO, Generic, Literal, NamedTuple, TypeVar

from kontobahn import log
from kontobahn.access.principal import in_scope
from kontobahn.api.call import Call
from kontobahn.api.wire import FileDownload, Upload
from kontobahn.clock import DAY
from kontobahn.db import Database, Rounds, Table, Tx, leases, short_read
from kontobahn.errors import Conflict, KontobahnError, TooManyRequests, Unavailable
from kontobahn.ids import new_id
from kontobahn.json_text import encode, encode_kept
from kontobahn.sentences import said
from kontobahn.settings import Settings

# Work that continues after its answer: the import of a large upload.
#
# A task is a row with a lease, which the process that works on it extends. What takes long is prepared where nobody
# sees it (`Work.prepare`). The effect and the end of the task are written in one transaction, so a task is done with
# all of its effect, or failed with none. When its process has died, a job marks it as failed; should that process be
# alive after all, its transaction finds the task ended and is rolled back.


T = TypeVar("T")
A = TypeVar("A")
TaskStatus = Literal["running", "done", "failed"]

LEASE_SECONDS = 60
RENEW_SECONDS = 15
RUNNING_AT_ONCE = 4
KEPT_DAYS = 30
_DIED = {"error": "The service ended while it worked on this. Nothing was written: send the file again."}
_CRASHED = {
    "error": "Something went wrong on our side, and nothing was written. The operator finds the cause in the log."
}


class Work(NamedTuple, Generic[T]):
    """Work that may take long. Each of its parts takes the id of the task, which is also the id of what it creates."""

    # The effect, in one transaction with the end of the task.
    commit: Callable[[Tx, str], T]
    # Long work that nobody sees, before the transaction; and its remainder, after the transaction or without one.
    prepare: Callable[[str], Awaitable[None]] | None = None
    tidy: Callable[[str], Awaitable[None]] | None = None


class TaskRow(NamedTuple):
    organization_id: str
    id: str
    kind: str
    subject: str
    source: str
    actor: str
    status: TaskStatus
    answer: str
    created_at: int
    finished_at: int | None
    lease_until: int


TASKS = Table("api_tasks", TaskRow)
_LEASE = leases.Lease(
    "api_tasks", key=("organization_id", "id"), seconds=LEASE_SECONDS, while_open="status = 'running'"
)


@short_read
def find(organizations: tuple[str, ...], kind: str, task_id: str, subject: str | None = None) -> Rounds[TaskRow | None]:
    about = "" if subject is None else " AND subject = ?"
    return TASKS.ask_one(
        f"{in_scope(len(organizations))} AND id = ? AND kind = ?{about}",
        *organizations, task_id, kind, *(() if subject is None else (subject,)),
    )  # fmt: skip


def unfinished(
    tx: Tx, organizations: tuple[str, ...], kind: str, *, before: tuple[int, str], limit: int
) -> list[TaskRow]:
    """Those that run or have failed, the latest first; `before` is when the last one of the page before began, and its id."""
    return TASKS.all(
        tx, f"{in_scope(len(organizations))} AND (created_at, id) < (?, ?) AND kind = ? AND status <> 'done'"
        " ORDER BY created_at DESC, id DESC LIMIT ?",
        *organizations, *before, kind, limit,
    )  # fmt: skip


def unfinished_about(
    tx: Tx, organizations: tuple[str, ...], kind: str, subject: str, before: str | None
) -> list[TaskRow]:
    """Those about one subject that run or have failed, with ids below this one."""
    below = "" if before is None else " AND id < ?"
    return TASKS.all(
        tx, f"{in_scope(len(organizations))} AND kind = ? AND subject = ? AND status <> 'done'{below}",
        *organizations, kind, subject, *(() if before is None else (before,)),
    )  # fmt: skip


class Tasks:
    """The tasks that this process works on."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self._db = db
        self._from_bytes = settings.upload_task_bytes
        self._running: set[asyncio.Task[None]] = set()

    async def run(
        self,
        call: Call,
        upload: Upload,
        work: Work[T],
        *,
        organization_id: str,
        kind: str,
        subject: str,
        begun: Callable[[TaskRow], T],
    ) -> T:
        """Does the work and returns its answer; for a large upload answers 202 with `begun` and continues afterwards."""
        if upload.size <= self._from_bytes:
            return await self.run_at_once(call, work)
        task_id, now = new_id(), call.context.clock.now()
        row = TaskRow(
            organization_id=organization_id,
            id=task_id,
            kind=kind,
            subject=subject,
            source=upload.name,
            actor=call.actor.name,
            status="running",
            answer="",
            created_at=now,
            finished_at=None,
            lease_until=_LEASE.ends_at(now),
        )
        call.status = 202
        answer = await call.commit(_begin, row, begun)
        upload.work_goes_on = True
        self._keep(asyncio.create_task(self._work(row, upload, work), name=f"task {task_id}"))
        return answer

    async def run_at_once(self, call: Call, work: Work[T]) -> T:
        """Does the work, however long it takes, and returns its answer; only tidying up continues afterwards."""
        task_id = new_id()
        answer = await self._prepared(work, task_id, lambda: call.commit(work.commit, task_id))
        self._keep(asyncio.create_task(self._tidy(work, task_id), name=f"tidy {task_id}"))
        return answer

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def finish_running(self, seconds: float) -> None:
        """Waits for the tasks that run; the database finishes what it has begun even after that."""
        if self._running:
            _, unfinished = await asyncio.wait(self._running, timeout=seconds)
            if unfinished:
                log.warning("shutdown_left_tasks_running", tasks=len(unfinished))

    async def _work(self, row: TaskRow, upload: Upload, work: Work[Any]) -> None:
        renewing = leases.renewing(self._db, RENEW_SECONDS, _LEASE.renew, row.organization_id, row.id)
        try:
            await self._prepared(work, row.id, lambda: self._db.write(_do, row, work))
        except KontobahnError as error:
            await self._fail(row, {"error": str(error), **error.extra})
        except Exception as error:
            log.exception("task_crashed", error, task_id=row.id, kind=row.kind)
            await self._fail(row, _CRASHED)
        finally:
            renewing.cancel()
            upload.file.close()
            await self._tidy(work, row.id)

    async def _prepared(self, work: Work[Any], task_id: str, commit: Callable[[], Awaitable[A]]) -> A:
        """Whoever is told that it failed may send the file again at once: nothing is left of it."""
        try:
            if work.prepare is not None:
                await work.prepare(task_id)
            return await commit()
        except BaseException:
            await self._tidy(work, task_id)
            raise

    async def _tidy(self, work: Work[Any], task_id: str) -> None:
        if work.tidy is None:
            return
        try:
            await work.tidy(task_id)
        except Exception as error:
            # Nobody sees it, and a job takes it away.
            log.exception("tidying_failed", error, task_id=task_id)

    async def _fail(self, row: TaskRow, error: dict[str, Any]) -> None:
        try:
            await self._db.write(_end, row, "failed", encode_kept(error).decode())
        except Unavailable as unavailable:
            # Its lease will expire.
            log.warning("task_left_to_expire", task_id=row.id, detail=unavailable.operator or str(unavailable))


def _begin(tx: Tx, row: TaskRow, begun: Callable[[TaskRow], T]) -> T:
    tx.lock("api_tasks", row.organization_id)
    running = tx.one(
        "SELECT COUNT(*) FROM api_tasks WHERE organization_id = ? AND status = 'running'", row.organization_id
    )
    if running is not None and running[0] >= RUNNING_AT_ONCE:
        raise TooManyRequests(
            said(
                "{count} large files are already being worked on. Send this one when one of them is done.",
                count=RUNNING_AT_ONCE,
            ),
            retry_after_seconds=10,
        )
    TASKS.insert(tx, row)
    return begun(row)


def _do(tx: Tx, row: TaskRow, work: Work[Any]) -> None:
    answer = work.commit(tx, row.id)
    if not _end(tx, row, "done", encode(answer).decode()):
        raise Conflict("The work took too long and was given up. Nothing was written.")


def _end(tx: Tx, row: TaskRow, status: TaskStatus, answer: str) -> bool:
    return _LEASE.give_up(tx, row.organization_id, row.id, status=status, answer=answer, finished_at=tx.now)


def fail_abandoned(tx: Tx) -> int:
    """Marks tasks as failed that no process works on any more. Returns how many there were."""
    return tx.run(
        "UPDATE api_tasks SET status = 'failed', answer = ?, finished_at = ?, lease_until = 0"
        " WHERE status = 'running' AND lease_until <= ?",
        encode(_DIED).decode(), tx.now, tx.now,
    )  # fmt: skip


def purge(tx: Tx) -> int:
    return tx.run("DELETE FROM api_tasks WHERE finished_at <= ?", tx.now - KEPT_DAYS * DAY)


# Files that take a thread and room on the disk while they are written, and until they have been sent: few at once.


# This many at once in a process, and one of them for an organisation.
AT_ONCE = 2
ZIP = "application/zip"


class Exports:
    """The exports that this process is writing."""

    def __init__(self) -> None:
        self._organizations: set[str] = set()

    async def download(
        self, call: Call, name: str, write: Callable[[BinaryIO], Coroutine[Any, Any, None]]
    ) -> FileDownload:
        """Returns the zip that `write` writes. Raises TooManyRequests while the organisation's last one is being written or sent."""
        organization_id = call.principal.organization_id
        self.enter(organization_id)
        leave = partial(self.leave, organization_id)
        try:
            file = await _written(call, write)
        except BaseException:
            leave()
            raise
        return FileDownload(file, ZIP, name, leave)

    def enter(self, organization_id: str) -> None:
        if organization_id in self._organizations or len(self._organizations) >= AT_ONCE:
            raise TooManyRequests(
                "An export is already being written. Ask again when it is done.", retry_after_seconds=15
            )
        self._organizations.add(organization_id)

    def leave(self, organization_id: str) -> None:
        self._organizations.discard(organization_id)


async def _written(call: Call, write: Callable[[BinaryIO], Coroutine[Any, Any, None]]) -> BinaryIO:
    directory = call.context.settings.data_dir
    directory.mkdir(parents=True, exist_ok=True)
    # Beside the database: the system's own directory for temporary files may be in memory.
    file: BinaryIO = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
    work = asyncio.ensure_future(write(file))
    try:
        # A caller who goes away does not end the thread: what it writes into stays open, and its place taken.
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        file.close()
        raise
    except OSError as error:
        file.close()
        raise Unavailable("The export could not be written.", operator=str(error)) from error
    except BaseException:
        file.close()
        raise
    return file
