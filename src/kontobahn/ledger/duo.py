"""The calls under /v2/ledger-duo: cash books, folders, document types and receipt images."""

from __future__ import annotations

from kontobahn.api.call import Call, Platform
from kontobahn.api.declare import get, post
from kontobahn.api.wire import Answer, Download, Uuid
from kontobahn.ledger import kassenbuch
from kontobahn.ledger.connections import ERRORS, ConnectionQuery, Dropdown, open_books
from kontobahn.ledger.kassenbuch import (
    Belegtyp,
    Kassenbuch,
    Kassenbucheintrag,
    NeuerKassenbucheintrag,
    Ordnertyp,
    Rechnungsordner,
)
from kontobahn.ledger.provider import Author


class DropdownQuery(ConnectionQuery):
    zweck: Dropdown | None = None


class RechnungsordnerQuery(DropdownQuery):
    # Choice 14: the folder filter is `ordnertyp`.
    ordnertyp: Ordnertyp | None = None


class KassenbuecherAntwort(Answer):
    data: list[Kassenbuch]
    platform: Platform


class RechnungsordnerAntwort(Answer):
    data: list[Rechnungsordner]
    platform: Platform


class BelegtypenAntwort(Answer):
    data: list[Belegtyp]
    platform: Platform


@post("/v2/ledger-duo/kassenbuch-advanced", cost=1, errors=ERRORS)
async def create_kassenbucheintrag(
    call: Call, query: ConnectionQuery, body: NeuerKassenbucheintrag
) -> Kassenbucheintrag:
    """Create a cash book entry, with receipt images.

    One entry is made per line, all of them or none. `betrag` is the exact sum of the lines. Entries are numbered without gaps
    and never changed; one that would make the cash balance negative is refused.
    """
    entry = kassenbuch.check(body)
    access = await open_books(call.context, call.principal, query.connection_id)
    async with access.to("kassenbuch") as books, call.charge():
        effect = await books.create_kassenbucheintrag(entry, Author(call.request_id, call.quelle))
        return await call.commit(effect)


@get("/v2/ledger-duo/kassenbuecher", cost=1, free_as_dropdown=True, errors=ERRORS)
async def list_kassenbuecher(call: Call, query: DropdownQuery) -> KassenbuecherAntwort:
    """List the cash books.

    `bezeichnung` is the `kassenname` of a cash book entry.
    """
    access = await open_books(call.context, call.principal, query.connection_id)
    async with call.charge() as charge, access.to("kassenbuch") as books:
        data = await books.kassenbuecher()
    return KassenbuecherAntwort(data=data, platform=charge.platform)


@get("/v2/ledger-duo/rechnungsordner", cost=1, free_as_dropdown=True, errors=ERRORS)
async def list_rechnungsordner(call: Call, query: RechnungsordnerQuery) -> RechnungsordnerAntwort:
    """List the invoice folders, of one kind or both."""
    access = await open_books(call.context, call.principal, query.connection_id)
    async with call.charge() as charge, access.to("kassenbuch") as books:
        data = await books.rechnungsordner(query.ordnertyp)
    return RechnungsordnerAntwort(data=data, platform=charge.platform)


@get("/v2/ledger-duo/belegtypen", errors=ERRORS)
async def list_belegtypen(call: Call, query: ConnectionQuery) -> BelegtypenAntwort:
    """List the document types."""
    access = await open_books(call.context, call.principal, query.connection_id)
    async with call.charge() as charge, access.to("belege") as books:
        data = await books.belegtypen()
    return BelegtypenAntwort(data=data, platform=charge.platform)


@get("/v2/ledger-duo/belegbilder/{id}", errors=ERRORS, media_types=kassenbuch.MEDIA_TYPES)
async def get_belegbild(call: Call, query: ConnectionQuery, id: Uuid) -> Download:
    """Read a receipt image back, byte for byte."""
    access = await open_books(call.context, call.principal, query.connection_id)
    async with access.to("belege") as books:
        image = await books.belegbild(id)
    if image is None:
        raise call.principal.missing("Receipt image")
    return Download(image.content, image.mime_typ, image.dateiname)
