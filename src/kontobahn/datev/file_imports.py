"""DATEV-format files on their way to DATEV: the documents that they link to, then the file, then whether DATEV took it.

A file that DATEV took lies ready there: the accountant still imports it. Whether one arrived whose answer was lost is found in the list
of all files, by the id of the transmission. One that is not found there may still come: a batch of bookings is not sent again then.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from datetime import date
from typing import Any

import msgspec
from msgspec import Struct

from kontobahn.clock import Clock, berlin_datetime, to_datetime
from kontobahn.datev.clients import FiscalYear
from kontobahn.datev.ledger_jobs import upload
from kontobahn.datev.postings import pause_seconds
from kontobahn.datev.requests import EXISTS_ALREADY
from kontobahn.datev.services import Content, Services, part, understood
from kontobahn.db import Database, Tx
from kontobahn.errors import BadRequest
from kontobahn.formats import extf
from kontobahn.formats.document_package import PackedFile, safe_name
from kontobahn.formats.extf import Buchungssatz, ExtfError, Header
from kontobahn.ledger import personenkonto
from kontobahn.ledger.buchungen import GebuchteBuchungen, NeueBuchung, cents, further_columns
from kontobahn.ledger.errors import ProviderError, is_rejection
from kontobahn.ledger.kassenbuch import ReceiptImage
from kontobahn.ledger.konto import functional, technical
from kontobahn.ledger.personenkonto import (
    Personenkonto,
    PersonenkontoAntwort,
    PersonenkontoErgebnis,
    answer_of,
    check_fits,
)
from kontobahn.ledger.provider import ConnectionRef, DocumentSource, Notebook, Outgoing, Progress, Transmission
from kontobahn.ledger.steuer import is_reversal
from kontobahn.ledger.transmissions import messages_of
from kontobahn.ledger.wire import Information, LedgerErgebnis, Meldung, Meldungsart
from kontobahn.sentences import said
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
        return Progress("UNKNOWN", [self._meldung(file.name, text, "FEHLER")])

    async def _look(self, connection: ConnectionRef, sent: Transmission, file: SentFile, way: Way) -> Progress:
        path = f"clients/{part(sent.client_id)}/extf-files/jobs/{part(way.job_id)}"
        try:
            job = await self._services.get(connection, "extf", path, FileJob, tells_state=True)
        except ProviderError as error:
            if error.status != 404:
                raise
            text = "DATEV kennt die Datei nicht mehr; ihr Ergebnis ist nicht zu erfahren."
            return Progress("UNKNOWN", [self._meldung(file.name, text, "FEHLER")])
        about_documents = [
            self._meldung(
                None, f"Der Beleg {guid} ist in DATEV schon vorhanden, unter einer anderen Kennung.", "WARNUNG"
            )
            for guid in way.known
        ]
        if job.result == "succeeded":
            if file.konto:
                await self._db.write(note_person, sent, file.konto)
            text = "Die Datei liegt bei DATEV bereit; die Kanzlei übernimmt sie in die Buchführung."
            return Progress("SUCCESS", [*about_documents, self._meldung(file.name, text, "INFO")])
        if job.result == "failed":
            text = (job.validation_details.words if job.validation_details else "") or "DATEV hat die Datei abgelehnt."
            return Progress("FAILED", [*about_documents, self._meldung(file.name, text, "FEHLER")])
        return Progress("IN_PROGRESS", about_documents, pause_seconds(sent.polls))

    def _meldung(self, name: str | None, text: str, kind: Meldungsart) -> Meldung:
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


# Bookings and person accounts as DATEV-format files that are sent: one file for a call, of one fiscal year.


FILE_TYPE = "application/octet-stream"
TITLE = "Kontobahn"


def _made(connection: ConnectionRef, client_id: str, kind: Any, title: str, content: bytes, sent: SentFile) -> Outgoing:
    file = ReceiptImage(sent.name, FILE_TYPE, hashlib.sha256(content).hexdigest(), content)
    return Outgoing(connection, client_id, kind, title, msgspec.json.encode(sent).decode(), (file,))


def _written_file(write: Callable[..., int], header: Header, records: list[Any]) -> bytes:
    target = io.BytesIO()
    try:
        write(target, header, records)
    except ExtfError as error:
        raise BadRequest(said("The file cannot be written. {why}", why=error)) from None
    return target.getvalue()


def _header(
    category: extf.Category, client_id: str, year: FiscalYear, now: int, days: list[date] | None = None
) -> Header:
    berater, _, mandant = client_id.partition("-")
    return extf.make_header(
        category, erzeugt_am=berlin_datetime(now).replace(tzinfo=None), berater=int(berater), mandant=int(mandant),
        wj_beginn=year.yearBegin, sachkontenlaenge=year.accountLength, datum_von=min(days) if days else None,
        datum_bis=max(days) if days else None, bezeichnung=TITLE, skr=f"{year.accountSystem:02}",
    )  # fmt: skip


# --- Bookings


def batch(
    connection: ConnectionRef, client_id: str, years: list[FiscalYear], buchungen: list[NeueBuchung], document: str, now: int
) -> Outgoing:  # fmt: skip
    """Raises BadRequest that names the booking if one is of another year than the first, or of none."""
    first = buchungen[0].belegdatum
    year = next((one for one in years if one.yearBegin <= first <= one.yearEnd), None)
    for number, buchung in enumerate(buchungen):
        if year is None or not year.yearBegin <= buchung.belegdatum <= year.yearEnd:
            path = f"buchungen[{number}].belegdatum"
            raise BadRequest(
                said("The field `{path}`: all bookings must be of one fiscal year that the client has.", path=path),
                field=path,
            )
    assert year is not None
    year = year.in_euros
    header = _header(extf.BUCHUNGSSTAPEL, client_id, year, now, [one.belegdatum for one in buchungen])
    rows = [_row(number, one, year.accountLength, document) for number, one in enumerate(buchungen)]
    content = _written_file(extf.write_buchungsstapel, header, rows)
    return file(connection, client_id, extf.file_name(header), content, [document] if document else [])


def file(
    connection: ConnectionRef, client_id: str, name: str, content: bytes, documents: list[str] | None = None
) -> Outgoing:
    """Returns a batch whose file is made already."""
    sent = SentFile(name=name, documents=documents or [])
    return _made(connection, client_id, "BUCHUNGSSTAPEL", name, content, sent)


def _row(number: int, buchung: NeueBuchung, laenge: int, document: str) -> Buchungssatz:
    kost = buchung.kostenstellen
    return Buchungssatz(
        line=0,
        umsatz=cents(buchung.umsatz) or 0,
        soll=buchung.sollHabenKennzeichen == "SOLL",
        waehrung=buchung.waehrung,
        kurs=(buchung.kurs or "").replace(".", ","),
        basis_umsatz=cents(buchung.basisUmsatz),
        konto=_konto(f"buchungen[{number}].konto", buchung.konto, laenge),
        gegenkonto=_konto(f"buchungen[{number}].gegenkonto", buchung.gegenkonto, laenge),
        bu_schluessel=(buchung.buSchluessel or "").lstrip("0"),
        belegdatum=buchung.belegdatum.isoformat(),
        belegfeld1=buchung.belegfeld1 or "",
        belegfeld2=buchung.belegfeld2 or "",
        skonto=cents(buchung.skonto) or 0,
        buchungstext=buchung.buchungstext or "",
        kost1=(kost.kost1 if kost else None) or "",
        kost2=(kost.kost2 if kost else None) or "",
        generalumkehr=buchung.generalumkehr or is_reversal(buchung.buSchluessel or ""),
        weitere=further_columns(buchung, document),
    )


def _konto(path: str, nummer: str, laenge: int) -> str:
    try:
        return functional(technical(nummer, laenge), laenge)
    except ValueError as error:
        raise BadRequest(said("The field `{path}` {reason}.", path=path, reason=error), field=path) from None


def batch_answer(sent: Transmission) -> GebuchteBuchungen:
    """Returns the answer to bookings that were sent: they have no ids until the adviser has imported them."""
    information = [Information.of(one) for one in messages_of(sent)]
    return GebuchteBuchungen(
        ids=[], importe=[sent.id], ledgerAntwort=LedgerErgebnis(status=sent.state, information=information)
    )


# --- Person accounts


def checked_konto(person: Personenkonto, years: list[FiscalYear]) -> tuple[str, FiscalYear]:
    """Returns the technical number and the fiscal year. Raises BadRequest if the record does not fit the client's books."""
    starts = [one.yearBegin.isoformat() for one in years]
    year = next((one for one in years if one.yearBegin == person.geschaeftsjahrStartDatum), None)
    usual = year or (years[-1] if years else None)
    laenge, chart = (usual.accountLength, usual.as_answer.kontenrahmen) if usual else (4, person.kontenrahmen)
    konto = check_fits(person, laenge, chart, starts)
    assert year is not None
    return konto, year


