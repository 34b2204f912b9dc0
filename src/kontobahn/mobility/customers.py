"""Customers who buy transport tickets: their calls, what is sent and answered, their rows, and the tickets added to one."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from kontobahn.access.principal import Principal, ask_in_scope, in_scope
from kontobahn.api.answers import from_row
from kontobahn.api.call import Call
from kontobahn.api.declare import BODY_WITH_ROWS, get, post, put
from kontobahn.api.wire import Answer, Body, ListQuery, OrganizationQuery, Timestamp, Uuid
from kontobahn.db import Rounds, Table, Tx, short_read
from kontobahn.errors import BadRequest, Conflict, NotFound
from kontobahn.ids import new_id
from kontobahn.mobility import seller, wire
from kontobahn.mobility.tickets import MobilityTicket, NewTicket, TicketReport, list_tickets, merge
from kontobahn.mobility.wire import City, Country, Email, Line70, PostalCode, Reference, Street, VatId, check_codes
from kontobahn.sentences import said

# The built-in platform; another one is named when it is connected.
OWN_PLATFORM = "own"
_FIRST_NUMBER = 10_001
MAX_NEW_TICKETS = 10_000
_ERRORS = (403, 404)


class AddressLines(Answer):
    street: str
    postal_code: str
    city: str


class MobilityCustomer(Answer):
    id: Uuid
    organization_id: Uuid
    mobility_customer_id: str | None
    name: str
    address_lines: AddressLines
    created_at: Timestamp
    updated_at: Timestamp


class MobilityCustomerWithTickets(MobilityCustomer):
    customer_number: str
    country_code: str
    email: str | None
    buyer_reference: str | None
    vat_id: str | None
    tickets: list[MobilityTicket]


class NewCustomer(Body):
    # Choice 31: a customer needs name, street, postal_code and city; the rest is ours.
    name: Line70
    street: Street
    postal_code: PostalCode
    city: City
    country_code: Country = "DE"
    mobility_customer_id: Reference | None = None
    email: Email | None = None
    buyer_reference: Annotated[Reference, Meta(description="Leitweg-ID, or the buyer's own reference.")] | None = None
    vat_id: VatId | None = None


class Customer(NamedTuple):
    organization_id: str
    id: str
    provider: str
    customer_number: int
    mobility_customer_id: str | None
    name: str
    street: str
    postal_code: str
    city: str
    country_code: str
    email: str | None
    buyer_reference: str | None
    vat_id: str | None
    created_at: int
    updated_at: int

    @property
    def number_text(self) -> str:
        """The customer number as it is shown and printed."""
        return f"K{self.customer_number}"

    def view(self) -> MobilityCustomer:
        return from_row(MobilityCustomer, self, address_lines=from_row(AddressLines, self))


CUSTOMERS = Table("mobility_customers", Customer)


@get("/v2/mobility/customers", scope="mobility:read", errors=_ERRORS, example=[wire.CUSTOMER])
async def list_customers(call: Call, query: ListQuery) -> list[MobilityCustomer]:
    """List the customers of transport tickets."""
    return await call.read(_list, call.principal.organizations(query.organization_id))


def _list(tx: Tx, organizations: tuple[str, ...]) -> list[MobilityCustomer]:
    rows = CUSTOMERS.all(tx, f"{in_scope(len(organizations))} ORDER BY created_at, id", *organizations)
    return [row.view() for row in rows]


@post(
    "/v2/mobility/customers",
    scope="mobility:write",
    errors=(403, 404, 409),
    body_example=wire.NEW_CUSTOMER,
    example=wire.CUSTOMER,
)
async def create_customer(call: Call, query: OrganizationQuery, body: NewCustomer) -> MobilityCustomer:
    """Create a customer.

    `email` or `buyer_reference` (a Leitweg-ID) is where electronic invoices go; without either, the XML of an invoice is EN 16931
    but no XRechnung.
    """
    return await call.commit(create, call.principal.organization(query.organization_id), body)


@get("/v2/mobility/customers/{id}", scope="mobility:read", errors=_ERRORS, example=wire.CUSTOMER_WITH_TICKETS)
async def get_customer(call: Call, id: Uuid) -> MobilityCustomerWithTickets:
    """Read a customer with all tickets, the earliest first."""
    return await call.read(_show, call.principal, id)


def _show(tx: Tx, principal: Principal, customer_id: str) -> MobilityCustomerWithTickets:
    customer = find(tx, principal, customer_id)
    tickets = list_tickets(tx, customer.organization_id, customer.id)
    return from_row(
        MobilityCustomerWithTickets,
        customer,
        address_lines=from_row(AddressLines, customer),
        customer_number=customer.number_text,
        tickets=[ticket.view() for ticket in tickets],
    )


@put(
    "/v2/mobility/customers/{id}",
    scope="mobility:write",
    errors=(403, 404, 409),
    body_example=wire.NEW_CUSTOMER,
    example=wire.CUSTOMER,
)
async def update_customer(call: Call, id: Uuid, body: NewCustomer) -> MobilityCustomer:
    """Replace a customer's data.

    A field that is left out is removed, not kept. Invoices that were issued stay as they are.
    """
    return await call.commit(_update, call.principal, id, body)


def _update(tx: Tx, principal: Principal, customer_id: str, new: NewCustomer) -> MobilityCustomer:
    known = find(tx, principal, customer_id)
    check_codes(new.country_code, new.vat_id)
    tx.lock("mobility_customers", known.organization_id)
    _refuse_taken(tx, known.organization_id, new.mobility_customer_id, known.id)
    return CUSTOMERS.update(tx, known, **msgspec.structs.asdict(new), updated_at=tx.now).view()


class NewTickets(Body):
    tickets: Annotated[list[NewTicket], Meta(min_length=1, max_length=MAX_NEW_TICKETS)]


@post(
    "/v2/mobility/customers/{id}/tickets",
    scope="mobility:write",
    max_body_bytes=BODY_WITH_ROWS,
    errors=(403, 404, 409),
    body_example={"tickets": [wire.NEW_TICKET]},
    example=[wire.TICKET],
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
            raise BadRequest(said("The field `{field}` is wrong: {why}.", field=field, why=error[1]), field=field)


def _add_tickets(tx: Tx, principal: Principal, customer_id: str, new: list[NewTicket]) -> list[MobilityTicket]:
    customer = find(tx, principal, customer_id)
    reports = [TicketReport(ticket, line=index) for index, ticket in enumerate(new)]
    result = merge(tx, customer.organization_id, customer.id, reports, repeats=False)
    if result.refused:
        first = result.refused[0]
        raise Conflict(
            said("The ticket `tickets[{line}]` is refused: {why}.", line=first.line, why=first.reason),
            field=f"tickets[{first.line}]",
        )
    return [ticket.view() for ticket in result.added]


def create(tx: Tx, organization_id: str, new: NewCustomer) -> MobilityCustomer:
    """Creates a customer of the built-in platform under the next customer number."""
    check_codes(new.country_code, new.vat_id)
    tx.lock("mobility_customers", organization_id)
    _refuse_taken(tx, organization_id, new.mobility_customer_id, None)
    customer = Customer(
        organization_id=organization_id,
        id=new_id(),
        provider=OWN_PLATFORM,
        customer_number=_FIRST_NUMBER - 1 + seller.take_next_number(tx, organization_id, "customers"),
        created_at=tx.now,
        updated_at=tx.now,
        **msgspec.structs.asdict(new),
    )
    CUSTOMERS.insert(tx, customer)
    return customer.view()


def _refuse_taken(tx: Tx, organization_id: str, mobility_customer_id: str | None, own_id: str | None) -> None:
    row = tx.one(
        "SELECT id FROM mobility_customers WHERE organization_id = ? AND mobility_customer_id = ?",
        organization_id, mobility_customer_id,
    )  # fmt: skip
    if row is not None and row[0] != own_id:
        raise Conflict("Another customer has this `mobility_customer_id`.", field="mobility_customer_id")


def by_number(tx: Tx, organization_id: str) -> list[Customer]:
    return CUSTOMERS.all(tx, "organization_id = ? ORDER BY customer_number", organization_id)


@short_read
def find(principal: Principal, customer_id: str) -> Rounds[Customer]:
    return ask_in_scope(CUSTOMERS, principal, "Customer", customer_id.lower())


def reload(tx: Tx, customer: Customer) -> Customer:
    """Returns the customer as this transaction sees it; it may have been found in an earlier one."""
    row = CUSTOMERS.one(tx, "organization_id = ? AND id = ?", customer.organization_id, customer.id)
    assert row is not None, "a customer is never deleted"
    return row


def find_for_operator(tx: Tx, customer_id: str) -> Customer:
    """Finds a customer by its id alone, for the operator's command line. Raises NotFound if there is none."""
    customer = CUSTOMERS.one(tx, "id = ?", customer_id.lower())
    if customer is None:
        raise NotFound(said("There is no mobility customer {id}.", id=customer_id))
    return customer
