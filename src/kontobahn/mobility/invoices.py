"""Issuing a collective invoice, in one transaction: what is billed, its number, and all that it says, frozen.

The documents are made from the frozen rows afterwards (documents.py). Nothing here is ever changed or deleted; what was wrong is
credited by the next invoice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import msgspec

from kontobahn.access.principal import Principal
from kontobahn.access.scope import in_scope
from kontobahn.clock import berlin_date, to_datetime
from kontobahn.db import Tx
from kontobahn.errors import Conflict
from kontobahn.formats import cii
from kontobahn.formats.cii import national
from kontobahn.formats.cii.invoice import CREDIT_NOTE, INVOICE
from kontobahn.ids import new_id
from kontobahn.mobility import customers, numbers, seller, tickets, vat
from kontobahn.mobility.customers import Customer
from kontobahn.mobility.electronic import to_cii
from kontobahn.mobility.facts import Buyer, Facts, Line, Sum, needed_of_seller, stored_seller
from kontobahn.mobility.model import (
    InvoiceLine,
    InvoicesQuery,
    MobilityInvoice,
    MobilityInvoiceWithLines,
    VatSum,
)
from kontobahn.mobility.provider import TicketReport
from kontobahn.mobility.tickets import Ticket

_COLUMNS = "id, organization_id, customer_id, mobility_invoice_id, invoice_number, amount_in_cents, ticket_count, invoiced_at, created_at"


def issue(tx: Tx, customer: Customer, reports: Sequence[TicketReport], base_url: str) -> MobilityInvoice:
    """Invoice every ticket not yet invoiced and credit every cancelled one that was. All of it, or Conflict and nothing."""
    # Choice 31: every ticket of the customer not yet invoiced, in one transaction; none is 409.
    tickets.lock(tx, customer)
    customer = customers.reload(tx, customer)
    _take_reports(tx, customer, reports)
    charged, credited = tickets.to_bill(tx, customer)
    if not charged and not credited:
        raise Conflict("There is nothing to invoice: this customer has no ticket that is not invoiced yet.")
    facts = _draft(tx, customer, charged, credited)
    _refuse_incomplete(facts)
    facts = facts._replace(number=_take_number(tx, customer.organization_id, facts))
    invoice_id = new_id()
    _freeze(tx, customer, invoice_id, facts)
    billed = tickets.set_billed(tx, customer, invoice_id)
    assert billed == len(facts.lines), "what was billed is what stands on the invoice"
    tx.run(
        "INSERT INTO mobility_documents_due (organization_id, invoice_id) VALUES (?, ?)",
        customer.organization_id, invoice_id,
    )  # fmt: skip
    return _view(
        (invoice_id, customer.organization_id, customer.id, invoice_id, facts.number, facts.amount_in_cents, len(facts.lines),
         tx.now, tx.now),
        base_url,
    )  # fmt: skip


def _take_reports(tx: Tx, customer: Customer, reports: Sequence[TicketReport]) -> None:
    if not reports:
        return
    outcome = tickets.merge(tx, customer, reports, repeats=True)
    if outcome.refused:
        first = outcome.refused[0]
        raise Conflict(
            f"The ticket platform reports {len(outcome.refused)} tickets that cannot be taken; the first: {first.reason}."
        )


def _draft(tx: Tx, customer: Customer, charged: list[Ticket], credited: list[Ticket]) -> Facts:
    """All that the invoice will say, but for its number."""
    today = berlin_date(tx.now)
    selling = seller.load(tx, customer.organization_id)
    former = _former_invoices(tx, customer, credited)
    order = sorted(charged, key=_in_order) + sorted(
        credited, key=lambda item: (former[item.invoice_id], *_in_order(item))
    )
    amounts = [item.amount_in_cents if item.status == "open" else -item.amount_in_cents for item in order]
    nets, sums = _reckon(order, amounts)
    lines = [
        Line(
            position, item.id, item.reference, item.product, item.holder_reference, item.valid_from, item.valid_to,
            item.price_in_cents, item.discount_in_cents, item.employer_share_in_cents, item.vat_rate, amount, net,
            *(former[item.invoice_id] if item.status == "cancelled" else (None, None)),
        )
        for position, (item, amount, net) in enumerate(zip(order, amounts, nets, strict=True), 1)
    ]  # fmt: skip
    total = sum(amounts)
    return Facts(
        number="",
        type_code=CREDIT_NOTE if total < 0 else INVOICE,
        issued_on=today,
        due_on=today + timedelta(days=selling.payment_days) if total > 0 else None,
        seller=selling,
        buyer=customer.as_buyer(),
        lines=lines,
        sums=sums,
    )


def _in_order(ticket: Ticket) -> tuple[Any, ...]:
    return (ticket.product, ticket.valid_from, ticket.valid_to, -ticket.vat_rate, ticket.price_in_cents, ticket.discount_in_cents,
            ticket.holder_reference, ticket.id)  # fmt: skip


def _former_invoices(tx: Tx, customer: Customer, credited: list[Ticket]) -> dict[str | None, tuple[str, str]]:
    """Number and day of the invoices that credited tickets stood on."""
    found: dict[str | None, tuple[str, str]] = {}
    for invoice_id in {item.invoice_id for item in credited}:
        row = tx.one(
            "SELECT invoice_number, issued_on FROM mobility_invoices WHERE organization_id = ? AND id = ?",
            customer.organization_id, invoice_id,
        )  # fmt: skip
        assert row is not None
        found[invoice_id] = (row[0], row[1])
    return found


def _reckon(order: list[Ticket], amounts: list[int]) -> tuple[list[int], list[Sum]]:
    """The net share of each line, and the sums by rate."""
    nets = [0] * len(order)
    sums = []
    for rate in sorted({item.vat_rate for item in order}, reverse=True):
        places = [place for place, item in enumerate(order) if item.vat_rate == rate]
        prices = [amounts[place] for place in places]
        split = vat.split(prices, rate)
        for place, net in zip(places, split.line_nets, strict=True):
            nets[place] = net
        sums.append(Sum(rate, split.net, split.vat, split.rounding, sum(prices)))
    return nets, sums


def _refuse_incomplete(facts: Facts) -> None:
    """Before a number is taken: what is missing on the seller's side, then what a validator would find in the XML."""
    missing = needed_of_seller(facts.seller, {item.vat_rate for item in facts.sums})
    if missing:
        raise Conflict(
            f"The seller's data are incomplete; an invoice needs: {', '.join(missing)}. Set them with PUT /v2/mobility/seller.",
            missing=missing,
        )
    # One line of each rate shows all that the rules look at, and a thousand of them would only take longer.
    shown = [next(line for line in facts.lines if line.vat_rate == item.vat_rate) for item in facts.sums]
    draft = to_cii(facts._replace(number="DRAFT", lines=shown))
    (xml,) = cii.write(draft, profile := cii.profile_of(draft))
    broken = national.violations(xml) if profile == "xrechnung" else []
    if broken:
        reasons = "; ".join(f"{item.sentence} ({item.rule})" for item in broken)
        raise Conflict(f"The invoice would not be accepted: {reasons}.", missing=[item.rule for item in broken])


