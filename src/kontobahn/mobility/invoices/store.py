"""Invoices in the database: issued in one transaction with number, lines and sums, read back, never changed.

The documents are made from the frozen rows afterwards (documents.py). What was wrong is credited by the next invoice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

import msgspec

from kontobahn.clock import berlin_date
from kontobahn.db import Table, Tx, chunked
from kontobahn.errors import Conflict
from kontobahn.formats import cii
from kontobahn.formats.cii import national
from kontobahn.formats.invoices.model import CREDIT_NOTE, INVOICE
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.mobility import customers, seller
from kontobahn.mobility.customers import Customer
from kontobahn.mobility.invoices.rules import Buyer, Facts, Line, Sum, split_vat, to_cii
from kontobahn.mobility.tickets import Ticket, TicketReport, list_unbilled, lock, mark_billed, merge
from kontobahn.sentences import joined, said

# Choice 37: the rest stays for the next invoice.
MAX_TICKETS = 5_000


class Issued(NamedTuple):
    invoice: InvoiceRow
    # The number of tickets that stay for the next invoice.
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
            said(
                "The ticket platform reports {count} tickets that are refused; the first: {why}.",
                count=len(result.refused),
                why=first.reason,
            )
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
        logo=seller.current_logo(tx, customer.organization_id),
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
            said(
                "The seller's data are incomplete; an invoice needs: {fields}. Set them with PUT /v2/mobility/seller.",
                fields=", ".join(missing),
            ),
            missing=missing,
        )
    # The rules look at nothing that differs between lines of one rate, so one line of each rate is enough.
    sample = [next(line for line in facts.lines if line.vat_rate == item.vat_rate) for item in facts.sums]
    draft = to_cii(facts._replace(number="DRAFT", lines=sample))
    (xml,) = cii.write(draft, profile := cii.profile_of(draft))
    broken = national.violations(xml) if profile == "xrechnung" else []
    if broken:
        reasons = joined("; ", [said("{what} ({rule})", what=item.sentence, rule=item.rule) for item in broken])
        raise Conflict(
            said("The invoice would not be accepted: {why}.", why=reasons), missing=[item.rule for item in broken]
        )


def _take_number(tx: Tx, organization_id: str, facts: Facts) -> str:
    # Choice 31: without gaps for an organisation; a prefix with the year in it starts again every year.
    series = facts.seller.invoice_number_prefix.replace("{year}", f"{facts.issued_on:%Y}")
    count = seller.take_next_number(tx, organization_id, f"invoices {series}")
    number = f"{series}{count:0{facts.seller.invoice_number_digits}d}"
    row = tx.one(
        "SELECT 1 FROM mobility_invoices WHERE organization_id = ? AND invoice_number = ?", organization_id, number
    )
    if row is not None:
        raise Conflict(said("The number {number} was given before, under another prefix. Choose another"
" invoice_number_prefix.", number=number),
                       field="invoice_number_prefix")  # fmt: skip
    return number


# --- Rows


class InvoiceSummary(NamedTuple):
    """The columns that a list of invoices shows."""

    organization_id: str
    id: str
    customer_id: str
    mobility_invoice_id: str
    invoice_number: str
    amount_in_cents: int
    ticket_count: int
    invoiced_at: int
    created_at: int


class InvoiceRow(NamedTuple):
    organization_id: str
    id: str
    customer_id: str
    mobility_invoice_id: str
    invoice_number: str
    type_code: int
    amount_in_cents: int
    ticket_count: int
    issued_on: str
    due_on: str | None
    # Both parties as they were then, in JSON.
    seller: str
    buyer: str
    invoiced_at: int
    created_at: int
    logo_sha256: str | None


class IssuedInvoice(NamedTuple):
    """The facts of an invoice that a payment is compared with."""

    invoice_number: str
    amount_in_cents: int
    issued_on: str
    due_on: str | None
    buyer: str


SUMMARIES = Table("mobility_invoices", InvoiceSummary)
INVOICES = Table("mobility_invoices", InvoiceRow)
_ISSUED = Table("mobility_invoices", IssuedInvoice)
_LINES = Table("mobility_invoice_lines", Line)
_SUMS = Table("mobility_invoice_sums", Sum)


def freeze(tx: Tx, organization_id: str, customer_id: str, invoice_id: str, facts: Facts) -> InvoiceRow:
    row = InvoiceRow(
        organization_id=organization_id,
        id=invoice_id,
        customer_id=customer_id,
        mobility_invoice_id=invoice_id,
        invoice_number=facts.number,
        type_code=facts.type_code,
        amount_in_cents=facts.amount_in_cents,
        ticket_count=len(facts.lines),
        issued_on=facts.issued_on.isoformat(),
        due_on=facts.due_on.isoformat() if facts.due_on else None,
        seller=encode(facts.seller).decode(),
        buyer=encode(facts.buyer).decode(),
        invoiced_at=tx.now,
        created_at=tx.now,
        logo_sha256=facts.logo.sha256 if facts.logo else None,
    )
    INVOICES.insert(tx, row)
    for table, items in ((_LINES, facts.lines), (_SUMS, facts.sums)):
        tx.many(
            f"INSERT INTO {table.name} (organization_id, invoice_id, {table.columns})"
            f" VALUES (?, ?, {', '.join('?' * len(items[0]))})",
            [(organization_id, invoice_id, *item) for item in items],
        )
    return row


def load(tx: Tx, organization_id: str, invoice_id: str) -> tuple[InvoiceRow, Facts]:
    """Returns an invoice as it was issued."""
    row = INVOICES.one(tx, "organization_id = ? AND id = ?", organization_id, invoice_id)
    assert row is not None
    of_invoice = "organization_id = ? AND invoice_id = ?"
    return row, Facts(
        number=row.invoice_number,
        type_code=row.type_code,
        issued_on=date.fromisoformat(row.issued_on),
        due_on=date.fromisoformat(row.due_on) if row.due_on else None,
        seller=seller.decode(row.seller),
        buyer=msgspec.json.decode(row.buyer, type=Buyer),
        lines=_LINES.all(tx, f"{of_invoice} ORDER BY position", organization_id, invoice_id),
        sums=_SUMS.all(tx, f"{of_invoice} ORDER BY vat_rate DESC", organization_id, invoice_id),
        logo=seller.find_logo(tx, organization_id, row.logo_sha256),
    )


def issued_since(tx: Tx, organization_id: str, day: date, limit: int) -> list[tuple[IssuedInvoice, Buyer]]:
    """The latest invoices and corrections since a day, with whom they were issued to."""
    found = _ISSUED.all(
        tx, "organization_id = ? AND issued_on >= ? ORDER BY issued_on DESC, id DESC LIMIT ?",
        organization_id, day.isoformat(), limit,
    )  # fmt: skip
    return [(row, msgspec.json.decode(row.buyer, type=Buyer)) for row in found]


def issued_with(tx: Tx, organization_id: str, numbers: list[str]) -> dict[str, IssuedInvoice]:
    """The invoices of these numbers, few of them."""
    found: dict[str, IssuedInvoice] = {}
    for some, is_one in chunked(numbers):
        rows = _ISSUED.all(tx, f"organization_id = ? AND invoice_number {is_one}", organization_id, *some)
        found.update({row.invoice_number: row for row in rows})
    return found


def latest(
    tx: Tx,
    organization_id: str,
    limit: int,
    *,
    customer_id: str = "",
    since: date | None = None,
    until: date | None = None,
    after: str = "",
) -> list[InvoiceSummary]:
    """The newest first; `after` is the id of the last one of the page before."""
    bounds: list[tuple[str, str | None]] = [
        ("organization_id = ?", organization_id),
        ("customer_id = ?", customer_id or None),
        ("issued_on >= ?", since.isoformat() if since else None),
        ("issued_on <= ?", until.isoformat() if until else None),
        ("id < ?", after or None),
    ]
    given = [(condition, value) for condition, value in bounds if value is not None]
    where = " AND ".join(condition for condition, _ in given)
    return SUMMARIES.all(tx, f"{where} ORDER BY id DESC LIMIT ?", *(value for _, value in given), limit)


# Verifies stored invoices for the doctor: numbers without gaps, lines and sums that agree, documents unchanged.


_SERIES = "invoices "


def organizations_with_invoices(tx: Tx) -> list[str]:
    return [row[0] for row in tx.all("SELECT DISTINCT organization_id FROM mobility_invoices ORDER BY organization_id")]


def find_differences(tx: Tx, organization_id: str) -> list[str]:
    """Returns one sentence for each difference from what was written."""
    return [*_gaps(tx, organization_id), *_sums(tx, organization_id), *_documents(tx, organization_id)]


def _gaps(tx: Tx, organization_id: str) -> Iterator[str]:
    rows = tx.all("SELECT invoice_number FROM mobility_invoices WHERE organization_id = ?", organization_id)
    issued = [str(row[0]) for row in rows]
    for name, last in tx.all(
        "SELECT series, last_number FROM mobility_numbers WHERE organization_id = ? ORDER BY series", organization_id
    ):
        if not name.startswith(_SERIES):
            continue
        prefix = name.removeprefix(_SERIES)
        ends = (number.removeprefix(prefix) for number in issued if number.startswith(prefix))
        found = {int(end) for end in ends if end.isdigit()}
        missing = [number for number in range(1, last + 1) if number not in found]
        if missing:
            yield f"Invoice numbers {prefix}…: {missing[0]} was given and there is no such invoice ({len(missing)} are missing)."


def _sums(tx: Tx, organization_id: str) -> Iterator[str]:
    for number, amount, count, lines, line_sum, net_sum, rate_sum, rate_net in tx.all(
        "SELECT i.invoice_number, i.amount_in_cents, i.ticket_count, l.lines, l.amount, l.net, s.amount, s.net"
        " FROM mobility_invoices i"
        " LEFT JOIN (SELECT invoice_id, COUNT(*) AS lines, SUM(amount_in_cents) AS amount, SUM(net_in_cents) AS net"
        " FROM mobility_invoice_lines WHERE organization_id = ? GROUP BY invoice_id) l ON l.invoice_id = i.id"
        " LEFT JOIN (SELECT invoice_id, SUM(amount_in_cents) AS amount, SUM(net_in_cents) AS net"
        " FROM mobility_invoice_sums WHERE organization_id = ? GROUP BY invoice_id) s ON s.invoice_id = i.id"
        " WHERE i.organization_id = ? ORDER BY i.issued_on, i.id",
        organization_id, organization_id, organization_id,
    ):  # fmt: skip
        if (count, amount, amount) != (lines, line_sum, rate_sum) or net_sum != rate_net:
            yield f"Invoice {number} over {amount} cents: its lines make {line_sum}, its sums {rate_sum}."


def _documents(tx: Tx, organization_id: str) -> Iterator[str]:
    for invoice_id, kind, expected in tx.all(
        "SELECT invoice_id, kind, sha256 FROM mobility_documents WHERE organization_id = ? ORDER BY invoice_id, kind",
        organization_id,
    ):
        row = tx.one(
            "SELECT content FROM mobility_documents WHERE organization_id = ? AND invoice_id = ? AND kind = ?",
            organization_id, invoice_id, kind,
        )  # fmt: skip
        if row is None or hashlib.sha256(bytes(row[0])).hexdigest() != expected:
            yield f"The {kind} of the invoice {invoice_id} is not the one that was stored."
