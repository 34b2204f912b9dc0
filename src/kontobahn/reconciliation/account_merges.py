"""Merges of accounts over HTTP: shown beforehand, made, listed, undone. Everything that names the account follows it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Annotated, NamedTuple

from msgspec import Meta

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.answers import Data, from_row
from kontobahn.api.call import Call
from kontobahn.api.declare import get, post
from kontobahn.api.wire import Answer, Body, ListQuery, Query, Timestamp, Uuid
from kontobahn.banking import merges
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.merges import MergeRow, Report, Undone
from kontobahn.banking.merges.comparison import Comparison, Standing, StoredRow, compare, decode_transaction
from kontobahn.banking.wire import NumericId
from kontobahn.db import Tx, chunked
from kontobahn.errors import Conflict
from kontobahn.json_text import decode_kept, encode_kept
from kontobahn.money import from_minor
from kontobahn.reconciliation import store
from kontobahn.reconciliation.store import AccountSettings, TransactionRow

# Matches, hand-overs and settings of an account that becomes part of another one, and that is one of its own again.


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
        "The accounts belong to different books, and the one that goes has matches or hand-overs: undo its matches, or let the other go."
    ]


def _settings(tx: Tx, account: AccountRow) -> AccountSettings | None:
    return store.account_settings(tx, account.organization_id, account.id)


def _ids(tx: Tx, table: str, account: AccountRow, condition: str = "") -> list[str]:
    rows = tx.all(
        f"SELECT id FROM {table} WHERE {_OF_ACCOUNT}{condition} ORDER BY id", account.organization_id, account.id
    )
    return [number for (number,) in rows]


# --- Made one


def merge_in_reconciliation(tx: Tx, found: Comparison) -> str:
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


def undo_in_reconciliation(tx: Tx, undone: Undone) -> None:
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


# Bookings of a preview that are shown of each kind; the counts are those of all.
SHOWN = 200

_Stays = Annotated[NumericId, Meta(description="The account that stays.")]
_Goes = Annotated[NumericId, Meta(description="The account that becomes part of it. Its id means the other one then.")]


class MergeQuery(Query, kw_only=True):
    account_id: _Stays
    merged_account_id: _Goes


class NewAccountMerge(Body):
    account_id: _Stays
    merged_account_id: _Goes


class MergeCounts(Answer):
    same: Annotated[int, Meta(description="Bookings that both have: one of each stays.")]
    moved: Annotated[int, Meta(description="Bookings that come to the account that stays.")]
    left_out: Annotated[int, Meta(description="Bookings that go: the statements of their days have others.")]
    payments: int
    order_files: int
    connections: int
    statements: int


class ComparedBooking(Answer):
    """A booking that both have: the rows that stay and those that go. One has several where a batch is booked in parts."""

    made_on: date
    amount: Decimal
    description: str
    kept_ids: list[str]
    removed_ids: list[str]


class AccountMergePreview(Answer):
    account_id: str
    merged_account_id: str
    iban: str
    counts: MergeCounts
    # Matches that stand, and hand-overs, of the account that is merged.
    matches: int
    batches: int
    # The balance that the account will have.
    balance: Decimal | None
    # The first of them.
    same: list[ComparedBooking]
    moved: list[ComparedBooking]
    left_out: list[ComparedBooking]
    # Reasons against it; empty if it can be done.
    problems: list[str]


class AccountMerge(Answer):
    id: Uuid
    account_id: str
    merged_account_id: str
    iban: str
    counts: MergeCounts
    made_by: str
    made_at: Timestamp
    # Null once it cannot be undone any more.
    undo_until: Timestamp | None
    # The reason why it cannot be undone now; null if it can, or was.
    undo_problem: str | None
    undone_by: str | None
    undone_at: Timestamp | None


@get("/v2/banking/account-merges/preview", scope="banking:read", errors=(403, 404, 409))
async def preview_account_merge(call: Call, query: MergeQuery) -> Data[AccountMergePreview]:
    """Show what making one account of two would do. Nothing is changed.

    For two accounts with one IBAN that different connections report.
    """
    found = await call.read(preview, call.principal, query.account_id, query.merged_account_id)
    return Data(shown(found))


@post(
    "/v2/banking/account-merges", scope="banking:write", also_scope="ledger:write", role="admin", errors=(403, 404, 409)
)  # fmt: skip
async def create_account_merge(call: Call, body: NewAccountMerge) -> Data[AccountMerge]:
    """Make one account of two with the same IBAN.

    Bookings that both have become one; all others, payments, matches, hand-overs and connections come to the account that stays. The id
    of the other keeps its meaning: wherever it is sent, the account that stays is meant. It can be undone for 30 days, for as long as
    nothing contradicts it.
    """
    # Compared before the transaction, for which others wait; there only whether it still holds.
    compared = await call.read(compare_twins, call.principal, body.account_id, body.merged_account_id)
    return await call.commit(make, call.principal, call.actor, body.account_id, body.merged_account_id, compared)


@get("/v2/banking/account-merges", scope="banking:read", errors=(403, 404))
async def list_account_merges(call: Call, query: ListQuery) -> Data[list[AccountMerge]]:
    """List the merges of accounts, the latest first."""
    return Data(await call.read(listing, call.principal.organizations(query.organization_id)))


@post(
    "/v2/banking/account-merges/{id}/undo", statuses=(200,), scope="banking:write", also_scope="ledger:write", role="admin",
    errors=(403, 404, 409),
)  # fmt: skip
async def undo_account_merge(call: Call, id: Uuid) -> Data[AccountMerge]:
    """Make two accounts again of those that were made one.

    What has come since belongs to the account whose connection brought it, and both are fetched from the beginning. 409 if something
    contradicts it: a statement or a hand-over since, a connection that was removed, or more than 30 days.
    """
    prepared = await call.read(prepare_undo, call.principal, id)
    return await call.commit(undo, call.principal, call.actor, id, prepared)


# --- In a transaction


class Preview(NamedTuple):
    found: Comparison
    counts: Report
    elsewhere: Counts
    balance_minor: int | None


def preview(tx: Tx, principal: Principal, account_id: str, merged_id: str) -> Preview:
    account, merged = merges.check_twins(tx, principal, account_id, merged_id)
    found = _compare(tx, account, merged)
    return Preview(found, merges.count(tx, found), count(tx, merged), merges.later_balance(account, merged).balance)


def _compare(tx: Tx, account: AccountRow, merged: AccountRow) -> Comparison:
    found = compare(tx, account, merged, standing(tx, account, merged))
    return found._replace(problems=[*found.problems, *problems(tx, account, merged)])


class Compared(NamedTuple):
    """A comparison, what was made of it, and all that it depends on."""

    prepared: merges.Prepared
    marks: tuple[object, ...]


def compare_twins(tx: Tx, principal: Principal, account_id: str, merged_id: str) -> Compared:
    account, merged = merges.check_twins(tx, principal, account_id, merged_id)
    return Compared(merges.prepare(_compare(tx, account, merged)), _marks(tx, account, merged))


def _marks(tx: Tx, account: AccountRow, merged: AccountRow) -> tuple[object, ...]:
    """Equal for as long as nothing has changed of the accounts, of their bookings, and of what was decided about these."""
    decided = (standing(tx, account, merged), problems(tx, account, merged))
    return account, merged, merges.last_changes(tx, account, merged), decided


def make(
    tx: Tx, principal: Principal, actor: Actor, account_id: str, merged_id: str, compared: Compared | None = None
) -> Data[AccountMerge]:
    merges.lock(tx, *merges.check_twins(tx, principal, account_id, merged_id))
    # Read again, as they are under their locks.
    account, merged = merges.check_twins(tx, principal, account_id, merged_id)
    store.lock(tx, account.organization_id)
    holds = compared is not None and compared.marks == _marks(tx, account, merged)
    prepared = compared.prepared if compared is not None and holds else merges.prepare(_compare(tx, account, merged))
    found = prepared.found
    if found.problems:
        raise Conflict(found.problems[0])
    elsewhere = merge_in_reconciliation(tx, found)
    row = merges.merge(tx, prepared, actor.name, elsewhere)
    audit.record(
        tx, row.organization_id, actor, "bank_account.merge", str(row.account_id),
        merged=str(row.merged_id), same=row.counts.same, moved=row.counts.moved, left_out=row.counts.left_out,
    )  # fmt: skip
    return Data(_merge(tx, row))


def prepare_undo(tx: Tx, principal: Principal, merge_id: str) -> merges.Parting | None:
    return merges.prepare_undo(tx, merges.find(tx, principal, merge_id))


def undo(
    tx: Tx, principal: Principal, actor: Actor, merge_id: str, prepared: merges.Parting | None = None
) -> Data[AccountMerge]:
    row = merges.find(tx, principal, merge_id)
    account = accounts.look_up(tx, row.organization_id, row.account_id)
    if account is not None:
        merges.lock(tx, account)
    store.lock(tx, row.organization_id)
    row = merges.find(tx, principal, merge_id)
    problem = _undo_problem(tx, row)
    if problem is not None:
        raise Conflict(problem)
    undone = merges.undo(tx, row, actor.name, prepared)
    undo_in_reconciliation(tx, undone)
    audit.record(
        tx, row.organization_id, actor, "bank_account.merge_undo", str(row.account_id), merged=str(row.merged_id)
    )  # fmt: skip
    return Data(_merge(tx, undone.row))


def listing(tx: Tx, organizations: tuple[str, ...]) -> list[AccountMerge]:
    return [_merge(tx, row) for row in merges.listing(tx, organizations)]


def _undo_problem(tx: Tx, row: MergeRow) -> str | None:
    return merges.undo_problem(tx, row) or undo_problem(tx, row)


# --- Over the wire


def _merge(tx: Tx, row: MergeRow) -> AccountMerge:
    return from_row(
        AccountMerge,
        row,
        account_id=str(row.account_id),
        merged_account_id=str(row.merged_id),
        counts=_counts(row.counts),
        undo_problem=None if row.undone_at is not None else _undo_problem(tx, row),
    )


def _counts(report: Report) -> MergeCounts:
    return MergeCounts(**report._asdict())


def shown(preview: Preview) -> AccountMergePreview:
    found = preview.found
    return AccountMergePreview(
        account_id=str(found.account.id),
        merged_account_id=str(found.merged.id),
        iban=found.account.iban or "",
        counts=_counts(preview.counts),
        matches=preview.elsewhere.matches,
        batches=preview.elsewhere.batches,
        balance=None if preview.balance_minor is None else from_minor(preview.balance_minor),
        same=[_compared(one.kept, one.gone) for one in found.same[:SHOWN]],
        moved=[_compared([row], []) for row in found.added[:SHOWN]],
        left_out=[_compared([], [row]) for row in found.denied[:SHOWN]],
        problems=found.problems,
    )


def _compared(kept: list[StoredRow], gone: list[StoredRow]) -> ComparedBooking:
    told = decode_transaction((kept or gone)[0].wire)
    return ComparedBooking(
        made_on=told.made_on,
        amount=from_minor(sum(row.amount_minor for row in kept or gone)),
        description=told.description_parsed.svwz or told.description,
        kept_ids=[str(row.id) for row in kept],
        removed_ids=[str(row.id) for row in gone],
    )
