"""Users: people of one organisation, with a role. Passwords are kept as argon2id hashes."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple, ParamSpec, TypeVar

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import ROLES, Principal, Role
from kontobahn.clock import HOUR, MINUTE
from kontobahn.db import Table, Tx
from kontobahn.errors import Conflict, Forbidden, NotFound, Unauthorized, Unavailable
from kontobahn.ids import PASSWORD_RESET_PREFIX, is_well_formed, new_id, new_token
from kontobahn.sentences import said
from kontobahn.vault import Vault

# Called in the transaction that deletes a user: (tx, organization_id, user_id, actor). The composition root registers the areas
# that keep something for a person (a bank connection belongs to the person who signed in at the bank).
UserRemoval = Callable[[Tx, str, str, Actor], None]


class User(NamedTuple):
    organization_id: str
    id: str
    email: str
    name: str
    role: Role
    created_at: int
    # Grows whenever something that the person signs in with is replaced or taken away.
    ways_version: int = 0


_USERS = Table("users", User)


@cache
def _hasher() -> Any:
    from argon2 import PasswordHasher

    return PasswordHasher()


def hash_password(password: str) -> str:
    """Slow on purpose: never on the event loop or inside a transaction. Calls use `SignIns.hash`."""
    return str(_hasher().hash(password))


@cache
def _hash_of_nobody() -> str:
    return hash_password("the password of nobody")


def password_matches(stored: str | None, password: str) -> bool:
    """Takes as long for an unknown user, and for one whose password has ended, as for a wrong password."""
    from argon2.exceptions import InvalidHashError, VerificationError

    # Made before it is needed, or the first unknown user would be recognised by the time it takes.
    nobody = _hash_of_nobody()
    try:
        matches = bool(_hasher().verify(stored or nobody, password))
    except (VerificationError, InvalidHashError):
        return False
    return matches and bool(stored)


def normal_email(email: str) -> str:
    return email.strip().lower()


def create(
    tx: Tx, organization_id: str, *, email: str, name: str, role: Role, password_hash: str, actor: Actor
) -> User:
    user = User(organization_id, new_id(), normal_email(email), name, role, tx.now)
    inserted = tx.run(
        f"INSERT INTO users ({_USERS.columns}, password_hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        *user, password_hash,
    )  # fmt: skip
    if not inserted:
        raise Conflict("There is already a user with this e-mail address.")
    audit.record(tx, organization_id, actor, "user.create", user.id, email=user.email, role=role)
    return user


def listing(tx: Tx, organization_id: str) -> list[User]:
    return _USERS.all(tx, "organization_id = ? ORDER BY created_at, id", organization_id)


def any_of(tx: Tx, organization_id: str) -> bool:
    return tx.one("SELECT 1 FROM users WHERE organization_id = ? LIMIT 1", organization_id) is not None


def are_several(tx: Tx, organization_id: str) -> bool:
    """Returns whether the organisation has more than one person."""
    return len(tx.all("SELECT id FROM users WHERE organization_id = ? LIMIT 2", organization_id)) > 1


def any_exists(tx: Tx) -> bool:
    """Returns whether the installation has a user at all."""
    return tx.one("SELECT 1 FROM users LIMIT 1") is not None


def exists(tx: Tx, user_id: str) -> bool:
    return tx.one("SELECT 1 FROM users WHERE id = ?", user_id) is not None


def get(tx: Tx, principal: Principal, user_id: str) -> User:
    user = _USERS.one(tx, "organization_id = ? AND id = ?", principal.organization_id, user_id)
    if user is None:
        raise principal.missing("User")
    return user


def by_id(tx: Tx, organization_id: str, user_id: str) -> User:
    user = _USERS.one(tx, "organization_id = ? AND id = ?", organization_id, user_id)
    if user is None:
        raise NotFound("User not found.")
    return user


def find(tx: Tx, user_id: str) -> User | None:
    """Returns the person of an id, whatever the organisation."""
    return _USERS.one(tx, "id = ?", user_id)


def by_email(tx: Tx, email: str) -> tuple[User, str] | None:
    """Returns the user and the stored hash of the password."""
    row = tx.one(f"SELECT {_USERS.columns}, password_hash FROM users WHERE email = ?", normal_email(email))
    return None if row is None else (User(*row[:-1]), row[-1])


def has_password(tx: Tx, user: User) -> bool:
    row = tx.one("SELECT password_hash FROM users WHERE organization_id = ? AND id = ?", user.organization_id, user.id)
    return bool(row and row[0])


def ways_in(tx: Tx, organization_id: str, user_id: str, issuer: str) -> int:
    """The number of things that this person can sign in with by itself: a password, passkeys, an account at the identity provider."""
    row = tx.one(
        "SELECT CASE WHEN u.password_hash = '' THEN 0 ELSE 1 END + (SELECT COUNT(*) FROM user_factors f"
        " WHERE f.organization_id = u.organization_id AND f.user_id = u.id AND f.kind = 'passkey') + (SELECT COUNT(*)"
        " FROM user_identities i WHERE i.organization_id = u.organization_id AND i.user_id = u.id AND i.issuer = ?)"
        " FROM users u WHERE u.organization_id = ? AND u.id = ?",
        issuer, organization_id, user_id,
    )  # fmt: skip
    return int(row[0]) if row else 0


def note_ways_changed(tx: Tx, organization_id: str, user_id: str) -> None:
    """Ends what the person has let in with the ways to sign in that there were until now."""
    tx.run(
        "UPDATE users SET ways_version = ways_version + 1 WHERE organization_id = ? AND id = ?",
        organization_id,
        user_id,
    )


def lock(tx: Tx, organization_id: str) -> None:
    """Serialises changes to an organisation's users: roles, passwords, who is left."""
    tx.lock("users", organization_id)


