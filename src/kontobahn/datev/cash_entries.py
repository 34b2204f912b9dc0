"""Cash entries on their way into DATEV's cash book: a ledger-import job that is filled, released, and asked after until it is done.

Before the release a job does nothing, so one that a dead process left is thrown away and another begun. After the release the same
job is asked after, and released again if DATEV never heard it: it is carried out once.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import msgspec
from msgspec import Struct

from kontobahn import money
from kontobahn.clock import Clock, berlin_datetime, to_datetime
from kontobahn.datev.ledger_jobs import CASH, BegunJob, LedgerJobs, ProtocolEntry
from kontobahn.datev.postings import pause_seconds
from kontobahn.errors import BadRequest
from kontobahn.formats import document_package
from kontobahn.formats.document_package import LedgerLine
from kontobahn.ledger.errors import ProviderError, is_rejection
from kontobahn.ledger.kassenbuch import (
    Belegbild,
    CashEntry,
    CashLine,
    Kassenbucheintrag,
    KassenbuchErgebnis,
    day_of_entry,
    line_answer,
    unknown_cash_book,
)
from kontobahn.ledger.konto import functional, technical
from kontobahn.ledger.provider import (
    ConnectionRef,
    Notebook,
    Outgoing,
    Progress,
    StoredFile,
    Transmission,
    TransmissionState,
)
from kontobahn.ledger.wire import Meldung, Meldungsart
from kontobahn.sentences import said

OPEN, RUNNING = 0, 1
_FINAL: dict[int, TransmissionState] = {2: "SUCCESS", 3: "FAILED", 4: "PARTIAL_SUCCESS", 5: "FAILED"}
_KINDS: dict[str, Meldungsart] = {"information": "INFO", "warning": "WARNUNG", "error": "FEHLER"}
# One that is still open after so many releases will never be carried out.
MAX_RELEASES = 3


class Way(Struct):
    """The way of an entry so far: its job, how often that was released, and the receipts that DATEV had before."""

    job_id: str = ""
    releases: int = 0
    known: list[str] = []


def outgoing(connection: ConnectionRef, client_id: str, entry: CashEntry, now: int) -> Outgoing:
    day_of_entry(entry, now)
    amount = money.amount_text(entry.betrag).replace(".", ",")
    title = f"{entry.kassenname}: {entry.lines[0].belegtext} {amount} €"
    content = msgspec.json.encode(entry._replace(images=())).decode()
    return Outgoing(connection, client_id, "KASSENBUCH", title, content, entry.images)


def answer(sent: Transmission, images: list[Belegbild], messages: list[Meldung]) -> Kassenbucheintrag:
    entry = msgspec.json.decode(sent.content, type=CashEntry)
    at = to_datetime(sent.created_at)
    return Kassenbucheintrag(
        erstellungsdatum=at,
        waehrung=entry.waehrung,
        kassenname=entry.kassenname,
        betrag=money.to_wire(entry.betrag),
        transaktionsdatum=entry.transaktionsdatum,
        belegzeilen=[line_answer(line, entry, at) for line in entry.lines],
        belegbilder=images,
        ledgerAntwort=KassenbuchErgebnis(status=sent.state, meldungen=messages, uebermittlungId=sent.id),
    )


class CashEntries:
    def __init__(self, clock: Clock, jobs: LedgerJobs) -> None:
        self._clock, self._jobs = clock, jobs

    async def transmit(self, connection: ConnectionRef, sent: Transmission, notebook: Notebook) -> Progress:
        way = msgspec.json.decode(sent.progress, type=Way) if sent.progress else Way()
        if sent.state == "OPEN":
            way = await self._fill(connection, sent, notebook, way)
            if not await self._release(connection, sent, notebook, way):
                return Progress("IN_PROGRESS", [], pause_seconds(0))
        return await self._look(connection, sent, notebook, way)

    async def _fill(self, connection: ConnectionRef, sent: Transmission, notebook: Notebook, way: Way) -> Way:
        """Begins a job and sends it everything. Nothing has taken effect yet."""
        client_id = sent.client_id
        if way.job_id:
            await self._jobs.discard(connection, client_id, way.job_id)
        entry = msgspec.json.decode(sent.content, type=CashEntry)
        day = day_of_entry(entry, self._clock.now())
        month = day.isoformat()[:7]
        begun = await self._jobs.begin(connection, client_id, CASH, month)
        way = Way(job_id=begun.id)
        try:
            if entry.kassenname not in begun.names:
                raise unknown_cash_book(entry.kassenname, begun.names)
            lines = [_line(number, line, begun) for number, line in enumerate(entry.lines)]
            await notebook.keep(_written(way))
            way.known, receipts = await self._send_receipts(connection, sent, notebook, begun.id)
            made_at = berlin_datetime(sent.created_at).replace(tzinfo=None)
            document = document_package.write_document(sent.id, entry.kassenname, month, receipts, made_at)
            for name, content in (
                (document_package.LEDGER, document_package.write_lines(lines, day)),
                (document_package.DOCUMENT, document),
            ):
                await self._jobs.add(connection, client_id, begun.id, name, content)
        except (ProviderError, BadRequest):
            await self._jobs.discard(connection, client_id, begun.id)
            raise
        return way

    async def _send_receipts(
        self, connection: ConnectionRef, sent: Transmission, notebook: Notebook, job_id: str
    ) -> tuple[list[str], list[str]]:
        """Returns the names of those that DATEV had already, and of those that go with the entry."""
        known: list[str] = []
        taken: list[str] = []
        for file, name in _with_names(await notebook.files()):
            content = await notebook.content(file)
            is_new = await self._jobs.add(connection, sent.client_id, job_id, name, content)
            (taken if is_new else known).append(name)
        return known, taken

    async def _release(self, connection: ConnectionRef, sent: Transmission, notebook: Notebook, way: Way) -> bool:
        """Has the job carried out. Returns False if nobody knows whether DATEV heard it."""
        way.releases += 1
        await notebook.keep(_written(way), is_released=True)
        try:
            await self._jobs.release(connection, sent.client_id, way.job_id)
        except ProviderError as error:
            if not is_rejection(error):
                return False
            # It said no, so the job stays as it is: nothing has taken effect.
            await notebook.keep(_written(way))
            await self._jobs.discard(connection, sent.client_id, way.job_id)
            raise
        return True

    async def _look(self, connection: ConnectionRef, sent: Transmission, notebook: Notebook, way: Way) -> Progress:
        try:
            status = await self._jobs.status(connection, sent.client_id, way.job_id)
        except ProviderError as error:
            if error.status != 404:
                raise
            return Progress(
                "UNKNOWN", [self._meldung("DATEV kennt den Auftrag nicht mehr; sein Ergebnis ist nicht zu erfahren.")]
            )
        pause = pause_seconds(sent.polls)
        if status == OPEN:
            if way.releases >= MAX_RELEASES and await self._jobs.discard(connection, sent.client_id, way.job_id):
                return Progress("FAILED", [self._meldung("DATEV hat den Auftrag nicht begonnen.")])
            await self._release(connection, sent, notebook, way)
            return Progress("IN_PROGRESS", [], pause)
        if status not in _FINAL:
            return Progress("IN_PROGRESS", [], pause)
        told = await self._jobs.protocol(connection, sent.client_id, way.job_id)
        return Progress(_FINAL[status], [*self._known(way), *(self._message(one) for one in told)])

    def _known(self, way: Way) -> list[Meldung]:
        text = "Das Belegbild ist in DATEV schon vorhanden und wurde nicht noch einmal übertragen."
        now = to_datetime(self._clock.now())
        return [Meldung(dateiname=name, nachricht=text, zeitstempel=now, typ="WARNUNG") for name in way.known]

    def _message(self, entry: ProtocolEntry) -> Meldung:
        text = ": ".join(filter(None, (entry.context, entry.text))) or "–"
        return Meldung(entry.filename, text[:2000], self._time(entry.time), _KINDS.get(entry.type, "INFO"))

    def _time(self, text: str) -> datetime:
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            return to_datetime(self._clock.now())
        return found if found.tzinfo else to_datetime(self._clock.now())

    def _meldung(self, text: str) -> Meldung:
        return Meldung(None, text, to_datetime(self._clock.now()), "FEHLER")


def _written(way: Way) -> str:
    return msgspec.json.encode(way).decode()


def _with_names(files: list[StoredFile]) -> list[tuple[StoredFile, str]]:
    """Returns the files, each with a name that no other has."""
    taken = {document_package.LEDGER, document_package.DOCUMENT}
    named = []
    for file in files:
        name = file.dateiname if file.dateiname.lower() not in taken else f"{file.position + 1:02d}_{file.dateiname}"
        taken.add(name.lower())
        named.append((file, name))
    return named


def _line(number: int, line: CashLine, begun: BegunJob) -> LedgerLine:
    path = f"belegzeilen[{number}].gegenkonto"
    try:
        konto = functional(technical(line.gegenkonto, begun.account_length), begun.account_length)
    except ValueError as error:
        raise BadRequest(said("The field `{path}` {reason}.", path=path, reason=error), field=path) from None
    first, second = line.kostenstellen
    return LedgerLine(
        line.betrag, konto, line.belegtext, line.bu_schluessel or "", _percent(line.prozent), first or "", second or "",
        line.beleg_nummer or "",
    )  # fmt: skip


def _percent(value: Decimal | None) -> str:
    return "" if value is None else f"{value:.2f}"
