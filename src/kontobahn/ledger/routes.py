"""The ledger area over HTTP: cash books and folders (ledger-duo), accounting (ledger-rewe, ledger-rewe-read)."""

from __future__ import annotations

from kontobahn.api.call import Call
from kontobahn.api.declare import get, post
from kontobahn.api.wire import Download, ListQuery, Uuid
from kontobahn.clock import berlin_date
from kontobahn.db import Tx
from kontobahn.ledger import connections, kassenbuch, permissions, personenkonto
from kontobahn.ledger.connections import open_as_provider, open_mandant
from kontobahn.ledger.errors import ProviderError
from kontobahn.ledger.model import (
    BelegtypenAntwort,
    BuchungenAntwort,
    ClientQuery,
    ConnectionQuery,
    DropdownQuery,
    JahrDropdownQuery,
    Kassenbucheintrag,
    KassenbuecherAntwort,
    KontenAntwort,
    LedgerConnections,
    NeuerKassenbucheintrag,
    OposAntwort,
    OposQuery,
    Personenkonto,
    PersonenkontoAntwort,
    RechnungsordnerAntwort,
    RechnungsordnerQuery,
    RechteAntwort,
    SeitenQuery,
    SusaAntwort,
    SusaQuery,
    ZahlungsbedingungenAntwort,
)  # fmt: skip
from kontobahn.ledger.provider import Effect, OposFrage, Urheber

_ERRORS = (403, 404, 409)


@get("/v2/ledger-rewe-read/connections", errors=(403, 404))
async def list_rewe_connections(call: Call, query: ListQuery) -> LedgerConnections:
    """List the organisation's accounting connections.

    Their ids are the `connectionId` of the other ledger calls.
    """
    return await _connections(call, query)


# Choice 14: as the rewe-read one.
@get("/v2/ledger-duo/connections", errors=(403, 404))
async def list_duo_connections(call: Call, query: ListQuery) -> LedgerConnections:
    """List the organisation's cash book and document connections.

    Their ids are the `connectionId` of the other ledger calls.
    """
    return await _connections(call, query)


async def _connections(call: Call, query: ListQuery) -> LedgerConnections:
    organizations = call.principal.organizations(query.organization_id)
    return LedgerConnections(connections=await call.read_inline(connections.listing, organizations))


# --- Cash book and folders


@post("/v2/ledger-duo/kassenbuch-advanced", cost=1, errors=_ERRORS)
async def create_kassenbucheintrag(
    call: Call, query: ConnectionQuery, body: NeuerKassenbucheintrag
) -> Kassenbucheintrag:
    """Create a cash book entry, with receipt images.

    One entry is made per line, all of them or none. `betrag` is the exact sum of the lines. Entries are numbered without gaps
    and never changed; one that would make the cash balance negative is refused.
    """
    eintrag = kassenbuch.check(body)
    mandant = await open_mandant(call, query.connection_id)
    async with mandant.asked_for("kassenbuch") as books, call.charge():
        effect = await books.create_kassenbucheintrag(eintrag, _urheber(call))
        return await call.commit(effect)


@get("/v2/ledger-duo/kassenbuecher", cost=1, free_as_dropdown=True, errors=_ERRORS)
async def list_kassenbuecher(call: Call, query: DropdownQuery) -> KassenbuecherAntwort:
    """List the cash books.

    `bezeichnung` is the `kassenname` of a cash book entry.
    """
    mandant = await open_mandant(call, query.connection_id)
    async with call.charge() as charge, mandant.asked_for("kassenbuch") as books:
        data = await books.kassenbuecher()
    return KassenbuecherAntwort(data=data, platform=charge.platform)


@get("/v2/ledger-duo/rechnungsordner", cost=1, free_as_dropdown=True, errors=_ERRORS)
async def list_rechnungsordner(call: Call, query: RechnungsordnerQuery) -> RechnungsordnerAntwort:
    """List the invoice folders, of one kind or both."""
    mandant = await open_mandant(call, query.connection_id)
    async with call.charge() as charge, mandant.asked_for("kassenbuch") as books:
        data = await books.rechnungsordner(query.ordnertyp)
    return RechnungsordnerAntwort(data=data, platform=charge.platform)


@get("/v2/ledger-duo/belegtypen", errors=_ERRORS)
async def list_belegtypen(call: Call, query: ConnectionQuery) -> BelegtypenAntwort:
    """List the document types."""
    mandant = await open_mandant(call, query.connection_id)
    async with call.charge() as charge, mandant.asked_for("belege") as books:
        data = await books.belegtypen()
    return BelegtypenAntwort(data=data, platform=charge.platform)


@get("/v2/ledger-duo/belegbilder/{id}", errors=_ERRORS, media_types=kassenbuch.MEDIA_TYPES)
async def get_belegbild(call: Call, query: ConnectionQuery, id: Uuid) -> Download:
    """Read a receipt image back, byte for byte."""
    mandant = await open_mandant(call, query.connection_id)
    async with mandant.asked_for("belege") as books:
        bild = await books.belegbild(id)
    if bild is None:
        raise call.principal.missing("Receipt image")
    return Download(bild.content, bild.mime_typ, bild.dateiname)


