"""`kontobahn doctor`: checks everything an installation depends on, and says what to do."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer

from kontobahn import credits, jobs, mail
from kontobahn.access import identity_provider, organizations
from kontobahn.access.identity_provider import Discovery, IdentityProvider
from kontobahn.app import make_context
from kontobahn.banking.connections import sources
from kontobahn.books import verification
from kontobahn.cli.common import DataOption, counted, read_settings, say_table
from kontobahn.cli.output import JsonOption
from kontobahn.clock import SystemClock, berlin_date
from kontobahn.db import Database, Tx, open_database
from kontobahn.db.migrate import pending
from kontobahn.errors import KontobahnError, SetupError, Unavailable
from kontobahn.mobility.invoices import documents
from kontobahn.mobility.invoices import store as invoice_verify
from kontobahn.schedule import scheduled_jobs
from kontobahn.settings import Settings, describe
from kontobahn.vault import key_file, open_vault

MIN_FREE_BYTES = 1024**3
MAX_CLOCK_DIFFERENCE_SECONDS = 5
_MARKS = {"ok": "✓", "warning": "!", "failed": "✗"}


class Finding(NamedTuple):
    area: str
    state: Literal["ok", "warning", "failed"]
    text: str
    remedy: str = ""


def doctor(
    show_settings: Annotated[
        bool, typer.Option("--settings", help="Also list every setting with its meaning.")
    ] = False,
    with_books: Annotated[
        bool,
        typer.Option("--books", help="Also recompute the ledger's read models cent by cent, and check every invoice."),
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check settings, database, clock, disk and permissions, and say what to do.

    Exit code 1 when something has failed.
    """
    settings = read_settings(data)
    findings = list(_examine(settings, with_books=with_books))
    rows = [(item.area, item.state if as_json else _MARKS[item.state], item.text, item.remedy) for item in findings]
    say_table(("area", "state", "finding", "what_to_do"), rows, as_json=as_json, empty="")
    if show_settings and not as_json:
        print()
        in_force = [(name, getattr(settings, name), default, reason) for name, default, reason in describe()]
        shown = [
            (name, "…" if _is_secret(name) and value else value, default, why) for name, value, default, why in in_force
        ]
        say_table(("setting", "in_force", "default", "meaning"), shown, as_json=False, empty="")
    if any(item.state == "failed" for item in findings):
        raise typer.Exit(1)


def _is_secret(name: str) -> bool:
    return name in (
        "secret_key", "database_url", "redis_url", "salt_edge_secret", "smtp_url", "oidc_client_secret", "datev_client_secret",
    )  # fmt: skip


def _examine(settings: Settings, *, with_books: bool) -> Iterator[Finding]:
    yield Finding("settings", "ok", f"data directory {settings.data_dir}")
    yield from _permissions(settings)
    yield from _disk(settings)
    yield from _clock()
    yield from _redis(settings)
    try:
        db = open_database(settings, SystemClock())
    except Unavailable as error:
        yield Finding("database", "failed", error.operator or str(error), "Check the path and who may write to it.")
        return
    try:
        yield from _database(settings, db)
        yield from _mail(settings, db)
        yield from _sign_in(settings, db)
        if with_books:
            yield from _books(db)
            yield from _invoices(db)
    finally:
        db.close()


def _permissions(settings: Settings) -> Iterator[Finding]:
    folder = settings.data_dir
    if not folder.exists():
        yield Finding("data", "failed", f"{folder} does not exist", f"Run: kontobahn migrate --data {settings.data}")
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Finding(
            "data", "failed", f"{folder} cannot be written by this user", f"Run: chown {os.getuid()} {folder}"
        )
    try:
        open_vault(settings)
    except KontobahnError as error:
        yield Finding("secret key", "failed", str(error), "Restore the key from a backup, or correct its mode.")
        return
    where = "setting secret_key" if settings.secret_key else str(key_file(settings))
    yield Finding("secret key", "ok", f"{where}; without it no key or stored secret can be read", "Back it up.")
    if settings.payables_folder:
        watched = Path(settings.payables_folder).expanduser()
        if not os.access(watched, os.R_OK | os.W_OK | os.X_OK):
            fault = f"payables_folder: {watched} does not exist, or cannot be written by this user"
            yield Finding("invoices", "failed", fault, f"Run: mkdir -p {watched}; chown {os.getuid()} {watched}")
    path = settings.sqlite_path
    if not settings.on_postgres and path.exists() and path.stat().st_mode & 0o007:
        yield Finding("data", "warning", f"{path} can be read by every user of this machine", f"Run: chmod 600 {path}")


