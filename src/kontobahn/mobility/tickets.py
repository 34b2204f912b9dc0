"""Tickets: checked, taken once, cancelled. The overlap of two tickets and the repetition of one are decided here.

A ticket is known by its reference, or without one by holder, product and months. The same again changes nothing, whatever became
of it since; another ticket of the same holder and product in a month that has one already is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kontobahn.access.principal import Principal
from kontobahn.access.scope import in_scope
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.ids import new_id
from kontobahn.mobility.customers import Customer
from kontobahn.mobility.model import LONGEST_MONTHS, MobilityTicket, NewTicket
from kontobahn.mobility.provider import TicketReport

_COLUMNS = (
    "id, customer_id, reference, product, holder_reference, valid_from, valid_to, price_in_cents, discount_in_cents,"
    " employer_share_in_cents, vat_rate, status, invoice_id, credit_invoice_id, created_at, updated_at"
)
_COMPARED = ("product", "holder_reference", "valid_from", "valid_to", "price_in_cents", "discount_in_cents",
             "employer_share_in_cents", "vat_rate")  # fmt: skip


class Ticket(NamedTuple):
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
        given: dict[str, Any] = self._asdict()
        given.update(created_at=to_datetime(self.created_at), updated_at=to_datetime(self.updated_at))
        return MobilityTicket(amount_in_cents=self.amount_in_cents, **given)


class Refused(NamedTuple):
    """A ticket that cannot be taken: its line or place in the list, the field to blame, and why."""

    line: int
    column: str
    reason: str


class Outcome(NamedTuple):
    taken: list[Ticket]
    unchanged: int
    cancelled: int
    refused: list[Refused]


def check(new: NewTicket) -> tuple[str, str] | None:
    """The field and the reason of what no schema can say."""
    valid_to = new.valid_to or new.valid_from
    if valid_to < new.valid_from:
        return "valid_to", f"{valid_to} lies before valid_from, {new.valid_from}"
    if _months_between(new.valid_from, valid_to) > LONGEST_MONTHS:
        return "valid_to", f"a ticket is valid for at most {LONGEST_MONTHS} months"
    if new.discount_in_cents > new.price_in_cents:
        return "discount_in_cents", f"{new.discount_in_cents} is more than the price, {new.price_in_cents}"
    charged = new.price_in_cents - new.discount_in_cents
    if new.employer_share_in_cents is not None and new.employer_share_in_cents > charged:
        return "employer_share_in_cents", f"{new.employer_share_in_cents} is more than what is charged, {charged}"
    return None


def _months_between(first: str, last: str) -> int:
    return (int(last[:4]) - int(first[:4])) * 12 + int(last[5:]) - int(first[5:]) + 1


def of_customer(tx: Tx, customer: Customer) -> list[Ticket]:
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM mobility_tickets WHERE organization_id = ? AND customer_id = ? ORDER BY valid_from, id",
        customer.organization_id, customer.id,
    )  # fmt: skip
    return [Ticket(*row) for row in rows]


def lock(tx: Tx, customer: Customer) -> None:
    """Whoever adds, cancels or invoices tickets of a customer does it alone."""
    tx.lock("mobility_tickets", customer.organization_id, customer.id)


class _Known:
    """The tickets of a customer, by all that a new one is held against."""

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

    def same_as(self, new: NewTicket, *, live_only: bool) -> Ticket | None:
        """The ticket that this one repeats."""
        if new.reference is not None:
            return self.by_reference.get(new.reference)
        again = (
            ticket for ticket in self.by_holder.get((new.holder_reference, new.product), ())
            if ticket.reference is None and _difference(ticket, new) is None and (ticket.is_live or not live_only)
        )  # fmt: skip
        return next(again, None)

    def overlapping(self, new: NewTicket) -> Ticket | None:
        last = new.valid_to or new.valid_from
        return next(
            (
                ticket for ticket in self.by_holder.get((new.holder_reference, new.product), ())
                if ticket.is_live and ticket.valid_from <= last and new.valid_from <= ticket.valid_to
            ),
            None,
        )  # fmt: skip


def _difference(ticket: Ticket, new: NewTicket) -> str | None:
    """The first field in which the two differ."""
    wanted = {name: getattr(new, name) for name in _COMPARED} | {"valid_to": new.valid_to or new.valid_from}
    return next((name for name in _COMPARED if getattr(ticket, name) != wanted[name]), None)


def merge(tx: Tx, customer: Customer, reports: Sequence[TicketReport], *, repeats: bool) -> Outcome:
    """Take what is new and cancel what is said to be cancelled; the caller decides what becomes of it when there are refusals.

    With `repeats`, a ticket that is there already is passed over, even a cancelled one: the same file may come again. Without, it
    is refused while it is live.
    """
    lock(tx, customer)
    known, outcome = _Known(of_customer(tx, customer)), Outcome([], 0, 0, [])
    lines: dict[str, int] = {}
    unchanged = cancelled = 0
    for report in reports:
        new = report.ticket
        found = known.same_as(new, live_only=not repeats)
        refusal = _refusal(report, known, found, lines, repeats=repeats)
        if refusal is not None:
            outcome.refused.append(refusal)
        elif found is None and not report.is_cancelled:
            ticket = _made(tx, customer, new)
            lines[ticket.id] = report.line
            known.add(ticket)
            outcome.taken.append(ticket)
        elif found is not None and report.is_cancelled and found.is_live:
            _set_cancelled(tx, customer.organization_id, found)
            known.replace(found, found._replace(status="cancelled"))
            cancelled += 1
        else:
            unchanged += 1
    _insert(tx, customer, outcome.taken)
    return outcome._replace(unchanged=unchanged, cancelled=cancelled)


def _refusal(
    report: TicketReport, known: _Known, found: Ticket | None, lines: dict[str, int], *, repeats: bool
) -> Refused | None:
    new = report.ticket
    wrong = check(new)
    if wrong is not None:
        return Refused(report.line, *wrong)
    if found is not None:
        if found.id in lines:
            return Refused(report.line, "", f"the same ticket stands in line {lines[found.id]} already")
        different = _difference(found, new)
        if different is not None:
            said = f"ticket {new.reference} is there already with {getattr(found, different)}"
            return Refused(report.line, different, f"{said}; cancel it first")
        return None if repeats else Refused(report.line, "", "this ticket is there already")
    overlap = known.overlapping(new)
    if overlap is None or report.is_cancelled:
        return None
    months = (
        overlap.valid_from if overlap.valid_from == overlap.valid_to else f"{overlap.valid_from} to {overlap.valid_to}"
    )
    where = f"line {lines[overlap.id]}" if overlap.id in lines else "an earlier ticket"
    price = f", at {overlap.price_in_cents}" if overlap.price_in_cents != new.price_in_cents else ""
    return Refused(
        report.line, "valid_from", f"{new.holder_reference} has “{new.product}” for {months} already ({where}{price})"
    )  # fmt: skip


def _made(tx: Tx, customer: Customer, new: NewTicket) -> Ticket:
    return Ticket(
        new_id(), customer.id, new.reference, new.product, new.holder_reference, new.valid_from, new.valid_to or new.valid_from,
        new.price_in_cents, new.discount_in_cents, new.employer_share_in_cents, new.vat_rate, "open", None, None, tx.now, tx.now,
    )  # fmt: skip


def _insert(tx: Tx, customer: Customer, tickets: list[Ticket]) -> None:
    marks = ", ".join("?" * (len(Ticket._fields) + 1))
    tx.many(
        f"INSERT INTO mobility_tickets (organization_id, {_COLUMNS}) VALUES ({marks})",
        [(customer.organization_id, *ticket) for ticket in tickets],
    )


def cancel(tx: Tx, principal: Principal, ticket_id: str) -> MobilityTicket:
    """Cancel a ticket: one that was invoiced is credited by the next invoice. Doing it again changes nothing."""
    organization_id, ticket = _find(tx, principal, ticket_id)
    tx.lock("mobility_tickets", organization_id, ticket.customer_id)
    _, ticket = _find(tx, principal, ticket_id)
    if ticket.is_live:
        _set_cancelled(tx, organization_id, ticket)
        ticket = ticket._replace(status="cancelled", updated_at=tx.now)
    return ticket.view()


def _set_cancelled(tx: Tx, organization_id: str, ticket: Ticket) -> None:
    tx.run(
        "UPDATE mobility_tickets SET status = 'cancelled', updated_at = ? WHERE organization_id = ? AND id = ?",
        tx.now, organization_id, ticket.id,
    )  # fmt: skip


def _find(tx: Tx, principal: Principal, ticket_id: str) -> tuple[str, Ticket]:
    row = tx.one(
        f"SELECT organization_id, {_COLUMNS} FROM mobility_tickets WHERE {in_scope(len(principal.scope))} AND id = ?",
        *principal.scope, ticket_id.lower(),
    )  # fmt: skip
    if row is None:
        raise principal.missing("Ticket")
    return row[0], Ticket(*row[1:])


# --- Billing


def to_bill(tx: Tx, customer: Customer) -> tuple[list[Ticket], list[Ticket]]:
    """The tickets to be charged, and those that were charged and are to be credited."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM mobility_tickets WHERE organization_id = ? AND customer_id = ?"
        " AND (status = 'open' OR status = 'cancelled') AND (status = 'open' OR invoice_id IS NOT NULL)",
        customer.organization_id, customer.id,
    )  # fmt: skip
    tickets = [Ticket(*row) for row in rows]
    return [item for item in tickets if item.status == "open"], [item for item in tickets if item.status == "cancelled"]


def set_billed(tx: Tx, customer: Customer, invoice_id: str) -> int:
    """Mark what `to_bill` gave; the answer counts it."""
    where = "WHERE organization_id = ? AND customer_id = ?"
    charged = tx.run(
        f"UPDATE mobility_tickets SET status = 'invoiced', invoice_id = ?, updated_at = ? {where} AND status = 'open'",
        invoice_id, tx.now, customer.organization_id, customer.id,
    )  # fmt: skip
    credited = tx.run(
        f"UPDATE mobility_tickets SET status = 'credited', credit_invoice_id = ?, updated_at = ? {where}"
        " AND status = 'cancelled' AND invoice_id IS NOT NULL",
        invoice_id, tx.now, customer.organization_id, customer.id,
    )  # fmt: skip
    return charged + credited
