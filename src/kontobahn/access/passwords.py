"""A person's password: changed by the person, or set anew through a link that an administrator or the operator has made.

Hashing is slow on purpose and happens before these units of work, never inside one; the caller passes the finished hash.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from typing import NamedTuple, ParamSpec, TypeVar

from kontobahn.access import audit, users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.access.users import User
from kontobahn.clock import HOUR, MINUTE
from kontobahn.db import Table, Tx
from kontobahn.errors import Conflict, Forbidden, NotFound, Unavailable
from kontobahn.ids import PASSWORD_RESET_PREFIX, is_well_formed, new_id, new_token
from kontobahn.sentences import said
from kontobahn.vault import Vault

MIN_LENGTH = 12
MAX_LENGTH = 200
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


def change(tx: Tx, principal: Principal, *, old_hash: str, new_hash: str, actor: Actor) -> int:
    """Sets the caller's password and ends the person's other sessions. Returns how many ended.

    `old_hash` is what the old password was verified against: if it is no longer the stored one, somebody was quicker.
    """
    organization_id, user_id = principal.organization_id, principal.user_id or ""
    users.lock(tx, organization_id)
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
        ends_at = users.check_maker(tx, by, "owner" if user.role == "owner" else "admin", ends_at)
    _discard_resets(tx, user.organization_id, user.id)
    secret = new_token(PASSWORD_RESET_PREFIX)
    reset = PasswordReset(
        user.organization_id, new_id(), user.id, tx.now, ends_at, by.user_id if by else None, by.key_id if by else None
    )
    _RESETS.insert(tx, reset, token_hash=vault.token_hash(secret))
    audit.record(tx, user.organization_id, actor, "password_reset.create", user.id, email=user.email, hours=hours)
    return NewPasswordReset(reset, user, secret)


def link(base_url: str, token: str) -> str:
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


def reset(tx: Tx, vault: Vault, token: str, *, password_hash: str, actor: Actor) -> User:
    """Sets the password of the person that the token was made for, and ends all of the person's sessions."""
    users.lock(tx, check_reset(tx, vault, token).organization_id)
    # Two calls at once end with one password, and none is set beside the end of the key that the link was made with.
    found = check_reset(tx, vault, token)
    tx.run(
        "UPDATE users SET password_hash = ?, password_key_id = ? WHERE organization_id = ? AND id = ?",
        password_hash, found.key_id, found.organization_id, found.user_id,
    )  # fmt: skip
    ended = _end_access(tx, found.organization_id, found.user_id)
    audit.record(tx, found.organization_id, actor, "password_reset.use", found.user_id, sessions_ended=ended)
    return users.by_id(tx, found.organization_id, found.user_id)


def end_with_key(tx: Tx, organization_id: str, key_id: str, actor: Actor, *, but: str | None) -> None:
    """Ends the passwords that were set through links of a key, and the sessions of these people, except for one person.

    Whoever had the key could become each of them, and whoever knows a password signs in again.
    """
    users.lock(tx, organization_id)
    ended = tx.all(
        "UPDATE users SET password_hash = '', password_key_id = NULL WHERE organization_id = ? AND password_key_id = ?"
        " AND id <> ? RETURNING id",
        organization_id, key_id, but or "",
    )  # fmt: skip
    for (user_id,) in ended:
        count = _end_access(tx, organization_id, user_id)
        audit.record(tx, organization_id, actor, "user.end_password", user_id, with_key=key_id, sessions_ended=count)


def purge_expired(tx: Tx) -> int:
    return tx.run("DELETE FROM password_resets WHERE expires_at <= ?", tx.now)


def _end_access(tx: Tx, organization_id: str, user_id: str, but: str | None = None) -> int:
    """Ends the person's sessions except one, and the assistants that the person has connected; discards open links."""
    users.note_ways_changed(tx, organization_id, user_id)
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
