"""The calls under /v2/ledger-rewe and /v2/ledger-rewe-read: person accounts, open items, trial balance, bookings,
accounts, VAT figures, profit and loss.
"""

from __future__ import annotations

import asyncio
from datetime import date
from operator import attrgetter
from typing import Annotated

from msgspec import Meta, field

from kontobahn.api.call import Call, Platform
from kontobahn.api.declare import get, post
from kontobahn.api.paging import one_more, page
from kontobahn.api.wire import Answer, form
from kontobahn.clock import berlin_date
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.ledger import personenkonto
from kontobahn.ledger.accounting import Buchung, Kontonummer, Kontozeile, SusaZeile, Zahlungsbedingung
from kontobahn.ledger.auswertung import Bwa, Umsatzsteuer
from kontobahn.ledger.connections import ERRORS, ClientQuery, Dropdown, open_books
from kontobahn.ledger.faelligkeit import Faelligkeiten
from kontobahn.ledger.opos import EbModus, Opos, OposSelection, Side
from kontobahn.ledger.personenkonto import Personenkonto, PersonenkontoAntwort
from kontobahn.ledger.provider import Author, Effect

FromId = Annotated[str, form("a number", r"^[0-9]{1,18}$", description="Only what comes after this id.")]

# --- Person accounts


@post(
    "/v2/ledger-rewe/personenkonto",
    scope="ledger:write",
    cost=1,
    statuses=(201, 200),
    one_of=("firmenname", "kontaktpersonen"),
    errors=ERRORS,
    body_example={
        "personenkontoNummer": "10010",
        "kontaktTyp": "COMPANY",
        "kontenrahmen": "SKR03",
        "kontonummernLaenge": 4,
        "geschaeftsjahrStartDatum": "2026-01-01",
        "firmenname": "Muster GmbH",
        "ustId": "DE136695976",
    },
)
async def save_personenkonto(call: Call, query: ClientQuery, body: Personenkonto) -> PersonenkontoAntwort:
    """Create or replace a business partner.

    The number within connection and client says which: not there, it is created (201); there, the whole record is replaced (200)
    and the old one kept.
    """
    # In a thread: the first check of an IBAN loads the register of banks.
    await asyncio.to_thread(personenkonto.check, body)
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with access.to("personenkonten") as books, call.charge():
        effect = await books.save_personenkonto(body, Author(call.request_id, call.quelle))
        return await call.commit(_with_status, call, effect)


def _with_status(tx: Tx, call: Call, effect: Effect[tuple[PersonenkontoAntwort, bool]]) -> PersonenkontoAntwort:
    answer, created = effect(tx)
    # Choice 2: 201 created, 200 updated.
    call.status = 201 if created else 200
    return answer


# --- Open items


class OposQuery(ClientQuery):
    # Choice 16: the names of the four filters.
    stichtag: Annotated[date, Meta(description="Cut-off date; today when omitted.")] | None = None
    filter: Side = "all"
    eb_modus: EbModus = field(default="reconcile", name="ebModus")
    kontonummer: (
        Annotated[str, form("a person account of 5 to 9 digits that does not start with 0", r"^[1-9][0-9]{4,8}$")]
        | None
    ) = None


class OposAntwort(Answer):
    data: Opos
    platform: Platform


@get("/v2/ledger-rewe-read/opos", scope="ledger:read", cost=5, errors=ERRORS)
async def get_opos(call: Call, query: OposQuery) -> OposAntwort:
    """Open items per person account at a cut-off date.

    Of all fiscal years, grouped by person account and document number. Only classic 9-digit person accounts are covered;
    clearings made by hand in another program cannot be seen in the bookings.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    stichtag = query.stichtag or berlin_date(call.context.clock.now())
    async with call.charge() as charge, access.to("buchungen") as books:
        data = await books.offene_posten(OposSelection(stichtag, query.filter, query.eb_modus, query.kontonummer))
    return OposAntwort(data=data, platform=charge.platform)


class FaelligkeitenAntwort(Answer):
    data: Faelligkeiten
    platform: Platform


@get("/v2/ledger-rewe-read/faelligkeiten", scope="ledger:read", cost=5, errors=ERRORS)
async def get_faelligkeiten(call: Call, query: OposQuery) -> FaelligkeitenAntwort:
    """Open items with due dates, days overdue and discounts, and their sums by age.

    The same items as in `opos`. A due date comes from the booking (`zeile`), from the partner's terms of payment
    (`zahlungsbedingung`) or is the document's date (`belegdatum`).
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    stichtag = query.stichtag or berlin_date(call.context.clock.now())
    async with call.charge() as charge, access.to("buchungen") as books:
        data = await books.faelligkeiten(OposSelection(stichtag, query.filter, query.eb_modus, query.kontonummer))
    return FaelligkeitenAntwort(data=data, platform=charge.platform)


# --- What a fiscal year holds


class JahrQuery(ClientQuery, kw_only=True):
    geschaeftsjahr_start_datum: Annotated[date, Meta(description="First day of the fiscal year.")] = field(
        name="geschaeftsjahrStartDatum"
    )


class JahrDropdownQuery(JahrQuery):
    zweck: Dropdown | None = None


