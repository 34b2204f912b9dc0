"""Before something that matters the person shows once more who it is: by password, code, passkey, or at the identity provider."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from kontobahn.access import factors, identities, sessions, users
from kontobahn.access.factors import Kind
from kontobahn.access.users import User
from kontobahn.dashboard import refusals, security, sign_in
from kontobahn.dashboard.declare import ROOT
from kontobahn.dashboard.sign_in import Way
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _
from kontobahn.db import Tx
from kontobahn.errors import Refusal, Unauthorized, Unavailable

# The fields of the page that asks, beside those of the form it interrupts.
PASSWORD, CODE, TICKET, ANSWER, PROVIDER = "_password", "_code", "_ticket", "_answer", "_provider"
# The page with the form.
BACK = "_back"
WRONG_PASSWORD = "The password is wrong."
# For password managers; what it says does not matter.
EMAIL = "_email"


async def ask_again(visit: Visit, *, factor: bool = False) -> Response | None:
    """Returns the page that asks, unless the person has just shown it; with `factor` a second factor, for this very step."""
    assert visit.person is not None
    visit.form.values.pop(EMAIL, None)
    sent = {
        name: (visit.form.values.pop(name, None) or [""])[-1] for name in (PASSWORD, CODE, TICKET, ANSWER, PROVIDER)
    }
    back = (visit.form.values.pop(BACK, None) or [_page_before(visit)])[-1]
    kept = {**visit.form.values, BACK: [back]}
    user, problem = visit.person.user, ""
    if factor:
        sent[PASSWORD] = sent[PROVIDER] = ""
        if not await visit.read(factors.of_user, user.organization_id, user.id):
            text = _("This step needs a second factor. Add one, and then try again.")
            return visit.redirect(f"{ROOT}/profile/second-factor", text, "bad")
    elif visit.now - visit.person.session.confirmed_at <= sessions.CONFIRMED:
        return None
    query = str(visit.exchange.scope.get("query_string", b""), "latin-1")
    address = f"{visit.path}?{query}" if query else visit.path
    if sent[PROVIDER]:
        try:
            await sign_in.count_attempt(visit)
            way = Way("confirm", address, session_id=visit.person.session.id, form=kept)
            return await sign_in.set_out_to_provider(visit, way)
        except (Refusal, Unavailable) as error:
            return await ask(visit, address, kept, refusals.refusal(str(error)))
    if any(sent.values()):
        try:
            if (await _shown_again(visit, user, sent)).id != user.id:
                raise Unauthorized(sign_in.PASSKEY_REFUSED)  # It is somebody else's.
            # The session's secret changes with it.
            session = visit.person.session
            secret = await visit.write(sessions.confirm, visit.context.vault, session, visit.actor)
            visit.new_cookies["session"] = secret
            return None
        except Refusal as error:
            problem = refusals.refusal(str(error))
    return await ask(visit, address, kept, problem, factor=factor)


def _page_before(visit: Visit) -> str:
    _, _, place = (visit.exchange.header(b"referer") or "").partition("://")
    return security.local_path("/" + place.partition("/")[2], ROOT)


async def ask(
    visit: Visit, path: str, kept: Mapping[str, list[str]], problem: str = "", *, factor: bool = False
) -> Response:
    """The page that asks, and sends the form on to its address."""
    assert visit.person is not None
    user, issuer = visit.person.user, sign_in.provider_issuer(visit)
    known, has_password, has_account = await visit.read(_ways, user, issuer)
    return visit.show(
        "confirm.html", 422 if problem else 200, problem=problem, known=known, kept=kept, path=path, factor=factor,
        back=security.local_path((kept.get(BACK) or [""])[-1], ROOT), has_password=has_password and not factor,
        provider=sign_in.provider_name(visit) if has_account and not factor else "",
        fields={
            "password": PASSWORD, "code": CODE, "ticket": TICKET, "answer": ANSWER, "provider": PROVIDER, "email": EMAIL
        },
    )  # fmt: skip


def _ways(tx: Tx, user: User, issuer: str) -> tuple[set[Kind], bool, bool]:
    """The kinds of factors that a person has, whether there is a password, and an account at the identity provider."""
    known = {factor.kind for factor in factors.of_user(tx, user.organization_id, user.id)}
    return known, users.has_password(tx, user), bool(issuer) and identities.has_one(tx, user, issuer)


async def _shown_again(visit: Visit, user: User, sent: dict[str, str]) -> User:
    """Returns who it is by what was sent. Raises Unauthorized if it is wrong."""
    if sent[ANSWER]:
        await sign_in.count_attempt(visit)
        return await sign_in.finish_passkey_sign_in(visit, sent[TICKET], sent[ANSWER])
    if sent[CODE]:
        await sign_in.count_attempt(visit)
        await sign_in.count_code(visit, user)
        await visit.write(factors.use_code, visit.context.vault, user, sent[CODE], visit.actor)
        return user
    try:
        return (await sign_in.check_password(visit, user.email, sent[PASSWORD])).user
    except Unauthorized:
        raise Unauthorized(WRONG_PASSWORD) from None  # Nobody is asked for an address here.
