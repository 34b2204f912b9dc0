"""The organisation's users over HTTP."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kontobahn.access import client_access, invitations, users
from kontobahn.access.audit import Actor
from kontobahn.access.client_access import Listed
from kontobahn.access.invitations import Invitation
from kontobahn.access.principal import ClientRole, Principal, Role
from kontobahn.access.sessions import SignIns
from kontobahn.access.users import User
from kontobahn.api.answers import Data, from_row
from kontobahn.api.call import Call
from kontobahn.api.declare import delete, get, post, put
from kontobahn.api.wire import BLANKS, Answer, Body, Name, Timestamp, Uuid, form
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import Forbidden, Unauthorized
from kontobahn.settings import Settings
from kontobahn.vault import Vault

_NO_BLANK = rf"[^@{BLANKS}]+"
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


class ChangeRole(Body):
    role: Role


class UserView(Answer):
    id: Uuid
    organization_id: Uuid
    email: str
    name: str
    role: Role
    created_at: Timestamp


class Removal(Answer):
    id: Uuid
    removed: bool


@get("/v2/auth/users", scope="admin", caller="key or session")
async def list_users(call: Call) -> Data[list[UserView]]:
    """List the organisation's users."""
    found = await call.read(users.listing, call.principal.organization_id)
    return Data([user_view(user) for user in found])


@put("/v2/auth/users/{id}", scope="admin", caller="key or session", role="admin", confirm=True, errors=(403, 404, 409))
async def change_role(call: Call, id: Uuid, body: ChangeRole) -> Data[UserView]:
    """Change a user's role.

    Only an owner can grant or remove the role `owner`, and the last owner cannot lose it.
    """
    return await call.commit(_change_role, call.principal, id, body.role, call.actor)


def _change_role(tx: Tx, principal: Principal, user_id: str, role: Role, actor: Actor) -> Data[UserView]:
    return Data(user_view(users.change_role(tx, principal, user_id, role, actor)))


@delete(
    "/v2/auth/users/{id}", scope="admin", caller="key or session", role="admin", confirm=True, errors=(403, 404, 409)
)
async def delete_user(call: Call, id: Uuid) -> Data[Removal]:
    """Delete a user.

    The person's sessions end at once. API keys belong to the organisation and stay valid: revoke those the person knew.
    """
    await call.context.db.write(users.delete, call.principal, id, call.actor, call.context.user_removals)
    return Data(Removal(id=id, removed=True))


def user_view(user: User) -> UserView:
    return from_row(UserView, user)


# Inviting people to the organisation over HTTP.