def change_role(tx: Tx, principal: Principal, user_id: str, role: Role, actor: Actor) -> User:
    lock(tx, principal.organization_id)
    user = get(tx, principal, user_id)
    if user.role == role:
        return user
    if "owner" in (user.role, role) and not principal.may("owner"):
        raise Forbidden("Only an owner may grant or withdraw the role of owner.")
    _keep_an_owner(tx, user)
    return set_role(tx, user, role, actor)


def set_role(tx: Tx, user: User, role: Role, actor: Actor) -> User:
    """For somebody who may. The caller holds the lock, and the organisation keeps an owner."""
    # Whoever may do more or less signs in again: what is open from before must neither rise with its user nor outlive a right. A
    # link for the password was made by somebody who might give the old role, perhaps not the new one.
    for table in ("sessions", "password_resets"):
        tx.run(f"DELETE FROM {table} WHERE organization_id = ? AND user_id = ?", user.organization_id, user.id)
    audit.record(tx, user.organization_id, actor, "user.change_role", user.id, old=user.role, new=role)
    _end_invitations(tx, user, role, actor)
    _end_links(tx, user, role)
    return _USERS.update(tx, user, role=role)


def delete(tx: Tx, principal: Principal, user_id: str, actor: Actor, removals: tuple[UserRemoval, ...] = ()) -> User:
    """Deletes a user, the person's sessions, and what areas keep for the person. The organisation's API keys stay valid."""
    lock(tx, principal.organization_id)
    user = get(tx, principal, user_id)
    if user.role == "owner" and not principal.may("owner"):
        raise Forbidden("Only an owner may delete an owner.")
    _keep_an_owner(tx, user)
    _end_invitations(tx, user, None, actor)
    _end_links(tx, user, None)
    for removal in removals:
        removal(tx, principal.organization_id, user_id, actor)
    tx.run("DELETE FROM users WHERE organization_id = ? AND id = ?", principal.organization_id, user_id)
    audit.record(tx, principal.organization_id, actor, "user.delete", user_id, email=user.email)
    return user


def _end_invitations(tx: Tx, user: User, role: Role | None, actor: Actor) -> None:
    """Revokes the open invitations that this user could not make any more: as one of this role, or as nobody."""
    if role == "owner":
        return
    # An admin may invite anybody but owners.
    end_invitations(tx, user.organization_id, user.id, actor, " AND role = 'owner'" if role == "admin" else "")
    if role is None:
        for (client_id,) in tx.all(
            "SELECT client_organization_id FROM client_access WHERE organization_id = ? AND user_id = ?"
            " ORDER BY client_organization_id",
            user.organization_id, user.id,
        ):  # fmt: skip
            end_invitations(tx, client_id, user.id, actor)


def end_invitations(tx: Tx, organization_id: str, user_id: str, actor: Actor, which: str = "") -> None:
    """Revokes the open invitations to an organisation that this person made; `which` is a further condition."""
    tx.lock("invitations", organization_id)
    ended = tx.all(
        "UPDATE invitations SET status = 'revoked', settled_at = ?"
        f" WHERE organization_id = ? AND invited_by = ? AND status = 'pending'{which} RETURNING id",
        tx.now, organization_id, user_id,
    )  # fmt: skip
    for (invitation_id,) in ended:
        audit.record(tx, organization_id, actor, "invitation.revoke", invitation_id, with_user=user_id)


def _end_links(tx: Tx, user: User, role: Role | None) -> None:
    """Discards the links for passwords that this user could not make any more: as one of this role, or as nobody."""
    if role == "owner":
        return
    whose = (
        " AND user_id IN (SELECT id FROM users WHERE organization_id = ? AND role = 'owner')" if role == "admin" else ""
    )
    tx.run(
        f"DELETE FROM password_resets WHERE organization_id = ? AND made_by = ?{whose}",
        user.organization_id, user.id, *([user.organization_id] if whose else []),
    )  # fmt: skip


