"""Booking batches: DATEV-format files sent here, the protocol of each, and taking one back."""

from __future__ import annotations

from msgspec import Struct
from starlette.responses import Response

from kontobahn.api.wire import Query
from kontobahn.dashboard import books
from kontobahn.dashboard.books import ChosenBooks, plain
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.pages.audit_log import names_of_actors
from kontobahn.dashboard.pages.trial_balance import journal_line
from kontobahn.dashboard.refusals import words_of
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.errors import Refusal
from kontobahn.ledger.buchungen import Buchung
from kontobahn.ledger.routes import rewe
from kontobahn.ledger.routes.rewe import ImporteQuery, ImportQuery
from kontobahn.ledger.wire import Import, ImportMitProtokoll, Protokollzeile

PATH = f"{ROOT}/batches"
STATES = {
    "running": (N_("being imported"), "warn"),
    "done": (N_("booked"), "good"),
    "failed": (N_("refused"), "bad"),
    "undone": (N_("undone"), "plain"),
}
KINDS = {
    "DATEI": N_("File"),
    "BUCHUNGEN": N_("Bookings via the API"),
    "STORNO": N_("Reversal"),
    "KORREKTUR": N_("Correction of tax"),
}
# The label of callers that do not name themselves.
UNNAMED = Query().quelle


class BatchFilter(Struct):
    connection: str = ""
    client: str = ""
    year: str = ""


class Choices(Struct):
    partial: bool = False
    another: bool = False


@page("/batches", poll=5, help="booking-batches")
async def batches(visit: Visit) -> Response:
    return await _show(visit)


async def _show(visit: Visit, refused: list[Protokollzeile] | None = None) -> Response:
    """`refused` is the protocol of a file that has just been refused."""
    chosen = await books.choose(visit)
    filters = visit.filters(BatchFilter)
    query = ImporteQuery(**chosen.query, from_id=filters.after or None, limit=PAGE_SIZE + 1)
    answer = await visit.ask(rewe.list_imports, query=query)
    rows = plain(answer.data, list[Import])
    return visit.show(
        "batches.html", chosen=chosen, list=filters.first_page(rows, lambda row: row.id), states=STATES, kinds=KINDS,
        named=named, refused=refused, authors=await names_of_actors(visit, visit.organization_id),
    )  # fmt: skip


@action("/batches", takes_file=True)
async def read_file(visit: Visit) -> Response:
    upload = await visit.receive_optional_file()
    chosen = await books.choose(visit)
    wanted = visit.form.read(Choices)
    refused: list[Protokollzeile] = []
    if upload is None:
        visit.form.fail("", _("Please choose a file."))
    elif wanted is not None:
        query = ImportQuery(**chosen.query, partial=wanted.partial, another=wanted.another)
        try:
            answer = await visit.ask(rewe.create_import, query=query, body=upload)
        except Refusal as error:
            visit.form.fail("", words_of(error))
            refused = plain(error.extra.get("protokoll", []), list[Protokollzeile])
        else:
            made = plain(answer.data, ImportMitProtokoll)
            return visit.redirect(chosen.url(f"{PATH}/{made.id}"), _done(made))
    return await _show(visit, refused)


def _done(made: ImportMitProtokoll) -> str:
    if made.status == "running":
        return _("The file has arrived and is being imported.")
    text = ngettext("One record was imported.", "%(num)s records were imported.", made.uebernommen)
    if made.bekannt:
        text += " " + ngettext("One was already known.", "%(num)s were already known.", made.bekannt)
    return text


@page("/batches/{id}", poll=3, help="booking-batches")
async def batch(visit: Visit, id: str) -> Response:
    chosen, found = await _find(visit, id)
    filters = visit.filters(BatchFilter)
    booked = await books.ask(
        visit, chosen, "buchungen", lambda opened: opened.bookings_of_import(id, filters.after, PAGE_SIZE + 1)
    )
    lines = [journal_line(booking) for booking in plain(booked, list[Buchung])]
    return visit.show(
        "batch.html", chosen=chosen, batch=found, states=STATES, kinds=KINDS, named=named,
        lines=filters.first_page(lines, lambda line: line.number),
        authors=await names_of_actors(visit, visit.organization_id),
    )  # fmt: skip


def named(batch: Import) -> str:
    """A file by its name; anything else by what it is, and by what it undoes or who sent it."""
    if batch.art == "DATEI":
        return batch.bezeichnung or batch.quelle
    kind, told = _(KINDS[batch.art]), batch.bezeichnung or batch.quelle
    return kind if told == UNNAMED else f"{kind} ({told})"


@page("/batches/{id}/undo", role="bookkeeping", help="booking-batches")
async def undo_page(visit: Visit, id: str) -> Response:
    chosen, found = await _find(visit, id)
    return visit.show("batch_undo.html", chosen=chosen, batch=found, named=named)


@action("/batches/{id}/undo")
async def undo(visit: Visit, id: str) -> Response:
    chosen, found = await _find(visit, id)
    with visit.form.refusals():
        answer = await visit.ask(rewe.undo_import, query=books.query_of(chosen), id=id)
        made = plain(answer.data, ImportMitProtokoll)
        return visit.redirect(
            chosen.url(f"{PATH}/{made.id}"), _("The batch has been undone: every booking was booked again, reversed.")
        )
    return visit.show("batch_undo.html", chosen=chosen, batch=found, named=named)


async def _find(visit: Visit, import_id: str) -> tuple[ChosenBooks, ImportMitProtokoll]:
    chosen = await books.choose(visit)
    if len(import_id) != 36:
        raise visit.principal.missing("Import")
    answer = await visit.ask(rewe.get_import, query=books.query_of(chosen), id=import_id)
    return chosen, plain(answer.data, ImportMitProtokoll)
