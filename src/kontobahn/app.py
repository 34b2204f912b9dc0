"""The composition root: settings → database → routes → jobs. The only module that knows every part."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import MutableMapping
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kontobahn import __version__, limits, log
from kontobahn.access import audit, identity_provider
from kontobahn.access.audit import Actor
from kontobahn.access.identity_provider import IdentityProvider
from kontobahn.access.sessions import Authenticator, SignIns
from kontobahn.api.answers import Error
from kontobahn.api.bodies import Receive
from kontobahn.api.call import Context, DeferredWrites
from kontobahn.api.declare import Endpoint, collect
from kontobahn.api.exchange import ClientAddress, Routes, RunningRequests, Scope, send_busy
from kontobahn.api.openapi import build_openapi
from kontobahn.api.pages import Asgi, LazyApp, bounded_pages
from kontobahn.api.request_log import AnsweredCalls, RequestLog, Usage
from kontobahn.api.server import Api, ApiDependencies
from kontobahn.api.tasks import Exports, Tasks
from kontobahn.api.wire import Answer
from kontobahn.assistants import access as assistant_access
from kontobahn.assistants import authorization, grants, prepared
from kontobahn.assistants.authorization import ClientDocuments
from kontobahn.auth import sessions as auth_sessions
from kontobahn.auth import users as auth_users
from kontobahn.bank_providers.files import FilesProvider
from kontobahn.bank_providers.sandbox import adapter as sandbox
from kontobahn.bank_providers.sandbox.adapter import SandboxProvider
from kontobahn.bank_providers.sandbox.adapter import controls as sandbox_controls
from kontobahn.banking import wire as banking_wire
from kontobahn.banking.connect import routes as connect_routes
from kontobahn.banking.connections import accounts, flows
from kontobahn.banking.connections import routes as connection_routes
from kontobahn.banking.imports import routes as import_routes
from kontobahn.banking.payments import order_files, releases, submissions
from kontobahn.banking.payments import routes as payment_routes
from kontobahn.banking.payments import store as payments
from kontobahn.banking.provider import Banking, BankProvider
from kontobahn.banking.reports import refresh
from kontobahn.banking.reports import webhooks as provider_webhooks
from kontobahn.banking.transactions import routes as transaction_routes
from kontobahn.books.adapter import BooksProvider
from kontobahn.books.setup import own_books
from kontobahn.clock import Clock, SystemClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.db.migrate import migrate
from kontobahn.errors import SetupError, Unavailable
from kontobahn.events import Events, Watch, event_log, webhook_endpoints, webhook_url
from kontobahn.jobs import JobRunner, Overdue, overdue
from kontobahn.ledger.errors import LedgerError
from kontobahn.ledger.provider import Ledger, LedgerProvider
from kontobahn.ledger.routes import duo, rewe, rewe_read
from kontobahn.metrics import Metrics
from kontobahn.mobility import customers as mobility_customers
from kontobahn.mobility import seller as mobility_seller
from kontobahn.mobility import tickets as mobility_tickets
from kontobahn.mobility.invoices import documents
from kontobahn.mobility.invoices import routes as invoice_routes
from kontobahn.mobility.platforms import OwnTickets
from kontobahn.mobility.tickets import Mobility
from kontobahn.outbound import OutboundClient, Rule
from kontobahn.payables import booking as payables_booking
from kontobahn.payables import by_hand as payables_by_hand
from kontobahn.payables import due as payables_due
from kontobahn.payables import handover as payables_handover
from kontobahn.payables import mailbox as payables_mailbox
from kontobahn.payables import routes as payable_routes
from kontobahn.payables import runs as payment_runs
from kontobahn.payables import wire as payables_wire
from kontobahn.payables.handover import documents as payable_documents
from kontobahn.payables.intake import rules_of
from kontobahn.payables.mailbox import Mailboxes
from kontobahn.reconciliation import account_merges, batches, knowledge, matches, office_bookings, report, runs
from kontobahn.reconciliation import accounts as reconciled_accounts
from kontobahn.reconciliation import transactions as reconciled_transactions
from kontobahn.reconciliation import wire as reconciliation_wire
from kontobahn.schedule import scheduled_jobs
from kontobahn.settings import Settings, load
from kontobahn.sockets import Bounds, ConnectionWatch, allow_files
from kontobahn.threads import Pool
from kontobahn.vault import Vault, open_vault
from kontobahn.webhooks.deliverer import Deliverer

UPKEEP_SECONDS = 5
# For what would hold up the event loop: large bodies, large answers, compression.
CALCULATING_THREADS, CALCULATIONS_WAITING = 4, 256
EVENTS: dict[str, type[Answer]] = banking_wire.EVENTS | reconciliation_wire.EVENTS | payables_wire.EVENTS
# By area: errors that have further fields.
ERRORS: dict[str, type[Error]] = {
    "Ledger": LedgerError,
    "Banking": banking_wire.BankingError,
    "Mobility": mobility_seller.MobilityError,
    "Payables": payables_wire.PayablesError,
    "Reconciliation": reconciliation_wire.ReconciliationError,
}
# The paths of assistants, where they are let in.
MCP_PATHS = frozenset(
    (
        *("/mcp", "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"),
        *(authorization.METADATA, authorization.TOKEN, authorization.REVOKE),
    )
)
# The paths that programs ask to watch the service, often before a person has opened a page.
SYSTEM_PATHS = frozenset(("/healthz", "/readyz", "/metrics", "/openapi.json"))
FINTS, SALT_EDGE, ENABLE_BANKING, EBICS = "fints", "salt_edge", "enable_banking", "ebics"
# The setting that sets a provider up.
_NEEDS = {
    EBICS: "ebics", FINTS: "fints_product_id", SALT_EDGE: "salt_edge_app_id", ENABLE_BANKING: "enable_banking_app_id",
}  # fmt: skip


def all_endpoints() -> list[Endpoint]:
    return collect(
        *(auth_sessions, auth_users),
        *(duo, rewe_read, rewe),
        *(connect_routes, connection_routes, refresh, accounts, transaction_routes, import_routes),
        *(
            payment_routes,
            order_files,
            submissions,
            releases,
            provider_webhooks,
            webhook_url,
            webhook_endpoints,
            event_log,
        ),
        *(mobility_customers, mobility_tickets, invoice_routes, mobility_seller),
        *(
            payable_routes,
            payables_by_hand,
            payables_due,
            payment_runs,
            payables_booking,
            payables_handover,
            payables_mailbox,
        ),
        *(assistant_access, prepared),
        *(
            reconciled_accounts,
            runs,
            reconciled_transactions,
            matches,
            knowledge,
            account_merges,
            report,
            batches,
            office_bookings,
        ),
    )


def make_context(settings: Settings, db: Database, vault: Vault, clock: Clock) -> Context:
    """Everything that calls and jobs work with: every area's providers behind their ports."""
    if settings.invoice_rules_folder:
        # Rules that cannot be read are reported at the start, not with the first invoice.
        rules_of(settings)
    outbound = open_outbound_client(settings)
    parts = (
        SignIns(db, vault),
        identity_provider.set_up(settings, clock),
        Pool("calculating", threads=CALCULATING_THREADS, waiting=CALCULATIONS_WAITING),
        runs.Matching("matching", threads=2, waiting=32),
        Tasks(db, settings),
        DeferredWrites(db),
        Exports(),
        set_up_ledger(settings, db, vault, clock),
        own_books(BooksProvider.name),
        set_up_banks(settings, db, vault, clock),
        Mobility({OwnTickets.name: OwnTickets()}),
        sandbox_controls(),
        Mailboxes(Rule.of_setting(settings.mailbox_allow, "mailbox_allow")),
        Events(outbound, Watch(db)),
        ClientDocuments(outbound, clock),
    )
    return Context(
        db,
        vault,
        settings,
        clock,
        {type(part): part for part in parts},
        user_removals=(_remove_bank_connections, grants.end_of_user),
    )


