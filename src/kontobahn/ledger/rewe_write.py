"""The calls under /v2/ledger-rewe that bring bookings in and take them back: files, bookings, undoing."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from kontobahn.access import audit
from kontobahn.access.principal import in_scope
from kontobahn.api.call import Call
from kontobahn.api.declare import get, post
from kontobahn.api.paging import page
from kontobahn.api.tasks import TASKS, TaskRow, Tasks, Work
from kontobahn.api.wire import Answer, Upload, Uuid
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.ledger import buchung, connections
from kontobahn.ledger.buchung import GebuchteBuchungen, NeueBuchungen
from kontobahn.ledger.connections import ERRORS, ClientQuery, open_books
from kontobahn.ledger.errors import ProviderError, provider_refused
from kontobahn.ledger.imports import Import, ImportMitProtokoll, SentFile
from kontobahn.ledger.provider import Author

_KIND = "ledger import"
_NAMELESS = "upload"
Another = Annotated[bool, Meta(description="Rows that look booked already are other bookings.")]


class ImportQuery(ClientQuery):
    partial: Annotated[bool, Meta(description="Import the file without its refused rows, instead of not at all.")] = (
        False
    )
    another: Another = False


class BuchungenQuery(ClientQuery):
    another: Another = False


class ImporteQuery(ClientQuery):
    from_id: Annotated[Uuid, Meta(description="Only what came before this one.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class ImportAntwort(Answer):
    data: ImportMitProtokoll


class ImporteAntwort(Answer):
    data: list[Import]


# --- Files


@post("/v2/ledger-rewe/imports", scope="ledger:write", statuses=(201, 202), errors=ERRORS)
async def create_import(call: Call, query: ImportQuery, body: Upload) -> ImportAntwort:
    """Import a DATEV-format file: bookings, person accounts, account labels or payment terms.

    As a whole or not at all, and never twice: the same content is 409, as are rows that look booked already unless `another` is
    said. Refused rows are 400 with a protocol, unless `partial` is said. Without `clientId` the file's header says whose it is. A
    large file is answered with 202, and `GET /v2/ledger-rewe/imports/{id}` tells what becomes of it.
    """
    connection = await call.read_inline(connections.find, call.principal, query.connection_id)
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    sent = SentFile(body.file, body.name or _NAMELESS, query.partial, query.another)
    async with access.to("buchungen") as books:
        work = await books.import_file(sent, _author(call))

        def commit(tx: Tx, import_id: str) -> ImportAntwort:
            try:
                return ImportAntwort(data=work.commit(tx, import_id))
            except ProviderError as error:
                # Only if rights were taken away meanwhile: they were looked at before.
                raise provider_refused(error) from error

        return await call.context.part(Tasks).run(
            call,
            body,
            Work(commit, work.prepare, work.tidy),
            organization_id=connection.organization_id,
            kind=_KIND,
            subject=connection.id,
            begun=_begun,
        )


def _author(call: Call) -> Author:
    return Author(call.request_id, call.quelle, call.actor.name)


def _begun(row: TaskRow) -> ImportAntwort:
    return ImportAntwort(data=_unfinished(row))


def _unfinished(row: TaskRow) -> ImportMitProtokoll:
    """A file that is being worked on, or that failed."""
    answer: dict[str, Any] = msgspec.json.decode(row.answer) if row.answer else {}
    return ImportMitProtokoll(
        id=row.id, status="failed" if row.status == "failed" else "running", art="DATEI", quelle=row.source or _NAMELESS,
        kategorie=None, bezeichnung="", clientId=None, geschaeftsjahrStartDatum=None, uebernommen=0, bekannt=0,
        abgelehnt=answer.get("abgelehnt", 0), warnungen=answer.get("warnungen", 0), erstelltAm=to_datetime(row.created_at),
        erstelltVon=row.actor, stornoVon=None, stornoDurch=None, protokoll=answer.get("protokoll", []), fehler=answer.get("error"),
    )  # fmt: skip


# --- What was brought in


@get("/v2/ledger-rewe/imports", scope="ledger:read", pages_by="from_id", errors=ERRORS)
async def list_imports(call: Call, query: ImporteQuery) -> ImporteAntwort:
    """List what was brought into the books at once, the latest first.

    The last id is the `from_id` of the next page. Cash book entries are not among them. A large file that is still being worked
    on, or failed, has no client yet and is listed with every one of the connection.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with access.to("buchungen") as books:
        found = await books.imports(query.from_id, query.limit + 1)
    tasks = await call.read(_unfinished_of, call.principal.scope, query.connection_id.lower(), query.from_id)
    known = {item.id for item in found}
    # Read after the imports: one that was finished in between is among both.
    found += [_without_protocol(_unfinished(row)) for row in tasks if row.id not in known]
    latest_first = sorted(found, key=lambda item: item.id, reverse=True)
    return ImporteAntwort(data=page(call, latest_first, query.limit, lambda item: item.id))


