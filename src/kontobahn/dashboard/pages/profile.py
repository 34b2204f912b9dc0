"""The person's own page: how the dashboard looks, and where they are signed in."""

from __future__ import annotations

from starlette.responses import Response

from kontobahn.access import sessions
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _, ngettext

PATH = f"{ROOT}/profile"


@page("/profile")
async def profile(visit: Visit) -> Response:
    principal = visit.principal
    found = await visit.read(sessions.of_user, principal.organization_id, principal.user_id or "")
    return visit.show("profile.html", sessions=found, this=principal.session_id)


@action("/profile/sessions/{id}/end")
async def end_session(visit: Visit, id: str) -> Response:
    await visit.write(sessions.end, visit.principal, id, visit.actor)
    return visit.redirect(PATH, _("The session has ended."))


@action("/profile/sessions/end-others")
async def end_other_sessions(visit: Visit) -> Response:
    ended = await visit.write(sessions.end_others, visit.principal, visit.actor)
    return visit.redirect(PATH, ngettext("One session has ended.", "%(num)s sessions have ended.", ended))


@page("/keyboard")
async def keyboard(visit: Visit) -> Response:
    return visit.show("keyboard.html")
