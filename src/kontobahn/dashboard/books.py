"""The books that a page shows: connection, client and fiscal year, chosen in the address and the same on every page of books."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

from kontobahn import log
from kontobahn.clock import to_datetime
from kontobahn.dashboard import figures
from kontobahn.dashboard.declare import ROOT
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, KontobahnError, NotFound
from kontobahn.json_text import decode_kept, encode_kept
from kontobahn.ledger import connections
from kontobahn.ledger.connections import ClientQuery, LedgerConnection, open_books
from kontobahn.ledger.errors import Area
from kontobahn.ledger.konto import is_personenkonto, readable, technical
from kontobahn.ledger.provider import ClientBooks, LedgerClient, OwnBooks, Versteuerung
from kontobahn.ledger.wire import Geschaeftsjahr

T = TypeVar("T")
# The digits of ledger accounts, if nobody says how many a client has.
SHORTEST = 4
MONTHS = 12
# Another program's books may answer slowly, and a page that only wants its numbers must not wait for them.
BOOKS_SECONDS = 2.0
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

    @property
    def heading(self) -> str:
        """The client, or what the books are called, for the head of a document."""
        return heading(self.client) if self.client else self.connection.bezeichnung or ""

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


def period_name(chosen: ChosenBooks, period: int) -> str:
    if period == 0:
        return _("Opening balance")
    if period > MONTHS:
        return _("Closing entries")
    return figures.months(f"{month_start(chosen, period):%Y-%m}")


def month_start(chosen: ChosenBooks, period: int) -> date:
    """Returns the first day of a month of the fiscal year, by its number; 13 is the month after it."""
    months = chosen.year.start.year * 12 + chosen.year.start.month - 1 + period - 1
    return date(months // 12, months % 12 + 1, 1)


def present_period(chosen: ChosenBooks, today: date) -> int:
    """Returns the month of the fiscal year that today is in; the last one of a year that is over, the first of one to come."""
    found = [period for period in range(1, MONTHS + 1) if month_start(chosen, period) <= today]
    return found[-1] if found else 1


def year_words(chosen: ChosenBooks) -> str:
    """The fiscal year in words."""
    first, last = figures.day(chosen.year.start), figures.day(chosen.year.end)
    return _("Fiscal year from %(first)s to %(last)s", first=first, last=last)


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
        answer = await question(opened)
        if opened.as_of is not None:
            visit.as_of = to_datetime(opened.as_of)
        return answer


async def writer(visit: Visit, connection_id: str, client_id: str) -> Callable[[str], str]:
    """Returns a function that writes an account as this client does, for a page that is not about one fiscal year."""
    clients = await clients_in_time(visit)
    return lambda konto: as_written(clients, connection_id, client_id, konto)[0]


async def clients_in_time(visit: Visit, organization_id: str = "") -> list[LedgerClient]:
    """Returns the clients of this organisation or the one looked at; none if the books do not answer in time."""
    try:
        async with asyncio.timeout(BOOKS_SECONDS):
            return await connections.list_clients(visit.context, organization_id or visit.organization_id)
    except (KontobahnError, TimeoutError) as error:
        log.info("accounts_without_books", detail=str(error) or "too slow")
        return []


def heading(client: LedgerClient) -> str:
    return f"{client.name} ({client.client_id})"


def heading_of(clients: Sequence[LedgerClient], books: Iterable[tuple[str, str]]) -> str:
    """Returns whose books these are, by connection and client; nothing if there are several or none."""
    found = {one for one in books if any(one)}
    named = [heading(one) for one in clients if {(one.connection_id, one.client_id)} == found]
    return named[0] if named else ""


def as_written(clients: Sequence[LedgerClient], connection_id: str, client_id: str, *konten: str) -> list[str]:
    """Returns ledger accounts as the client writes them; one that would lose a digit stays as it is."""
    known = (one.konto_laenge for one in clients if (one.connection_id, one.client_id) == (connection_id, client_id))
    length = next(known, SHORTEST)
    return [readable(konto, length) for konto in konten]


async def check_known(
    visit: Visit,
    connection_id: str,
    client_id: str | None,
    konten: Mapping[str, str | None],
    *,
    new_books: bool = False,
) -> None:
    """Raises BadRequest, naming the field, if the books have no such account; a ledger account may be new if somebody says so.
    With `new_books`, books that have no account yet may have any."""
    access = await open_books(visit.context, visit.principal, connection_id, client_id)
    async with access.to("konten") as opened:
        years = await opened.geschaeftsjahre()
        if not years:
            return
        year = next((one for one in years if one.start <= visit.today <= one.end), years[-1])
        if new_books and not await opened.konten(year.start, None, 1):
            return
        for field, typed in konten.items():
            try:
                konto = technical(typed or "", year.konto_laenge)
            except ValueError:
                # The call says what is wrong with the number.
                continue
            if visit.form.text("new_account") and not is_personenkonto(konto):
                continue
            listed = await opened.konten(year.start, f"{int(konto) - 1:0{len(konto)}}", 1)
            if [one.kontonummer for one in listed] != [konto]:
                raise BadRequest(_("There is no account %(konto)s in these books.", konto=typed), field=field)


async def versteuerung(visit: Visit, chosen: ChosenBooks) -> Versteuerung | None:
    """The taxation of a client whose books we keep; of others nobody says."""
    return await visit.read(_versteuerung, visit, chosen.connection.id, chosen.client_id)


def _versteuerung(tx: Tx, visit: Visit, connection_id: str, client_id: str | None) -> Versteuerung | None:
    keeping = visit.context.part(OwnBooks)
    found = connections.find(tx, visit.principal, connection_id)
    return keeping.versteuerungen(tx, found).get(client_id or "") if found.provider == keeping.provider else None
