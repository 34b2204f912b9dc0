"""Invoices: the list, one with its PDF beside it, its files, and the seller's data that they need."""

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
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.mobility import customers, seller
from kontobahn.mobility.customers import MobilityCustomer
from kontobahn.mobility.invoices import letterhead, routes, store
from kontobahn.mobility.seller import Seller
from kontobahn.money import from_minor

PATH = f"{ROOT}/invoices"
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
            await visit.write(seller.save_logo, visit.organization_id, await letterhead.received(upload), visit.actor)
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
