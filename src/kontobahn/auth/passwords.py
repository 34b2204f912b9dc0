"""Changing a password, and setting a new one through a link, over HTTP."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kontobahn.access import letters, passwords, users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.access.signin import SignIns
from kontobahn.api.answers import Data
from kontobahn.api.call import Call
from kontobahn.api.declare import post
from kontobahn.api.wire import Answer, Body, Timestamp, Uuid
from kontobahn.auth.invitations import Password, Token
from kontobahn.auth.users import UserView, user_view
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import Forbidden, Unauthorized
from kontobahn.settings import Settings
from kontobahn.vault import Vault


class ChangePassword(Body):
    old_password: Annotated[str, Meta(min_length=1, max_length=passwords.MAX_LENGTH)]
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
    ended = passwords.change(tx, principal, old_hash=old_hash, new_hash=new_hash, actor=actor)
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
    new = passwords.create_reset(tx, vault, user, hours=settings.password_reset_hours, actor=actor, by=principal)
    letters.send_password_link(tx, vault, settings, new)
    return Data(
        PasswordLink(
            user_id=user.id,
            token=new.secret,
            link=passwords.link(settings.base_url, new.secret),
            expires_at=to_datetime(new.reset.expires_at),
        )
    )


@post("/v2/auth/password/reset", caller="anybody", statuses=(200,), errors=(404,))
async def reset_password(call: Call, body: ResetPassword) -> Data[UserView]:
    """Set a new password with the token of a link.

    All of the person's sessions and connected assistants end. The answer to a token that is unknown, used or expired is the same.
    """
    # Before the hash, which costs far more than the look.
    await call.read(passwords.check_reset, call.context.vault, body.token)
    password_hash = await call.context.part(SignIns).hash(body.password, call.actor)
    return await call.commit(_reset, call.context.vault, body.token, password_hash, call.actor)


def _reset(tx: Tx, vault: Vault, token: str, password_hash: str, actor: Actor) -> Data[UserView]:
    return Data(user_view(passwords.reset(tx, vault, token, password_hash=password_hash, actor=actor)))
