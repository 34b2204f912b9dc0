"""Customers of transport tickets: their data, their tickets, tickets from a CSV file, and the invoice made of what is open."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from starlette.responses import Response

from kontobahn.api.wire import ListQuery, OrganizationQuery
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.forms import words_of
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.errors import BadRequest
from kontobahn.mobility import customers, seller, ticket_file, tickets
from kontobahn.mobility.customers import NewCustomer
from kontobahn.mobility.invoices import routes as invoices
from kontobahn.mobility.invoices import store as invoice_store
from kontobahn.mobility.tickets import ImportRefused, ImportReport

PATH = f"{ROOT}/customers"
TICKET_STATES = {
    "open": (N_("open"), "warn"),
    "invoiced": (N_("invoiced"), "good"),
    "cancelled": (N_("cancelled"), "plain"),
    "credited": (N_("credited"), "plain"),
}


class TicketFilters(Struct):
    status: str = ""


@page("/customers", help="customers")
async def customers_page(visit: Visit) -> Response:
    found = await visit.ask(customers.list_customers, query=ListQuery(organization_id=visit.organization_id))
    open_tickets = await visit.read(tickets.open_by_customer, visit.organization_id)
    return visit.show("mobility_customers.html", customers=found, open_tickets=open_tickets)


@page("/customers/new", role="bookkeeping", help="customers")
async def new_customer(visit: Visit) -> Response:
    return visit.show("mobility_customer_form.html", customer=None, known={"country_code": "DE"})


@action("/customers/new")
async def create_customer(visit: Visit) -> Response:
    wanted = visit.form.read(NewCustomer)
    if wanted is not None:
        with visit.form.refusals():
            made = await visit.ask(
                customers.create_customer, query=OrganizationQuery(organization_id=visit.organization_id), body=wanted
            )
            return visit.redirect(f"{PATH}/{made.id}", _("%(name)s is now a customer.", name=made.name))
    response: Response = await new_customer.handler(visit)
    return response


@page("/customers/{id}", help="customers")
async def customer_page(visit: Visit, id: str) -> Response:
    return await _show(visit, id)


async def _show(visit: Visit, customer_id: str, report: ImportReport | None = None) -> Response:
    filters = visit.filters(TicketFilters)
    customer = await visit.read(customers.find, visit.principal, customer_id)
    status = filters.wanted.status if filters.wanted.status in TICKET_STATES else ""
    found = await visit.read(
        tickets.latest, customer.organization_id, customer.id, PAGE_SIZE + 1, status=status, after=filters.after
    )
    return visit.show(
        "mobility_customer.html",
        customer=customer,
        due=await visit.read(tickets.due, customer.organization_id, customer.id),
        invoices=await visit.read(invoice_store.latest, customer.organization_id, 6, customer_id=customer.id),
        missing=(await visit.read(seller.show, customer.organization_id)).missing,
        filters=filters,
        list=filters.first_page(found, lambda ticket: f"{ticket.valid_from}.{ticket.id}"),
        states={state: (_(text), kind) for state, (text, kind) in TICKET_STATES.items()},
        report=report,
    )


@page("/customers/{id}/edit", role="bookkeeping", help="customers")
async def edit_customer(visit: Visit, id: str) -> Response:
    customer = await visit.read(customers.find, visit.principal, id)
    return visit.show("mobility_customer_form.html", customer=customer, known=customer._asdict())


@action("/customers/{id}/edit")
async def save_customer(visit: Visit, id: str) -> Response:
    wanted = visit.form.read(NewCustomer)
    if wanted is not None:
        with visit.form.refusals():
            saved = await visit.ask(customers.update_customer, id=id, body=wanted)
            return visit.redirect(f"{PATH}/{saved.id}", _("Your changes have been saved."))
    response: Response = await edit_customer.handler(visit, id)
    return response


@action("/customers/{id}/tickets", takes_file=True)
async def upload_tickets(visit: Visit, id: str) -> Response:
    """Takes a file whole or not at all, unless the box is ticked; tickets that are already there are left alone."""
    customer = await visit.read(customers.find, visit.principal, id)
    upload = await visit.receive_file()
    try:
        content = await visit.off_loop(lambda: ticket_file.read(upload.file.read()))
        report = await visit.write(
            tickets.import_tickets, customer.organization_id, customer.id, content.reports, content.refused,
            partial=visit.form.text("partial") == "1",
        )  # fmt: skip
    except ImportRefused as refusal:
        visit.form.fail("", _("Nothing was imported. These rows cannot be imported:"))
        return await _show(visit, id, refusal.report)
    except BadRequest as error:
        visit.form.fail("", words_of(error))
        return await _show(visit, id)
    finally:
        upload.file.close()
    if report.refused:
        return await _show(visit, id, report)
    text = ngettext("One ticket is new.", "%(num)s tickets are new.", report.taken)
    return visit.redirect(f"{PATH}/{customer.id}", text)


@action("/customers/{id}/tickets/{ticket}/cancel")
async def cancel_ticket(visit: Visit, id: str, ticket: str) -> Response:
    cancelled: Any = await visit.ask(tickets.cancel_ticket, id=ticket)
    text = (
        _("The ticket has been cancelled. The next invoice credits it.")
        if cancelled.invoice_id
        else _("The ticket has been cancelled.")
    )
    return visit.redirect(f"{PATH}/{id}", text)


@page("/customers/{id}/invoice", role="bookkeeping", help="customers")
async def preview(visit: Visit, id: str) -> Response:
    """Shows what the invoice would charge and credit, before it is made."""
    customer = await visit.read(customers.find, visit.principal, id)
    return visit.show(
        "mobility_preview.html",
        customer=customer,
        due=await visit.read(tickets.due, customer.organization_id, customer.id),
        groups=await visit.read(tickets.due_by_product, customer.organization_id, customer.id),
        missing=(await visit.read(seller.show, customer.organization_id)).missing,
    )


@action("/customers/{id}/invoice")
async def make_invoice(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        made: Any = await visit.ask(invoices.create_invoice, id=id)
    if visit.form.is_good:
        text = _("Invoice %(number)s has been created.", number=made.invoice_number)
        return visit.redirect(f"{ROOT}/invoices/{made.id}", text)
    response: Response = await preview.handler(visit, id)
    return response
