"""Adds tickets to those a customer has already: what is new, what is a repetition, and what contradicts.

A ticket is identified by its reference, or without one by holder, product and months. The same ticket again changes nothing,
whatever has happened to it since; another ticket for the same holder and product in a month that has one already is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kontobahn.db import Tx
from kontobahn.errors import Refusal
from kontobahn.ids import new_id
from kontobahn.mobility.provider import TicketReport
from kontobahn.mobility.tickets.ticket import TICKETS, NewTicket, Ticket, list_tickets, lock

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
    """What was imported from a file."""

    taken: int
    unchanged: int
    refused: list[RefusedTicket]


class ImportRefused(Refusal):
    """Rows were refused and nothing was imported."""

    status = 400

    def __init__(self, report: ImportReport) -> None:
        rows = "1 row was" if len(report.refused) == 1 else f"{len(report.refused)} rows were"
        super().__init__(f"{rows} refused; nothing was imported.")
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
            return RefusedTicket(report.line, "", f"line {lines[found.id]} already has the same ticket")
        different = _difference(found, new)
        if different is not None:
            existing = f"ticket {new.reference} is already there with {getattr(found, different)}"
            return RefusedTicket(report.line, different, f"{existing}; cancel it first")
        return None if repeats else RefusedTicket(report.line, "", "this ticket already exists")
    overlap = known.find_overlapping(new)
    if overlap is None or report.is_cancelled:
        return None
    months = (
        overlap.valid_from if overlap.valid_from == overlap.valid_to else f"{overlap.valid_from} to {overlap.valid_to}"
    )
    where = f"line {lines[overlap.id]}" if overlap.id in lines else "an earlier ticket"
    price = f", at {overlap.price_in_cents}" if overlap.price_in_cents != new.price_in_cents else ""
    return RefusedTicket(
        report.line, "valid_from", f"{new.holder_reference} has “{new.product}” for {months} already ({where}{price})"
    )


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
