"""Signing in and out over HTTP."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kontobahn.access import factors, sessions, users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.access.sessions import Session, SignIns, Verified
from kontobahn.api.answers import Data, from_row
from kontobahn.api.call import Call
from kontobahn.api.declare import delete, get, post
from kontobahn.api.wire import Answer, Body, Timestamp, Uuid
from kontobahn.auth.users import Email, Removal, UserView, user_view
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import Forbidden, Unauthorized
from kontobahn.vault import Vault

Code = Annotated[
    str,
    Meta(
        max_length=20,
        description="For a person with a second factor: the code of their app, or a recovery code.",
        examples=["123456"],
    ),
]


class SignIn(Body):
    email: Email
    password: Annotated[str, Meta(min_length=1, max_length=200)]
    code: Code | None = None


class Confirm(Body):
    password: Annotated[str, Meta(min_length=1, max_length=200)]
    code: Code | None = None


class ConfirmedView(Answer):
    id: Uuid
    token: Annotated[str, Meta(description="Replaces the token that was sent, which no longer works.")]
    confirmed_until: Timestamp
    expires_at: Timestamp


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


@post("/v2/auth/sessions", caller="anybody", errors=(401,))
async def sign_in(call: Call, body: SignIn) -> Data[NewSessionView]:
    """Sign in with e-mail address and password, and with a code if the person has a second factor.

    Too many attempts on one account: 429, with the seconds to wait in `Retry-After`.
    Send the token as `Authorization: Bearer <token>` to the other calls below /v2/auth/.
    """
    context = call.context
    verified = await _verified(call, body.email, body.password, body.code)
    return await call.commit(_open_session, context.vault, verified, context.settings.session_hours, call.actor)


async def _verified(call: Call, email: str, password: str, code: str | None) -> Verified:
    """Returns whose password this is, and whose code if there is a second factor. Raises Unauthorized."""
    context = call.context
    verified = await context.part(SignIns).verify(email, password, call.actor)
    user = verified.user
    if await call.read(factors.of_user, user.organization_id, user.id):
        if code is None:
            raise Unauthorized("This person has a second factor: send its `code` too, or sign in at the dashboard.")
        actor = call.actor._replace(name=f"user:{user.id}")
        await context.db.write(factors.use_code, context.vault, user, code, actor)
    elif await call.read(factors.is_required, user.organization_id):
        raise Unauthorized("Your organisation requires a second factor. Sign in at the dashboard and add one first.")
    return verified


@post("/v2/auth/sessions/confirm", scope="admin", caller="key or session", role="read_only", errors=(401, 403))
async def confirm_session(call: Call, body: Confirm) -> Data[ConfirmedView]:
    """Show once more who you are, before what matters: inviting, roles, deleting people, links for passwords, access to clients.

    For a signed-in person. Counts for ten minutes, as signing in does. The answer has the session's new token.
    """
    principal = call.principal
    if principal.session_id is None:
        raise Forbidden("Only a signed-in person confirms who they are: send a session token instead of an API key.")
    user = await call.read(users.by_id, principal.organization_id, principal.user_id or "")
    try:
        await _verified(call, user.email, body.password, body.code)
    except Unauthorized as refusal:
        # The session itself is valid: 401 would say that it is not.
        raise Forbidden(str(refusal)).retryable() from None
    return await call.commit(_confirm, call.context.vault, principal, call.actor)


def _confirm(tx: Tx, vault: Vault, principal: Principal, actor: Actor) -> Data[ConfirmedView]:
    session = sessions.get(tx, principal)
    secret = sessions.confirm(tx, vault, session, actor)
    return Data(
        ConfirmedView(
            id=session.id, token=secret, confirmed_until=to_datetime(tx.now + sessions.CONFIRMED),
            expires_at=to_datetime(session.expires_at),
        )
    )  # fmt: skip


def _open_session(tx: Tx, vault: Vault, verified: Verified, hours: int, actor: Actor) -> Data[NewSessionView]:
    new, user = sessions.open_session(tx, vault, verified, hours=hours, actor=actor), user_view(verified.user)
    return Data(
        NewSessionView(id=new.session.id, token=new.secret, expires_at=to_datetime(new.session.expires_at), user=user)
    )


@get("/v2/auth/sessions", scope="admin", caller="key or session")
async def list_sessions(call: Call) -> Data[list[SessionView]]:
    """List the caller's own active sessions."""
    principal = call.principal
    found = await call.read(sessions.of_user, principal.organization_id, principal.user_id or "")
    return Data([_session_view(session, principal) for session in found])


@delete(
    "/v2/auth/sessions/{id}",
    scope="admin",
    caller="key or session",
    role="read_only",
    without_factor=True,
    errors=(403, 404),
)
async def end_session(call: Call, id: Uuid) -> Data[Removal]:
    """End one of the caller's own sessions."""
    await call.context.db.write(sessions.end, call.principal, id, call.actor)
    return Data(Removal(id=id, removed=True))


def _session_view(session: Session, principal: Principal) -> SessionView:
    return from_row(SessionView, session, current=session.id == principal.session_id)
