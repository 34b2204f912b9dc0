"""Sessions, invitations and users over HTTP. A signed-in person or an API key with the role may call them."""

# Choice 32: everything here lives under /v2/auth/ and is limited by address.

from __future__ import annotations

import asyncio

from kontobahn.access import invitations, sessions, users
from kontobahn.access.users import User
from kontobahn.api.call import Call
from kontobahn.api.declare import delete, get, post, put
from kontobahn.api.wire import Uuid
from kontobahn.auth.model import (
    Accept,
    ChangeRole,
    InvitationAnswer,
    InvitationList,
    Invite,
    NewInvitationAnswer,
    NewInvitationView,
    NewSessionView,
    Removed,
    RemovedAnswer,
    SessionAnswer,
    SessionList,
    SignIn,
    UserAnswer,
    UserList,
    invitation_fields,
    invitation_view,
    session_view,
    user_view,
)  # fmt: skip
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import Unauthorized


@post("/v2/auth/sessions", caller="anybody", errors=(401,))
async def sign_in(call: Call, body: SignIn) -> SessionAnswer:
    """Sign in with e-mail address and password.

    Send the token as `Authorization: Bearer <token>` to the other calls below /v2/auth/.
    """
    known = await call.read(users.by_email, body.email)
    user, stored = known if known else (None, None)
    if not await asyncio.to_thread(users.password_matches, stored, body.password) or user is None:
        raise Unauthorized("The e-mail address or the password is wrong.")
    return await call.commit(_create_session, call, user)


def _create_session(tx: Tx, call: Call, user: User) -> SessionAnswer:
    actor = call.actor._replace(name=f"user:{user.id}")
    new = sessions.create(tx, call.context.vault, user, hours=call.context.settings.session_hours, actor=actor)
    return SessionAnswer(
        data=NewSessionView(
            id=new.session.id, token=new.secret, expires_at=to_datetime(new.session.expires_at), user=user_view(user)
        )
    )


@get("/v2/auth/sessions", caller="key or session")
async def list_sessions(call: Call) -> SessionList:
    """List one's own running sessions."""
    principal = call.principal
    found = await call.read(sessions.of_user, principal.organization_id, principal.user_id or "")
    return SessionList(data=[session_view(session, principal) for session in found])


@delete("/v2/auth/sessions/{id}", caller="key or session", errors=(403, 404))
async def end_session(call: Call, id: Uuid) -> RemovedAnswer:
    """End one of one's own sessions."""
    await call.context.db.write(sessions.end, call.principal, id, call.actor)
    return RemovedAnswer(data=Removed(id=id, removed=True))


@post("/v2/auth/invitations", caller="key or session", role="admin", errors=(403, 409))
async def invite(call: Call, body: Invite) -> NewInvitationAnswer:
    """Invite a person to the organisation.

    The answer holds the invitation's token, once.
    """
    return await call.commit(_create_invitation, call, body)


def _create_invitation(tx: Tx, call: Call, body: Invite) -> NewInvitationAnswer:
    new = invitations.create(
        tx, call.context.vault, call.principal,
        email=body.email, role=body.role, days=call.context.settings.invitation_days, actor=call.actor,
    )  # fmt: skip
    fields = invitation_fields(new.invitation, tx.now)
    return NewInvitationAnswer(data=NewInvitationView(**fields, token=new.secret))  # type: ignore[arg-type]


@get("/v2/auth/invitations", caller="key or session", role="admin", errors=(403,))
async def list_invitations(call: Call) -> InvitationList:
    """List the organisation's invitations, open and settled."""
    return await call.read(_list_invitations, call.principal.organization_id)


def _list_invitations(tx: Tx, organization_id: str) -> InvitationList:
    return InvitationList(data=[invitation_view(item, tx.now) for item in invitations.listing(tx, organization_id)])


@delete("/v2/auth/invitations/{id}", caller="key or session", role="admin", errors=(403, 404, 409))
async def revoke_invitation(call: Call, id: Uuid) -> InvitationAnswer:
    """Revoke an invitation that was not accepted."""
    return await call.context.db.write(_revoke_invitation, call, id)


def _revoke_invitation(tx: Tx, call: Call, invitation_id: str) -> InvitationAnswer:
    invitation = invitations.revoke(tx, call.principal, invitation_id, call.actor)
    return InvitationAnswer(data=invitation_view(invitation, tx.now))


@post("/v2/auth/invitations/accept", caller="anybody", errors=(404, 409))
async def accept_invitation(call: Call, body: Accept) -> UserAnswer:
    """Accept an invitation: the person becomes a user with the role offered."""
    password_hash = await asyncio.to_thread(users.hash_password, body.password)
    return await call.commit(_accept, call, body, password_hash)


def _accept(tx: Tx, call: Call, body: Accept, password_hash: str) -> UserAnswer:
    user = invitations.accept(
        tx, call.context.vault, body.token, name=body.name, password_hash=password_hash, actor=call.actor
    )
    return UserAnswer(data=user_view(user))


@get("/v2/auth/users", caller="key or session")
async def list_users(call: Call) -> UserList:
    """List the organisation's users."""
    found = await call.read(users.listing, call.principal.organization_id)
    return UserList(data=[user_view(user) for user in found])


@put("/v2/auth/users/{id}", caller="key or session", role="admin", errors=(403, 404, 409))
async def change_role(call: Call, id: Uuid, body: ChangeRole) -> UserAnswer:
    """Change a user's role.

    Only an owner makes or unmakes owners, and the last owner stays one.
    """
    return await call.commit(_change_role, call, id, body)


def _change_role(tx: Tx, call: Call, user_id: str, body: ChangeRole) -> UserAnswer:
    return UserAnswer(data=user_view(users.change_role(tx, call.principal, user_id, body.role, call.actor)))


@delete("/v2/auth/users/{id}", caller="key or session", role="admin", errors=(403, 404, 409))
async def delete_user(call: Call, id: Uuid) -> RemovedAnswer:
    """Delete a user.

    The person's sessions end at once. API keys belong to the organisation and stay valid: revoke those the person knew.
    """
    await call.context.db.write(users.delete, call.principal, id, call.actor, call.context.user_removals)
    return RemovedAnswer(data=Removed(id=id, removed=True))
