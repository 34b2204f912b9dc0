"""Keeping connections current: refreshes by hand and by schedule, expired consents, and access ended at the provider.

A job claims its rows in one transaction and asks the provider outside any. What a refresh found arrives as a report
(`inbound.py`), however it was started.
"""

from __future__ import annotations

import asyncio

from kontobahn import log
from kontobahn.api.call import Context
from kontobahn.banking import reports
from kontobahn.banking.connections import status, store
from kontobahn.banking.connections.store import CONNECTIONS, ConnectionRow
from kontobahn.banking.provider import Banking, PersonHere, PersonNeeded, ProviderRefused, RefreshType
from kontobahn.clock import HOUR, MINUTE, to_datetime
from kontobahn.db import Tx
from kontobahn.errors import Conflict, SetupError, Unavailable

# Banks must allow four unattended accesses in 24 hours.
AUTOMATIC_INTERVAL = 6 * HOUR
# After this long without a report, a refresh counts as lost and another may start.
REFRESH_TIMEOUT = 10 * MINUTE
REMOVAL_RETRY = (MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, 24 * HOUR)
BATCH = 100
# How many banks are asked at once by schedule, and how long a call waits for one before it answers that it is under way.
AT_ONCE, ANSWER_SECONDS = 8, 10.0


async def refresh(context: Context, row: ConnectionRow, person: PersonHere | None = None) -> ConnectionRow:
    """Starts a manual refresh, for a person who waits for it if there is one.

    What comes of it is reported; a bank that is asked directly may take longer than the call waits.
    """
    claimed = await context.db.write(_claim_manual, row)
    asking = asyncio.create_task(_request_refresh(context, claimed, "manual", person))
    running = context.part(Banking).running
    running.add(asking)
    asking.add_done_callback(running.discard)
    done, _ = await asyncio.wait({asking}, timeout=ANSWER_SECONDS)
    if done:
        asking.result()
    else:
        asking.add_done_callback(_log_failure)
    # What it reported at once may be that the connection is gone.
    return await context.db.read(store.look_up, row.organization_id, row.id) or claimed


def _log_failure(asking: asyncio.Task[None]) -> None:
    error = None if asking.cancelled() else asking.exception()
    if error is not None:
        log.warning("refresh_failed", detail=str(error))


def _claim_manual(tx: Tx, row: ConnectionRow) -> ConnectionRow:
    store.lock(tx, row.organization_id, row.id)
    row = store.get(tx, row.organization_id, row.id)
    store.check_active(row, "refreshing")
    # Choice 24: before next_refresh_possible_at 409 with the time.
    if row.next_refresh_possible_at > tx.now:
        possible = to_datetime(row.next_refresh_possible_at)
        raise Conflict(f"The next refresh is possible at {possible.isoformat()}.", next_refresh_possible_at=possible)
    if row.refresh_started_at is not None and row.refresh_started_at > tx.now - REFRESH_TIMEOUT:
        raise Conflict("A refresh is under way.")
    return store.change(tx, row, refresh_type="manual", refresh_started_at=tx.now)


async def _request_refresh(
    context: Context, row: ConnectionRow, kind: RefreshType, person: PersonHere | None = None
) -> None:
    try:
        since = await context.db.read(reports.since_when, row.provider, row.provider_ref)
        found = await context.part(Banking).provider(row.provider).refresh(row.provider_ref, kind, since, person)
        await reports.take(context, row.provider, found, person)
    except PersonNeeded as error:
        await context.db.write(_fail, row, error)
        if kind == "manual":
            where = {} if error.url is None else {"connect_url": error.url}
            raise Conflict(f"The bank wants the person: reconnect the connection. It says: {error}.", **where) from None
    except ProviderRefused as error:
        if error.error_class == "ActionNotSupported":
            # This says nothing about the state of the connection.
            await context.db.write(_release, row)
            raise Conflict(f"{error}.") from None
        await context.db.write(_fail, row, error)
        if kind == "manual":
            raise Conflict(f"The bank refused: {error}.") from None
    except Unavailable:
        await context.db.write(_release, row)
        raise


def _release(tx: Tx, claimed: ConnectionRow) -> None:
    row = _still_claimed(tx, claimed)
    if row is not None:
        store.change(tx, row, refresh_type="", refresh_started_at=None)


def _fail(tx: Tx, claimed: ConnectionRow, error: ProviderRefused) -> None:
    row = _still_claimed(tx, claimed)
    if row is not None:
        status.fail(tx, row, error.error_class, str(error))


def _still_claimed(tx: Tx, claimed: ConnectionRow) -> ConnectionRow | None:
    """Returns the row under its lock; None if the connection was removed, or a report has ended this refresh meanwhile."""
    row = store.look_up_locked(tx, claimed.organization_id, claimed.id)
    return row if row is not None and row.refresh_started_at == claimed.refresh_started_at else None


