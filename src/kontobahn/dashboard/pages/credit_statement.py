"""Credits: what is left and for how long, what is reserved, the statement, and what used them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

from msgspec import Struct
from starlette.responses import Response

from kontobahn import credits
from kontobahn.access import keys
from kontobahn.credits import Movement
from kontobahn.dashboard import charts, figures
from kontobahn.dashboard.declare import page
from kontobahn.dashboard.listing import PAGE_SIZE, Filters
from kontobahn.dashboard.views import credits as views
from kontobahn.dashboard.views import use
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.db import Tx

DAYS = 30
USE_DAYS = 14
MAX_CSV_ROWS = 100_000
KINDS = {
    "grant": N_("granted"),
    "reserve": N_("reserved"),
    "confirm": N_("spent"),
    "expire": N_("returned"),
    "lapse": N_("lapsed"),
}


class StatementFilters(Struct):
    kind: str = ""
    endpoint: str = ""
    key: str = ""


class Facts(NamedTuple):
    balance: credits.Balance
    use: list[use.DayUse]
    reservations: list[views.Reservation]
    grants: list[views.Grant]
    by_endpoint: list[views.Use]
    by_key: list[views.Use]
    by_source: list[views.Use]
    lines: list[Movement]
    key_names: dict[str, str]


@page("/credits", poll=15)
async def credit_statement(visit: Visit) -> Response:
    filters = visit.filters(StatementFilters)
    facts = await visit.read(_facts, visit, filters)
    labels = {"kind": _("What"), "endpoint": _("Call"), "key": _("Key")}
    return visit.show(
        "credit_statement.html",
        facts=facts,
        filters=filters,
        list=filters.first_page(facts.lines, lambda line: line.line),
        chips=filters.chips(labels, lambda name, text: _shown(name, text, facts.key_names)),
        kinds={kind: _(text) for kind, text in KINDS.items()},
        days_left=use.days_left(facts.balance.available, facts.use[-USE_DAYS:]),
        chart=_chart(facts.use),
        chart_rows=[(figures.day(day.day), figures.number(day.credits)) for day in facts.use if day.credits],
    )


def _facts(tx: Tx, visit: Visit, filters: Filters[StatementFilters]) -> Facts:
    organization_id = visit.principal.organization_id
    since = visit.today - timedelta(days=DAYS - 1)
    return Facts(
        balance=credits.balance(tx, organization_id),
        use=use.use_by_day(tx, organization_id, visit.today, DAYS),
        reservations=views.reservations(tx, organization_id),
        grants=views.grants(tx, organization_id),
        by_endpoint=views.use_by(tx, organization_id, "endpoint", since),
        by_key=views.use_by(tx, organization_id, "api_key_id", since),
        by_source=views.use_by(tx, organization_id, "quelle", since),
        lines=_lines(tx, organization_id, filters, PAGE_SIZE + 1),
        key_names={key.id: key.name for key in keys.listing(tx, organization_id)},
    )


def _lines(tx: Tx, organization_id: str, filters: Filters[StatementFilters], limit: int) -> list[Movement]:
    wanted = filters.wanted
    before = int(filters.after) if filters.after.isdigit() and len(filters.after) < 19 else 0
    return views.statement(
        tx, organization_id, limit, kind=wanted.kind, endpoint=wanted.endpoint, key=wanted.key, before=before
    )


def _shown(name: str, text: str, key_names: dict[str, str]) -> str:
    return _(KINDS.get(text, text)) if name == "kind" else key_names.get(text, text)


def _chart(days: list[use.DayUse]) -> Any:
    bars = [
        charts.Bar(
            figures.short_day(day.day),
            (day.credits, 0),
            ngettext("%(num)s credit", "%(num)s credits", day.credits),
        )
        for day in days
    ]
    return charts.bars(bars, _("Credits by day, the last %(days)s days", days=DAYS))


@page("/credits.csv")
async def credit_csv(visit: Visit) -> Response:
    organization_id = visit.principal.organization_id
    lines = await visit.read(_lines, organization_id, visit.filters(StatementFilters), MAX_CSV_ROWS)
    found = await visit.read(keys.listing, organization_id)
    names = {key.id: key.name for key in found}
    head = [_("Line"), _("When"), _("What"), _("Credits"), _("Left"), _("Reserved"), _("Call"), _("Key"), _("Source"),
            _("Request")]  # fmt: skip
    rows = [
        (line.line, figures.moment(line.at), _(KINDS.get(line.kind, line.kind)), line.amount, line.available_after,
         line.reserved_after, line.endpoint, names.get(line.api_key_id or "", line.api_key_id or ""), line.quelle,
         line.request_id)
        for line in lines
    ]  # fmt: skip
    return visit.csv("credits", head, rows)
