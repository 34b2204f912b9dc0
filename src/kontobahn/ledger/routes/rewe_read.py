"""The calls under /v2/ledger-rewe-read: open items, trial balance, bookings, accounts, terms, VAT figures, profit and loss, rights."""

from __future__ import annotations

from datetime import date
from operator import attrgetter
from typing import Annotated, Literal, cast

from msgspec import Meta, field

from kontobahn.api.answers import Charged, Data, Platform, Ready
from kontobahn.api.call import Call, one_more, page, tell_age
from kontobahn.api.declare import get
from kontobahn.api.wire import Answer, ListQuery, form
from kontobahn.clock import berlin_date
from kontobahn.errors import BadRequest
from kontobahn.json_text import encode
from kontobahn.ledger.buchungen import Buchung
from kontobahn.ledger.connections import (
    ERRORS,
    ClientQuery,
    Dropdown,
    JahrQuery,
    LedgerConnections,
    listing,
    open_books,
    open_client,
)
from kontobahn.ledger.errors import AREAS, Area, ProviderError
from kontobahn.ledger.faelligkeiten import Faelligkeiten
from kontobahn.ledger.opos import EbModus, JoinedOpos, Opos, OposSelection, Side
from kontobahn.ledger.provider import ClientBooks
from kontobahn.ledger.wire import Bwa, Kontonummer, Kontozeile, SusaZeile, Umsatzsteuer, Zahlungsbedingung

# The permission probe: one entry per area of a client's books, from the provider's answer.


# Areas that cannot be probed without a fiscal year.
NEEDS_YEAR: tuple[Area, ...] = ("konten", "buchungen", "susa", "zahlungsbedingungen")
NOT_CHECKABLE = "not checked: the master data, and with it the fiscal year, could not be read"
ProbeStatus = Literal["ok", "permission", "expired", "error", "unknown"]
_STATUSES: dict[int | None, ProbeStatus] = {401: "expired", 403: "permission"}


class ProbeEintrag(Answer):
    status: ProbeStatus
    httpStatus: int | None = None
    maesnType: str | None = None
    message: str | None = None


class Rechte(Answer):
    stammdaten: ProbeEintrag
    konten: ProbeEintrag
    buchungen: ProbeEintrag
    susa: ProbeEintrag
    zahlungsbedingungen: ProbeEintrag
    personenkonten: ProbeEintrag
    kassenbuch: ProbeEintrag
    belege: ProbeEintrag


def classify(error: ProviderError | None) -> ProbeEintrag:
    if error is None:
        return ProbeEintrag(status="ok", httpStatus=200)
    return ProbeEintrag(
        status=_STATUSES.get(error.status, "error"),
        httpStatus=error.status,
        maesnType=error.type,
        message=error.message,
    )


def not_checkable() -> ProbeEintrag:
    return ProbeEintrag(status="unknown", message=NOT_CHECKABLE)


def closed(error: ProviderError) -> Rechte:
    """Returns the areas of books that could not even be opened: the master data has failed with all the rest."""
    return Rechte(**{name: not_checkable() if name in NEEDS_YEAR else classify(error) for name in AREAS})


# Choice 18: unknown for what needs the fiscal year when the master data failed.
async def probe(books: ClientBooks) -> Rechte:
    entries: dict[str, ProbeEintrag] = {}
    jahr: date | None = None
    for area in AREAS:
        if area in NEEDS_YEAR and jahr is None:
            entries[area] = not_checkable()
            continue
        try:
            await books.probe(area, jahr)
            if area == "stammdaten":
                jahr = max((year.start for year in await books.geschaeftsjahre()), default=None)
        except ProviderError as error:
            entries[area] = classify(error)
        else:
            entries[area] = classify(None)
    return Rechte(**entries)


FromId = Annotated[str, form("a number", r"^[0-9]{1,18}$", description="Only what comes after this id.")]

# --- Connections and rights


@get("/v2/ledger-rewe-read/connections", scope="ledger:read", errors=(403, 404))
async def list_rewe_connections(call: Call, query: ListQuery) -> LedgerConnections:
    """List the organisation's accounting connections.

    Their ids are the `connectionId` of the other ledger calls.
    """
    organizations = call.principal.organizations(query.organization_id)
    return LedgerConnections(connections=await call.read_inline(listing, organizations))


