"""An external accounting provider played by a script: it keeps its books elsewhere, answers slowly, and fails on demand."""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from typing import BinaryIO, TypeVar

import msgspec

from kontobahn import money
from kontobahn.api.tasks import Work
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, NotFound
from kontobahn.ledger.buchungen import (
    AccountBooking,
    Buchung,
    Buchungszeile,
    DocumentBookings,
    GebuchteBuchungen,
    Kostenstellen,
    NeueBuchung,
)
from kontobahn.ledger.errors import Area, ProviderError
from kontobahn.ledger.faelligkeiten import Faelligkeiten, age_classes
from kontobahn.ledger.kassenbuch import (
    Belegtyp,
    Belegzeile,
    CashEntry,
    CashReport,
    Kassenbuch,
    Kassenbucheintrag,
    KassenbuchSelection,
    Kassenbuchzeile,
    Ordnertyp,
    ReceiptImage,
    Rechnungsordner,
    Storno,
)
from kontobahn.ledger.opos import Belegbewegung, Opos, OposKonto, OposSelection, Posten
from kontobahn.ledger.personenkonto import (
    Geschaeftspartner,
    Partner,
    PartnerOrder,
    Personenkonto,
    PersonenkontoAntwort,
    PersonenkontoDaten,
    PersonenkontoErgebnis,
)
from kontobahn.ledger.provider import Author, ClientBooks, ConnectionRef, Effect, LedgerClient, OpenAmounts
from kontobahn.ledger.wire import (
    AccountSheet,
    Bwa,
    BwaZeile,
    Geschaeftsjahr,
    Import,
    ImportMitProtokoll,
    Kontozeile,
    LedgerErgebnis,
    Periodenwert,
    Saldo,
    SentFile,
    SheetLine,
    SheetSelection,
    SusaZeile,
    TaxedBooking,
    TaxLine,
    TaxSelection,
    Umsatzsteuer,
    UmsatzsteuerZeile,
    Zahlungsbedingung,
)
from tests.waiting import take_time_async

CLIENT_ID = "29098-55003"
YEARS = [
    Geschaeftsjahr(date(2025, 1, 1), date(2025, 12, 31), "SKR03", 4),
    Geschaeftsjahr(date(2026, 1, 1), date(2026, 12, 31), "SKR03", 4),
]
NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
SERVICE = "Alles"
T = TypeVar("T")


def _account_bookings(konto: str) -> list[AccountBooking]:
    """The bookings of the one account that has some."""
    if konto != "100100000":
        return []
    return [
        AccountBooking("1", date(2026, 1, 15), "RE-1", "Rechnung anderswo", konto, "84000000", "", 119_00),
        AccountBooking("2", date(2026, 2, 1), "RE-1", "Zahlung anderswo", "12000000", konto, "", -19_00),
    ]


