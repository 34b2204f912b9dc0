"""The clients that a sign-in can see: asked for, kept with the services that they have booked, one of them the default."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

import msgspec
from msgspec import Struct

from kontobahn.clock import HOUR
from kontobahn.datev.requests import HELP
from kontobahn.datev.services import Services, part
from kontobahn.db import Database, Tx
from kontobahn.errors import BadRequest, NotFound
from kontobahn.json_text import encode
from kontobahn.ledger import connections
from kontobahn.ledger.errors import ProviderError
from kontobahn.ledger.provider import BookedClient, ConnectionRef
from kontobahn.ledger.wire import Geschaeftsjahr
from kontobahn.sentences import said

EXPORT = "Datenservice Export Rechnungswesen"
PAGE, MAX_PAGES = 100, 50
YEARS_KEPT = HOUR


class Subscription(Struct):
    name: str


class ListedClient(Struct):
    id: str
    name: str = ""
    services: list[Subscription] = []

    @property
    def service_names(self) -> list[str]:
        return sorted({service.name for service in self.services})


class FiscalYear(Struct):
    yearBegin: date
    yearEnd: date
    accountLength: int
    accountSystem: int
    currencyCode: str = "EUR"

    @property
    def in_euros(self) -> FiscalYear:
        """Returns itself. Raises ProviderError if it is kept in another currency."""
        if self.currencyCode != "EUR":
            year, currency = self.yearBegin.isoformat(), self.currencyCode
            raise ProviderError(409, f"the fiscal year from {year} is kept in {currency}", type="currency")
        return self

    @property
    def as_answer(self) -> Geschaeftsjahr:
        return Geschaeftsjahr(self.yearBegin, self.yearEnd, f"SKR{self.accountSystem:02}", self.accountLength)


class KeptClient(NamedTuple):
    client_id: str
    name: str
    services: str
    is_default: int
    years: str
    years_at: int

    @property
    def service_names(self) -> list[str]:
        return msgspec.json.decode(self.services, type=list[str])

    @property
    def fiscal_years(self) -> list[FiscalYear]:
        return msgspec.json.decode(self.years, type=list[FiscalYear])

    @property
    def as_booked(self) -> BookedClient:
        return BookedClient(self.client_id, self.name, self.service_names, bool(self.is_default))


class Clients:
    def __init__(self, db: Database, services: Services) -> None:
        self._db, self._services = db, services

    async def look_again(self, connection: ConnectionRef) -> bool:
        """Asks who there is. Returns whether the default client can be read; only then the connection is connected."""
        listed = await self._list(connection)
        known = {one.client_id: one for one in await self._db.read(all_of, connection)}
        default = next((one.id for one in listed if one.id in known and known[one.id].is_default), None)
        default = default or next((one.id for one in listed if EXPORT in one.service_names), None)
        default = default or (listed[0].id if listed else None)
        is_booked = False
        if default is not None:
            # The list may be older than what the client itself says.
            seen = await self._services.get(connection, "clients", f"clients/{part(default)}", ListedClient)
            listed = [seen if one.id == default else one for one in listed]
            is_booked = EXPORT in seen.service_names
        await self._db.write(_replace, connection, listed, default, is_booked=is_booked)
        return is_booked

    async def _list(self, connection: ConnectionRef) -> list[ListedClient]:
        found: dict[str, ListedClient] = {}
        for page in range(MAX_PAGES):
            path = f"clients?skip={page * PAGE}&top={PAGE}"
            some = await self._services.get(connection, "clients", path, list[ListedClient])
            found.update({one.id: one for one in some})
            if len(some) < PAGE:
                break
        return list(found.values())

    async def fiscal_years(self, connection: ConnectionRef, client: KeptClient, now: int) -> list[FiscalYear]:
        """Returns the fiscal years, the first one first; those of the last hour without asking."""
        if client.years_at and now - client.years_at < YEARS_KEPT:
            return client.fiscal_years
        path = f"clients/{part(client.client_id)}/fiscal-years"
        ids = await self._services.lines(connection, "exchange", path, int)
        found = []
        for year_id in sorted(set(ids)):
            found += await self._services.lines(connection, "exchange", f"{path}/{year_id}", FiscalYear)
        found.sort(key=lambda year: year.yearBegin)
        for year in found:
            if not 4 <= year.accountLength <= 8:
                raise ProviderError(None, f"DATEV names accounts of {year.accountLength} digits", type="nonsense")
        await self._db.write(_keep_years, connection, client.client_id, encode(found).decode())
        return found


# --- Rows


_COLUMNS = ", ".join(KeptClient._fields)


def all_of(tx: Tx, connection: ConnectionRef) -> list[KeptClient]:
    """Returns the clients of a connection, the default one first."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM datev_clients WHERE organization_id = ? AND connection_id = ?",
        connection.organization_id, connection.id,
    )  # fmt: skip
    return sorted(map(KeptClient._make, rows), key=lambda one: (not one.is_default, _in_order(one.client_id)))


def _in_order(client_id: str) -> tuple[int, ...]:
    return tuple(int(number) for number in client_id.split("-") if number.isdigit())


def find(tx: Tx, connection: ConnectionRef, client_id: str | None) -> KeptClient:
    """Returns this client, or the default one. Raises BadRequest if there is no such client."""
    found = [one for one in all_of(tx, connection) if client_id in (one.client_id, None)]
    if not found:
        if client_id is None:
            raise ProviderError(403, "the sign-in at DATEV sees no client", type="client", help_url=HELP)
        raise BadRequest(said("The connection has no client {client}.", client=client_id), field="clientId")
    return found[0]


def choose(tx: Tx, connection: ConnectionRef, client_id: str) -> None:
    if client_id not in [one.client_id for one in all_of(tx, connection)]:
        raise NotFound(said("The connection has no client {client}.", client=client_id))
    tx.run(
        "UPDATE datev_clients SET is_default = CASE WHEN client_id = ? THEN 1 ELSE 0 END WHERE organization_id = ? AND connection_id = ?",
        client_id, connection.organization_id, connection.id,
    )  # fmt: skip


def _replace(
    tx: Tx, connection: ConnectionRef, listed: list[ListedClient], default: str | None, *, is_booked: bool
) -> None:
    known = {one.client_id: one for one in all_of(tx, connection)}
    tx.run(
        "DELETE FROM datev_clients WHERE organization_id = ? AND connection_id = ?",
        connection.organization_id, connection.id,
    )  # fmt: skip
    tx.many(
        f"INSERT INTO datev_clients (organization_id, connection_id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                connection.organization_id, connection.id, one.id, one.name, encode(one.service_names).decode(),
                int(one.id == default), *((known[one.id].years, known[one.id].years_at) if one.id in known else ("[]", 0)),
            )
            for one in listed
        ],
    )  # fmt: skip
    status = connections.status_of(tx, connection.organization_id, connection.id)
    if is_booked and status != "connected":
        connections.set_status(tx, connection, "connected")
    elif not is_booked:
        connections.set_status(tx, connection, "error")


def _keep_years(tx: Tx, connection: ConnectionRef, client_id: str, years: str) -> None:
    tx.run(
        "UPDATE datev_clients SET years = ?, years_at = ? WHERE organization_id = ? AND connection_id = ? AND client_id = ?",
        years, tx.now, connection.organization_id, connection.id, client_id,
    )  # fmt: skip
