"""The books that a page shows: connection, client and fiscal year, chosen in the address and the same on every page of books."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

from kontobahn.dashboard.declare import ROOT
from kontobahn.dashboard.visit import Visit
from kontobahn.errors import NotFound
from kontobahn.json_text import decode_kept, encode_kept
from kontobahn.ledger import connections
from kontobahn.ledger.connections import ClientQuery, LedgerConnection, open_books
from kontobahn.ledger.errors import Area
from kontobahn.ledger.konto import readable
from kontobahn.ledger.provider import ClientBooks, LedgerClient
from kontobahn.ledger.wire import Geschaeftsjahr

T = TypeVar("T")
# The digits of ledger accounts, if nobody says how many a client has.
SHORTEST = 4
CONNECTIONS = f"{ROOT}/ledger/connections"


class NoBooks(NotFound):
    """There is nothing to choose from."""


class ChosenBooks(NamedTuple):
    connections: list[LedgerConnection]
    clients: list[LedgerClient]
    connection: LedgerConnection
    # None if the provider does not say which clients it has: then it opens its default one.
    client: LedgerClient | None
    years: list[Geschaeftsjahr]
    year: Geschaeftsjahr

    @property
    def client_id(self) -> str | None:
        return self.client.client_id if self.client else None

    @property
    def fields(self) -> dict[str, str]:
        chosen = {"connection": self.connection.id, "year": self.year.start.isoformat()}
        return chosen | ({"client": self.client.client_id} if self.client else {})

    def url(self, path: str, **more: Any) -> str:
        """The address of another page about the same books."""
        given = {name: value for name, value in {**self.fields, **more}.items() if value not in (None, "")}
        return f"{path}?{urlencode(given)}"

    def written(self, konto: str) -> str:
        """Returns an account as the client writes it."""
        return readable(konto, self.year.konto_laenge)

    @property
    def query(self) -> dict[str, Any]:
        """Returns the parameters that every call of the ledger takes."""
        return {"connection_id": self.connection.id, "client_id": self.client_id}


async def choose(visit: Visit) -> ChosenBooks:
    """Returns the books that the address names, or the first that work.

    Raises NoBooks if there are none, for which a page that says so is shown instead.
    """
    organization = (visit.organization_id,)
    known = await visit.read(connections.listing, organization)
    working = [item for item in known if item.status == "connected"]
    wanted = _asked(visit, "connection").lower()
    connection = next((item for item in known if item.id == wanted), None)
    if connection is None and wanted:
        # An id of another organisation gets the refusal of every unknown one.
        await visit.read(connections.find, visit.principal, wanted)
    connection = connection or (working[0] if working else None)
    if connection is None:
        raise NoBooks("There are no books.")
    clients = await connections.list_clients(visit.context, visit.organization_id, connection.id)
    client = next((item for item in clients if item.client_id == _asked(visit, "client")), None)
    client = client or (clients[0] if clients else None)
    access = await open_books(visit.context, visit.principal, connection.id, client.client_id if client else None)
    async with access.to("stammdaten") as opened:
        years = sorted(await opened.geschaeftsjahre(), key=lambda year: year.start, reverse=True)
    if not years:
        raise NoBooks("There are no books.")
    year = next((item for item in years if item.start.isoformat() == _asked(visit, "year")), None)
    return ChosenBooks(known, clients, connection, client, years, year or _of_today(years, visit.today))


def _of_today(years: list[Geschaeftsjahr], today: date) -> Geschaeftsjahr:
    return next((year for year in years if year.start <= today <= year.end), years[0])


def _asked(visit: Visit, name: str) -> str:
    return (visit.form.text(name) or (visit.query.get(name) or [""])[-1])[:100]


def query_of(chosen: ChosenBooks) -> ClientQuery:
    return ClientQuery(**chosen.query)


def plain(answer: Any, kind: type[T]) -> T:
    """An answer as values: some of an area's answers are finished JSON."""
    return decode_kept(encode_kept(answer), kind)


async def ask(visit: Visit, chosen: ChosenBooks, area: Area, question: Callable[[ClientBooks], Awaitable[T]]) -> T:
    """Asks the provider something about the chosen books. Its refusals become errors that a page shows."""
    access = await open_books(visit.context, visit.principal, chosen.connection.id, chosen.client_id)
    async with access.to(area) as opened:
        return await question(opened)


def as_written(clients: Sequence[LedgerClient], connection_id: str, client_id: str, *konten: str) -> list[str]:
    """Returns ledger accounts as the client writes them; one that would lose a digit stays as it is."""
    known = (one.konto_laenge for one in clients if (one.connection_id, one.client_id) == (connection_id, client_id))
    length = next(known, SHORTEST)
    return [readable(konto, length) for konto in konten]
