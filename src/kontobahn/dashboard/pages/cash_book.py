"""The cash book: a month at a time, made to be printed; entries with a photo of the receipt, and reversing one."""

from __future__ import annotations

import base64
from calendar import monthrange
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.api.wire import Download, Upload
from kontobahn.clock import start_of_day, to_datetime
from kontobahn.dashboard import books
from kontobahn.dashboard.books import ChosenBooks, plain
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.form_keys import ask_once, new_key
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.pages.ledger_connections import STATES, TO_DO
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _
from kontobahn.db import Tx
from kontobahn.errors import Conflict, TooLarge
from kontobahn.ledger import connections, transmissions
from kontobahn.ledger.kassenbuch import (
    MAX_IMAGE_BYTES,
    Belegbild,
    Kassenbericht,
    Kassenbuch,
    Kassenbuchzeile,
    Kurztext,
    NeueBelegzeile,
    NeuerKassenbucheintrag,
    NeuesBelegbild,
    Steuersatz,
    Storno,
)
from kontobahn.ledger.provider import ConnectionRef, Ledger
from kontobahn.ledger.routes import duo
from kontobahn.ledger.routes.duo import DropdownQuery, KassenbuchQuery, NewEntryQuery
from kontobahn.ledger.transmissions import Uebermittlung, view
from kontobahn.ledger.wire import Kontonummer

PATH = f"{ROOT}/cash-book"
# A month of a shop that writes every sale; more than that is shown in parts.
MAX_ENTRIES = 5_000


class NewEntry(Struct):
    day: date
    text: Kurztext
    amount: Decimal
    account: Kontonummer
    direction: Literal["in", "out"] = "out"
    document: Annotated[str, Meta(max_length=36)] = ""
    tax_key: Annotated[str, Meta(max_length=4)] = ""
    another: bool = False


class Reversal(Struct):
    reason: Kurztext


class CashMonth(NamedTuple):
    """A month of a cash book, or the part of one that is shown: its opening balance and its rows add up to its closing balance."""

    name: str
    names: list[str]
    first: date
    entries: list[Kassenbuchzeile]
    opening: Decimal = Decimal()
    closing: Decimal = Decimal()
    # The places after which this part and the next one begin; both are empty if the month is shown as a whole.
    after: str = ""
    goes_on_after: str = ""
    # Entries are sent to a provider that carries them out in its own time, and whose rows cannot be read.
    is_sent: bool = False

    @property
    def last(self) -> date:
        return self.first.replace(day=monthrange(self.first.year, self.first.month)[1])

    @property
    def taken(self) -> Decimal:
        return sum((entry.betrag for entry in self._moved if entry.betrag > 0), Decimal())

    @property
    def spent(self) -> Decimal:
        return sum((-entry.betrag for entry in self._moved if entry.betrag < 0), Decimal())

    @property
    def carried_over(self) -> Decimal:
        """The change by the opening balance of a fiscal year that begins within the month."""
        return self.closing - self.opening - self.taken + self.spent

    @property
    def _moved(self) -> list[Kassenbuchzeile]:
        return [entry for entry in self.entries if entry.art != "SALDOVORTRAG"]

    def month(self, step: int) -> str:
        """The month before or after, as the address names it."""
        number = self.first.year * 12 + self.first.month - 1 + step
        return f"{number // 12:04d}-{number % 12 + 1:02d}"


@page("/cash-book", help="cash-book")
async def cash_book(visit: Visit) -> Response:
    chosen = await books.choose(visit)
    found = await _month(visit, chosen)
    if found is None:
        return visit.show("no_cash_book.html", chosen=chosen)
    if found.is_sent:
        return await _show_sent(visit, chosen, found)
    return visit.show("cash_book.html", chosen=chosen, month=found, url=_url(chosen, found))


class SentFilters(Struct):
    """The books and the cash book in the address, which the pages of the list keep."""

    connection: str = ""
    client: str = ""
    year: str = ""
    kasse: str = ""


class SentEntry(NamedTuple):
    sent: Uebermittlung
    receipts: list[Belegbild]


