"""Accounts at the identity provider: signing in with one, accepting an invitation with it, linking and unlinking it."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.responses import Response

from kontobahn.access import identities, invitations
from kontobahn.access.identities import Shown
from kontobahn.dashboard import confirmation, provider_sign_in, refusals, security, sign_in
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.forms import Form
from kontobahn.dashboard.provider_sign_in import Way
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _
from kontobahn.errors import Refusal, Unavailable

SIGN_IN, PROFILE = f"{ROOT}/sign-in", f"{ROOT}/profile"


@action("/sign-in/provider", caller="anybody")
async def set_out(visit: Visit) -> Response:
    return await _set_out(visit, Way("sign in", security.local_path(visit.form.text("next"), ROOT)))


@action("/invitation/{token}/provider", caller="anybody")
async def accept_invitation(visit: Visit, token: str) -> Response:
    # Looked at first: only somebody with an invitation is led on.
    await visit.read(invitations.find_pending, visit.context.vault, token)
    return await _set_out(visit, Way("invitation", f"{ROOT}/invitation/{token}", token=token))


@action("/profile/account/link", own=True, role="read_only", confirm=True)
async def link(visit: Visit) -> Response:
    assert visit.person is not None
    return await _set_out(visit, Way("link", PROFILE, session_id=visit.person.session.id))


@action("/profile/account/{id}/unlink", own=True, role="read_only", confirm=True)
async def unlink(visit: Visit, id: str) -> Response:
    issuer = provider_sign_in.issuer(visit)
    removed = await visit.write(identities.unlink, visit.principal, id, issuer, visit.actor)
    return visit.redirect(PROFILE, _("“%(name)s” is no longer linked.", name=removed.label))


async def _set_out(visit: Visit, way: Way) -> Response:
    await sign_in.count_attempt(visit)
    try:
        return await provider_sign_in.set_out(visit, way)
    except Unavailable as error:
        return _back(visit, way, error)


@page("/sign-in/provider/callback", caller="anybody", help="sign-in")
async def come_back(visit: Visit) -> Response:
    """The page that the provider sends people to. Its address has a code in it, so that it leads on at once."""
    provider_sign_in.of(visit)
    way = Way("sign in", ROOT)
    try:
        state, way = await provider_sign_in.take(visit)
        shown = await provider_sign_in.redeem(visit, state, way)
        return await _arrive(visit, way, shown)
    except (Refusal, Unavailable) as error:
        if way.purpose == "confirm":
            return await confirmation.ask(visit, way.next, way.form, refusals.refusal(str(error)))
        return _back(visit, way, error)


async def _arrive(visit: Visit, way: Way, shown: Shown) -> Response:
    if way.purpose == "confirm":
        await provider_sign_in.confirm(visit, way, shown)
        return visit.show("confirmed.html", path=way.next, kept=way.form)
    if way.purpose == "link":
        assert visit.person is not None
        await visit.write(identities.link, visit.person.user, shown, visit.actor)
        return visit.redirect(PROFILE, _("“%(name)s” is linked to you. You can sign in with it.", name=shown.label))
    if way.purpose == "invitation":
        await provider_sign_in.accept_invitation(visit, way.token, shown)
        return visit.redirect(ROOT, _("Welcome. You are now part of the organisation."))
    ticket = await provider_sign_in.enter(visit, shown)
    if ticket:
        return visit.show("second_step.html", form=Form(), ticket=ticket, next=way.next)
    return visit.redirect(way.next)


def _back(visit: Visit, way: Way, error: Refusal | Unavailable) -> Response:
    """Leads to the page that the person came from, with what went wrong."""
    back = way.next
    if way.purpose == "sign in":
        back = SIGN_IN if way.next == ROOT else f"{SIGN_IN}?{urlencode({'next': way.next})}"
    return visit.redirect(back, refusals.refusal(str(error)), "bad")