def _take_number(tx: Tx, organization_id: str, facts: Facts) -> str:
    # Choice 31: without gaps for an organisation; a prefix with the year in it starts anew every year.
    series = facts.seller.invoice_number_prefix.replace("{year}", f"{facts.issued_on:%Y}")
    number = f"{series}{numbers.take(tx, organization_id, f'invoices {series}'):0{facts.seller.invoice_number_digits}d}"
    row = tx.one(
        "SELECT 1 FROM mobility_invoices WHERE organization_id = ? AND invoice_number = ?", organization_id, number
    )
    if row is not None:
        raise Conflict(f"The number {number} was given before, under another prefix. Choose another invoice_number_prefix.",
                       field="invoice_number_prefix")  # fmt: skip
    return number


def _freeze(tx: Tx, customer: Customer, invoice_id: str, facts: Facts) -> None:
    organization_id = customer.organization_id
    tx.run(
        "INSERT INTO mobility_invoices (organization_id, id, customer_id, mobility_invoice_id, invoice_number, type_code,"
        " amount_in_cents, ticket_count, issued_on, due_on, seller, buyer, invoiced_at, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        organization_id, invoice_id, customer.id, invoice_id, facts.number, facts.type_code, facts.amount_in_cents,
        len(facts.lines), facts.issued_on.isoformat(), facts.due_on and facts.due_on.isoformat(),
        msgspec.json.encode(facts.seller).decode(), msgspec.json.encode(facts.buyer).decode(), tx.now, tx.now,
    )  # fmt: skip
    tx.many(
        f"INSERT INTO mobility_invoice_lines (organization_id, invoice_id, {', '.join(Line._fields)})"
        f" VALUES (?, ?, {', '.join('?' * len(Line._fields))})",
        [(organization_id, invoice_id, *line) for line in facts.lines],
    )
    tx.many(
        f"INSERT INTO mobility_invoice_sums (organization_id, invoice_id, {', '.join(Sum._fields)}) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(organization_id, invoice_id, *item) for item in facts.sums],
    )


