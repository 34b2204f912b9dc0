"""`kontobahn serve`, `jobs`, `migrate` and `demo`."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from typing import Annotated, Any

import msgspec
import typer

from kontobahn import __version__, log
from kontobahn import serve as server
from kontobahn.access import organizations
from kontobahn.app import Application, make_context, sandbox_bank
from kontobahn.bank_providers.sandbox import adapter as sandbox
from kontobahn.cli.common import DataOption, installation, read_settings
from kontobahn.cli.output import JsonOption, say
from kontobahn.clock import SystemClock
from kontobahn.dashboard.declare import FIRST_RUN
from kontobahn.db import Database, open_database
from kontobahn.db.migrate import migrate as apply_migrations
from kontobahn.demo.facts import facts_path, shell_variables, write_facts
from kontobahn.demo.world import ensure_demo
from kontobahn.errors import Unavailable
from kontobahn.events import Events
from kontobahn.jobs import JobRunner
from kontobahn.metrics import Metrics
from kontobahn.schedule import scheduled_jobs
from kontobahn.settings import Settings
from kontobahn.vault import Vault, open_vault
from kontobahn.webhooks.deliverer import Deliverer

HostOption = Annotated[str, typer.Option("--host", help="Address to listen on.")]
PortOption = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 takes a free one.")]


def serve(
    host: HostOption = "127.0.0.1",
    port: PortOption = 8080,
    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Processes; more than one needs PostgreSQL and Redis.")
    ] = 1,
    no_jobs: Annotated[bool, typer.Option("--no-jobs", help="Leave scheduled jobs to `kontobahn jobs`.")] = False,
    with_demo: Annotated[bool, typer.Option("--demo", help="Create the demo and print how to use it.")] = False,
    data: DataOption = None,
) -> None:
    """Serve the API until told to stop.

    Examples: kontobahn serve --demo   |   kontobahn serve --host 0.0.0.0 --workers 4
    """
    settings = read_settings(data, run_jobs=False if no_jobs else None)
    server.check_workers(settings, workers)
    holder, real_port = server.reserve_port(host, port)
    base_url = settings.base_url or f"http://{_reachable(host)}:{real_port}"
    settings = msgspec.structs.replace(settings, base_url=base_url)
    if with_demo and not settings.connect_provider:
        # The demo's banks are at the sandbox bank.
        settings = msgspec.structs.replace(settings, connect_provider=sandbox.NAME)
    with holder:
        if workers > 1:
            facts, code = _prepare_if_reached(settings, with_demo=with_demo)
            _announce(settings, base_url, facts, code)
            server.serve_many(settings, host, real_port, workers)
            return
        application = Application(settings)
        facts = None
        if with_demo:
            apply_migrations(application.db)
            facts = ensure_demo(settings, application.db, application.vault)

        def ready() -> None:
            _announce(settings, base_url, facts, _first_run_code(application.db, application.vault))

        server.serve_one(application, host, real_port, ready)


def jobs(data: DataOption = None) -> None:
    """Run the scheduled jobs and deliver events until told to stop, for processes served with --no-jobs."""
    with installation(data) as here:
        log.info("jobs_started", version=__version__)

        async def main() -> None:
            context = make_context(here.settings, here.db, here.vault, SystemClock())
            runner = JobRunner(here.db, scheduled_jobs(context))
            outbound = context.part(Events).outbound
            deliverer = Deliverer(here.db, here.vault, outbound, here.settings, SystemClock(), Metrics())
            stop = asyncio.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
            sender = sandbox_bank(context).sender
            runner.start()
            deliverer.start()
            sender.start()
            await stop.wait()
            await runner.stop()
            await sender.stop()
            await deliverer.stop()
            await outbound.close()

        asyncio.run(main())


def migrate(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Create the database, or bring it up to date."""
    settings = read_settings(data)
    db = open_database(settings, SystemClock())
    try:
        applied = apply_migrations(db)
        open_vault(settings)
    finally:
        db.close()
    text = f"Applied: {', '.join(applied)}." if applied else "The database is up to date."
    say({"applied": applied}, text, as_json=as_json)


def demo(
    shell: Annotated[
        bool, typer.Option("--shell", help="Print its address, keys and ids as variables for a shell to eval.")
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create the demo's organisations, keys and data; `serve --demo` does it too.

    Example: eval "$(kontobahn demo --shell)"
    """
    settings = read_settings(data)
    facts, _ = _prepare(settings, with_demo=True)
    assert facts is not None
    if shell:
        print(shell_variables(facts))
        return
    say(facts, f"The demo is ready; its keys are in {facts_path(settings)}.", as_json=as_json)


def _prepare(settings: Settings, *, with_demo: bool) -> tuple[dict[str, Any] | None, str]:
    db = open_database(settings, SystemClock())
    try:
        apply_migrations(db)
        vault = open_vault(settings)
        facts = ensure_demo(settings, db, vault) if with_demo else None
        return facts, _first_run_code(db, vault)
    finally:
        db.close()


def _prepare_if_reached(settings: Settings, *, with_demo: bool) -> tuple[dict[str, Any] | None, str]:
    """Without the database, workers answer 503 and bring it up to date when it is back. Only the demo cannot do without it."""
    try:
        return _prepare(settings, with_demo=with_demo)
    except Unavailable as error:
        if with_demo:
            raise
        log.warning("database_unavailable_at_start", detail=error.operator)
        return None, ""


def _first_run_code(db: Database, vault: Vault) -> str:
    """Returns the lines that let the first person in; empty if there is somebody, or if the database cannot be asked now."""
    try:
        return organizations.first_run_code(vault) if db.read_now(organizations.is_first_run_due) else ""
    except Unavailable:
        return ""


def _reachable(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _announce(settings: Settings, base_url: str, facts: dict[str, Any] | None, code: str) -> None:
    log.info("serving", version=__version__, base_url=base_url, started_seconds=round(time.process_time(), 3))
    if facts is None:
        print(f"Kontobahn {__version__} serves {base_url}/dashboard (documentation at {base_url}/docs)")
        if code:
            print(
                f"\nNobody can sign in yet. Set up the first organisation: open\n\n  {base_url}{FIRST_RUN}?code={code}\n\n"
                f"or {base_url}/dashboard with this code, which works once:\n\n  Code  {code}\n"
            )
        sys.stdout.flush()
        return
    facts["base_url"] = base_url
    facts["dashboard"] = {"url": f"{base_url}/dashboard"}
    write_facts(settings, facts)
    key, user, adviser = facts["api_key"], facts["user"], facts.get("adviser")
    with_clients = (
        f"  or as     {adviser['email']}  (an adviser with six clients, the same password)\n" if adviser else ""
    )
    print(
        f"\nKontobahn {__version__} serves the demo at {base_url} (documentation at {base_url}/docs)\n\n"
        f"  Dashboard {base_url}/dashboard\n"
        f"  Sign in   {user['email']}  {user['password']}\n"
        f"{with_clients}"
        f"  API key   {key}\n"
        f"  All of it {facts_path(settings)}\n\nTry:\n\n"
        f"curl -H 'x-api-key: {key}' {base_url}/v2/ledger-rewe-read/connections\n"
        f"curl -H 'x-api-key: {key}' {base_url}/v2/auth/users\n"
        f"curl -H 'content-type: application/json' {base_url}/v2/auth/sessions"
        f' -d \'{{"email": "{user["email"]}", "password": "{user["password"]}"}}\'\n'
    )
    sys.stdout.flush()
