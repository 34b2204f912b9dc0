"""Accounting connections: their status, what they may do with one sentence for each refusal, and renewing one that has ended."""

from __future__ import annotations

from starlette.responses import Response

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.answers import Data
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.forms import words_of
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx
from kontobahn.errors import KontobahnError
from kontobahn.ledger import connections
from kontobahn.ledger.connections import ClientQuery, LedgerConnection
from kontobahn.ledger.permissions import ProbeEintrag, Rechte
from kontobahn.ledger.routes import rewe_read

PATH = f"{ROOT}/ledger/connections"
STATUS = {
    "connected": (N_("connected"), "good"),
    "pending": (N_("not finished"), "warn"),
    "expired": (N_("expired"), "bad"),
    "revoked": (N_("revoked"), "bad"),
    "error": (N_("failing"), "bad"),
}
AREAS = {
    "stammdaten": N_("Master data and fiscal years"),
    "konten": N_("Accounts"),
    "buchungen": N_("Bookings and open items"),
    "susa": N_("Trial balance"),
    "zahlungsbedingungen": N_("Terms of payment"),
    "personenkonten": N_("Partners"),
    "kassenbuch": N_("Cash book"),
    "belege": N_("Receipts"),
}
_TO_DO = {
    "permission": N_("Ask your tax adviser to grant this right to the account that the connection uses."),
    "expired": N_("Renew the connection."),
    "error": N_("The accounting program did not answer as it should. Try again later."),
    "unknown": N_("This will be known once the master data can be read."),
}


@page("/ledger/connections")
async def ledger_connections(visit: Visit) -> Response:
    found = await visit.read(connections.listing, (visit.organization_id,))
    return visit.show("ledger_connections.html", connections=found, states=STATUS)


@page("/ledger/connections/{id}")
async def ledger_connection(visit: Visit, id: str) -> Response:
    found = await _find(visit, id)
    problem = ""
    rights: list[tuple[str, ProbeEintrag, str]] = []
    try:
        answer: Data[Rechte] = await visit.ask(
            rewe_read.get_permissions, query=ClientQuery(connection_id=found.id)
        )  # fmt: skip
    except KontobahnError as error:
        # A connection without books yet, or a provider that is down: its page is there nevertheless.
        problem = words_of(error)
    else:
        for area, name in AREAS.items():
            entry: ProbeEintrag = getattr(answer.data, area)
            rights.append((_(name), entry, _(_TO_DO.get(entry.status, ""))))
    return visit.show("ledger_connection.html", connection=found, rights=rights, problem=problem, states=STATUS)


@page("/ledger/connections/{id}/reconnect")
async def reconnect_page(visit: Visit, id: str) -> Response:
    """The page that `reconnectUrl` leads to."""
    return visit.show("ledger_reconnect.html", connection=await _find(visit, id), states=STATUS)


@action("/ledger/connections/{id}/reconnect", role="admin", confirm=True)
async def reconnect(visit: Visit, id: str) -> Response:
    await visit.write(_renew, visit.principal, id, visit.actor)
    return visit.redirect(f"{PATH}/{id}", _("The connection works again."))


def _renew(tx: Tx, principal: Principal, connection_id: str, actor: Actor) -> None:
    found = connections.find(tx, principal, connection_id)
    connections.set_status(tx, found, "connected")
    audit.record(tx, found.organization_id, actor, "ledger_connection.renew", found.id)


async def _find(visit: Visit, connection_id: str) -> LedgerConnection:
    await visit.read(connections.find, visit.principal, connection_id)
    found = await visit.read(connections.listing, visit.principal.scope)
    return next(item for item in found if item.id == connection_id.lower())