async def _show_sent(visit: Visit, chosen: ChosenBooks, found: CashMonth) -> Response:
    """The entries that were sent from here: the cash book itself is kept elsewhere."""
    connection = await visit.read(connections.find, visit.principal, chosen.connection.id)
    filters = visit.filters(SentFilters)
    rows = await visit.read(_sent_entries, connection, chosen.client_id, filters.after or None)
    return visit.show(
        "cash_book_sent.html",
        chosen=chosen,
        month=found,
        connection=connection,
        list=filters.first_page(rows, lambda one: one.sent.id),
        states=STATES,
        to_do=TO_DO,
    )


def _sent_entries(tx: Tx, connection: ConnectionRef, client_id: str | None, before: str | None) -> list[SentEntry]:
    rows = transmissions.listing(tx, connection, client_id, before, PAGE_SIZE + 1, "KASSENBUCH")
    return [SentEntry(view(row), transmissions.images_of(tx, row)) for row in rows]


@page("/cash-book/new", role="bookkeeping", help="cash-book")
async def new_entry_page(visit: Visit) -> Response:
    return await _show_form(visit)


@action("/cash-book/new", takes_file=True)
async def make_entry(visit: Visit) -> Response:
    upload = await visit.receive_optional_file()
    chosen = await books.choose(visit)
    found = await _month(visit, chosen)
    wanted = visit.form.read(NewEntry)
    if wanted is not None and found is not None:
        with visit.form.refusals(transaktionsdatum="day", betrag="amount"):
            body = _body(found.name, wanted, upload)
            query = NewEntryQuery(**chosen.query, another=wanted.another)
            answer = await ask_once(visit, duo.create_kassenbucheintrag, query=query, body=body)
            if answer["ledgerAntwort"]["status"] != "SUCCESS":
                return _follow_up(visit, chosen, answer["ledgerAntwort"]["status"])
            month = f"{wanted.day:%Y-%m}"
            return visit.redirect(chosen.url(PATH, kasse=found.name, month=month), _("The entry is in the cash book."))
    return await _show_form(visit)


def _follow_up(visit: Visit, chosen: ChosenBooks, status: str) -> Response:
    """Leads to the list where the outcome appears by itself."""
    path = f"{ROOT}/ledger/connections/{chosen.connection.id}/transmissions"
    if status == "PARTIAL_SUCCESS":
        return visit.redirect(path, _("Only a part of the entry was booked. This page says what is missing."), "bad")
    return visit.redirect(path, _("The entry was sent. Its outcome appears here; do not send it again."))


async def _show_form(visit: Visit) -> Response:
    chosen = await books.choose(visit)
    found = await _month(visit, chosen)
    if found is None:
        return visit.show("no_cash_book.html", chosen=chosen)
    key = visit.form.text("once") or new_key()
    return visit.show("cash_entry.html", chosen=chosen, month=found, url=_url(chosen, found), once=key)


@page("/cash-book/{number}/reverse", role="bookkeeping", help="cash-book")
async def reverse_page(visit: Visit, number: str) -> Response:
    return await _show_reversal(visit, number)


@action("/cash-book/{number}/reverse")
async def reverse_entry(visit: Visit, number: str) -> Response:
    chosen = await books.choose(visit)
    found = await _month(visit, chosen)
    wanted = visit.form.read(Reversal)
    if wanted is not None and found is not None:
        with visit.form.refusals(grund="reason"):
            body = Storno(kassenname=found.name, grund=wanted.reason)
            await ask_once(
                visit, duo.reverse_kassenbucheintrag, query=books.query_of(chosen), body=body, nummer=number
            )  # fmt: skip
            return visit.redirect(_url(chosen, found), _("The entry has been reversed by an opposite entry."))
    return await _show_reversal(visit, number)


async def _show_reversal(visit: Visit, number: str) -> Response:
    chosen = await books.choose(visit)
    found = await _month(visit, chosen)
    entry = await _entry(visit, chosen, found.name, number) if found else None
    if found is None or entry is None:
        raise visit.principal.missing("Entry")
    key = visit.form.text("once") or new_key()
    return visit.show("cash_reversal.html", chosen=chosen, month=found, entry=entry, url=_url(chosen, found), once=key)


async def _entry(visit: Visit, chosen: ChosenBooks, name: str, number: str) -> Kassenbuchzeile | None:
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        return None
    query = KassenbuchQuery(
        **chosen.query, kassenname=name, sort="nummer", from_id=str(max(int(number) - 1, 0)), limit=1
    )
    answer = await visit.ask(duo.list_kassenbucheintraege, query=query)
    return next((entry for entry in plain(answer.data, list[Kassenbuchzeile]) if str(entry.nummer) == number), None)


