"""Tickets: what is sent, stored and answered, which are to be billed, and how new ones are added to those that a customer has.

A ticket is identified by its reference, or without one by holder, product and months. The same ticket again changes nothing,
whatever has happened to it since; another ticket for the same holder and product in a month that has one already is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from msgspec import Meta

from kontobahn.access.principal import Principal, find_in_scope
from kontobahn.api.call import Call
from kontobahn.api.declare import post
from kontobahn.api.wire import Answer, Body, Timestamp, Uuid, form
from kontobahn.clock import to_datetime
from kontobahn.db import Table, Tx
from kontobahn.errors import Refusal
from kontobahn.ids import new_id
from kontobahn.mobility import wire
from kontobahn.mobility.wire import Line100, Reference
from kontobahn.sentences import said

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
            return "valid_to", said("{months} lies before valid_from, {start}", months=valid_to, start=self.valid_from)
        if _count_months(self.valid_from, valid_to) > MAX_MONTHS:
            return "valid_to", said("a ticket is valid for at most {count} months", count=MAX_MONTHS)
        if self.discount_in_cents > self.price_in_cents:
            return "discount_in_cents", said(
                "{count} is more than the price, {price}", count=self.discount_in_cents, price=self.price_in_cents
            )
        charged = self.price_in_cents - self.discount_in_cents
        if self.employer_share_in_cents is not None and self.employer_share_in_cents > charged:
            return "employer_share_in_cents", said(
                "{count} is more than what is charged, {price}", count=self.employer_share_in_cents, price=charged
            )
        return None


def _count_months(first: str, last: str) -> int:
    return (int(last[:4]) - int(first[:4])) * 12 + int(last[5:]) - int(first[5:]) + 1


class TicketReport(NamedTuple):
    """A ticket as it stands on the platform now."""

    ticket: NewTicket
    is_cancelled: bool = False
    # The line it was read from, for messages about a refused row; 0 if there are no lines.
    line: int = 0


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
        """The amount charged to the employer: the price less the discount."""
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
    """The tickets that the next invoice takes."""

    # The tickets to be charged, and those that were charged and are to be credited.
    charged: list[Ticket]
    credited: list[Ticket]
    # The last of them in the order in which they are taken, and how many stay for the invoice after it.
    last: tuple[str, str] | None
    left: int


_TO_CHARGE = "status = 'open'"
_TO_CREDIT = "status = 'cancelled' AND invoice_id IS NOT NULL"
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


_COMPARED = ("product", "holder_reference", "valid_from", "valid_to", "price_in_cents", "discount_in_cents",
             "employer_share_in_cents", "vat_rate")  # fmt: skip


class RefusedTicket(NamedTuple):
    """A ticket that cannot be added: its line or index in the list, the field at fault, and why."""

    line: int
    column: str
    reason: str


class MergeResult(NamedTuple):
    added: list[Ticket]
    refused: list[RefusedTicket]
    # Tickets that were already there and need nothing.
    unchanged: int


class ImportReport(NamedTuple):
    """The outcome of an import from a file."""

    taken: int
    unchanged: int
    refused: list[RefusedTicket]


class ImportRefused(Refusal):
    """Rows were refused and nothing was imported."""

    status = 400

    def __init__(self, report: ImportReport) -> None:
        super().__init__(
            said("{count} rows were refused; nothing was imported.", count=len(report.refused))
            if report.refused[1:]
            else "1 row was refused; nothing was imported."
        )
        self.report = report


def import_tickets(
    tx: Tx,
    organization_id: str,
    customer_id: str,
    reports: Sequence[TicketReport],
    unreadable: Sequence[RefusedTicket],
    *,
    partial: bool,
) -> ImportReport:
    """Imports a file whole or not at all or, if `partial`, without its refused rows. Raises ImportRefused with every refused row."""
    result = merge(tx, organization_id, customer_id, reports, repeats=True)
    refused = sorted([*unreadable, *result.refused])
    if refused and not partial:
        raise ImportRefused(ImportReport(0, 0, refused))
    return ImportReport(len(result.added), result.unchanged, refused)


def merge(
    tx: Tx, organization_id: str, customer_id: str, reports: Sequence[TicketReport], *, repeats: bool
) -> MergeResult:
    """Adds new tickets and cancels those reported as cancelled. What to do about refusals is up to the caller.

    With `repeats`, a ticket that is already there is skipped, even a cancelled one: the same file may be imported again. Without,
    it is refused while it is live.
    """
    lock(tx, organization_id, customer_id)
    known = _KnownTickets(list_tickets(tx, organization_id, customer_id))
    added: list[Ticket] = []
    refused: list[RefusedTicket] = []
    lines: dict[str, int] = {}
    unchanged = 0
    for report in reports:
        found = known.find_same(report.ticket, live_only=not repeats)
        refusal = _refusal(report, known, found, lines, repeats=repeats)
        if refusal is not None:
            refused.append(refusal)
        elif found is None and not report.is_cancelled:
            ticket = _make(tx, organization_id, customer_id, report.ticket)
            lines[ticket.id] = report.line
            known.add(ticket)
            added.append(ticket)
        elif found is not None and report.is_cancelled and found.is_live:
            known.replace(found, TICKETS.update(tx, found, status="cancelled", updated_at=tx.now))
        else:
            unchanged += 1
    TICKETS.insert_many(tx, added)
    return MergeResult(added, refused, unchanged)


class _KnownTickets:
    """The tickets of a customer, by everything that a new one is compared with."""

    def __init__(self, tickets: Iterable[Ticket]) -> None:
        self.by_reference: dict[str, Ticket] = {}
        self.by_holder: dict[tuple[str, str], list[Ticket]] = {}
        for ticket in tickets:
            self.add(ticket)

    def add(self, ticket: Ticket) -> None:
        if ticket.reference is not None:
            self.by_reference[ticket.reference] = ticket
        self.by_holder.setdefault((ticket.holder_reference, ticket.product), []).append(ticket)

    def replace(self, old: Ticket, new: Ticket) -> None:
        if old.reference is not None:
            self.by_reference[old.reference] = new
        same = self.by_holder[old.holder_reference, old.product]
        same[same.index(old)] = new

    def find_same(self, new: NewTicket, *, live_only: bool) -> Ticket | None:
        """Returns the ticket that this one repeats."""
        if new.reference is not None:
            return self.by_reference.get(new.reference)
        again = (
            ticket for ticket in self.by_holder.get((new.holder_reference, new.product), ())
            if ticket.reference is None and _difference(ticket, new) is None and (ticket.is_live or not live_only)
        )  # fmt: skip
        return next(again, None)

    def find_overlapping(self, new: NewTicket) -> Ticket | None:
        last = new.valid_to or new.valid_from
        return next(
            (
                ticket for ticket in self.by_holder.get((new.holder_reference, new.product), ())
                if ticket.is_live and ticket.valid_from <= last and new.valid_from <= ticket.valid_to
            ),
            None,
        )  # fmt: skip


def _difference(ticket: Ticket, new: NewTicket) -> str | None:
    """Returns the first field in which the two differ."""
    wanted = {name: getattr(new, name) for name in _COMPARED} | {"valid_to": new.valid_to or new.valid_from}
    return next((name for name in _COMPARED if getattr(ticket, name) != wanted[name]), None)


def _refusal(
    report: TicketReport, known: _KnownTickets, found: Ticket | None, lines: dict[str, int], *, repeats: bool
) -> RefusedTicket | None:
    new = report.ticket
    error = new.find_error()
    if error is not None:
        return RefusedTicket(report.line, *error)
    if found is not None:
        if found.id in lines:
            return RefusedTicket(report.line, "", said("line {line} already has the same ticket", line=lines[found.id]))
        different = _difference(found, new)
        if different is not None:
            reason = said(
                "ticket {reference} is already there with {value}; cancel it first",
                reference=new.reference,
                value=getattr(found, different),
            )
            return RefusedTicket(report.line, different, reason)
        return None if repeats else RefusedTicket(report.line, "", "this ticket already exists")
    overlap = known.find_overlapping(new)
    if overlap is None or report.is_cancelled:
        return None
    months = (
        overlap.valid_from if overlap.valid_from == overlap.valid_to else f"{overlap.valid_from} to {overlap.valid_to}"
    )
    where: str = said("line {line}", line=lines[overlap.id]) if overlap.id in lines else "an earlier ticket"
    if overlap.price_in_cents != new.price_in_cents:
        where = said("{where}, at {price}", where=where, price=overlap.price_in_cents)
    reason = said(
        "{holder} has “{product}” for {months} already ({where})",
        holder=new.holder_reference,
        product=new.product,
        months=months,
        where=where,
    )
    return RefusedTicket(report.line, "valid_from", reason)


def _make(tx: Tx, organization_id: str, customer_id: str, new: NewTicket) -> Ticket:
    return Ticket(
        organization_id=organization_id,
        id=new_id(),
        customer_id=customer_id,
        reference=new.reference,
        product=new.product,
        holder_reference=new.holder_reference,
        valid_from=new.valid_from,
        valid_to=new.valid_to or new.valid_from,
        price_in_cents=new.price_in_cents,
        discount_in_cents=new.discount_in_cents,
        employer_share_in_cents=new.employer_share_in_cents,
        vat_rate=new.vat_rate,
        status="open",
        invoice_id=None,
        credit_invoice_id=None,
        created_at=tx.now,
        updated_at=tx.now,
    )


@post(
    "/v2/mobility/tickets/{id}/cancel",
    scope="mobility:write",
    statuses=(200,),
    errors=(403, 404),
    example=wire.CANCELLED,
)
async def cancel_ticket(call: Call, id: Uuid) -> MobilityTicket:
    """Cancel a ticket.

    An open one is not billed any more. One that was invoiced is credited by the customer's next invoice. Doing it again changes
    nothing.
    """
    return await call.commit(_cancel, call.principal, id.lower())


def _cancel(tx: Tx, principal: Principal, ticket_id: str) -> MobilityTicket:
    ticket = find_in_scope(tx, TICKETS, principal, "Ticket", ticket_id)
    lock(tx, ticket.organization_id, ticket.customer_id)
    # Read again under the lock: an invoice may have been issued in between.
    ticket = find_in_scope(tx, TICKETS, principal, "Ticket", ticket_id)
    if ticket.is_live:
        ticket = TICKETS.update(tx, ticket, status="cancelled", updated_at=tx.now)
    return ticket.view()


# --- As people look at them


def latest(
    tx: Tx, organization_id: str, customer_id: str, limit: int, *, status: str = "", after: str = ""
) -> list[Ticket]:
    """The newest months first; `after` is month and id of the last ticket of the page before."""
    where, values = "organization_id = ? AND customer_id = ?", [organization_id, customer_id]
    if status:
        where, values = f"{where} AND status = ?", [*values, status]
    if after:
        month, _, ticket_id = after.partition(".")
        where = f"{where} AND (valid_from < ? OR (valid_from = ? AND id < ?))"
        values = [*values, month, month, ticket_id]
    return TICKETS.all(tx, f"{where} ORDER BY valid_from DESC, id DESC LIMIT ?", *values, limit)


class Due(NamedTuple):
    """The tickets that the next invoice charges and credits."""

    charged: int
    charged_in_cents: int
    credited: int
    credited_in_cents: int

    @property
    def amount_in_cents(self) -> int:
        return self.charged_in_cents - self.credited_in_cents


def due(tx: Tx, organization_id: str, customer_id: str) -> Due:
    found = []
    for condition in (_TO_CHARGE, _TO_CREDIT):
        row = tx.one(
            "SELECT COUNT(*), COALESCE(SUM(price_in_cents - discount_in_cents), 0) FROM mobility_tickets"
            f" WHERE organization_id = ? AND customer_id = ? AND {condition}",
            organization_id, customer_id,
        )  # fmt: skip
        assert row is not None
        found += [int(row[0]), int(row[1])]
    return Due(*found)


class Group(NamedTuple):
    """Tickets of one product and month that the next invoice charges or credits."""

    product: str
    month: str
    vat_rate: int
    is_credit: int
    tickets: int
    amount_in_cents: int


def due_by_product(tx: Tx, organization_id: str, customer_id: str) -> list[Group]:
    rows = tx.all(
        "SELECT product, valid_from, vat_rate, CASE WHEN status = 'open' THEN 0 ELSE 1 END AS is_credit, COUNT(*),"
        " SUM(price_in_cents - discount_in_cents) FROM mobility_tickets"
        f" WHERE organization_id = ? AND customer_id = ? AND ({_TO_CHARGE} OR ({_TO_CREDIT}))"
        " GROUP BY product, valid_from, vat_rate, CASE WHEN status = 'open' THEN 0 ELSE 1 END"
        " ORDER BY is_credit, valid_from, product, vat_rate LIMIT 200",
        organization_id, customer_id,
    )  # fmt: skip
    return [
        Group(product, month, vat_rate, is_credit, int(count), int(amount))
        for product, month, vat_rate, is_credit, count, amount in rows
    ]


def open_by_customer(tx: Tx, organization_id: str) -> dict[str, int]:
    """Returns how many tickets of each customer wait for an invoice."""
    rows = tx.all(
        "SELECT customer_id, COUNT(*) FROM mobility_tickets WHERE organization_id = ? AND status = 'open'"
        " GROUP BY customer_id",
        organization_id,
    )
    return {customer_id: int(count) for customer_id, count in rows}


# The port: what a ticket platform must offer. Our own store of tickets is one adapter, a CSV file another.
#
# A platform reports what it has sold and what was cancelled since; it does not invoice, number or charge. It may repeat
# itself: a ticket is identified by its reference and billed once. A platform that cannot be reached raises Unavailable.


class PlatformCustomer(NamedTuple):
    """A customer as its platform knows it."""

    organization_id: str
    id: str
    mobility_customer_id: str | None


class TicketPlatform(Protocol):
    name: str

    async def tickets(self, customer: PlatformCustomer) -> Sequence[TicketReport]:
        """Returns every ticket that may have to be billed or credited and is not in our store yet.

        Empty for a platform that reports sales as they happen.
        """


class Mobility(NamedTuple):
    """The mobility area's part of the application: its platforms by name."""

    platforms: dict[str, TicketPlatform]
