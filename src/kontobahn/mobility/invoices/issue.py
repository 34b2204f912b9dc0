"""Issues a collective invoice in one transaction: what is billed, its number, and everything it says, frozen.

The documents are made from the frozen rows afterwards (documents.py). What was wrong is credited by the next invoice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from kontobahn.clock import berlin_date
from kontobahn.db import Tx
from kontobahn.errors import Conflict
from kontobahn.formats import cii
from kontobahn.formats.cii import national
from kontobahn.formats.cii.invoice import CREDIT_NOTE, INVOICE
from kontobahn.ids import new_id
from kontobahn.mobility import customers, seller
from kontobahn.mobility.customers import Customer
from kontobahn.mobility.invoices.electronic import to_cii
from kontobahn.mobility.invoices.facts import Buyer, Facts, Line, Sum, split_vat
from kontobahn.mobility.invoices.store import InvoiceRow, freeze
from kontobahn.mobility.logos import logo
from kontobahn.mobility.provider import TicketReport
from kontobahn.mobility.tickets.merge import merge
from kontobahn.mobility.tickets.ticket import Ticket, list_unbilled, lock, mark_billed

# Choice 37: the rest stays for the next invoice.
MAX_TICKETS = 5_000


class Issued(NamedTuple):
    invoice: InvoiceRow
    # How many tickets stay for the next invoice.
    tickets_left: int


def issue(tx: Tx, customer: Customer, reports: Sequence[TicketReport]) -> Issued:
    """Invoices the tickets not yet invoiced and credits the cancelled ones that were. Raises Conflict if that is impossible."""
    # Choice 31: every ticket of the customer not yet invoiced, in one transaction; none is 409.
    organization_id = customer.organization_id
    lock(tx, organization_id, customer.id)
    customer = customers.reload(tx, customer)
    if reports:
        _add_reported(tx, customer, reports)
    unbilled = list_unbilled(tx, organization_id, customer.id, MAX_TICKETS)
    if unbilled.last is None:
        raise Conflict("There is nothing to invoice: this customer has no ticket that is not invoiced yet.")
    facts = _draft(tx, customer, unbilled.charged, unbilled.credited)
    refuse_incomplete(facts)
    facts = facts._replace(number=_take_number(tx, organization_id, facts))
    row = freeze(tx, organization_id, customer.id, new_id(), facts)
    billed = mark_billed(tx, organization_id, customer.id, unbilled.last, row.id)
    assert billed == len(facts.lines), "what was billed is what stands on the invoice"
    tx.run("INSERT INTO mobility_documents_due (organization_id, invoice_id) VALUES (?, ?)", organization_id, row.id)
    return Issued(row, unbilled.left)


def _add_reported(tx: Tx, customer: Customer, reports: Sequence[TicketReport]) -> None:
    result = merge(tx, customer.organization_id, customer.id, reports, repeats=True)
    if result.refused:
        first = result.refused[0]
        raise Conflict(
            f"The ticket platform reports {len(result.refused)} tickets that are refused; the first: {first.reason}."
        )


def _draft(tx: Tx, customer: Customer, charged: list[Ticket], credited: list[Ticket]) -> Facts:
    """Returns everything the invoice will say, except its number."""
    today = berlin_date(tx.now)
    # Locked, so that the logo stays until the invoice names it.
    selling = seller.load_locked(tx, customer.organization_id)
    former = _former_invoices(tx, customer.organization_id, credited)
    tickets = sorted(charged, key=_sort_key) + sorted(
        credited, key=lambda item: (former[item.invoice_id], *_sort_key(item))
    )
    amounts = [item.amount_in_cents if item.status == "open" else -item.amount_in_cents for item in tickets]
    nets, sums = _split_vat(tickets, amounts)
    total = sum(amounts)
    return Facts(
        number="",
        type_code=CREDIT_NOTE if total < 0 else INVOICE,
        issued_on=today,
        due_on=today + timedelta(days=selling.payment_days) if total > 0 else None,
        seller=selling,
        buyer=_buyer(customer),
        lines=[
            _line(position, item, amount, net, former.get(item.invoice_id, (None, None)))
            for position, (item, amount, net) in enumerate(zip(tickets, amounts, nets, strict=True), 1)
        ],
        sums=sums,
        logo=logo.current(tx, customer.organization_id),
    )


def _sort_key(ticket: Ticket) -> tuple[Any, ...]:
    return (ticket.product, ticket.valid_from, ticket.valid_to, -ticket.vat_rate, ticket.price_in_cents, ticket.discount_in_cents,
            ticket.holder_reference, ticket.id)  # fmt: skip


def _buyer(customer: Customer) -> Buyer:
    return Buyer(
        customer_number=customer.number_text,
        name=customer.name,
        street=customer.street,
        postal_code=customer.postal_code,
        city=customer.city,
        country_code=customer.country_code,
        email=customer.email,
        buyer_reference=customer.buyer_reference,
        vat_id=customer.vat_id,
    )


def _line(position: int, ticket: Ticket, amount: int, net: int, credited: tuple[str, str] | tuple[None, None]) -> Line:
    number, day = credited
    return Line(
        position=position,
        ticket_id=ticket.id,
        reference=ticket.reference,
        product=ticket.product,
        holder_reference=ticket.holder_reference,
        valid_from=ticket.valid_from,
        valid_to=ticket.valid_to,
        price_in_cents=ticket.price_in_cents,
        discount_in_cents=ticket.discount_in_cents,
        employer_share_in_cents=ticket.employer_share_in_cents,
        vat_rate=ticket.vat_rate,
        amount_in_cents=amount,
        net_in_cents=net,
        credited_number=number,
        credited_on=day,
    )


def _former_invoices(tx: Tx, organization_id: str, credited: list[Ticket]) -> dict[str | None, tuple[str, str]]:
    """Returns number and date of the invoices by which the credited tickets were charged, by invoice id."""
    found: dict[str | None, tuple[str, str]] = {}
    for invoice_id in {item.invoice_id for item in credited}:
        row = tx.one(
            "SELECT invoice_number, issued_on FROM mobility_invoices WHERE organization_id = ? AND id = ?",
            organization_id, invoice_id,
        )  # fmt: skip
        assert row is not None
        found[invoice_id] = (row[0], row[1])
    return found


def _split_vat(tickets: list[Ticket], amounts: list[int]) -> tuple[list[int], list[Sum]]:
    """Returns the net share of each line, and the sums by rate."""
    nets = [0] * len(tickets)
    sums = []
    for rate in sorted({item.vat_rate for item in tickets}, reverse=True):
        indices = [index for index, item in enumerate(tickets) if item.vat_rate == rate]
        prices = [amounts[index] for index in indices]
        split = split_vat(prices, rate)
        for index, net in zip(indices, split.line_nets, strict=True):
            nets[index] = net
        sums.append(Sum(rate, split.net, split.vat, split.rounding, sum(prices)))
    return nets, sums


def refuse_incomplete(facts: Facts) -> None:
    """Raises Conflict, before a number is taken, if the seller's data are incomplete or a validator would refuse the XML."""
    missing = facts.seller.missing_fields({item.vat_rate for item in facts.sums})
    if missing:
        raise Conflict(
            f"The seller's data are incomplete; an invoice needs: {', '.join(missing)}. Set them with PUT /v2/mobility/seller.",
            missing=missing,
        )
    # The rules look at nothing that differs between lines of one rate, so one line of each rate is enough.
    sample = [next(line for line in facts.lines if line.vat_rate == item.vat_rate) for item in facts.sums]
    draft = to_cii(facts._replace(number="DRAFT", lines=sample))
    (xml,) = cii.write(draft, profile := cii.profile_of(draft))
    broken = national.violations(xml) if profile == "xrechnung" else []
    if broken:
        reasons = "; ".join(f"{item.sentence} ({item.rule})" for item in broken)
        raise Conflict(f"The invoice would not be accepted: {reasons}.", missing=[item.rule for item in broken])


def _take_number(tx: Tx, organization_id: str, facts: Facts) -> str:
    # Choice 31: without gaps for an organisation; a prefix with the year in it starts again every year.
    series = facts.seller.invoice_number_prefix.replace("{year}", f"{facts.issued_on:%Y}")
    count = seller.take_next_number(tx, organization_id, f"invoices {series}")
    number = f"{series}{count:0{facts.seller.invoice_number_digits}d}"
    row = tx.one(
        "SELECT 1 FROM mobility_invoices WHERE organization_id = ? AND invoice_number = ?", organization_id, number
    )
    if row is not None:
        raise Conflict(f"The number {number} was given before, under another prefix. Choose another invoice_number_prefix.",
                       field="invoice_number_prefix")  # fmt: skip
    return number
