"""Signing in and out over HTTP."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kontobahn.access import factors, sessions, signin
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.access.sessions import Session
from kontobahn.access.signin import SignIns, Verified
from kontobahn.api.call import Call
from kontobahn.api.declare import delete, get, post
from kontobahn.api.wire import Answer, Body, Timestamp, Uuid
from kontobahn.auth.users import Email, Removal, RemovalAnswer, UserView, user_view
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import Unauthorized
from kontobahn.vault import Vault


class SignIn(Body):
    email: Email
    password: Annotated[str, Meta(min_length=1, max_length=200)]
    code: (
        Annotated[
            str,
            Meta(
                max_length=20,
                description="For a person with a second factor: the code of their app, or a recovery code.",
                examples=["123456"],
            ),
        ]
        | None
    ) = None


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


class SessionAnswer(Answer):
    data: NewSessionView


class SessionList(Answer):
    data: list[SessionView]


@post("/v2/auth/sessions", caller="anybody", errors=(401,))
async def sign_in(call: Call, body: SignIn) -> SessionAnswer:
    """Sign in with e-mail address and password, and with a code if the person has a second factor.

    Too many attempts on one account: 429, with the seconds to wait in `Retry-After`.
    Send the token as `Authorization: Bearer <token>` to the other calls below /v2/auth/.
    """
    context = call.context
    verified = await context.part(SignIns).verify(body.email, body.password, call.actor)
    user = verified.user
    if await call.read(factors.of_user, user.organization_id, user.id):
        if body.code is None:
            raise Unauthorized("This person has a second factor: send its `code` too, or sign in at the dashboard.")
        actor = call.actor._replace(name=f"user:{user.id}")
        await context.db.write(factors.use_code, context.vault, user, body.code, actor)
    return await call.commit(_open_session, context.vault, verified, context.settings.session_hours, call.actor)


def _open_session(tx: Tx, vault: Vault, verified: Verified, hours: int, actor: Actor) -> SessionAnswer:
    new, user = signin.open_session(tx, vault, verified, hours=hours, actor=actor), user_view(verified.user)
    return SessionAnswer(
        data=NewSessionView(
            id=new.session.id, token=new.secret, expires_at=to_datetime(new.session.expires_at), user=user
        )
    )


@get("/v2/auth/sessions", scope="admin", caller="key or session")
async def list_sessions(call: Call) -> SessionList:
    """List the caller's own active sessions."""
    principal = call.principal
    found = await call.read(sessions.of_user, principal.organization_id, principal.user_id or "")
    return SessionList(data=[_session_view(session, principal) for session in found])


@delete("/v2/auth/sessions/{id}", scope="admin", caller="key or session", errors=(403, 404))
async def end_session(call: Call, id: Uuid) -> RemovalAnswer:
    """End one of the caller's own sessions."""
    await call.context.db.write(sessions.end, call.principal, id, call.actor)
    return RemovalAnswer(data=Removal(id=id, removed=True))


def _session_view(session: Session, principal: Principal) -> SessionView:
    return SessionView(
        id=session.id,
        user_id=session.user_id,
        created_at=to_datetime(session.created_at),
        expires_at=to_datetime(session.expires_at),
        ip=session.ip,
        current=session.id == principal.session_id,
    )
