"""API keys: shown once when they are created, stored as a keyed hash. An agency key also names the organisations it may act for."""

from __future__ import annotations

from typing import Any, NamedTuple

from kontobahn.access import audit, users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import (
    NO_LIMITS,
    SCOPES,
    Limits,
    Principal,
    Role,
    Scope,
    scopes_from_text,
    scopes_to_text,
)
from kontobahn.clock import SECOND
from kontobahn.db import Rounds, Table, Tx, ask_all, short_read
from kontobahn.errors import BadRequest, Conflict, Forbidden, NotFound, Unauthorized
from kontobahn.ids import API_KEY_PREFIX, new_id, new_token
from kontobahn.money import amount_text
from kontobahn.sentences import said
from kontobahn.vault import Vault


class Rights(NamedTuple):
    """The rights of a key."""

    role: Role = "member"
    # None: all that the role allows.
    scopes: tuple[Scope, ...] | None = None
    limits: Limits = NO_LIMITS
    # An agency key: the organisations that it may act for.
    clients: tuple[str, ...] = ()


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
    scopes: str | None
    payment_limit_minor: int | None
    daily_limit_minor: int | None
    first_key_id: str | None

    @property
    def rights(self) -> Rights:
        """Without the clients of an agency key, which are rows of their own."""
        return Rights(
            self.role, scopes_from_text(self.scopes), Limits(self.payment_limit_minor, self.daily_limit_minor)
        )

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
    scopes: tuple[Scope, ...] | None = None,
    limits: Limits = NO_LIMITS,
    expires_at: int | None = None,
    clients: tuple[str, ...] = (),
    created_by: str | None = None,
    by: Principal | None = None,
) -> NewKey:
    """Makes a key; with `clients` an agency key.

    `by` is the caller who makes it, and who cannot give it more than they have; None for the operator.
    """
    rights = Rights(role, scopes, limits, clients)
    return _create(tx, vault, organization_id, name, actor, rights, expires_at=expires_at, created_by=created_by, by=by)


def _create(
    tx: Tx,
    vault: Vault,
    organization_id: str,
    name: str,
    actor: Actor,
    rights: Rights,
    *,
    expires_at: int | None,
    created_by: str | None,
    by: Principal | None,
    first_key_id: str | None = None,
) -> NewKey:
    _check(tx, organization_id, rights, by)
    if expires_at is not None and expires_at <= tx.now:
        raise BadRequest("`expires_at` is in the past.", field="expires_at")
    secret = new_token(API_KEY_PREFIX)
    key = ApiKey(
        organization_id=organization_id,
        id=new_id(),
        name=name,
        hint=secret[: len(API_KEY_PREFIX) + 4],
        role=rights.role,
        is_agency=int(bool(rights.clients)),
        created_by=created_by,
        created_at=tx.now,
        expires_at=expires_at,
        revoked_at=None,
        last_used_at=None,
        replaced_by=None,
        scopes=scopes_to_text(rights.scopes),
        payment_limit_minor=rights.limits.payment_minor,
        daily_limit_minor=rights.limits.daily_minor,
        first_key_id=first_key_id,
    )
    _API_KEYS.insert(tx, key, token_hash=vault.token_hash(secret))
    tx.many(
        "INSERT INTO agency_clients (organization_id, key_id, client_organization_id) VALUES (?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        [(organization_id, key.id, client) for client in rights.clients],
    )
    audit.record(tx, organization_id, actor, "api_key.create", key.id, name=name, **_described(rights))
    return NewKey(key, secret)


def _check(tx: Tx, organization_id: str, rights: Rights, by: Principal | None) -> None:
    """Raises the refusal if these rights make no sense, or if whoever gives them does not have them."""
    limits = rights.limits
    for field, limit in (("payment_limit", limits.payment_minor), ("daily_limit", limits.daily_minor)):
        if limit is not None and limit <= 0:
            raise BadRequest(said("The field `{field}` must be above 0.", field=field), field=field)
    if None not in limits and (limits.payment_minor or 0) > (limits.daily_minor or 0):
        raise BadRequest("The field `payment_limit` is above `daily_limit`.", field="payment_limit")
    for client in rights.clients:
        if by is None and tx.one("SELECT 1 FROM organizations WHERE id = ?", client) is None:
            raise NotFound(said("There is no organisation {id}.", id=client))
    if by is None:
        return
    if organization_id != by.organization_id or any(client not in by.scope for client in rights.clients):
        raise by.missing("Organisation")
    if not by.may(rights.role):
        raise Forbidden(
            said(
                "Only a caller with the role {role} may give it to a key; this one is {own}.",
                role=rights.role,
                own=by.role,
            )
        )
    if by.scopes is not None:
        lacking = [scope for scope in rights.scopes or SCOPES if scope not in by.scopes]
        if lacking:
            raise Forbidden(
                said("A key cannot grant more than it has: it lacks the scope {scope}.", scope=lacking[0]),
                missing_scope=lacking[0],
            )
    for field, given, own in zip(("payment_limit", "daily_limit"), limits, by.limits, strict=True):
        if own is not None and (given is None or given > own):
            raise Forbidden(
                said(
                    "A key cannot grant more than it has: its `{field}` is {amount} EUR.",
                    field=field,
                    amount=amount_text(own),
                ),
                field=field,
            )


