"""Verifies stored invoices for the doctor: numbers without gaps, lines and sums that agree, documents unchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from kontobahn.db import Tx

_SERIES = "invoices "


def organizations(tx: Tx) -> list[str]:
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
