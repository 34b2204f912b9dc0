"""The one URL of an organisation: set, cleared, its signing secrets, and whether it was stopped.

Whether a URL may be connected to is decided by outbound.py; callers check there before they save one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

from kontobahn.access import audit
from kontobahn.access.audit import SYSTEM, Actor
from kontobahn.clock import DAY, HOUR
from kontobahn.db import Tx
from kontobahn.errors import Conflict
from kontobahn.vault import Vault
from kontobahn.webhooks import outbox
from kontobahn.webhooks.signing import key_of, new_secret

State = Literal["active", "paused", "gone", "none"]


class Endpoint(NamedTuple):
    url: str | None
    state: State
    # When it was paused or found gone.
    stopped_at: int | None
    # Until when the previous secret signs too.
    previous_until: int | None
    updated_at: int | None


class Sealed(NamedTuple):
    """The secrets as they are stored."""

    secret: bytes
    previous: bytes | None
    previous_until: int | None


def find(tx: Tx, organization_id: str) -> Endpoint:
    row = tx.one(
        "SELECT url, state, stopped_at, previous_until, updated_at FROM webhook_endpoints WHERE organization_id = ?",
        organization_id,
    )
    return Endpoint(*row) if row else Endpoint(None, "none", None, None, None)


def set_url(tx: Tx, vault: Vault, organization_id: str, url: str | None, actor: Actor) -> tuple[Endpoint, str | None]:
    """Saves the URL, or clears it with None. Returns the secret too if this made one.

    Setting a URL that was stopped resumes it, even if it is the same one.
    """
    outbox.lock_event_log(tx, organization_id)
    before = find(tx, organization_id)
    if url is None:
        outbox.cancel_pending(tx, organization_id)
        _write(tx, organization_id, None, "none")
        audit.record(tx, organization_id, actor, "webhook_url.clear", organization_id, old=before.url)
        return find(tx, organization_id), None
    if before.state != "active" or before.url != url:
        outbox.restart_pending(tx, organization_id)
    secret = None
    if before.url is None:
        # Choice 28: the secret is shown once, by the call that makes it.
        secret = new_secret()
        _write(tx, organization_id, url, "active", _seal(vault, organization_id, secret))
    else:
        tx.run(
            "UPDATE webhook_endpoints SET url = ?, state = 'active', failing_since = NULL, stopped_at = NULL, updated_at = ?"
            " WHERE organization_id = ?",
            url, tx.now, organization_id,
        )  # fmt: skip
    audit.record(tx, organization_id, actor, "webhook_url.set", organization_id, old=before.url, new=url)
    return find(tx, organization_id), secret


def rotate_secret(
    tx: Tx, vault: Vault, organization_id: str, *, overlap_hours: int, actor: Actor
) -> tuple[Endpoint, str]:
    """Makes a new secret. The present one signs too for the overlap; the one before it no longer does."""
    outbox.lock_event_log(tx, organization_id)
    if find(tx, organization_id).url is None:
        raise Conflict("There is no webhook URL, and so no secret: set one with PUT /v2/banking/webhook-url.")
    secret = new_secret()
    tx.run(
        "UPDATE webhook_endpoints SET previous_secret = secret, previous_until = ?, secret = ? WHERE organization_id = ?",
        tx.now + overlap_hours * HOUR, _seal(vault, organization_id, secret), organization_id,
    )  # fmt: skip
    audit.record(tx, organization_id, actor, "webhook_secret.rotate", organization_id)
    return find(tx, organization_id), secret


def note_success(tx: Tx, organization_id: str) -> None:
    tx.run(
        "UPDATE webhook_endpoints SET failing_since = NULL WHERE organization_id = ? AND failing_since IS NOT NULL",
        organization_id,
    )


def note_failure(tx: Tx, organization_id: str, url: str, *, pause_days: int) -> bool:
    """Records since when the URL has failed, and returns whether it is paused now."""
    # Choice 29: five days without a success pause the URL.
    tx.run(
        "UPDATE webhook_endpoints SET failing_since = ? WHERE organization_id = ? AND url = ? AND failing_since IS NULL",
        tx.now, organization_id, url,
    )  # fmt: skip
    return _stop(tx, organization_id, url, "paused", " AND failing_since <= ?", tx.now - pause_days * DAY)


def note_gone(tx: Tx, organization_id: str, url: str) -> bool:
    """Records that the receiver answered 410: nothing more is sent there. Returns whether this stopped it."""
    stopped = _stop(tx, organization_id, url, "gone")
    if stopped:
        outbox.cancel_pending(tx, organization_id)
    return stopped


class Keys:
    """Opens the signing secrets, and caches them because every attempt needs one."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._opened = lru_cache(maxsize=4096)(self._open)

    def of(self, organization_id: str, sealed: Sealed, now: int) -> list[bytes]:
        keys = [self._opened(organization_id, sealed.secret)]
        if sealed.previous is not None and sealed.previous_until is not None and now < sealed.previous_until:
            keys.append(self._opened(organization_id, sealed.previous))
        return keys

    def _open(self, organization_id: str, sealed: bytes) -> bytes:
        return key_of(self._vault.open(sealed, _context(organization_id)).decode())


def _stop(tx: Tx, organization_id: str, url: str, state: State, condition: str = "", *params: int) -> bool:
    # Only this URL: another one may have been set since.
    stopped = tx.run(
        "UPDATE webhook_endpoints SET state = ?, stopped_at = ?"
        f" WHERE organization_id = ? AND url = ? AND state = 'active'{condition}",
        state, tx.now, organization_id, url, *params,
    )  # fmt: skip
    if stopped:
        audit.record(tx, organization_id, SYSTEM, f"webhook_url.{state}", organization_id, url=url)
    return bool(stopped)


def _write(tx: Tx, organization_id: str, url: str | None, state: State, secret: bytes | None = None) -> None:
    tx.run(
        "INSERT INTO webhook_endpoints (organization_id, url, state, secret, updated_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (organization_id) DO UPDATE SET url = excluded.url, state = excluded.state, secret = excluded.secret,"
        " previous_secret = NULL, previous_until = NULL, failing_since = NULL, stopped_at = NULL, updated_at = excluded.updated_at",
        organization_id, url, state, secret, tx.now,
    )  # fmt: skip


def _context(organization_id: str) -> str:
    return f"webhook_endpoints {organization_id}"


def _seal(vault: Vault, organization_id: str, secret: str) -> bytes:
    return vault.seal(secret.encode(), _context(organization_id))
