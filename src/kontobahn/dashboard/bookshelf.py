"""All books of an organisation: each client of each connection, asked at once, with a bound on how many and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from kontobahn import log
from kontobahn.access.principal import Principal
from kontobahn.api.call import Context
from kontobahn.dashboard import books as chosen_books
from kontobahn.errors import KontobahnError
from kontobahn.ledger import connections
from kontobahn.ledger.connections import open_books
from kontobahn.ledger.errors import Area
from kontobahn.ledger.provider import ClientBooks

T = TypeVar("T")
# An organisation has one or two; the pages of books show any number.
MAX_BOOKS = 5


class ShelvedBooks(NamedTuple):
    connection_id: str
    # None if the provider does not say which clients it has: then it opens its default one.
    client_id: str | None
    name: str
    # The digits of its ledger accounts; None if nobody says.
    konto_laenge: int | None
    # The number of their bookings, so that nothing old is shown of them; None if nobody counts.
    bookings: int | None = None

    @property
    def fields(self) -> dict[str, str]:
        """The fields of an address that choose these books."""
        chosen = {"connection": self.connection_id}
        return chosen | ({"client": self.client_id} if self.client_id else {})


async def shelf(context: Context, organization_id: str) -> list[ShelvedBooks]:
    """Returns the books that work, the first MAX_BOOKS of them."""
    known = await context.db.read(connections.listing, (organization_id,))
    working = [item for item in known if item.status == "connected"][:MAX_BOOKS]
    listed = await connections.list_clients(context, organization_id) if working else []
    found = []
    for item in working:
        clients = [client for client in listed if client.connection_id == item.id]
        found += [
            ShelvedBooks(item.id, client.client_id, client.name, client.konto_laenge, client.bookings)
            for client in clients
        ]
        if not clients:
            found.append(ShelvedBooks(item.id, None, item.bezeichnung or item.id, None))
    return found[:MAX_BOOKS]


async def ask(
    context: Context,
    principal: Principal,
    books: ShelvedBooks,
    area: Area,
    question: Callable[[ClientBooks], Awaitable[T]],
) -> T | None:
    """Asks for something in these books; None if they do not answer in time, or refuse."""
    try:
        async with asyncio.timeout(chosen_books.BOOKS_SECONDS):
            access = await open_books(context, principal, books.connection_id, books.client_id)
            async with access.to(area) as opened:
                return await question(opened)
    except (KontobahnError, TimeoutError) as error:
        log.info("page_without_books", connection_id=books.connection_id, detail=str(error) or "too slow")
        return None
