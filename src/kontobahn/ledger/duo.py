"""The calls under /v2/ledger-duo: cash books, folders, document types and receipt images."""

from __future__ import annotations

from datetime import date
from operator import attrgetter
from typing import Annotated

from msgspec import Meta

from kontobahn.api.call import Call, Platform
from kontobahn.api.declare import BODY_WITH_RECEIPTS, get, post
from kontobahn.api.paging import one_more, page
from kontobahn.api.wire import Answer, Download, Uuid, check_date_range, form
from kontobahn.db import Tx
from kontobahn.ledger import kassenbuch
from kontobahn.ledger.accounting import NOT_YET_KNOWN
from kontobahn.ledger.connections import ERRORS, ClientQuery, Dropdown, open_books
from kontobahn.ledger.kassenbuch import (
    Belegtyp,
    Kassenbuch,
    Kassenbucheintrag,
    KassenbuchSelection,
    Kassenbuchzeile,
    Kassenname,
    NeuerKassenbucheintrag,
    Ordnertyp,
    Rechnungsordner,
    Storno,
)
from kontobahn.ledger.provider import Author, Effect

Eintragsnummer = Annotated[str, form("the number of an entry", r"^[1-9][0-9]{0,17}$", examples=["17"])]


class DropdownQuery(ClientQuery):
    zweck: Dropdown | None = None


class RechnungsordnerQuery(DropdownQuery):
    # Choice 14: the folder filter is `ordnertyp`.
    ordnertyp: Ordnertyp | None = None


class KassenbuchQuery(ClientQuery, kw_only=True):
    kassenname: Kassenname
    from_date: Annotated[date, Meta(description="First day of entries.")] | None = None
    to_date: Annotated[date, Meta(description="Last day of entries.")] | None = None
    from_id: (
        Annotated[str, form("a number", r"^[0-9]{1,18}$", description="Only entries after this number.")] | None
    ) = None
    limit: Annotated[int, Meta(ge=1, le=100_000)] | None = None


class KassenbuchAntwort(Answer):
    data: list[Kassenbuchzeile]
    platform: Platform


class StornoAntwort(Answer):
    data: Kassenbuchzeile
    platform: Platform = NOT_YET_KNOWN


class KassenbuecherAntwort(Answer):
    data: list[Kassenbuch]
    platform: Platform


class RechnungsordnerAntwort(Answer):
    data: list[Rechnungsordner]
    platform: Platform


class BelegtypenAntwort(Answer):
    data: list[Belegtyp]
    platform: Platform


@post(
    "/v2/ledger-duo/kassenbuch-advanced",
    scope="ledger:write",
    cost=1,
    max_body_bytes=BODY_WITH_RECEIPTS,
    errors=ERRORS,
    body_example={
        "waehrung": "EUR",
        "kassenname": "Hauptkasse",
        "betrag": 119,
        "transaktionsdatum": "2026-03-31T09:30:00Z",
        "belegzeilen": [{"belegtext": "Barverkauf", "gegenkonto": "8400", "betrag": 119}],
    },
)
async def create_kassenbucheintrag(call: Call, query: ClientQuery, body: NeuerKassenbucheintrag) -> Kassenbucheintrag:
    """Create a cash book entry, with receipt images.

    One entry is made per line, all of them or none. `betrag` is the exact sum of the lines. Entries are numbered without gaps
    and never changed; one that would make the cash balance negative is refused.
    """
    entry = await call.off_loop(kassenbuch.check, body)
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with access.to("kassenbuch") as books, call.charge():
        effect = await books.create_kassenbucheintrag(entry, Author(call.request_id, call.quelle))
        return await call.commit(effect)


@get("/v2/ledger-duo/kassenbuch", scope="ledger:read", cost=1, pages_by="from_id", errors=ERRORS)
async def list_kassenbucheintraege(call: Call, query: KassenbuchQuery) -> KassenbuchAntwort:
    """List the entries of a cash book, ascending by number.

    With receipts, the balance after each, and what reverses what. The last `nummer` is the `from_id` of the next page.
    """
    check_date_range(query.from_date, query.to_date)
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    selection = KassenbuchSelection(
        query.kassenname, query.from_date, query.to_date, int(query.from_id or 0), one_more(query.limit)
    )
    async with call.charge() as charge, access.to("kassenbuch") as books:
        data = page(call, await books.kassenbuchzeilen(selection), query.limit, attrgetter("nummer"))
    return KassenbuchAntwort(data=data, platform=charge.platform)


@post("/v2/ledger-duo/kassenbuch/{nummer}/storno", scope="ledger:write", cost=1, errors=ERRORS)
async def reverse_kassenbucheintrag(
    call: Call, query: ClientQuery, body: Storno, nummer: Eintragsnummer
) -> StornoAntwort:
    """Reverse a cash book entry by its opposite, dated today.

    Entries are never changed. One that is reversed already, or whose reversal would make the cash balance negative, is refused.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with access.to("kassenbuch") as books, call.charge():
        effect = await books.reverse_kassenbucheintrag(int(nummer), body, Author(call.request_id, call.quelle))
        return await call.commit(_reversed, effect)


def _reversed(tx: Tx, effect: Effect[Kassenbuchzeile]) -> StornoAntwort:
    return StornoAntwort(data=effect(tx))


@get("/v2/ledger-duo/kassenbuecher", scope="ledger:read", cost=1, free_as_dropdown=True, errors=ERRORS)
async def list_kassenbuecher(call: Call, query: DropdownQuery) -> KassenbuecherAntwort:
    """List the cash books.

    `bezeichnung` is the `kassenname` of a cash book entry.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("kassenbuch") as books:
        data = await books.kassenbuecher()
    return KassenbuecherAntwort(data=data, platform=charge.platform)


@get("/v2/ledger-duo/rechnungsordner", scope="ledger:read", cost=1, free_as_dropdown=True, errors=ERRORS)
async def list_rechnungsordner(call: Call, query: RechnungsordnerQuery) -> RechnungsordnerAntwort:
    """List the invoice folders, of one kind or both."""
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("kassenbuch") as books:
        data = await books.rechnungsordner(query.ordnertyp)
    return RechnungsordnerAntwort(data=data, platform=charge.platform)


@get("/v2/ledger-duo/belegtypen", scope="ledger:read", errors=ERRORS)
async def list_belegtypen(call: Call, query: ClientQuery) -> BelegtypenAntwort:
    """List the document types."""
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("belege") as books:
        data = await books.belegtypen()
    return BelegtypenAntwort(data=data, platform=charge.platform)


@get("/v2/ledger-duo/belegbilder/{id}", scope="ledger:read", errors=ERRORS, media_types=kassenbuch.MEDIA_TYPES)
async def get_belegbild(call: Call, query: ClientQuery, id: Uuid) -> Download:
    """Read a receipt image back, byte for byte."""
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with access.to("belege") as books:
        image = await books.belegbild(id)
    if image is None:
        raise call.principal.missing("Receipt image")
    return Download(image.content, image.mime_typ, image.dateiname)
