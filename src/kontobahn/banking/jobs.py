"""The scheduled jobs of the area."""

from __future__ import annotations

from kontobahn.api.call import Context
from kontobahn.banking import inbound
from kontobahn.banking.connections import consents, flows, refresh
from kontobahn.banking.hosted import interactions
from kontobahn.banking.payments.poll import poll_due_payments
from kontobahn.jobs import Job


def banking_jobs(context: Context) -> list[Job]:
    async def tidy() -> None:
        await context.db.write(flows.remove_unfinished)
        await refresh.expire_consents(context)
        await consents.announce_ends(context)
        await context.db.write(inbound.purge)
        await context.db.write(interactions.purge)

    return [
        Job("apply bank deliveries", 2, lambda: inbound.apply_waiting(context)),
        Job("ask after payments", 10, lambda: poll_due_payments(context)),
        Job("refresh bank connections", 60, lambda: refresh.refresh_automatically(context)),
        Job("end bank accesses", 30, lambda: refresh.end_accesses(context)),
        Job("tidy bank connections", 30, tidy),
    ]
