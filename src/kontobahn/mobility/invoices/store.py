"""Invoices in the database: written once with their lines and sums, read back, never changed or deleted."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

import msgspec

from kontobahn.db import Table, Tx, in_portions
from kontobahn.json_text import encode
from kontobahn.mobility import seller
from kontobahn.mobility.invoices.facts import Buyer, Facts, Line, Sum
from kontobahn.mobility.logos import logo


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
    """What a payment is compared with."""

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
        logo=logo.find(tx, organization_id, row.logo_sha256),
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
    for some, is_one in in_portions(numbers):
        rows = _ISSUED.all(tx, f"organization_id = ? AND invoice_number {is_one}", organization_id, *some)
        found.update({row.invoice_number: row for row in rows})
    return found
