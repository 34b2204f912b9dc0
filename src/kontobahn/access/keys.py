"""API keys: shown once when they are created, stored as a keyed hash. An agency key also names the organisations it may act for."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, Role
from kontobahn.clock import SECOND
from kontobahn.db import Table, Tx
from kontobahn.errors import BadRequest, Conflict, NotFound, Unauthorized
from kontobahn.ids import API_KEY_PREFIX, new_id, new_token
from kontobahn.vault import Vault


class ApiKey(NamedTuple):
    organization_id: str
    id: str
    name: str
    hint: str
    role: Role
    is_agency: int
    created_by: str | None
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    last_used_at: int | None
    replaced_by: str | None

    def state(self, now: int) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"


_API_KEYS = Table("api_keys", ApiKey)


class NewKey(NamedTuple):
    key: ApiKey
    # Shown here and never again.
    secret: str


def create(
    tx: Tx,
    vault: Vault,
    organization_id: str,
    name: str,
    actor: Actor,
    *,
    role: Role = "member",
    expires_at: int | None = None,
    clients: tuple[str, ...] = (),
    created_by: str | None = None,
) -> NewKey:
    """Makes a key; with `clients` an agency key."""
    if expires_at is not None and expires_at <= tx.now:
        raise BadRequest("`expires_at` lies in the past.")
    secret = new_token(API_KEY_PREFIX)
    key = ApiKey(
        organization_id=organization_id,
        id=new_id(),
        name=name,
        hint=secret[: len(API_KEY_PREFIX) + 4],
        role=role,
        is_agency=int(bool(clients)),
        created_by=created_by,
        created_at=tx.now,
        expires_at=expires_at,
        revoked_at=None,
        last_used_at=None,
        replaced_by=None,
    )
    _API_KEYS.insert(tx, key, token_hash=vault.token_hash(secret))
    for client in clients:
        if tx.one("SELECT 1 FROM organizations WHERE id = ?", client) is None:
            raise NotFound(f"There is no organisation {client}.")
        tx.run(
            "INSERT INTO agency_clients (organization_id, key_id, client_organization_id) VALUES (?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            organization_id, key.id, client,
        )  # fmt: skip
    audit.record(tx, organization_id, actor, "api_key.create", key.id, name=name, role=role, clients=list(clients))
    return NewKey(key, secret)


def listing(tx: Tx, organization_id: str) -> list[ApiKey]:
    return _API_KEYS.all(tx, "organization_id = ? ORDER BY created_at, id", organization_id)


def get(tx: Tx, organization_id: str, key_id: str) -> ApiKey:
    key = _API_KEYS.one(tx, "organization_id = ? AND id = ?", organization_id, key_id)
    if key is None:
        raise NotFound(f"There is no API key {key_id}.")
    return key


def rotate(tx: Tx, vault: Vault, organization_id: str, key_id: str, actor: Actor, *, overlap_seconds: int) -> NewKey:
    """Makes a key with the same name and rights; the old one stays valid for the overlap."""
    tx.lock("api_key", key_id)
    old = get(tx, organization_id, key_id)
    if old.state(tx.now) != "active":
        raise Conflict(f"The API key {key_id} is {old.state(tx.now)} and cannot be rotated.")
    if old.replaced_by is not None:
        raise Conflict(f"The API key {key_id} was rotated already; its successor is {old.replaced_by}.")
    clients = _clients(tx, organization_id, key_id)
    new = create(
        tx, vault, organization_id, old.name, actor,
        role=old.role, expires_at=old.expires_at, clients=clients, created_by=old.created_by,
    )  # fmt: skip
    ends_at = tx.now + overlap_seconds * SECOND
    if old.expires_at is not None:
        ends_at = min(ends_at, old.expires_at)
    _API_KEYS.update(tx, old, expires_at=ends_at, replaced_by=new.key.id)
    audit.record(
        tx, organization_id, actor, "api_key.rotate", key_id, successor=new.key.id, overlap_seconds=overlap_seconds
    )
    return new


def revoke(tx: Tx, organization_id: str, key_id: str, actor: Actor) -> ApiKey:
    """Ends a key at once. Revoking it again changes nothing."""
    tx.lock("api_key", key_id)
    key = get(tx, organization_id, key_id)
    if key.revoked_at is not None:
        return key
    audit.record(tx, organization_id, actor, "api_key.revoke", key_id)
    return _API_KEYS.update(tx, key, revoked_at=tx.now)


def authenticate(tx: Tx, token_hash: str) -> Principal:
    """Returns the principal of a key. Raises Unauthorized, with the reason, if it is not valid."""
    key = _API_KEYS.one(tx, "token_hash = ?", token_hash)
    if key is None:
        raise Unauthorized("This API key is not known.")
    state = key.state(tx.now)
    if state == "revoked":
        raise Unauthorized("This API key was revoked.")
    if state == "expired":
        raise Unauthorized("This API key has expired.")
    clients = _clients(tx, key.organization_id, key.id) if key.is_agency else ()
    return Principal(
        organization_id=key.organization_id,
        role=key.role,
        scope=(key.organization_id, *(client for client in clients if client != key.organization_id)),
        is_agency=bool(key.is_agency),
        key_id=key.id,
        user_id=key.created_by,
        valid_until=key.expires_at,
    )


def find(tx: Tx, key_id: str) -> ApiKey:
    """A key of any organisation by its id, for the operator's command line."""
    key = _API_KEYS.one(tx, "id = ?", key_id)
    if key is None:
        raise NotFound(f"There is no API key {key_id}.")
    return key


def note_use(tx: Tx, organization_id: str, key_id: str, at: int) -> None:
    tx.run(
        "UPDATE api_keys SET last_used_at = ? WHERE organization_id = ? AND id = ? AND COALESCE(last_used_at, 0) < ?",
        at, organization_id, key_id, at,
    )  # fmt: skip


def _clients(tx: Tx, organization_id: str, key_id: str) -> tuple[str, ...]:
    return tuple(
        client
        for (client,) in tx.all(
            "SELECT client_organization_id FROM agency_clients WHERE organization_id = ? AND key_id = ?"
            " ORDER BY client_organization_id",
            organization_id, key_id,
        )
    )  # fmt: skip
