"""The calls under /v2/ledger-rewe, which write and export: partners, bookings, imports and their undoing, exports."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any

from msgspec import Meta

from kontobahn.access import audit
from kontobahn.api import tasks
from kontobahn.api.answers import Data
from kontobahn.api.call import Call, page
from kontobahn.api.declare import BODY_WITH_ROWS, get, post
from kontobahn.api.tasks import ZIP, Exports, TaskRow, Tasks, Work
from kontobahn.api.wire import FileDownload, Upload, Uuid
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.json_text import decode_kept
from kontobahn.ledger import buchungen, connections, personenkonto, transmissions
from kontobahn.ledger.buchungen import GebuchteBuchungen, NeueBuchungen
from kontobahn.ledger.connections import ERRORS, Another, ClientQuery, JahrQuery, open_books
from kontobahn.ledger.errors import ProviderError, provider_refused
from kontobahn.ledger.personenkonto import Personenkonto, PersonenkontoAntwort
from kontobahn.ledger.provider import Author, Effect, TransmittingBooks
from kontobahn.ledger.wire import Import, ImportMitProtokoll, SentFile


def _author(call: Call) -> Author:
    return Author(call.request_id, call.quelle, call.actor.name)


# --- Person accounts


@post(
    "/v2/ledger-rewe/personenkonto",
    scope="ledger:write",
    cost=1,
    statuses=(201, 200),
    one_of=("firmenname", "kontaktpersonen"),
    errors=ERRORS,
    body_example={
        "personenkontoNummer": "10010",
        "kontaktTyp": "COMPANY",
        "kontenrahmen": "SKR03",
        "kontonummernLaenge": 4,
        "geschaeftsjahrStartDatum": "2026-01-01",
        "firmenname": "Muster GmbH",
        "ustId": "DE136695976",
    },
)
async def save_personenkonto(call: Call, query: ClientQuery, body: Personenkonto) -> PersonenkontoAntwort:
    """Create or replace a business partner.

    The number within connection and client says which: not there, it is created (201); there, the whole record is replaced (200)
    and the old one kept.
    """
    # In a thread: the first check of an IBAN loads the register of banks.
    await asyncio.to_thread(personenkonto.check, body)
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    author = Author(call.request_id, call.quelle)
    async with access.to("personenkonten") as books:
        if isinstance(books, TransmittingBooks):
            sent = await transmissions.send(call, await books.outgoing_person(body), author)
            answer, created = books.person_answer(sent)
            call.status = 201 if created else 200
            answer.platform = await transmissions.balance(call)
            return answer
        async with call.charge():
            return await call.commit(_with_status, call, await books.save_personenkonto(body, author))


def _with_status(tx: Tx, call: Call, effect: Effect[tuple[PersonenkontoAntwort, bool]]) -> PersonenkontoAntwort:
    answer, created = effect(tx)
    # Choice 2: 201 created, 200 updated.
    call.status = 201 if created else 200
    return answer


# --- Bookings


class BuchungenQuery(ClientQuery):
    another: Another = False


@post(
    "/v2/ledger-rewe/buchungen",
    scope="ledger:write",
    cost=1,
    errors=ERRORS,
    max_body_bytes=BODY_WITH_ROWS,
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
    await call.off_loop(buchungen.check, body)
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with access.to("buchungen") as books:
        if isinstance(books, TransmittingBooks):
            sent = await transmissions.send(call, await books.outgoing_bookings(body.buchungen), _author(call))
            answer = books.bookings_answer(sent)
            answer.platform = await transmissions.balance(call)
            return answer
        async with call.charge():
            return await call.commit(await books.book(body.buchungen, _author(call), another=query.another))


# --- Imports


_KIND = "ledger import"
_NAMELESS = "upload"


class ImportQuery(ClientQuery):
    partial: Annotated[bool, Meta(description="Import the file without its refused rows, instead of not at all.")] = (
        False
    )
    another: Another = False


class ImporteQuery(ClientQuery):
    from_id: Annotated[Uuid, Meta(description="Only what came before this one.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


@post("/v2/ledger-rewe/imports", scope="ledger:write", statuses=(201, 202), errors=ERRORS)
async def create_import(call: Call, query: ImportQuery, body: Upload) -> Data[ImportMitProtokoll]:
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

        def commit(tx: Tx, import_id: str) -> Data[ImportMitProtokoll]:
            try:
                return Data(work.commit(tx, import_id))
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


def _begun(row: TaskRow) -> Data[ImportMitProtokoll]:
    return Data(_unfinished(row))


def _unfinished(row: TaskRow) -> ImportMitProtokoll:
    """A file that is being worked on, or that failed."""
    answer: dict[str, Any] = decode_kept(row.answer, dict) if row.answer else {}
    return ImportMitProtokoll(
        id=row.id, status="failed" if row.status == "failed" else "running", art="DATEI", quelle=row.source or _NAMELESS,
        kategorie=None, bezeichnung="", clientId=None, geschaeftsjahrStartDatum=None, uebernommen=0, bekannt=0,
        abgelehnt=answer.get("abgelehnt", 0), warnungen=answer.get("warnungen", 0), erstelltAm=to_datetime(row.created_at),
        erstelltVon=row.actor, stornoVon=None, stornoDurch=None, protokoll=answer.get("protokoll", []), fehler=answer.get("error"),
    )  # fmt: skip


@get("/v2/ledger-rewe/imports", scope="ledger:read", pages_by="from_id", errors=ERRORS)
async def list_imports(call: Call, query: ImporteQuery) -> Data[list[Import]]:
    """List what was brought into the books at once, the latest first.

    The last id is the `from_id` of the next page. Cash book entries are not among them. A large file that is still being worked
    on, or failed, has no client yet and is listed with every one of the connection.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with access.to("buchungen") as books:
        found = await books.imports(query.from_id, query.limit + 1)
    running = await call.read(
        tasks.unfinished_about, call.principal.scope, _KIND, query.connection_id.lower(), query.from_id
    )
    known = {item.id for item in found}
    # Read after the imports: one that was finished in between is among both.
    found += [_without_protocol(_unfinished(row)) for row in running if row.id not in known]
    latest_first = sorted(found, key=lambda item: item.id, reverse=True)
    return Data(page(call, latest_first, query.limit, lambda item: item.id))


