"""Before something that matters: the person at the browser shows once more who it is, by password, code or passkey."""

from __future__ import annotations

from starlette.responses import Response

from kontobahn.access import factors, sessions
from kontobahn.access.users import User
from kontobahn.dashboard import passkeys, refusals, sign_in
from kontobahn.dashboard.visit import Visit
from kontobahn.errors import Refusal, Unauthorized

# The fields of the page that asks, beside those of the form it interrupts.
PASSWORD, CODE, TICKET, ANSWER = "_password", "_code", "_ticket", "_answer"
# For password managers; what it says does not matter.
EMAIL = "_email"


async def ask(visit: Visit) -> Response | None:
    """Returns the page that asks, unless the person has just shown it."""
    assert visit.person is not None
    visit.form.values.pop(EMAIL, None)
    sent = {name: (visit.form.values.pop(name, None) or [""])[-1] for name in (PASSWORD, CODE, TICKET, ANSWER)}
    if visit.now - visit.person.session.confirmed_at <= sessions.CONFIRMED:
        return None
    user, problem = visit.person.user, ""
    if any(sent.values()):
        try:
            if (await _shown(visit, user, sent)).id != user.id:
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


async def _shown(visit: Visit, user: User, sent: dict[str, str]) -> User:
    """Returns who it is by what was sent. Raises Unauthorized if it is wrong."""
    if sent[ANSWER]:
        await sign_in.count_attempt(visit)
        return await passkeys.finish_sign_in(visit, sent[TICKET], sent[ANSWER])
    if sent[CODE]:
        await sign_in.count_attempt(visit)
        await sign_in.count_code(visit, user)
        await visit.write(factors.use_code, visit.context.vault, user, sent[CODE], visit.actor)
        return user
    return (await sign_in.check_password(visit, user.email, sent[PASSWORD])).user
