"""The use of the API: credits, what used them and what is left; and the calls as they were answered, one of them to repeat."""

from __future__ import annotations

import shlex
from datetime import timedelta
from statistics import median
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from starlette.responses import Response

from kontobahn import credits
from kontobahn.api import request_log
from kontobahn.api.request_log import HIDDEN, DayUse, LoggedRequest, Wanted
from kontobahn.credits import Movement
from kontobahn.dashboard import charts, figures, people
from kontobahn.dashboard.declare import page
from kontobahn.dashboard.lists import PAGE_SIZE, Filters
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.db import Tx

# Credits: what is left and for how long, what is reserved, the statement, and what used them.


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
    use: list[DayUse]
    reservations: list[credits.Reservation]
    grants: list[credits.Grant]
    by_endpoint: list[request_log.Use]
    by_key: list[request_log.Use]
    by_source: list[request_log.Use]
    lines: list[Movement]
    key_names: dict[str, str]


@page("/credits", own=True, poll=15, help="credits")
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
        days_left=days_left(facts.balance.available, facts.use[-USE_DAYS:]),
        chart=_chart(facts.use),
        chart_rows=[(figures.day(day.day), figures.number(day.credits)) for day in facts.use if day.credits],
    )


def _facts(tx: Tx, visit: Visit, filters: Filters[StatementFilters]) -> Facts:
    organization_id = visit.principal.organization_id
    since = visit.today - timedelta(days=DAYS - 1)
    return Facts(
        balance=credits.balance(tx, organization_id),
        use=request_log.by_day(tx, organization_id, visit.today, DAYS),
        reservations=credits.reservations(tx, organization_id),
        grants=credits.grants(tx, organization_id),
        by_endpoint=request_log.totals_by(tx, organization_id, "endpoint", since),
        by_key=request_log.totals_by(tx, organization_id, "api_key_id", since),
        by_source=request_log.totals_by(tx, organization_id, "quelle", since),
        lines=_lines(tx, organization_id, filters, PAGE_SIZE + 1),
        key_names=people.caller_names(tx, organization_id),
    )


def days_left(available: int, use: list[DayUse]) -> int | None:
    """Returns how many days the credits last at the median day of use; None if nothing is used."""
    usual = median(day.credits for day in use) if use else 0
    return int(available / usual) if usual else None


def _lines(tx: Tx, organization_id: str, filters: Filters[StatementFilters], limit: int) -> list[Movement]:
    wanted = filters.wanted
    before = int(filters.after) if filters.after.isdigit() and len(filters.after) < 19 else 0
    return credits.latest(
        tx, organization_id, limit, kind=wanted.kind, endpoint=wanted.endpoint, key=wanted.key, before=before
    )


def _shown(name: str, text: str, key_names: dict[str, str]) -> str:
    return _(KINDS.get(text, text)) if name == "kind" else key_names.get(text, text)


def _chart(days: list[DayUse]) -> Any:
    bars = [
        charts.Bar(
            figures.short_day(day.day),
            (day.credits, 0),
            ngettext("%(num)s credit", "%(num)s credits", day.credits),
        )
        for day in days
    ]
    return charts.bars(bars, _("Credits by day, the last %(days)s days", days=DAYS))


@page("/credits.csv", own=True)
async def credit_csv(visit: Visit) -> Response:
    organization_id = visit.principal.organization_id
    lines = await visit.read(_lines, organization_id, visit.filters(StatementFilters), MAX_CSV_ROWS)
    names = await visit.read(people.caller_names, organization_id)
    head = [_("Line"), _("When"), _("What"), _("Credits"), _("Left"), _("Reserved"), _("Call"), _("Key"), _("Source"),
            _("Request")]  # fmt: skip
    rows = [
        (line.line, figures.moment(line.at), _(KINDS.get(line.kind, line.kind)), line.amount, line.available_after,
         line.reserved_after, line.endpoint, names.get(line.api_key_id or "", line.api_key_id or ""), line.quelle,
         line.request_id)
        for line in lines
    ]  # fmt: skip
    return await visit.csv("credits", head, rows)


# Requests: the calls of the API as they were answered, and one of them to repeat with curl.


