"""Tickets over HTTP: added to a customer, all or none, and cancelled."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kontobahn.access.principal import Principal, find_in_scope
from kontobahn.api.call import Call
from kontobahn.api.declare import post
from kontobahn.api.wire import Body, Uuid
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.mobility import customers, examples
from kontobahn.mobility.provider import TicketReport
from kontobahn.mobility.tickets.merge import merge
from kontobahn.mobility.tickets.ticket import TICKETS, MobilityTicket, NewTicket, lock

MAX_TICKETS = 10_000


class NewTickets(Body):
    tickets: Annotated[list[NewTicket], Meta(min_length=1, max_length=MAX_TICKETS)]


@post(
    "/v2/mobility/customers/{id}/tickets",
    scope="mobility:write",
    errors=(403, 404, 409),
    body_example={"tickets": [examples.NEW_TICKET]},
    example=[examples.TICKET],
)
async def create_tickets(call: Call, id: Uuid, body: NewTickets) -> list[MobilityTicket]:
    """Add tickets to a customer, all of them or none.

    `price_in_cents` includes VAT. What is invoiced is the price less `discount_in_cents`; `employer_share_in_cents` says how much
    of it the employer bears, and changes nothing. A second ticket for the same holder and product in the same month is refused.
    """
    await call.off_loop(_check, body.tickets)
    return await call.commit(_add_tickets, call.principal, id, body.tickets)


def _check(tickets: list[NewTicket]) -> None:
    for index, new in enumerate(tickets):
        error = new.find_error()
        if error is not None:
            field = f"tickets[{index}].{error[0]}"
            raise BadRequest(f"The field `{field}` is wrong: {error[1]}.", field=field)


def _add_tickets(tx: Tx, principal: Principal, customer_id: str, new: list[NewTicket]) -> list[MobilityTicket]:
    customer = customers.find(tx, principal, customer_id)
    reports = [TicketReport(ticket, line=index) for index, ticket in enumerate(new)]
    result = merge(tx, customer.organization_id, customer.id, reports, repeats=False)
    if result.refused:
        first = result.refused[0]
        raise Conflict(
            f"The ticket `tickets[{first.line}]` is refused: {first.reason}.", field=f"tickets[{first.line}]"
        )
    return [ticket.view() for ticket in result.added]


@post(
    "/v2/mobility/tickets/{id}/cancel",
    scope="mobility:write",
    statuses=(200,),
    errors=(403, 404),
    example=examples.CANCELLED,
)
async def cancel_ticket(call: Call, id: Uuid) -> MobilityTicket:
    """Cancel a ticket.

    An open one is not billed any more. One that was invoiced is credited by the customer's next invoice. Doing it again changes
    nothing.
    """
    return await call.commit(_cancel, call.principal, id.lower())


def _cancel(tx: Tx, principal: Principal, ticket_id: str) -> MobilityTicket:
    ticket = find_in_scope(tx, TICKETS, principal, "Ticket", ticket_id)
    lock(tx, ticket.organization_id, ticket.customer_id)
    # Read again under the lock: an invoice may have been issued in between.
    ticket = find_in_scope(tx, TICKETS, principal, "Ticket", ticket_id)
    if ticket.is_live:
        ticket = TICKETS.update(tx, ticket, status="cancelled", updated_at=tx.now)
    return ticket.view()
