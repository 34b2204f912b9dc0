"""Inviting people to the organisation over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kontobahn.access import invitations, letters, passwords
from kontobahn.access.audit import Actor
from kontobahn.access.invitations import Invitation
from kontobahn.access.principal import Principal, Role
from kontobahn.access.signin import SignIns
from kontobahn.api.answers import Data, from_row
from kontobahn.api.call import Call
from kontobahn.api.declare import delete, get, post
from kontobahn.api.wire import Answer, Body, Name, Timestamp, Uuid
from kontobahn.auth.users import Email, UserView, user_view
from kontobahn.db import Tx
from kontobahn.settings import Settings
from kontobahn.vault import Vault

Password = Annotated[
    str,
    Meta(
        min_length=passwords.MIN_LENGTH,
        max_length=passwords.MAX_LENGTH,
        description=f"At least {passwords.MIN_LENGTH} characters.",
    ),
]
Token = Annotated[str, Meta(min_length=1, max_length=100)]
InvitationStatus = Literal["pending", "accepted", "revoked", "expired"]


class Invite(Body):
    email: Email
    role: Role = "bookkeeping"


class Accept(Body):
    token: Token
    name: Name
    password: Password


class InvitationView(Answer):
    id: Uuid
    organization_id: Uuid
    email: str
    role: Role
    status: Annotated[InvitationStatus, Meta(examples=["pending"])]
    invited_by: Uuid | None
    created_at: Timestamp
    expires_at: Timestamp
    settled_at: Annotated[Timestamp | None, Meta(examples=[None])]


class NewInvitationView(InvitationView):
    token: Annotated[str, Meta(description="Shown once: hand it to the person invited.")]


@post("/v2/auth/invitations", scope="admin", caller="key or session", role="admin", confirm=True, errors=(403, 409))
async def invite(call: Call, body: Invite) -> Data[NewInvitationView]:
    """Invite a person to the organisation.

    The answer contains the invitation's token, which is shown only once. Where a mail server is set up, the person gets the link by
    mail as well.
    """
    return await call.commit(_create, call.context.vault, call.context.settings, call.principal, body, call.actor)


def _create(
    tx: Tx, vault: Vault, settings: Settings, principal: Principal, body: Invite, actor: Actor
) -> Data[NewInvitationView]:
    days = settings.invitation_days
    new = invitations.create(tx, vault, principal, email=body.email, role=body.role, days=days, actor=actor)
    letters.send_invitation(tx, vault, settings, new)
    status = new.invitation.state(tx.now)
    return Data(from_row(NewInvitationView, new.invitation, status=status, token=new.secret))


@get("/v2/auth/invitations", scope="admin", caller="key or session", role="admin", errors=(403,))
async def list_invitations(call: Call) -> Data[list[InvitationView]]:
    """List the organisation's invitations, open and settled."""
    return await call.read(_list, call.principal.organization_id)


def _list(tx: Tx, organization_id: str) -> Data[list[InvitationView]]:
    return Data([_view(item, tx.now) for item in invitations.listing(tx, organization_id)])


@delete("/v2/auth/invitations/{id}", scope="admin", caller="key or session", role="admin", errors=(403, 404, 409))
async def revoke_invitation(call: Call, id: Uuid) -> Data[InvitationView]:
    """Revoke an invitation that was not accepted."""
    return await call.context.db.write(_revoke, call.principal, id, call.actor)


def _revoke(tx: Tx, principal: Principal, invitation_id: str, actor: Actor) -> Data[InvitationView]:
    return Data(_view(invitations.revoke(tx, principal, invitation_id, actor), tx.now))


@post("/v2/auth/invitations/accept", caller="anybody", errors=(404, 409))
async def accept_invitation(call: Call, body: Accept) -> Data[UserView]:
    """Accept an invitation: the person becomes a user with the role offered."""
    # Looked at first: only somebody with an invitation gets a password hashed.
    await call.read(invitations.find_pending, call.context.vault, body.token)
    password_hash = await call.context.part(SignIns).hash(body.password, call.actor)
    return await call.commit(_accept, call.context.vault, body, password_hash, call.actor)


def _accept(tx: Tx, vault: Vault, body: Accept, password_hash: str, actor: Actor) -> Data[UserView]:
    user = invitations.accept(tx, vault, body.token, name=body.name, password_hash=password_hash, actor=actor)
    return Data(user_view(user))


def _view(invitation: Invitation, now: int) -> InvitationView:
    return from_row(InvitationView, invitation, status=invitation.state(now))
