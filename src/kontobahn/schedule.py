"""The scheduled jobs of every part, in one list. What a job does lives with its part; here stand its name and how often it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kontobahn import credits
from kontobahn import mail as mail_outbox
from kontobahn.access import factors, sessions, users
from kontobahn.api import idempotency, request_log, tasks
from kontobahn.api.call import Context
from kontobahn.assistants import grants
from kontobahn.bank_providers.sandbox import adapter as sandbox
from kontobahn.banking import merges
from kontobahn.banking.connect import steps
from kontobahn.banking.connections import flows
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.routes import end_accesses
from kontobahn.banking.payments.bank import poll_due_payments
from kontobahn.banking.reports import refresh, webhooks
from kontobahn.banking.transactions import arrivals
from kontobahn.books.adapter import books_jobs
from kontobahn.db import Database, Tx
from kontobahn.jobs import Job
from kontobahn.ledger import transmissions
from kontobahn.mail import find_server
from kontobahn.mobility.invoices import documents
from kontobahn.payables import intake, mailbox
from kontobahn.payables.settlement import follow_payments
from kontobahn.webhooks import outbox

# Each in a transaction of its own.
_EXPIRED = (
    idempotency.purge_expired,
    sessions.purge_expired,
    users.purge_expired_resets,
    factors.purge_challenges,
    sessions.purge_attempts,
    tasks.purge,
    sandbox.tidy,
    mail_outbox.purge,
    merges.purge,
    grants.purge,
)


def scheduled_jobs(context: Context) -> list[Job]:
    db, settings = context.db, context.settings

    async def expire_reservations() -> None:
        while await db.write(credits.expire_stale_holds, limit=500) == 500:
            pass

    async def lapse_grants() -> None:
        await db.write(credits.lapse_due_grants)

    async def purge() -> None:
        for tidy in (*_EXPIRED, *await asyncio.to_thread(_of_providers)):
            await db.write(tidy)
        while await db.write(outbox.purge, days=settings.webhook_log_days):
            pass
        await request_log.purge(db, days=settings.request_log_days, rows_kept=settings.request_log_rows)

    async def fail_abandoned_tasks() -> None:
        await db.write(tasks.fail_abandoned)

    async def tidy_bank_connections() -> None:
        await db.write(flows.remove_unfinished)
        await refresh.expire_consents(context)
        await refresh.announce_ends(context)
        await db.write(webhooks.purge)
        await db.write(steps.purge)

    async def make_due_documents() -> None:
        await documents.make_due(db)

    return [
        Job("expire reservations", 15, expire_reservations),
        Job("lapse grants", 60, lapse_grants),
        Job("purge what has expired", 300, purge),
        Job("fail abandoned tasks", 30, fail_abandoned_tasks),
        *books_jobs(db),
        Job("go on with transmissions", 5, lambda: transmissions.carry_on(context)),
        Job("apply bank deliveries", 2, lambda: webhooks.apply_waiting(context)),
        Job("ask after payments", 10, lambda: poll_due_payments(context)),
        Job("follow payments of received invoices", 5, lambda: follow_payments(context)),
        Job("refresh bank connections", 60, lambda: refresh.refresh_automatically(context)),
        Job("end bank accesses", 30, lambda: end_accesses(context)),
        Job("tidy bank connections", 30, tidy_bank_connections),
        Job("sweep bank transactions", 5, lambda: asyncio.to_thread(_sweep_bank_transactions, db)),
        Job("make due invoice documents", 30, make_due_documents),
        Job("take in invoice files", 10, lambda: intake.take_in(context)),
        Job("read mailboxes", 30, lambda: mailbox.fetch_due(context)),
        *_mail_jobs(context),
    ]


def _of_providers() -> tuple[Callable[[Tx], object], ...]:
    """The same of every provider, set up or not. Imported here, because importing them all takes a twentieth of the start-up time."""
    from kontobahn.bank_providers.ebics import store as ebics
    from kontobahn.bank_providers.enable_banking import adapter as enable_banking
    from kontobahn.bank_providers.fints import adapter as fints
    from kontobahn.datev import adapter as datev

    return ebics.remove_orphans, fints.remove_orphans, enable_banking.end_orphans, datev.tidy


def _sweep_bank_transactions(db: Database) -> None:
    arrivals.sweep(db)
    connections.sweep_departures(db)


def _mail_jobs(context: Context) -> list[Job]:
    server = find_server(context.settings)

    async def write_notices() -> None:
        if server is not None:
            # Only where mail is sent: the words of pages take long to load.
            from kontobahn.dashboard import notices

            await notices.write_due(context)
            await context.db.write(notices.purge)

    return [
        Job("write notices", 300, write_notices),
        Job("send mail", 5, lambda: mail_outbox.send_due(context.db, context.vault, server)),
    ]
