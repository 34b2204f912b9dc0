"""Matches, hand-overs and settings of an account that becomes part of another one, and that is one of its own again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.merges.comparison import Comparison, Standing
from kontobahn.banking.merges.store import MergeRow, Undone
from kontobahn.db import Tx, chunked
from kontobahn.json_text import decode_kept, encode_kept
from kontobahn.reconciliation import store
from kontobahn.reconciliation.store import AccountSettings, TransactionRow

_OF_ACCOUNT = "organization_id = ? AND account_id = ?"


class Kept(NamedTuple):
    """The rows that were changed, and those that went, for whoever undoes it."""

    settings: AccountSettings | None
    took_settings: bool
    matches: list[str]
    batches: list[str]
    runs: list[str]
    transactions: list[TransactionRow]


class Counts(NamedTuple):
    # Matches that stand, and hand-overs, of the account that is merged.
    matches: int
    batches: int


def standing(tx: Tx, *both: AccountRow) -> dict[int, Standing]:
    """The transactions of the accounts that something was decided about."""
    found: dict[int, Standing] = {}
    for account in both:
        of_account = (account.organization_id, account.id)
        decided = tx.all(
            f"SELECT id FROM recon_transactions WHERE {_OF_ACCOUNT} AND state IN ('ignored', 'booked')", *of_account
        )
        matched = tx.all(
            f"SELECT transaction_id FROM recon_matches WHERE {_OF_ACCOUNT} AND undo_id IS NULL", *of_account
        )
        found |= {number: "decided" for (number,) in decided}
        found |= {number: "matched" for (number,) in matched}
    return found


def count(tx: Tx, merged: AccountRow) -> Counts:
    live = _ids(tx, "recon_matches", merged, " AND undo_id IS NULL")
    return Counts(len(live), len(_ids(tx, "recon_batches", merged)))


def problems(tx: Tx, account: AccountRow, merged: AccountRow) -> list[str]:
    """Sentences: the reasons against it."""
    ours, theirs = _settings(tx, account), _settings(tx, merged)
    if ours is None or theirs is None or ours.client == theirs.client or not any(count(tx, merged)):
        return []
    return [
        "The accounts belong to different books, and both have matches or hand-overs: undo those of one of them first."
    ]


def _settings(tx: Tx, account: AccountRow) -> AccountSettings | None:
    return store.account_settings(tx, account.organization_id, account.id)


def _ids(tx: Tx, table: str, account: AccountRow, condition: str = "") -> list[str]:
    rows = tx.all(
        f"SELECT id FROM {table} WHERE {_OF_ACCOUNT}{condition} ORDER BY id", account.organization_id, account.id
    )
    return [number for (number,) in rows]


# --- Made one


def merge(tx: Tx, found: Comparison) -> str:
    """Moves everything to the account that stays. Returns what undoing takes."""
    account, merged = found.account, found.merged
    organization_id = account.organization_id
    gone = [row.id for row in found.gone]
    settings = _settings(tx, merged)
    kept = Kept(
        settings=settings,
        took_settings=settings is not None and _settings(tx, account) is None,
        matches=_ids(tx, "recon_matches", merged),
        batches=_ids(tx, "recon_batches", merged),
        runs=_ids(tx, "recon_runs", merged),
        transactions=_forget(tx, organization_id, gone),
    )
    tx.run(f"UPDATE recon_transactions SET account_id = ? WHERE {_OF_ACCOUNT}", account.id, organization_id, merged.id)
    _move_matches(tx, organization_id, kept.matches, account.id)
    _move_records(tx, organization_id, kept, merged.id, account.id)
    if settings is not None:
        tx.run(f"DELETE FROM recon_accounts WHERE {_OF_ACCOUNT}", organization_id, merged.id)
        if kept.took_settings:
            store.ACCOUNTS.insert(tx, settings._replace(account_id=account.id))
    return encode_kept(kept).decode()


def _forget(tx: Tx, organization_id: str, transaction_ids: list[int]) -> list[TransactionRow]:
    """Removes what is said of transactions that go; nothing that was decided, since another one stays for each."""
    found = []
    for some, is_one in chunked(transaction_ids):
        found += store.TRANSACTIONS.all(tx, f"organization_id = ? AND id {is_one}", organization_id, *some)
        tx.run(f"DELETE FROM recon_transactions WHERE organization_id = ? AND id {is_one}", organization_id, *some)
        tx.run(
            "UPDATE recon_proposals SET state = 'replaced'"
            f" WHERE organization_id = ? AND state = 'open' AND transaction_id {is_one}",
            organization_id, *some,
        )  # fmt: skip
    return found


def _move_matches(tx: Tx, organization_id: str, match_ids: Iterable[str], account_id: int) -> None:
    tx.many(
        "UPDATE recon_matches SET account_id = ? WHERE organization_id = ? AND id = ?",
        [(account_id, organization_id, match_id) for match_id in match_ids],
    )


def _move_records(tx: Tx, organization_id: str, kept: Kept, before: int, after: int) -> None:
    """Moves runs and hand-overs, whose answers name their account."""
    for table, found in (("recon_runs", kept.runs), ("recon_batches", kept.batches)):
        tx.many(
            f"UPDATE {table} SET account_id = ?, wire = REPLACE(wire, ?, ?) WHERE organization_id = ? AND id = ?",
            [
                (after, f'"account_id":"{before}"', f'"account_id":"{after}"', organization_id, record_id)
                for record_id in found
            ],
        )


# --- Made two again


def undo_problem(tx: Tx, row: MergeRow) -> str | None:
    """Says why a merge cannot be undone; None if it can."""
    later = tx.one(
        f"SELECT 1 FROM recon_batches WHERE {_OF_ACCOUNT} AND made_at > ? LIMIT 1",
        row.organization_id, row.account_id, row.made_at,
    )  # fmt: skip
    return None if later is None else "Matches of the account were handed over since."


def undo(tx: Tx, undone: Undone) -> None:
    row, kept = undone.row, decode_kept(undone.kept.elsewhere, Kept)
    organization_id, account_id, merged_id = row.organization_id, row.account_id, row.merged_id
    for some, is_one in chunked(undone.returned):
        for table, column in (("recon_transactions", "id"), ("recon_matches", "transaction_id")):
            tx.run(
                f"UPDATE {table} SET account_id = ? WHERE organization_id = ? AND account_id = ? AND {column} {is_one}",
                merged_id, organization_id, account_id, *some,
            )  # fmt: skip
    _move_matches(tx, organization_id, kept.matches, merged_id)
    _move_records(tx, organization_id, kept, account_id, merged_id)
    # Its proposals are gone: the next run makes them anew.
    store.TRANSACTIONS.insert_many(
        tx, [one._replace(state="open") if one.state == "proposed" else one for one in kept.transactions]
    )
    if kept.settings is not None:
        store.ACCOUNTS.insert(tx, kept.settings)
        if kept.took_settings and not store.matches_between(
            tx, organization_id, account_id, "0001-01-01", "9999-12-31", limit=1
        ):
            tx.run(f"DELETE FROM recon_accounts WHERE {_OF_ACCOUNT}", organization_id, account_id)
