"""The composition root: settings → database → routes → jobs. The only module that knows every part."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import MutableMapping
from contextlib import suppress
from functools import cache
from typing import Any

from kontobahn import __version__, banks, limits, log
from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.authenticator import Authenticator
from kontobahn.access.signin import SignIns
from kontobahn.api.answered import AnsweredCalls
from kontobahn.api.bodies import Receive
from kontobahn.api.call import Context
from kontobahn.api.declare import Endpoint, collect
from kontobahn.api.exchange import ClientAddress, Scope, send_busy
from kontobahn.api.first_use import MadeAtFirstUse
from kontobahn.api.later import Later
from kontobahn.api.openapi import build_openapi
from kontobahn.api.pages import Asgi, bounded_pages
from kontobahn.api.request_log import RequestLog
from kontobahn.api.routing import Routes
from kontobahn.api.running import RunningRequests
from kontobahn.api.server import Api, ApiDependencies
from kontobahn.api.tasks import Tasks
from kontobahn.api.usage import Usage
from kontobahn.auth import invitations as auth_invitations
from kontobahn.auth import passwords as auth_passwords
from kontobahn.auth import sessions as auth_sessions
from kontobahn.auth import users as auth_users
from kontobahn.banking import accounts, inbound
from kontobahn.banking.connections import banks as connect_banks
from kontobahn.banking.connections import flows
from kontobahn.banking.connections import routes as connection_routes
from kontobahn.banking.imports import routes as import_routes
from kontobahn.banking.payments import order_file_routes
from kontobahn.banking.payments import routes as payment_routes
from kontobahn.banking.payments import store as payments
from kontobahn.banking.provider import Banking
from kontobahn.banking.transactions import feed, listing
from kontobahn.clock import Clock, SystemClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.db.migrate import migrate
from kontobahn.errors import SetupError, Unavailable
from kontobahn.events import Events, event_log, resend_failed, webhook_endpoints, webhook_url
from kontobahn.events.watch import Watch
from kontobahn.jobs import JobRunner, Overdue, overdue
from kontobahn.ledger import connections as ledger_connections
from kontobahn.ledger import duo, permissions, rewe, rewe_export, rewe_write
from kontobahn.ledger.books.adapter import BooksProvider
from kontobahn.ledger.books.upgrade import FOLLOW_UPS
from kontobahn.ledger.provider import Ledger
from kontobahn.metrics import Metrics
from kontobahn.mobility import customers as mobility_customers
from kontobahn.mobility import seller as mobility_seller
from kontobahn.mobility.invoices import documents
from kontobahn.mobility.invoices import routes as invoice_routes
from kontobahn.mobility.logos import routes as logo_routes
from kontobahn.mobility.provider import Mobility
from kontobahn.mobility.providers.own import OwnTickets
from kontobahn.mobility.tickets import routes as ticket_routes
from kontobahn.outbound import OutboundClient, Rule
from kontobahn.reconciliation import calls as reconciliation
from kontobahn.sandbox_bank import adapter as sandbox
from kontobahn.sandbox_bank.adapter import SandboxProvider
from kontobahn.sandbox_bank.controls import controls as sandbox_controls
from kontobahn.schedule import scheduled_jobs
from kontobahn.settings import Settings, load
from kontobahn.sockets import Bounds, ConnectionWatch, allow_files
from kontobahn.threads import Pool
from kontobahn.vault import Vault, open_vault
from kontobahn.webhooks.deliver import Deliverer

UPKEEP_SECONDS = 5
# For what would hold up the event loop: large bodies, large answers, compression.
CALCULATING_THREADS, CALCULATIONS_WAITING = 2, 256
EVENTS = reconciliation.ALL_EVENTS
# What programs ask to watch the service, often before a person has opened a page.
SYSTEM_PATHS = frozenset(("/healthz", "/readyz", "/metrics", "/openapi.json"))


def all_endpoints() -> list[Endpoint]:
    return collect(
        *(auth_sessions, auth_invitations, auth_users, auth_passwords),
        *(ledger_connections, duo, rewe, rewe_write, rewe_export, permissions),
        *(connect_banks, connection_routes, accounts, listing, feed, import_routes),
        *(payment_routes, order_file_routes, inbound, webhook_url, webhook_endpoints, event_log, resend_failed),
        *(mobility_customers, ticket_routes, invoice_routes, mobility_seller, logo_routes),
        *reconciliation.MODULES,
    )


def make_context(settings: Settings, db: Database, vault: Vault, clock: Clock) -> Context:
    """What calls and jobs work with: every area's providers behind their ports."""
    parts = (
        SignIns(db, vault),
        Pool("calculating", threads=CALCULATING_THREADS, waiting=CALCULATIONS_WAITING),
        Tasks(db, settings),
        Later(db),
        rewe_export.Exports(),
        Ledger({"books": BooksProvider(db)}),
        banks.set_up(settings, db, vault, clock),
        Mobility({OwnTickets.name: OwnTickets()}),
        sandbox_controls(),
        Events(open_outbound_client(settings), Watch(db)),
    )
    return Context(
        db, vault, settings, clock, {type(part): part for part in parts}, user_removals=(_remove_bank_connections,)
    )


