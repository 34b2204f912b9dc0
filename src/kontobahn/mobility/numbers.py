"""Numbers without gaps: a series of an organisation advances in the transaction that uses the number, or not at all."""

from __future__ import annotations

from kontobahn.db import Tx


def take_next(tx: Tx, organization_id: str, series: str) -> int:
    """Returns the next number. Others wait until this transaction has ended; if it fails, the number stays free."""
    tx.run(
        "INSERT INTO mobility_numbers (organization_id, series, last_number) VALUES (?, ?, 0) ON CONFLICT DO NOTHING",
        organization_id, series,
    )  # fmt: skip
    tx.run(
        "UPDATE mobility_numbers SET last_number = last_number + 1 WHERE organization_id = ? AND series = ?",
        organization_id, series,
    )  # fmt: skip
    row = tx.one(
        "SELECT last_number FROM mobility_numbers WHERE organization_id = ? AND series = ?", organization_id, series
    )
    assert row is not None
    return int(row[0])