def sandbox_bank(context: Context) -> SandboxProvider:
    provider = context.part(Banking).providers[sandbox.NAME]
    assert isinstance(provider, SandboxProvider)
    return provider


class Application:
    """Kontobahn as one ASGI application, with its startup and shutdown."""

    def __init__(self, settings: Settings, clock: Clock | None = None, db: Database | None = None) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.vault: Vault = open_vault(settings)
        self.db: Database = db or open_database(settings, self.clock)
        self.windows = limits.open_windows(settings, self.clock)
        self.metrics = Metrics()
        self.usage = Usage(self.db)
        self.requests = RequestLog(self.db, settings.request_log_rows)
        self.answered = AnsweredCalls(self.metrics, self.usage, self.requests)
        self.endpoints = all_endpoints()
        self._refuse_unknown_prices()
        context = self.context = make_context(settings, self.db, self.vault, self.clock)
        self.outbound, self.watch = context.part(Events)
        self.authenticator = Authenticator(self.db, self.vault, self.clock)
        self.addresses = ClientAddress(settings.trusted_proxies)
        self.running = RunningRequests(settings.connections_per_address)
        self._watch_of_worker: ConnectionWatch | None = None
        self.api = Api(
            ApiDependencies(
                context=context,
                clock=self.clock,
                authenticator=self.authenticator,
                windows=self.windows,
                groups=limits.groups(settings),
                answered=self.answered,
                routes=Routes(self.endpoints),
            )
        )
        self._scheduled = scheduled_jobs(context)
        self.jobs = JobRunner(self.db, self._scheduled) if settings.run_jobs else None
        self.jobs_overdue: list[Overdue] = []
        self._started_at = self.clock.now()
        self.deliverer = Deliverer(self.db, self.vault, self.outbound, settings, self.clock, self.metrics)
        self.sandbox = sandbox_bank(context)
        self._flusher: asyncio.Task[None] | None = None
        # The application at /mcp, a library away; only where the setting wants it.
        self._assistants: Any = None
        if settings.mcp and find_spec("mcp") is None:
            raise SetupError("The setting mcp needs the package mcp: install kontobahn[mcp].")
        self._openapi = cache(lambda: build_openapi(self.endpoints, settings, EVENTS, ERRORS))
        # The pages for programs need much less than those for people.
        self._system, self._pages = LazyApp(self._make_system), LazyApp(self._make_pages)

    async def __call__(self, scope: Scope, receive: Receive, send: Any) -> None:
        if scope["type"] == "http":
            client = scope.get("client")
            # The server writes the port as a text.
            peer = (client[0], int(client[1])) if client else None
            ip = self.addresses.of_scope(scope)
            if not self.running.enter(peer, ip):
                await send_busy(send)
                return
            try:
                path = scope["path"]
                if path.startswith("/v2/") or path == "/v2":
                    await self.api(scope, receive, send, ip)
                elif self._assistants is not None and path in MCP_PATHS:
                    await self._assistants(scope, receive, send, ip)
                else:
                    pages = self._system if path in SYSTEM_PATHS else self._pages
                    await pages(scope, receive, send)
            finally:
                self.running.leave(peer, ip)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)

    def watch_connections(self, connections: int, port: int | None = None) -> ConnectionWatch:
        settings = self.settings
        bounds = Bounds(connections, settings.connections_per_address, settings.idle_seconds)
        loop = asyncio.get_running_loop()
        return ConnectionWatch(bounds, self.running, self.addresses.is_trusted, port, loop=loop)

    async def startup(self) -> None:
        try:
            await asyncio.to_thread(migrate, self.db)
        except Unavailable as error:
            # Serve nevertheless: calls answer 503 until the database is back.
            log.warning("database_unavailable_at_start", detail=error.operator)
            self._late_migration = asyncio.create_task(self._migrate_when_back())
        self._flusher = asyncio.create_task(self._repeat_upkeep())
        self.watch.start()
        if self.settings.mcp:
            self._assistants = await asyncio.to_thread(self._make_assistants)
            await self._assistants.start()
        if self.jobs:
            self.jobs.start()
            self.deliverer.start()
            self.sandbox.sender.start()

    def about_to_stop(self) -> None:
        """Lets calls that only wait for an event answer now; called before the server waits for running calls."""
        self.watch.close()

    async def shutdown(self) -> None:
        """Finishes running calls and jobs, then closes everything."""
        self.about_to_stop()
        await self.api.finish_running(self.settings.shutdown_grace_seconds)
        if self._assistants is not None:
            await self._assistants.stop()
        await self.context.part(Tasks).finish_running(self.settings.shutdown_grace_seconds)
        await self.context.part(Banking).finish(self.settings.shutdown_grace_seconds)
        if self.jobs:
            await self.jobs.stop()
        await self.sandbox.sender.stop()
        await self.deliverer.stop()
        await self.outbound.close()
        await self.context.part(IdentityProvider).close()
        await self.context.part(Ledger).close()
        if self._flusher:
            self._flusher.cancel()
            with suppress(asyncio.CancelledError):
                await self._flusher
        await self.answered.flush()
        await self.windows.close()
        self.api.close()
        await asyncio.to_thread(self.db.close)

    async def _migrate_when_back(self) -> None:
        while True:
            await asyncio.sleep(2)
            try:
                await asyncio.to_thread(migrate, self.db)
                return
            except SetupError as error:
                log.error("start_refused", error=str(error))
                os.kill(os.getpid(), signal.SIGTERM)
                return
            except Unavailable:
                continue

    async def _repeat_upkeep(self) -> None:
        while True:
            await asyncio.sleep(UPKEEP_SECONDS)
            try:
                await self.upkeep()
            except Exception as error:
                log.exception("upkeep_failed", error)

    async def upkeep(self) -> None:
        """Writes what was counted, and looks which jobs are overdue, whichever process should run them."""
        await self.answered.flush()
        try:
            found = await self.db.read(overdue, self._scheduled, self._started_at)
        except Unavailable:
            return
        known = {item.name for item in self.jobs_overdue}
        for item in found:
            if item.name not in known:
                log.warning("job_overdue", job=item.name, seconds=item.seconds)
        self.jobs_overdue = found
        self.metrics.note_overdue({job.name: 0 for job in self._scheduled} | dict(found))

    async def _lifespan(self, receive: Receive, send: Any) -> None:
        while True:
            message: MutableMapping[str, Any] = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.startup()
                    # One of several workers: it has no listening socket but the server's.
                    self._watch_of_worker = self.watch_connections(allow_files(self.settings.connections))
                    self._watch_of_worker.start()
                except SetupError as error:
                    log.error("start_refused", error=str(error))
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                if self._watch_of_worker is not None:
                    self._watch_of_worker.stop()
                await self.shutdown()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def _make_system(self) -> Asgi:
        """Called at the first use, as `_make_pages`."""
        from starlette.applications import Starlette

        from kontobahn.api.system import system_routes

        routes = system_routes(
            self.db, self.answered.metrics, self._openapi, lambda: self.jobs_overdue, documents.given_up
        )
        assert {route.path for route in routes} == SYSTEM_PATHS
        return bounded_pages(Starlette(routes=routes), self.settings)

    def _make_pages(self) -> Asgi:
        """Called at the first use: a service that only answers /v2 starts without the libraries for pages."""
        from starlette.applications import Starlette

        from kontobahn.api.docs import docs_routes
        from kontobahn.bank_providers.sandbox.pages import SandboxPages
        from kontobahn.banking.connect.pages import ConnectPages
        from kontobahn.banking.connect.steps import PATH as CONNECT_PATH
        from kontobahn.banking.hosted import pages as hosted_pages
        from kontobahn.banking.payments.pages import OrderPages
        from kontobahn.dashboard.declare import ROOT as DASHBOARD
        from kontobahn.dashboard.dispatch import Dashboard
        from kontobahn.guide.routes import guide_routes

        routes = [
            *docs_routes(self._openapi),
            *guide_routes(),
            *hosted_pages.routes(),
            *OrderPages(self.context).routes(),
            *ConnectPages(self.context).routes(),
            *SandboxPages(self.db, self.sandbox.sender, self._connection_id, self._payment_id).routes(),
            *Dashboard(self._dashboard_dependencies()).routes(),
        ]
        return bounded_pages(Starlette(routes=routes), self.settings, but_not=DASHBOARD, with_sheets=CONNECT_PATH)

    def _make_assistants(self) -> Any:
        from kontobahn.mcp.http import Assistants, Dependencies

        return Assistants(
            Dependencies(
                self.api,
                self.authenticator,
                self.db,
                self.vault,
                self.windows,
                limits.groups(self.settings),
                self.settings.base_url,
            )
        )

    def _dashboard_dependencies(self) -> Any:
        from kontobahn.dashboard.menu import Menu
        from kontobahn.dashboard.pages import every_page
        from kontobahn.dashboard.security import Cookies
        from kontobahn.dashboard.visit import Dependencies

        return Dependencies(
            context=self.context,
            windows=self.windows,
            groups=limits.groups(self.settings),
            metrics=self.metrics,
            addresses=self.addresses,
            uploads=self.api.uploads,
            cookies=Cookies(self.settings, self.vault),
            pages=every_page(),
            menu=Menu(every_page()),
        )

    async def _connection_id(self, pending_token: str) -> str | None:
        flow = await self.db.read(flows.find, sandbox.NAME, pending_token)
        return flow.connection_id if flow else None

    async def _payment_id(self, provider_ref: str) -> str | None:
        row = await self.db.read(payments.by_provider_ref, sandbox.NAME, provider_ref)
        return str(row.id) if row else None

    def _refuse_unknown_prices(self) -> None:
        chargeable = {endpoint.name for endpoint in self.endpoints if endpoint.caller != "anybody"}
        for name in self.settings.prices:
            if name not in chargeable:
                raise SetupError(f"The setting prices names “{name}”, which is not an endpoint that can be charged.")


