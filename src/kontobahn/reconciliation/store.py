"""Rows of reconciliation, and reading them. Every query starts from the organisation.

Amounts are cents, signed as in `core/model.py`: money in is positive, and the lines of a match sum to its transaction.
A match or an undo is written by `decisions.py`, under `lock`, and by nothing else.
"""

# For whoever books matches (a batch) or shows them (a page):
#
# - `account_settings`: the books, the bank's ledger account and who books, for a bank account.
# - `matches`: those of a client that are `live`, `undone` or `all`, by id, a page at a time; `matches_between` by value date.
# - `lines_of`: the lines of matches, in order, by match. `item`, `skonto` and `return` name a person account and a document
#   byte for byte; `ledger_account`, `fee`, `difference` and `transfer` a ledger account; `on_account` a person account alone.
# - `undos_of`: who undid which of these matches, when and why. A match is never changed or deleted: to take back what was booked
#   of it, look for those with an `undo_id`.
# - `taken_from`: what live matches took from documents that the books do not show yet.

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from typing import Literal, NamedTuple

from kontobahn.access.principal import Principal, ask_in_scope
from kontobahn.banking.transactions.store import join_posted
from kontobahn.db import Rounds, Table, Tx, chunked, short_read
from kontobahn.reconciliation.core.model import EvidenceClass, Key, LineKind

# `booked`: the books show it already, and nobody here has matched it.
TransactionState = Literal["open", "proposed", "matched", "ignored", "booked"]
ProposalState = Literal["open", "confirmed", "rejected", "replaced"]
MatchState = Literal["live", "undone", "all"]
BookedBy = Literal["adviser", "kontobahn"]


class AccountSettings(NamedTuple):
    organization_id: str
    account_id: int
    connection_id: str
    client_id: str
    konto: str
    fee_konto: str
    transfer_konto: str
    start_date: str
    booked_by: BookedBy
    automatic_classes: str
    changed_by: str
    changed_at: int

    @property
    def acting(self) -> frozenset[EvidenceClass]:
        """The classes that may act alone."""
        return frozenset(self.automatic_classes.split())  # type: ignore[arg-type]

    @property
    def client(self) -> Client:
        return Client(self.organization_id, self.connection_id, self.client_id)


class Client(NamedTuple):
    """The owner of learned payers, rules and documents: an organisation and its client."""

    organization_id: str
    connection_id: str
    client_id: str


class RunRow(NamedTuple):
    organization_id: str
    id: str
    account_id: int
    connection_id: str
    client_id: str
    from_date: str
    to_date: str
    engine_version: str
    wire: str
    made_by: str
    made_at: int


class TransactionRow(NamedTuple):
    organization_id: str
    id: int
    account_id: int
    state: TransactionState
    run_id: str | None
    changed_at: int


class ProposalRow(NamedTuple):
    organization_id: str
    id: str
    transaction_id: int
    run_id: str
    place: int
    evidence: EvidenceClass
    acts: int
    score_tenths: int
    lines: str
    reasons: str
    engine_version: str
    state: ProposalState
    made_at: int
    decided_by: str | None
    decided_at: int | None


class MatchRow(NamedTuple):
    organization_id: str
    id: str
    transaction_id: int
    account_id: int
    connection_id: str
    client_id: str
    proposal_id: str | None
    evidence: str
    engine_version: str
    made_on: str
    amount_minor: int
    payer: str
    iban: str
    end_to_end_id: str | None
    mandate: str | None
    bank_reference: str | None
    made_by: str
    made_at: int
    undo_id: str | None


class LineRow(NamedTuple):
    organization_id: str
    match_id: str
    line: int
    kind: LineKind
    konto: str
    beleg: str
    amount_minor: int
    open_minor: int


class UndoRow(NamedTuple):
    organization_id: str
    id: str
    match_id: str
    reason: str
    made_by: str
    made_at: int


class LearnedRow(NamedTuple):
    organization_id: str
    id: str
    connection_id: str
    client_id: str
    kind: Literal["iban", "name"]
    value: str
    konto: str
    times: int
    first_at: int
    last_at: int