class SusaQuery(JahrQuery):
    # Choice 17: the account filter is `kontonummer`.
    kontonummer: Kontonummer | None = None


class SeitenQuery(JahrQuery):
    from_id: FromId | None = None
    limit: Annotated[int, Meta(ge=1, le=100_000)] | None = None


class ZahlungsbedingungenAntwort(Answer):
    data: list[Zahlungsbedingung]
    platform: Platform


class SusaAntwort(Answer):
    data: list[SusaZeile]
    platform: Platform


class BuchungenAntwort(Answer):
    data: list[Buchung]
    platform: Platform


class KontenAntwort(Answer):
    data: list[Kontozeile]
    platform: Platform


@get("/v2/ledger-rewe-read/zahlungsbedingungen", scope="ledger:read", cost=1, free_as_dropdown=True, errors=ERRORS)
async def list_zahlungsbedingungen(call: Call, query: JahrDropdownQuery) -> ZahlungsbedingungenAntwort:
    """List the payment terms of a fiscal year."""
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("zahlungsbedingungen") as books:
        data = await books.zahlungsbedingungen(query.geschaeftsjahr_start_datum)
    return ZahlungsbedingungenAntwort(data=data, platform=charge.platform)


@get("/v2/ledger-rewe-read/susa", scope="ledger:read", cost=1, errors=ERRORS)
async def get_susa(call: Call, query: SusaQuery) -> SusaAntwort:
    """Trial balance of a fiscal year, or of one account in it.

    Periods 1 to 12 are the months of the fiscal year, 13 closing entries, 14 later corrections.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("susa") as books:
        data = await books.susa(query.geschaeftsjahr_start_datum, query.kontonummer)
    return SusaAntwort(data=data, platform=charge.platform)


# Choice 19: bookings and accounts can be read.
@get("/v2/ledger-rewe-read/buchungen", scope="ledger:read", cost=1, pages_by="from_id", errors=ERRORS)
async def list_buchungen(call: Call, query: SeitenQuery) -> BuchungenAntwort:
    """List the bookings of a fiscal year, ascending by id.

    The last id is the `from_id` of the next page.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("buchungen") as books:
        found = await books.buchungen(query.geschaeftsjahr_start_datum, query.from_id, one_more(query.limit))
    data = page(call, found, query.limit, attrgetter("id"))
    return BuchungenAntwort(data=data, platform=charge.platform)


@get("/v2/ledger-rewe-read/konten", scope="ledger:read", cost=1, pages_by="from_id", errors=ERRORS)
async def list_konten(call: Call, query: SeitenQuery) -> KontenAntwort:
    """List the accounts, ledger accounts before person accounts.

    The last `kontonummer` is the `from_id` of the next page.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("konten") as books:
        found = await books.konten(query.geschaeftsjahr_start_datum, query.from_id, one_more(query.limit))
    data = page(call, found, query.limit, attrgetter("kontonummer"))
    return KontenAntwort(data=data, platform=charge.platform)


# --- Reports calculated from the bookings


class UmsatzsteuerQuery(JahrQuery):
    von_datum: Annotated[date, Meta(description="First day; that of the fiscal year when omitted.")] | None = field(
        default=None, name="vonDatum"
    )
    bis_datum: Annotated[date, Meta(description="Last day; that of the fiscal year when omitted.")] | None = field(
        default=None, name="bisDatum"
    )


class UmsatzsteuerAntwort(Answer):
    data: Umsatzsteuer
    platform: Platform


@get("/v2/ledger-rewe-read/umsatzsteuer", scope="ledger:read", cost=1, errors=ERRORS)
async def get_umsatzsteuer(call: Call, query: UmsatzsteuerQuery) -> UmsatzsteuerAntwort:
    """VAT figures of a fiscal year, or of days of it, by tax key and automatic account.

    What an adviser checks before a return; it is not a return. What was booked gross, because its key or account was not known, is
    listed too.
    """
    von, bis = query.von_datum, query.bis_datum
    if von is not None and bis is not None and bis < von:
        raise BadRequest("The query parameter `bisDatum` is before `vonDatum`.", field="bisDatum")
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("buchungen") as books:
        data = await books.umsatzsteuer(query.geschaeftsjahr_start_datum, von, bis)
    return UmsatzsteuerAntwort(data=data, platform=charge.platform)


class BwaQuery(JahrQuery):
    bis_periode: Annotated[int, Meta(ge=1, le=14, description="Last period; 12 when omitted.")] = field(
        default=12, name="bisPeriode"
    )


class BwaAntwort(Answer):
    data: Bwa
    platform: Platform


@get("/v2/ledger-rewe-read/bwa", scope="ledger:read", cost=1, errors=ERRORS)
async def get_bwa(call: Call, query: BwaQuery) -> BwaAntwort:
    """A simple profit and loss of a fiscal year, by period and cumulated.

    By the numbers of the chart of accounts. Accounts that fit no line are listed, so the result is always that of all accounts.
    """
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with call.charge() as charge, access.to("susa") as books:
        data = await books.bwa(query.geschaeftsjahr_start_datum, query.bis_periode)
    return BwaAntwort(data=data, platform=charge.platform)
