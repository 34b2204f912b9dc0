"""Transmissions to an accounting provider that carries them out in its own time, and what became of each."""

from __future__ import annotations

from msgspec import Struct
from starlette.responses import Response

from kontobahn.dashboard.declare import page
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_
from kontobahn.errors import NotFound
from kontobahn.ledger import connections, transmissions
from kontobahn.ledger.provider import Ledger
from kontobahn.ledger.uebermittlung import view

STATES = {
    "OPEN": (N_("waiting"), "warn"),
    "IN_PROGRESS": (N_("under way"), "warn"),
    "SUCCESS": (N_("done"), "good"),
    "PARTIAL_SUCCESS": (N_("done in part"), "bad"),
    "FAILED": (N_("refused"), "bad"),
    "UNKNOWN": (N_("not known"), "bad"),
}
KINDS = {
    "KASSENBUCH": N_("Cash entry"),
    "PERSONENKONTO": N_("Partner"),
    "BUCHUNGSSTAPEL": N_("Booking batch"),
}
# To be done about it by a person.
TO_DO = {
    "PARTIAL_SUCCESS": N_("The messages say what is missing. Enter that alone: the rest would be booked twice."),
    "UNKNOWN": N_("Look at the provider whether it is there, before you send it again."),
}


class NoFilters(Struct):
    """The list has pages, and nothing to choose."""


@page("/ledger/connections/{id}/transmissions", poll=10, help="ledger-connections")
async def transmission_list(visit: Visit, id: str) -> Response:
    connection = await visit.read(connections.find, visit.principal, id)
    provider = visit.context.part(Ledger).online(connection.provider)
    if provider is None:
        raise NotFound("There is no such page.")
    filters = visit.filters(NoFilters)
    rows = await visit.read(transmissions.listing, connection, None, filters.after or None, PAGE_SIZE + 1)
    return visit.show(
        "ledger_transmissions.html",
        connection=connection,
        provider=provider,
        list=filters.first_page([view(row) for row in rows], lambda one: one.id),
        states=STATES,
        kinds=KINDS,
        to_do=TO_DO,
    )
