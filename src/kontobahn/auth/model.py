"""The auth area on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kontobahn.access.invitations import Invitation
from kontobahn.access.principal import Principal, Role
from kontobahn.access.sessions import Session
from kontobahn.access.users import User
from kontobahn.api.wire import Answer, Body, Text, Timestamp, Uuid, form
from kontobahn.clock import optional_datetime, to_datetime

# Blanks by their numbers: \s is not the same set in Python and in JavaScript, and the pattern is published.
_NO_BLANK = r"[^@\x00-\x20\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f\u3000\ufeff]+"
Email = Annotated[
    str,
    form(
        "an e-mail address",
        f"^{_NO_BLANK}@{_NO_BLANK}$",
        min_length=3,
        max_length=254,
        examples=["erika@muster.example"],
    ),
]
Password = Annotated[str, Meta(min_length=12, max_length=200, description="At least 12 characters.")]
Token = Annotated[str, Meta(min_length=1, max_length=100)]
InvitationStatus = Literal["pending", "accepted", "revoked", "expired"]


class SignIn(Body):
    email: Email
    password: Annotated[str, Meta(min_length=1, max_length=200)]


class Invite(Body):
    email: Email
    role: Role = "member"


class Accept(Body):
    token: Token
    name: Text
    password: Password


class ChangeRole(Body):
    role: Role


class UserView(Answer):
    id: Uuid
    organization_id: Uuid
    email: str
    name: str
    role: Role
    created_at: Timestamp


class SessionView(Answer):
    id: Uuid
    user_id: Uuid
    created_at: Timestamp
    expires_at: Timestamp
    ip: str
    current: bool


class NewSessionView(Answer):
    id: Uuid
    token: str
    expires_at: Timestamp
    user: UserView


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


class Removed(Answer):
    id: Uuid
    removed: bool


class SessionAnswer(Answer):
    data: NewSessionView


class SessionList(Answer):
    data: list[SessionView]


class InvitationAnswer(Answer):
    data: InvitationView


class NewInvitationAnswer(Answer):
    data: NewInvitationView


class InvitationList(Answer):
    data: list[InvitationView]


class UserAnswer(Answer):
    data: UserView


class UserList(Answer):
    data: list[UserView]


class RemovedAnswer(Answer):
    data: Removed


def user_view(user: User) -> UserView:
    return UserView(
        id=user.id,
        organization_id=user.organization_id,
        email=user.email,
        name=user.name,
        role=user.role,
        created_at=to_datetime(user.created_at),
    )


def session_view(session: Session, principal: Principal) -> SessionView:
    return SessionView(
        id=session.id,
        user_id=session.user_id,
        created_at=to_datetime(session.created_at),
        expires_at=to_datetime(session.expires_at),
        ip=session.ip,
        current=session.id == principal.session_id,
    )


def invitation_fields(invitation: Invitation, now: int) -> dict[str, object]:
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


def invitation_view(invitation: Invitation, now: int) -> InvitationView:
    return InvitationView(**invitation_fields(invitation, now))  # type: ignore[arg-type]
