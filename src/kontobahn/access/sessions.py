"""Sessions: a person signed in with e-mail address and password, for some hours; in a browser, only while it is used."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import NamedTuple

from kontobahn import log
from kontobahn.access import audit, keys, users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.access.users import PasswordWork, User
from kontobahn.clock import DAY, HOUR, MINUTE, SECOND, Clock
from kontobahn.db import Database, Rounds, ShortRead, Table, Tx, ask_one, short_read
from kontobahn.errors import TooManyRequests, Unauthorized
from kontobahn.ids import API_KEY_PREFIX, SESSION_PREFIX, block_of, is_well_formed, new_id, new_token
from kontobahn.sentences import said
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


# Signing in with e-mail address and password: the one way in, for calls and pages.
#
# `verify` checks a password, `open_session` makes the session. Attempts are counted before the password is looked at:
# by account and address, and by account from addresses it was not used from before. So guesses from many addresses are
# slowed down, and the owner at a usual one is not locked out. An unknown account is counted, checked and answered like
# a known one.


# The number of attempts that are free, and how long the wait after further ones may become (1, 2, 4, … seconds).
FREE_FROM_ADDRESS = 5
FREE_FROM_STRANGERS = 20
LONGEST_WAIT_SECONDS = 60
# Attempts are forgotten after this long without another one.
MEMORY = HOUR
# An account's addresses: how many, and for how long after it was last used from there.
PLACES = 20
PLACE_LIFETIME = 90 * DAY
MAX_FAMILIAR = 10_000


class Attempt(NamedTuple):
    """The user that somebody claims to be, and the address; as keyed hashes, because most of it may be mistyped or nobody's."""

    account: str
    account_from_here: str
    place: str


class Verified(NamedTuple):
    """Somebody who has shown who they are."""

    user: User
    # The hash that the password was right for; None if a factor has shown who it is.
    password_hash: str | None
    attempt: Attempt


class _Admitted(NamedTuple):
    known: tuple[User, str] | None
    # Until when this attempt is refused; None if it is not.
    wait_until: int | None
    now: int


class SignIns:
    """Reached as `context.part(SignIns)`."""

    def __init__(self, db: Database, vault: Vault) -> None:
        self._db = db
        self._vault = vault
        self._work = PasswordWork()
        self._familiar: set[str] = set()

    async def verify(self, email: str, password: str, actor: Actor) -> Verified:
        """Returns the user with this password. The actor's address is the caller's.

        Raises Unauthorized if it is wrong, TooManyRequests if it was tried too often, Unavailable if too many are trying.
        """
        address = _place(actor)
        attempt = self._attempt(users.normal_email(email), address)
        with self._work.room_for(address, is_familiar=address in self._familiar):
            admitted = await self._db.write(_admit, attempt, email)
            if admitted.wait_until is not None:
                raise _too_many(admitted.wait_until - admitted.now)
            user, stored = admitted.known or (None, None)
            matches = await self._work.run(users.password_matches, stored, password)
        if not matches or user is None or stored is None:
            log.info("sign_in_refused", ip=actor.ip, request_id=actor.request_id)
            await self._db.write(_note_failure, attempt, user, actor)
            raise Unauthorized("The e-mail address or the password is wrong.")
        if len(self._familiar) >= MAX_FAMILIAR:
            self._familiar.clear()
        self._familiar.add(address)
        return Verified(user, stored, attempt)

    def verified_by_factor(self, user: User, actor: Actor) -> Verified:
        """For somebody known by a second step, a passkey, the identity provider, or a link of their own."""
        return Verified(user, None, self._attempt(user.email, _place(actor)))

    async def hash(self, password: str, actor: Actor) -> str:
        """Returns what is stored of a new password."""
        address = _place(actor)
        with self._work.room_for(address, is_familiar=address in self._familiar):
            return await self._work.run(users.hash_password, password)

    def _attempt(self, email: str, address: str) -> Attempt:
        keyed = self._vault.token_hash
        return Attempt(
            keyed(f"sign-in {email}"), keyed(f"sign-in {email} from {address}"), keyed(f"sign-in from {address}")
        )