def _described(rights: Rights) -> dict[str, object]:
    """As the audit log shows them."""
    limits = {
        name: amount_text(limit)
        for name, limit in (("payment_limit", rights.limits.payment_minor), ("daily_limit", rights.limits.daily_minor))
        if limit is not None
    }
    return {"role": rights.role, "scopes": rights.scopes, "clients": list(rights.clients), **limits}


def listing(tx: Tx, organization_id: str) -> list[ApiKey]:
    return _API_KEYS.all(tx, "organization_id = ? ORDER BY created_at, id", organization_id)


def get(tx: Tx, organization_id: str, key_id: str) -> ApiKey:
    key = _API_KEYS.one(tx, "organization_id = ? AND id = ?", organization_id, key_id)
    if key is None:
        raise NotFound(said("There is no API key {id}.", id=key_id))
    return key


def rotate(
    tx: Tx,
    vault: Vault,
    organization_id: str,
    key_id: str,
    actor: Actor,
    *,
    overlap_seconds: int,
    by: Principal | None = None,
) -> NewKey:
    """Makes a key with the same name and rights; the old one stays valid for the overlap."""
    tx.lock("api_key", key_id)
    old = get(tx, organization_id, key_id)
    if old.state(tx.now) != "active":
        raise Conflict(said("The API key {id} is {state} and cannot be rotated.", id=key_id, state=old.state(tx.now)))
    if old.replaced_by is not None:
        raise Conflict(
            said(
                "The API key {id} has already been rotated; its successor is {other}.", id=key_id, other=old.replaced_by
            )
        )
    new = _create(
        tx, vault, organization_id, old.name, actor, old.rights._replace(clients=clients_of(tx, old)),
        expires_at=old.expires_at, created_by=old.created_by, by=by, first_key_id=old.first_key_id or old.id,
    )  # fmt: skip
    ends_at = tx.now + overlap_seconds * SECOND
    if old.expires_at is not None:
        ends_at = min(ends_at, old.expires_at)
    _API_KEYS.update(tx, old, expires_at=ends_at, replaced_by=new.key.id)
    _end_with_key(tx, old, ends_at)
    audit.record(
        tx, organization_id, actor, "api_key.rotate", key_id, successor=new.key.id, overlap_seconds=overlap_seconds
    )
    return new


def revoke(tx: Tx, organization_id: str, key_id: str, actor: Actor, by: Principal | None = None) -> ApiKey:
    """Ends a key at once, with all that lets somebody in by it. Revoking it again changes nothing.

    `by` is the person who revokes it, who is not locked out; None for the operator.
    """
    tx.lock("api_key", key_id)
    key = get(tx, organization_id, key_id)
    if key.revoked_at is not None:
        return key
    audit.record(tx, organization_id, actor, "api_key.revoke", key_id)
    for (invitation_id,) in _end_with_key(tx, key, tx.now):
        audit.record(tx, organization_id, actor, "invitation.revoke", invitation_id, with_key=key_id)
    users.end_with_key(tx, organization_id, key_id, actor, but=by.user_id if by else None)
    return _API_KEYS.update(tx, key, revoked_at=tx.now)


def _end_with_key(tx: Tx, key: ApiKey, ends_at: int) -> list[tuple[Any, ...]]:
    """Lets the invitations and the links for passwords that were made with a key end with it. Returns the invitations revoked now."""
    mine = (key.organization_id, key.id)
    tx.run(
        "UPDATE password_resets SET expires_at = ? WHERE organization_id = ? AND key_id = ? AND expires_at > ?",
        ends_at, *mine, ends_at,
    )  # fmt: skip
    if ends_at > tx.now:
        tx.run(
            "UPDATE invitations SET expires_at = ? WHERE organization_id = ? AND key_id = ? AND status = 'pending'"
            " AND expires_at > ?",
            ends_at, *mine, ends_at,
        )  # fmt: skip
        return []
    return tx.all(
        "UPDATE invitations SET status = 'revoked', settled_at = ? WHERE organization_id = ? AND key_id = ?"
        " AND status = 'pending' RETURNING id",
        tx.now, *mine,
    )  # fmt: skip