def failed_imports(tx: Tx, organization_id: str, limit: int) -> list[TaskRow]:
    """Returns files that were refused after they had been taken, the latest first; a task is about its connection."""
    unfinished = tasks.unfinished(tx, (organization_id,), _KIND, before=(2**62, ""), limit=limit)
    return [task for task in unfinished if task.status == "failed"]


def _without_protocol(item: ImportMitProtokoll) -> Import:
    return Import(**{name: getattr(item, name) for name in Import.__struct_fields__})


@get("/v2/ledger-rewe/imports/{id}", scope="ledger:read", errors=ERRORS)
async def get_import(call: Call, query: ClientQuery, id: Uuid) -> Data[ImportMitProtokoll]:
    """Read an import with its protocol: refused rows and warnings, by line and column."""
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    task = await call.read_inline(tasks.find, call.principal.scope, _KIND, id.lower(), query.connection_id.lower())
    async with access.to("buchungen") as books:
        found = await books.find_import(id.lower())
    if found is not None:
        return Data(found)
    if task is None or task.status == "done":
        raise call.principal.missing("Import")
    return Data(_unfinished(task))


@post("/v2/ledger-rewe/imports/{id}/undo", scope="ledger:write", errors=ERRORS)
async def undo_import(call: Call, query: ClientQuery, id: Uuid) -> Data[ImportMitProtokoll]:
    """Undo an import of bookings.

    Every booking is booked again by Generalumkehr, and nothing is deleted. After that the file may be imported again. What was
    undone already is 409, as are cash book entries (which are reversed) and master data.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with access.to("buchungen") as books:
        work = await books.undo_import(id.lower(), _author(call))

        def commit(tx: Tx, undo_id: str) -> Data[ImportMitProtokoll]:
            made = work.commit(tx, undo_id)
            if made is None:
                raise call.principal.missing("Import")
            connection = connections.find(tx, call.principal, query.connection_id)
            subject = f"{connection.id}/{made.clientId}"
            audit.record(
                tx, connection.organization_id, call.actor, "books.undo", subject, batch=id.lower(), by=made.id
            )
            return Data(made)

        return await call.context.part(Tasks).run_at_once(call, Work(commit, work.prepare, work.tidy))


# --- Exports


MAX_RECEIPT_BYTES = 400_000_000


class ExportQuery(JahrQuery):
    belege: Annotated[bool, Meta(description="With the receipts of cash entries.")] = True


@get("/v2/ledger-rewe/exports", scope="ledger:read", errors=(*ERRORS, 429), media_types=(ZIP,))
async def export_year(call: Call, query: ExportQuery) -> FileDownload:
    """Take a fiscal year out as a zip of files that can be imported again.

    DATEV-format files: bookings, person accounts, account labels, payment terms. The receipts of cash entries are beside them as
    document packages, to which the bookings refer, and a protocol names what the files have no room for. `belege=false` leaves the
    receipts out; more than 400 MB of them are refused.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with access.to("buchungen") as books:
        name = f"Kontobahn_{books.client_id}_{query.geschaeftsjahr_start_datum:%Y%m%d}.zip"
        most = MAX_RECEIPT_BYTES if query.belege else 0
        write = partial(books.export, query.geschaeftsjahr_start_datum, receipts_up_to=most)
        return await call.context.part(Exports).download(call, name, write)
