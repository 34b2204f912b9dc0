"""The mobility area on the wire, in the contract's spelling. Answers are bare: no `data` around them."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from msgspec import Meta

from kontobahn.api.wire import Answer, Body, ListQuery, Timestamp, Uuid, form

TicketStatus = Literal["open", "invoiced", "cancelled", "credited"]
# Choice 31: the rates there are in Germany; 0 needs a reason, which is the seller's.
VatRate = Literal[0, 7, 19]
DocumentType = Literal["invoice", "correction"]
MOST_TICKETS = 10_000
LARGEST_PRICE_IN_CENTS = 99_999_999
LONGEST_MONTHS = 24

_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff"
_BLANK = r" \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
# `$` alone would let a line feed at the end pass.
_START = r"^(?!.*\n)"
ONE_LINE = rf"{_START}[^{_BLANK}{_CONTROL}][^{_CONTROL}]*$"
_one_line = form("one line of text that does not begin with a blank", ONE_LINE)
Line70 = Annotated[str, _one_line, Meta(max_length=70, examples=["Musterbetrieb GmbH"])]
Line100 = Annotated[str, _one_line, Meta(max_length=100, examples=["Deutschlandticket Job"])]
Line200 = Annotated[str, _one_line, Meta(max_length=200, examples=["Umsatzsteuerfrei nach § 4 UStG"])]
Reference = Annotated[str, _one_line, Meta(max_length=64, examples=["PN-10423"])]
PostalCode = Annotated[str, _one_line, Meta(max_length=12, examples=["10115"])]
City = Annotated[str, _one_line, Meta(max_length=70, examples=["Berlin"])]
Street = Annotated[str, _one_line, Meta(max_length=70, examples=["Musterstraße 1"])]
Country = Annotated[str, form("a country code like DE", rf"{_START}[A-Z]{{2}}$", examples=["DE"])]
Email = Annotated[
    str,
    form(
        "an e-mail address",
        rf"{_START}[^@{_BLANK}{_CONTROL}]{{2,64}}@([^@.{_BLANK}{_CONTROL}]+\.)+[^@.{_BLANK}{_CONTROL}]{{2,}}$",
        max_length=120,
        examples=["rechnung@musterbetrieb.example"],
    ),
]
Phone = Annotated[
    str, form("a phone number with at least three digits", rf"{_START}[+0-9][0-9 ()/-]*([0-9][ ()/-]*){{3}}$", max_length=40,
              examples=["+49 30 1234567"])
]  # fmt: skip
VatId = Annotated[
    str, form("a VAT id like DE123456789", rf"{_START}[A-Z]{{2}}[A-Z0-9]{{2,12}}$", examples=["DE123456789"])
]
Month = Annotated[
    str, form("a calendar month like 2026-03", rf"{_START}20[0-9]{{2}}-(0[1-9]|1[0-2])$", examples=["2026-03"])
]
Cents = Annotated[int, Meta(ge=0, le=LARGEST_PRICE_IN_CENTS)]


class InvoicesQuery(ListQuery, kw_only=True):
    customer_id: Annotated[Uuid, Meta(description="Only this customer's.")] | None = None
    from_date: Annotated[date, Meta(description="Invoiced on this day or later.")] | None = None
    to_date: Annotated[date, Meta(description="Invoiced on this day or earlier.")] | None = None


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


class NewCustomer(Body):
    # Choice 31: name, street, postal_code and city make a customer; the rest is ours.
    name: Line70
    street: Street
    postal_code: PostalCode
    city: City
    country_code: Country = "DE"
    mobility_customer_id: Reference | None = None
    email: Email | None = None
    buyer_reference: Annotated[Reference, Meta(description="Leitweg-ID, or the buyer's own reference.")] | None = None
    vat_id: VatId | None = None


class NewTicket(Body):
    product: Line100
    holder_reference: Annotated[Reference, Meta(description="A pseudonym or personnel number, not a name.")]
    valid_from: Month
    price_in_cents: Cents
    vat_rate: VatRate
    valid_to: Month | None = None
    discount_in_cents: Cents = 0
    employer_share_in_cents: Cents | None = None
    reference: Annotated[Reference, Meta(description="The ticket's number where it was sold.")] | None = None


class NewTickets(Body):
    tickets: Annotated[list[NewTicket], Meta(min_length=1, max_length=MOST_TICKETS)]


class MobilityTicket(Answer):
    id: Uuid
    customer_id: Uuid
    reference: str | None
    product: str
    holder_reference: str
    valid_from: Month
    valid_to: Month
    price_in_cents: int
    discount_in_cents: int
    employer_share_in_cents: int | None
    amount_in_cents: int
    vat_rate: VatRate
    status: TicketStatus
    invoice_id: Uuid | None
    credit_invoice_id: Uuid | None
    created_at: Timestamp
    updated_at: Timestamp


class MobilityCustomerWithTickets(MobilityCustomer):
    customer_number: str
    country_code: str
    email: str | None
    buyer_reference: str | None
    vat_id: str | None
    tickets: list[MobilityTicket]


class MobilityInvoice(Answer):
    id: Uuid
    organization_id: Uuid
    customer_id: Uuid
    mobility_invoice_id: str
    invoice_number: str | None
    invoice_pdf_url: Annotated[str, Meta(extra_json_schema={"format": "uri"})] | None
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
    invoice_xml_url: Annotated[str, Meta(extra_json_schema={"format": "uri"})]


class Seller(Body):
    """The organisation as it stands on its invoices. What is left out is gone, not kept."""

    name: Line70 | None = None
    street: Street | None = None
    postal_code: PostalCode | None = None
    city: City | None = None
    country_code: Country = "DE"
    vat_id: VatId | None = None
    tax_number: (
        Annotated[str, form("a tax number", rf"{_START}[0-9][0-9 /]{{5,18}}[0-9]$", examples=["37/123/45678"])] | None
    ) = None
    iban: Annotated[str, _one_line, Meta(max_length=42, examples=["DE02120300000000202051"])] | None = None
    bic: Annotated[str, _one_line, Meta(max_length=14, examples=["BYLADEM1001"])] | None = None
    bank_name: Line70 | None = None
    contact_name: Line70 | None = None
    contact_phone: Phone | None = None
    contact_email: Email | None = None
    website: Line100 | None = None
    register_entry: Line100 | None = None
    managing_directors: Line200 | None = None
    vat_exemption_reason: Line200 | None = None
    payment_days: Annotated[int, Meta(ge=0, le=365)] = 14
    invoice_number_prefix: Annotated[
        str,
        form(
            "up to 20 letters, digits and . / _ - with {year} in it where the year shall stand",
            rf"{_START}([A-Za-z0-9./_-]|\{{year\}}){{0,20}}$",
            examples=["RE-{year}-"],
        ),
    ] = "RE-{year}-"
    invoice_number_digits: Annotated[int, Meta(ge=1, le=10)] = 5


class SellerAnswer(Answer):
    seller: Seller
    missing: Annotated[list[str], Meta(description="Fields that an invoice needs and that are not set.")]
