"""Ids in commit order: taken from the organisation's counters inside the transaction that uses them.

The UPDATE locks the counter's row until the commit, so no lower number can become visible after a higher one.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from kontobahn.db import Tx

Kind = Literal["connection", "account", "transaction", "payment", "order_file", "change"]
# An id is the organisation's number, then its own with leading zeros.
SPAN = 1_000_000_000_000


def take(tx: Tx, organization_id: str, kind: Kind, count: int = 1) -> int:
    """Takes `count` consecutive numbers and returns the first."""
    column = f"last_{kind}"
    sql = f"UPDATE banking_counters SET {column} = {column} + ? WHERE organization_id = ? RETURNING number, {column}"
    row = tx.one(sql, count, organization_id)
    if row is None:
        _open(tx, organization_id)
        row = tx.one(sql, count, organization_id)
    assert row is not None
    number, last = row
    # Changes are numbered within the organisation only: the number is a cursor, not an id.
    return int(last - count + 1 if kind == "change" else number * SPAN + last - count + 1)


class Last(NamedTuple):
    """The last numbers that were taken. That of a transaction is a whole id."""

    transaction: int
    change: int
    payment: int


def last(tx: Tx, organization_id: str) -> Last:
    """Returns the last numbers, which nobody can take any further until the transaction ends."""
    # Takes none, and locks the row.
    take(tx, organization_id, "change", 0)
    row = tx.one(
        "SELECT number, last_transaction, last_change, last_payment FROM banking_counters WHERE organization_id = ?",
        organization_id,
    )
    assert row is not None
    number, transaction, change, payment = row
    return Last(number * SPAN + transaction, change, payment)


def _open(tx: Tx, organization_id: str) -> None:
    tx.lock("banking_counters")
    tx.run(
        "INSERT INTO banking_counters (organization_id, number, last_connection, last_account, last_transaction,"
        " last_payment, last_change)"
        " SELECT ?, COALESCE(MAX(number), 0) + 1, 0, 0, 0, 0, 0 FROM banking_counters WHERE 1 = 1 ON CONFLICT DO NOTHING",
        organization_id,
    )
