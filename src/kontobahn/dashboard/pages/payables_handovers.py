"""Received invoices for whoever keeps the books elsewhere: what waits to be handed over, and what was."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.pages.audit_log import names_of_actors
from kontobahn.dashboard.pages.order_files import NoFilters
from kontobahn.dashboard.pages.transmissions import STATES
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import ngettext
from kontobahn.db import Tx
from kontobahn.ledger.connections import list_clients
from kontobahn.ledger.provider import Transmission
from kontobahn.payables import handover
from kontobahn.payables.handover import HandoverRow, NewHandover

PATH = f"{ROOT}/payables/handovers"


class HandoverForm(Struct):
    connection_id: Annotated[str, Meta(min_length=1, max_length=64)]
    client_id: Annotated[str, Meta(max_length=64)] = ""


@page("/payables/handovers", help="payables-handover")
async def handovers(visit: Visit) -> Response:
    filters = visit.filters(NoFilters)
    rows, waiting, sent = await visit.read(_facts, visit.organization_id, filters.after[:64])
    names = {
        (one.connection_id, one.client_id): one.name for one in await list_clients(visit.context, visit.organization_id)
    }
    return visit.show(
        "payables_handovers.html",
        sent=sent,
        states=STATES,
        list=filters.first_page(rows, lambda row: row.id),
        waiting=[(*books, names.get(books, books[1]), number) for books, number in sorted(waiting.items())],
        names=names,
        authors=await names_of_actors(visit, visit.organization_id),
        at=PATH,
    )


def _facts(
    tx: Tx, organization_id: str, before: str
) -> tuple[list[HandoverRow], dict[tuple[str, str], int], dict[str, list[Transmission]]]:
    """Hand-overs, invoices that wait by books, and the files of each hand-over that go to a provider by themselves."""
    rows = handover.latest(tx, organization_id, before, PAGE_SIZE + 1)
    sent = {row.id: handover.sent_files(tx, row) for row in rows}
    return rows, handover.count_waiting(tx, organization_id), sent


@action("/payables/handovers")
async def hand_over(visit: Visit) -> Response:
    wanted = visit.form.read(HandoverForm)
    if wanted is not None:
        with visit.form.refusals(connection_id="", client_id=""):
            body = NewHandover(connection_id=wanted.connection_id, client_id=wanted.client_id or None)
            made = (await visit.ask(handover.create_payables_handover, body=body)).data
            text = ngettext("One invoice was handed over.", "%(num)s invoices were handed over.", made.invoices)
            return visit.redirect(PATH, text)
    response: Response = await handovers.handler(visit)
    return response


@page("/payables/handovers/{id}/file")
async def handover_file(visit: Visit, id: str) -> Response:
    return visit.stream(await visit.ask(handover.get_payables_handover_file, id=id[:64]))
