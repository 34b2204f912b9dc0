"""The mobility area over HTTP: customers, their tickets, collective invoices with their documents, the seller's data."""

from __future__ import annotations

from kontobahn.api.call import Call
from kontobahn.api.declare import get, post, put
from kontobahn.api.wire import Download, ListQuery, OrganizationQuery, Uuid
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict, SetupError
from kontobahn.mobility import customers, documents, examples, invoices, seller, tickets
from kontobahn.mobility.customers import Customer
from kontobahn.mobility.documents import MEDIA_TYPES, Kind
from kontobahn.mobility.model import (
    InvoicesQuery,
    MobilityCustomer,
    MobilityCustomerWithTickets,
    MobilityInvoice,
    MobilityInvoiceWithLines,
    MobilityTicket,
    NewCustomer,
    NewTickets,
    Seller,
    SellerAnswer,
)
from kontobahn.mobility.provider import Mobility, PlatformCustomer, TicketReport

_ERRORS = (403, 404)


@get("/v2/mobility/customers", errors=_ERRORS, example=[examples.CUSTOMER])
async def list_customers(call: Call, query: ListQuery) -> list[MobilityCustomer]:
    """List the customers of transport tickets."""
    return await call.read(customers.listing, call.principal.organizations(query.organization_id))


@post(
    "/v2/mobility/customers",
    errors=(403, 404, 409),
    body_example=examples.NEW_CUSTOMER,
    example=examples.CUSTOMER,
)
async def create_customer(call: Call, query: OrganizationQuery, body: NewCustomer) -> MobilityCustomer:
    """Create a customer.

    `email` or `buyer_reference` (a Leitweg-ID) is where electronic invoices go; without either, the XML of an invoice is EN 16931
    but no XRechnung.
    """
    return await call.commit(customers.create, call.principal.organization(query.organization_id), body)


@get("/v2/mobility/customers/{id}", errors=_ERRORS, example=examples.CUSTOMER_WITH_TICKETS)
async def get_customer(call: Call, id: Uuid) -> MobilityCustomerWithTickets:
    """Read a customer with all tickets, the earliest first."""
    return await call.read(_with_tickets, call, id)


@put(
    "/v2/mobility/customers/{id}",
    errors=(403, 404, 409),
    body_example=examples.NEW_CUSTOMER,
    example=examples.CUSTOMER,
)
async def update_customer(call: Call, id: Uuid, body: NewCustomer) -> MobilityCustomer:
    """Replace what is known of a customer.

    A field that is left out is gone, not kept. Invoices that were issued stay as they are.
    """
    return await call.commit(customers.update, call.principal, id, body)


def _with_tickets(tx: Tx, call: Call, customer_id: str) -> MobilityCustomerWithTickets:
    customer = customers.find(tx, call.principal, customer_id)
    view = customer.view()
    return MobilityCustomerWithTickets(
        **{name: getattr(view, name) for name in view.__struct_fields__},
        customer_number=customer.customer_number,
        country_code=customer.country_code,
        email=customer.email,
        buyer_reference=customer.buyer_reference,
        vat_id=customer.vat_id,
        tickets=[ticket.view() for ticket in tickets.of_customer(tx, customer)],
    )


# --- Tickets


@post(
    "/v2/mobility/customers/{id}/tickets",
    errors=(403, 404, 409),
    body_example={"tickets": [examples.NEW_TICKET]},
    example=[examples.TICKET],
)
async def create_tickets(call: Call, id: Uuid, body: NewTickets) -> list[MobilityTicket]:
    """Add tickets to a customer, all of them or none.

    `price_in_cents` includes VAT. What is invoiced is the price less `discount_in_cents`; `employer_share_in_cents` says how much
    of it the employer bears, and changes nothing. A second ticket for the same holder and product in the same month is refused.
    """
    for place, new in enumerate(body.tickets):
        wrong = tickets.check(new)
        if wrong is not None:
            field = f"tickets[{place}].{wrong[0]}"
            raise BadRequest(f"The field `{field}` is wrong: {wrong[1]}.", field=field)
    return await call.commit(_add_tickets, call, id, body)


def _add_tickets(tx: Tx, call: Call, customer_id: str, body: NewTickets) -> list[MobilityTicket]:
    customer = customers.find(tx, call.principal, customer_id)
    reports = [TicketReport(new, line=place) for place, new in enumerate(body.tickets)]
    outcome = tickets.merge(tx, customer, reports, repeats=False)
    if outcome.refused:
        first = outcome.refused[0]
        raise Conflict(
            f"The ticket `tickets[{first.line}]` is refused: {first.reason}.", field=f"tickets[{first.line}]"
        )
    return [ticket.view() for ticket in outcome.taken]


