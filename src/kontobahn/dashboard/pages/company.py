"""The organisation that is looked at: its name, and where its address and its first steps are."""

from __future__ import annotations

from msgspec import Struct
from starlette.responses import Response

from kontobahn.access import organizations
from kontobahn.api.wire import Name
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _

PATH = f"{ROOT}/company"


class Company(Struct):
    name: Name


@page("/company", help="company")
async def company(visit: Visit) -> Response:
    assert visit.person is not None
    return visit.show("company.html", organization=visit.person.looking_at)


@action("/company", role="admin")
async def rename(visit: Visit) -> Response:
    wanted = visit.form.read(Company)
    if wanted is not None:
        await visit.write(organizations.rename, visit.organization_id, wanted.name, visit.actor)
        return visit.redirect(PATH, _("The company is now called “%(name)s”.", name=wanted.name))
    response: Response = await company.handler(visit)
    return response
