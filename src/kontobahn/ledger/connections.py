"""Connections to the books of clients: how they are kept, found and opened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kontobahn.access.principal import Principal
from kontobahn.access.scope import in_scope
from kontobahn.api.call import Call
from kontobahn.clock import optional_datetime, to_datetime
from kontobahn.db import Tx
from kontobahn.errors import Conflict, NotFound, SetupError
from kontobahn.ids import new_id
from kontobahn.ledger.errors import (
    Bereich,
    ProviderError,
    connection_invalid,
    endpoint_not_authorized,
    export_service_missing,
    is_rejection,
    provider_refused,
    provider_rejected,
    provider_unavailable,
)  # fmt: skip
from kontobahn.ledger.model import ConnectionStatus, LedgerConnection
from kontobahn.ledger.provider import ClientBooks, Connection, Ledger

_REASONS = {"expired": "expired", "revoked": "revoked", "error": "broken"}


def listing(tx: Tx, organizations: tuple[str, ...]) -> list[LedgerConnection]:
    return [
        LedgerConnection(
            id=connection_id,
            bezeichnung=bezeichnung,
            status=status,
            verbunden_seit=optional_datetime(verbunden_seit),
            erstellt_am=to_datetime(erstellt_am),
        )
        for connection_id, bezeichnung, status, verbunden_seit, erstellt_am in tx.all(
            "SELECT id, bezeichnung, status, verbunden_seit, erstellt_am FROM ledger_connections"
            f" WHERE {in_scope(len(organizations))} ORDER BY erstellt_am, id",
            *organizations,
        )
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


def find(tx: Tx, principal: Principal, connection_id: str) -> Connection:
    """A connection in the principal's scope."""
    row = tx.one(
        f"SELECT organization_id, id, provider, status FROM ledger_connections WHERE {in_scope(len(principal.scope))} AND id = ?",
        *principal.scope, connection_id.lower(),
    )  # fmt: skip
    if row is None:
        raise principal.missing("Connection")
    return Connection(*row)


def find_for_operator(tx: Tx, connection_id: str) -> Connection:
    """A connection by its id alone, for the operator's command line."""
    row = tx.one("SELECT organization_id, id, provider, status FROM ledger_connections WHERE id = ?", connection_id)
    if row is None:
        raise NotFound(f"There is no ledger connection {connection_id}.")
    return Connection(*row)


def set_status(tx: Tx, connection: Connection, status: ConnectionStatus) -> None:
    since = ", verbunden_seit = ?" if status == "connected" else ""
    tx.run(
        f"UPDATE ledger_connections SET status = ?{since} WHERE organization_id = ? AND id = ?",
        status, *((tx.now,) if since else ()), connection.organization_id, connection.id,
    )  # fmt: skip


def reconnect_url(call: Call, connection_id: str) -> str:
    """Where a person renews the connection."""
    return f"{call.context.settings.base_url}/dashboard/ledger/connections/{connection_id}/reconnect"


class Mandant:
    """A client's books, opened for this call; its errors speak the contract's language."""

    def __init__(self, call: Call, connection: Connection, books: ClientBooks) -> None:
        self._call = call
        self._connection = connection
        self.books = books

    @asynccontextmanager
    async def asked_for(self, bereich: Bereich) -> AsyncIterator[ClientBooks]:
        """Ask the provider for something of this area."""
        try:
            yield self.books
        except ProviderError as error:
            raise await self._in_our_words(error, bereich) from error

    async def _in_our_words(self, error: ProviderError, bereich: Bereich) -> Exception:
        if error.status == 403:
            try:
                active = await self.books.active_subscriptions()
            except ProviderError:
                return provider_refused(error)
            refused = error.bereich or bereich
            needed = self.books.needed_subscription(refused)
            return endpoint_not_authorized(refused) if needed in active else export_service_missing(needed, active)
        return _in_our_words(self._call, self._connection.id, error)


def _in_our_words(call: Call, connection_id: str, error: ProviderError) -> Exception:
    if error.status == 401:
        reason = _REASONS.get(error.type or "", "expired or revoked")
        return connection_invalid(reconnect_url(call, connection_id), reason)
    if error.status == 403:
        return provider_refused(error)
    return provider_rejected(error) if is_rejection(error) else provider_unavailable(error)


async def open_mandant(call: Call, connection_id: str, client_id: str | None = None) -> Mandant:
    try:
        return await open_as_provider(call, connection_id, client_id)
    except ProviderError as error:
        raise _in_our_words(call, connection_id.lower(), error) from error


async def open_as_provider(call: Call, connection_id: str, client_id: str | None) -> Mandant:
    """The same, with ProviderError where the connection has ended or the provider does not open it."""
    connection = await call.read_inline(find, call.principal, connection_id)
    if connection.status in _REASONS:
        raise ProviderError(401, f"the connection is {_REASONS[connection.status]}", type=connection.status)
    if connection.status == "pending":
        raise Conflict("The connection is not finished yet: sign in at the accounting provider first.").retryable()
    ledger = call.context.part(Ledger)
    provider = ledger.providers.get(connection.provider)
    if provider is None:
        raise SetupError(f"The ledger provider “{connection.provider}” is not set up in this installation.")
    return Mandant(call, connection, await provider.open(connection, client_id))