def _remove_bank_connections(tx: Tx, organization_id: str, user_id: str, actor: Actor) -> None:
    for row in flows.remove_of_user(tx, user_id):
        audit.record(tx, row.organization_id, actor, "bank_connection.delete", row.id, bank=row.provider_name)


def open_outbound_client(settings: Settings) -> OutboundClient:
    """The client for everything that reaches the network."""
    return OutboundClient(Rule.of_setting(settings.webhook_allow), user_agent=f"Kontobahn/{__version__}")


def create() -> Application:
    """For a server that makes the application in its worker processes, with settings from the environment."""
    settings = load()
    log.configure(settings.log_level, form=settings.log_format)
    log.info("worker_started", version=__version__)
    return Application(settings)


# --- The accounting providers of an installation


def set_up_ledger(settings: Settings, db: Database, vault: Vault, clock: Clock) -> Ledger:
    providers: dict[str, LedgerProvider] = {BooksProvider.name: BooksProvider(db, payable_documents)}
    if settings.datev_client_id:
        from kontobahn.datev.adapter import DatevProvider
        from kontobahn.datev.setup import application

        rule = Rule.of_setting(settings.datev_allow, "datev_allow")
        network = OutboundClient(rule, user_agent=f"Kontobahn/{__version__}")
        providers[DatevProvider.name] = DatevProvider(
            db, vault, clock, network, application(settings), payable_documents
        )
    return Ledger(providers)


