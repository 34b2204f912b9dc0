"""The audit log: what was changed, by whom, from where. It only grows."""

from __future__ import annotations

from datetime import date

from msgspec import Struct
from starlette.responses import Response

from kontobahn.access import keys, users
from kontobahn.access.audit import AuditEntry
from kontobahn.dashboard import audit_words, figures
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
    actions = await visit.read(views.audit_actions, visit.principal.organization_id)
    return visit.show(
        "audit_log.html",
        filters=filters,
        list=filters.first_page(found, lambda entry: entry.id),
        actions=[(action, audit_words.action_words(action)) for action in actions],
        action_words=audit_words.action_words,
        names=names,
        details=audit_words.details,
        chips=filters.chips(
            {
                "from_date": _("From"),
                "to_date": _("Until"),
                "action": _("What"),
                "actor": _("Who"),
                "subject": _("Object"),
            },
            lambda name, text: audit_words.action_words(text) if name == "action" else names.get(text, text),
        ),
    )


@page("/audit.csv", role="admin")
async def audit_csv(visit: Visit) -> Response:
    found = await visit.read(_wanted, visit.principal.organization_id, visit.filters(AuditFilters), MAX_CSV_ROWS)
    names = await _names(visit)
    head = [_("When"), _("Who"), _("What"), _("Object"), _("Details"), _("Address"), _("Request")]
    rows = [
        (figures.moment(entry.at), names.get(entry.actor, entry.actor), audit_words.action_words(entry.action), entry.subject,
         audit_words.details(entry), entry.ip or "", entry.request_id or "")
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
    organization_id = visit.principal.organization_id
    people = await visit.read(users.listing, organization_id)
    made = await visit.read(keys.listing, organization_id)
    return audit_words.actor_names([(user.id, user.name) for user in people], [(key.id, key.name) for key in made])
