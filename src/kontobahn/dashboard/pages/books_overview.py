"""Clients and fiscal years: whose books there are, and where each leads."""

from __future__ import annotations

from starlette.responses import Response

from kontobahn.dashboard import books
from kontobahn.dashboard.declare import page
from kontobahn.dashboard.visit import Visit


@page("/books")
async def clients_and_years(visit: Visit) -> Response:
    chosen = await books.choose(visit)
    if chosen is None:
        return visit.show("no_books.html")
    return visit.show("books.html", chosen=chosen)
