"""From a password to a session, and from a password to a confirmation."""

from __future__ import annotations

import asyncio

from kontobahn import limits
from kontobahn.access import sessions, users
from kontobahn.access.users import User
from kontobahn.dashboard.visit import Visit
from kontobahn.errors import TooManyRequests, Unauthorized

WRONG = "The e-mail address or the password is wrong."


async def count_attempt(visit: Visit) -> None:
    """Counts an attempt to get in, together with those over the API. Raises TooManyRequests above the limit."""
    group = visit.dependencies.groups[limits.AUTH]
    hit = await visit.dependencies.windows.hit(group, f"ip:{visit.exchange.ip}")
    if not hit.allowed:
        raise TooManyRequests(
            f"Too many attempts from this address. Try again in {hit.reset_seconds} seconds.",
            retry_after_seconds=hit.reset_seconds,
        )


async def check_password(visit: Visit, email: str, password: str) -> User:
    """Returns the user. Raises Unauthorized, with the same words and after the same time whatever was wrong."""
    await count_attempt(visit)
    known = await visit.read(users.by_email, email)
    user, stored = known if known else (None, None)
    if not await asyncio.to_thread(users.password_matches, stored, password) or user is None:
        raise Unauthorized(WRONG)
    return user


async def open_session(visit: Visit, user: User) -> None:
    """Signs the person in: always a new session, never one that was there before."""
    actor = visit.actor._replace(name=f"user:{user.id}")
    new = await visit.write(
        sessions.create, visit.context.vault, user,
        hours=visit.context.settings.session_hours, actor=actor, device=visit.device, in_browser=True,
    )  # fmt: skip
    if visit.person is not None and visit.person.principal.session_id:
        await visit.write(sessions.end, visit.person.principal, visit.person.session.id, visit.actor)
    visit.new_cookies["session"] = new.secret


async def confirm(visit: Visit, password: str) -> None:
    """Notes that the person at the browser is still the one who signed in, and changes the session's secret."""
    assert visit.person is not None
    user = await check_password(visit, visit.person.user.email, password)
    if user.id != visit.person.user.id:
        raise Unauthorized(WRONG)
    secret = await visit.write(sessions.confirm, visit.context.vault, visit.person.session, visit.actor)
    visit.new_cookies["session"] = secret