# --- The banking providers of an installation: which there are, how they reach the network, and which of them connect banks


def set_up_banks(settings: Settings, db: Database, vault: Vault, clock: Clock) -> Banking:
    providers: dict[str, BankProvider] = {
        FilesProvider.name: FilesProvider(settings.order_file_days),
        sandbox.NAME: SandboxProvider(db, vault, settings, clock, LoopbackClient()),
    }
    if settings.fints_product_id:
        providers[FINTS] = _fints(settings, db, vault, clock, providers[FilesProvider.name])
    if settings.salt_edge_app_id:
        providers[SALT_EDGE] = _salt_edge(settings, vault, clock)
    if settings.enable_banking_app_id:
        providers[ENABLE_BANKING] = _enable_banking(settings, db, clock)
    if settings.ebics:
        providers[EBICS] = _ebics(settings, db, vault, clock, providers[FilesProvider.name])
    return Banking(providers, connect_providers(settings, providers), set(), (prepared.ordered_today,))


def _fints(settings: Settings, db: Database, vault: Vault, clock: Clock, orders: BankProvider) -> BankProvider:
    if find_spec("fints") is None:
        raise SetupError("The setting fints_product_id needs the package fints: install kontobahn[fints].")
    from kontobahn.bank_providers.fints.adapter import FintsProvider, read_list

    banks = read_list(Path(settings.fints_banks)) if settings.fints_banks else {}
    return FintsProvider(db, vault, clock, _bank_network(settings), settings.fints_product_id, banks, orders)


