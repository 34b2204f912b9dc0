"""A receiver of events: the contract's one URL, or one of the further endpoints (`endpoints.py`).

Its row, its signing secrets, and whether it was stopped. Whether a URL may be connected to is decided by outbound.py; callers check
there before they save one.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from kontobahn.access import audit
from kontobahn.access.audit import SYSTEM, Actor
from kontobahn.clock import DAY, HOUR
from kontobahn.db import Rounds, Table, Tx, short_read
from kontobahn.vault import Vault
from kontobahn.webhooks import outbox
from kontobahn.webhooks.outbox import WEBHOOK_URL

# Standard Webhooks signatures: they prove to a receiver that a delivery is ours and that nothing in it was changed.


SECRET_PREFIX = "whsec_"
KEY_BYTES = 32


def new_secret() -> str:
    """Its bytes are letters and digits: some receivers, n8n's Crypto node among them, can use a key only if it is a text."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_urlsafe(KEY_BYTES).encode()).decode()


def key_of(secret: str) -> bytes:
    """Returns the bytes that sign. Raises ValueError if this is not such a secret."""
    if not secret.startswith(SECRET_PREFIX):
        raise ValueError(f"A signing secret begins with {SECRET_PREFIX}.")
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"A signing secret is {SECRET_PREFIX} and base64.") from None
    if not 24 <= len(key) <= 64:
        raise ValueError("A signing secret has 24 to 64 bytes.")
    return key