def check_maker(tx: Tx, principal: Principal, role: Role, ends_at: int) -> int:
    """Returns when something ends that the caller makes, which may be with its key.

    Raises Unauthorized if the caller has lost the role, or its key, since it was authenticated; holds the lock of whoever takes it away.
    """
    if principal.key_id is not None:
        tx.lock("api_key", principal.key_id)
        row = tx.one(
            "SELECT expires_at FROM api_keys WHERE organization_id = ? AND id = ? AND revoked_at IS NULL",
            principal.organization_id, principal.key_id,
        )  # fmt: skip
        ends_at = min(ends_at, row[0]) if row and row[0] is not None else ends_at
    elif principal.session_id is not None:
        lock(tx, principal.organization_id)
        row = tx.one(
            "SELECT role FROM users WHERE organization_id = ? AND id = ?", principal.organization_id, principal.user_id
        )
        row = row if row and ROLES.index(row[0]) >= ROLES.index(role) else None
    else:
        return ends_at
    if row is None or ends_at <= tx.now:
        raise Unauthorized("Your rights were changed a moment ago. Sign in again.")
    return ends_at


def _keep_an_owner(tx: Tx, user: User) -> None:
    """An organisation without an owner could never be managed again."""
    if user.role != "owner":
        return
    row = tx.one("SELECT COUNT(*) FROM users WHERE organization_id = ? AND role = 'owner'", user.organization_id)
    if row is None or row[0] <= 1:
        raise Conflict("This is the last owner of the organisation. Make somebody else an owner first.")


# A person's password: changed by the person, or set anew through a link that an administrator or the operator has made.
#
# Hashing is slow on purpose and happens before these units of work, never inside one; the caller passes the finished
# hash.


MIN_PASSWORD_LENGTH = 12
MAX_PASSWORD_LENGTH = 200
# The page that takes the token of a link and asks for the new password.
_PAGE = "/dashboard/password"


class PasswordReset(NamedTuple):
    organization_id: str
    id: str
    user_id: str
    created_at: int
    expires_at: int
    # The person or the key that made it; neither for the operator.
    made_by: str | None
    key_id: str | None


_RESETS = Table("password_resets", PasswordReset)


class NewPasswordReset(NamedTuple):
    reset: PasswordReset
    user: User
    # Shown here and never again.
    secret: str


def change_password(tx: Tx, principal: Principal, *, old_hash: str, new_hash: str, actor: Actor) -> int:
    """Sets the caller's password and ends the person's other sessions. Returns how many ended.

    `old_hash` is what the old password was verified against: if it is no longer the stored one, somebody was quicker.
    """
    organization_id, user_id = principal.organization_id, principal.user_id or ""
    lock(tx, organization_id)
    changed = tx.run(
        "UPDATE users SET password_hash = ?, password_key_id = NULL WHERE organization_id = ? AND id = ? AND password_hash = ?",
        new_hash, organization_id, user_id, old_hash,
    )  # fmt: skip
    if not changed:
        raise Conflict("The password was changed in the meantime. Sign in again.")
    ended = _end_access(tx, organization_id, user_id, but=principal.session_id)
    audit.record(tx, organization_id, actor, "user.change_password", user_id, sessions_ended=ended)
    return ended


def create_reset(
    tx: Tx, vault: Vault, user: User, *, hours: int, actor: Actor, by: Principal | None = None
) -> NewPasswordReset:
    """Makes the token of a link that sets a new password, once. An earlier one of the same person is no longer valid.

    `by` is the administrator who makes it: whoever has the link becomes that person. None for the operator.
    """
    if by is not None and not by.may(user.role):
        raise Forbidden(
            said(
                "Only a caller with the role {role} may make a link for this person; this one is {own}.",
                role=user.role,
                own=by.role,
            )
        )
    ends_at = tx.now + hours * HOUR
    if by is not None:
        ends_at = check_maker(tx, by, "owner" if user.role == "owner" else "admin", ends_at)
    _discard_resets(tx, user.organization_id, user.id)
    secret = new_token(PASSWORD_RESET_PREFIX)
    reset = PasswordReset(
        user.organization_id, new_id(), user.id, tx.now, ends_at, by.user_id if by else None, by.key_id if by else None
    )
    _RESETS.insert(tx, reset, token_hash=vault.token_hash(secret))
    audit.record(tx, user.organization_id, actor, "password_reset.create", user.id, email=user.email, hours=hours)
    return NewPasswordReset(reset, user, secret)


def reset_link(base_url: str, token: str) -> str:
    """The address to hand to the person."""
    return f"{base_url}{_PAGE}?token={token}"


