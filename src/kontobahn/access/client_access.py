"""Access of people to clients: the organisations that a person may work in beside their own, with a role of its own in each.

It is given by somebody who administers the client, or by the operator. A key never gives it: which clients a key may act for says
nothing about people.
"""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.access import audit, users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import ClientRole, Principal
from kontobahn.access.users import User
from kontobahn.db import Table, Tx
from kontobahn.errors import Conflict, Forbidden


class ClientAccess(NamedTuple):
    # The person's own organisation.
    organization_id: str
    user_id: str
    client_organization_id: str
    role: ClientRole
    created_by: str
    created_at: int


_ACCESS = Table("client_access", ClientAccess)
_BY_KEY = "organization_id = ? AND user_id = ? AND client_organization_id = ?"


class Client(NamedTuple):
    """An organisation that a person may work in."""

    id: str
    name: str
    role: ClientRole


class Listed(NamedTuple):
    """An access with the names of the person and the client."""

    access: ClientAccess
    email: str
    name: str
    client: str


def of_user(tx: Tx, organization_id: str, user_id: str) -> list[Client]:
    """The clients that a person may work in now: those that are not closed."""
    rows = tx.all(
        "SELECT o.id, o.name, a.role FROM client_access a JOIN organizations o ON o.id = a.client_organization_id"
        " WHERE a.organization_id = ? AND a.user_id = ? AND o.closed_at IS NULL ORDER BY o.name, o.id",
        organization_id, user_id,
    )  # fmt: skip
    return [Client(*row) for row in rows]


def listing(tx: Tx, organization_id: str) -> list[Listed]:
    """Returns the access of the organisation's people to others, and of others' people to it."""
    rows = tx.all(
        f"SELECT {_ACCESS.columns_of('a')}, u.email, u.name, o.name FROM client_access a"
        " JOIN users u ON u.organization_id = a.organization_id AND u.id = a.user_id"
        " JOIN organizations o ON o.id = a.client_organization_id"
        " WHERE a.organization_id = ? OR a.client_organization_id = ? ORDER BY o.name, o.id, u.name, u.id",
        organization_id, organization_id,
    )  # fmt: skip
    return [Listed(ClientAccess._make(row[:-3]), *row[-3:]) for row in rows]


def any_to(tx: Tx, client_id: str) -> bool:
    """Returns whether somebody of another organisation may work in this one."""
    return tx.one("SELECT 1 FROM client_access WHERE client_organization_id = ? LIMIT 1", client_id) is not None


def find(tx: Tx, principal: Principal, user_id: str, client_id: str) -> ClientAccess:
    """Returns the access of a person to a client, if the caller administers one of the two sides."""
    found = _ACCESS.one(
        tx, "user_id = ? AND client_organization_id = ? AND (organization_id = ? OR client_organization_id = ?)",
        user_id, client_id, principal.organization_id, principal.organization_id,
    )  # fmt: skip
    if found is None:
        raise principal.missing("Access")
    return found


def give(tx: Tx, principal: Principal, user_id: str, client_id: str, role: ClientRole, actor: Actor) -> ClientAccess:
    """Gives a person a role in a client, or another one than they have.

    Whoever administers the client does so: its own administrators for those who have access already (others are invited), and people of
    an agency who are administrators there for their colleagues.
    """
    if client_id == principal.organization_id:
        users.lock(tx, client_id)
        known = find(tx, principal, user_id, client_id)
        return _write(tx, known._replace(role=role), known, actor)
    users.lock(tx, principal.organization_id)
    user = users.get(tx, principal, user_id)
    own = _ACCESS.one(tx, _BY_KEY, principal.organization_id, principal.user_id or "", client_id)
    if own is None:
        raise principal.missing("Organisation")
    if principal.session_id is None or own.role != "admin":
        raise Forbidden("Only a person who is an administrator of the client may give others access to it.")
    return give_by_operator(tx, user, client_id, role, actor)


def give_by_operator(tx: Tx, user: User, client_id: str, role: ClientRole, actor: Actor) -> ClientAccess:
    """Gives the access whoever asks; the command line has no other check. Raises Conflict for the person's own organisation."""
    if client_id == user.organization_id:
        raise Conflict("A person has a role in their own organisation already. Change that instead.")
    known = _ACCESS.one(tx, _BY_KEY, user.organization_id, user.id, client_id)
    wanted = ClientAccess(user.organization_id, user.id, client_id, role, actor.name, tx.now)
    return _write(tx, known._replace(role=role) if known else wanted, known, actor)


def _write(tx: Tx, wanted: ClientAccess, known: ClientAccess | None, actor: Actor) -> ClientAccess:
    if known == wanted:
        return wanted
    if known is None:
        _ACCESS.insert(tx, wanted)
    else:
        if wanted.role != "admin":
            _end_invitations(tx, wanted, actor)
        tx.run(f"UPDATE client_access SET role = ? WHERE {_BY_KEY}", wanted.role, *wanted[:3])
    _record(tx, wanted, actor, "client_access.give", role=wanted.role, old=known.role if known else None)
    return wanted


def withdraw(tx: Tx, principal: Principal, user_id: str, client_id: str, actor: Actor) -> ClientAccess:
    """Ends a person's access to a client, by an administrator of either side."""
    known = find(tx, principal, user_id, client_id)
    withdraw_by_operator(tx, known, actor)
    return known


def withdraw_by_operator(tx: Tx, known: ClientAccess, actor: Actor) -> None:
    _end_invitations(tx, known, actor)
    if tx.run(f"DELETE FROM client_access WHERE {_BY_KEY}", *known[:3]):
        _record(tx, known, actor, "client_access.withdraw", role=known.role)


def _end_invitations(tx: Tx, access: ClientAccess, actor: Actor) -> None:
    """Revokes the open invitations to the client that this person made as its administrator."""
    users.lock(tx, access.organization_id)
    users.end_invitations(tx, access.client_organization_id, access.user_id, actor)


def of_email(tx: Tx, email: str, client_id: str) -> ClientAccess | None:
    """An access by the person's address, for the operator's command line."""
    known = users.by_email(tx, email)
    return None if known is None else _ACCESS.one(tx, _BY_KEY, known[0].organization_id, known[0].id, client_id)


def remove_client(tx: Tx, organization_id: str) -> None:
    tx.run("DELETE FROM client_access WHERE client_organization_id = ?", organization_id)


def _record(tx: Tx, access: ClientAccess, actor: Actor, action: str, **details: object) -> None:
    """Both sides see it in their log."""
    for organization_id in (access.organization_id, access.client_organization_id):
        audit.record(
            tx, organization_id, actor, action, access.user_id,
            client_organization_id=access.client_organization_id, **details,
        )  # fmt: skip