@short_read
def authenticate(token_hash: str, now: int) -> Rounds[Principal]:
    """Returns the principal of a key. Raises Unauthorized, with the reason, if it is not valid."""
    # With the clients of an agency key: a row for each.
    rows = yield from ask_all(
        f"SELECT c.client_organization_id, {_API_KEYS.columns_of('k')} FROM api_keys k LEFT JOIN agency_clients c"
        " ON c.organization_id = k.organization_id AND c.key_id = k.id WHERE k.token_hash = ?"
        " ORDER BY c.client_organization_id",
        token_hash,
    )
    if not rows:
        raise Unauthorized("This API key is not known.")
    key = ApiKey._make(rows[0][1:])
    state = key.state(now)
    if state == "revoked":
        raise Unauthorized("This API key was revoked.")
    if state == "expired":
        raise Unauthorized("This API key has expired.")
    clients, rights = [client for client, *_ in rows if client is not None], key.rights
    return Principal(
        organization_id=key.organization_id,
        role=key.role,
        scope=(key.organization_id, *(client for client in clients if client != key.organization_id)),
        is_agency=bool(key.is_agency),
        key_id=key.id,
        user_id=key.created_by,
        valid_until=key.expires_at,
        scopes=rights.scopes,
        limits=rights.limits,
        first_key_id=key.first_key_id or key.id,
    )


def find(tx: Tx, key_id: str) -> ApiKey:
    """A key of any organisation by its id, for the operator's command line."""
    key = _API_KEYS.one(tx, "id = ?", key_id)
    if key is None:
        raise NotFound(said("There is no API key {id}.", id=key_id))
    return key


def note_use(tx: Tx, organization_id: str, key_id: str, at: int) -> None:
    tx.run(
        "UPDATE api_keys SET last_used_at = ? WHERE organization_id = ? AND id = ? AND COALESCE(last_used_at, 0) < ?",
        at, organization_id, key_id, at,
    )  # fmt: skip


def clients_of(tx: Tx, key: ApiKey) -> tuple[str, ...]:
    """The organisations that an agency key may act for."""
    if not key.is_agency:
        return ()
    return tuple(
        client
        for (client,) in tx.all(
            "SELECT client_organization_id FROM agency_clients WHERE organization_id = ? AND key_id = ?"
            " ORDER BY client_organization_id",
            key.organization_id, key.id,
        )
    )  # fmt: skip


def any_valid_for(tx: Tx, organization_id: str) -> bool:
    """Returns whether a valid key acts for this organisation: one of its own, or one of an agency."""
    valid = "k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > ?) LIMIT 1"
    own = tx.one(f"SELECT 1 FROM api_keys k WHERE k.organization_id = ? AND {valid}", organization_id, tx.now)
    of_agency = tx.one(
        "SELECT 1 FROM agency_clients a JOIN api_keys k ON k.organization_id = a.organization_id AND k.id = a.key_id"
        f" WHERE a.client_organization_id = ? AND {valid}",
        organization_id, tx.now,
    )  # fmt: skip
    return own is not None or of_agency is not None


class AgencyClient(NamedTuple):
    """An organisation that keys of this one act for."""

    organization_id: str
    name: str
    keys: list[str]


def clients_by_key(tx: Tx, organization_id: str) -> list[AgencyClient]:
    found: dict[str, AgencyClient] = {}
    for client_id, name, key in tx.all(
        "SELECT o.id, o.name, k.name FROM agency_clients a"
        " JOIN api_keys k ON k.organization_id = a.organization_id AND k.id = a.key_id AND k.revoked_at IS NULL"
        " JOIN organizations o ON o.id = a.client_organization_id WHERE a.organization_id = ?"
        " ORDER BY o.name, o.id, k.name",
        organization_id,
    ):
        found.setdefault(client_id, AgencyClient(client_id, name, [])).keys.append(key)
    return list(found.values())


class Used(NamedTuple):
    """Returns whether an organisation has keys, and whether one of them was ever used."""

    made: bool
    used: bool


def is_used(tx: Tx, organization_id: str) -> Used:
    row = tx.one(
        "SELECT EXISTS (SELECT 1 FROM api_keys WHERE organization_id = ?),"
        " EXISTS (SELECT 1 FROM api_keys WHERE organization_id = ? AND last_used_at IS NOT NULL)",
        organization_id, organization_id,
    )  # fmt: skip
    assert row is not None
    return Used(*map(bool, row))
