"""Inviting people to the organisation over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kontobahn.access import invitations, passwords
from kontobahn.access.audit import Actor
from kontobahn.access.invitations import Invitation
from kontobahn.access.principal import Principal, Role
from kontobahn.access.signin import SignIns
from kontobahn.api.call import Call
from kontobahn.api.declare import delete, get, post
from kontobahn.api.wire import Answer, Body, Name, Timestamp, Uuid
from kontobahn.auth.users import Email, UserAnswer, user_view
from kontobahn.clock import optional_datetime, to_datetime
from kontobahn.db import Tx
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
    role: Role = "member"


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


class InvitationAnswer(Answer):
    data: InvitationView


class NewInvitationAnswer(Answer):
    data: NewInvitationView


class InvitationList(Answer):
    data: list[InvitationView]


@post("/v2/auth/invitations", scope="admin", caller="key or session", role="admin", errors=(403, 409))
async def invite(call: Call, body: Invite) -> NewInvitationAnswer:
    """Invite a person to the organisation.

    The answer contains the invitation's token, which is shown only once.
    """
    days = call.context.settings.invitation_days
    return await call.commit(_create, call.context.vault, call.principal, body, days, call.actor)


def _create(tx: Tx, vault: Vault, principal: Principal, body: Invite, days: int, actor: Actor) -> NewInvitationAnswer:
    new = invitations.create(tx, vault, principal, email=body.email, role=body.role, days=days, actor=actor)
    fields = _fields(new.invitation, tx.now)
    return NewInvitationAnswer(data=NewInvitationView(**fields, token=new.secret))  # type: ignore[arg-type]


@get("/v2/auth/invitations", scope="admin", caller="key or session", role="admin", errors=(403,))
async def list_invitations(call: Call) -> InvitationList:
    """List the organisation's invitations, open and settled."""
    return await call.read(_list, call.principal.organization_id)


def _list(tx: Tx, organization_id: str) -> InvitationList:
    return InvitationList(data=[_view(item, tx.now) for item in invitations.listing(tx, organization_id)])


@delete("/v2/auth/invitations/{id}", scope="admin", caller="key or session", role="admin", errors=(403, 404, 409))
async def revoke_invitation(call: Call, id: Uuid) -> InvitationAnswer:
    """Revoke an invitation that was not accepted."""
    return await call.context.db.write(_revoke, call.principal, id, call.actor)


def _revoke(tx: Tx, principal: Principal, invitation_id: str, actor: Actor) -> InvitationAnswer:
    return InvitationAnswer(data=_view(invitations.revoke(tx, principal, invitation_id, actor), tx.now))


@post("/v2/auth/invitations/accept", caller="anybody", errors=(404, 409))
async def accept_invitation(call: Call, body: Accept) -> UserAnswer:
    """Accept an invitation: the person becomes a user with the role offered."""
    # Looked at first: only somebody with an invitation gets a password hashed.
    await call.read(invitations.find_pending, call.context.vault, body.token)
    password_hash = await call.context.part(SignIns).hash(body.password, call.actor)
    return await call.commit(_accept, call.context.vault, body, password_hash, call.actor)


def _accept(tx: Tx, vault: Vault, body: Accept, password_hash: str, actor: Actor) -> UserAnswer:
    user = invitations.accept(tx, vault, body.token, name=body.name, password_hash=password_hash, actor=actor)
    return UserAnswer(data=user_view(user))


def _view(invitation: Invitation, now: int) -> InvitationView:
    return InvitationView(**_fields(invitation, now))  # type: ignore[arg-type]


def _fields(invitation: Invitation, now: int) -> dict[str, object]:
    return {
        "id": invitation.id,
        "organization_id": invitation.organization_id,
        "email": invitation.email,
        "role": invitation.role,
        "status": invitation.state(now),
        "invited_by": invitation.invited_by,
        "created_at": to_datetime(invitation.created_at),
        "expires_at": to_datetime(invitation.expires_at),
        "settled_at": optional_datetime(invitation.settled_at),
    }
