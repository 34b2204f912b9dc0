"""Clients and fiscal years: whose books there are, and where each leads."""

from __future__ import annotations

from starlette.responses import Response

from kontobahn.dashboard import books
from kontobahn.dashboard.declare import page
from kontobahn.dashboard.pages.new_books import VERSTEUERUNG
from kontobahn.dashboard.visit import Visit
from kontobahn.ledger.routes import rewe
from kontobahn.ledger.routes.rewe import ExportQuery


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