Password = Annotated[
    str,
    Meta(
        min_length=users.MIN_PASSWORD_LENGTH,
        max_length=users.MAX_PASSWORD_LENGTH,
        description=f"At least {users.MIN_PASSWORD_LENGTH} characters.",
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
    invitations.send_invitation(tx, vault, settings, new)
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


# Changing a password, and setting a new one through a link, over HTTP.


class ChangePassword(Body):
    old_password: Annotated[str, Meta(min_length=1, max_length=users.MAX_PASSWORD_LENGTH)]
    new_password: Password


class PasswordChange(Answer):
    user_id: Uuid
    sessions_ended: Annotated[int, Meta(description="The person's other sessions.", examples=[1])]


class PasswordLink(Answer):
    user_id: Uuid
    token: Annotated[str, Meta(description="Shown once: hand it to the person.")]
    link: Annotated[
        str,
        Meta(
            description="The page that takes the token.",
            examples=["https://kontobahn.example/dashboard/password?token=kb_reset_example"],
        ),
    ]
    expires_at: Timestamp


class ResetPassword(Body):
    token: Token
    password: Password


@post("/v2/auth/password", scope="admin", caller="key or session", role="read_only", statuses=(200,), errors=(403, 409))
async def change_password(call: Call, body: ChangePassword) -> Data[PasswordChange]:
    """Change one's own password.

    For a signed-in person. The person's other sessions end, and so do the assistants that the person has connected.
    """
    principal = call.principal
    if principal.session_id is None:
        raise Forbidden("Only a signed-in person can change a password: send a session token instead of an API key.")
    user = await call.read(users.by_id, principal.organization_id, principal.user_id or "")
    sign_ins = call.context.part(SignIns)
    try:
        # Counted like signing in: somebody with a stolen session must not guess the password either.
        verified = await sign_ins.verify(user.email, body.old_password, call.actor)
    except Unauthorized:
        raise Forbidden("The old password is wrong.", field="old_password").retryable() from None
    new_hash = await sign_ins.hash(body.new_password, call.actor)
    return await call.commit(_change, principal, verified.password_hash or "", new_hash, call.actor)


def _change(tx: Tx, principal: Principal, old_hash: str, new_hash: str, actor: Actor) -> Data[PasswordChange]:
    ended = users.change_password(tx, principal, old_hash=old_hash, new_hash=new_hash, actor=actor)
    return Data(PasswordChange(user_id=principal.user_id or "", sessions_ended=ended))


@post(
    "/v2/auth/users/{id}/password-link",
    scope="admin",
    caller="key or session",
    role="admin",
    confirm=True,
    errors=(403, 404),
)
async def create_password_link(call: Call, id: Uuid) -> Data[PasswordLink]:
    """Make a link with which a person sets a new password, once.

    Hand it over in a way that you trust: whoever has it becomes that person. A new link makes the one before it invalid. Only an
    owner can make one for an owner. Where a mail server is set up, the person gets it by mail as well.
    """
    return await call.commit(_create_link, call.context.vault, call.context.settings, call.principal, id, call.actor)


def _create_link(
    tx: Tx, vault: Vault, settings: Settings, principal: Principal, user_id: str, actor: Actor
) -> Data[PasswordLink]:
    user = users.get(tx, principal, user_id)
    new = users.create_reset(tx, vault, user, hours=settings.password_reset_hours, actor=actor, by=principal)
    invitations.send_password_link(tx, vault, settings, new)
    return Data(
        PasswordLink(
            user_id=user.id,
            token=new.secret,
            link=users.reset_link(settings.base_url, new.secret),
            expires_at=to_datetime(new.reset.expires_at),
        )
    )


@post("/v2/auth/password/reset", caller="anybody", statuses=(200,), errors=(404,))
async def reset_password(call: Call, body: ResetPassword) -> Data[UserView]:
    """Set a new password with the token of a link.

    All of the person's sessions and connected assistants end. The answer to a token that is unknown, used or expired is the same.
    """
    # Before the hash, which costs far more than the look.
    await call.read(users.check_reset, call.context.vault, body.token)
    password_hash = await call.context.part(SignIns).hash(body.password, call.actor)
    return await call.commit(_reset, call.context.vault, body.token, password_hash, call.actor)


def _reset(tx: Tx, vault: Vault, token: str, password_hash: str, actor: Actor) -> Data[UserView]:
    return Data(user_view(users.reset_password(tx, vault, token, password_hash=password_hash, actor=actor)))


# Access of people to client organisations over HTTP.


_PATH = "/v2/auth/client-access"


class GiveAccess(Body):
    role: ClientRole


class Join(Body):
    token: Token


class ClientAccessView(Answer):
    organization_id: Annotated[Uuid, Meta(description="The client: the organisation that the person may work in.")]
    organization_name: Annotated[str, Meta(examples=["Klient GmbH"])]
    user_id: Uuid
    user_organization_id: Annotated[Uuid, Meta(description="The organisation that the person belongs to.")]
    email: str
    name: str
    role: ClientRole
    created_by: Annotated[str, Meta(examples=["user:0193b2a0-0000-7000-8000-000000000001"])]
    created_at: Timestamp


class AccessRemoval(Answer):
    user_id: Uuid
    organization_id: Uuid
    removed: bool


@get(_PATH, scope="admin", caller="key or session", role="admin", errors=(403,))
async def list_client_access(call: Call) -> Data[list[ClientAccessView]]:
    """List who may work in other organisations: your people in your clients, and others' people in yours."""
    found = await call.read(client_access.listing, call.principal.organization_id)
    return Data([_view_of_access(item) for item in found])


@put(
    f"{_PATH}/{{user_id}}/{{organization_id}}",
    scope="admin", caller="key or session", role="admin", confirm=True, errors=(403, 404, 409),
)  # fmt: skip
async def give_client_access(
    call: Call, user_id: Uuid, organization_id: Uuid, body: GiveAccess
) -> Data[ClientAccessView]:
    """Give a person a role in a client, or another one.

    A person of an agency who is an administrator of the client does so for colleagues; a key never does. The client's own
    administrators change the role of whoever has access already, and let others in by an invitation.
    """
    return await call.commit(_give, call.principal, user_id, organization_id, body.role, call.actor)


def _give(
    tx: Tx, principal: Principal, user_id: str, client_id: str, role: ClientRole, actor: Actor
) -> Data[ClientAccessView]:
    client_access.give(tx, principal, user_id, client_id, role, actor)
    return Data(_find(tx, principal.organization_id, user_id, client_id))


@delete(
    f"{_PATH}/{{user_id}}/{{organization_id}}",
    scope="admin", caller="key or session", role="admin", confirm=True, errors=(403, 404),
)  # fmt: skip
async def withdraw_client_access(call: Call, user_id: Uuid, organization_id: Uuid) -> Data[AccessRemoval]:
    """End a person's access to a client, from either side. It counts from the person's next click."""
    await call.context.db.write(client_access.withdraw, call.principal, user_id, organization_id, call.actor)
    return Data(AccessRemoval(user_id=user_id, organization_id=organization_id, removed=True))


@post("/v2/auth/invitations/join", scope="admin", caller="key or session", role="read_only", errors=(403, 404, 409))
async def join_as_adviser(call: Call, body: Join) -> Data[ClientAccessView]:
    """Accept an invitation to another organisation as somebody who is a user already.

    For a signed-in person with the e-mail address that was invited. The person stays in their own organisation and gets the role that
    was offered in the other one.
    """
    if call.principal.session_id is None:
        raise Forbidden("Only a signed-in person can accept this: send a session token instead of an API key.")
    return await call.commit(_join, call.context.vault, call.principal, body.token, call.actor)


def _join(tx: Tx, vault: Vault, principal: Principal, token: str, actor: Actor) -> Data[ClientAccessView]:
    made = invitations.join(tx, vault, principal, token, actor)
    return Data(_find(tx, principal.organization_id, made.user_id, made.client_organization_id))


def _find(tx: Tx, organization_id: str, user_id: str, client_id: str) -> ClientAccessView:
    listed = client_access.listing(tx, organization_id)
    return next(_view_of_access(item) for item in listed if item.access[1:3] == (user_id, client_id))


def _view_of_access(item: Listed) -> ClientAccessView:
    access = item.access
    return ClientAccessView(
        organization_id=access.client_organization_id, organization_name=item.client, user_id=access.user_id,
        user_organization_id=access.organization_id, email=item.email, name=item.name, role=access.role,
        created_by=access.created_by, created_at=to_datetime(access.created_at),
    )  # fmt: skip
