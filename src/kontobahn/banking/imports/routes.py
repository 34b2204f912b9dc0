"""Statement files by call: sent, listed, asked for."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from kontobahn.api.answers import Data
from kontobahn.api.call import Call
from kontobahn.api.declare import get, post
from kontobahn.api.tasks import Tasks, Work
from kontobahn.api.wire import Answer, ListQuery, OrganizationQuery, Timestamp, Upload, Uuid
from kontobahn.banking.imports import store
from kontobahn.banking.imports.files import ReadFile, own_ibans
from kontobahn.banking.imports.importer import StatementImporter, accounts_named, arrive
from kontobahn.banking.imports.store import TASK_KIND, File, ImportResult, ImportRow
from kontobahn.banking.transactions import arrivals
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.formats.bank_files import read
from kontobahn.formats.statements import StatementError
from kontobahn.ids import new_id
from kontobahn.threads import Pool

UNNAMED = "statements"
_READERS = Pool("statements", threads=4, waiting=400)


class StatementsQuery(OrganizationQuery):
    allow_gaps: Annotated[bool, Meta(description="Import statements even if others between them are missing.")] = False
    unbalanced: Annotated[
        bool, Meta(description="Import statements even if their bookings do not lead to their balances.")
    ] = False
    iban: (
        Annotated[
            str,
            Meta(
                max_length=4000,
                description="The IBAN of an account that the file identifies in another way: ACCOUNT=IBAN. May be given"
                " several times, or with commas between them.",
                examples=["1234567=DE89370400440532013000"],
            ),
        ]
        | None
    ) = None
    _repeatable: ClassVar[frozenset[str]] = frozenset(("iban",))


class ImportsQuery(ListQuery):
    limit: Annotated[int, Meta(ge=1, le=1000, description="How many at most.")] = 100


class ImportWarning(Answer):
    place: str
    found: str
    done: str


class StatementImportReport(Answer):
    id: Uuid
    organization_id: Uuid
    status: Literal["running", "done", "failed"]
    file: str
    sha256: str
    actor: str
    created_at: Timestamp
    error: str | None
    accounts: int
    statements: int
    repeated: int
    added: int
    modified: int
    removed: int
    left_out: int
    payments: int
    warnings: list[ImportWarning]


# Choice 37: a file to 200 MiB; a large one is imported after the answer.
@post("/v2/banking/statements", scope="banking:write", statuses=(201, 202), errors=(400, 403, 404))
async def import_statements(call: Call, query: StatementsQuery, body: Upload) -> Data[StatementImportReport]:
    """Import a file of account statements or payment status reports.

    camt.052, 053 and 054, MT940, MT942, pain.002, or a ZIP archive of them: the request body, or the one file of a form. It is
    imported as a whole or not at all. What is already known is not imported again. 202 means that the file is large and is
    imported now; ask for it by its id.
    """
    organization_id = call.principal.organization(query.organization_id)
    ibans = accounts_named([query.iban]) if query.iban else {}
    file = File(organization_id, new_id(), body.name or UNNAMED, body.sha256, call.actor.name)

    found: ReadFile | None = None
    write = partial(arrive, allow_gaps=query.allow_gaps, unbalanced=query.unbalanced)

    async def prepare(task_id: str) -> None:
        nonlocal found
        body.file.seek(0)
        items = read(body.file, file.source, ibans=ibans, unbalanced=query.unbalanced)
        found = await _READERS.run(ReadFile, items, await call.read(own_ibans, organization_id))
        await _READERS.run(write, call.context.db, organization_id, found)

    def commit(tx: Tx, task_id: str) -> Data[StatementImportReport]:
        assert found is not None
        importer = StatementImporter(
            tx, organization_id, file.source, allow_gaps=query.allow_gaps, unbalanced=query.unbalanced
        )
        result = importer.import_file(found)
        return Data(_report(store.record_done(tx, file._replace(id=task_id), result), result))

    async def tidy(task_id: str) -> None:
        if found is not None:
            await asyncio.to_thread(found.close)
            if found.arrivals != arrivals.NONE:
                await asyncio.to_thread(arrivals.give_up, call.context.db, found.arrivals)

    try:
        return await call.context.part(Tasks).run(
            call,
            body,
            Work(commit, prepare, tidy),
            organization_id=organization_id,
            kind=TASK_KIND,
            subject=body.sha256,
            begun=lambda task: Data(_kept_report(store.from_task(task))),
        )
    except StatementError as error:
        await call.context.db.write(store.record_refused, file, error.without_file(file.source))
        raise


@get("/v2/banking/imports", scope="banking:read", errors=(403, 404))
async def list_statement_imports(call: Call, query: ImportsQuery) -> Data[list[StatementImportReport]]:
    """List the files that were imported or refused, the latest first."""
    organizations = call.principal.organizations(query.organization_id)
    rows = await call.read(store.listing, organizations, query.limit)
    return Data([_kept_report(row) for row in rows])


@get("/v2/banking/imports/{id}", scope="banking:read", errors=(403, 404))
async def get_statement_import(call: Call, id: Uuid) -> Data[StatementImportReport]:
    """Read what came of one file."""
    return Data(_kept_report(await call.read(store.find, call.principal, id)))


def _kept_report(row: ImportRow) -> StatementImportReport:
    return _report(row, row.result())


def _report(row: ImportRow, result: ImportResult) -> StatementImportReport:
    return StatementImportReport(
        id=row.id,
        organization_id=row.organization_id,
        status=row.status,
        file=row.source,
        sha256=row.sha256,
        actor=row.actor,
        created_at=to_datetime(row.created_at),
        error=row.error,
        accounts=result.accounts,
        statements=result.statements,
        repeated=result.repeated,
        added=result.added,
        modified=result.modified,
        removed=result.removed,
        left_out=result.left_out,
        payments=result.payments,
        warnings=[ImportWarning(place=item.place, found=item.found, done=item.done) for item in result.warnings],
    )