@page("/cash-book/receipts/{id}")
async def receipt(visit: Visit, id: str) -> Response:
    """A photo or a PDF to look at; what a browser could run is only ever saved."""
    chosen = await books.choose(visit)
    found: Download = await visit.ask(duo.get_belegbild, query=books.query_of(chosen), id=id.lower())
    return visit.framed(found.content, found.media_type, found.file_name)


async def _month(visit: Visit, chosen: ChosenBooks) -> CashMonth | None:
    """The cash book and the month that the address names; None if there is no cash book."""
    listed = await visit.ask(duo.list_kassenbuecher, query=DropdownQuery(**chosen.query))
    names = [book.bezeichnung for book in plain(listed.data, list[Kassenbuch])]
    if not names:
        return None
    asked = visit.form.text("kasse") or (visit.query.get("kasse") or [""])[-1]
    name = asked if asked in names else names[0]
    wanted = _first_day(visit.form.text("month") or (visit.query.get("month") or [""])[-1])
    after = (visit.query.get("after") or [""])[-1]
    month = CashMonth(name, names, wanted or visit.today.replace(day=1), [], after=after if wanted else "")
    connection = await visit.read(connections.find, visit.principal, chosen.connection.id)
    if visit.context.part(Ledger).transmitter(connection.provider) is not None:
        return month._replace(is_sent=True)
    found = await _entries(visit, chosen, month)
    if wanted is not None:
        return found
    # Nobody asked for a month: the latest with entries, if there was one within a year.
    for step in range(1, 12):
        earlier = _first_day(found.month(-step))
        if found.entries or earlier is None:
            break
        before = await _entries(visit, chosen, found._replace(first=earlier))
        if before.entries:
            return before
    return found


async def _entries(visit: Visit, chosen: ChosenBooks, month: CashMonth) -> CashMonth:
    query = KassenbuchQuery(
        **chosen.query, kassenname=month.name, from_date=month.first, to_date=month.last, from_id=month.after or None,
        limit=MAX_ENTRIES + 1,
    )  # fmt: skip
    answer = plain(await visit.ask(duo.list_kassenbucheintraege, query=query), Kassenbericht)
    shown, opening, closing = answer.data[:MAX_ENTRIES], answer.anfangsbestand, answer.endbestand
    goes_on_after = ""
    if len(answer.data) > MAX_ENTRIES:
        goes_on_after, closing = shown[-1].id, shown[-1].saldo
    return month._replace(
        entries=shown, opening=opening or Decimal(), closing=closing or Decimal(), goes_on_after=goes_on_after
    )


def _first_day(month: str) -> date | None:
    try:
        return date.fromisoformat(f"{month}-01")
    except ValueError:
        return None


def _url(chosen: ChosenBooks, found: CashMonth) -> str:
    return chosen.url(PATH, kasse=found.name, month=f"{found.first:%Y-%m}")


def _body(name: str, wanted: NewEntry, upload: Upload | None) -> NeuerKassenbucheintrag:
    if wanted.amount <= 0:
        raise Conflict(
            _("Please enter an amount above zero, and choose whether the money came in or went out."), field="amount"
        )
    amount = wanted.amount if wanted.direction == "in" else -wanted.amount
    line = NeueBelegzeile(
        belegtext=wanted.text, gegenkonto=wanted.account, betrag=amount, belegNummer=wanted.document or None,
        steuersatz=Steuersatz(buSchluessel=wanted.tax_key) if wanted.tax_key else None,
    )  # fmt: skip
    return NeuerKassenbucheintrag(
        waehrung="EUR", kassenname=name, betrag=amount, transaktionsdatum=to_datetime(start_of_day(wanted.day)), belegzeilen=[line],
        belegbilder=[_image(upload)] if upload is not None else [],
    )  # fmt: skip


def _image(upload: Upload) -> NeuesBelegbild:
    if upload.size > MAX_IMAGE_BYTES:
        raise TooLarge(_("The receipt is larger than 20 MB."))
    content = base64.b64encode(upload.file.read()).decode()
    return NeuesBelegbild(content=content, dateiname=upload.name or "receipt")
