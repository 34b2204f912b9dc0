"""Transport tickets: the customers and their tickets, the invoices made of them, and the seller's data that these need."""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec
from msgspec import Struct
from starlette.responses import Response

from kontobahn.api.wire import Download, ListQuery, OrganizationQuery
from kontobahn.dashboard import figures
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.refusals import words_of
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.errors import BadRequest
from kontobahn.mobility import customers, seller, ticket_file, tickets
from kontobahn.mobility.customers import MobilityCustomer, NewCustomer
from kontobahn.mobility.invoices import routes, store
from kontobahn.mobility.invoices import routes as invoices
from kontobahn.mobility.invoices import store as invoice_store
from kontobahn.mobility.seller import Seller
from kontobahn.mobility.tickets import ImportRefused, ImportReport
from kontobahn.money import from_minor

# Customers of transport tickets: their data, their tickets, tickets from a CSV file, and the invoice made of what is
# open.


CUSTOMERS_PATH = f"{ROOT}/customers"
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
            return visit.redirect(f"{CUSTOMERS_PATH}/{made.id}", _("%(name)s is now a customer.", name=made.name))
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
            return visit.redirect(f"{CUSTOMERS_PATH}/{saved.id}", _("Your changes have been saved."))
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
    return visit.redirect(f"{CUSTOMERS_PATH}/{customer.id}", text)


@action("/customers/{id}/tickets/{ticket}/cancel")
async def cancel_ticket(visit: Visit, id: str, ticket: str) -> Response:
    cancelled: Any = await visit.ask(tickets.cancel_ticket, id=ticket)
    text = (
        _("The ticket has been cancelled. The next invoice credits it.")
        if cancelled.invoice_id
        else _("The ticket has been cancelled.")
    )
    return visit.redirect(f"{CUSTOMERS_PATH}/{id}", text)


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


# Invoices: the list, one with its PDF beside it, its files, and the seller's data that they need.


INVOICES_PATH = f"{ROOT}/invoices"
MAX_CSV_ROWS = 20_000
# Without these there is no invoice; of VAT id and tax number, one is enough.
NEEDED = {
    *Seller().missing_fields(set()), "vat_id", "tax_number", "country_code", "payment_days", "invoice_number_digits",
    "invoice_number_prefix",
}  # fmt: skip
SELLER_FIELDS = {
    "name": N_("Name"),
    "street": N_("Street and number"),
    "postal_code": N_("Postal code"),
    "city": N_("City"),
    "country_code": N_("Country (two letters)"),
    "vat_id": N_("VAT identification number"),
    "tax_number": N_("Tax number"),
    "vat_id or tax_number": N_("VAT identification number or tax number"),
    "iban": N_("IBAN"),
    "bic": N_("BIC"),
    "bank_name": N_("Bank"),
    "contact_name": N_("Contact person"),
    "contact_phone": N_("Telephone"),
    "contact_email": N_("E-mail address"),
    "website": N_("Website"),
    "register_entry": N_("Commercial register"),
    "managing_directors": N_("Managing directors"),
    "vat_exemption_reason": N_("Reason for tax exemption, if tickets are sold at 0 %"),
    "payment_days": N_("Payment period in days"),
    "invoice_number_prefix": N_("Invoice numbers begin with"),
    "invoice_number_digits": N_("Digits of the sequential number"),
}


class InvoiceFilters(Struct):
    from_date: date | None = None
    to_date: date | None = None
    customer: str = ""


@page("/invoices", help="invoices")
async def invoices_page(visit: Visit) -> Response:
    filters = visit.filters(InvoiceFilters)
    wanted = filters.wanted
    names = await _names(visit)
    found = await visit.read(
        store.latest, visit.organization_id, PAGE_SIZE + 1,
        customer_id=wanted.customer, since=wanted.from_date, until=wanted.to_date, after=filters.after,
    )  # fmt: skip
    labels = {"from_date": _("From"), "to_date": _("Until"), "customer": _("Customer")}
    return visit.show(
        "mobility_invoices.html",
        filters=filters,
        list=filters.first_page(found, lambda invoice: invoice.id),
        names=names,
        chips=filters.chips(labels, lambda name, text: names.get(text, text)),
    )


