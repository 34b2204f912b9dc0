"""DATEV-format files on their way to DATEV: the documents that they link to, then the file, then whether DATEV took it.

A file that DATEV took lies ready there: the accountant still imports it. Whether one arrived whose answer was lost is found in the list
of all files, by the id of the transmission. One that is not found there may still come: a batch of bookings is not sent again then.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from kontobahn.clock import Clock, to_datetime
from kontobahn.datev.failures import EXISTS_ALREADY
from kontobahn.datev.ledger_jobs import upload
from kontobahn.datev.postings import pause_seconds
from kontobahn.datev.services import Content, Services, part, understood
from kontobahn.db import Database, Tx
from kontobahn.formats.document_package import PackedFile, safe_name
from kontobahn.ledger.errors import ProviderError, is_rejection
from kontobahn.ledger.personenkonto import Personenkonto
from kontobahn.ledger.provider import ConnectionRef, DocumentSource, Notebook, Progress, Transmission
from kontobahn.ledger.wire import Meldung, Meldungsart
from kontobahn.threads import Pool

# DATEV lists no more at once. A file is looked for among the latest.
LISTED = 100
# A file whose answer was lost is looked for so often.
MAX_LOOKS = 3
_EXISTS = "#DCO01012"
_WRONG_TYPE = ("#DCO01015", "#DCO01215")


class SentFile(Struct):
    """The content of a transmission; the file itself is kept with it. `person` is for the answer to a person account."""

    name: str
    documents: list[str] = []
    person: Personenkonto | None = None
    konto: str = ""
    is_new: bool = False


class Way(Struct):
    """The way of a file so far: DATEV's job, and what is to be said about its documents."""

    job_id: str = ""
    releases: int = 0
    known: list[str] = []


class AffectedElement(Struct):
    name: str = ""
    reason: str = ""


class ValidationDetails(Struct):
    title: str = ""
    detail: str = ""
    affected_elements: list[AffectedElement] = []

    @property
    def words(self) -> str:
        elements = "; ".join(f"{one.name} {one.reason}" for one in self.affected_elements)
        return ": ".join(filter(None, (self.title, self.detail, elements)))[:2000]


class FileJob(Struct):
    id: str
    result: str = "pending"
    reference_id: str = ""
    validation_details: ValidationDetails | None = None