def person_file(
    connection: ConnectionRef, client_id: str, person: Personenkonto, konto: str, year: FiscalYear, now: int, *, is_new: bool
) -> Outgoing:  # fmt: skip
    header = _header(extf.PERSONENKONTEN, client_id, year, now)
    record = msgspec.to_builtins(person)
    content = _written_file(extf.write_personenkonten, header, [personenkonto.as_row(record)])
    sent = SentFile(name=extf.file_name(header), person=person, konto=konto, is_new=is_new)
    title = f"{person.personenkontoNummer} {personenkonto.name_of(record)}"
    return _made(connection, client_id, "PERSONENKONTO", title, content, sent)


def person_answer(sent: Transmission) -> tuple[PersonenkontoAntwort, bool]:
    """Returns the answer, and whether the account was new as far as anybody here knew."""
    kept = msgspec.json.decode(sent.content, type=SentFile)
    assert kept.person is not None
    ergebnis = PersonenkontoErgebnis(
        status=sent.state, antwortDaten={"uebermittlungId": sent.id}, meldungen=messages_of(sent)
    )
    kept_id = f"{sent.client_id}/{kept.konto}"
    updated_at = None if kept.is_new else sent.created_at
    return answer_of(kept.person, kept.konto, sent.id, kept_id, sent.created_at, updated_at, ergebnis), kept.is_new
