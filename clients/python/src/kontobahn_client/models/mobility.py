"""Customers, tickets and invoices. Names are those of the API."""

from __future__ import annotations

from datetime import date, datetime

from kontobahn_client.models.common import Answer, Body


class NewCustomer(Body, kw_only=True):
    name: str
    street: str
    postal_code: str
    city: str
    country_code: str | None = None
    mobility_customer_id: str | None = None
    email: str | None = None
    buyer_reference: str | None = None
    vat_id: str | None = None


class NewTicket(Body, kw_only=True):
    product: str
    holder_reference: str
    valid_from: str
    price_in_cents: int
    vat_rate: int
    valid_to: str | None = None
    discount_in_cents: int | None = None
    employer_share_in_cents: int | None = None
    reference: str | None = None


class NewTickets(Body, kw_only=True):
    tickets: list[NewTicket]


class Seller(Body, kw_only=True):
    """The organisation as it stands on its invoices. What is left out is gone, not kept."""

    name: str | None = None
    street: str | None = None
    postal_code: str | None = None
    city: str | None = None
    country_code: str | None = None
    vat_id: str | None = None
    tax_number: str | None = None
    iban: str | None = None
    bic: str | None = None
    bank_name: str | None = None
    contact_name: str | None = None
    contact_phone: str | None = None
    contact_email: str | None = None
    website: str | None = None
    register_entry: str | None = None
    managing_directors: str | None = None
    vat_exemption_reason: str | None = None
    payment_days: int | None = None
    invoice_number_prefix: str | None = None
    invoice_number_digits: int | None = None


class AddressLines(Answer, kw_only=True):
    street: str
    postal_code: str
    city: str


class MobilityCustomer(Answer, kw_only=True):
    id: str
    organization_id: str
    mobility_customer_id: str | None = None
    name: str
    address_lines: AddressLines
    created_at: datetime
    updated_at: datetime


class MobilityTicket(Answer, kw_only=True):
    id: str
    customer_id: str
    reference: str | None = None
    product: str
    holder_reference: str
    valid_from: str
    valid_to: str
    price_in_cents: int
    discount_in_cents: int
    employer_share_in_cents: int | None = None
    amount_in_cents: int
    vat_rate: int
    status: str
    invoice_id: str | None = None
    credit_invoice_id: str | None = None
    created_at: datetime
    updated_at: datetime


class MobilityCustomerWithTickets(MobilityCustomer, kw_only=True):
    customer_number: str
    country_code: str
    email: str | None = None
    buyer_reference: str | None = None
    vat_id: str | None = None
    tickets: list[MobilityTicket]


class MobilityInvoice(Answer, kw_only=True):
    id: str
    organization_id: str
    customer_id: str
    mobility_invoice_id: str
    invoice_number: str | None = None
    invoice_pdf_url: str | None = None
    amount_in_cents: int
    ticket_count: int
    invoiced_at: datetime
    created_at: datetime


class InvoiceLine(Answer, kw_only=True):
    position: int
    ticket_id: str
    product: str
    holder_reference: str
    valid_from: str
    valid_to: str
    vat_rate: int
    net_in_cents: int
    amount_in_cents: int
    credited_invoice_number: str | None = None


class VatSum(Answer, kw_only=True):
    vat_rate: int
    net_in_cents: int
    vat_in_cents: int
    rounding_in_cents: int
    amount_in_cents: int


class MobilityInvoiceWithLines(MobilityInvoice, kw_only=True):
    type: str
    issued_on: date
    due_on: date | None = None
    net_in_cents: int
    vat_in_cents: int
    rounding_in_cents: int
    vat_sums: list[VatSum]
    lines: list[InvoiceLine]
    invoice_xml_url: str


class LogoAnswer(Answer, kw_only=True):
    media_type: str
    width: int
    height: int
    sha256: str


class RemovedLogoAnswer(Answer, kw_only=True):
    removed: bool


class SellerAnswer(Answer, kw_only=True):
    seller: Seller
    missing: list[str]