class FileImports:
    def __init__(self, db: Database, clock: Clock, services: Services, documents: DocumentSource, pool: Pool) -> None:
        self._db, self._clock, self._services = db, clock, services
        self._documents, self._pool = documents, pool

    async def transmit(self, connection: ConnectionRef, sent: Transmission, notebook: Notebook) -> Progress:
        file = msgspec.json.decode(sent.content, type=SentFile)
        way = msgspec.json.decode(sent.progress, type=Way) if sent.progress else Way()
        if sent.state == "OPEN":
            way.known = await self._send_documents(connection, sent, file)
            if not await self._send(connection, sent, notebook, file, way):
                return Progress("IN_PROGRESS", [], pause_seconds(0))
        elif not way.job_id and not await self._find(connection, sent, notebook, way):
            return await self._missing(connection, sent, notebook, file, way)
        return await self._look(connection, sent, file, way)

    # --- Documents

    async def _send_documents(self, connection: ConnectionRef, sent: Transmission, file: SentFile) -> list[str]:
        """Sends the documents under their GUIDs. Returns those that DATEV has under another one."""
        if not file.documents:
            return []
        found = await self._pool.run(self._documents, self._db, sent.organization_id, file.documents)
        return [one.guid for one in found if not await self._send_document(connection, sent, one.guid, one.files)]

    async def _send_document(
        self, connection: ConnectionRef, sent: Transmission, guid: str, files: tuple[PackedFile, ...]
    ) -> bool:
        """Sends the first of the files that DATEV takes; it staples neither XML nor what has XML in it. False if DATEV has it already."""
        path = f"clients/{part(sent.client_id)}/documents/{part(guid)}"
        for number, one in enumerate(files, 1):
            content = upload("file", safe_name(one.name), await self._pool.run(one.read))
            try:
                await self._services.ask(connection, "PUT", "documents", path, content=content)
            except ProviderError as error:
                if error.type == EXISTS_ALREADY:
                    return False
                if error.type in _WRONG_TYPE and number < len(files):
                    continue
                if error.type != _EXISTS:
                    error.area = "belege"
                    raise
            return True
        return True

    # --- The file

    async def _send(
        self, connection: ConnectionRef, sent: Transmission, notebook: Notebook, file: SentFile, way: Way
    ) -> bool:
        """Returns False if nobody knows whether DATEV has it."""
        (kept,) = await notebook.files()
        headers = {
            "Content-Type": "application/octet-stream", "Filename": file.name, "Reference-Id": sent.id,
            "Client-Application-Version": "Kontobahn",
        }  # fmt: skip
        content = Content(await notebook.content(kept), headers)
        way.releases += 1
        await notebook.keep(_written(way), is_released=True)
        path = f"clients/{part(sent.client_id)}/extf-files/import"
        try:
            reply = await self._services.ask(connection, "POST", "extf", path, content=content)
        except ProviderError as error:
            if not is_rejection(error):
                return False
            await notebook.keep(_written(way))
            raise
        way.job_id = reply.headers.get("Location", "").rstrip("/").rpartition("/")[2]
        if not way.job_id:
            return False
        await notebook.keep(_written(way), is_released=True)
        return True

    async def _find(self, connection: ConnectionRef, sent: Transmission, notebook: Notebook, way: Way) -> bool:
        """Looks for the file among those that DATEV has. Returns whether it is there."""
        path = f"clients/{part(sent.client_id)}/extf-files/jobs?top={LISTED}"
        reply = await self._services.ask(connection, "GET", "extf", path, tells_state=True)
        found = next((one for one in understood(reply, list[FileJob]) if one.reference_id == sent.id), None)
        if found is not None:
            way.job_id = found.id
            await notebook.keep(_written(way), is_released=True)
        return found is not None

    async def _missing(
        self, connection: ConnectionRef, sent: Transmission, notebook: Notebook, file: SentFile, way: Way
    ) -> Progress:
        if sent.polls < MAX_LOOKS:
            return Progress("IN_PROGRESS", [], pause_seconds(sent.polls))
        # The same record of a person account twice is once; bookings would be there twice.
        if sent.kind == "PERSONENKONTO" and way.releases < MAX_LOOKS:
            await self._send(connection, sent, notebook, file, way)
            return Progress("IN_PROGRESS", [], pause_seconds(sent.polls))
        text = f"Es ist nicht bekannt, ob die Datei {file.name} bei DATEV angekommen ist."
        return Progress("UNKNOWN", [self._told(file.name, text, "FEHLER")])

    async def _look(self, connection: ConnectionRef, sent: Transmission, file: SentFile, way: Way) -> Progress:
        path = f"clients/{part(sent.client_id)}/extf-files/jobs/{part(way.job_id)}"
        try:
            job = await self._services.get(connection, "extf", path, FileJob, tells_state=True)
        except ProviderError as error:
            if error.status != 404:
                raise
            text = "DATEV kennt die Datei nicht mehr; ihr Ergebnis ist nicht zu erfahren."
            return Progress("UNKNOWN", [self._told(file.name, text, "FEHLER")])
        about_documents = [
            self._told(None, f"Der Beleg {guid} ist in DATEV schon vorhanden, unter einer anderen Kennung.", "WARNUNG")
            for guid in way.known
        ]
        if job.result == "succeeded":
            if file.konto:
                await self._db.write(note_person, sent, file.konto)
            text = "Die Datei liegt bei DATEV bereit; die Kanzlei übernimmt sie in die Buchführung."
            return Progress("SUCCESS", [*about_documents, self._told(file.name, text, "INFO")])
        if job.result == "failed":
            text = (job.validation_details.words if job.validation_details else "") or "DATEV hat die Datei abgelehnt."
            return Progress("FAILED", [*about_documents, self._told(file.name, text, "FEHLER")])
        return Progress("IN_PROGRESS", about_documents, pause_seconds(sent.polls))

    def _told(self, name: str | None, text: str, kind: Meldungsart) -> Meldung:
        return Meldung(name, text, to_datetime(self._clock.now()), kind)


# --- Person accounts that were sent: DATEV does not say which it has


def note_person(tx: Tx, sent: Transmission, konto: str) -> None:
    tx.run(
        "INSERT INTO datev_persons (organization_id, connection_id, client_id, konto, sent_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (organization_id, connection_id, client_id, konto) DO UPDATE SET sent_at = excluded.sent_at",
        sent.organization_id, sent.connection_id, sent.client_id, konto, tx.now,
    )  # fmt: skip


def was_sent(tx: Tx, connection: ConnectionRef, client_id: str, konto: str) -> bool:
    found = tx.one(
        "SELECT 1 FROM datev_persons WHERE organization_id = ? AND connection_id = ? AND client_id = ? AND konto = ?",
        connection.organization_id, connection.id, client_id, konto,
    )  # fmt: skip
    return found is not None


def _written(way: Way) -> str:
    return msgspec.json.encode(way).decode()
