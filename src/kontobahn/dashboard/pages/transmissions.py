"""Transmissions to an accounting provider that carries them out in its own time, and what became of each."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct
from starlette.responses import Response

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.visit import QUELLE, Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx
from kontobahn.errors import NotFound
from kontobahn.ledger import connections, transmissions
from kontobahn.ledger.kassenbuch import ReceiptImage
from kontobahn.ledger.provider import FOLLOWED_BY_FILE, Author, ConnectionRef, Ledger
from kontobahn.ledger.uebermittlung import Uebermittlung, view

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


class Sent(NamedTuple):
    sent: Uebermittlung
    # A person decides whether it is sent again, or its file handed over.
    waits: bool
    followed_by: str | None


PATH = f"{ROOT}/ledger/connections"


@page("/ledger/connections/{id}/transmissions", poll=10, help="ledger-connections")
async def transmission_list(visit: Visit, id: str) -> Response:
    connection = await visit.read(connections.find, visit.principal, id)
    provider = visit.context.part(Ledger).online(connection.provider)
    if provider is None:
        raise NotFound("There is no such page.")
    filters = visit.filters(NoFilters)
    rows = await visit.read(transmissions.listing, connection, None, filters.after or None, PAGE_SIZE + 1)
    shown = [Sent(view(row), transmissions.waits_for_a_person(row), row.followed_by) for row in rows]
    return visit.show(
        "ledger_transmissions.html",
        connection=connection,
        provider=provider,
        list=filters.first_page(shown, lambda one: one.sent.id),
        states=STATES,
        kinds=KINDS,
        to_do=TO_DO,
        by_file=FOLLOWED_BY_FILE,
    )


# --- After one has failed


@page("/ledger/connections/{id}/transmissions/{sent}/send-again", role="bookkeeping", help="ledger-connections")
async def ask_to_send_again(visit: Visit, id: str, sent: str) -> Response:
    await visit.read(connections.find, visit.principal, id)
    return visit.ask_first(
        title=_("Send the batch again?"),
        text=_("Look at the accounting provider first whether the batch is there: if it is, everything would be booked twice."),
        button=_("Send again"),
        back=f"{PATH}/{id}/transmissions",
    )  # fmt: skip


@action("/ledger/connections/{id}/transmissions/{sent}/send-again")
async def send_again(visit: Visit, id: str, sent: str) -> Response:
    connection = await visit.read(connections.find, visit.principal, id)
    author = Author(visit.exchange.request_id, QUELLE, visit.actor.name)
    await visit.write(_send_again, connection, sent, author, visit.actor)
    return visit.redirect(
        f"{PATH}/{connection.id}/transmissions", _("The batch is sent again. Its outcome appears here.")
    )


def _send_again(tx: Tx, connection: ConnectionRef, sent: str, author: Author, actor: Actor) -> None:
    made = transmissions.send_again(tx, connection, sent, author)
    audit.record(tx, connection.organization_id, actor, "ledger_transmission.again", made.id, name=made.title)


@action("/ledger/connections/{id}/transmissions/{sent}/file")
async def take_file(visit: Visit, id: str, sent: str) -> Response:
    """The file of a batch that failed, to be handed over by a person from now on."""
    connection = await visit.read(connections.find, visit.principal, id)
    file = await visit.write(_take_file, connection, sent, visit.actor)
    return visit.download(file.content, file.mime_typ, file.dateiname)


def _take_file(tx: Tx, connection: ConnectionRef, sent: str, actor: Actor) -> ReceiptImage:
    file = transmissions.take_file(tx, connection, sent)
    audit.record(tx, connection.organization_id, actor, "ledger_transmission.file", sent.lower(), name=file.dateiname)
    return file
