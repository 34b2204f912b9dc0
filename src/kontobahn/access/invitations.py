"""Invitations: how a person joins an organisation. The token is shown once, to the person who invites."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.access import audit, client_access, users
from kontobahn.access.audit import Actor
from kontobahn.access.client_access import ClientAccess
from kontobahn.access.principal import Principal, Role
from kontobahn.access.users import User
from kontobahn.clock import DAY
from kontobahn.db import Table, Tx
from kontobahn.errors import Conflict, Forbidden, NotFound
from kontobahn.ids import INVITATION_PREFIX, new_id, new_token
from kontobahn.vault import Vault


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
    key_id: str | None

    def state(self, now: int) -> str:
        return "expired" if self.status == "pending" and self.expires_at <= now else self.status


_PAGE = "/dashboard/invitation"
_INVITATIONS = Table("invitations", Invitation)


class NewInvitation(NamedTuple):
    invitation: Invitation
    secret: str


def create(
    tx: Tx, vault: Vault, principal: Principal, *, email: str, role: Role, days: int, actor: Actor
) -> NewInvitation:
    least: Role = "owner" if role == "owner" else "admin"
    expires_at = users.check_maker(tx, principal, least, tx.now + days * DAY)
    tx.lock("invitations", principal.organization_id)
    email = users.normal_email(email)
    if role == "owner" and not principal.may("owner"):
        raise Forbidden("Only an owner may invite an owner.")
    if any(item.email == email and item.state(tx.now) == "pending" for item in listing(tx, principal.organization_id)):
        raise Conflict("There is an open invitation for this e-mail address. Revoke it first.")
    if any(user.email == email for user in users.listing(tx, principal.organization_id)):
        raise Conflict("This person already belongs to the organisation.")
    secret = new_token(INVITATION_PREFIX)
    invitation = Invitation(
        organization_id=principal.organization_id,
        id=new_id(),
        email=email,
        role=role,
        status="pending",
        invited_by=principal.user_id,
        created_at=tx.now,
        expires_at=expires_at,
        settled_at=None,
        key_id=principal.key_id,
    )
    _INVITATIONS.insert(tx, invitation, token_hash=vault.token_hash(secret))
    audit.record(tx, principal.organization_id, actor, "invitation.create", invitation.id, email=email, role=role)
    return NewInvitation(invitation, secret)


def link(base_url: str, secret: str) -> str:
    """The address to hand to the person."""
    return f"{base_url}{_PAGE}/{secret}"


def any_made(tx: Tx, organization_id: str) -> bool:
    return tx.one("SELECT 1 FROM invitations WHERE organization_id = ? LIMIT 1", organization_id) is not None


def listing(tx: Tx, organization_id: str) -> list[Invitation]:
    return _INVITATIONS.all(tx, "organization_id = ? ORDER BY created_at, id", organization_id)


def revoke(tx: Tx, principal: Principal, invitation_id: str, actor: Actor) -> Invitation:
    tx.lock("invitations", principal.organization_id)
    invitation = _INVITATIONS.one(tx, "organization_id = ? AND id = ?", principal.organization_id, invitation_id)
    if invitation is None:
        raise principal.missing("Invitation")
    if invitation.status == "accepted":
        raise Conflict("This invitation has already been accepted. Delete the user instead.")
    if invitation.status == "revoked":
        return invitation
    audit.record(tx, principal.organization_id, actor, "invitation.revoke", invitation_id)
    return _INVITATIONS.update(tx, invitation, status="revoked", settled_at=tx.now)


_ENDED = {
    "accepted": "This invitation is accepted.",
    "revoked": "This invitation is revoked.",
    "expired": "This invitation is expired.",
}


def find_pending(tx: Tx, vault: Vault, token: str) -> Invitation:
    """Returns the invitation of a token. Raises NotFound or Conflict if it cannot be accepted."""
    found = _INVITATIONS.one(tx, "token_hash = ?", vault.token_hash(token))
    if found is None:
        raise NotFound("This invitation is not known.")
    state = found.state(tx.now)
    if state != "pending":
        raise Conflict(_ENDED[state])
    return found


def accept(tx: Tx, vault: Vault, token: str, *, name: str, password_hash: str, actor: Actor) -> User:
    """Makes the invited person a user."""
    organization_id = find_pending(tx, vault, token).organization_id
    tx.lock("invitations", organization_id)
    invitation = find_pending(tx, vault, token)
    try:
        user = users.create(
            tx, organization_id,
            email=invitation.email, name=name, role=invitation.role, password_hash=password_hash, actor=actor,
        )  # fmt: skip
    except Conflict:
        # It is not said who else has this address: that may be another organisation.
        raise Conflict(
            "This invitation cannot be accepted. Ask whoever sent it for one to another e-mail address."
        ) from None
    _INVITATIONS.update(tx, invitation, status="accepted", settled_at=tx.now)
    audit.record(tx, organization_id, actor, "invitation.accept", invitation.id, user_id=user.id)
    return user


def join(tx: Tx, vault: Vault, principal: Principal, token: str, actor: Actor) -> ClientAccess:
    """Gives an invited person who is a user of another organisation access to this one."""
    organization_id = find_pending(tx, vault, token).organization_id
    tx.lock("invitations", organization_id)
    invitation = find_pending(tx, vault, token)
    user = users.get(tx, principal, principal.user_id or "")
    if invitation.email != user.email:
        raise Forbidden("This invitation is for another e-mail address than the one you signed in with.")
    if invitation.role == "owner":
        raise Conflict("Only somebody of the organisation can be its owner. Ask for an invitation with another role.")
    made = client_access.give_by_operator(tx, user, organization_id, invitation.role, actor)
    _INVITATIONS.update(tx, invitation, status="accepted", settled_at=tx.now)
    audit.record(tx, organization_id, actor, "invitation.accept", invitation.id, user_id=user.id)
    return made