@get("/v2/ledger-rewe-read/permissions", scope="ledger:read", errors=ERRORS)
async def get_permissions(call: Call, query: ClientQuery) -> Data[Rechte]:
    """Probe what may be read and written, area by area.

    A connection that has expired is an answer here, not an error.
    """
    try:
        books = await open_client(call.context, call.principal, query.connection_id, query.client_id)
    except ProviderError as error:
        return Data(closed(error))
    return Data(await probe(books))


# --- Open items


# Shorter texts are sent at once.
_PART_BYTES = 1 << 16


class OposQuery(ClientQuery):
    # Choice 16: the names of the four filters.
    stichtag: Annotated[date, Meta(description="Cut-off date; today when omitted.")] | None = None
    filter: Side = "all"
    eb_modus: EbModus = field(default="reconcile", name="ebModus")
    kontonummer: (
        Annotated[str, form("a person account of 5 to 9 digits that does not start with 0", r"^[1-9][0-9]{4,8}$")]
        | None
    ) = None


@get("/v2/ledger-rewe-read/opos", scope="ledger:read", cost=5, may_be_older=True, errors=ERRORS)
async def get_opos(call: Call, query: OposQuery) -> Charged[Opos]:
    """Open items per person account at a cut-off date.

    Of all fiscal years, grouped by person account and document number. Only classic 9-digit person accounts are covered;
    clearings made by hand in another program cannot be seen in the bookings.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    stichtag = query.stichtag or berlin_date(call.context.clock.now())
    async with call.charge() as charge, access.to("buchungen") as books:
        data = await books.offene_posten(OposSelection(stichtag, query.filter, query.eb_modus, query.kontonummer))
        tell_age(call, books.as_of)
    return _in_parts(data, charge.platform) if isinstance(data, JoinedOpos) else Charged(data, platform=charge.platform)


def _in_parts(found: JoinedOpos, platform: Platform) -> Charged[Opos]:
    """Returns the answer as parts, of which the accounts are one as long as they are many."""
    without_accounts = encode(Charged(found.without_accounts(), platform=platform))
    head, begin, end = without_accounts.partition(b'"konten":[')
    parts = (head + begin, found.konten, end)
    return cast(Charged[Opos], Ready(parts if len(found.konten) > _PART_BYTES else [b"".join(parts)]))


@get("/v2/ledger-rewe-read/faelligkeiten", scope="ledger:read", cost=5, may_be_older=True, errors=ERRORS)
async def get_faelligkeiten(call: Call, query: OposQuery) -> Charged[Faelligkeiten]:
    """Open items with due dates, days overdue and discounts, and their sums by age.

    The same items as in `opos`. A due date comes from the booking (`zeile`), from the partner's terms of payment
    (`zahlungsbedingung`) or is the document's date (`belegdatum`).
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    stichtag = query.stichtag or berlin_date(call.context.clock.now())
    async with call.charge() as charge, access.to("buchungen") as books:
        data = await books.faelligkeiten(OposSelection(stichtag, query.filter, query.eb_modus, query.kontonummer))
        tell_age(call, books.as_of)
    return Charged(data, platform=charge.platform)


# --- Fiscal years


class JahrDropdownQuery(JahrQuery):
    zweck: Dropdown | None = None


class SusaQuery(JahrQuery):
    # Choice 17: the account filter is `kontonummer`.
    kontonummer: Kontonummer | None = None


class SeitenQuery(JahrQuery):
    from_id: FromId | None = None
    limit: Annotated[int, Meta(ge=1, le=100_000, description="At most so many; all when omitted.")] | None = None


@get("/v2/ledger-rewe-read/zahlungsbedingungen", scope="ledger:read", cost=1, free_as_dropdown=True, errors=ERRORS)
async def list_zahlungsbedingungen(call: Call, query: JahrDropdownQuery) -> Charged[list[Zahlungsbedingung]]:
    """List the payment terms of a fiscal year."""
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("zahlungsbedingungen") as books:
        data = await books.zahlungsbedingungen(query.geschaeftsjahr_start_datum)
    return Charged(data, platform=charge.platform)


