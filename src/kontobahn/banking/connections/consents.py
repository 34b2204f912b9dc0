"""The end of a consent, announced while there is time to renew it: in the log, and as an event to receivers that ask for it."""

from __future__ import annotations

from kontobahn import log
from kontobahn.api.call import Context
from kontobahn.banking.connections import store
from kontobahn.banking.connections.store import CONNECTIONS, ConnectionRow
from kontobahn.clock import DAY, to_datetime
from kontobahn.db import Tx

# How many days before its end a consent is announced.
ANNOUNCED_DAYS = (14, 3)
_ENDS_SOON = "status = 'active' AND consent_expires_at > ? AND consent_expires_at <= ?"


async def announce_ends(context: Context) -> int:
    """Announces the consents that end in two weeks, and once more those that end in three days. Returns how many."""
    soon = await context.db.read(_ending)
    return sum([await context.db.write(_announce, row.organization_id, row.id) for row in soon])


def _ending(tx: Tx) -> list[ConnectionRow]:
    rows = CONNECTIONS.all(tx, _ENDS_SOON, tx.now, tx.now + ANNOUNCED_DAYS[0] * DAY)
    return [row for row in rows if _due(row, tx.now) is not None]


def _announce(tx: Tx, organization_id: str, connection_id: str) -> bool:
    # Decided again under the lock: it may have been renewed, or another process may have announced it.
    row = store.look_up_locked(tx, organization_id, connection_id)
    days = None if row is None else _due(row, tx.now)
    if row is None or days is None or row.consent_expires_at is None:
        return False
    store.change(tx, row, announced_days=days)
    ends_at = to_datetime(row.consent_expires_at)
    store.emit_event(tx, row, "consent_expiring", {"consent_expires_at": ends_at, "days": days})
    log.warning(
        "consent_expiring", connection_id=row.id, bank=row.provider_name, ends_at=ends_at.isoformat(), days=days
    )
    return True


def _due(row: ConnectionRow, now: int) -> int | None:
    """Which announcement is due: the number of days it is about."""
    if row.status != "active" or row.consent_expires_at is None or row.consent_expires_at <= now:
        return None
    reached = [days for days in ANNOUNCED_DAYS if row.consent_expires_at - now <= days * DAY]
    if not reached or (row.announced_days is not None and row.announced_days <= min(reached)):
        return None
    return min(reached)