class Script:
    """Tells the provider what to do: how long to take, and which of its calls are to fail, and how."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.trouble: dict[str, Exception] = {}
        self.subscriptions = [SERVICE]
        self.years = list(YEARS)
        self.entries: list[CashEntry] = []
        self.persons: dict[str, Personenkonto] = {}
        self.booked: list[NeueBuchung] = []
        self.imports: dict[str, ImportMitProtokoll] = {}
        # Closed, every call waits until it is opened.
        self.gate: asyncio.Event | None = None
        self.waiting = 0

    async def call(self, name: str) -> None:
        await take_time_async(self.seconds)
        if self.gate is not None:
            self.waiting += 1
            await self.gate.wait()
        if name in self.trouble:
            raise self.trouble[name]


class ScriptedProvider:
    name = "scripted"

    def __init__(self) -> None:
        self.script = Script()

    async def clients(self, connections: Sequence[ConnectionRef]) -> list[LedgerClient]:
        await self.script.call("clients")
        return [
            LedgerClient(connection.id, CLIENT_ID, "Anderswo GmbH", "SKR03", 4, None, is_default=True)
            for connection in connections
        ]

    async def open(self, connection: ConnectionRef, client_id: str | None) -> ClientBooks:
        await self.script.call("open")
        if client_id not in (None, CLIENT_ID):
            raise BadRequest(f"The query parameter `clientId`: there is no client {client_id}.", field="clientId")
        return ScriptedBooks(self.script)


class ScriptedBooks:
    def __init__(self, script: Script) -> None:
        self._script = script
        self.client_id = CLIENT_ID
        self.as_of: int | None = None

    async def _of_year(self, name: str, jahr: date) -> None:
        await self._script.call(name)
        if jahr not in [year.start for year in self._script.years]:
            raise NotFound(f"There is no fiscal year that starts on {jahr}.")

    async def geschaeftsjahre(self) -> list[Geschaeftsjahr]:
        await self._script.call("geschaeftsjahre")
        return self._script.years

    async def konten(self, jahr: date, from_id: str | None, limit: int | None) -> list[Kontozeile]:
        await self._of_year("konten", jahr)
        rows = [Kontozeile(kontonummer=number, kontobeschriftung="Konto") for number in ("12000000", "100100000")]
        return _page(rows, [(len(row.kontonummer), row.kontonummer) for row in rows], from_id, limit)

    async def buchungen(
        self, jahr: date, from_id: str | None, limit: int | None, periode: int | None = None
    ) -> list[Buchung]:
        await self._of_year("buchungen", jahr)
        rows = [_buchung(number) for number in (1, 2, 10)]
        return _page(rows, [(len(row.id or ""), row.id or "") for row in rows], from_id, limit)

    async def susa(self, jahr: date, kontonummer: str | None) -> list[SusaZeile]:
        await self._of_year("susa", jahr)
        rows = [_susa("12000000", -5), _susa("100100000", 5)]
        return [row for row in rows if kontonummer in (None, row.kontonummer)]

    async def umsatzsteuer(self, jahr: date, von: date | None, bis: date | None) -> Umsatzsteuer:
        await self._of_year("umsatzsteuer", jahr)
        line = UmsatzsteuerZeile(
            buSchluessel="3", kontonummer=None, art="UMSATZSTEUER", prozent=19, bemessungsgrundlage=Decimal(100),
            umsatzsteuer=Decimal(19), vorsteuer=Decimal(0), anzahl=1,
        )  # fmt: skip
        return Umsatzsteuer(
            vonDatum=von or jahr, bisDatum=bis or jahr.replace(month=12, day=31), zeilen=[line], summeUmsatzsteuer=Decimal(19),
            summeVorsteuer=Decimal(0), direktUmsatzsteuer=Decimal(0), direktVorsteuer=Decimal(0), bruttoGebucht=Decimal(0),
            bruttoAnzahl=0,
        )  # fmt: skip

    async def steuerbuchungen(self, selection: TaxSelection) -> list[TaxedBooking]:
        await self._of_year("steuerbuchungen", selection.jahr)
        found = TaxedBooking(
            1, selection.jahr, "RE-1", "Verkauf", "100100000", "84000000", Decimal(100), Decimal(19), Decimal(0)
        )
        return [found] if selection.line == TaxLine("UMSATZSTEUER", 19, "3", "") and not selection.after else []

    async def bwa(self, jahr: date, bis_periode: int) -> Bwa:
        await self._of_year("bwa", jahr)
        values = [Decimal(5), *[Decimal(0)] * (bis_periode - 1)]
        lines = [
            BwaZeile(bezeichnung=name, istSumme=is_sum, perioden=values, kumuliert=Decimal(5))
            for name, is_sum in (("Umsatzerlöse", False), ("Ergebnis", True))
        ]
        return Bwa(
            geschaeftsjahrStartDatum=jahr, bisPeriode=bis_periode, zeilen=lines, nichtZugeordnet=[], ergebnis=Decimal(5)
        )

    async def zahlungsbedingungen(self, jahr: date) -> list[Zahlungsbedingung]:
        await self._of_year("zahlungsbedingungen", jahr)
        nothing = Decimal(0)
        return [
            Zahlungsbedingung(
                id="10", bezeichnung="14 Tage netto", skontoFrist1=None, skontoSatz1=nothing, skontoFrist2=None,
                skontoSatz2=nothing, nettoFrist=14, faelligkeitsart="NACH_TAGE", perioden=[],
            )
        ]  # fmt: skip

    async def book(
        self, buchungen: list[NeueBuchung], author: Author, *, another: bool, document: str = ""
    ) -> Effect[GebuchteBuchungen]:
        await self._script.call("book")
        # It has done it by now; what is left is our own part.
        self._script.booked += buchungen
        last = len(self._script.booked)
        ids = [str(number) for number in range(last - len(buchungen) + 1, last + 1)]
        return lambda tx: GebuchteBuchungen(
            ids=ids, importe=[], ledgerAntwort=LedgerErgebnis(status="SUCCESS", information=[])
        )

    async def import_file(self, file: SentFile, author: Author) -> Work[ImportMitProtokoll]:
        await self._script.call("import_file")
        rows = len(file.stream.read().splitlines())

        def effect(tx: Tx, import_id: str) -> ImportMitProtokoll:
            self._script.imports[import_id] = made = ImportMitProtokoll(
                id=import_id, status="done", art="DATEI", quelle=file.name, kategorie=None, bezeichnung="", clientId=CLIENT_ID,
                geschaeftsjahrStartDatum=None, uebernommen=rows, bekannt=0, abgelehnt=0, warnungen=0, erstelltAm=NOW,
                erstelltVon=author.actor, stornoVon=None, stornoDurch=None, protokoll=[],
            )  # fmt: skip
            return made

        return Work(effect)

    async def export(self, jahr: date, target: BinaryIO, *, receipts_up_to: int) -> None:
        await self._of_year("export", jahr)
        with zipfile.ZipFile(target, "w") as archive:
            archive.writestr("Protokoll.txt", "")

    async def imports(self, before: str | None, limit: int) -> list[Import]:
        await self._script.call("imports")
        ids = sorted((key for key in self._script.imports if before is None or key < before), reverse=True)
        return [self._script.imports[key] for key in ids[:limit]]

    async def find_import(self, import_id: str) -> ImportMitProtokoll | None:
        await self._script.call("find_import")
        return self._script.imports.get(import_id)

    async def bookings_of_import(self, import_id: str, after: str, limit: int) -> list[Buchung]:
        return []

    async def undo_import(self, import_id: str, author: Author) -> Work[ImportMitProtokoll | None]:
        await self._script.call("undo_import")
        found = self._script.imports.get(import_id)
        if found is None:
            return Work(lambda tx, undo_id: None)
        if found.stornoDurch:
            raise ProviderError(409, "it was undone before")

        def commit(tx: Tx, undo_id: str) -> ImportMitProtokoll:
            undoing = msgspec.structs.replace(found, id=undo_id, art="STORNO", stornoVon=import_id)
            self._script.imports[import_id] = msgspec.structs.replace(found, status="undone", stornoDurch=undo_id)
            self._script.imports[undo_id] = undoing
            return undoing

        return Work(commit)

    async def offene_posten(self, selection: OposSelection) -> Opos:
        await self._script.call("offene_posten")
        betrag = Decimal("5.00")
        posten = Posten(beleg="RE-1", belegdatum=date(2026, 1, 15), buchungstext="Rechnung", saldo=betrag)
        konto = OposKonto(
            kontonummer="100100000", bezeichnung="Beispiel", isDebitor=True, totalSaldo=betrag, posten=[posten]
        )
        konten = [konto] if selection.side != "creditors" else []
        total = betrag if konten else Decimal(0)
        return Opos(stichtag=selection.stichtag, konten=konten, sumDebitoren=total, sumKreditoren=Decimal(0))

    async def faelligkeiten(self, selection: OposSelection) -> Faelligkeiten:
        await self._script.call("faelligkeiten")
        return Faelligkeiten(
            stichtag=selection.stichtag, konten=[], debitoren=age_classes([]), kreditoren=age_classes([])
        )

    async def offene_betraege(self, konten: Collection[str]) -> Effect[OpenAmounts]:
        await self._script.call("offene_betraege")
        return lambda tx: {("100100000", "RE-1"): 500} if "100100000" in konten else {}

    async def geschaeftspartner(self) -> list[Geschaeftspartner]:
        await self._script.call("geschaeftspartner")
        return [Geschaeftspartner("100100000", "10010", "Beispiel", ("DE89370400440532013000",))]

    async def partners(
        self, search: str, after: str, limit: int, order: PartnerOrder = "konto", *, descending: bool = False
    ) -> list[Partner]:
        await self._script.call("partners")
        found = [Partner("100100000", "Beispiel Anderswo", ""), Partner("700010000", "Lieferant Anderswo", "")]
        words = search.lower().split()
        found = [one for one in found if all(word in f"{one.konto} {one.name}".lower() for word in words)]
        found.sort(key=lambda one: (getattr(one, order), one.konto), reverse=descending)
        place = next((number for number, one in enumerate(found, 1) if one.konto == after), 0)
        return found[place : place + limit]

    async def partner(self, konto: str) -> Partner | None:
        return next((one for one in await self.partners("", "", 10) if one.konto == konto), None)

    async def account_sheet(self, selection: SheetSelection) -> AccountSheet:
        await self._of_year("account_sheet", selection.jahr)
        lines, saldo = [], 0
        for one in _account_bookings(selection.konto):
            saldo += one.betrag
            lines.append(SheetLine(
                one.id, one.id, one.day.month, one.day, one.belegfeld1, one.buchungstext, one.other(selection.konto), "",
                max(one.betrag, 0), max(-one.betrag, 0), saldo,
            ))  # fmt: skip
        before = [line for line in lines if int(line.place) <= int(selection.after or 0)]
        rest = [line for line in lines[len(before) :] if selection.periode in (None, line.periode)]
        shown = rest[: selection.limit]
        next_place = shown[-1].place if len(rest) > len(shown) else None
        return AccountSheet(before[-1].saldo if before else 0, shown, next_place)

    async def bookings_of_document(self, konto: str, beleg: str, after: str, limit: int) -> DocumentBookings:
        await self._script.call("bookings_of_document")
        found = [one for one in _account_bookings(konto) if one.belegfeld1 == beleg]
        page = [one for one in found if f"{one.day} {one.id}" > after][:limit]
        amounts = [one.betrag for one in found]
        return DocumentBookings(sum(max(one, 0) for one in amounts), -sum(min(one, 0) for one in amounts), page)

    async def belegbewegungen(self, seit: date, limit: int) -> list[Belegbewegung]:
        await self._script.call("belegbewegungen")
        return []

    async def kassenbuecher(self) -> list[Kassenbuch]:
        await self._script.call("kassenbuecher")
        return [Kassenbuch(bezeichnung="Hauptkasse")]

    async def rechnungsordner(self, ordnertyp: Ordnertyp | None) -> list[Rechnungsordner]:
        await self._script.call("rechnungsordner")
        kinds: tuple[Ordnertyp, ...] = ("AUSGANGSRECHNUNG", "EINGANGSRECHNUNG")
        return [Rechnungsordner(bezeichnung="Ordner", ordnertyp=kind) for kind in kinds if ordnertyp in (None, kind)]

    async def belegtypen(self) -> list[Belegtyp]:
        await self._script.call("belegtypen")
        return [Belegtyp(bezeichnung="Kasse", kategorie="other_documents")]

    async def create_kassenbucheintrag(self, entry: CashEntry, author: Author) -> Effect[Kassenbucheintrag]:
        await self._script.call("create_kassenbucheintrag")
        self._script.entries.append(entry)
        answer = Kassenbucheintrag(
            erstellungsdatum=NOW,
            waehrung=entry.waehrung,
            kassenname=entry.kassenname,
            betrag=money.to_wire(entry.betrag),
            transaktionsdatum=entry.transaktionsdatum,
            belegzeilen=[
                Belegzeile(
                    gegenkonto=line.gegenkonto, erstellungsdatum=NOW, waehrung="EUR", belegtext=line.belegtext,
                    belegnummer=None, betrag=money.to_wire(line.betrag), steuersatz=None, kostenstellen=[],
                )
                for line in entry.lines
            ],
            belegbilder=[],
            ledgerAntwort=None,
        )  # fmt: skip
        return self._in_transaction("effect", answer)

    def _in_transaction(self, name: str, answer: T) -> Effect[T]:
        def effect(tx: Tx) -> T:
            if name in self._script.trouble:
                raise self._script.trouble[name]
            return answer

        return effect

    async def kassenbuchzeilen(self, selection: KassenbuchSelection) -> CashReport:
        await self._script.call("kassenbuchzeilen")
        zeilen = [_zeile(1, entry) for entry in self._script.entries[:1]]
        return CashReport(zeilen, Decimal(0), sum((zeile.betrag for zeile in zeilen), Decimal(0)))

    async def reverse_kassenbucheintrag(self, nummer: int, storno: Storno, author: Author) -> Effect[Kassenbuchzeile]:
        await self._script.call("reverse_kassenbucheintrag")
        return self._in_transaction("effect", _zeile(nummer + 1, self._script.entries[0]))

    async def belegbild(self, image_id: str) -> ReceiptImage | None:
        await self._script.call("belegbild")
        return None

    async def save_personenkonto(
        self, konto: Personenkonto, author: Author
    ) -> Effect[tuple[PersonenkontoAntwort, bool]]:
        await self._script.call("save_personenkonto")
        created = konto.personenkontoNummer not in self._script.persons
        self._script.persons[konto.personenkontoNummer] = konto
        daten = PersonenkontoDaten(
            id=None, kontonummernLaenge=konto.kontonummernLaenge, kontenrahmen=konto.kontenrahmen, erstelltAm=NOW,
            geschaeftsjahrStartDatum=konto.geschaeftsjahrStartDatum, eintraege=[],
        )  # fmt: skip
        ergebnis = PersonenkontoErgebnis(status="SUCCESS", antwortDaten=None, meldungen=[])
        return self._in_transaction("effect", (PersonenkontoAntwort(data=daten, ledgerAntwort=ergebnis), created))

    async def active_subscriptions(self) -> list[str]:
        await self._script.call("active_subscriptions")
        return self._script.subscriptions

    def needed_subscription(self, area: Area) -> str:
        return SERVICE

    async def probe(self, area: Area, jahr: date | None) -> None:
        await self._script.call(f"probe {area}")


def _page(rows: list[T], keys: list[tuple[int, str]], from_id: str | None, limit: int | None) -> list[T]:
    after = (len(from_id), from_id) if from_id else (0, "")
    return list(islice((row for row, key in zip(rows, keys, strict=True) if key > after), limit))


def _buchung(number: int) -> Buchung:
    lines = [
        Buchungszeile(
            kontonummer=konto, kostenstellen=Kostenstellen(kost1=None, kost2=None), buSchluessel=None,
            umsatz=Decimal("1.00"), belegfeld1="RE-1", belegdatum=NOW,
        )
        for konto in ("100100000", "12000000")
    ]  # fmt: skip
    return Buchung(
        id=str(number), waehrung="EUR", sollHabenKennzeichen="SOLL", buchungstext="Buchung", buchungszeilen=lines
    )


def _susa(konto: str, euros: int) -> SusaZeile:
    saldo = Saldo(betrag=Decimal(abs(euros)), sollHabenKennzeichen="SOLL" if euros >= 0 else "HABEN")
    return SusaZeile(
        kontobeschriftung="Konto",
        kontonummer=konto,
        saldo=saldo,
        periodenwerte=[Periodenwert(periode=1, saldo=saldo)],
        ebWert=None,
        umsatzHaben=Decimal(max(-euros, 0)),
        umsatzSoll=Decimal(max(euros, 0)),
    )


def _zeile(nummer: int, entry: CashEntry) -> Kassenbuchzeile:
    betrag = money.to_wire(entry.betrag)
    return Kassenbuchzeile(
        id=str(nummer), art="EINTRAG", nummer=nummer, datum=NOW.date(), betrag=betrag, saldo=betrag, belegtext=entry.lines[0].belegtext,
        gegenkonto=entry.lines[0].gegenkonto, belegnummer=None, buSchluessel=None, kostenstellen=[], belegbilder=[],
        gebuchtAm=NOW, stornoVon=None, storniertDurch=None,
    )  # fmt: skip
