"""The books of one client at DATEV, open: the port's questions, asked online or answered from the postings that are kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date
from typing import BinaryIO, cast

import msgspec
from msgspec import Struct

from kontobahn import money
from kontobahn.api.tasks import Work
from kontobahn.clock import Clock, berlin_date
from kontobahn.datev import answers, cash_entries, file_imports
from kontobahn.datev.answers import Kept, kept_years
from kontobahn.datev.clients import EXPORT, Clients, FiscalYear, KeptClient
from kontobahn.datev.file_imports import was_sent
from kontobahn.datev.ledger_jobs import CASH, Kind, LedgerJobs
from kontobahn.datev.master_data import (
    AccountTurnover,
    SumsAndBalances,
    TermOfPayment,
    payment_terms,
    susa_line,
    turnover,
)
from kontobahn.datev.open_items import OpenItems, range_of, years_up_to
from kontobahn.datev.postings import JobKey, Postings, accounts, year_id
from kontobahn.datev.requests import HELP
from kontobahn.datev.services import Services, part
from kontobahn.db import Database, Tx
from kontobahn.errors import BadRequest, NotFound
from kontobahn.ledger import buchungen, kassenbuch, transmissions, wire
from kontobahn.ledger.buchungen import Buchung, DocumentBookings, GebuchteBuchungen, NeueBuchung
from kontobahn.ledger.errors import Area, ProviderError
from kontobahn.ledger.faelligkeiten import Faelligkeiten, by_due_date
from kontobahn.ledger.konto import KONTENRAHMEN, Kontenrahmen, functional, is_personenkonto, readings
from kontobahn.ledger.opos import Belegbewegung, Opos, OposKonto, OposSelection
from kontobahn.ledger.personenkonto import Geschaeftspartner, Partner, PartnerOrder, Personenkonto, PersonenkontoAntwort
from kontobahn.ledger.provider import Author, ConnectionRef, Effect, OpenAmounts, Outgoing, Transmission
from kontobahn.ledger.wire import (
    AccountSheet,
    Import,
    ImportMitProtokoll,
    SentFile,
    SheetSelection,
    TaxedBooking,
    TaxSelection,
    profit_and_loss,
)
from kontobahn.sentences import said
from kontobahn.threads import Pool

RECHNUNGSDATEN, BELEGBILDER, BUCHUNGSDATEN = "Rechnungsdatenservice 1.0", "Belegbilderservice", "Buchungsdatenservice"
_FOLDERS: dict[kassenbuch.Ordnertyp, Kind] = {
    "EINGANGSRECHNUNG": "accountsPayableLedgerImport",
    "AUSGANGSRECHNUNG": "accountsReceivableLedgerImport",
}
_NEEDED: dict[Area, str] = {"personenkonten": BUCHUNGSDATEN, "kassenbuch": RECHNUNGSDATEN, "belege": BELEGBILDER}


def not_offered(what: str) -> ProviderError:
    """Returns the refusal of something that this connection cannot do, now or later."""
    return ProviderError(
        405, f"Over a DATEV connection {what}. Use the books of Kontobahn, or a file.", type="not_supported"
    )


class DocumentType(Struct):
    name: str
    category: str = ""


class DatevBooks:
    def __init__(
        self,
        db: Database,
        clock: Clock,
        services: Services,
        clients: Clients,
        kept: Postings,
        jobs: LedgerJobs,
        pool: Pool,
        connection: ConnectionRef,
        client: KeptClient,
    ) -> None:
        self._db, self._clock, self._services, self._clients = db, clock, services, clients
        self._postings, self._jobs, self._pool = kept, jobs, pool
        self._connection, self._client = connection, client
        self.client_id = client.client_id
        self.as_of: int | None = None

    # --- Fiscal years and master data

    async def _years(self) -> list[FiscalYear]:
        return await self._clients.fiscal_years(self._connection, self._client, self._clock.now())

    async def _year(self, jahr: date) -> FiscalYear:
        known = await self._years()
        for year in known:
            if year.yearBegin == jahr:
                return year.in_euros
        starts = ", ".join(year.yearBegin.isoformat() for year in known) or "none"
        raise NotFound(
            said("The client has no fiscal year that starts on {day}. Known: {starts}.", day=jahr, starts=starts)
        )

    async def geschaeftsjahre(self) -> list[wire.Geschaeftsjahr]:
        return [year.as_answer for year in await self._years()]

    async def konten(self, jahr: date, from_id: str | None, limit: int | None) -> list[wire.Kontozeile]:
        year = await self._year(jahr)
        start = jahr.isoformat()
        found = dict(await accounts(self._services, self._connection, self.client_id, start))
        # Accounts that were booked, whether or not they have a label.
        booked = await accounts(self._services, self._connection, self.client_id, start, only_booked=True)
        for konto, text in booked:
            found.setdefault(konto, text)
        last = from_id or ""
        if last and len(last) not in (8, 9):
            last = _readings(last, year, "from_id")[-1]
        after = [item for item in sorted(found, key=_in_order) if _in_order(item) > _in_order(last)]
        return [wire.Kontozeile(found[konto], konto) for konto in after[: limit or len(after)]]

    async def susa(self, jahr: date, kontonummer: str | None) -> list[wire.SusaZeile]:
        year = await self._year(jahr)
        wanted = None if kontonummer is None else _readings(kontonummer, year)
        lines = {line.konto: susa_line(line) for line in await self._sums(jahr)}
        if wanted is not None:
            return [lines[konto] for konto in wanted if konto in lines][:1]
        return list(lines.values())

    async def bwa(self, jahr: date, bis_periode: int) -> wire.Bwa:
        year = await self._year(jahr)
        chart = year.as_answer.kontenrahmen
        if chart not in KONTENRAHMEN:
            raise not_offered(f"there is no profit and loss for the chart {chart}")
        sums = await self._sums(jahr)
        rows = [
            (line.konto, periode, -betrag) for line in sums for periode, betrag in line.months if periode <= bis_periode
        ]
        labels = {line.konto: line.caption for line in sums}
        return profit_and_loss(chart, jahr, bis_periode, rows, lambda konto: labels[konto])

    async def _sums(self, jahr: date) -> list[AccountTurnover]:
        path = f"{self._path(jahr)}/sums-and-balances"
        rows = await self._services.lines(self._connection, "exchange", path, SumsAndBalances)
        return sorted(map(turnover, rows), key=lambda line: _in_order(line.konto))

    async def zahlungsbedingungen(self, jahr: date) -> list[wire.Zahlungsbedingung]:
        await self._year(jahr)
        path = f"{self._path(jahr)}/terms-of-payment"
        rows = await self._services.lines(self._connection, "exchange", path, TermOfPayment)
        return [payment_terms(row) for row in sorted(rows, key=lambda row: row.id)]

    def _path(self, jahr: date) -> str:
        return f"clients/{part(self.client_id)}/fiscal-years/{year_id(jahr.isoformat())}"

    # --- Postings

    def _key(self, jahr: date) -> JobKey:
        return JobKey(self._connection.organization_id, self._connection.id, self.client_id, jahr.isoformat())

    async def _kept(self, years: list[date]) -> Kept:
        """Returns the postings of these years, once they are there. Raises ProviderError with 503 if that takes longer."""
        self.as_of = await self._postings.ready(self._connection, self.client_id, years)
        return await kept_years(self._db, self._pool, [self._key(start) for start in years])

    async def _until(self, stichtag: date) -> tuple[Kept, FiscalYear]:
        """Returns the postings up to a day, and the last year among theirs."""
        years = await self._years()
        counted = years_up_to([year.yearBegin for year in years], stichtag)
        found = [year.in_euros for year in years if year.yearBegin in counted]
        if not found:
            raise NotFound(said("The client has no fiscal year before {day}.", day=stichtag))
        return await self._kept(counted), found[-1]

    async def buchungen(
        self, jahr: date, from_id: str | None, limit: int | None, periode: int | None = None
    ) -> list[buchungen.Buchung]:
        year = await self._year(jahr)
        kept = await self._kept([year.yearBegin])
        found: list[buchungen.Buchung] = []
        async for some in kept.in_order(int(from_id or 0)):
            found += [answers.buchung(one) for one in some if periode in (None, answers.period_of(one))]
            if limit is not None and len(found) >= limit:
                break
        return found[:limit]

    async def offene_posten(self, selection: OposSelection) -> Opos:
        found, names = await self._open_items(selection)
        return await self._pool.run(found.answer, names)

    async def faelligkeiten(self, selection: OposSelection) -> Faelligkeiten:
        found, names = await self._open_items(selection, with_invoices=True)
        answer = await self._pool.run(found.answer, names)
        konten = msgspec.json.decode(bytes(cast(msgspec.Raw, answer.konten)), type=list[OposKonto])
        # DATEV does not tell online which terms a partner has.
        return by_due_date(konten, selection.stichtag, found.invoices, {})

    async def _open_items(
        self, selection: OposSelection, *, with_invoices: bool = False
    ) -> tuple[OpenItems, dict[str, str]]:
        kept, year = await self._until(selection.stichtag)
        konto = None
        if selection.kontonummer is not None:
            konto = _readings(selection.kontonummer, year)[-1]
            if not is_personenkonto(konto):
                raise BadRequest("The query parameter `kontonummer` must be a person account.", field="kontonummer")
        found = OpenItems(selection, range_of(selection.side, konto), _rahmen(year), with_invoices=with_invoices)
        await kept.open_items(found, konto)
        return found, await self._pool.run(kept.names)

    async def offene_betraege(self, konten: Collection[str]) -> Effect[OpenAmounts]:
        today = berlin_date(self._clock.now())
        found, _ = await self._open_items(OposSelection(today, "all", "reconcile", None))
        answer = await self._pool.run(found.answer, {})
        listed = msgspec.json.decode(bytes(cast(msgspec.Raw, answer.konten)), type=list[OposKonto])
        amounts = {
            (konto.kontonummer, item.beleg): money.to_minor(item.saldo)
            for konto in listed
            if konto.kontonummer in konten
            for item in konto.posten
        }
        return lambda tx: amounts

    async def belegbewegungen(self, seit: date, limit: int) -> list[Belegbewegung]:
        today = berlin_date(self._clock.now())
        kept, year = await self._until(today)
        latest: list[answers.Movement] = []
        async for shares, some in kept.of_persons():
            latest += await self._pool.run(answers.movements, some, shares, seit.isoformat(), _rahmen(year))
            latest = sorted(latest, reverse=True, key=lambda item: item[:2])[:limit]
        return [movement for _, _, movement in latest]

    async def bookings_of_document(self, konto: str, beleg: str, after: str, limit: int) -> DocumentBookings:
        kept, _ = await self._until(berlin_date(self._clock.now()))
        return answers.of_document(await kept.of_account(konto), konto, beleg, after, limit)

    async def account_sheet(self, selection: SheetSelection) -> AccountSheet:
        year = await self._year(selection.jahr)
        if not is_personenkonto(selection.konto):
            # The tax in a posting is not told apart, so its lines would not add up to the balance.
            raise not_offered("there are sheets of person accounts only")
        kept = await self._kept([year.yearBegin])
        return answers.sheet(await kept.of_account(selection.konto), selection)

    # --- Partners, by the labels of their accounts

    async def geschaeftspartner(self) -> list[Geschaeftspartner]:
        laenge, labels = await self._persons()
        return [Geschaeftspartner(konto, functional(konto, laenge), name, ()) for konto, name in sorted(labels.items())]

    async def partners(
        self, search: str, after: str, limit: int, order: PartnerOrder = "konto", *, descending: bool = False
    ) -> list[Partner]:
        laenge, labels = await self._persons()
        words = search.casefold().split()
        found = [
            Partner(konto, name, "")
            for konto, name in labels.items()
            if all(word in f"{functional(konto, laenge)} {name.casefold()}" for word in words)
        ]
        found.sort(key=lambda one: (getattr(one, order).casefold(), one.konto), reverse=descending)
        place = next((number for number, one in enumerate(found, 1) if one.konto == after), 0)
        return found[place : place + limit]

    async def partner(self, konto: str) -> Partner | None:
        _, labels = await self._persons()
        return Partner(konto, labels[konto], "") if konto in labels else None

    async def _persons(self) -> tuple[int, dict[str, str]]:
        years = await self._years()
        found: dict[str, str] = {}
        for year in years[-2:]:
            rows = await accounts(self._services, self._connection, self.client_id, year.yearBegin.isoformat())
            found |= {konto: text for konto, text in rows if is_personenkonto(konto)}
        return years[-1].accountLength if years else 4, found

    # --- Services and rights

    async def active_subscriptions(self) -> list[str]:
        return self._client.service_names

    def needed_subscription(self, area: Area) -> str:
        return _NEEDED.get(area, EXPORT)

    async def probe(self, area: Area, jahr: date | None) -> None:
        self._require(area)
        if area == "kassenbuch":
            await self.kassenbuecher()
        if area == "belege":
            await self.belegtypen()
        if area == "personenkonten":
            path = f"clients/{part(self.client_id)}/extf-files/jobs?top=1"
            await self._services.ask(self._connection, "GET", "extf", path)
        if area == "stammdaten" and not await self._years():
            raise ProviderError(404, "the client has no fiscal year yet", type="year")
        if area == "zahlungsbedingungen" and jahr is not None:
            await self.zahlungsbedingungen(jahr)
        if area == "konten" and jahr is not None:
            await accounts(self._services, self._connection, self.client_id, jahr.isoformat())

    # --- Unternehmen online

    async def kassenbuecher(self) -> list[kassenbuch.Kassenbuch]:
        return [kassenbuch.Kassenbuch(bezeichnung=name) for name in await self._names(CASH)]

    async def rechnungsordner(self, ordnertyp: kassenbuch.Ordnertyp | None) -> list[kassenbuch.Rechnungsordner]:
        found = []
        for typ, kind in _FOLDERS.items():
            if ordnertyp in (None, typ):
                names = await self._names(kind)
                found += [kassenbuch.Rechnungsordner(bezeichnung=name, ordnertyp=typ) for name in names]
        return found

    async def _names(self, kind: Kind) -> list[str]:
        known = await self._jobs.names(self._connection, self.client_id, kind)
        self.as_of = min(self.as_of or known.asked_at, known.asked_at)
        return known.names

    async def belegtypen(self) -> list[kassenbuch.Belegtyp]:
        path = f"clients/{part(self.client_id)}/document-types"
        listed = await self._services.get(self._connection, "documents", path, list[DocumentType])
        return [kassenbuch.Belegtyp(bezeichnung=one.name, kategorie=one.category) for one in listed]

    # --- Transmissions

    async def outgoing_cash_entry(self, entry: kassenbuch.CashEntry) -> Outgoing:
        self._require("kassenbuch")
        return cash_entries.outgoing(self._connection, self.client_id, entry, self._clock.now())

    def cash_entry_answer(self, sent: Transmission, images: list[kassenbuch.Belegbild]) -> kassenbuch.Kassenbucheintrag:
        return cash_entries.answer(sent, images, transmissions.messages_of(sent))

    async def outgoing_person(self, konto: Personenkonto) -> Outgoing:
        self._require("personenkonten")
        number, year = file_imports.checked_konto(konto, await self._years())
        is_known = await self._knows(number, year) or await self._db.read(
            was_sent, self._connection, self.client_id, number
        )
        now = self._clock.now()
        return file_imports.person_file(self._connection, self.client_id, konto, number, year, now, is_new=not is_known)

    async def _knows(self, konto: str, year: FiscalYear) -> bool:
        """Returns whether an account has a label or was booked on."""
        start = year.yearBegin.isoformat()
        for only_booked in (False, True):
            listed = await accounts(self._services, self._connection, self.client_id, start, only_booked=only_booked)
            if any(one == konto for one, _ in listed):
                return True
        return False

    def person_answer(self, sent: Transmission) -> tuple[PersonenkontoAntwort, bool]:
        return file_imports.person_answer(sent)

    async def outgoing_bookings(self, buchungen: list[NeueBuchung], document: str = "") -> Outgoing:
        # Batches and person accounts are one service.
        self._require("personenkonten")
        if document:
            self._require("belege")
        years, now = await self._years(), self._clock.now()
        return file_imports.batch(self._connection, self.client_id, years, buchungen, document, now)

    def outgoing_file(self, name: str, content: bytes, documents: Sequence[str] = ()) -> Outgoing | None:
        needed = {BUCHUNGSDATEN, *((BELEGBILDER,) if documents else ())}
        if not needed <= set(self._client.service_names):
            return None
        return file_imports.file(self._connection, self.client_id, name, content, list(documents))

    def bookings_answer(self, sent: Transmission) -> GebuchteBuchungen:
        return file_imports.batch_answer(sent)

    def _require(self, area: Area) -> None:
        """Raises ProviderError if the service of this area is not booked, before anything is sent."""
        needed = self.needed_subscription(area)
        if needed not in self._client.service_names:
            raise ProviderError(403, f"{needed} is not booked", type="subscription", area=area, help_url=HELP)

    # --- Not offered

    async def umsatzsteuer(self, jahr: date, von: date | None, bis: date | None) -> wire.Umsatzsteuer:
        await self._year(jahr)
        raise not_offered("the VAT figures are not calculated")

    async def steuerbuchungen(self, selection: TaxSelection) -> list[TaxedBooking]:
        raise not_offered("the VAT figures are not calculated")

    async def create_kassenbucheintrag(
        self, entry: kassenbuch.CashEntry, author: Author
    ) -> Effect[kassenbuch.Kassenbucheintrag]:
        made = await self.outgoing_cash_entry(entry)

        def effect(tx: Tx) -> kassenbuch.Kassenbucheintrag:
            sent = transmissions.insert(tx, made, author, self._connection.organization_id)
            return self.cash_entry_answer(sent, transmissions.images_of(tx, sent))

        return effect

    async def kassenbuchzeilen(self, selection: kassenbuch.KassenbuchSelection) -> kassenbuch.CashReport:
        raise not_offered("the rows of a cash book cannot be read: they are in Unternehmen online")

    async def reverse_kassenbucheintrag(
        self, nummer: int, storno: kassenbuch.Storno, author: Author
    ) -> Effect[kassenbuch.Kassenbuchzeile]:
        raise not_offered("cash entries cannot be reversed")

    async def belegbild(self, image_id: str) -> kassenbuch.ReceiptImage | None:
        return await self._db.read(transmissions.find_image, self._connection, self.client_id, image_id)

    async def save_personenkonto(
        self, konto: Personenkonto, author: Author
    ) -> Effect[tuple[PersonenkontoAntwort, bool]]:
        made = await self.outgoing_person(konto)

        def effect(tx: Tx) -> tuple[PersonenkontoAntwort, bool]:
            return self.person_answer(transmissions.insert(tx, made, author, self._connection.organization_id))

        return effect

    async def book(
        self, buchungen: list[NeueBuchung], author: Author, *, another: bool, document: str = ""
    ) -> Effect[GebuchteBuchungen]:
        made = await self.outgoing_bookings(buchungen, document)

        def effect(tx: Tx) -> GebuchteBuchungen:
            return self.bookings_answer(transmissions.insert(tx, made, author, self._connection.organization_id))

        return effect

    async def import_file(self, file: SentFile, author: Author) -> Work[ImportMitProtokoll]:
        raise not_offered("files are not imported: the adviser does that")

    async def export(self, jahr: date, target: BinaryIO, *, receipts_up_to: int) -> None:
        raise not_offered("nothing is exported: DATEV has the books itself")

    async def imports(self, before: str | None, limit: int) -> list[Import]:
        return []

    async def find_import(self, import_id: str) -> ImportMitProtokoll | None:
        return None

    async def bookings_of_import(self, import_id: str, after: str, limit: int) -> list[Buchung]:
        return []

    async def undo_import(self, import_id: str, author: Author) -> Work[ImportMitProtokoll | None]:
        raise not_offered("there are no imports to undo")


def _rahmen(year: FiscalYear) -> Kontenrahmen:
    """Returns the chart; that of most companies where we have none of this number."""
    return KONTENRAHMEN.get(year.as_answer.kontenrahmen, KONTENRAHMEN["SKR03"])


def _readings(nummer: str, year: FiscalYear, field: str = "kontonummer") -> list[str]:
    try:
        return readings(nummer, year.accountLength)
    except ValueError as error:
        raise BadRequest(
            said("The query parameter `{field}` {reason}.", field=field, reason=error), field=field
        ) from None


def _in_order(konto: str) -> tuple[int, str]:
    """Returns the key by which ledger accounts come before those of persons."""
    return len(konto), konto