def _unfinished_of(tx: Tx, scope: tuple[str, ...], connection_id: str, before: str | None) -> list[TaskRow]:
    below = "" if before is None else " AND id < ?"
    return TASKS.all(
        tx, f"{in_scope(len(scope))} AND kind = ? AND subject = ? AND status <> 'done'{below}",
        *scope, _KIND, connection_id, *(() if before is None else (before,)),
    )  # fmt: skip


def _without_protocol(item: ImportMitProtokoll) -> Import:
    return Import(**{name: getattr(item, name) for name in Import.__struct_fields__})


@get("/v2/ledger-rewe/imports/{id}", scope="ledger:read", errors=ERRORS)
async def get_import(call: Call, query: ClientQuery, id: Uuid) -> ImportAntwort:
    """Read an import with its protocol: refused rows and warnings, by line and column."""
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    task = await call.read_inline(_task, call.principal.scope, query.connection_id.lower(), id.lower())
    async with access.to("buchungen") as books:
        found = await books.find_import(id.lower())
    if found is not None:
        return ImportAntwort(data=found)
    if task is None or task.status == "done":
        raise call.principal.missing("Import")
    return ImportAntwort(data=_unfinished(task))


def _task(tx: Tx, scope: tuple[str, ...], connection_id: str, task_id: str) -> TaskRow | None:
    return TASKS.one(
        tx, f"{in_scope(len(scope))} AND id = ? AND kind = ? AND subject = ?", *scope, task_id, _KIND, connection_id
    )


@post("/v2/ledger-rewe/imports/{id}/undo", scope="ledger:write", errors=ERRORS)
async def undo_import(call: Call, query: ClientQuery, id: Uuid) -> ImportAntwort:
    """Undo an import of bookings.

    Every booking is booked again by Generalumkehr, and nothing is deleted. After that the file may be imported again. What was
    undone already is 409, as are cash book entries (which are reversed) and master data.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with access.to("buchungen") as books:
        work = await books.undo_import(id.lower(), _author(call))

        def commit(tx: Tx, undo_id: str) -> ImportAntwort:
            made = work.commit(tx, undo_id)
            if made is None:
                raise call.principal.missing("Import")
            connection = connections.find(tx, call.principal, query.connection_id)
            subject = f"{connection.id}/{made.clientId}"
            audit.record(
                tx, connection.organization_id, call.actor, "books.undo", subject, batch=id.lower(), by=made.id
            )
            return ImportAntwort(data=made)

        return await call.context.part(Tasks).run_at_once(call, Work(commit, work.prepare, work.tidy))


# --- Bookings


@post(
    "/v2/ledger-rewe/buchungen",
    scope="ledger:write",
    cost=1,
    errors=ERRORS,
    body_example={
        "buchungen": [
            {
                "umsatz": 119,
                "sollHabenKennzeichen": "SOLL",
                "konto": "10010",
                "gegenkonto": "8400",
                "belegdatum": "2026-01-15",
                "belegfeld1": "RE-2026-0042",
                "buchungstext": "Rechnung RE-2026-0042",
            }
        ]
    },
)
async def create_buchungen(call: Call, query: BuchungenQuery, body: NeueBuchungen) -> GebuchteBuchungen:
    """Book: one booking or many, all of them or none.

    The rules and warnings are those of a file. Bookings that look booked already are 409, unless `another` is said.
    """
    await call.off_loop(buchung.check, body)
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with access.to("buchungen") as books, call.charge():
        effect = await books.book(body.buchungen, _author(call), another=query.another)
        return await call.commit(effect)
