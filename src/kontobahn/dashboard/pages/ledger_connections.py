"""Accounting connections: their status, what they may do with one sentence for each refusal, and renewing one that has ended."""

from __future__ import annotations

from msgspec import Struct
from starlette.responses import Response

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.answers import Data
from kontobahn.api.wire import Name
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.forms import help_url_of, words_of
from kontobahn.dashboard.pages import ledger_online
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx
from kontobahn.errors import KontobahnError
from kontobahn.ledger import connections
from kontobahn.ledger.connections import ClientQuery, LedgerConnection
from kontobahn.ledger.own_books import OwnBooks
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


@page("/ledger/connections", help="ledger-connections")
async def ledger_connections(visit: Visit) -> Response:
    found = await visit.read(connections.listing, (visit.organization_id,))
    closed = await visit.read(connections.closed, visit.organization_id)
    return visit.show(
        "ledger_connections.html", connections=found, closed=closed, states=STATUS, online=ledger_online.offered(visit)
    )


@page("/ledger/connections/{id}", help="ledger-connections")
async def ledger_connection(visit: Visit, id: str) -> Response:
    found = await _find(visit, id)
    problem = help_url = ""
    rights: list[tuple[str, ProbeEintrag, str]] = []
    try:
        answer: Data[Rechte] = await visit.ask(
            rewe_read.get_permissions, query=ClientQuery(connection_id=found.id)
        )  # fmt: skip
    except KontobahnError as error:
        # A connection without books yet, or a provider that is down: its page is there nevertheless.
        problem, help_url = words_of(error), help_url_of(error)
    else:
        for area, name in AREAS.items():
            entry: ProbeEintrag = getattr(answer.data, area)
            rights.append((_(name), entry, _(_TO_DO.get(entry.status, ""))))
    is_closed = found.id in await visit.read(connections.closed, visit.organization_id)
    online = await ledger_online.online_of(visit, await visit.read(connections.find, visit.principal, id))
    return visit.show(
        "ledger_connection.html", connection=found, rights=rights, problem=problem, explained_at=help_url, states=STATUS,
        is_closed=is_closed, online=online,
        client_choices=[(one.client_id, f"{one.name} ({one.client_id})") for one in online.clients] if online else [],
    )  # fmt: skip


@page("/ledger/connections/{id}/reconnect", help="ledger-connections")
async def reconnect_page(visit: Visit, id: str) -> Response:
    """The page that `reconnectUrl` leads to."""
    return visit.show("ledger_reconnect.html", connection=await _find(visit, id), states=STATUS)


@action("/ledger/connections/{id}/reconnect", role="admin", confirm=True)
async def reconnect(visit: Visit, id: str) -> Response:
    connection = await visit.read(connections.find, visit.principal, id)
    online = await ledger_online.online_of(visit, connection)
    if online is not None:
        return await ledger_online.set_out(visit, online.provider, connection)
    await visit.write(_renew, visit.principal, id, visit.actor)
    return visit.redirect(f"{PATH}/{id}", _("The connection works again."))


def _renew(tx: Tx, principal: Principal, connection_id: str, actor: Actor) -> None:
    found = connections.find(tx, principal, connection_id)
    connections.set_status(tx, found, "connected")
    audit.record(tx, found.organization_id, actor, "ledger_connection.renew", found.id)


# --- Named and closed


class Named(Struct):
    name: Name


@action("/ledger/connections/{id}/name", role="admin")
async def rename(visit: Visit, id: str) -> Response:
    wanted = visit.form.read(Named)
    if wanted is not None:
        await visit.write(_rename, visit, id, wanted.name)
        return visit.redirect(f"{PATH}/{id}", _("The books are now called “%(name)s”.", name=wanted.name))
    response: Response = await ledger_connection.handler(visit, id)
    return response


def _rename(tx: Tx, visit: Visit, connection_id: str, name: str) -> None:
    found = connections.find(tx, visit.principal, connection_id)
    connections.rename(tx, found, name)
    keeping = visit.context.part(OwnBooks)
    clients = keeping.versteuerungen(tx, found) if found.provider == keeping.provider else {}
    if len(clients) == 1:
        # The connection of one client goes by the client's name.
        keeping.rename(tx, found, next(iter(clients)), name)
    audit.record(tx, found.organization_id, visit.actor, "ledger_connection.rename", found.id, name=name)


@page("/ledger/connections/{id}/close", role="admin", help="ledger-connections")
async def ask_to_close(visit: Visit, id: str) -> Response:
    found = await _find(visit, id)
    return visit.ask_first(
        title=_("Close the books “%(name)s”?", name=found.bezeichnung or found.id),
        text=_("Nothing is deleted. The books can neither be read nor written until somebody opens them again."),
        button=_("Close the books"),
        back=f"{PATH}/{found.id}",
    )


@action("/ledger/connections/{id}/close", role="admin", confirm=True)
async def close(visit: Visit, id: str) -> Response:
    if await ledger_online.online_of(visit, await visit.read(connections.find, visit.principal, id)) is not None:
        # Its tokens must be revoked, which takes the provider.
        return visit.redirect(f"{PATH}/{id}/disconnect")
    await visit.write(_close, visit.principal, id, visit.actor)
    return visit.redirect(PATH, _("The books are closed."))


def _close(tx: Tx, principal: Principal, connection_id: str, actor: Actor) -> None:
    found = connections.find(tx, principal, connection_id)
    connections.close(tx, found)
    audit.record(tx, found.organization_id, actor, "ledger_connection.close", found.id)


async def _find(visit: Visit, connection_id: str) -> LedgerConnection:
    await visit.read(connections.find, visit.principal, connection_id)
    found = await visit.read(connections.listing, visit.principal.scope)
    return next(item for item in found if item.id == connection_id.lower())
