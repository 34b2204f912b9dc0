"""Clients that an organisation's people look after: created, closed and opened again by whoever administers them.

A client is an organisation. Closing it keeps everything: nobody works in it, and it is in no list of choices, until it is opened again.
"""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.access import audit, client_access, invitations, keys, organizations, users
from kontobahn.access.audit import Actor
from kontobahn.access.invitations import NewInvitation
from kontobahn.access.organizations import Organization
from kontobahn.access.principal import ClientRole, Principal, Role
from kontobahn.db import Tx
from kontobahn.errors import Conflict, Forbidden
from kontobahn.sentences import said
from kontobahn.vault import Vault

# More than an adviser has; a script that creates them one after another ends here.
MAX_CLIENTS = 2_000


class KeptClient(NamedTuple):
    id: str
    name: str
    role: ClientRole
    closed_at: int | None


def listing(tx: Tx, principal: Principal) -> list[KeptClient]:
    """The clients of a person by name, closed ones too."""
    rows = tx.all(
        "SELECT o.id, o.name, a.role, o.closed_at FROM client_access a JOIN organizations o ON o.id = a.client_organization_id"
        " WHERE a.organization_id = ? AND a.user_id = ? ORDER BY o.name, o.id",
        principal.organization_id, principal.user_id,
    )  # fmt: skip
    return [KeptClient(*row) for row in rows]


def administered(tx: Tx, principal: Principal, client_id: str) -> KeptClient:
    """Returns the client if this person administers it. Raises the principal's “not found” otherwise."""
    found = next((client for client in listing(tx, principal) if client.id == client_id), None)
    if found is None or found.role != "admin":
        raise principal.missing("Client")
    return found


def create(tx: Tx, principal: Principal, name: str, actor: Actor) -> Organization:
    """Creates a client that this person administers; colleagues are given access then."""
    users.lock(tx, principal.organization_id)
    if len(listing(tx, principal)) >= MAX_CLIENTS:
        raise Conflict(said("A person looks after at most {most} clients.", most=MAX_CLIENTS))
    made = organizations.create(tx, name, actor)
    client_access.give_by_operator(tx, users.get(tx, principal, principal.user_id or ""), made.id, "admin", actor)
    return made


def close(tx: Tx, principal: Principal, client_id: str, actor: Actor) -> KeptClient:
    found = administered(tx, principal, client_id)
    tx.lock("organization", client_id)
    if users.any_of(tx, client_id):
        raise Conflict("This client has people of its own who sign in. Only they can give it up.")
    if keys.any_valid_for(tx, client_id):
        raise Conflict("API keys still act for this client. Revoke them first.")
    if found.closed_at is None:
        organizations.set_closed(tx, client_id, tx.now)
        _record(tx, principal, client_id, actor, "organization.close")
    return found


def reopen(tx: Tx, principal: Principal, client_id: str, actor: Actor) -> KeptClient:
    found = administered(tx, principal, client_id)
    if found.closed_at is not None:
        organizations.set_closed(tx, client_id, None)
        _record(tx, principal, client_id, actor, "organization.reopen")
    return found


def rename(tx: Tx, principal: Principal, client_id: str, name: str, actor: Actor) -> None:
    administered(tx, principal, client_id)
    organizations.rename(tx, client_id, name, actor)


def invite(
    tx: Tx, vault: Vault, principal: Principal, client_id: str, *, email: str, role: Role, days: int, actor: Actor
) -> NewInvitation:
    """Invites a person of the client. It ends with the access of whoever invites."""
    users.lock(tx, principal.organization_id)
    administered(tx, principal, client_id)
    if role == "owner" and users.any_of(tx, client_id):
        raise Forbidden("Only an owner may invite an owner.")
    # Looked at above, under the lock of whoever takes the access away.
    there = principal._replace(organization_id=client_id, role="owner", scope=(client_id,), session_id=None)
    return invitations.create(tx, vault, there, email=email, role=role, days=days, actor=actor)


def _record(tx: Tx, principal: Principal, client_id: str, actor: Actor, action: str) -> None:
    """Both sides see it in their log."""
    for organization_id in (principal.organization_id, client_id):
        audit.record(tx, organization_id, actor, action, client_id)
