"""Idempotency keys: the same call sent twice happens once, and the second one gets the first one's answer.

A key is claimed before the handler runs and completed in the transaction of the effect. Stored answers are sealed, because
some hold secrets that are shown only once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from kontobahn.api.wire import FileDownload
from kontobahn.clock import DAY, HOUR, SECOND
from kontobahn.db import Tx
from kontobahn.db.leases import Lease
from kontobahn.errors import BadRequest, Conflict, KeyReused, StillRunning
from kontobahn.sentences import said
from kontobahn.settings import Settings
from kontobahn.vault import Vault

MAX_KEY_LENGTH = 255
PUBLIC = "public"


class Claim(NamedTuple):
    scope: str
    key: str
    fingerprint: str
    # The organisations that the caller may act for, separated by blanks.
    organizations: str
    owner: str
    keep_microseconds: int
    # A claim whose process died can be taken over after this: as long as credits are held for a call.
    lease_microseconds: int


class StoredAnswer(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    # For a file; empty for JSON. Only reads answer with files, so these are never stored.
    media_type: str = ""
    file_name: str = ""
    # Instead of the body, if it is not to be in memory whole.
    download: FileDownload | None = None
    # Instead of the body, if it is long and was read in parts. Only reads answer so, so these are never stored.
    parts: Sequence[bytes] = ()


def make_claim(
    *, scope: str, raw_key: str, method: str, target: bytes, body: bytes, organizations: tuple[str, ...], owner: str,
    money: bool, settings: Settings,
) -> Claim:  # fmt: skip
    # Choice 6: 24 hours, 30 days for payments and invoices.
    key = _unquoted(raw_key)
    digest = hashlib.sha256()
    for part in (method.encode(), target, body):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    keep = settings.idempotency_money_days * DAY if money else settings.idempotency_hours * HOUR
    return Claim(
        scope, key, digest.hexdigest(), " ".join(organizations), owner, keep, settings.call_hold_seconds * SECOND
    )


def _unquoted(raw: str) -> str:
    key = raw.strip()
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if not key or len(key) > MAX_KEY_LENGTH or not key.isprintable() or not key.isascii():
        raise BadRequest(
            said("The header `Idempotency-Key` must be 1 to {most} printable ASCII characters.", most=MAX_KEY_LENGTH),
            field="Idempotency-Key",
        )
    return key


def _lease(claim: Claim) -> Lease:
    seconds = claim.lease_microseconds / SECOND
    return Lease("idempotency_keys", ("scope", "idempotency_key", "owner"), seconds, while_open="state = 'running'")


def begin(tx: Tx, vault: Vault, claim: Claim) -> StoredAnswer | None:
    """Claims the key. Returns the stored answer if the call was made before."""
    lease_until = _lease(claim).ends_at(tx.now)
    inserted = tx.run(
        "INSERT INTO idempotency_keys"
        " (scope, idempotency_key, fingerprint, organizations, state, owner, lease_until, expires_at)"
        " VALUES (?, ?, ?, ?, 'running', ?, ?, ?) ON CONFLICT DO NOTHING",
        claim.scope, claim.key, claim.fingerprint, claim.organizations, claim.owner, lease_until,
        tx.now + claim.keep_microseconds,
    )  # fmt: skip
    if inserted:
        return None
    tx.lock("idempotency", claim.scope, claim.key)
    row = tx.one(
        "SELECT fingerprint, organizations, state, lease_until, expires_at, status, answer FROM idempotency_keys"
        " WHERE scope = ? AND idempotency_key = ?",
        claim.scope, claim.key,
    )  # fmt: skip
    if row is None:
        raise StillRunning("A call with this idempotency key has just failed. Send it again.")
    fingerprint, organizations, state, leased, expires_at, status, answer = row
    if expires_at > tx.now:
        if fingerprint != claim.fingerprint:
            raise KeyReused("This idempotency key was used for another request: another path, query or body.")
        if not set(organizations.split()) <= set(claim.organizations.split()):
            # Choice 33: the answer may be about a client that this key may not act for.
            raise KeyReused("This idempotency key was used with an API key that may act for further organisations.")
        if state == "done":
            return StoredAnswer(status, vault.open(answer, _context(claim)))
        if leased > tx.now:
            raise StillRunning("The first call with this idempotency key is still running.")
    tx.run(
        "UPDATE idempotency_keys SET fingerprint = ?, organizations = ?, state = 'running', owner = ?, lease_until = ?,"
        " expires_at = ?, status = NULL, answer = NULL WHERE scope = ? AND idempotency_key = ?",
        claim.fingerprint, claim.organizations, claim.owner, lease_until, tx.now + claim.keep_microseconds, claim.scope, claim.key,
    )  # fmt: skip
    return None


def complete(tx: Tx, vault: Vault, claim: Claim, answer: StoredAnswer) -> None:
    """Stores the answer. Raises Conflict, which undoes the effect, if another call has taken over the key meanwhile."""
    sealed = vault.seal(answer.body, _context(claim))
    if not _lease(claim).give_up(
        tx, claim.scope, claim.key, claim.owner, state="done", status=answer.status, answer=sealed
    ):
        raise Conflict("The call took too long, and its idempotency key was taken over. Nothing was written.")


def abandon(tx: Tx, claim: Claim) -> None:
    """Frees the key of a call that had no effect: the corrected call may use it."""
    tx.run(
        "DELETE FROM idempotency_keys WHERE scope = ? AND idempotency_key = ? AND owner = ? AND state = 'running'",
        claim.scope, claim.key, claim.owner,
    )  # fmt: skip


def release(tx: Tx, claim: Claim) -> None:
    """Lets a repeat of the same call take over at once. Another request is refused the key as before."""
    _lease(claim).give_up(tx, claim.scope, claim.key, claim.owner)


def purge_expired(tx: Tx) -> int:
    return tx.run("DELETE FROM idempotency_keys WHERE expires_at <= ?", tx.now)


def _context(claim: Claim) -> str:
    return f"idempotency_keys/{claim.scope}/{claim.key}"


def forget(tx: Tx, scope: str) -> None:
    """Removes all keys of an organisation."""
    tx.run("DELETE FROM idempotency_keys WHERE scope = ?", scope)