def _disk(settings: Settings) -> Iterator[Finding]:
    if not settings.data_dir.exists():
        return
    usage = shutil.disk_usage(settings.data_dir)
    text = f"{usage.free / 1024**3:.1f} GiB of {usage.total / 1024**3:.1f} GiB free"
    if usage.free < MIN_FREE_BYTES:
        yield Finding(
            "disk", "failed", text, "Make room: when the disk is full, calls answer 503 and nothing is written."
        )
    else:
        yield Finding("disk", "ok", text)


def _clock() -> Iterator[Finding]:
    now = SystemClock().now()
    try:
        today = berlin_date(now)
    except Exception:
        yield Finding("clock", "failed", "the time zone Europe/Berlin is not known", "Install tzdata.")
        return
    if today.year < 2026:
        yield Finding("clock", "failed", f"the clock says {today}", "Set the clock; run an NTP service.")
    else:
        yield Finding("clock", "ok", f"{today} in Europe/Berlin")


def _redis(settings: Settings) -> Iterator[Finding]:
    if not settings.redis_url:
        yield Finding("redis", "ok", "not used: rate limits count in one process")
        return
    from redis import Redis
    from redis.exceptions import RedisError

    try:
        Redis.from_url(settings.redis_url, socket_timeout=2, socket_connect_timeout=2).ping()
    except (RedisError, ValueError) as error:
        yield Finding("redis", "failed", str(error), "Start Redis, or correct the setting redis_url.")
    else:
        yield Finding("redis", "ok", "answers")


def _database(settings: Settings, db: Database) -> Iterator[Finding]:
    try:
        waiting = pending(db)
    except KontobahnError as error:
        detail = getattr(error, "operator", None) or str(error)
        remedy = "Check that the database runs and database_url is right." if isinstance(error, Unavailable) else ""
        yield Finding("database", "failed", detail, remedy)
        return
    if waiting:
        yield Finding("database", "failed", f"this version has more: {', '.join(waiting)}", "Run: kontobahn migrate")
        return
    yield Finding("database", "ok", "PostgreSQL answers, up to date" if settings.on_postgres else "SQLite, up to date")
    if settings.on_postgres:
        difference = abs(db.read_now(_database_seconds) - time.time())
        if difference > MAX_CLOCK_DIFFERENCE_SECONDS:
            yield Finding(
                "clock", "failed", f"{difference:.0f} s away from the database's clock", "Run an NTP service on both."
            )
    else:
        yield from _integrity(settings)
    wrong = db.read_now(credits.find_discrepancies)
    for text in wrong:
        yield Finding("credits", "failed", text, "Keep the database as it is and report this.")
    if not wrong:
        yield Finding("credits", "ok", "every account equals its statement")
    for item in db.read_now(documents.given_up):
        yield Finding(
            "invoices", "failed", f"the documents of invoice {item.invoice_number} cannot be made: {item.error}",
            f"Run: kontobahn invoices retry {item.invoice_id}",
        )  # fmt: skip
    yield from _accounts(db)
    yield from _jobs(settings, db)


def _jobs(settings: Settings, db: Database) -> Iterator[Finding]:
    for name, reason in db.read_now(jobs.failed):
        yield Finding("jobs", "failed", f"“{name}” failed the last time: {reason}", "See the log for the traceback.")

    try:
        scheduled = scheduled_jobs(make_context(settings, db, open_vault(settings), SystemClock()))
    except KontobahnError:  # the key, which was reported above
        return
    late = db.read_now(jobs.overdue, scheduled)
    if len(late) == len(scheduled):
        yield Finding(
            "jobs", "warning", f"none has run for {min(item.seconds for item in late)} s",
            "Run: kontobahn serve. With --no-jobs, also: kontobahn jobs",
        )  # fmt: skip
        return
    for item in late:
        yield Finding(
            "jobs", "failed", f"“{item.name}” should have run {item.seconds} s ago",
            "See the log for the cause; a restart runs it again.",
        )  # fmt: skip


