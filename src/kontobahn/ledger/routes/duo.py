"""The calls under /v2/ledger-duo: cash books, folders, document types and receipt images."""

from __future__ import annotations

from datetime import date
from operator import attrgetter
from typing import Annotated, Literal

from msgspec import Meta

from kontobahn.api.answers import Charged, Data
from kontobahn.api.call import Call, one_more, page, tell_age
from kontobahn.api.declare import BODY_WITH_RECEIPTS, get, post
from kontobahn.api.wire import Download, ListQuery, Uuid, check_date_range, form
from kontobahn.db import Tx
from kontobahn.ledger import connections, kassenbuch, transmissions
from kontobahn.ledger.connections import (
    ERRORS,
    Another,
    ClientQuery,
    ConnectionQuery,
    Dropdown,
    LedgerConnections,
    listing,
    open_books,
)
from kontobahn.ledger.kassenbuch import (
    Belegtyp,
    Kassenbericht,
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
from kontobahn.ledger.provider import Author, Effect, TransmittingBooks
from kontobahn.ledger.transmissions import Uebermittlung, view


# Choice 14: as the rewe-read one.
@get("/v2/ledger-duo/connections", scope="ledger:read", errors=(403, 404))
async def list_duo_connections(call: Call, query: ListQuery) -> LedgerConnections:
    """List the organisation's cash book and document connections.

    Their ids are the `connectionId` of the other ledger calls.
    """
    organizations = call.principal.organizations(query.organization_id)
    return LedgerConnections(connections=await call.read_inline(listing, organizations))


Eintragsnummer = Annotated[str, form("the number of an entry", r"^[1-9][0-9]{0,17}$", examples=["17"])]


class DropdownQuery(ClientQuery):
    zweck: Dropdown | None = None


class RechnungsordnerQuery(DropdownQuery):
    # Choice 14: the folder filter is `ordnertyp`.
    ordnertyp: Ordnertyp | None = None


class KassenbuchQuery(ClientQuery, kw_only=True):
    kassenname: Kassenname
    from_date: Annotated[date, Meta(description="First day.")] | None = None
    to_date: Annotated[date, Meta(description="Last day.")] | None = None
    from_id: (
        Annotated[
            str,
            form(
                "the id of a row, or the number of an entry", r"^([0-9]{1,18}|[0-9]{4}-[0-9]{2}-[0-9]{2}\.[0-9]{1,18})$",
                description="Only rows after this one: its `id`, or an entry's `nummer`.",
            ),
        ]
        | None
    ) = None  # fmt: skip
    sort: Annotated[
        Literal["datum", "nummer"],
        Meta(description="`datum`: everything on the account, by day. `nummer`: entries alone, in the order of entry."),
    ] = "datum"
    limit: Annotated[int, Meta(ge=1, le=100_000, description="At most so many; all when omitted.")] | None = None


class UebermittlungenQuery(ClientQuery):
    from_id: Annotated[Uuid, Meta(description="Only what came before this one.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class NewEntryQuery(ClientQuery):
    another: Another = False


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
async def create_kassenbucheintrag(call: Call, query: NewEntryQuery, body: NeuerKassenbucheintrag) -> Kassenbucheintrag:
    """Create a cash book entry, with receipt images.

    One entry is made per line, all of them or none. `betrag` is the exact sum of the lines. Entries are numbered without gaps
    and never changed; one that would make the cash balance negative is refused. So is one that a file or call has booked already
    (same day, accounts, amount and document), unless `another` is said; equal entries of the cash book itself are taken.

    A provider such as DATEV takes minutes: if the outcome is not there in time, the `status` of `ledgerAntwort` is `OPEN` or
    `IN_PROGRESS`, and its `uebermittlungId` says what to ask after. It is charged when it is done, and not if it fails. Send an
    `Idempotency-Key`: repeated with it, the entry is made once, and the answer is the outcome.
    """
    entry = (await call.off_loop(kassenbuch.check, body))._replace(another=query.another)
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    author = Author(call.request_id, call.quelle)
    async with access.to("kassenbuch") as books:
        if isinstance(books, TransmittingBooks):
            sent = await transmissions.send(call, await books.outgoing_cash_entry(entry), author)
            answer = books.cash_entry_answer(sent, await call.read(transmissions.images_of, sent))
            answer.platform = await transmissions.balance(call)
            return answer
        async with call.charge():
            return await call.commit(await books.create_kassenbucheintrag(entry, author))


@get("/v2/ledger-duo/kassenbuch", scope="ledger:read", cost=1, pages_by="from_id", errors=ERRORS)
async def list_kassenbucheintraege(call: Call, query: KassenbuchQuery) -> Kassenbericht:
    """List what is on the account of a cash book, by day, with the balance after each row.

    Entries of the cash book have a `nummer`; bookings of files and calls on its account are listed among them. `anfangsbestand` and
    the amounts add up to `endbestand`. The last `id` is the `from_id` of the next page. To follow new entries, whatever their day,
    use `sort=nummer`, and the last `nummer` as `from_id`.
    """
    check_date_range(query.from_date, query.to_date)
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    selection = KassenbuchSelection(
        query.kassenname, query.from_date, query.to_date, query.from_id or "", one_more(query.limit), query.sort
    )
    async with call.charge() as charge, access.to("kassenbuch") as books:
        found = await books.kassenbuchzeilen(selection)
        by_number = query.sort == "nummer"
        data = page(call, found.zeilen, query.limit, attrgetter("nummer" if by_number else "id"))
    endbestand = data[-1].saldo if data and not by_number else found.endbestand
    return Kassenbericht(
        data=data, anfangsbestand=found.anfangsbestand, endbestand=endbestand, platform=charge.platform
    )


@post("/v2/ledger-duo/kassenbuch/{nummer}/storno", scope="ledger:write", cost=1, errors=ERRORS)
async def reverse_kassenbucheintrag(
    call: Call, query: ClientQuery, body: Storno, nummer: Eintragsnummer
) -> Charged[Kassenbuchzeile]:
    """Reverse a cash book entry by its opposite, dated today.

    Entries are never changed. One that is reversed already, or whose reversal would make the cash balance negative, is refused.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with access.to("kassenbuch") as books, call.charge():
        effect = await books.reverse_kassenbucheintrag(int(nummer), body, Author(call.request_id, call.quelle))
        return await call.commit(_reversed, effect)


def _reversed(tx: Tx, effect: Effect[Kassenbuchzeile]) -> Charged[Kassenbuchzeile]:
    return Charged(effect(tx))


@get(
    "/v2/ledger-duo/kassenbuecher", scope="ledger:read", cost=1, free_as_dropdown=True, may_be_older=True, errors=ERRORS
)
async def list_kassenbuecher(call: Call, query: DropdownQuery) -> Charged[list[Kassenbuch]]:
    """List the cash books.

    `bezeichnung` is the `kassenname` of a cash book entry.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("kassenbuch") as books:
        data = await books.kassenbuecher()
        tell_age(call, books.as_of)
    return Charged(data, platform=charge.platform)


@get(
    "/v2/ledger-duo/rechnungsordner",
    scope="ledger:read",
    cost=1,
    free_as_dropdown=True,
    may_be_older=True,
    errors=ERRORS,
)
async def list_rechnungsordner(call: Call, query: RechnungsordnerQuery) -> Charged[list[Rechnungsordner]]:
    """List the invoice folders, of one kind or both."""
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("kassenbuch") as books:
        data = await books.rechnungsordner(query.ordnertyp)
        tell_age(call, books.as_of)
    return Charged(data, platform=charge.platform)


@get("/v2/ledger-duo/belegtypen", scope="ledger:read", errors=ERRORS)
async def list_belegtypen(call: Call, query: ClientQuery) -> Charged[list[Belegtyp]]:
    """List the document types."""
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("belege") as books:
        data = await books.belegtypen()
    return Charged(data, platform=charge.platform)


_SENT = {
    "id": "0193b2a0-0000-7000-8000-000000000071", "clientId": "29098-55003", "art": "KASSENBUCH",
    "bezeichnung": "Hauptkasse: Barverkauf 119.00", "status": "SUCCESS",
    "meldungen": [
        {
            "dateiname": "Quittung.pdf", "nachricht": "wurde empfangen!", "zeitstempel": "2026-03-31T09:32:00Z", "typ": "INFO",
        }
    ],
    "erstelltAm": "2026-03-31T09:30:00Z", "aktualisiertAm": "2026-03-31T09:32:00Z",
}  # fmt: skip


@get(
    "/v2/ledger-duo/uebermittlungen",
    scope="ledger:read",
    pages_by="from_id",
    errors=(403, 404),
    example={"data": [_SENT]},
)
async def list_uebermittlungen(call: Call, query: UebermittlungenQuery) -> Data[list[Uebermittlung]]:
    """List what was sent to a provider that carries it out in its own time, the latest first, with what became of it.

    The last id is the `from_id` of the next page. The built-in books do everything at once: nothing is listed for them.
    """
    connection = await call.read_inline(connections.find, call.principal, query.connection_id)
    before = query.from_id.lower() if query.from_id else None
    found = await call.read(transmissions.listing, connection, query.client_id, before, query.limit + 1)
    return Data([view(row) for row in page(call, found, query.limit, attrgetter("id"))])


@get("/v2/ledger-duo/uebermittlungen/{id}", scope="ledger:read", errors=(403, 404), example={"data": _SENT})
async def get_uebermittlung(call: Call, query: ConnectionQuery, id: Uuid) -> Data[Uebermittlung]:
    """Read one of them, with its status and the provider's protocol."""
    connection = await call.read_inline(connections.find, call.principal, query.connection_id)
    found = await call.read(transmissions.find, connection, id)
    if found is None:
        raise call.principal.missing("Transmission")
    return Data(view(found))


@get("/v2/ledger-duo/belegbilder/{id}", scope="ledger:read", errors=ERRORS, media_types=kassenbuch.MEDIA_TYPES)
async def get_belegbild(call: Call, query: ClientQuery, id: Uuid) -> Download:
    """Read a receipt image back, byte for byte."""
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with access.to("belege") as books:
        image = await books.belegbild(id)
    if image is None:
        raise call.principal.missing("Receipt image")
    return Download(image.content, image.mime_typ, image.dateiname)
