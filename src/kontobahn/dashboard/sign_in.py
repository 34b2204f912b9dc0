"""From a password, a code or a passkey to a session; `provider_sign_in` for the identity provider."""

from __future__ import annotations

from contextlib import suppress

from kontobahn import limits
from kontobahn.access import factors, sessions, signin, users
from kontobahn.access.audit import Actor
from kontobahn.access.sessions import AtProvider, NewSession
from kontobahn.access.signin import SignIns, Verified
from kontobahn.access.users import User
from kontobahn.dashboard.visit import Visit
from kontobahn.db import Tx
from kontobahn.errors import NotFound, TooManyRequests
from kontobahn.ids import block_of
from kontobahn.limits import Group
from kontobahn.sentences import said
from kontobahn.vault import Vault

# Guesses at a code of six digits, for one person, whatever address they come from.
CODES = Group("second factor", 10, 900)
WRONG = "The e-mail address or the password is wrong."
# Kept with a second step after the identity provider's.
BY_PROVIDER = b"identity provider"


async def count_attempt(visit: Visit) -> None:
    """Counts an attempt to get in, together with those over the API. Raises TooManyRequests above the limit."""
    group = visit.dependencies.groups[limits.AUTH]
    hit = await visit.dependencies.windows.hit(group, f"ip:{block_of(visit.exchange.ip)}")
    if not hit.allowed:
        raise TooManyRequests(
            said("Too many attempts from this address. Try again in {seconds} seconds.", seconds=hit.reset_seconds),
            retry_after_seconds=hit.reset_seconds,
        )


async def check_password(visit: Visit, email: str, password: str) -> Verified:
    """Returns the user. Raises Unauthorized, with the same words and after the same time whatever was wrong."""
    await count_attempt(visit)
    return await visit.context.part(SignIns).verify(email, password, visit.actor)


async def hash_password(visit: Visit, password: str) -> str:
    return await visit.context.part(SignIns).hash(password, visit.actor)


async def second_step(visit: Visit, user: User) -> str:
    """Returns the secret of the step to come if this user has a second factor; empty if the password is enough."""
    if not await visit.read(factors.of_user, user.organization_id, user.id):
        return ""
    return await visit.write(factors.begin, visit.context.vault, "second step", b"", user)


async def check_code(visit: Visit, ticket: str, code: str) -> tuple[User, AtProvider | None]:
    """Returns the user whose password was right before and whose code is right now; and whether it was the provider before."""
    await count_attempt(visit)
    vault = visit.context.vault
    challenge = await visit.read(factors.look_up, vault, "second step", ticket)
    assert challenge.organization_id is not None
    assert challenge.user_id is not None
    user = await visit.read(users.by_id, challenge.organization_id, challenge.user_id)
    await count_code(visit, user)
    await visit.write(_use_code, vault, ticket, user, code, visit.actor)
    # The code confirms who it is, whenever the provider was shown it.
    return user, AtProvider(visit.now, False) if challenge.value == BY_PROVIDER else None


async def count_code(visit: Visit, user: User) -> None:
    """Counts a guess at this person's code. Raises TooManyRequests above the limit."""
    hit = await visit.dependencies.windows.hit(CODES, f"user:{user.id}")
    if not hit.allowed:
        raise TooManyRequests(
            said("Too many wrong codes. Try again in {seconds} seconds.", seconds=hit.reset_seconds),
            retry_after_seconds=hit.reset_seconds,
        )


def _use_code(tx: Tx, vault: Vault, ticket: str, user: User, code: str, actor: Actor) -> None:
    factors.use_code(tx, vault, user, code, actor)
    factors.take(tx, vault, "second step", ticket)


async def open_session(visit: Visit, who: Verified | User, provider: AtProvider | None = None) -> None:
    """Signs the person in: always a new session, never one that was there before."""
    verified = who if isinstance(who, Verified) else visit.context.part(SignIns).verified_by_factor(who, visit.actor)
    new = await visit.write(
        signin.open_session, visit.context.vault, verified,
        hours=visit.context.settings.session_hours, actor=visit.actor, device=visit.device, in_browser=True,
        provider=provider,
    )  # fmt: skip
    await replace_session(visit, new)


async def replace_session(visit: Visit, new: NewSession) -> None:
    """Gives the browser its new session, and ends the one that it had."""
    if visit.person is not None and visit.person.principal.session_id:
        with suppress(NotFound):  # a new role has ended all of them
            await visit.write(sessions.end, visit.person.principal, visit.person.session.id, visit.actor)
    visit.new_cookies["session"] = new.secret