def _place(actor: Actor) -> str:
    return block_of(actor.ip or "")


def open_session(
    tx: Tx, vault: Vault, verified: Verified, *, hours: int, actor: Actor, device: str = "", in_browser: bool = False,
    provider: AtProvider | None = None,
) -> NewSession:  # fmt: skip
    """Makes the session of a verified user. Raises Unauthorized if the password was changed or the user deleted meanwhile.

    Whoever changes a password takes the same lock before ending the sessions.
    """
    user, attempt = verified.user, verified.attempt
    users.lock(tx, user.organization_id)
    known = users.by_email(tx, user.email)
    if known is None or known[0].id != user.id or verified.password_hash not in (None, known[1]):
        raise Unauthorized("The e-mail address or the password is wrong.")
    tx.run("DELETE FROM sign_in_attempts WHERE subject = ?", attempt.account_from_here)
    # Only this attempt was not one of the guesses.
    tx.run(
        "UPDATE sign_in_attempts SET attempts = attempts - 1 WHERE subject = ? AND attempts > 0 AND NOT EXISTS"
        " (SELECT 1 FROM sign_in_places WHERE organization_id = ? AND user_id = ? AND place = ?)",
        attempt.account, user.organization_id, user.id, attempt.place,
    )  # fmt: skip
    _remember_place(tx, user, attempt.place)
    actor = actor._replace(name=f"user:{user.id}")
    return create(
        tx, vault, known[0], hours=hours, actor=actor, device=device, in_browser=in_browser, provider=provider
    )


def purge_attempts(tx: Tx) -> None:
    tx.run("DELETE FROM sign_in_attempts WHERE expires_at <= ?", tx.now)
    tx.run("DELETE FROM sign_in_places WHERE last_at <= ?", tx.now - PLACE_LIFETIME)


def _admit(tx: Tx, attempt: Attempt, email: str) -> _Admitted:
    """Counts the attempt, or says until when it has to wait."""
    tx.lock("sign_in", attempt.account)
    known = users.by_email(tx, email)
    counted = [(attempt.account_from_here, FREE_FROM_ADDRESS)]
    if not _is_usual(tx, known[0] if known else None, attempt.place):
        counted.append((attempt.account, FREE_FROM_STRANGERS))
    waits = [next_at for subject, _ in counted if (next_at := _next_at(tx, subject)) > tx.now]
    if waits:
        return _Admitted(known, max(waits), tx.now)
    for subject, free in counted:
        _count(tx, subject, free)
    return _Admitted(known, None, tx.now)


def _is_usual(tx: Tx, user: User | None, place: str) -> bool:
    # Asked for nobody as well: the same statements for an account that does not exist.
    organization_id, user_id = (user.organization_id, user.id) if user else ("", "")
    row = tx.one(
        "SELECT 1 FROM sign_in_places WHERE organization_id = ? AND user_id = ? AND place = ? AND last_at > ?",
        organization_id, user_id, place, tx.now - PLACE_LIFETIME,
    )  # fmt: skip
    return row is not None


def _next_at(tx: Tx, subject: str) -> int:
    row = tx.one("SELECT next_at FROM sign_in_attempts WHERE subject = ?", subject)
    return 0 if row is None else int(row[0])


def _count(tx: Tx, subject: str, free: int) -> None:
    row = tx.one("SELECT attempts FROM sign_in_attempts WHERE subject = ? AND expires_at > ?", subject, tx.now)
    attempts = 1 if row is None else int(row[0]) + 1
    wait = 0 if attempts < free else min(2 ** min(attempts - free, 30), LONGEST_WAIT_SECONDS)
    next_at = tx.now + wait * SECOND
    tx.run(
        "INSERT INTO sign_in_attempts (subject, attempts, next_at, expires_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (subject) DO UPDATE SET attempts = excluded.attempts, next_at = excluded.next_at,"
        " expires_at = excluded.expires_at",
        subject, attempts, next_at, next_at + MEMORY,
    )  # fmt: skip