class RuleRow(NamedTuple):
    organization_id: str
    connection_id: str
    client_id: str
    place: int
    id: str
    name: str
    text: str
    iban: str
    sign: Literal["in", "out", "any"]
    least_minor: int | None
    most_minor: int | None
    konto: str
    acts: int = 0

    @property
    def meaning(self) -> tuple[object, ...]:
        """The fields that make it this rule, wherever it stands and whether or not it acts alone."""
        return self.name, self.text, self.iban, self.sign, self.least_minor, self.most_minor, self.konto


class Taken(NamedTuple):
    """`pending_minor` was taken by live matches and is not in the books yet, which showed `seen_minor` when they were last read."""

    pending_minor: int
    seen_minor: int

    def left_of(self, open_minor: int) -> Taken:
        """The same, now that the books show this: as far as they have moved towards what is pending, it was booked."""
        moved = self.seen_minor - open_minor
        low, high = sorted((0, self.pending_minor))
        return Taken(self.pending_minor - min(max(moved, low), high), open_minor)


ACCOUNTS = Table("recon_accounts", AccountSettings, key=("organization_id", "account_id"))
RUNS = Table("recon_runs", RunRow)
TRANSACTIONS = Table("recon_transactions", TransactionRow)
PROPOSALS = Table("recon_proposals", ProposalRow)
MATCHES = Table("recon_matches", MatchRow)
LINES = Table("recon_lines", LineRow, key=("organization_id", "match_id", "line"))
UNDOS = Table("recon_undos", UndoRow)
LEARNED = Table("recon_learned", LearnedRow)
RULES = Table("recon_rules", RuleRow, key=("organization_id", "connection_id", "client_id", "place"))
_OF_CLIENT = "organization_id = ? AND connection_id = ? AND client_id = ?"
_STATES: dict[MatchState, str] = {"live": " AND undo_id IS NULL", "undone": " AND undo_id IS NOT NULL", "all": ""}


def account_settings(tx: Tx, organization_id: str, account_id: int) -> AccountSettings | None:
    return ACCOUNTS.one(tx, "organization_id = ? AND account_id = ?", organization_id, account_id)


def ledger_accounts_elsewhere(tx: Tx, client: Client, account_id: int) -> frozenset[str]:
    """The ledger accounts of the client's other bank accounts, less that of this one."""
    rows = ACCOUNTS.all(tx, _OF_CLIENT, *client)
    own = {row.konto for row in rows if row.account_id == account_id}
    return frozenset(row.konto for row in rows) - own


@short_read
def find_match(principal: Principal, match_id: str) -> Rounds[MatchRow]:
    return ask_in_scope(MATCHES, principal, "Match", match_id.lower())


def was_handed_over(tx: Tx, row: MatchRow) -> bool:
    sql = "SELECT 1 FROM recon_batch_matches WHERE organization_id = ? AND match_id = ?"
    return tx.one(sql, row.organization_id, row.id) is not None


def live_match(tx: Tx, organization_id: str, transaction_id: int) -> MatchRow | None:
    return MATCHES.one(
        tx, "organization_id = ? AND transaction_id = ? AND undo_id IS NULL", organization_id, transaction_id
    )


def matches(
    tx: Tx, client: Client, state: MatchState = "live", *, after: str = "", limit: int = 1_000
) -> list[MatchRow]:
    """A client's matches in the order of their ids, which is that in which they were made."""
    condition = f"{_OF_CLIENT} AND id > ?{_STATES[state]} ORDER BY id LIMIT ?"
    return MATCHES.all(tx, condition, *client, after, limit)


def matches_between(
    tx: Tx, organization_id: str, account_id: int, first: str, last: str, state: MatchState = "live", limit: int = 5_000
) -> list[MatchRow]:
    """An account's matches by the value date of their transactions, the latest `limit` of them."""
    condition = f"organization_id = ? AND account_id = ? AND made_on >= ? AND made_on <= ?{_STATES[state]}"
    found = MATCHES.all(
        tx, f"{condition} ORDER BY made_on DESC, id DESC LIMIT ?", organization_id, account_id, first, last, limit
    )
    return found[::-1]


def lines_of(tx: Tx, organization_id: str, match_ids: Iterable[str]) -> dict[str, list[LineRow]]:
    found: dict[str, list[LineRow]] = defaultdict(list)
    for some, is_one in chunked(match_ids):
        condition = f"organization_id = ? AND match_id {is_one} ORDER BY match_id, line"
        for row in LINES.all(tx, condition, organization_id, *some):
            found[row.match_id].append(row)
    return found


