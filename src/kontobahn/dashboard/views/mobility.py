"""Tickets and invoices as pages show them: the newest first, and what is due."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

from kontobahn.db import Tx
from kontobahn.mobility.invoices.store import SUMMARIES, InvoiceSummary
from kontobahn.mobility.tickets.ticket import TICKETS, Ticket

_TO_CHARGE = "status = 'open'"
_TO_CREDIT = "status = 'cancelled' AND invoice_id IS NOT NULL"


def tickets(
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
    """What the next invoice charges and credits."""

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


def open_tickets(tx: Tx, organization_id: str) -> dict[str, int]:
    """How many tickets of each customer wait for an invoice."""
    rows = tx.all(
        "SELECT customer_id, COUNT(*) FROM mobility_tickets WHERE organization_id = ? AND status = 'open'"
        " GROUP BY customer_id",
        organization_id,
    )
    return {customer_id: int(count) for customer_id, count in rows}


def invoices(
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