def _accounts(db: Database) -> Iterator[Finding]:
    for twin in db.read_now(sources.twins):
        ids = ", ".join(map(str, twin.account_ids))
        yield Finding(
            "accounts",
            "warning",
            f"{twin.iban} ({twin.currency_code}) stands {counted(len(twin.account_ids), 'time')} in organisation"
            f" {twin.organization_id}: accounts {ids}",
            "Merge them on the page of all accounts, or with: kontobahn banks merge",
        )


def _mail(settings: Settings, db: Database) -> Iterator[Finding]:
    try:
        server = mail.find_server(settings)
    except SetupError as error:
        yield Finding("mail", "failed", str(error), "Correct the setting.")
        return
    if server is None:
        return
    try:
        mail.check_server(server)
    except mail.NotTaken as error:
        yield Finding("mail", "failed", f"{server.host}:{server.port}: {error}", "Check smtp_url, and the server.")
        return
    yield Finding("mail", "ok", f"{server.host}:{server.port}")
    try:
        state = db.read_now(mail.state)
    except Unavailable:  # reported above
        return
    if state.late:
        yield Finding(
            "mail",
            "warning",
            f"waiting for more than ten minutes: {counted(state.late, 'message')}",
            "Look whether jobs run.",
        )
    if state.given_up:
        yield Finding(
            "mail", "warning", f"{state.given_up} given up in the last week: {state.last_error}",
            "Check the addresses of the people concerned.",
        )  # fmt: skip


def _sign_in(settings: Settings, db: Database) -> Iterator[Finding]:
    """The identity provider, if there is one."""
    try:
        provider = identity_provider.set_up(settings, SystemClock())
    except SetupError as error:
        yield Finding("sign-in", "failed", str(error), "Correct the setting.")
        return
    if not provider.is_set_up:
        return
    organization_id = settings.oidc_organization
    try:
        found = asyncio.run(_asked(provider))
        is_missing = organization_id and not db.read_now(organizations.exists, organization_id)
    except identity_provider.Unreachable as error:
        yield Finding("sign-in", "failed", str(error), "Check oidc_issuer, oidc_allow, and the provider.")
        return
    except Unavailable:  # reported above
        return
    if is_missing:
        yield Finding(
            "sign-in",
            "failed",
            "the setting oidc_organization names no organisation",
            "Run: kontobahn organizations list",
        )
    if not settings.base_url.startswith("https:"):
        yield Finding(
            "sign-in", "warning", "the provider sends people back to base_url, which is not https", "Set base_url."
        )
    yield Finding("sign-in", "ok", f"{found.issuer}; it must allow {settings.base_url}{identity_provider.CALLBACK}")


async def _asked(provider: IdentityProvider) -> Discovery:
    try:
        return await provider.check()
    finally:
        await provider.close()


def _books(db: Database) -> Iterator[Finding]:
    mandanten = db.read_now(verification.all_mandanten)
    wrong = 0
    for mandant in mandanten:
        for text in db.read_now(verification.find_differences, mandant):
            wrong += 1
            yield Finding("books", "failed", text, "Keep the database as it is and report this.")
    if not wrong:
        yield Finding(
            "books",
            "ok",
            f"{counted(len(mandanten), 'client')}: every read model equals its bookings, every cash book its chain",
        )


def _invoices(db: Database) -> Iterator[Finding]:
    sellers = db.read_now(invoice_verify.organizations_with_invoices)
    wrong = [text for seller in sellers for text in db.read_now(invoice_verify.find_differences, seller)]
    for text in wrong:
        yield Finding("invoices", "failed", text, "Keep the database as it is and report this.")
    if not wrong:
        yield Finding(
            "invoices",
            "ok",
            f"{counted(len(sellers), 'seller')}: no gap in the numbers, every document as it was stored",
        )


def _database_seconds(tx: Tx) -> float:
    row = tx.one("SELECT EXTRACT(EPOCH FROM clock_timestamp())")
    assert row is not None
    return float(row[0])


def _integrity(settings: Settings) -> Iterator[Finding]:
    connection = sqlite3.connect(settings.sqlite_path)
    try:
        result = connection.execute("PRAGMA quick_check").fetchone()
    except sqlite3.Error as error:
        result = (str(error),)
    finally:
        connection.close()
    if result != ("ok",):
        yield Finding("database", "failed", f"SQLite finds damage: {result[0]}", "Restore the last backup.")
