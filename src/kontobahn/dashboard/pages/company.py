"""The organisation that is looked at: its name, and where its address and its first steps are."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct
from starlette.responses import Response

from kontobahn.access import organizations
from kontobahn.api.wire import Name
from kontobahn.banking.payments import releases
from kontobahn.dashboard import figures
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _
from kontobahn.money import to_minor

PATH = f"{ROOT}/company"


class Company(Struct):
    name: Name


class PaymentLimit(Struct):
    # Empty for none.
    limit: Decimal | None = None


@page("/company", help="company")
async def company(visit: Visit) -> Response:
    assert visit.person is not None
    limit = await visit.read(releases.limit_of, visit.organization_id)
    return visit.show(
        "company.html", organization=visit.person.looking_at, limit="" if limit is None else figures.plain_amount(limit)
    )


@action("/company", role="admin")
async def rename(visit: Visit) -> Response:
    wanted = visit.form.read(Company)
    if wanted is not None:
        await visit.write(organizations.rename, visit.organization_id, wanted.name, visit.actor)
        return visit.redirect(PATH, _("The company is now called “%(name)s”.", name=wanted.name))
    response: Response = await company.handler(visit)
    return response


@action("/company/payment-limit", role="admin", factor=True)
async def set_payment_limit(visit: Visit) -> Response:
    wanted = visit.form.read(PaymentLimit)
    if wanted is not None:
        with visit.form.refusals(amount="limit"):
            limit = None if wanted.limit is None else to_minor(wanted.limit)
            await visit.write(releases.set_limit, visit.organization_id, limit, visit.actor, by=visit.principal)
            if limit is None:
                return visit.redirect(PATH, _("Payments no longer need a second person's release."))
            text = _("Payments above %(amount)s now need a second person's release.", amount=figures.money(limit))
            return visit.redirect(PATH, text)
    response: Response = await company.handler(visit)
    return response
