"""The audit log: what was changed, by whom, from where. It only grows."""

from __future__ import annotations

from datetime import date

import msgspec
from msgspec import Struct
from starlette.responses import Response

from kontobahn.access import users
from kontobahn.access.audit import AuditEntry
from kontobahn.dashboard import figures
from kontobahn.dashboard.declare import page
from kontobahn.dashboard.listing import PAGE_SIZE, Filters
from kontobahn.dashboard.views import team as views
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _
from kontobahn.db import Tx

MAX_CSV_ROWS = 20_000


class AuditFilters(Struct):
    from_date: date | None = None
    to_date: date | None = None
    action: str = ""
    actor: str = ""
    subject: str = ""


@page("/audit", role="admin")
async def audit_log(visit: Visit) -> Response:
    filters = visit.filters(AuditFilters)
    found = await visit.read(_wanted, visit.principal.organization_id, filters, PAGE_SIZE + 1)
    names = await _names(visit)
    return visit.show(
        "audit_log.html",
        filters=filters,
        list=filters.first_page(found, lambda entry: entry.id),
        actions=await visit.read(views.audit_actions, visit.principal.organization_id),
        names=names,
        details=_details,
        chips=filters.chips(
            {"from_date": _("From"), "to_date": _("Until"), "action": _("What"), "actor": _("Who"), "subject": _("Of")},
            lambda name, text: names.get(text, text),
        ),
    )


@page("/audit.csv", role="admin")
async def audit_csv(visit: Visit) -> Response:
    found = await visit.read(_wanted, visit.principal.organization_id, visit.filters(AuditFilters), MAX_CSV_ROWS)
    names = await _names(visit)
    head = [_("When"), _("Who"), _("What"), _("Of"), _("Details"), _("Address"), _("Request")]
    rows = [
        (figures.moment(entry.at), names.get(entry.actor, entry.actor), entry.action, entry.subject,
         _details(entry), entry.ip or "", entry.request_id or "")
        for entry in found
    ]  # fmt: skip
    return visit.csv("audit", head, rows)


def _wanted(tx: Tx, organization_id: str, filters: Filters[AuditFilters], limit: int) -> list[AuditEntry]:
    wanted = filters.wanted
    return views.audit_entries(
        tx, organization_id, limit,
        since=wanted.from_date, until=wanted.to_date, action=wanted.action, actor=wanted.actor, subject=wanted.subject,
        after=filters.after,
    )  # fmt: skip


async def _names(visit: Visit) -> dict[str, str]:
    """What actors are called: people by their names."""
    people = await visit.read(users.listing, visit.principal.organization_id)
    return {f"user:{user.id}": user.name for user in people}


def _details(entry: AuditEntry) -> str:
    """The details in one line: `role: admin, email: …`."""
    found = msgspec.json.decode(entry.details)
    return ", ".join(f"{name}: {value}" for name, value in found.items()) if isinstance(found, dict) else str(found)
