"""Keeping connections current: refreshes by hand and by schedule, and consents that expire, announced while there is time to renew them.

A job claims its rows in one transaction and asks the provider outside any. The outcome of a refresh arrives as a report
(`webhooks.py`), however it was started.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict

from kontobahn import log
from kontobahn.api.answers import Data
from kontobahn.api.call import Call, Context
from kontobahn.api.declare import post
from kontobahn.api.wire import Body
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.routes import BankConnection, bank_connection
from kontobahn.banking.connections.store import CONNECTIONS, ConnectionRow
from kontobahn.banking.provider import Banking, PersonHere, PersonNeeded, ProviderRefused, RefreshType
from kontobahn.banking.reports.intake import apply_unstored, first_day_to_fetch
from kontobahn.banking.wire import ConnectionId, CustomerAddress, CustomerAgent, parse_ip_address
from kontobahn.clock import DAY, HOUR, MINUTE, to_datetime
from kontobahn.db import Tx
from kontobahn.errors import Conflict, SetupError, Unavailable
from kontobahn.sentences import said
from kontobahn.threads import work_for


class Refresh(Body):
    """The person who waits for it, if there is one: banks allow more then."""

    customer_ip_address: CustomerAddress | None = None
    customer_user_agent: CustomerAgent | None = None


# Choice 24: 202, because the bank answers later.
@post("/v2/banking/connections/{id}/refresh", scope="banking:write", statuses=(202,), errors=(403, 404, 409))
async def refresh_bank_connection(call: Call, id: ConnectionId, body: Refresh) -> Data[BankConnection]:
    """Ask the bank for new data now.

    `refresh_complete` reports new data, `connection_error` a failure. If there is nothing new, the connection only moves its
    `next_refresh_possible_at`, before which no refresh is possible. Name the person's address and browser only if somebody waits
    for it: most banks allow four readings a day without.
    """
    address = parse_ip_address(body.customer_ip_address)
    person = None if address is None else PersonHere(address, body.customer_user_agent or "")
    row = await call.read_inline(connections.find, call.principal, id)
    return Data(bank_connection(await refresh(call.context, row, person)))


# Banks must allow four unattended accesses in 24 hours.
AUTOMATIC_INTERVAL = 6 * HOUR
# After this long without a report, a refresh counts as lost and another may start.
REFRESH_TIMEOUT = 10 * MINUTE
BATCH = 100
# Banks asked at once by schedule, and seconds that a call waits for one before it answers that the refresh is under way.
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
    # The report may have been that the connection is gone.
    return await context.db.read(connections.look_up, row.organization_id, row.id) or claimed


def _log_failure(asking: asyncio.Task[None]) -> None:
    error = None if asking.cancelled() else asking.exception()
    if error is not None:
        log.warning("refresh_failed", detail=str(error))


def _claim_manual(tx: Tx, row: ConnectionRow) -> ConnectionRow:
    connections.lock(tx, row.organization_id, row.id)
    row = connections.get(tx, row.organization_id, row.id)
    connections.check_active(row, "refreshing")
    # Choice 24: before next_refresh_possible_at 409 with the time.
    if row.next_refresh_possible_at > tx.now:
        possible = to_datetime(row.next_refresh_possible_at)
        raise Conflict(
            said("The next refresh is possible at {when}.", when=possible.isoformat()),
            next_refresh_possible_at=possible,
        )
    if row.refresh_started_at is not None and row.refresh_started_at > tx.now - REFRESH_TIMEOUT:
        raise Conflict("A refresh is under way.")
    return connections.change(tx, row, refresh_type="manual", refresh_started_at=tx.now)


async def _request_refresh(
    context: Context, row: ConnectionRow, kind: RefreshType, person: PersonHere | None = None
) -> None:
    try:
        since = await context.db.read(first_day_to_fetch, row.provider, row.provider_ref)
        found = await context.part(Banking).provider(row.provider).refresh(row.provider_ref, kind, since, person)
        await apply_unstored(context, row.provider, found, person)
    except PersonNeeded as error:
        await context.db.write(_fail, row, error)
        if kind == "manual":
            where = {} if error.url is None else {"connect_url": error.url}
            raise Conflict(
                said("The bank wants the person: reconnect the connection. It says: {why}.", why=error), **where
            ) from None
    except ProviderRefused as error:
        if error.error_class == "ActionNotSupported":
            # This says nothing about the state of the connection.
            await context.db.write(_release, row)
            raise Conflict(said("{reason}.", reason=error)) from None
        await context.db.write(_fail, row, error)
        if kind == "manual":
            raise Conflict(said("The bank refused: {why}.", why=error)) from None
    except Unavailable:
        await context.db.write(_release, row)
        raise


def _release(tx: Tx, claimed: ConnectionRow) -> None:
    row = _still_claimed(tx, claimed)
    if row is not None:
        connections.change(tx, row, refresh_type="", refresh_started_at=None)


def _fail(tx: Tx, claimed: ConnectionRow, error: ProviderRefused) -> None:
    row = _still_claimed(tx, claimed)
    if row is not None:
        connections.fail(tx, row, error.error_class, str(error))


def _still_claimed(tx: Tx, claimed: ConnectionRow) -> ConnectionRow | None:
    """Returns the row under its lock; None if the connection was removed, or a report has ended this refresh meanwhile."""
    row = connections.look_up_locked(tx, claimed.organization_id, claimed.id)
    return row if row is not None and row.refresh_started_at == claimed.refresh_started_at else None


async def refresh_automatically(context: Context) -> None:
    due = await context.db.read(_due_for_refresh)
    # A bank that takes minutes to answer must not hold up the others.
    places = asyncio.Semaphore(AT_ONCE)
    # Nor must one organisation's banks, all of them together.
    of_one: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE // 2))
    await asyncio.gather(*(_refresh_automatically(context, of_one[found[0]], places, *found) for found in due))


async def _refresh_automatically(
    context: Context, of_one: asyncio.Semaphore, places: asyncio.Semaphore, organization_id: str, connection_id: str
) -> None:
    work_for(organization_id)
    async with of_one, places:
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
    connections.lock(tx, organization_id, connection_id)
    row = CONNECTIONS.one(
        tx, f"organization_id = ? AND id = ? AND {_IS_DUE}",
        organization_id, connection_id, tx.now - AUTOMATIC_INTERVAL, tx.now - REFRESH_TIMEOUT,
    )  # fmt: skip
    if row is None:
        return None
    return connections.change(tx, row, refresh_type="automatic", refresh_started_at=tx.now, last_automatic_at=tx.now)


async def expire_consents(context: Context) -> int:
    """Makes connections inactive whose consent has expired: the person must go to the bank again. Returns how many."""
    expired = await context.db.read(_expired_consents)
    return sum([await context.db.write(_expire_consent, *found) for found in expired])


_HAS_EXPIRED = "status = 'active' AND consent_expires_at <= ?"


def _expired_consents(tx: Tx) -> list[tuple[str, str]]:
    found = tx.all(f"SELECT organization_id, id FROM banking_connections WHERE {_HAS_EXPIRED}", tx.now)
    return [(organization_id, connection_id) for organization_id, connection_id in found]


def _expire_consent(tx: Tx, organization_id: str, connection_id: str) -> bool:
    connections.lock(tx, organization_id, connection_id)
    # Decided again under the lock: the person may have renewed it, or removed the connection.
    row = CONNECTIONS.one(
        tx, f"organization_id = ? AND id = ? AND {_HAS_EXPIRED}", organization_id, connection_id, tx.now
    )
    if row is None:
        return False
    connections.fail(
        tx, row, "AispConsentExpired", "The consent given at the bank has expired.", trigger="consent_expired"
    )
    return True


# --- Ends of consents: announced in the log, and as an event to receivers that ask for it


# A consent is announced this many days before its end.
ANNOUNCED_DAYS = (14, 3)
_ENDS_SOON = "status = 'active' AND consent_expires_at > ? AND consent_expires_at <= ?"


async def announce_ends(context: Context) -> int:
    """Announces the consents that end in two weeks, and once more those that end in three days. Returns how many."""
    soon = await context.db.read(_ending_soon)
    return sum([await context.db.write(_announce, row.organization_id, row.id) for row in soon])


def _ending_soon(tx: Tx) -> list[ConnectionRow]:
    rows = CONNECTIONS.all(tx, _ENDS_SOON, tx.now, tx.now + ANNOUNCED_DAYS[0] * DAY)
    return [row for row in rows if _due_announcement(row, tx.now) is not None]


def _announce(tx: Tx, organization_id: str, connection_id: str) -> bool:
    # Decided again under the lock: it may have been renewed, or another process may have announced it.
    row = connections.look_up_locked(tx, organization_id, connection_id)
    days = None if row is None else _due_announcement(row, tx.now)
    if row is None or days is None or row.consent_expires_at is None:
        return False
    connections.change(tx, row, announced_days=days)
    ends_at = to_datetime(row.consent_expires_at)
    connections.emit_event(tx, row, "consent_expiring", {"consent_expires_at": ends_at, "days": days})
    log.warning(
        "consent_expiring", connection_id=row.id, bank=row.provider_name, ends_at=ends_at.isoformat(), days=days
    )
    return True


def _due_announcement(row: ConnectionRow, now: int) -> int | None:
    """Returns which announcement is due: the number of days it is about."""
    if row.status != "active" or row.consent_expires_at is None or row.consent_expires_at <= now:
        return None
    reached = [days for days in ANNOUNCED_DAYS if row.consent_expires_at - now <= days * DAY]
    if not reached or (row.announced_days is not None and row.announced_days <= min(reached)):
        return None
    return min(reached)
