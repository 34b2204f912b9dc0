"""Which files were imported or refused: by whom, when, and what came of it. From calls and from the command line alike."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from kontobahn.access.principal import Principal, in_scope
from kontobahn.api.tasks import TASKS, TaskRow
from kontobahn.banking.imports.importer import ImportResult
from kontobahn.db import Table, Tx
from kontobahn.json_text import encode

# The kind of the tasks that import large files.
TASK_KIND = "statements"
_MAX_SOURCE = 200


class ImportRow(NamedTuple):
    organization_id: str
    id: str
    source: str
    sha256: str
    actor: str
    status: Literal["running", "done", "failed"]
    error: str | None
    report: str
    created_at: int

    def result(self) -> ImportResult:
        return msgspec.json.decode(self.report, type=ImportResult)


IMPORTS = Table("banking_imports", ImportRow)
NOTHING = encode(ImportResult()).decode()


class File(NamedTuple):
    """A file to be imported, and who sent it."""

    organization_id: str
    id: str
    source: str
    sha256: str
    actor: str


def record_done(tx: Tx, file: File, result: ImportResult) -> ImportRow:
    return _record(tx, file, "done", None, result)


def record_refused(tx: Tx, file: File, error: str) -> ImportRow:
    return _record(tx, file, "failed", error, ImportResult())


def _record(
    tx: Tx, file: File, status: Literal["done", "failed"], error: str | None, result: ImportResult
) -> ImportRow:
    row = ImportRow(
        organization_id=file.organization_id,
        id=file.id,
        source=file.source[:_MAX_SOURCE],
        sha256=file.sha256,
        actor=file.actor,
        status=status,
        error=error,
        report=encode(result).decode(),
        created_at=tx.now,
    )
    IMPORTS.insert(tx, row)
    return row


def listing(tx: Tx, organizations: tuple[str, ...], limit: int) -> list[ImportRow]:
    """Returns the latest first, with those that run."""
    scope = in_scope(len(organizations))
    rows = IMPORTS.all(tx, f"{scope} ORDER BY created_at DESC, id DESC LIMIT ?", *organizations, limit)
    tasks = TASKS.all(
        tx,
        f"{scope} AND kind = ? AND status <> 'done' ORDER BY created_at DESC LIMIT ?",
        *organizations,
        TASK_KIND,
        limit,
    )
    found = [*map(from_task, tasks), *rows]
    return sorted(found, key=lambda row: (row.created_at, row.id), reverse=True)[:limit]


def find(tx: Tx, principal: Principal, import_id: str) -> ImportRow:
    condition = f"{in_scope(len(principal.scope))} AND id = ?"
    row = IMPORTS.one(tx, condition, *principal.scope, import_id)
    if row is not None:
        return row
    task = TASKS.one(tx, f"{condition} AND kind = ?", *principal.scope, import_id, TASK_KIND)
    if task is None:
        raise principal.missing("Import")
    return from_task(task)


def from_task(task: TaskRow) -> ImportRow:
    """What is known of an import that runs as a task, or failed as one."""
    error = msgspec.json.decode(task.answer)["error"] if task.status == "failed" else None
    return ImportRow(
        organization_id=task.organization_id,
        id=task.id,
        source=task.source,
        sha256=task.subject,
        actor=task.actor,
        status=task.status,
        error=error,
        report=NOTHING,
        created_at=task.created_at,
    )