def sandbox_bank(context: Context) -> SandboxProvider:
    provider = context.part(Banking).providers[sandbox.NAME]
    assert isinstance(provider, SandboxProvider)
    return provider


class Application:
    """Kontobahn as one ASGI application, with its startup and shutdown."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.vault: Vault = open_vault(settings)
        self.db: Database = open_database(settings, self.clock)
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
        self._openapi = cache(lambda: build_openapi(self.endpoints, settings, EVENTS))
        # What programs ask needs much less than what people look at.
        self._system, self._pages = MadeAtFirstUse(self._make_system), MadeAtFirstUse(self._make_pages)

    async def __call__(self, scope: Scope, receive: Receive, send: Any) -> None:
        if scope["type"] == "http":
            client = scope.get("client")
            peer = (client[0], client[1]) if client else None
            ip = self.addresses.of_scope(scope)
            if not self.running.enter(peer, ip):
                await send_busy(send)
                return
            try:
                path = scope["path"]
                if path.startswith("/v2/") or path == "/v2":
                    await self.api(scope, receive, send, ip)
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
        return ConnectionWatch(bounds, self.running, self.addresses.is_trusted, port)

    async def startup(self) -> None:
        try:
            await asyncio.to_thread(migrate, self.db, FOLLOW_UPS)
        except Unavailable as error:
            # Serve nevertheless: calls answer 503 until the database is back.
            log.warning("database_unavailable_at_start", detail=error.operator)
            self._late_migration = asyncio.create_task(self._migrate_when_back())
        self._flusher = asyncio.create_task(self._repeat_upkeep())
        self.watch.start()
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
        await self.context.part(Tasks).finish_running(self.settings.shutdown_grace_seconds)
        await self.context.part(Banking).finish(self.settings.shutdown_grace_seconds)
        if self.jobs:
            await self.jobs.stop()
        await self.sandbox.sender.stop()
        await self.deliverer.stop()
        await self.outbound.close()
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
                await asyncio.to_thread(migrate, self.db, FOLLOW_UPS)
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
            self.db, self.answered.metrics, self._openapi, lambda: self.jobs_overdue, documents.laid_aside
        )
        assert {route.path for route in routes} == SYSTEM_PATHS
        return bounded_pages(Starlette(routes=routes), self.settings)

    def _make_pages(self) -> Asgi:
        """Called at the first use: a service that only answers /v2 starts without the libraries for pages."""
        from starlette.applications import Starlette

        from kontobahn.api.docs import docs_routes
        from kontobahn.banking.hosted import pages as hosted_pages
        from kontobahn.banking.hosted.connect_pages import ConnectPages
        from kontobahn.banking.payments.pages import OrderPages
        from kontobahn.dashboard.declare import ROOT as DASHBOARD
        from kontobahn.dashboard.dispatch import Dashboard
        from kontobahn.guide.routes import guide_routes
        from kontobahn.sandbox_bank.pages import SandboxPages

        routes = [
            *docs_routes(self.endpoints, self.settings),
            *guide_routes(),
            *hosted_pages.routes(),
            *OrderPages(self.context).routes(),
            *ConnectPages(self.context).routes(),
            *SandboxPages(self.db, self.sandbox.sender, self._connection_id, self._payment_id).routes(),
            *Dashboard(self._dashboard_dependencies()).routes(),
        ]
        return bounded_pages(Starlette(routes=routes), self.settings, but_not=DASHBOARD)

    def _dashboard_dependencies(self) -> Any:
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