async def refresh_automatically(context: Context) -> None:
    due = await context.db.read(_due_for_refresh)
    # A bank that takes minutes to answer must not hold up the others.
    places = asyncio.Semaphore(AT_ONCE)
    await asyncio.gather(*(_refresh_automatically(context, places, *found) for found in due))


async def _refresh_automatically(
    context: Context, places: asyncio.Semaphore, organization_id: str, connection_id: str
) -> None:
    async with places:
        claimed = await context.db.write(_claim_automatic, organization_id, connection_id)
        if claimed is None:
            return
        try:
            await _request_refresh(context, claimed, "automatic")
        except (Unavailable, Conflict, SetupError) as error:
            log.warning("automatic_refresh_failed", connection_id=connection_id, detail=str(error))


_IS_DUE = (
    "status = 'active' AND automatic_refresh = 1 AND last_automatic_at <= ?"
    " AND (refresh_started_at IS NULL OR refresh_started_at <= ?)"
)


def _due_for_refresh(tx: Tx) -> list[tuple[str, str]]:
    found = tx.all(
        f"SELECT organization_id, id FROM banking_connections WHERE {_IS_DUE} ORDER BY last_automatic_at LIMIT ?",
        tx.now - AUTOMATIC_INTERVAL, tx.now - REFRESH_TIMEOUT, BATCH,
    )  # fmt: skip
    return [(organization_id, connection_id) for organization_id, connection_id in found]


def _claim_automatic(tx: Tx, organization_id: str, connection_id: str) -> ConnectionRow | None:
    """Claims one connection, unless it is no longer due: each in a transaction of its own, so that none waits for another's."""
    store.lock(tx, organization_id, connection_id)
    row = CONNECTIONS.one(
        tx, f"organization_id = ? AND id = ? AND {_IS_DUE}",
        organization_id, connection_id, tx.now - AUTOMATIC_INTERVAL, tx.now - REFRESH_TIMEOUT,
    )  # fmt: skip
    if row is None:
        return None
    return store.change(tx, row, refresh_type="automatic", refresh_started_at=tx.now, last_automatic_at=tx.now)


async def expire_consents(context: Context) -> int:
    """Makes connections inactive whose consent has expired: the person must go to the bank again. Returns how many."""
    expired = await context.db.read(_expired_consents)
    return sum([await context.db.write(_expire_consent, *found) for found in expired])


_HAS_EXPIRED = "status = 'active' AND consent_expires_at <= ?"


def _expired_consents(tx: Tx) -> list[tuple[str, str]]:
    found = tx.all(f"SELECT organization_id, id FROM banking_connections WHERE {_HAS_EXPIRED}", tx.now)
    return [(organization_id, connection_id) for organization_id, connection_id in found]


def _expire_consent(tx: Tx, organization_id: str, connection_id: str) -> bool:
    store.lock(tx, organization_id, connection_id)
    # Decided again under the lock: the person may have renewed it, or removed the connection.
    row = CONNECTIONS.one(
        tx, f"organization_id = ? AND id = ? AND {_HAS_EXPIRED}", organization_id, connection_id, tx.now
    )
    if row is None:
        return False
    status.fail(tx, row, "AispConsentExpired", "The consent given at the bank has expired.", trigger="consent_expired")
    return True


async def end_accesses(context: Context) -> None:
    """Ends access at the provider for the connections that were removed here."""
    for provider_name, provider_ref in await context.db.write(_claim_removals):
        try:
            await context.part(Banking).provider(provider_name).remove(provider_ref)
        except (Unavailable, ProviderRefused, SetupError) as error:
            log.warning("access_not_ended", provider=provider_name, provider_ref=provider_ref, detail=str(error))
        else:
            await context.db.write(_removal_done, provider_name, provider_ref)


def _claim_removals(tx: Tx) -> list[tuple[str, str]]:
    claimed = []
    for provider, provider_ref, attempts in tx.all(
        "SELECT provider, provider_ref, attempts FROM banking_removals WHERE next_attempt_at <= ?"
        " ORDER BY next_attempt_at LIMIT ?",
        tx.now, BATCH,
    ):  # fmt: skip
        wait = REMOVAL_RETRY[min(attempts, len(REMOVAL_RETRY) - 1)]
        # In the UPDATE: the call that removes a connection and the job may both be here.
        is_ours = tx.run(
            "UPDATE banking_removals SET attempts = attempts + 1, next_attempt_at = ?"
            " WHERE provider = ? AND provider_ref = ? AND attempts = ?",
            tx.now + wait, provider, provider_ref, attempts,
        )  # fmt: skip
        if is_ours:
            claimed.append((provider, provider_ref))
    return claimed


def _removal_done(tx: Tx, provider: str, provider_ref: str) -> None:
    tx.run("DELETE FROM banking_removals WHERE provider = ? AND provider_ref = ?", provider, provider_ref)
