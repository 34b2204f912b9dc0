"""The built-in books as a ledger provider, with the same checks of services and rights that an external one makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import date
from typing import Any, BinaryIO, Concatenate, ParamSpec, TypeVar

from kontobahn import jobs
from kontobahn.api.tasks import Work
from kontobahn.books import (
    batches,
    bookings,
    cash_book,
    cash_report,
    claims,
    export,
    imports,
    open_items,
    partners,
    reports,
    store,
)
from kontobahn.books.imports import FileImport, Job
from kontobahn.books.store import Client
from kontobahn.books.undo import Undo
from kontobahn.db import Database, Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.formats import extf
from kontobahn.formats.extf import ExtfError, ExtfFile, open_extf
from kontobahn.ledger import buchungen, kassenbuch, wire
from kontobahn.ledger.buchungen import Buchung, DocumentBookings, GebuchteBuchungen, NeueBuchung
from kontobahn.ledger.errors import Area, ProviderError
from kontobahn.ledger.faelligkeiten import Faelligkeiten
from kontobahn.ledger.opos import Belegbewegung, JoinedOpos, Opos, OposSelection
from kontobahn.ledger.personenkonto import Geschaeftspartner, Partner, PartnerOrder, Personenkonto, PersonenkontoAntwort
from kontobahn.ledger.provider import (
    Author,
    ClientBooks,
    ConnectionRef,
    DocumentSource,
    Effect,
    LedgerClient,
    OpenAmounts,
)
from kontobahn.ledger.wire import (
    AccountSheet,
    Bwa,
    Import,
    ImportMitProtokoll,
    SentFile,
    SheetSelection,
    TaxedBooking,
    TaxSelection,
    Umsatzsteuer,
)
from kontobahn.sentences import said
from kontobahn.threads import Pool

# The right that a file of master data needs; any other file holds bookings.
_AREAS: dict[int, Area] = {
    extf.PERSONENKONTEN.number: "personenkonten",
    extf.KONTENBESCHRIFTUNGEN.number: "konten",
    extf.ZAHLUNGSBEDINGUNGEN.number: "zahlungsbedingungen",
}

# Large files are read and written here; those that find no thread wait for one.
_IMPORTERS = Pool("imports", threads=4, waiting=400)

P = ParamSpec("P")
T = TypeVar("T")


class BooksProvider:
    name = "books"

    def __init__(self, db: Database, documents: DocumentSource) -> None:
        self._db = db
        self._documents = documents

    async def clients(self, connections: Sequence[ConnectionRef]) -> list[LedgerClient]:
        return await self._db.read(store.listed_clients, connections)

    async def open(self, connection: ConnectionRef, client_id: str | None) -> ClientBooks:
        client = await self._db.read_inline(store.find_client, connection, client_id)
        return OpenBooks(self._db, connection, client, client_id, self._documents)


class OpenBooks:
    def __init__(
        self, db: Database, connection: ConnectionRef, client: Client, asked_for: str | None, documents: DocumentSource
    ) -> None:
        self._db = db
        self._documents = documents
        self._connection = connection
        self._client = client
        # None for the connection's default client: a file may then name another one.
        self._asked_for = asked_for
        self.client_id = client.client_id
        self.as_of: int | None = None

    async def geschaeftsjahre(self) -> list[wire.Geschaeftsjahr]:
        known = await self._read("stammdaten", store.years)
        return [
            wire.Geschaeftsjahr(
                date.fromisoformat(jahr.start),
                date.fromisoformat(jahr.end),
                self._client.kontenrahmen,
                self._client.konto_laenge,
            )
            for jahr in known
        ]

    async def konten(self, jahr: date, from_id: str | None, limit: int | None) -> list[wire.Kontozeile]:
        return await self._read("konten", store.konten, jahr, from_id, limit)

    async def buchungen(
        self, jahr: date, from_id: str | None, limit: int | None, periode: int | None = None
    ) -> list[buchungen.Buchung]:
        return await self._read("buchungen", bookings.buchungen, jahr, from_id, limit, periode)

    async def susa(self, jahr: date, kontonummer: str | None) -> list[wire.SusaZeile]:
        return await self._read("susa", reports.susa, jahr, kontonummer)

    async def umsatzsteuer(self, jahr: date, von: date | None, bis: date | None) -> Umsatzsteuer:
        return await self._read("buchungen", reports.umsatzsteuer, jahr, von, bis)

    async def steuerbuchungen(self, selection: TaxSelection) -> list[TaxedBooking]:
        return await self._read("buchungen", reports.steuerbuchungen, selection)

    async def bwa(self, jahr: date, bis_periode: int) -> Bwa:
        return await self._read("susa", reports.bwa, jahr, bis_periode)

    async def zahlungsbedingungen(self, jahr: date) -> list[wire.Zahlungsbedingung]:
        return await self._read("zahlungsbedingungen", store.zahlungsbedingungen, jahr)

    async def offene_posten(self, selection: OposSelection) -> Opos | JoinedOpos:
        read = open_items.joined_offene_posten if self._db.joins_texts else open_items.offene_posten
        return await self._read("buchungen", read, selection)

    async def faelligkeiten(self, selection: OposSelection) -> Faelligkeiten:
        return await self._read("buchungen", open_items.faelligkeiten, selection)

    async def belegbewegungen(self, seit: date, limit: int) -> list[Belegbewegung]:
        return await self._read("buchungen", open_items.belegbewegungen, seit, limit)

    async def offene_betraege(self, konten: Collection[str]) -> Effect[OpenAmounts]:
        def effect(tx: Tx) -> OpenAmounts:
            store.require(tx, self._client, "buchungen")
            return open_items.open_amounts(tx, self._client, konten)

        return effect

    async def kassenbuecher(self) -> list[kassenbuch.Kassenbuch]:
        return await self._read("kassenbuch", cash_book.kassenbuecher)

    async def rechnungsordner(self, ordnertyp: kassenbuch.Ordnertyp | None) -> list[kassenbuch.Rechnungsordner]:
        return await self._read("kassenbuch", store.rechnungsordner, ordnertyp)

    async def belegtypen(self) -> list[kassenbuch.Belegtyp]:
        return await self._read("belege", store.belegtypen)

    async def create_kassenbucheintrag(
        self, entry: kassenbuch.CashEntry, author: Author
    ) -> Effect[kassenbuch.Kassenbucheintrag]:
        areas: tuple[Area, ...] = ("kassenbuch", "belege") if entry.images else ("kassenbuch",)

        def effect(tx: Tx) -> kassenbuch.Kassenbucheintrag:
            store.require(tx, self._client, *areas)
            return cash_book.create_entry(tx, self._client, entry, author)

        return effect

    async def kassenbuchzeilen(self, selection: kassenbuch.KassenbuchSelection) -> kassenbuch.CashReport:
        return await self._read("kassenbuch", cash_report.report, selection)

    async def reverse_kassenbucheintrag(
        self, nummer: int, storno: kassenbuch.Storno, author: Author
    ) -> Effect[kassenbuch.Kassenbuchzeile]:
        def effect(tx: Tx) -> kassenbuch.Kassenbuchzeile:
            store.require(tx, self._client, "kassenbuch")
            made = cash_book.reverse_entry(tx, self._client, storno.kassenname, nummer, storno.grund, author)
            return cash_report.zeile(tx, self._client, storno.kassenname, made)

        return effect

    async def belegbild(self, image_id: str) -> kassenbuch.ReceiptImage | None:
        return await self._read("belege", cash_book.find_image, image_id)

    async def geschaeftspartner(self) -> list[Geschaeftspartner]:
        return await self._read("personenkonten", partners.geschaeftspartner)

    async def partners(
        self, search: str, after: str, limit: int, order: PartnerOrder = "konto", *, descending: bool = False
    ) -> list[Partner]:
        return await self._read("personenkonten", partners.search, search, after, limit, order, descending=descending)

    async def partner(self, konto: str) -> Partner | None:
        return await self._read("personenkonten", partners.find, konto)

    async def account_sheet(self, selection: SheetSelection) -> AccountSheet:
        return await self._read("buchungen", bookings.sheet_page, selection)

    async def bookings_of_document(self, konto: str, beleg: str, after: str, limit: int) -> DocumentBookings:
        return await self._read("buchungen", bookings.of_document, konto, beleg, after, limit)

    async def save_personenkonto(
        self, konto: Personenkonto, author: Author
    ) -> Effect[tuple[PersonenkontoAntwort, bool]]:
        def effect(tx: Tx) -> tuple[PersonenkontoAntwort, bool]:
            store.require(tx, self._client, "personenkonten")
            return partners.save(tx, self._client, konto, author)

        return effect

    async def book(
        self, buchungen: list[NeueBuchung], author: Author, *, another: bool, document: str = ""
    ) -> Effect[GebuchteBuchungen]:
        def effect(tx: Tx) -> GebuchteBuchungen:
            store.require(tx, self._client, "buchungen")
            return bookings.book(tx, self._client, buchungen, author, another=another, document=document)

        return effect

    async def import_file(self, file: SentFile, author: Author) -> Work[ImportMitProtokoll]:
        try:
            # Looks at every byte, for the encoding.
            opened = await asyncio.to_thread(open_extf, file.stream)
        except ExtfError as error:
            raise BadRequest(said("The file cannot be read. {why}", why=error)) from None
        area = _AREAS.get(opened.header.category, "buchungen")
        await self._db.read(_require_of_file, self._connection, self._asked_for, opened, area)

        def find(tx: Tx) -> Client:
            return _require_of_file(tx, self._connection, self._asked_for, opened, area)

        job = Job(file.name, author.actor, file.partial, file.another)
        work = FileImport(self._db, find, opened, job)

        async def prepare(import_id: str) -> None:
            await _IMPORTERS.run(work.prepare, import_id)

        def commit(tx: Tx, import_id: str) -> ImportMitProtokoll:
            report = work.commit(tx, import_id)
            found = batches.find_import(tx, store.clients(tx, self._connection), report.batch)
            assert found is not None
            return found

        async def tidy(import_id: str) -> None:
            await _IMPORTERS.run(work.tidy, import_id)

        return Work(commit, prepare, tidy)

    async def export(self, jahr: date, target: BinaryIO, *, receipts_up_to: int) -> None:
        year, now = await self._read("buchungen", _exported_year, jahr, receipts_up_to)
        documents = self._documents if receipts_up_to > 0 else None
        await asyncio.to_thread(
            export.export_zip,
            self._db,
            self._client,
            year,
            target,
            now,
            with_receipts=receipts_up_to > 0,
            documents=documents,
        )

    async def imports(self, before: str | None, limit: int) -> list[Import]:
        return await self._read("buchungen", batches.list_imports, before, limit)

    async def find_import(self, import_id: str) -> ImportMitProtokoll | None:
        return await self._db.read(self._find_import, import_id)

    def _find_import(self, tx: Tx, import_id: str) -> ImportMitProtokoll | None:
        store.require(tx, self._client, "buchungen")
        return batches.find_import(tx, self._clients(tx), import_id)

    async def bookings_of_import(self, import_id: str, after: str, limit: int) -> list[Buchung]:
        return await self._read("buchungen", bookings.of_batch, import_id, after, limit)

    async def undo_import(self, import_id: str, author: Author) -> Work[ImportMitProtokoll | None]:
        def find(tx: Tx) -> Client | None:
            found = next((client for client in self._clients(tx) if batches.find(tx, client, import_id)), None)
            store.require(tx, found or self._client, "buchungen")
            return found

        work = Undo(self._db, find, import_id, author.actor)

        def commit(tx: Tx, undo_id: str) -> ImportMitProtokoll | None:
            made = work.commit(tx, undo_id)
            return None if made is None else batches.find_import(tx, self._clients(tx), made.id)

        async def prepare(undo_id: str) -> None:
            await _IMPORTERS.run(work.prepare, undo_id)

        async def tidy(undo_id: str) -> None:
            await _IMPORTERS.run(work.tidy, undo_id)

        is_large = await self._db.read(work.is_large)
        return Work(commit, prepare, tidy) if is_large else Work(commit)

    def _clients(self, tx: Tx) -> list[Client]:
        """Returns the clients among whose imports an id is looked for: the one asked for, or all of the connection."""
        return [self._client] if self._asked_for else store.clients(tx, self._connection)

    async def active_subscriptions(self) -> list[str]:
        return await self._db.read(store.subscriptions, self._client)

    def needed_subscription(self, area: Area) -> str:
        return store.needed_subscription(area)

    async def probe(self, area: Area, jahr: date | None) -> None:
        await self._db.read(_probe, self._client, area)

    async def _read(
        self, area: Area, fn: Callable[Concatenate[Tx, Client, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._db.read(_guarded, self._client, area, fn, args, kwargs)


def _guarded(tx: Tx, client: Client, area: Area, fn: Any, args: Any, kwargs: Any) -> Any:
    store.require(tx, client, area)
    return fn(tx, client, *args, **kwargs)


def _require_of_file(tx: Tx, connection: ConnectionRef, asked_for: str | None, opened: ExtfFile, area: Area) -> Client:
    """Returns the client that the file is for."""
    client = imports.client_of(tx, connection, asked_for, opened)
    store.require(tx, client, area)
    return client


def _exported_year(tx: Tx, client: Client, jahr: date, receipts_up_to: int) -> tuple[store.FiscalYear, int]:
    """Returns the year and the time. Raises ProviderError if something that is exported may not be read."""
    year = store.year_of_start(tx, client, jahr)
    store.require(tx, client, "konten", "zahlungsbedingungen", "personenkonten")
    size = cash_book.size_between(tx, client, year.start, year.end) if receipts_up_to else 0
    if size:
        store.require(tx, client, "kassenbuch", "belege")
    if size > receipts_up_to:
        raise Conflict(
            said(
                "The receipts of the year have {size} bytes, and {most} are the most that a call answers"
                " with. Leave them out with belege=false, or export on the command line.",
                size=size,
                most=receipts_up_to,
            ),
            field="belege",
        )
    return year, tx.now


def _probe(tx: Tx, client: Client, area: Area) -> None:
    store.require(tx, client, area)
    if area == "stammdaten" and not store.years(tx, client):
        raise ProviderError(404, "the client has no fiscal year yet", type="year")


def books_jobs(db: Database) -> list[jobs.Job]:
    async def sweep() -> None:
        await _IMPORTERS.run(claims.sweep, db)

    return [jobs.Job("sweep imports that were given up", 30, sweep)]