# --- Reading


def load(tx: Tx, organization_id: str, invoice_id: str) -> Facts:
    """An invoice as it was issued."""
    row = tx.one(
        "SELECT invoice_number, type_code, issued_on, due_on, seller, buyer FROM mobility_invoices"
        " WHERE organization_id = ? AND id = ?",
        organization_id, invoice_id,
    )  # fmt: skip
    assert row is not None
    number, type_code, issued_on, due_on, selling, buying = row
    lines = tx.all(
        f"SELECT {', '.join(Line._fields)} FROM mobility_invoice_lines WHERE organization_id = ? AND invoice_id = ? ORDER BY position",
        organization_id, invoice_id,
    )  # fmt: skip
    sums = tx.all(
        f"SELECT {', '.join(Sum._fields)} FROM mobility_invoice_sums WHERE organization_id = ? AND invoice_id = ?"
        " ORDER BY vat_rate DESC",
        organization_id, invoice_id,
    )  # fmt: skip
    return Facts(
        number, type_code, date.fromisoformat(issued_on), date.fromisoformat(due_on) if due_on else None,
        stored_seller(selling), msgspec.json.decode(buying, type=Buyer),
        [Line(*line) for line in lines], [Sum(*item) for item in sums],
    )  # fmt: skip


def listing(tx: Tx, organizations: tuple[str, ...], query: InvoicesQuery, base_url: str) -> list[MobilityInvoice]:
    where, values = in_scope(len(organizations)), [*organizations]
    if query.customer_id is not None:
        where, values = f"{where} AND customer_id = ?", [*values, query.customer_id.lower()]
    if query.from_date is not None:
        where, values = f"{where} AND issued_on >= ?", [*values, query.from_date.isoformat()]
    if query.to_date is not None:
        where, values = f"{where} AND issued_on <= ?", [*values, query.to_date.isoformat()]
    rows = tx.all(f"SELECT {_COLUMNS} FROM mobility_invoices WHERE {where} ORDER BY issued_on, id", *values)
    return [_view(row, base_url) for row in rows]


def organization_of(tx: Tx, principal: Principal, invoice_id: str) -> str:
    row = tx.one(
        f"SELECT organization_id FROM mobility_invoices WHERE {in_scope(len(principal.scope))} AND id = ?",
        *principal.scope, invoice_id.lower(),
    )  # fmt: skip
    if row is None:
        raise principal.missing("Invoice")
    return str(row[0])


def show(tx: Tx, principal: Principal, invoice_id: str, base_url: str) -> MobilityInvoiceWithLines:
    organization_id = organization_of(tx, principal, invoice_id)
    row = tx.one(
        f"SELECT {_COLUMNS} FROM mobility_invoices WHERE organization_id = ? AND id = ?", organization_id, invoice_id.lower()
    )  # fmt: skip
    assert row is not None
    facts = load(tx, organization_id, invoice_id.lower())
    return MobilityInvoiceWithLines(
        **msgspec.structs.asdict(_view(row, base_url)),
        type="correction" if facts.is_correction else "invoice",
        issued_on=facts.issued_on,
        due_on=facts.due_on,
        net_in_cents=facts.net_in_cents,
        vat_in_cents=facts.vat_in_cents,
        rounding_in_cents=facts.rounding_in_cents,
        vat_sums=[VatSum(**item._asdict()) for item in facts.sums],
        lines=[_line_view(line) for line in facts.lines],
        invoice_xml_url=f"{base_url}/v2/mobility/invoices/{row[0]}/xml",
    )


def _line_view(line: Line) -> InvoiceLine:
    given = {name: getattr(line, name) for name in InvoiceLine.__struct_fields__ if name in Line._fields}
    return InvoiceLine(credited_invoice_number=line.credited_number, **given)


def _view(row: Sequence[Any], base_url: str) -> MobilityInvoice:
    invoice_id, organization_id, customer_id, mobility_invoice_id, number, amount, count, invoiced_at, created_at = row
    return MobilityInvoice(
        id=invoice_id,
        organization_id=organization_id,
        customer_id=customer_id,
        mobility_invoice_id=mobility_invoice_id,
        invoice_number=number,
        # Choice 31: into this service, behind the key.
        invoice_pdf_url=f"{base_url}/v2/mobility/invoices/{invoice_id}/pdf",
        amount_in_cents=amount,
        ticket_count=count,
        invoiced_at=to_datetime(invoiced_at),
        created_at=to_datetime(created_at),
    )