def signed_headers(event_id: str, seconds: int, body: bytes, keys: Sequence[bytes]) -> dict[str, str]:
    """Returns the headers of one attempt: the id is the same for all attempts, the time is this one's."""
    # Choice 29: while a secret is being replaced there are two signatures, and either is valid.
    content = b"%s.%d.%s" % (event_id.encode(), seconds, body)
    signatures = [base64.b64encode(hmac.digest(key, content, "sha256")).decode() for key in keys]
    return {
        "content-type": "application/json",
        "webhook-id": event_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


State = Literal["active", "paused", "gone", "none"]


class Receiver(NamedTuple):
    organization_id: str
    id: str
    url: str | None
    state: State
    # Names separated by blanks; None for all.
    events: str | None
    description: str | None
    # Until when the previous secret signs too.
    previous_until: int | None
    failing_since: int | None
    # When it was paused or found gone.
    stopped_at: int | None
    created_at: int
    updated_at: int


RECEIVERS = Table("webhook_receivers", Receiver)


class Sealed(NamedTuple):
    """The secrets as they are stored."""

    secret: bytes
    previous: bytes | None
    previous_until: int | None


class ReceiverKey(NamedTuple):
    """Identifies a receiver among those of all organisations."""

    organization_id: str
    id: str


@short_read
def find(organization_id: str, receiver_id: str) -> Rounds[Receiver | None]:
    return RECEIVERS.ask_one("organization_id = ? AND id = ?", organization_id, receiver_id)


def find_for_operator(tx: Tx, receiver_id: str) -> Receiver | None:
    """A receiver by its id alone, for the operator's command line."""
    return RECEIVERS.one(tx, "id = ?", receiver_id)


def listing(tx: Tx, organization_id: str) -> list[Receiver]:
    """All to which events are sent, or were: the contract's one URL first."""
    condition = "organization_id = ? AND url IS NOT NULL ORDER BY CASE WHEN id = ? THEN 0 ELSE 1 END, created_at, id"
    return RECEIVERS.all(tx, condition, organization_id, WEBHOOK_URL)


def activate(tx: Tx, receiver: Receiver, **values: str | None) -> Receiver:
    """Sends to it, now and what is pending, with all tries left."""
    outbox.restart_pending(tx, receiver.organization_id, receiver.id)
    return RECEIVERS.update(
        tx, receiver, state="active", failing_since=None, stopped_at=None, updated_at=tx.now, **values
    )


def rotate_secret(
    tx: Tx, vault: Vault, receiver: Receiver, *, overlap_hours: int, actor: Actor
) -> tuple[Receiver, str]:
    """Makes a new secret. The present one signs too for the overlap; the one before it no longer does."""
    secret, until = new_secret(), tx.now + overlap_hours * HOUR
    tx.run(
        "UPDATE webhook_receivers SET previous_secret = secret, previous_until = ?, secret = ?"
        " WHERE organization_id = ? AND id = ?",
        until, seal(vault, receiver.organization_id, receiver.id, secret), receiver.organization_id, receiver.id,
    )  # fmt: skip
    record(tx, receiver, actor, "webhook_secret.rotate")
    return receiver._replace(previous_until=until), secret


# --- Its answers


def note_success(tx: Tx, key: ReceiverKey, url: str) -> None:
    tx.run(
        "UPDATE webhook_receivers SET failing_since = NULL"
        " WHERE organization_id = ? AND id = ? AND url = ? AND failing_since IS NOT NULL",
        *key, url,
    )  # fmt: skip


def note_failure(tx: Tx, key: ReceiverKey, url: str, *, pause_days: int) -> bool:
    """Records since when the URL has failed, and returns whether it is paused now."""
    # Choice 29: five days without a success pause the URL.
    tx.run(
        "UPDATE webhook_receivers SET failing_since = ?"
        " WHERE organization_id = ? AND id = ? AND url = ? AND failing_since IS NULL",
        tx.now, *key, url,
    )  # fmt: skip
    return _stop(tx, key, url, "paused", " AND failing_since <= ?", tx.now - pause_days * DAY)


def note_gone(tx: Tx, key: ReceiverKey, url: str) -> bool:
    """Records that the receiver answered 410: nothing more is sent there. Returns whether this stopped it."""
    stopped = _stop(tx, key, url, "gone")
    if stopped:
        outbox.cancel_pending(tx, *key)
    return stopped


def _stop(tx: Tx, key: ReceiverKey, url: str, state: State, condition: str = "", *params: int) -> bool:
    # Only this URL: another one may have been set since.
    stopped = tx.run(
        "UPDATE webhook_receivers SET state = ?, stopped_at = ?"
        f" WHERE organization_id = ? AND id = ? AND url = ? AND state = 'active'{condition}",
        state, tx.now, *key, url, *params,
    )  # fmt: skip
    found = find(tx, *key) if stopped else None
    if found is not None:
        record(tx, found, SYSTEM, f"{_kind(found)}.{state}", url=url)
    return bool(stopped)


# --- Secrets, and the audit log


class Keys:
    """Opens the signing secrets, and caches them because every attempt needs one."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._opened = lru_cache(maxsize=4096)(self._open)

    def of(self, key: ReceiverKey, sealed: Sealed, now: int) -> list[bytes]:
        keys = [self._opened(key, sealed.secret)]
        if sealed.previous is not None and sealed.previous_until is not None and now < sealed.previous_until:
            keys.append(self._opened(key, sealed.previous))
        return keys

    def _open(self, key: ReceiverKey, sealed: bytes) -> bytes:
        return key_of(self._vault.open(sealed, _context(*key)).decode())


def seal(vault: Vault, organization_id: str, receiver_id: str, secret: str) -> bytes:
    return vault.seal(secret.encode(), _context(organization_id, receiver_id))


def _context(organization_id: str, receiver_id: str) -> str:
    # Secrets of the one URL were sealed before there were others.
    whose = organization_id if receiver_id == WEBHOOK_URL else f"{organization_id} {receiver_id}"
    return f"webhook_endpoints {whose}"


def record(tx: Tx, receiver: Receiver, actor: Actor, action: str, **details: str | None) -> None:
    subject = receiver.organization_id if receiver.id == WEBHOOK_URL else receiver.id
    audit.record(tx, receiver.organization_id, actor, action, subject, **details)


def _kind(receiver: Receiver) -> str:
    return "webhook_url" if receiver.id == WEBHOOK_URL else "webhook_endpoint"
