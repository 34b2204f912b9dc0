"""API keys: made once, shown once, stored as a keyed hash. An agency key also names the organisations it may act for."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, Role
from kontobahn.clock import SECOND
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict, NotFound, Unauthorized
from kontobahn.ids import API_KEY_PREFIX, new_id, new_token
from kontobahn.vault import Vault

_COLUMNS = (
    "organization_id, id, name, hint, role, is_agency, created_by, created_at, expires_at, revoked_at, last_used_at,"
    " replaced_by"
)


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


class NewKey(NamedTuple):
    key: ApiKey
    # The only time the secret is seen.
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
    """A new key; with `clients` an agency key."""
    if expires_at is not None and expires_at <= tx.now:
        raise BadRequest("`expires_at` lies in the past.")
    secret = new_token(API_KEY_PREFIX)
    key = ApiKey(
        organization_id, new_id(), name, secret[: len(API_KEY_PREFIX) + 4], role, int(bool(clients)), created_by, tx.now,
        expires_at, None, None, None,
    )  # fmt: skip
    tx.run(
        f"INSERT INTO api_keys ({_COLUMNS}, token_hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        *key, vault.token_hash(secret),
    )  # fmt: skip
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
    return [
        ApiKey(*row)
        for row in tx.all(
            f"SELECT {_COLUMNS} FROM api_keys WHERE organization_id = ? ORDER BY created_at, id", organization_id
        )
    ]


def get(tx: Tx, organization_id: str, key_id: str) -> ApiKey:
    row = tx.one(f"SELECT {_COLUMNS} FROM api_keys WHERE organization_id = ? AND id = ?", organization_id, key_id)
    if row is None:
        raise NotFound(f"There is no API key {key_id}.")
    return ApiKey(*row)


def rotate(tx: Tx, vault: Vault, organization_id: str, key_id: str, actor: Actor, *, overlap_seconds: int) -> NewKey:
    """A new secret with the same name and rights; the old one goes on for the overlap."""
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
    tx.run(
        "UPDATE api_keys SET expires_at = ?, replaced_by = ? WHERE organization_id = ? AND id = ?",
        ends_at, new.key.id, organization_id, key_id,
    )  # fmt: skip
    audit.record(
        tx, organization_id, actor, "api_key.rotate", key_id, successor=new.key.id, overlap_seconds=overlap_seconds
    )
    return new


def revoke(tx: Tx, organization_id: str, key_id: str, actor: Actor) -> ApiKey:
    """End a key at once. Revoking it again changes nothing."""
    key = get(tx, organization_id, key_id)
    if key.revoked_at is not None:
        return key
    tx.run("UPDATE api_keys SET revoked_at = ? WHERE organization_id = ? AND id = ?", tx.now, organization_id, key_id)
    audit.record(tx, organization_id, actor, "api_key.revoke", key_id)
    return key._replace(revoked_at=tx.now)


def authenticate(tx: Tx, token_hash: str) -> Principal:
    """The principal of a key; Unauthorized with the reason where there is none."""
    row = tx.one(f"SELECT {_COLUMNS} FROM api_keys WHERE token_hash = ?", token_hash)
    if row is None:
        raise Unauthorized("This API key is not known.")
    key = ApiKey(*row)
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
    """A key by its id alone, for the operator's command line."""
    row = tx.one(f"SELECT {_COLUMNS} FROM api_keys WHERE id = ?", key_id)
    if row is None:
        raise NotFound(f"There is no API key {key_id}.")
    return ApiKey(*row)


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