REQUEST_DAYS = 30
STATUSES = {"2": N_("answered (2xx)"), "4": N_("refused (4xx)"), "5": N_("failed (5xx)")}
# Whoever repeats a call puts the secret here; it is not stored.
PLACEHOLDER = "$KONTOBAHN_KEY"


class RequestFilters(Struct):
    key: str = ""
    quelle: str = ""
    endpoint: str = ""
    status: Literal["", "2", "4", "5"] = ""
    request_id: str = ""


class Listed(NamedTuple):
    rows: list[LoggedRequest]
    key_names: dict[str, str]
    # For a choice: values and texts.
    endpoints: list[tuple[str, str]]
    sources: list[tuple[str, str]]


@page("/requests", own=True, poll=5, help="requests")
async def requests(visit: Visit) -> Response:
    filters = visit.filters(RequestFilters)
    listed = await visit.read(_listed, visit, filters)
    statuses = {value: _(text) for value, text in STATUSES.items()}
    labels = {"key": _("Key"), "quelle": _("Source"), "endpoint": _("Call"), "status": _("Answer"),
              "request_id": _("Request ID")}  # fmt: skip
    return visit.show(
        "requests.html",
        filters=filters,
        list=filters.first_page(listed.rows, lambda row: row.id),
        chips=filters.chips(labels, lambda name, text: _shown_request(name, text, statuses, listed.key_names)),
        statuses=statuses.items(),
        listed=listed,
        kind=kind_of,
        days=visit.context.settings.request_log_days,
        most=visit.context.settings.request_log_rows,
    )


def _listed(tx: Tx, visit: Visit, filters: Filters[RequestFilters]) -> Listed:
    organization_id, wanted = visit.principal.organization_id, filters.wanted
    before = int(filters.after) if filters.after.isdigit() and len(filters.after) < 19 else 0
    found = Wanted(wanted.key, wanted.quelle, wanted.endpoint, int(wanted.status or 0), wanted.request_id.strip())
    return Listed(
        rows=request_log.logged(tx, organization_id, found, before=before, limit=PAGE_SIZE + 1),
        key_names=people.caller_names(tx, organization_id),
        endpoints=_known(tx, visit, "endpoint"),
        sources=_known(tx, visit, "quelle"),
    )


def _known(tx: Tx, visit: Visit, column: request_log.Column) -> list[tuple[str, str]]:
    since = visit.today - timedelta(days=REQUEST_DAYS)
    found = request_log.totals_by(tx, visit.principal.organization_id, column, since)
    return sorted((item.name, item.name) for item in found if item.name)


def _shown_request(name: str, text: str, statuses: dict[str, str], key_names: dict[str, str]) -> str:
    return {"status": statuses, "key": key_names}.get(name, {}).get(text, text)


def kind_of(status: int) -> str:
    """The colour of an answer."""
    return "good" if status < 400 else "warn" if status < 500 else "bad"


@page("/requests/{id}", own=True, help="requests")
async def request(visit: Visit, id: str) -> Response:
    number = int(id) if id.isdigit() and len(id) < 19 else 0
    organization_id = visit.principal.organization_id
    found = await visit.read(request_log.find, organization_id, number)
    if found is None:
        raise visit.principal.missing("Request")
    names = await visit.read(people.caller_names, organization_id)
    return visit.show(
        "request.html",
        request=found,
        key_name=names.get(found.api_key_id),
        kind=kind_of(found.status),
        curl=curl(visit.context.settings.base_url, found) if found.endpoint else "",
        is_hidden=HIDDEN in found.target,
    )


def curl(base_url: str, logged: LoggedRequest) -> str:
    """A command that makes the same call. What is not stored has to be filled in: the secret, hidden values, the body."""
    method = logged.endpoint.partition(" ")[0]
    parts = ["curl", "-i"]
    if method != "GET":
        parts += ["-X", method]
    parts += ["-H", f'"x-api-key: {PLACEHOLDER}"']
    if method in ("POST", "PUT"):
        parts += ["-H", "'content-type: application/json'", "--data", "@body.json"]
    return " ".join([*parts, shlex.quote(base_url + logged.target)])
