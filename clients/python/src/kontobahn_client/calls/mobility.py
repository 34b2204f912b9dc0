"""Transport-ticket customers and their collective invoices.

A declaration is all there is of a call: its path, and its parameters and answer by their types.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from datetime import date

from kontobahn_client.calls.declarations import delete, get, post, put
from kontobahn_client.models.common import File
from kontobahn_client.models.mobility import (
    LogoAnswer,
    MobilityCustomer,
    MobilityCustomerWithTickets,
    MobilityInvoice,
    MobilityInvoiceWithLines,
    MobilityTicket,
    NewCustomer,
    NewTickets,
    RemovedLogoAnswer,
    Seller,
    SellerAnswer,
)
from kontobahn_client.transport.exchange import FileBody


class MobilityCalls:
    @get("/v2/mobility/customers")
    def list_customers(self, *, organization_id: str | None = None) -> list[MobilityCustomer]:
        """List the customers of transport tickets."""

    @post("/v2/mobility/customers")
    def create_customer(
        self, body: NewCustomer, *, organization_id: str | None = None, idempotency_key: str | None = None
    ) -> MobilityCustomer:
        """Create a customer."""

    @get("/v2/mobility/customers/{id}")
    def get_customer(self, id: str) -> MobilityCustomerWithTickets:
        """Read a customer with all tickets, the earliest first."""

    @put("/v2/mobility/customers/{id}")
    def update_customer(self, id: str, body: NewCustomer, *, idempotency_key: str | None = None) -> MobilityCustomer:
        """Replace a customer's data."""

    @post("/v2/mobility/customers/{id}/tickets")
    def create_tickets(self, id: str, body: NewTickets, *, idempotency_key: str | None = None) -> list[MobilityTicket]:
        """Add tickets to a customer, all of them or none."""

    @post("/v2/mobility/tickets/{id}/cancel")
    def cancel_ticket(self, id: str, *, idempotency_key: str | None = None) -> MobilityTicket:
        """Cancel a ticket."""

    @post("/v2/mobility/customers/{id}/invoice")
    def create_invoice(self, id: str, *, idempotency_key: str | None = None) -> MobilityInvoice:
        """Create a collective invoice for the customer."""

    @get("/v2/mobility/invoices")
    def list_invoices(
        self,
        *,
        organization_id: str | None = None,
        customer_id: str | None = None,
        from_date: date | None = None,
        to_date: date | None = None,
    ) -> list[MobilityInvoice]:
        """List the collective invoices, by customer and by day, the earliest first."""

    @get("/v2/mobility/invoices/{id}")
    def get_invoice(self, id: str) -> MobilityInvoiceWithLines:
        """Read a collective invoice with its lines and its sums by VAT rate."""

    @get("/v2/mobility/invoices/{id}/pdf")
    def get_invoice_pdf(self, id: str) -> File:
        """Read the invoice as PDF/A-3 with the EN 16931 XML inside (ZUGFeRD, Factur-X)."""

    @get("/v2/mobility/invoices/{id}/xml")
    def get_invoice_xml(self, id: str) -> File:
        """Read the invoice as XRechnung; as plain EN 16931 if the customer has no electronic address."""

    @get("/v2/mobility/seller")
    def get_seller(self, *, organization_id: str | None = None) -> SellerAnswer:
        """Read how the organisation stands on its invoices, and what is still missing."""

    @put("/v2/mobility/seller")
    def save_seller(
        self, body: Seller | None = None, *, organization_id: str | None = None, idempotency_key: str | None = None
    ) -> SellerAnswer:
        """Set the organisation's name, address, tax numbers, bank account and invoice numbers, all at once."""

    @get("/v2/mobility/seller/logo")
    def get_logo(self, *, organization_id: str | None = None) -> File:
        """Read the logo that the next invoice will show."""

    @put("/v2/mobility/seller/logo")
    def save_logo(
        self, file: FileBody, *, organization_id: str | None = None, idempotency_key: str | None = None
    ) -> LogoAnswer:
        """Set the logo in the letterhead of invoices: a PNG or JPEG picture."""

    @delete("/v2/mobility/seller/logo")
    def delete_logo(self, *, organization_id: str | None = None) -> RemovedLogoAnswer:
        """Make further invoices without a logo."""
