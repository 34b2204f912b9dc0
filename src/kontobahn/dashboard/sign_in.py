"""From a password, a code or a passkey to a session."""

from __future__ import annotations

from starlette.responses import Response

from kontobahn import limits
from kontobahn.access import factors, sessions, signin, users
from kontobahn.access.audit import Actor
from kontobahn.access.signin import SignIns, Verified
from kontobahn.access.users import User
from kontobahn.dashboard import passkeys, refusals
from kontobahn.dashboard.visit import Visit
from kontobahn.db import Tx
from kontobahn.errors import Refusal, TooManyRequests, Unauthorized
from kontobahn.ids import block_of
from kontobahn.limits import Group
from kontobahn.sentences import said
from kontobahn.vault import Vault

# Guesses at a code of six digits, for one person, whatever address they come from.
CODES = Group("second factor", 10, 900)
WRONG = "The e-mail address or the password is wrong."
# The fields of the page that asks, beside those of the form it interrupts.
PASSWORD, CODE, TICKET, ANSWER = "_password", "_code", "_ticket", "_answer"
# For password managers; what it says does not matter.
EMAIL = "_email"


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


async def check_code(visit: Visit, ticket: str, code: str) -> User:
    """Returns the user whose password was right before and whose code is right now."""
    await count_attempt(visit)
    vault = visit.context.vault
    challenge = await visit.read(factors.look_up, vault, "second step", ticket)
    assert challenge.organization_id is not None
    assert challenge.user_id is not None
    user = await visit.read(users.by_id, challenge.organization_id, challenge.user_id)
    await count_code(visit, user)
    await visit.write(_use_code, vault, ticket, user, code, visit.actor)
    return user


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


async def open_session(visit: Visit, who: Verified | User) -> None:
    """Signs the person in: always a new session, never one that was there before."""
    verified = who if isinstance(who, Verified) else visit.context.part(SignIns).verified_by_factor(who, visit.actor)
    new = await visit.write(
        signin.open_session, visit.context.vault, verified,
        hours=visit.context.settings.session_hours, actor=visit.actor, device=visit.device, in_browser=True,
    )  # fmt: skip
    if visit.person is not None and visit.person.principal.session_id:
        await visit.write(sessions.end, visit.person.principal, visit.person.session.id, visit.actor)
    visit.new_cookies["session"] = new.secret


# --- Before something that matters: the person shows once more who it is, by password, code or passkey


async def ask_again(visit: Visit) -> Response | None:
    """Returns the page that asks, unless the person has just shown it."""
    assert visit.person is not None
    visit.form.values.pop(EMAIL, None)
    sent = {name: (visit.form.values.pop(name, None) or [""])[-1] for name in (PASSWORD, CODE, TICKET, ANSWER)}
    if visit.now - visit.person.session.confirmed_at <= sessions.CONFIRMED:
        return None
    user, problem = visit.person.user, ""
    if any(sent.values()):
        try:
            if (await _shown_again(visit, user, sent)).id != user.id:
                raise Unauthorized(passkeys.REFUSED)  # It is somebody else's.
            # The session's secret changes with it.
            session = visit.person.session
            secret = await visit.write(sessions.confirm, visit.context.vault, session, visit.actor)
            visit.new_cookies["session"] = secret
            return None
        except Refusal as error:
            problem = refusals.refusal(str(error))
    known = {factor.kind for factor in await visit.read(factors.of_user, user.organization_id, user.id)}
    return visit.show(
        "confirm.html", 422 if problem else 200, problem=problem, known=known, kept=visit.form.values,
        fields={"password": PASSWORD, "code": CODE, "ticket": TICKET, "answer": ANSWER, "email": EMAIL},
    )  # fmt: skip


async def _shown_again(visit: Visit, user: User, sent: dict[str, str]) -> User:
    """Returns who it is by what was sent. Raises Unauthorized if it is wrong."""
    if sent[ANSWER]:
        await count_attempt(visit)
        return await passkeys.finish_sign_in(visit, sent[TICKET], sent[ANSWER])
    if sent[CODE]:
        await count_attempt(visit)
        await count_code(visit, user)
        await visit.write(factors.use_code, visit.context.vault, user, sent[CODE], visit.actor)
        return user
    return (await check_password(visit, user.email, sent[PASSWORD])).user
