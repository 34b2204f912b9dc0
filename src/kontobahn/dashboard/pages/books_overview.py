"""Clients and fiscal years: whose books there are, and where each leads."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.api.wire import Name, Upload
from kontobahn.dashboard import books
from kontobahn.dashboard.books import plain
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.pages import first_steps
from kontobahn.dashboard.refusals import words_of
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Refusal
from kontobahn.formats.extf import ExtfError, Header, open_extf
from kontobahn.ledger import connections
from kontobahn.ledger.connections import ClientId
from kontobahn.ledger.konto import KONTENRAHMEN
from kontobahn.ledger.provider import NO_ADVISER, NewClient, OwnBooks, Versteuerung
from kontobahn.ledger.routes import rewe
from kontobahn.ledger.routes.rewe import ExportQuery, ImportQuery
from kontobahn.ledger.wire import ImportMitProtokoll, Protokollzeile
from kontobahn.sentences import said

# New books: kept here, or begun with a file of the adviser who keeps them. Either way a client with its own connection.


VERSTEUERUNG: dict[Versteuerung, str] = {
    "soll": N_("on invoices issued (Sollversteuerung)"),
    "ist": N_("on payments received (Istversteuerung)"),
    "kleinunternehmer": N_("none, small business (§ 19 UStG)"),
}
LENGTHS = (4, 5, 6, 7, 8)
Rahmen = Literal["SKR03", "SKR04"]


class NewBooks(Struct):
    name: Name
    kontenrahmen: Rahmen
    year_start: date
    konto_laenge: Annotated[int, Meta(ge=4, le=8)]
    versteuerung: Versteuerung
    client_id: ClientId = NO_ADVISER


class FromFile(Struct):
    rahmen: Rahmen


class Made(NamedTuple):
    connection_id: str
    client_id: str


@page("/books/new", role="admin", help="new-books")
async def new_books(visit: Visit) -> Response:
    return _show(visit)


def _show(visit: Visit, refused: list[Protokollzeile] | None = None) -> Response:
    """`refused` is the protocol of a file that has just been refused."""
    assert visit.person is not None
    return visit.show(
        "new_books.html",
        name=visit.person.looking_at.name,
        charts=[(name, name) for name in KONTENRAHMEN],
        lengths=[(length, length) for length in LENGTHS],
        versteuerungen=[(value, _(text)) for value, text in VERSTEUERUNG.items()],
        year_start=visit.today.replace(month=1, day=1).isoformat(),
        no_adviser=NO_ADVISER,
        refused=refused,
    )


@action("/books/new", role="admin")
async def create_books(visit: Visit) -> Response:
    wanted = visit.form.read(NewBooks)
    if wanted is not None and not 1900 <= wanted.year_start.year < 2200:
        visit.form.fail("year_start", _("Please enter a year from 1900 to 2199."))
    elif wanted is not None:
        with visit.form.refusals():
            client = NewClient(
                wanted.name,
                wanted.kontenrahmen,
                wanted.konto_laenge,
                wanted.client_id,
                wanted.year_start,
                wanted.versteuerung,
            )
            made = await visit.write(_create, visit.context.part(OwnBooks), visit.organization_id, client, visit.actor)
            return await _on(visit, made, _("The books “%(name)s” are ready.", name=wanted.name))
    return _show(visit)


def _create(tx: Tx, keeping: OwnBooks, organization_id: str, client: NewClient, actor: Actor) -> Made:
    connection_id = keeping.create(tx, organization_id, None, client)
    audit.record(
        tx, organization_id, actor, "books.create", f"{connection_id}/{client.client_id}",
        name=client.name, kontenrahmen=client.kontenrahmen, versteuerung=client.versteuerung,
    )  # fmt: skip
    return Made(connection_id, client.client_id)


async def _on(visit: Visit, made: Made, notice: str) -> Response:
    """Leads to the next of the first steps, or to the books once all are done."""
    steps = await visit.read(first_steps.find, visit.organization_id)
    if first_steps.is_open(steps):
        return visit.redirect(first_steps.PATH, notice)
    return visit.redirect(f"{ROOT}/books?connection={made.connection_id}&client={made.client_id}", notice)


# --- With a file of the adviser


@action("/books/from-file", role="admin", takes_file=True)
async def begin_with_file(visit: Visit) -> Response:
    upload = await visit.receive_optional_file()
    wanted = visit.form.read(FromFile)
    refused: list[Protokollzeile] = []
    if upload is None:
        visit.form.fail("file", _("Please choose a file."))
    elif wanted is not None:
        with visit.form.refusals():
            header = await visit.off_loop(_header, upload.file)
            made = await _books_of(visit, header, wanted.rahmen)
            try:
                notice = await _import(visit, made, upload)
            except Refusal as error:
                refused = plain(error.extra.get("protokoll", []), list[Protokollzeile])
                visit.form.fail("", f"{words_of(error)} {_('The books were created; now import a corrected file.')}")
            else:
                return await _on(visit, made, notice)
    return _show(visit, refused)


def _header(file: BinaryIO) -> Header:
    try:
        return open_extf(file).header
    except ExtfError as error:
        raise BadRequest(said("The file cannot be read. {why}", why=error)) from None


async def _books_of(visit: Visit, header: Header, rahmen: Rahmen) -> Made:
    """Returns the books that the file is about: those of an earlier attempt, or new ones as its header describes them."""
    assert visit.person is not None
    keeping = visit.context.part(OwnBooks)
    known = await connections.list_clients(visit.context, visit.organization_id)
    for client in known:
        if client.client_id == header.client_id:
            return Made(client.connection_id, client.client_id)
    told = f"SKR{header.skr.zfill(2)}"
    wanted = NewClient(
        visit.person.looking_at.name, told if told in KONTENRAHMEN else rahmen, header.sachkontenlaenge, header.client_id,
        header.wj_beginn,
    )  # fmt: skip
    return await visit.write(_create, keeping, visit.organization_id, wanted, visit.actor)


async def _import(visit: Visit, made: Made, upload: Upload) -> str:
    query = ImportQuery(connection_id=made.connection_id, client_id=made.client_id)
    answer: Any = await visit.ask(rewe.create_import, query=query, body=upload)
    found = plain(answer.data, ImportMitProtokoll)
    if found.status == "running":
        return _("The file has arrived and is being imported.")
    return ngettext("One record was imported.", "%(num)s records were imported.", found.uebernommen)


@page("/books", help="books")
async def clients_and_years(visit: Visit) -> Response:
    chosen = await books.choose(visit)
    taxed = await books.versteuerung(visit, chosen)
    return visit.show("books.html", chosen=chosen, versteuerung=VERSTEUERUNG[taxed] if taxed else None)


@page("/books/export")
async def export_year(visit: Visit) -> Response:
    """A fiscal year as files that another program reads, with the receipts."""
    chosen = await books.choose(visit)
    query = ExportQuery(**chosen.query, geschaeftsjahr_start_datum=chosen.year.start)
    return visit.stream(await visit.ask(rewe.export_year, query=query))


# The sheets of the books on one page: which there are, each to look at, to print and to count with.


class Report(NamedTuple):
    title: str
    text: str
    path: str
    icon: str


REPORTS = (
    Report(N_("Profit and loss"), N_("Revenue, cost and result by month (BWA)."), "/reports/profit-and-loss", "pulse"),
    Report(N_("VAT figures"), N_("Output tax, input tax, and what is to be paid."), "/reports/vat", "coin"),
    Report(N_("Trial balance"), N_("Every account with its turnover and balance."), "/trial-balance", "scale"),
    Report(N_("Journal"), N_("Every booking in the order in which it was booked."), "/reports/journal", "book"),
    Report(N_("Open items"), N_("Partners who owe or are owed, by age."), "/open-items", "people"),
    Report(N_("Due dates"), N_("Documents by the day on which they are due."), "/open-items/due", "clock"),
)


@page("/reports", help="reports")
async def report_list(visit: Visit) -> Response:
    return visit.show("reports.html", chosen=await books.choose(visit), reports=REPORTS, root=ROOT)