@post("/v2/mobility/tickets/{id}/cancel", statuses=(200,), errors=_ERRORS, example=examples.CANCELLED)
async def cancel_ticket(call: Call, id: Uuid) -> MobilityTicket:
    """Cancel a ticket.

    An open one is not billed any more. One that was invoiced is credited by the customer's next invoice. Doing it again changes
    nothing.
    """
    return await call.commit(tickets.cancel, call.principal, id)


# --- Invoices


@post("/v2/mobility/customers/{id}/invoice", errors=(403, 404, 409, 503), moves_money=True, example=examples.INVOICE)
async def create_invoice(call: Call, id: Uuid) -> MobilityInvoice:
    """Create a collective invoice for the customer.

    It takes every ticket not yet invoiced and credits every cancelled one that was, in one transaction. Nothing of either: 409.
    Seller's data that are missing: 409 with their names in `missing`. `amount_in_cents` is the total including VAT, negative when
    more is credited than charged; the document then is a correction.
    """
    customer = await call.read_inline(customers.find, call.principal, id)
    reports = await _platform(call, customer)
    invoice = await call.commit(invoices.issue, customer, reports, call.context.settings.base_url)
    await documents.make_soon(call.context.db, invoice.organization_id, invoice.id)
    return invoice


async def _platform(call: Call, customer: Customer) -> list[TicketReport]:
    mobility = call.context.part(Mobility)
    platform = mobility.platforms.get(customer.provider)
    if platform is None:
        raise SetupError(f"The ticket platform “{customer.provider}” is not set up in this installation.")
    asked = PlatformCustomer(customer.organization_id, customer.id, customer.mobility_customer_id)
    return list(await platform.tickets(asked))


@get("/v2/mobility/invoices", errors=_ERRORS, example=[examples.INVOICE])
async def list_invoices(call: Call, query: InvoicesQuery) -> list[MobilityInvoice]:
    """List the collective invoices, by customer and by day, the earliest first."""
    organizations = call.principal.organizations(query.organization_id)
    return await call.read(_invoices, call, organizations, query)


def _invoices(tx: Tx, call: Call, organizations: tuple[str, ...], query: InvoicesQuery) -> list[MobilityInvoice]:
    if query.customer_id is not None:
        customers.find(tx, call.principal, query.customer_id)
    return invoices.listing(tx, organizations, query, call.context.settings.base_url)


@get("/v2/mobility/invoices/{id}", errors=_ERRORS, example=examples.INVOICE_WITH_LINES)
async def get_invoice(call: Call, id: Uuid) -> MobilityInvoiceWithLines:
    """Read a collective invoice with its lines and its sums by VAT rate."""
    return await call.read(invoices.show, call.principal, id, call.context.settings.base_url)


@get("/v2/mobility/invoices/{id}/pdf", errors=_ERRORS, media_types=(MEDIA_TYPES["pdf"],))
async def get_invoice_pdf(call: Call, id: Uuid) -> Download:
    """Read the invoice as PDF/A-3 with the EN 16931 XML inside (ZUGFeRD, Factur-X)."""
    return await _document(call, id, "pdf")


@get("/v2/mobility/invoices/{id}/xml", errors=_ERRORS, media_types=(MEDIA_TYPES["xml"],))
async def get_invoice_xml(call: Call, id: Uuid) -> Download:
    """Read the invoice as XRechnung; as plain EN 16931 where the customer has no electronic address."""
    return await _document(call, id, "xml")


async def _document(call: Call, invoice_id: str, kind: Kind) -> Download:
    organization_id = await call.read_inline(invoices.organization_of, call.principal, invoice_id)
    document = await documents.fetch(call.context.db, organization_id, invoice_id.lower(), kind)
    return Download(document.content, MEDIA_TYPES[kind], document.file_name)


# --- The seller


# Choice 31: the seller's data are settings of the organisation.
@get("/v2/mobility/seller", errors=_ERRORS, example=examples.SELLER)
async def get_seller(call: Call, query: OrganizationQuery) -> SellerAnswer:
    """Read how the organisation stands on its invoices, and what is still missing."""
    return await call.read(seller.show, call.principal.organization(query.organization_id))


@put(
    "/v2/mobility/seller",
    role="admin",
    errors=_ERRORS,
    body_example=examples.NEW_SELLER,
    example=examples.SELLER,
)
async def save_seller(call: Call, query: OrganizationQuery, body: Seller) -> SellerAnswer:
    """Set the organisation's name, address, tax numbers, bank account and invoice numbers, all at once.

    A field that is left out is gone, not kept. Invoices that were issued stay as they are.
    """
    return await call.commit(
        seller.save, call.principal.organization(query.organization_id), seller.check(body), call.actor
    )