def _note_failure(tx: Tx, attempt: Attempt, user: User | None, actor: Actor) -> None:
    # Written for nobody's account too: a commit that writes takes longer than one that does not.
    tx.run(
        "UPDATE sign_in_attempts SET expires_at = expires_at + 1 WHERE subject = ?",
        attempt.account_from_here,
    )
    if user is not None:
        audit.record(tx, user.organization_id, actor._replace(name="anybody"), "session.refuse", user.id)


def _remember_place(tx: Tx, user: User, place: str) -> None:
    tx.run(
        "INSERT INTO sign_in_places (organization_id, user_id, place, last_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (organization_id, user_id, place) DO UPDATE SET last_at = excluded.last_at",
        user.organization_id, user.id, place, tx.now,
    )  # fmt: skip
    tx.run(
        "DELETE FROM sign_in_places WHERE organization_id = ? AND user_id = ? AND place NOT IN (SELECT place FROM"
        " sign_in_places WHERE organization_id = ? AND user_id = ? ORDER BY last_at DESC, place LIMIT ?)",
        user.organization_id, user.id, user.organization_id, user.id, PLACES,
    )  # fmt: skip


def _too_many(microseconds: int) -> TooManyRequests:
    seconds = -(-microseconds // SECOND)
    return TooManyRequests(
        said(
            "Too many attempts to sign in. Try again in {seconds} seconds, or from where you usually sign in.",
            seconds=seconds,
        ),
        retry_after_seconds=seconds,
    )


# Authentication: from the token that a request carries to its principal, cached for less than a second.


# A revoked key must be refused by every process within a second.
CACHE_SECONDS = 0.7
MAX_CACHED = 20_000

Authenticate = ShortRead[[str, int], Principal]


class Authenticator:
    def __init__(self, db: Database, vault: Vault, clock: Clock) -> None:
        self._db = db
        self._vault = vault
        self._clock = clock
        self._cached: dict[str, tuple[float, Principal | Unauthorized]] = {}

    def by_key(self, token: str) -> Awaitable[Principal]:
        return self._authenticate(token, API_KEY_PREFIX, "an API key", keys.authenticate)

    def by_session(self, token: str) -> Awaitable[Principal]:
        return self._authenticate(token, SESSION_PREFIX, "a session token", authenticate)

    async def _authenticate(self, token: str, prefix: str, kind: str, authenticate: Authenticate) -> Principal:
        # A cached session says nothing about a key: no token is both.
        known = self._cached.get(token) if token.startswith(prefix) else None
        if known is None or known[0] < time.monotonic():
            if not is_well_formed(token, prefix):
                raise Unauthorized(f"This is not {kind}: it is mistyped or cut off (its checksum does not match).")
            outcome = await self._db.read_inline(
                _look_up, authenticate, self._vault.token_hash(token), self._clock.now()
            )
            known = time.monotonic() + CACHE_SECONDS, outcome
            if len(self._cached) >= MAX_CACHED:
                self._cached.clear()
            self._cached[token] = known
        outcome = known[1]
        if isinstance(outcome, Unauthorized):
            raise Unauthorized(str(outcome))
        if outcome.valid_until is not None and outcome.valid_until <= self._clock.now():
            self._cached.pop(token, None)
            raise Unauthorized(
                "This API key has expired." if outcome.key_id else "This session has ended. Sign in again."
            )
        return outcome


@short_read
def _look_up(authenticate: Authenticate, digest: str, now: int) -> Rounds[Principal | Unauthorized]:
    try:
        return (yield from authenticate.rounds(digest, now))
    except Unauthorized as refusal:
        return refusal
