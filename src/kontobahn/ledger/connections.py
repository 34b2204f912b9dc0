"""Connections to the books of clients: listed, created, found and opened.

Opening needs the port, so the types that the port speaks must not import this module.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from typing import Annotated, Literal

from msgspec import Meta, field

from kontobahn import log
from kontobahn.access.principal import Principal, ask_in_scope, in_scope
from kontobahn.api.call import Context
from kontobahn.api.wire import Answer, Query, Timestamp, Uuid, form
from kontobahn.clock import optional_datetime, to_datetime
from kontobahn.db import Rounds, Table, Tx, ask_all, short_read
from kontobahn.errors import Conflict, NotFound, SetupError
from kontobahn.ids import new_id
from kontobahn.ledger.errors import (
    ENDED,
    Area,
    ProviderError,
    endpoint_not_authorized,
    export_service_missing,
    provider_refused,
    translate_error,
)
from kontobahn.ledger.provider import ClientBooks, ConnectionRef, Ledger, LedgerClient
from kontobahn.sentences import said
from kontobahn.settings import Settings

# Choice 11: the full set of ledger connection statuses.
ConnectionStatus = Literal["pending", "connected", "expired", "revoked", "error"]
# Choice 9: adviser number and client number.
ClientId = Annotated[
    str,
    form(
        "an adviser number and a client number like 29098-55003",
        r"^[1-9][0-9]{3,6}-[1-9][0-9]{0,4}$",
        description="Only where the connection spans several clients and not the default one is meant.",
        examples=["29098-55003"],
    ),
]
# Choice 10: free as a dropdown of an automation platform.
Dropdown = Annotated[Literal["dropdown"], Meta(description="`dropdown`: a free call to fill a list of choices.")]
# Another program may answer slowly, and a page that offers its clients must not wait for it.
CLIENTS_SECONDS = 2.0
# The refusals of every call that opens a connection.
ERRORS = (403, 404, 409)


class ConnectionQuery(Query):
    # Choice 9: `connectionId` is required on every ledger call.
    connection_id: Annotated[Uuid, Meta(description="The connection, from the connections list.")] = field(
        name="connectionId"
    )


Another = Annotated[bool, Meta(description="Rows that look booked already are other bookings.")]


class ClientQuery(ConnectionQuery):
    # Choice 35: `clientId` is accepted on every ledger call.
    client_id: ClientId | None = field(default=None, name="clientId")


class JahrQuery(ClientQuery, kw_only=True):
    geschaeftsjahr_start_datum: Annotated[date, Meta(description="First day of the fiscal year.")] = field(
        name="geschaeftsjahrStartDatum"
    )


class LedgerConnection(Answer):
    id: Uuid
    bezeichnung: str | None
    status: ConnectionStatus
    verbunden_seit: Timestamp | None
    erstellt_am: Timestamp


class LedgerConnections(Answer):
    connections: list[LedgerConnection]


@short_read
def listing(organizations: tuple[str, ...]) -> Rounds[list[LedgerConnection]]:
    rows = yield from ask_all(
        "SELECT id, bezeichnung, status, verbunden_seit, erstellt_am FROM ledger_connections"
        f" WHERE {in_scope(len(organizations))} ORDER BY erstellt_am, id",
        *organizations,
    )
    return [
        LedgerConnection(
            id=connection_id,
            bezeichnung=bezeichnung,
            status=status,
            verbunden_seit=optional_datetime(verbunden_seit),
            erstellt_am=to_datetime(erstellt_am),
        )
        for connection_id, bezeichnung, status, verbunden_seit, erstellt_am in rows
    ]


def create(
    tx: Tx, organization_id: str, *, bezeichnung: str | None, provider: str, status: ConnectionStatus = "connected"
) -> str:
    connection_id = new_id()
    tx.run(
        "INSERT INTO ledger_connections (organization_id, id, bezeichnung, provider, status, verbunden_seit, erstellt_am)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        organization_id, connection_id, bezeichnung, provider, status,
        None if status == "pending" else tx.now, tx.now,
    )  # fmt: skip
    return connection_id


_CONNECTIONS = Table("ledger_connections", ConnectionRef)


@short_read
def find(principal: Principal, connection_id: str) -> Rounds[ConnectionRef]:
    return ask_in_scope(_CONNECTIONS, principal, "Connection", connection_id.lower())


def status_of(tx: Tx, organization_id: str, connection_id: str) -> str | None:
    """The status of a connection; None if it is gone."""
    row = tx.one(
        "SELECT status FROM ledger_connections WHERE organization_id = ? AND id = ?", organization_id, connection_id
    )
    return str(row[0]) if row else None


def of_organization(tx: Tx, organization_id: str) -> list[tuple[ConnectionRef, int | None]]:
    """The connections, each with the time since when it has been connected."""
    return [
        (ConnectionRef(organization_id, connection_id, provider, status), since)
        for connection_id, provider, status, since in tx.all(
            "SELECT id, provider, status, verbunden_seit FROM ledger_connections WHERE organization_id = ?"
            " ORDER BY erstellt_am, id",
            organization_id,
        )
    ]


def find_for_operator(tx: Tx, connection_id: str) -> ConnectionRef:
    """Returns a connection by its id alone, for the operator's command line."""
    found = _CONNECTIONS.one(tx, "id = ?", connection_id)
    if found is None:
        raise NotFound(said("There is no ledger connection {id}.", id=connection_id))
    return found


