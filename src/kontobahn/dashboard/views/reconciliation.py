"""Figures and neighbours of reconciliation that no call answers."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.dashboard.views import books
from kontobahn.db import Tx
from kontobahn.ledger.konto import functional
from kontobahn.reconciliation import store
from kontobahn.reconciliation.store import AccountSettings, Client, ProposalRow

# More than this are counted as "more than".
MOST_COUNTED = 10_000
# So many are listed before the one that is looked at.
LISTED_BEFORE = 8
SHORTEST = 4


class Unmatched(NamedTuple):
    """Money at the bank that nobody has said yet what it is for: how many transactions, what came in and what went out."""

    transactions: int
    came_minor: int
    went_minor: int


class Neighbours(NamedTuple):
    """The transactions before and after one that wait for the same."""

    before: int | None
    after: int | None
    # The one before the first that is listed beside it; None if that is the first of all.
    first: int | None = None


def as_written(tx: Tx, client: Client, *konten: str) -> list[str]:
    """Ledger accounts as the client writes them; one that would lose a digit stays as it is."""
    known = books.clients(tx, (client.organization_id,))
    length = next((one.konto_laenge for one in known if (one.connection_id, one.client_id) == client[1:]), SHORTEST)
    return [konto if konto[length:].strip("0") else functional(konto, length) for konto in konten]


def set_up(tx: Tx, organization_id: str) -> list[AccountSettings]:
    return store.ACCOUNTS.all(tx, "organization_id = ? ORDER BY account_id", organization_id)


def counts(tx: Tx, organization_id: str, account_id: int) -> dict[str, int]:
    return dict(
        tx.all(
            "SELECT state, COUNT(*) FROM recon_transactions WHERE organization_id = ? AND account_id = ? GROUP BY state",
            organization_id, account_id,
        )
    )  # fmt: skip


def unmatched(tx: Tx, organization_id: str) -> Unmatched:
    row = tx.one(
        "SELECT COUNT(*), COALESCE(SUM(CASE WHEN amount_minor > 0 THEN amount_minor ELSE 0 END), 0),"
        " COALESCE(SUM(CASE WHEN amount_minor < 0 THEN amount_minor ELSE 0 END), 0) FROM ("
        " SELECT t.amount_minor FROM recon_transactions r"
        " JOIN banking_transactions t ON t.account_id = r.account_id AND t.id = r.id AND t.status = 'posted'"
        " WHERE r.organization_id = ? AND (r.state = 'open' OR r.state = 'proposed') LIMIT ?) u",
        organization_id, MOST_COUNTED,
    )  # fmt: skip
    return Unmatched(*(int(value) for value in row or (0, 0, 0)))


def neighbours(tx: Tx, organization_id: str, account_id: int, transaction_id: int, state: str) -> Neighbours:
    scope = (organization_id, account_id, state, transaction_id)
    where = "FROM recon_transactions WHERE organization_id = ? AND account_id = ? AND state = ? AND id"
    before = tx.one(f"SELECT MAX(id) {where} < ?", *scope)
    after = tx.one(f"SELECT MIN(id) {where} > ?", *scope)
    first = tx.one(f"SELECT id {where} < ? ORDER BY id DESC LIMIT 1 OFFSET ?", *scope, LISTED_BEFORE)
    return Neighbours(before[0] if before else None, after[0] if after else None, first[0] if first else None)


def sure(tx: Tx, organization_id: str, account_id: int, limit: int) -> list[ProposalRow]:
    """Best proposals that are clear enough to act alone, and wait; the oldest first."""
    return store.PROPOSALS.all(
        tx,
        "organization_id = ? AND state = 'open' AND place = 1 AND acts = 1 AND transaction_id IN ("
        " SELECT id FROM recon_transactions WHERE organization_id = ? AND account_id = ? AND state = 'proposed')"
        " ORDER BY transaction_id LIMIT ?",
        organization_id, organization_id, account_id, limit,
    )  # fmt: skip
