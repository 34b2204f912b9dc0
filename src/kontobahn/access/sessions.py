"""Sessions: a person signed in with e-mail address and password, for some hours; in a browser, only while it is used."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.access.users import User
from kontobahn.clock import HOUR, MINUTE
from kontobahn.db import Rounds, Table, Tx, ask_one, short_read
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
    # The name that the browser gives itself; empty for a session of the API.
    device: str = ""
    # A browser's session ends when it has not been used until then; None for one of the API.
    idle_until: int | None = None
    # When the person last showed who they are: by signing in, or by confirming it.
    confirmed_at: int = 0
    # The person signed in at the identity provider, and showed a second factor there.
    by_provider: int = 0
    provider_factor: int = 0

    @property
    def ends_at(self) -> int:
        return self.expires_at if self.idle_until is None else min(self.expires_at, self.idle_until)


# The time that a browser may do nothing, and for which a confirmation counts.
IDLE = 30 * MINUTE
CONFIRMED = 10 * MINUTE
MAX_DEVICE_LENGTH = 300
_SESSIONS = Table("sessions", Session)


class AtProvider(NamedTuple):
    """A sign-in at the identity provider. It may be long ago: then it is no confirmation."""

    authenticated_at: int | None
    with_second_factor: bool


class NewSession(NamedTuple):
    session: Session
    secret: str


def create(
    tx: Tx, vault: Vault, user: User, *, hours: int, actor: Actor, device: str = "", in_browser: bool = False,
    provider: AtProvider | None = None,
) -> NewSession:  # fmt: skip
    secret = new_token(SESSION_PREFIX)
    session = Session(
        organization_id=user.organization_id,
        id=new_id(),
        user_id=user.id,
        created_at=tx.now,
        expires_at=tx.now + hours * HOUR,
        ip=actor.ip or "",
        device=device[:MAX_DEVICE_LENGTH],
        idle_until=tx.now + IDLE if in_browser else None,
        confirmed_at=tx.now if provider is None else min(provider.authenticated_at or 0, tx.now),
        by_provider=int(provider is not None),
        provider_factor=int(provider is not None and provider.with_second_factor),
    )
    _SESSIONS.insert(tx, session, token_hash=vault.token_hash(secret))
    by = {"by": "identity provider"} if provider is not None else {}
    audit.record(tx, user.organization_id, actor, "session.create", session.id, user_id=user.id, **by)
    return NewSession(session, secret)


@short_read
def authenticate(token_hash: str, now: int) -> Rounds[Principal]:
    """Returns the principal of a token of the API. Raises Unauthorized if it has ended, or is the cookie of a browser."""
    session, principal = yield from find.rounds(token_hash, now)
    if session.idle_until is not None:
        raise Unauthorized("This is the session of a browser, not one of the API. Sign in by POST /v2/auth/sessions.")
    return principal


@short_read
def find(token_hash: str, now: int) -> Rounds[tuple[Session, Principal]]:
    """Returns the session of a token, with its principal. Raises Unauthorized if it has ended."""
    row = yield from ask_one(
        f"SELECT u.role, o.second_factor_required = 1 AND s.provider_factor = 0 AND NOT EXISTS (SELECT 1 FROM user_factors f"
        f" WHERE f.organization_id = s.organization_id AND f.user_id = s.user_id), {_SESSIONS.columns_of('s')} FROM sessions s"
        " JOIN users u ON u.organization_id = s.organization_id AND u.id = s.user_id"
        " JOIN organizations o ON o.id = s.organization_id WHERE s.token_hash = ?",
        token_hash,
    )
    session = None if row is None else Session._make(row[2:])
    if row is None or session is None or session.ends_at <= now:
        raise Unauthorized("This session has ended. Sign in again.")
    principal = Principal(
        organization_id=session.organization_id,
        role=row[0],
        scope=(session.organization_id,),
        user_id=session.user_id,
        session_id=session.id,
        valid_until=session.ends_at,
        confirmed_at=session.confirmed_at,
        must_add_factor=bool(row[1]),
    )
    return session, principal


def touch(tx: Tx, session: Session) -> None:
    """Notes that the browser is being used. An ended session stays ended."""
    tx.run(
        "UPDATE sessions SET idle_until = ? WHERE organization_id = ? AND id = ? AND idle_until > ?",
        tx.now + IDLE, session.organization_id, session.id, tx.now,
    )  # fmt: skip


def confirm(tx: Tx, vault: Vault, session: Session, actor: Actor) -> str:
    """Notes that the person has shown again who they are. Returns the session's new secret: more may be done with it now."""
    secret = new_token(SESSION_PREFIX)
    changed = tx.run(
        "UPDATE sessions SET token_hash = ?, confirmed_at = ? WHERE organization_id = ? AND id = ?",
        vault.token_hash(secret), tx.now, session.organization_id, session.id,
    )  # fmt: skip
    if not changed:
        raise Unauthorized("This session has ended. Sign in again.")
    audit.record(tx, session.organization_id, actor, "session.confirm", session.id)
    return secret


def get(tx: Tx, principal: Principal) -> Session:
    """Returns the session that a principal was made from. Raises Unauthorized if it has ended since."""
    found = _SESSIONS.one(tx, "organization_id = ? AND id = ?", principal.organization_id, principal.session_id)
    if found is None:
        raise Unauthorized("This session has ended. Sign in again.")
    return found


def of_user(tx: Tx, organization_id: str, user_id: str) -> list[Session]:
    found = _SESSIONS.all(
        tx, "organization_id = ? AND user_id = ? ORDER BY created_at, id", organization_id, user_id
    )  # fmt: skip
    return [session for session in found if session.ends_at > tx.now]


def end(tx: Tx, principal: Principal, session_id: str, actor: Actor) -> None:
    """Ends one of the caller's own sessions."""
    ended = tx.run(
        "DELETE FROM sessions WHERE organization_id = ? AND id = ? AND user_id = ?",
        principal.organization_id, session_id, principal.user_id,
    )  # fmt: skip
    if not ended:
        raise principal.missing("Session")
    audit.record(tx, principal.organization_id, actor, "session.end", session_id)


def end_others(tx: Tx, principal: Principal, actor: Actor) -> int:
    """Ends all of the caller's sessions but the one that asks. Returns how many there were."""
    ended = tx.run(
        "DELETE FROM sessions WHERE organization_id = ? AND user_id = ? AND id <> ?",
        principal.organization_id, principal.user_id, principal.session_id,
    )  # fmt: skip
    audit.record(tx, principal.organization_id, actor, "session.end_others", principal.user_id or "", ended=ended)
    return ended


def end_of_provider(tx: Tx, organization_id: str, user_id: str, but: str | None) -> int:
    """Ends the sessions that a person opened at the identity provider, except for one."""
    return tx.run(
        "DELETE FROM sessions WHERE organization_id = ? AND user_id = ? AND by_provider = 1 AND id <> ?",
        organization_id, user_id, but or "",
    )  # fmt: skip


def end_all(tx: Tx, organization_id: str, user_id: str) -> int:
    return tx.run("DELETE FROM sessions WHERE organization_id = ? AND user_id = ?", organization_id, user_id)


def purge_expired(tx: Tx) -> int:
    return tx.run("DELETE FROM sessions WHERE expires_at <= ? OR idle_until <= ?", tx.now, tx.now)