@get("/v2/ledger-rewe-read/susa", scope="ledger:read", cost=1, errors=ERRORS)
async def get_susa(call: Call, query: SusaQuery) -> Charged[list[SusaZeile]]:
    """Trial balance of a fiscal year, or of one account in it.

    Periods 1 to 12 are the months of the fiscal year, 13 closing entries, 14 later corrections.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("susa") as books:
        data = await books.susa(query.geschaeftsjahr_start_datum, query.kontonummer)
    return Charged(data, platform=charge.platform)


# Choice 19: bookings and accounts can be read.
@get(
    "/v2/ledger-rewe-read/buchungen", scope="ledger:read", cost=1, pages_by="from_id", may_be_older=True, errors=ERRORS
)
async def list_buchungen(call: Call, query: SeitenQuery) -> Charged[list[Buchung]]:
    """List the bookings of a fiscal year, ascending by id.

    The last id is the `from_id` of the next page.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("buchungen") as books:
        found = await books.buchungen(query.geschaeftsjahr_start_datum, query.from_id, one_more(query.limit))
        tell_age(call, books.as_of)
    data = page(call, found, query.limit, attrgetter("id"))
    return Charged(data, platform=charge.platform)


@get("/v2/ledger-rewe-read/konten", scope="ledger:read", cost=1, pages_by="from_id", errors=ERRORS)
async def list_konten(call: Call, query: SeitenQuery) -> Charged[list[Kontozeile]]:
    """List the accounts, ledger accounts before person accounts.

    The last `kontonummer` is the `from_id` of the next page.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("konten") as books:
        found = await books.konten(query.geschaeftsjahr_start_datum, query.from_id, one_more(query.limit))
    data = page(call, found, query.limit, attrgetter("kontonummer"))
    return Charged(data, platform=charge.platform)


# --- Reports calculated from the bookings


class UmsatzsteuerQuery(JahrQuery):
    von_datum: Annotated[date, Meta(description="First day; that of the fiscal year when omitted.")] | None = field(
        default=None, name="vonDatum"
    )
    bis_datum: Annotated[date, Meta(description="Last day; that of the fiscal year when omitted.")] | None = field(
        default=None, name="bisDatum"
    )


@get("/v2/ledger-rewe-read/umsatzsteuer", scope="ledger:read", cost=1, errors=ERRORS)
async def get_umsatzsteuer(call: Call, query: UmsatzsteuerQuery) -> Charged[Umsatzsteuer]:
    """VAT figures of a fiscal year, or of days of it, by tax key and automatic account.

    What an adviser checks before a return; it is not a return. What was booked gross, because its key or account was not known, is
    listed too. For a client that is taxed by payments received, output tax on customers' invoices counts on the days of their payments, and
    a payment without an invoice is listed as booked gross.
    """
    von, bis = query.von_datum, query.bis_datum
    if von is not None and bis is not None and bis < von:
        raise BadRequest("The query parameter `bisDatum` is before `vonDatum`.", field="bisDatum")
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("buchungen") as books:
        data = await books.umsatzsteuer(query.geschaeftsjahr_start_datum, von, bis)
    return Charged(data, platform=charge.platform)


class BwaQuery(JahrQuery):
    bis_periode: Annotated[int, Meta(ge=1, le=14, description="Last period; 12 when omitted.")] = field(
        default=12, name="bisPeriode"
    )


@get("/v2/ledger-rewe-read/bwa", scope="ledger:read", cost=1, errors=ERRORS)
async def get_bwa(call: Call, query: BwaQuery) -> Charged[Bwa]:
    """A simple profit and loss of a fiscal year, by period and cumulated.

    By the numbers of the chart of accounts. Accounts that fit no line are listed, so the result is always that of all accounts.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("susa") as books:
        data = await books.bwa(query.geschaeftsjahr_start_datum, query.bis_periode)
    return Charged(data, platform=charge.platform)
