"""Sessions: a person signed in with e-mail address and password, for some hours."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.access.users import User
from kontobahn.clock import HOUR
from kontobahn.db import Table, Tx
from kontobahn.errors import Unauthorized
from kontobahn.ids import SESSION_PREFIX, new_id, new_token
from kontobahn.vault import Vault


class Session(NamedTuple):
    organization_id: str
    id: str
    user_id: str
    created_at: int
    expires_at: int
    ip: str


_SESSIONS = Table("sessions", Session)


class NewSession(NamedTuple):
    session: Session
    secret: str


def create(tx: Tx, vault: Vault, user: User, *, hours: int, actor: Actor) -> NewSession:
    secret = new_token(SESSION_PREFIX)
    session = Session(user.organization_id, new_id(), user.id, tx.now, tx.now + hours * HOUR, actor.ip or "")
    _SESSIONS.insert(tx, session, token_hash=vault.token_hash(secret))
    audit.record(tx, user.organization_id, actor, "session.create", session.id, user_id=user.id)
    return NewSession(session, secret)


def authenticate(tx: Tx, token_hash: str) -> Principal:
    row = tx.one(
        "SELECT s.organization_id, s.id, s.user_id, s.expires_at, u.role FROM sessions s"
        " JOIN users u ON u.organization_id = s.organization_id AND u.id = s.user_id WHERE s.token_hash = ?",
        token_hash,
    )
    if row is None or row[3] <= tx.now:
        raise Unauthorized("This session has ended. Sign in again.")
    organization_id, session_id, user_id, expires_at, role = row
    return Principal(
        organization_id=organization_id,
        role=role,
        scope=(organization_id,),
        user_id=user_id,
        session_id=session_id,
        valid_until=expires_at,
    )


def of_user(tx: Tx, organization_id: str, user_id: str) -> list[Session]:
    condition = "organization_id = ? AND user_id = ? AND expires_at > ? ORDER BY created_at, id"
    return _SESSIONS.all(tx, condition, organization_id, user_id, tx.now)


def end(tx: Tx, principal: Principal, session_id: str, actor: Actor) -> None:
    """Ends one of the caller's own sessions."""
    ended = tx.run(
        "DELETE FROM sessions WHERE organization_id = ? AND id = ? AND user_id = ?",
        principal.organization_id, session_id, principal.user_id,
    )  # fmt: skip
    if not ended:
        raise principal.missing("Session")
    audit.record(tx, principal.organization_id, actor, "session.end", session_id)


def purge_expired(tx: Tx) -> int:
    return tx.run("DELETE FROM sessions WHERE expires_at <= ?", tx.now)
