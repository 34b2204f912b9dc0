"""Open items: who owes what and for how long, a statement for each partner, and the movements behind a document."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Literal

from msgspec import Struct
from starlette.responses import Response

from kontobahn.dashboard import books
from kontobahn.dashboard.books import ChosenBooks, plain
from kontobahn.dashboard.csv_file import Cell
from kontobahn.dashboard.declare import ROOT, page
from kontobahn.dashboard.lists import PAGE_SIZE, Filters
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.ledger.faelligkeiten import FaelligesKonto, Faelligkeiten
from kontobahn.ledger.routes import rewe_read
from kontobahn.ledger.routes.rewe_read import OposQuery

PATH = f"{ROOT}/open-items"
AGES = (
    ("nichtFaellig", N_("not due yet")),
    ("bis30Tage", N_("up to 30 days")),
    ("bis60Tage", N_("31 to 60 days")),
    ("bis90Tage", N_("61 to 90 days")),
    ("ueber90Tage", N_("more than 90 days")),
)


class OpenItemsFilter(Struct):
    connection: str = ""
    client: str = ""
    year: str = ""
    side: Literal["debitors", "creditors"] | None = None
    stichtag: date | None = None
    search: str = ""


class DocumentFilter(Struct):
    connection: str = ""
    client: str = ""
    year: str = ""
    beleg: str = ""


@page("/open-items")
async def open_items(visit: Visit) -> Response:
    chosen = await books.choose(visit)
    filters = visit.filters(OpenItemsFilter)
    found = await _read(visit, chosen, filters)
    konten = await visit.off_loop(_searched, found.konten, filters.wanted.search)
    # The list is ordered by balance; its place is a number, because nothing else says where it was cut.
    start = int(filters.after) if filters.after.isdigit() else 0
    numbered = list(enumerate(konten[start : start + PAGE_SIZE + 1], start + 1))
    shown = filters.first_page(numbered, key=lambda row: row[0])
    labels = {"side": _("Side"), "stichtag": _("Cut-off date"), "search": _("Search")}
    return visit.show(
        "open_items.html", chosen=chosen, filters=filters, found=found, konten=shown, chips=filters.chips(labels, _in_words), ages=AGES,
        count=len(konten), csv=filters.csv_url(),
    )  # fmt: skip


def _in_words(name: str, text: str) -> str:
    return {"debitors": _("Customers"), "creditors": _("Suppliers")}.get(text, text)


@page("/open-items.csv")
async def open_items_csv(visit: Visit) -> Response:
    chosen = await books.choose(visit)
    filters = visit.filters(OpenItemsFilter)
    found = await _read(visit, chosen, filters)
    head = [
        _("Account"), _("Name"), _("Document"), _("Document date"), _("Text"), _("Due"), _("Days overdue"), _("Balance"),
    ]  # fmt: skip
    rows = _lines(chosen, found, filters.wanted.search)
    return await visit.csv(f"{_('Open items')} {found.stichtag}", head, rows)


def _lines(chosen: ChosenBooks, found: Faelligkeiten, search: str) -> Iterator[tuple[Cell, ...]]:
    """A generator: a hundred thousand rows are made where they are written, beside the event loop."""
    for konto in _searched(found.konten, search):
        for item in konto.posten:
            yield (
                chosen.written(konto.kontonummer), konto.bezeichnung, item.beleg, item.belegdatum, item.buchungstext,
                item.faelligAm, item.tageUeberfaellig, item.saldo,
            )  # fmt: skip


@page("/open-items/{konto}")
async def partner_statement(visit: Visit, konto: str) -> Response:
    """The statement of what one partner has to pay or to get, made to be printed."""
    chosen = await books.choose(visit)
    filters = visit.filters(OpenItemsFilter)
    found = await _read(visit, chosen, filters, konto)
    account = next((item for item in found.konten if item.kontonummer == konto), None)
    return visit.show(
        "partner_statement.html", chosen=chosen, konto=konto, account=account, stichtag=found.stichtag, ages=AGES
    )  # fmt: skip


@page("/open-items/{konto}/document")
async def document_movements(visit: Visit, konto: str) -> Response:
    """The bookings behind an open item. Its number may contain anything, so it is not part of the path."""
    chosen = await books.choose(visit)
    filters, beleg = visit.filters(DocumentFilter), (visit.query.get("beleg") or [""])[-1]
    found = await books.ask(
        visit, chosen, "buchungen",
        lambda opened: opened.bookings_of_document(konto, beleg, filters.after, PAGE_SIZE + 1),
    )  # fmt: skip
    return visit.show(
        "document_movements.html", chosen=chosen, konto=konto, beleg=beleg, found=found,
        bookings=filters.first_page(found.bookings, key=lambda booking: f"{booking.day} {booking.id}"),
    )  # fmt: skip


async def _read(
    visit: Visit, chosen: ChosenBooks, filters: Filters[OpenItemsFilter], konto: str | None = None
) -> Faelligkeiten:
    wanted = filters.wanted
    query = OposQuery(
        **chosen.query, stichtag=wanted.stichtag or visit.today, filter=wanted.side or "all", kontonummer=konto
    )
    answer = await visit.ask(rewe_read.get_faelligkeiten, query=query)
    return await visit.off_loop(plain, answer.data, Faelligkeiten)


def _searched(konten: list[FaelligesKonto], search: str) -> list[FaelligesKonto]:
    words = search.casefold().split()
    return [konto for konto in konten if all(word in _text(konto) for word in words)] if words else konten


def _text(konto: FaelligesKonto) -> str:
    documents = " ".join(f"{item.beleg} {item.buchungstext} {item.saldo}" for item in konto.posten)
    return f"{konto.kontonummer} {konto.bezeichnung} {documents}".casefold()