def _ebics(settings: Settings, db: Database, vault: Vault, clock: Clock, orders: BankProvider) -> BankProvider:
    from kontobahn.bank_providers.ebics.adapter import EbicsProvider

    return EbicsProvider(db, vault, clock, _bank_network(settings), orders)


def _bank_network(settings: Settings) -> OutboundClient:
    return OutboundClient(Rule.of_setting(settings.bank_allow, "bank_allow"), user_agent=f"Kontobahn/{__version__}")


def _salt_edge(settings: Settings, vault: Vault, clock: Clock) -> BankProvider:
    from kontobahn.bank_providers.salt_edge.adapter import set_up

    return set_up(settings, vault, clock, _bank_network(settings))


def _enable_banking(settings: Settings, db: Database, clock: Clock) -> BankProvider:
    from kontobahn.bank_providers.enable_banking.adapter import set_up

    network = _bank_network(settings)
    return set_up(settings, db, clock, network, network.rule)


def connect_providers(settings: Settings, providers: dict[str, BankProvider]) -> tuple[str, ...]:
    """Reads the setting that names them. Raises SetupError if a name is of no provider here."""
    # Choice 49: the sandbox bank is offered only where the setting names it.
    if not settings.connect_provider.strip():
        return tuple(name for name in providers if name not in (FilesProvider.name, sandbox.NAME))
    names = tuple(filter(None, (name.strip() for name in settings.connect_provider.split(","))))
    for name in names:
        if name in _NEEDS and name not in providers:
            raise SetupError(f"The provider {name} needs the setting {_NEEDS[name]}.")
        if name not in providers:
            known = ", ".join(providers)
            raise SetupError(f"The setting connect_provider names “{name}”; there are {known}.")
    # Accounts that are kept by files are not connected.
    return tuple(dict.fromkeys(name for name in names if name != FilesProvider.name))


class LoopbackClient:
    """The sandbox bank's way to our webhook endpoint: at an address of the operator's choice, so any is allowed."""

    def __init__(self) -> None:
        self._outbound = OutboundClient(Rule(anywhere=True), user_agent="Kontobahn sandbox bank")

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> int:
        return (await self._outbound.send("POST", url, headers=headers, body=body)).status

    async def close(self) -> None:
        await self._outbound.close()