def has_recent_reset(tx: Tx, user: User, *, minutes: int) -> bool:
    return bool(
        tx.one(
            "SELECT 1 FROM password_resets WHERE organization_id = ? AND user_id = ? AND created_at > ?",
            user.organization_id, user.id, tx.now - minutes * MINUTE,
        )
    )  # fmt: skip


def check_reset(tx: Tx, vault: Vault, token: str) -> PasswordReset:
    """Raises NotFound if the token is not valid; the answer is the same whether it is unknown, used or expired."""
    found = None
    if is_well_formed(token, PASSWORD_RESET_PREFIX):
        found = _RESETS.one(tx, "token_hash = ?", vault.token_hash(token))
    if found is None or found.expires_at <= tx.now:
        raise NotFound("This link is not valid, or no longer valid. Ask for a new one.")
    return found


def reset_password(tx: Tx, vault: Vault, token: str, *, password_hash: str, actor: Actor) -> User:
    """Sets the password of the person that the token was made for, and ends all of the person's sessions."""
    lock(tx, check_reset(tx, vault, token).organization_id)
    # Two calls at once end with one password, and none is set beside the end of the key that the link was made with.
    found = check_reset(tx, vault, token)
    tx.run(
        "UPDATE users SET password_hash = ?, password_key_id = ? WHERE organization_id = ? AND id = ?",
        password_hash, found.key_id, found.organization_id, found.user_id,
    )  # fmt: skip
    ended = _end_access(tx, found.organization_id, found.user_id)
    audit.record(tx, found.organization_id, actor, "password_reset.use", found.user_id, sessions_ended=ended)
    return by_id(tx, found.organization_id, found.user_id)


def end_with_key(tx: Tx, organization_id: str, key_id: str, actor: Actor, *, but: str | None) -> None:
    """Ends the passwords that were set through links of a key, and the sessions of these people, except for one person.

    Whoever had the key could become each of them, and whoever knows a password signs in again.
    """
    lock(tx, organization_id)
    ended = tx.all(
        "UPDATE users SET password_hash = '', password_key_id = NULL WHERE organization_id = ? AND password_key_id = ?"
        " AND id <> ? RETURNING id",
        organization_id, key_id, but or "",
    )  # fmt: skip
    for (user_id,) in ended:
        count = _end_access(tx, organization_id, user_id)
        audit.record(tx, organization_id, actor, "user.end_password", user_id, with_key=key_id, sessions_ended=count)


def purge_expired_resets(tx: Tx) -> int:
    return tx.run("DELETE FROM password_resets WHERE expires_at <= ?", tx.now)


def _end_access(tx: Tx, organization_id: str, user_id: str, but: str | None = None) -> int:
    """Ends the person's sessions except one, and the assistants that the person has connected; discards open links."""
    note_ways_changed(tx, organization_id, user_id)
    _discard_resets(tx, organization_id, user_id)
    return tx.run(
        "DELETE FROM sessions WHERE organization_id = ? AND user_id = ? AND id <> ?",
        organization_id,
        user_id,
        but or "",
    )


def _discard_resets(tx: Tx, organization_id: str, user_id: str) -> None:
    tx.run("DELETE FROM password_resets WHERE organization_id = ? AND user_id = ?", organization_id, user_id)


P = ParamSpec("P")
T = TypeVar("T")

# One check takes about 60 ms and 64 MiB.
THREADS = max(1, min(4, (os.cpu_count() or 1) // 2))
# Running and waiting; whoever comes last waits about two seconds on one thread.
ROOM = 32
# Of these for addresses nobody has signed in from since the start, and for one address.
ROOM_FOR_STRANGERS = 24
ROOM_FOR_ADDRESS = 4
RETRY_AFTER_SECONDS = 2
_NICENESS = 10


class PasswordWork:
    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()

    @contextmanager
    def room_for(self, address: str, *, is_familiar: bool) -> Iterator[None]:
        """Holds a place among those under way. Raises Unavailable if there is none left."""
        room = ROOM if is_familiar else ROOM_FOR_STRANGERS
        if self._under_way.total() >= room or self._under_way[address] >= ROOM_FOR_ADDRESS:
            raise Unavailable(
                "Too many people are signing in right now. Try again in a few seconds.",
                retry_after_seconds=RETRY_AFTER_SECONDS,
            )
        self._under_way[address] += 1
        try:
            yield
        finally:
            self._under_way[address] -= 1
            if not self._under_way[address]:
                del self._under_way[address]

    async def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs the function on one of the threads, for somebody who has room."""
        return await asyncio.wrap_future(_threads().submit(fn, *args, **kwargs))


@cache
def _threads() -> ThreadPoolExecutor:
    """One set for the process, whatever asks for it."""
    return ThreadPoolExecutor(THREADS, "passwords", initializer=_step_back)


def _step_back() -> None:
    """Lets the threads that answer calls go first when processors are scarce."""
    with suppress(OSError, AttributeError):  # threads have no priority of their own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
