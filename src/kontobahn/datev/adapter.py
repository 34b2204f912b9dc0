"""DATEV's online services behind the ledger port."""

from __future__ import annotations

from collections.abc import Sequence

from kontobahn.clock import Clock
from kontobahn.datev import clients, ledger_jobs, postings, requests, sessions
from kontobahn.datev.books import DatevBooks
from kontobahn.datev.cash_entries import CashEntries
from kontobahn.datev.clients import EXPORT, Clients
from kontobahn.datev.file_imports import FileImports
from kontobahn.datev.ledger_jobs import LedgerJobs
from kontobahn.datev.postings import Postings
from kontobahn.datev.requests import Network, Requests
from kontobahn.datev.services import Services
from kontobahn.datev.sessions import Sessions, SignIns
from kontobahn.datev.setup import Application, Endpoints
from kontobahn.db import Database, Tx
from kontobahn.ledger.provider import (
    BookedClient,
    ClientBooks,
    ConnectionRef,
    DocumentSource,
    LedgerClient,
    Notebook,
    Progress,
    SentRequest,
    SignIn,
    Transmission,
)
from kontobahn.threads import Pool
from kontobahn.vault import Vault

NAME = "datev"
# For pages of postings, which take long to read.
THREADS, WAITING = 2, 64
SHORTEST, USUAL_CHART = 4, "SKR03"


class DatevProvider:
    name = NAME
    title = "DATEV"
    grants_url = "https://apps.datev.de/tokrevui"
    needed_service = EXPORT

    def __init__(
        self,
        db: Database,
        vault: Vault,
        clock: Clock,
        network: Network,
        ours: Application,
        documents: DocumentSource,
    ) -> None:
        self._db, self._clock = db, clock
        self._pool = Pool(NAME, threads=THREADS, waiting=WAITING)
        self._requests = Requests(db, clock, network)
        endpoints = Endpoints(ours, network, clock)
        self._sessions = Sessions(db, vault, clock, self._requests, endpoints, ours)
        self._services = Services(db, clock, self._requests, self._sessions, ours)
        self._sign_ins = SignIns(db, vault, clock, self._sessions, endpoints, ours)
        self._clients = Clients(db, self._services)
        self._postings = Postings(db, clock, self._services, self._pool)
        self._ledger_jobs = LedgerJobs(db, clock, self._services)
        self._cash_entries = CashEntries(clock, self._ledger_jobs)
        self._file_imports = FileImports(db, clock, self._services, documents, self._pool)

    # --- Books

    async def clients(self, connections: Sequence[ConnectionRef]) -> list[LedgerClient]:
        found = []
        for connection in connections:
            for one in await self._db.read(clients.all_of, connection):
                if EXPORT not in one.service_names:
                    continue
                years = one.fiscal_years
                chart, length = (years[-1].as_answer[2:]) if years else (USUAL_CHART, SHORTEST)
                found.append(
                    LedgerClient(connection.id, one.client_id, one.name, chart, length, None, bool(one.is_default))
                )
        return found

    async def open(self, connection: ConnectionRef, client_id: str | None) -> ClientBooks:
        client = await self._db.read(clients.find, connection, client_id)
        return DatevBooks(
            self._db, self._clock, self._services, self._clients, self._postings, self._ledger_jobs, self._pool,
            connection, client,
        )  # fmt: skip

    # --- Transmissions

    async def transmit(self, connection: ConnectionRef, sent: Transmission, notebook: Notebook) -> Progress:
        if sent.kind == "KASSENBUCH":
            return await self._cash_entries.transmit(connection, sent, notebook)
        return await self._file_imports.transmit(connection, sent, notebook)

    # --- The sign-in

    async def begin_sign_in(self, connection: ConnectionRef, session_id: str) -> str:
        return await self._sign_ins.begin(connection, session_id)

    async def finish_sign_in(self, organization_id: str, session_id: str, query: dict[str, str]) -> ConnectionRef:
        connection = await self._sign_ins.finish(organization_id, session_id, query)
        await self._clients.look_again(connection)
        return connection

    async def sign_in_of(self, connection: ConnectionRef) -> SignIn | None:
        found = await self._db.read(sessions.find, connection)
        return None if found is None else SignIn(found.person, found.signed_in_at, found.expires_at)

    async def booked_clients(self, connection: ConnectionRef) -> list[BookedClient]:
        return [one.as_booked for one in await self._db.read(clients.all_of, connection)]

    async def look_again(self, connection: ConnectionRef) -> bool:
        return await self._clients.look_again(connection)

    async def choose(self, connection: ConnectionRef, client_id: str) -> None:
        await self._db.write(clients.choose, connection, client_id)
        await self._clients.look_again(connection)

    async def disconnect(self, connection: ConnectionRef) -> bool:
        is_revoked = await self._sessions.revoke(connection)
        await self._db.write(postings.forget_all, connection)
        await self._db.write(ledger_jobs.forget_names, connection)
        return is_revoked

    async def sent_requests(self, connection: ConnectionRef, before: str | None, limit: int) -> list[SentRequest]:
        return await self._db.read(requests.listing, connection, before, limit)

    async def close(self) -> None:
        await self._requests.close()


def tidy(tx: Tx) -> None:
    """Removes what has expired: ways that nobody came back from, sign-ins whose time is over, requests that are old enough."""
    sessions.purge_sign_ins(tx)
    sessions.expire_due(tx)
    requests.purge(tx)