def undos_of(tx: Tx, organization_id: str, match_ids: Iterable[str]) -> dict[str, UndoRow]:
    found: dict[str, UndoRow] = {}
    for some, is_one in chunked(match_ids):
        for row in UNDOS.all(tx, f"organization_id = ? AND match_id {is_one}", organization_id, *some):
            found[row.match_id] = row
    return found


def states_of(tx: Tx, organization_id: str, transaction_ids: Iterable[int]) -> dict[int, TransactionState]:
    found: dict[int, TransactionState] = {}
    for some, is_one in chunked(transaction_ids):
        sql = f"SELECT id, state FROM recon_transactions WHERE organization_id = ? AND id {is_one}"
        found.update(tx.all(sql, organization_id, *some))
    return found


def undone_of(tx: Tx, organization_id: str, transaction_ids: Iterable[int]) -> set[int]:
    """Those of the transactions that had a match which was undone."""
    found: set[int] = set()
    for some, is_one in chunked(transaction_ids):
        sql = f"SELECT transaction_id FROM recon_matches WHERE organization_id = ? AND transaction_id {is_one}"
        found.update(id for (id,) in tx.all(f"{sql} AND undo_id IS NOT NULL", organization_id, *some))
    return found


def undone_matches(tx: Tx, organization_id: str, transaction_ids: Iterable[int]) -> list[MatchRow]:
    """The matches of these transactions that were undone, the earliest first."""
    return [
        row
        for some, is_one in chunked(list(transaction_ids))
        for row in MATCHES.all(
            tx,
            f"organization_id = ? AND transaction_id {is_one} AND undo_id IS NOT NULL ORDER BY id",
            organization_id,
            *some,
        )
    ]


def proposals_of(
    tx: Tx, organization_id: str, transaction_ids: Iterable[int], *states: ProposalState
) -> dict[int, list[ProposalRow]]:
    """The proposals for transactions that are in one of these states, the best first."""
    found: dict[int, list[ProposalRow]] = defaultdict(list)
    for some, is_one in chunked(transaction_ids):
        condition = (
            f"organization_id = ? AND transaction_id {is_one}"
            f" AND state IN ({', '.join('?' * len(states))}) ORDER BY transaction_id, place, id"
        )
        for row in PROPOSALS.all(tx, condition, organization_id, *some, *states):
            found[row.transaction_id].append(row)
    return found


def taken_from(tx: Tx, client: Client) -> dict[Key, Taken]:
    """Returns what live matches took from a client's documents and the books do not show yet, by person account and document."""
    return {
        (konto, beleg): Taken(pending, seen)
        for konto, beleg, pending, seen in tx.all(
            f"SELECT konto, beleg, pending_minor, seen_minor FROM recon_items WHERE {_OF_CLIENT}", *client
        )
    }


def taken_from_these(tx: Tx, client: Client, keys: Iterable[Key]) -> dict[Key, Taken]:
    found = {}
    for konto, beleg in keys:
        row = tx.one(
            f"SELECT pending_minor, seen_minor FROM recon_items WHERE {_OF_CLIENT} AND konto = ? AND beleg = ?",
            *client, konto, beleg,
        )  # fmt: skip
        if row is not None:
            found[konto, beleg] = Taken(*row)
    return found


class ItemMatch(NamedTuple):
    """A live match that took from a document."""

    transaction_id: int
    made_on: str
    payer: str
    amount_minor: int
    was_handed_over: int


def matches_of_items(tx: Tx, client: Client, keys: Iterable[Key]) -> dict[Key, list[ItemMatch]]:
    """The live matches that took from these documents, in the order in which they were made."""
    found: dict[Key, list[ItemMatch]] = {}
    for konto, beleg in keys:
        rows = tx.all(
            "SELECT m.transaction_id, m.made_on, m.payer, l.amount_minor,"
            " CASE WHEN EXISTS (SELECT 1 FROM recon_batch_matches b WHERE b.organization_id = m.organization_id"
            " AND b.match_id = m.id) THEN 1 ELSE 0 END"
            " FROM recon_lines l JOIN recon_matches m ON m.organization_id = l.organization_id AND m.id = l.match_id"
            " WHERE l.organization_id = ? AND l.konto = ? AND l.beleg = ? AND l.kind = 'item'"
            " AND m.connection_id = ? AND m.client_id = ? AND m.undo_id IS NULL ORDER BY m.id",
            client.organization_id, konto, beleg, client.connection_id, client.client_id,
        )  # fmt: skip
        if rows:
            found[konto, beleg] = [ItemMatch(*row) for row in rows]
    return found