# --- Accounting


@post("/v2/ledger-rewe/personenkonto", cost=1, statuses=(201, 200), errors=_ERRORS)
async def save_personenkonto(call: Call, query: ClientQuery, body: Personenkonto) -> PersonenkontoAntwort:
    """Create or replace a business partner.

    The number within connection and client says which: not there, it is created (201); there, the whole record is replaced (200)
    and the old one kept.
    """
    personenkonto.check(body)
    mandant = await open_mandant(call, query.connection_id, query.client_id)
    async with mandant.asked_for("personenkonten") as books, call.charge():
        effect = await books.save_personenkonto(body, _urheber(call))
        return await call.commit(_with_status, call, effect)


def _with_status(tx: Tx, call: Call, effect: Effect[tuple[PersonenkontoAntwort, bool]]) -> PersonenkontoAntwort:
    answer, created = effect(tx)
    # Choice 2: 201 created, 200 updated.
    call.status = 201 if created else 200
    return answer


@get("/v2/ledger-rewe-read/opos", cost=5, errors=_ERRORS)
async def get_opos(call: Call, query: OposQuery) -> OposAntwort:
    """Open items per person account at a cut-off date.

    Of all fiscal years, grouped by person account and document number. Only classic 9-digit person accounts are covered;
    clearings made by hand in another program cannot be seen in the bookings.
    """
    mandant = await open_mandant(call, query.connection_id, query.client_id)
    stichtag = query.stichtag or berlin_date(call.context.clock.now())
    async with call.charge() as charge, mandant.asked_for("buchungen") as books:
        data = await books.offene_posten(OposFrage(stichtag, query.filter, query.eb_modus, query.kontonummer))
    return OposAntwort(data=data, platform=charge.platform)


@get("/v2/ledger-rewe-read/zahlungsbedingungen", cost=1, free_as_dropdown=True, errors=_ERRORS)
async def list_zahlungsbedingungen(call: Call, query: JahrDropdownQuery) -> ZahlungsbedingungenAntwort:
    """List the payment terms of a fiscal year."""
    mandant = await open_mandant(call, query.connection_id, query.client_id)
    async with call.charge() as charge, mandant.asked_for("zahlungsbedingungen") as books:
        data = await books.zahlungsbedingungen(query.geschaeftsjahr_start_datum)
    return ZahlungsbedingungenAntwort(data=data, platform=charge.platform)


@get("/v2/ledger-rewe-read/susa", cost=1, errors=_ERRORS)
async def get_susa(call: Call, query: SusaQuery) -> SusaAntwort:
    """Trial balance of a fiscal year, or of one account in it.

    Periods 1 to 12 are the months of the fiscal year, 13 closing entries, 14 later corrections.
    """
    mandant = await open_mandant(call, query.connection_id, query.client_id)
    async with call.charge() as charge, mandant.asked_for("susa") as books:
        data = await books.susa(query.geschaeftsjahr_start_datum, query.kontonummer)
    return SusaAntwort(data=data, platform=charge.platform)


# Choice 19: bookings and accounts can be read.
@get("/v2/ledger-rewe-read/buchungen", cost=1, errors=_ERRORS)
async def list_buchungen(call: Call, query: SeitenQuery) -> BuchungenAntwort:
    """List the bookings of a fiscal year, ascending by id.

    The last id is the `from_id` of the next page.
    """
    mandant = await open_mandant(call, query.connection_id, query.client_id)
    async with call.charge() as charge, mandant.asked_for("buchungen") as books:
        data = await books.buchungen(query.geschaeftsjahr_start_datum, query.from_id, query.limit)
    return BuchungenAntwort(data=data, platform=charge.platform)


@get("/v2/ledger-rewe-read/konten", cost=1, errors=_ERRORS)
async def list_konten(call: Call, query: SeitenQuery) -> KontenAntwort:
    """List the accounts, ledger accounts before person accounts.

    The last `kontonummer` is the `from_id` of the next page.
    """
    mandant = await open_mandant(call, query.connection_id, query.client_id)
    async with call.charge() as charge, mandant.asked_for("konten") as books:
        data = await books.konten(query.geschaeftsjahr_start_datum, query.from_id, query.limit)
    return KontenAntwort(data=data, platform=charge.platform)


@get("/v2/ledger-rewe-read/permissions", errors=_ERRORS)
async def get_permissions(call: Call, query: ClientQuery) -> RechteAntwort:
    """Probe what may be read and written, area by area.

    A connection that has expired is an answer here, not an error.
    """
    try:
        mandant = await open_as_provider(call, query.connection_id, query.client_id)
    except ProviderError as error:
        return RechteAntwort(data=permissions.closed(error))
    return RechteAntwort(data=await permissions.probe(mandant.books))


def _urheber(call: Call) -> Urheber:
    return Urheber(call.request_id, call.quelle)