def set_status(tx: Tx, connection: ConnectionRef, status: ConnectionStatus) -> None:
    since = ", geschlossen_am = NULL, verbunden_seit = ?" if status == "connected" else ""
    tx.run(
        f"UPDATE ledger_connections SET status = ?{since} WHERE organization_id = ? AND id = ?",
        status, *((tx.now,) if since else ()), connection.organization_id, connection.id,
    )  # fmt: skip


def rename(tx: Tx, connection: ConnectionRef, name: str) -> None:
    tx.run(
        "UPDATE ledger_connections SET bezeichnung = ? WHERE organization_id = ? AND id = ?",
        name, connection.organization_id, connection.id,
    )  # fmt: skip


def close(tx: Tx, connection: ConnectionRef) -> None:
    """Closes books: they stay as they are, nobody reads or writes them, and nobody is asked to renew the connection."""
    set_status(tx, connection, "revoked")
    tx.run(
        "UPDATE ledger_connections SET geschlossen_am = ? WHERE organization_id = ? AND id = ?",
        tx.now, connection.organization_id, connection.id,
    )  # fmt: skip


def closed(tx: Tx, organization_id: str) -> frozenset[str]:
    """The ids of connections that were closed on purpose."""
    rows = tx.all(
        "SELECT id FROM ledger_connections WHERE organization_id = ? AND geschlossen_am IS NOT NULL", organization_id
    )
    return frozenset(connection_id for (connection_id,) in rows)


# --- Opening


def reconnect_url(settings: Settings, connection_id: str) -> str:
    """Returns the address of the page on which a person renews the connection."""
    return f"{settings.base_url}/dashboard/ledger/connections/{connection_id}/reconnect"


class BooksAccess:
    """A client's books, opened for one call."""

    def __init__(self, books: ClientBooks, reconnect_url: str) -> None:
        self._books = books
        self._reconnect_url = reconnect_url

    @asynccontextmanager
    async def to(self, area: Area) -> AsyncIterator[ClientBooks]:
        """Yields the books for calls in this area: a ProviderError becomes an error of the contract."""
        try:
            yield self._books
        except ProviderError as error:
            raise await self._translate_error(error, area) from error

    async def _translate_error(self, error: ProviderError, area: Area) -> Exception:
        if error.status != 403:
            return translate_error(error, self._reconnect_url)
        try:
            active = await self._books.active_subscriptions()
        except ProviderError:
            return provider_refused(error)
        refused = error.area or area
        needed = self._books.needed_subscription(refused)
        if needed in active:
            return endpoint_not_authorized(refused, error)
        return export_service_missing(needed, active, error)


async def open_books(
    context: Context, principal: Principal, connection_id: str, client_id: str | None = None
) -> BooksAccess:
    url = reconnect_url(context.settings, connection_id.lower())
    try:
        return BooksAccess(await open_client(context, principal, connection_id, client_id), url)
    except ProviderError as error:
        raise translate_error(error, url) from error


async def open_client(context: Context, principal: Principal, connection_id: str, client_id: str | None) -> ClientBooks:
    """Opens the books as the provider does. Raises ProviderError if the connection has ended or the provider refuses."""
    connection = await context.db.read_inline(find, principal, connection_id)
    if not principal.may_open(connection.id, client_id):
        raise principal.missing("Client")
    if connection.status in ENDED:
        raise ProviderError(401, f"the connection is {ENDED[connection.status]}", type=connection.status)
    if connection.status == "pending":
        raise Conflict("The connection is not finished yet: sign in at the accounting provider first.").retryable()
    provider = context.part(Ledger).providers.get(connection.provider)
    if provider is None:
        raise SetupError(
            said("The ledger provider “{name}” is not set up in this installation.", name=connection.provider)
        )
    return await provider.open(connection, client_id)


async def list_clients(context: Context, organization_id: str, connection_id: str | None = None) -> list[LedgerClient]:
    """Returns the clients of an organisation's connections, or of one; none of a provider that does not answer in time.

    All providers are asked at once: a page waits for the slowest of them, and no longer than CLIENTS_SECONDS.
    """
    by_provider: dict[str, list[ConnectionRef]] = {}
    for connection, _ in await context.db.read(of_organization, organization_id):
        if connection_id in (None, connection.id):
            by_provider.setdefault(connection.provider, []).append(connection)
    asked = (_clients_of(context, name, connections) for name, connections in by_provider.items())
    return [client for clients in await asyncio.gather(*asked) for client in clients]


async def _clients_of(context: Context, name: str, connections: list[ConnectionRef]) -> list[LedgerClient]:
    provider = context.part(Ledger).providers.get(name)
    if provider is None:
        return []
    try:
        async with asyncio.timeout(CLIENTS_SECONDS):
            return await provider.clients(connections)
    except (ProviderError, TimeoutError) as error:
        log.info("clients_not_listed", provider=name, detail=str(error) or "too slow")
        return []