async def _names(visit: Visit) -> dict[str, str]:
    found: list[MobilityCustomer] = await visit.ask(
        customers.list_customers, query=ListQuery(organization_id=visit.organization_id)
    )
    return {customer.id: customer.name for customer in found}


@page("/invoices.csv")
async def invoices_csv(visit: Visit) -> Response:
    wanted = visit.filters(InvoiceFilters).wanted
    found = await visit.read(
        store.latest, visit.organization_id, MAX_CSV_ROWS,
        customer_id=wanted.customer, since=wanted.from_date, until=wanted.to_date,
    )  # fmt: skip
    names = await _names(visit)
    rows = [
        (item.invoice_number, figures.day(item.invoiced_at), names.get(item.customer_id, ""), item.ticket_count,
         from_minor(item.amount_in_cents))
        for item in found
    ]  # fmt: skip
    return await visit.csv("invoices", [_("Number"), _("Day"), _("Customer"), _("Tickets"), _("Amount")], rows)


@page("/invoices/{id}", help="invoices")
async def invoice_page(visit: Visit, id: str) -> Response:
    invoice: Any = await visit.ask(routes.get_invoice, id=id)
    customer = await visit.read(customers.find, visit.principal, invoice.customer_id)
    return visit.show("mobility_invoice.html", frames=True, invoice=invoice, customer=customer)


@page("/invoices/{id}/view")
async def invoice_view(visit: Visit, id: str) -> Response:
    """The PDF inside the page."""
    found: Download = await visit.ask(routes.get_invoice_pdf, id=id)
    return visit.framed(found.content, found.media_type, found.file_name)


@page("/invoices/{id}/pdf")
async def invoice_pdf(visit: Visit, id: str) -> Response:
    found: Download = await visit.ask(routes.get_invoice_pdf, id=id)
    return visit.download(found.content, found.media_type, found.file_name)


@page("/invoices/{id}/xml")
async def invoice_xml(visit: Visit, id: str) -> Response:
    found: Download = await visit.ask(routes.get_invoice_xml, id=id)
    return visit.download(found.content, found.media_type, found.file_name)


@page("/seller", help="seller")
async def seller_page(visit: Visit) -> Response:
    found = await visit.read(seller.show, visit.organization_id)
    stored = msgspec.structs.asdict(found.seller)
    return visit.show(
        "mobility_seller.html",
        known={name: "" if value is None else value for name, value in stored.items()},
        missing=[_(SELLER_FIELDS[name]) for name in found.missing],
        labels={name: _(text) for name, text in SELLER_FIELDS.items()},
        # Not to save them, but to make an invoice.
        needed=NEEDED,
        logo=await visit.read(seller.current_logo, visit.organization_id),
        most=seller.MAX_LOGO_BYTES,
    )


@page("/seller/logo")
async def seller_logo(visit: Visit) -> Response:
    found = await visit.read(seller.current_logo, visit.organization_id)
    if found is None:
        raise visit.principal.missing("Logo")
    return visit.framed(found.content, found.media_type, "logo")


@action("/seller/logo", role="admin", takes_file=True)
async def save_logo(visit: Visit) -> Response:
    upload = await visit.receive_optional_file()
    if upload is None:
        visit.form.fail("", _("Please choose a file."))
    else:
        with visit.form.refusals():
            await visit.write(seller.save_logo, visit.organization_id, await routes.received(upload), visit.actor)
            return visit.redirect(f"{ROOT}/seller", _("The logo will appear on invoices from now on."))
    response: Response = await seller_page.handler(visit)
    return response


@action("/seller/logo/remove", role="admin")
async def remove_logo(visit: Visit) -> Response:
    await visit.write(seller.save_logo, visit.organization_id, None, visit.actor)
    return visit.redirect(f"{ROOT}/seller", _("Invoices will be issued without a logo from now on."))


@action("/seller", role="admin")
async def save_seller(visit: Visit) -> Response:
    wanted = visit.form.read(Seller)
    if wanted is not None:
        with visit.form.refusals():
            answer: Any = await visit.ask(
                seller.save_seller, query=OrganizationQuery(organization_id=visit.organization_id), body=wanted
            )
            text = _("Saved. Something is still missing.") if answer.missing else _("Saved. Invoices can be created.")
            return visit.redirect(f"{ROOT}/seller", text)
    response: Response = await seller_page.handler(visit)
    return response