def put_taken(tx: Tx, client: Client, key: Key, taken: Taken) -> None:
    if not taken.pending_minor:
        # Nothing is pending: what the books show is what is open.
        tx.run(f"DELETE FROM recon_items WHERE {_OF_CLIENT} AND konto = ? AND beleg = ?", *client, *key)
        return
    tx.run(
        "INSERT INTO recon_items (organization_id, connection_id, client_id, konto, beleg, pending_minor, seen_minor)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (organization_id, connection_id, client_id, konto, beleg)"
        " DO UPDATE SET pending_minor = excluded.pending_minor, seen_minor = excluded.seen_minor",
        *client, *key, *taken,
    )  # fmt: skip


def learned(tx: Tx, client: Client, limit: int) -> list[LearnedRow]:
    return LEARNED.all(tx, f"{_OF_CLIENT} ORDER BY last_at DESC, id DESC LIMIT ?", *client, limit)


def rules(tx: Tx, client: Client) -> list[RuleRow]:
    return RULES.all(tx, f"{_OF_CLIENT} ORDER BY place", *client)


def lock(tx: Tx, organization_id: str) -> None:
    """Whoever decides about matches of an organisation takes this first: two never decide about one document at once."""
    tx.lock("reconciliation", organization_id)


# --- As people look at it

# More than this are counted as "more than".
MAX_COUNTED = 10_000
# This many are listed before the one being viewed.
LISTED_BEFORE = 8


class Unmatched(NamedTuple):
    """Money at the bank whose purpose nobody has named yet: how many transactions, what came in and what went out."""

    transactions: int
    came_minor: int
    went_minor: int


class Neighbours(NamedTuple):
    """The transactions before and after one that wait for the same."""

    before: int | None
    after: int | None
    # The one before the first that is listed beside it; None if that is the first of all.
    first: int | None = None


def all_settings(tx: Tx, organization_id: str) -> list[AccountSettings]:
    """The bank accounts that are set up, with their books."""
    return ACCOUNTS.all(tx, "organization_id = ? ORDER BY account_id", organization_id)


def any_live_match(tx: Tx, organization_id: str) -> bool:
    found = tx.one("SELECT 1 FROM recon_matches WHERE organization_id = ? AND undo_id IS NULL LIMIT 1", organization_id)
    return found is not None


def count_by_state(tx: Tx, organization_id: str, account_id: int) -> dict[str, int]:
    return dict(
        tx.all(
            "SELECT state, COUNT(*) FROM recon_transactions WHERE organization_id = ? AND account_id = ? GROUP BY state",
            organization_id, account_id,
        )
    )  # fmt: skip


def unmatched(tx: Tx, organization_id: str, made_until: date | None = None) -> Unmatched:
    """Counts what is neither matched nor laid aside, of all days or up to one."""
    until = "" if made_until is None else " AND t.made_on <= ?"
    row = tx.one(
        "SELECT COUNT(*), COALESCE(SUM(CASE WHEN amount_minor > 0 THEN amount_minor ELSE 0 END), 0),"
        " COALESCE(SUM(CASE WHEN amount_minor < 0 THEN amount_minor ELSE 0 END), 0) FROM ("
        " SELECT t.amount_minor FROM recon_transactions r"
        f" {join_posted('r')}"
        f" WHERE r.organization_id = ? AND (r.state = 'open' OR r.state = 'proposed'){until} LIMIT ?) u",
        organization_id, *([] if made_until is None else [made_until.isoformat()]), MAX_COUNTED,
    )  # fmt: skip
    return Unmatched(*(int(value) for value in row or (0, 0, 0)))


