"""A ticket on the wire and in the database: its fields, what a schema cannot check, and which tickets are to be billed."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from kontobahn.api.wire import Answer, Body, Timestamp, Uuid, form
from kontobahn.clock import to_datetime
from kontobahn.db import Table, Tx
from kontobahn.mobility.fields import Line100, Reference

TicketStatus = Literal["open", "invoiced", "cancelled", "credited"]
# Choice 31: the rates there are in Germany; 0 needs a reason, which is part of the seller's data.
VatRate = Literal[0, 7, 19]
MAX_PRICE_IN_CENTS = 99_999_999
MAX_MONTHS = 24
Month = Annotated[str, form("a calendar month like 2026-03", r"^20[0-9]{2}-(0[1-9]|1[0-2])$", examples=["2026-03"])]
Cents = Annotated[int, Meta(ge=0, le=MAX_PRICE_IN_CENTS)]


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

    def find_error(self) -> tuple[str, str] | None:
        """Returns the field and the reason if the fields contradict each other, which no schema can say."""
        valid_to = self.valid_to or self.valid_from
        if valid_to < self.valid_from:
            return "valid_to", f"{valid_to} lies before valid_from, {self.valid_from}"
        if _count_months(self.valid_from, valid_to) > MAX_MONTHS:
            return "valid_to", f"a ticket is valid for at most {MAX_MONTHS} months"
        if self.discount_in_cents > self.price_in_cents:
            return "discount_in_cents", f"{self.discount_in_cents} is more than the price, {self.price_in_cents}"
        charged = self.price_in_cents - self.discount_in_cents
        if self.employer_share_in_cents is not None and self.employer_share_in_cents > charged:
            return "employer_share_in_cents", f"{self.employer_share_in_cents} is more than what is charged, {charged}"
        return None


def _count_months(first: str, last: str) -> int:
    return (int(last[:4]) - int(first[:4])) * 12 + int(last[5:]) - int(first[5:]) + 1


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


class Ticket(NamedTuple):
    organization_id: str
    id: str
    customer_id: str
    reference: str | None
    product: str
    holder_reference: str
    valid_from: str
    valid_to: str
    price_in_cents: int
    discount_in_cents: int
    employer_share_in_cents: int | None
    vat_rate: int
    status: str
    invoice_id: str | None
    credit_invoice_id: str | None
    created_at: int
    updated_at: int

    @property
    def amount_in_cents(self) -> int:
        """What the employer is charged: the price less the discount."""
        return self.price_in_cents - self.discount_in_cents

    @property
    def is_live(self) -> bool:
        return self.status in ("open", "invoiced")

    def view(self) -> MobilityTicket:
        fields: dict[str, Any] = self._asdict()
        del fields["organization_id"]
        fields.update(created_at=to_datetime(self.created_at), updated_at=to_datetime(self.updated_at))
        return MobilityTicket(amount_in_cents=self.amount_in_cents, **fields)


TICKETS = Table("mobility_tickets", Ticket)


def lock(tx: Tx, organization_id: str, customer_id: str) -> None:
    """Adding, cancelling and invoicing tickets of one customer exclude each other."""
    tx.lock("mobility_tickets", organization_id, customer_id)


def list_tickets(tx: Tx, organization_id: str, customer_id: str) -> list[Ticket]:
    """Returns all tickets of a customer, the earliest first."""
    return TICKETS.all(
        tx, "organization_id = ? AND customer_id = ? ORDER BY valid_from, id", organization_id, customer_id
    )


class Unbilled(NamedTuple):
    """What the next invoice takes."""

    # The tickets to be charged, and those that were charged and are to be credited.
    charged: list[Ticket]
    credited: list[Ticket]
    # The last of them in the order in which they are taken, and how many stay for the invoice after it.
    last: tuple[str, str] | None
    left: int


_UNBILLED = (
    "organization_id = ? AND customer_id = ? AND (status = 'open' OR status = 'cancelled')"
    " AND (status = 'open' OR invoice_id IS NOT NULL)"
)


def list_unbilled(tx: Tx, organization_id: str, customer_id: str, limit: int) -> Unbilled:
    """Returns the tickets of an invoice: the earliest months first, at most `limit`."""
    tickets = TICKETS.all(
        tx, f"{_UNBILLED} ORDER BY valid_from, id LIMIT ?", organization_id, customer_id, limit
    )  # fmt: skip
    counted = tx.one(f"SELECT COUNT(*) FROM mobility_tickets WHERE {_UNBILLED}", organization_id, customer_id)
    assert counted is not None
    return Unbilled(
        [item for item in tickets if item.status == "open"],
        [item for item in tickets if item.status == "cancelled"],
        (tickets[-1].valid_from, tickets[-1].id) if tickets else None,
        int(counted[0]) - len(tickets),
    )


def mark_billed(
    tx: Tx, organization_id: str, customer_id: str, last: tuple[str, str], invoice_id: str
) -> int:  # fmt: skip
    """Marks the tickets that `list_unbilled` returned, up to its last one, and returns their count."""
    where = "WHERE organization_id = ? AND customer_id = ? AND (valid_from < ? OR (valid_from = ? AND id <= ?))"
    taken = (organization_id, customer_id, last[0], *last)
    charged = tx.run(
        f"UPDATE mobility_tickets SET status = 'invoiced', invoice_id = ?, updated_at = ? {where} AND status = 'open'",
        invoice_id, tx.now, *taken,
    )  # fmt: skip
    credited = tx.run(
        f"UPDATE mobility_tickets SET status = 'credited', credit_invoice_id = ?, updated_at = ? {where}"
        " AND status = 'cancelled' AND invoice_id IS NOT NULL",
        invoice_id, tx.now, *taken,
    )  # fmt: skip
    return charged + credited
