"""Signing in with e-mail address and password: the one way in, for calls and pages.

`verify` checks a password, `open_session` makes the session. Attempts are counted before the password is looked at: by account and
address, and by account from addresses it was not used from before. So guesses from many addresses are slowed down, and the owner at
a usual one is not locked out. An unknown account is counted, checked and answered like a known one.
"""

from __future__ import annotations

from typing import NamedTuple

from kontobahn import log
from kontobahn.access import audit, sessions, users
from kontobahn.access.audit import Actor
from kontobahn.access.passwords import PasswordWork
from kontobahn.access.sessions import AtProvider, NewSession
from kontobahn.access.users import User
from kontobahn.clock import DAY, HOUR, SECOND
from kontobahn.db import Database, Tx
from kontobahn.errors import TooManyRequests, Unauthorized
from kontobahn.ids import block_of
from kontobahn.sentences import said
from kontobahn.vault import Vault

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
    return sessions.create(
        tx, vault, known[0], hours=hours, actor=actor, device=device, in_browser=in_browser, provider=provider
    )


def purge(tx: Tx) -> None:
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