def neighbours(tx: Tx, organization_id: str, account_id: int, transaction_id: int, state: str) -> Neighbours:
    scope = (organization_id, account_id, state, transaction_id)
    where = "FROM recon_transactions WHERE organization_id = ? AND account_id = ? AND state = ? AND id"
    before = tx.one(f"SELECT MAX(id) {where} < ?", *scope)
    after = tx.one(f"SELECT MIN(id) {where} > ?", *scope)
    first = tx.one(f"SELECT id {where} < ? ORDER BY id DESC LIMIT 1 OFFSET ?", *scope, LISTED_BEFORE)
    return Neighbours(before[0] if before else None, after[0] if after else None, first[0] if first else None)


def best_first(tx: Tx, organization_id: str, account_id: int, place: int, limit: int) -> list[int]:
    """The transactions that wait for a confirmation, by their best proposals: the clear ones first, then by class and score."""
    rows = tx.all(
        "SELECT r.id FROM recon_transactions r JOIN recon_proposals p ON p.organization_id = r.organization_id"
        " AND p.transaction_id = r.id AND p.state = 'open' AND p.place = ("
        " SELECT MIN(q.place) FROM recon_proposals q WHERE q.organization_id = r.organization_id"
        " AND q.transaction_id = r.id AND q.state = 'open')"
        " WHERE r.organization_id = ? AND r.account_id = ? AND r.state = 'proposed'"
        " ORDER BY p.acts DESC, p.evidence, p.score_tenths DESC, r.id LIMIT ? OFFSET ?",
        organization_id, account_id, limit, place,
    )  # fmt: skip
    return list(dict.fromkeys(id for (id,) in rows))


def best_first_neighbours(tx: Tx, organization_id: str, account_id: int, transaction_id: int) -> Neighbours:
    """The same list, seen from one of its transactions."""
    ids = best_first(tx, organization_id, account_id, 0, MAX_COUNTED)
    if transaction_id not in ids:
        return Neighbours(None, ids[0] if ids else None)
    at = ids.index(transaction_id)
    return Neighbours(ids[at - 1] if at else None, ids[at + 1] if at + 1 < len(ids) else None)


def reversal_wanted_on(tx: Tx, organization_id: str, account_id: int) -> str | None:
    """The latest value date of a match that we booked and that was undone since, without the books knowing yet."""
    row = tx.one(
        "SELECT MAX(m.made_on) FROM recon_matches m"
        " JOIN recon_batch_matches b ON b.organization_id = m.organization_id AND b.match_id = m.id AND b.is_undo = 0"
        " JOIN recon_batches o ON o.organization_id = b.organization_id AND o.id = b.batch_id AND o.booked_by = 'kontobahn'"
        " WHERE m.organization_id = ? AND m.account_id = ? AND m.undo_id IS NOT NULL AND NOT EXISTS ("
        " SELECT 1 FROM recon_batch_matches r WHERE r.organization_id = m.organization_id AND r.match_id = m.id AND r.is_undo = 1)",
        organization_id, account_id,
    )  # fmt: skip
    return row[0] if row else None


def forget_account(tx: Tx, organization_id: str, account_id: int) -> None:
    """Removes the settings of an account and everything that was looked for. Matches and batches stay: they are records."""
    of_account = (organization_id, account_id)
    tx.run(
        "DELETE FROM recon_proposals WHERE organization_id = ? AND transaction_id IN"
        " (SELECT id FROM recon_transactions WHERE organization_id = ? AND account_id = ?)",
        organization_id, *of_account,
    )  # fmt: skip
    for table in ("recon_transactions", "recon_runs", "recon_accounts"):
        tx.run(f"DELETE FROM {table} WHERE organization_id = ? AND account_id = ?", *of_account)


def sufficient_proposals(tx: Tx, organization_id: str, account_id: int, limit: int) -> list[ProposalRow]:
    """Best proposals that are clear enough to act alone, and wait; the oldest first."""
    return PROPOSALS.all(
        tx,
        "organization_id = ? AND state = 'open' AND place = 1 AND acts = 1 AND transaction_id IN ("
        " SELECT id FROM recon_transactions WHERE organization_id = ? AND account_id = ? AND state = 'proposed')"
        " ORDER BY transaction_id LIMIT ?",
        organization_id, organization_id, account_id, limit,
    )  # fmt: skip
