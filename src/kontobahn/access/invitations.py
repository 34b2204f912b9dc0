"""Invitations: how a person joins an organisation. The token is shown once, to whoever invites."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.access import audit, users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, Role
from kontobahn.access.users import User
from kontobahn.clock import DAY
from kontobahn.db import Tx
from kontobahn.errors import Conflict, Forbidden, NotFound
from kontobahn.ids import INVITATION_PREFIX, new_id, new_token
from kontobahn.vault import Vault

_COLUMNS = "organization_id, id, email, role, status, invited_by, created_at, expires_at, settled_at"


class Invitation(NamedTuple):
    organization_id: str
    id: str
    email: str
    role: Role
    status: str
    invited_by: str | None
    created_at: int
    expires_at: int
    settled_at: int | None

    def state(self, now: int) -> str:
        return "expired" if self.status == "pending" and self.expires_at <= now else self.status


class NewInvitation(NamedTuple):
    invitation: Invitation
    secret: str


def create(
    tx: Tx, vault: Vault, principal: Principal, *, email: str, role: Role, days: int, actor: Actor
) -> NewInvitation:
    tx.lock("invitations", principal.organization_id)
    email = users.normal_email(email)
    if role == "owner" and not principal.may("owner"):
        raise Forbidden("Only an owner may invite an owner.")
    if any(item.email == email and item.state(tx.now) == "pending" for item in listing(tx, principal.organization_id)):
        raise Conflict("There is an open invitation for this e-mail address. Revoke it first.")
    if any(user.email == email for user in users.listing(tx, principal.organization_id)):
        raise Conflict("This person belongs to the organisation already.")
    secret = new_token(INVITATION_PREFIX)
    invitation = Invitation(
        principal.organization_id,
        new_id(),
        email,
        role,
        "pending",
        principal.user_id,
        tx.now,
        tx.now + days * DAY,
        None,
    )
    tx.run(
        f"INSERT INTO invitations ({_COLUMNS}, token_hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        *invitation, vault.token_hash(secret),
    )  # fmt: skip
    audit.record(tx, principal.organization_id, actor, "invitation.create", invitation.id, email=email, role=role)
    return NewInvitation(invitation, secret)


def listing(tx: Tx, organization_id: str) -> list[Invitation]:
    return [
        Invitation(*row)
        for row in tx.all(
            f"SELECT {_COLUMNS} FROM invitations WHERE organization_id = ? ORDER BY created_at, id", organization_id
        )
    ]


def revoke(tx: Tx, principal: Principal, invitation_id: str, actor: Actor) -> Invitation:
    tx.lock("invitations", principal.organization_id)
    row = tx.one(
        f"SELECT {_COLUMNS} FROM invitations WHERE organization_id = ? AND id = ?",
        principal.organization_id, invitation_id,
    )  # fmt: skip
    if row is None:
        raise principal.missing("Invitation")
    invitation = Invitation(*row)
    if invitation.status == "accepted":
        raise Conflict("This invitation was accepted already. Delete the user instead.")
    if invitation.status == "revoked":
        return invitation
    _settle(tx, invitation, "revoked")
    audit.record(tx, principal.organization_id, actor, "invitation.revoke", invitation_id)
    return invitation._replace(status="revoked", settled_at=tx.now)


def accept(tx: Tx, vault: Vault, token: str, *, name: str, password_hash: str, actor: Actor) -> User:
    """Make the invited person a user."""
    row = tx.one(f"SELECT {_COLUMNS} FROM invitations WHERE token_hash = ?", vault.token_hash(token))
    if row is None:
        raise NotFound("This invitation is not known.")
    organization_id = row[0]
    tx.lock("invitations", organization_id)
    row = tx.one(f"SELECT {_COLUMNS} FROM invitations WHERE organization_id = ? AND id = ?", organization_id, row[1])
    assert row is not None
    invitation = Invitation(*row)
    state = invitation.state(tx.now)
    if state != "pending":
        raise Conflict(f"This invitation is {state}.")
    user = users.create(
        tx, organization_id,
        email=invitation.email, name=name, role=invitation.role, password_hash=password_hash, actor=actor,
    )  # fmt: skip
    _settle(tx, invitation, "accepted")
    audit.record(tx, organization_id, actor, "invitation.accept", invitation.id, user_id=user.id)
    return user


def _settle(tx: Tx, invitation: Invitation, status: str) -> None:
    tx.run(
        "UPDATE invitations SET status = ?, settled_at = ? WHERE organization_id = ? AND id = ?",
        status, tx.now, invitation.organization_id, invitation.id,
    )  # fmt: skip
