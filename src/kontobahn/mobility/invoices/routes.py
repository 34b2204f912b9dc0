"""Collective invoices over HTTP: issued for a customer, listed, and read as JSON, PDF and XML."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, ask_in_scope, in_scope
from kontobahn.api.answers import from_row
from kontobahn.api.call import Call
from kontobahn.api.declare import delete, get, post, put
from kontobahn.api.wire import Answer, Download, ListQuery, OrganizationQuery, Timestamp, Upload, Uuid, check_date_range
from kontobahn.db import Rounds, Tx, short_read
from kontobahn.errors import BadRequest, SetupError
from kontobahn.mobility import customers, seller, wire
from kontobahn.mobility.customers import Customer
from kontobahn.mobility.invoices import documents
from kontobahn.mobility.invoices.documents import MEDIA_TYPES
from kontobahn.mobility.invoices.rules import Line
from kontobahn.mobility.invoices.store import SUMMARIES, InvoiceRow, InvoiceSummary, issue, load
from kontobahn.mobility.invoices.typesetter import Kind
from kontobahn.mobility.seller import Logo, MediaType
from kontobahn.mobility.tickets import Mobility, Month, PlatformCustomer, TicketReport, VatRate
from kontobahn.sentences import said

_ERRORS = (403, 404)
DocumentType = Literal["invoice", "correction"]
Url = Annotated[str, Meta(extra_json_schema={"format": "uri"})]


class InvoicesQuery(ListQuery, kw_only=True):
    customer_id: Annotated[Uuid, Meta(description="Only this customer's.")] | None = None
    from_date: Annotated[date, Meta(description="Invoiced on this day or later.")] | None = None
    to_date: Annotated[date, Meta(description="Invoiced on this day or earlier.")] | None = None


class MobilityInvoice(Answer):
    id: Uuid
    organization_id: Uuid
    customer_id: Uuid
    mobility_invoice_id: str
    invoice_number: str | None
    invoice_pdf_url: Url | None
    amount_in_cents: int
    ticket_count: int
    invoiced_at: Timestamp
    created_at: Timestamp


class InvoiceLine(Answer):
    position: int
    ticket_id: Uuid
    product: str
    holder_reference: str
    valid_from: Month
    valid_to: Month
    vat_rate: VatRate
    net_in_cents: int
    amount_in_cents: int
    credited_invoice_number: str | None


class VatSum(Answer):
    vat_rate: VatRate
    net_in_cents: int
    vat_in_cents: int
    rounding_in_cents: int
    amount_in_cents: int


class MobilityInvoiceWithLines(MobilityInvoice):
    type: DocumentType
    issued_on: date
    due_on: date | None
    net_in_cents: int
    vat_in_cents: int
    rounding_in_cents: int
    vat_sums: list[VatSum]
    lines: list[InvoiceLine]
    invoice_xml_url: Url


@post(
    "/v2/mobility/customers/{id}/invoice",
    scope="mobility:write",
    errors=(403, 404, 409, 503),
    moves_money=True,
    example=wire.INVOICE,
)
async def create_invoice(call: Call, id: Uuid) -> MobilityInvoice:
    """Create a collective invoice for the customer.

    It takes every ticket not yet invoiced and credits every cancelled one that was, in one transaction. Nothing of either: 409.
    Seller's data that are missing: 409 with their names in `missing`. `amount_in_cents` is the total including VAT, negative when
    more is credited than charged; the document then is a correction. An invoice takes at most 5,000 tickets, those of the earliest
    months; the header `X-Tickets-Left` says how many stay for the next one.
    """
    customer = await call.read_inline(customers.find, call.principal, id)
    reports = await _ask_platform(call.context.part(Mobility), customer)

    def unit(tx: Tx) -> MobilityInvoice:
        issued = issue(tx, customer, reports)
        call.headers[b"x-tickets-left"] = b"%d" % issued.tickets_left
        return _view(issued.invoice, call.context.settings.base_url)

    invoice = await call.commit(unit)
    await documents.try_make(call.context.db, invoice.organization_id, invoice.id)
    return invoice


async def _ask_platform(mobility: Mobility, customer: Customer) -> Sequence[TicketReport]:
    platform = mobility.platforms.get(customer.provider)
    if platform is None:
        raise SetupError(
            said("The ticket platform “{name}” is not set up in this installation.", name=customer.provider)
        )
    return await platform.tickets(
        PlatformCustomer(customer.organization_id, customer.id, customer.mobility_customer_id)
    )


@get("/v2/mobility/invoices", scope="mobility:read", errors=_ERRORS, example=[wire.INVOICE])
async def list_invoices(call: Call, query: InvoicesQuery) -> list[MobilityInvoice]:
    """List the collective invoices, by customer and by day, the earliest first."""
    check_date_range(query.from_date, query.to_date)
    return await call.read(_list, call.principal, query, call.context.settings.base_url)


def _list(tx: Tx, principal: Principal, query: InvoicesQuery, base_url: str) -> list[MobilityInvoice]:
    organizations = principal.organizations(query.organization_id)
    where, values = in_scope(len(organizations)), [*organizations]
    if query.customer_id is not None:
        customer = customers.find(tx, principal, query.customer_id)
        where, values = f"{where} AND customer_id = ?", [*values, customer.id]
    if query.from_date is not None:
        where, values = f"{where} AND issued_on >= ?", [*values, query.from_date.isoformat()]
    if query.to_date is not None:
        where, values = f"{where} AND issued_on <= ?", [*values, query.to_date.isoformat()]
    return [_view(row, base_url) for row in SUMMARIES.all(tx, f"{where} ORDER BY issued_on, id", *values)]


@get("/v2/mobility/invoices/{id}", scope="mobility:read", errors=_ERRORS, example=wire.INVOICE_WITH_LINES)
async def get_invoice(call: Call, id: Uuid) -> MobilityInvoiceWithLines:
    """Read a collective invoice with its lines and its sums by VAT rate."""
    return await call.read(_show, call.principal, id, call.context.settings.base_url)


@short_read
def _find(principal: Principal, invoice_id: str) -> Rounds[InvoiceSummary]:
    return ask_in_scope(SUMMARIES, principal, "Invoice", invoice_id.lower())


def _show(tx: Tx, principal: Principal, invoice_id: str, base_url: str) -> MobilityInvoiceWithLines:
    found = _find(tx, principal, invoice_id)
    _, facts = load(tx, found.organization_id, found.id)
    return MobilityInvoiceWithLines(
        **msgspec.structs.asdict(_view(found, base_url)),
        type="correction" if facts.is_correction else "invoice",
        issued_on=facts.issued_on,
        due_on=facts.due_on,
        net_in_cents=facts.net_in_cents,
        vat_in_cents=facts.vat_in_cents,
        rounding_in_cents=facts.rounding_in_cents,
        vat_sums=[from_row(VatSum, item) for item in facts.sums],
        lines=[_view_line(line) for line in facts.lines],
        invoice_xml_url=f"{base_url}/v2/mobility/invoices/{found.id}/xml",
    )


def _view(row: InvoiceRow | InvoiceSummary, base_url: str) -> MobilityInvoice:
    # Choice 31: it points to this service and needs the key.
    return from_row(MobilityInvoice, row, invoice_pdf_url=f"{base_url}/v2/mobility/invoices/{row.id}/pdf")


def _view_line(line: Line) -> InvoiceLine:
    shared = {name: getattr(line, name) for name in InvoiceLine.__struct_fields__ if name in Line._fields}
    return InvoiceLine(credited_invoice_number=line.credited_number, **shared)


@get("/v2/mobility/invoices/{id}/pdf", scope="mobility:read", errors=_ERRORS, media_types=(MEDIA_TYPES["pdf"],))
async def get_invoice_pdf(call: Call, id: Uuid) -> Download:
    """Read the invoice as PDF/A-3 with the EN 16931 XML inside (ZUGFeRD, Factur-X)."""
    return await _download(call, id, "pdf")


@get("/v2/mobility/invoices/{id}/xml", scope="mobility:read", errors=_ERRORS, media_types=(MEDIA_TYPES["xml"],))
async def get_invoice_xml(call: Call, id: Uuid) -> Download:
    """Read the invoice as XRechnung; as plain EN 16931 if the customer has no electronic address."""
    return await _download(call, id, "xml")


async def _download(call: Call, invoice_id: str, kind: Kind) -> Download:
    invoice = await call.read_inline(_find, call.principal, invoice_id)
    document = await documents.fetch(call.context.db, invoice.organization_id, invoice.id, kind)
    return Download(document.content, MEDIA_TYPES[kind], document.file_name)


# The logo over HTTP: set, read, removed. Invoices that were issued keep theirs.


_PATH = "/v2/mobility/seller/logo"
_ENDINGS: dict[MediaType, str] = {"image/png": "png", "image/jpeg": "jpg"}


class LogoAnswer(Answer):
    media_type: MediaType
    width: Annotated[int, Meta(description="In pixels.")]
    height: int
    sha256: Annotated[str, Meta(description="The file's checksum.")]


class RemovedLogoAnswer(Answer):
    removed: bool


@get(_PATH, scope="mobility:read", errors=_ERRORS, media_types=tuple(_ENDINGS))
async def get_logo(call: Call, query: OrganizationQuery) -> Download:
    """Read the logo that the next invoice will show. 404 if there is none."""
    organization_id = call.principal.organization(query.organization_id)
    found = await call.read(seller.current_logo, organization_id)
    if found is None:
        raise call.principal.missing("Logo")
    return Download(found.content, found.media_type, f"logo.{_ENDINGS[found.media_type]}")


@put(
    _PATH,
    scope="mobility:write",
    role="admin",
    max_body_bytes=seller.MAX_LOGO_BYTES,
    errors=(403, 404, 503),
    example=wire.LOGO,
)
async def save_logo(call: Call, query: OrganizationQuery, body: Upload) -> LogoAnswer:
    """Set the logo in the letterhead of invoices: a PNG or JPEG picture of up to 256 KiB and 4,000 pixels on a side.

    It is printed once for a try; what cannot be printed is refused. Invoices that were issued stay as they are.
    """
    organization_id = call.principal.organization(query.organization_id)
    return await call.commit(_save, organization_id, await received(body), call.actor)


@delete(_PATH, scope="mobility:write", role="admin", errors=_ERRORS)
async def delete_logo(call: Call, query: OrganizationQuery) -> RemovedLogoAnswer:
    """Make further invoices without a logo."""
    organization_id = call.principal.organization(query.organization_id)
    return await call.commit(_remove, call.principal, organization_id, call.actor)


async def received(upload: Upload) -> Logo:
    """Returns the picture that was sent. Raises BadRequest if it is none, or cannot be printed."""
    upload.file.seek(0)
    checked = await asyncio.to_thread(seller.check_logo, upload.file.read(seller.MAX_LOGO_BYTES + 1))
    if not await documents.can_be_printed(checked):
        raise BadRequest("This picture cannot be printed. Save it again with another program.", field="logo")
    return checked


def _save(tx: Tx, organization_id: str, new: Logo, actor: Actor) -> LogoAnswer:
    seller.save_logo(tx, organization_id, new, actor)
    return from_row(LogoAnswer, new)


def _remove(tx: Tx, principal: Principal, organization_id: str, actor: Actor) -> RemovedLogoAnswer:
    seller.load_locked(tx, organization_id)
    if seller.current_logo(tx, organization_id) is None:
        raise principal.missing("Logo")
    seller.save_logo(tx, organization_id, None, actor)
    return RemovedLogoAnswer(removed=True)
