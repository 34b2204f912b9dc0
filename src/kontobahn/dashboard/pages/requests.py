"""Requests: the calls of the API as they were answered, and one of them to repeat with curl."""

from __future__ import annotations

import shlex
from datetime import timedelta
from typing import Literal, NamedTuple

from msgspec import Struct
from starlette.responses import Response

from kontobahn.api import request_log
from kontobahn.api.request_log import HIDDEN, LoggedRequest, Wanted
from kontobahn.dashboard import callers
from kontobahn.dashboard.declare import page
from kontobahn.dashboard.lists import PAGE_SIZE, Filters
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx

USE_DAYS = 30
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
        chips=filters.chips(labels, lambda name, text: _shown(name, text, statuses, listed.key_names)),
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
        key_names=callers.names(tx, organization_id),
        endpoints=_known(tx, visit, "endpoint"),
        sources=_known(tx, visit, "quelle"),
    )


def _known(tx: Tx, visit: Visit, column: request_log.Column) -> list[tuple[str, str]]:
    since = visit.today - timedelta(days=USE_DAYS)
    found = request_log.totals_by(tx, visit.principal.organization_id, column, since)
    return sorted((item.name, item.name) for item in found if item.name)


def _shown(name: str, text: str, statuses: dict[str, str], key_names: dict[str, str]) -> str:
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
    names = await visit.read(callers.names, organization_id)
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
