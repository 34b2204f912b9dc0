"""Bank accounts and transactions as pages list them: newest first, by keyset, with a bound on what a search looks through."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, Literal, NamedTuple

import msgspec

from kontobahn.banking import accounts
from kontobahn.banking.accounts import AccountRow
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.store import ConnectionRow
from kontobahn.banking.transactions.wire import Transaction
from kontobahn.dashboard.searching import ESCAPE, Word, fits
from kontobahn.db import Tx
from kontobahn.errors import NotFound
from kontobahn.money import to_minor

# What one unit of work looks through at most: rows, and how many of them a row costs whose text is read closely.
LOOKED_THROUGH = 5_000
_CLOSE_LOOK = 5
_CHUNK = 1000
_MAX_PENDING = 1000
_LAST = 2**62
_decode = msgspec.json.Decoder(Transaction).decode


class AccountLine(NamedTuple):
    account: AccountRow
    connection: ConnectionRow | None
    last_on: date | None


def account_lines(tx: Tx, organization_id: str) -> list[AccountLine]:
    """The accounts with their connections and the day of their latest booking."""
    rows = accounts.of_organization(tx, organization_id)
    by_id = {row.id: row for row in connections.listing(tx, (organization_id,))}
    last: dict[int, str | None] = dict(
        tx.all(
            "SELECT a.id, (SELECT MAX(t.made_on) FROM banking_transactions t WHERE t.account_id = a.id)"
            " FROM banking_accounts a WHERE a.organization_id = ?",
            organization_id,
        )
    )
    return [AccountLine(row, by_id.get(row.connection_id), _day(last.get(row.id))) for row in rows]


def account_line(tx: Tx, account: AccountRow) -> AccountLine:
    found = tx.one("SELECT MAX(made_on) FROM banking_transactions WHERE account_id = ?", account.id)
    connection = connections.look_up(tx, account.organization_id, account.connection_id)
    return AccountLine(account, connection, _day(found[0] if found else None))


def numeric(text: str) -> str:
    """An id in an address, which is a number. Raises NotFound for everything else."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise NotFound("There is no such page.")
    return text


def _day(text: str | None) -> date | None:
    return date.fromisoformat(text) if text else None


# --- Transactions


class Key(NamedTuple):
    """Where a transaction stands in the list; ids are unique within an organisation."""

    made_on: str
    id: int


class Wanted(NamedTuple):
    since: date | None = None
    until: date | None = None
    status: Literal["", "posted", "pending"] = ""
    words: Sequence[Word] = ()
    # The last one of the page before.
    after: Key | None = None


class Found(NamedTuple):
    rows: list[Transaction]
    # Where the search stopped, if it did not get to the end.
    stopped_at: Key | None


def transactions(tx: Tx, account_ids: Sequence[int], wanted: Wanted, limit: int) -> Found:
    """The latest first, of all these accounts together."""
    first = limit if len(account_ids) == 1 else max(10, 2 * limit // max(1, len(account_ids)))
    walks = [_walk(tx, account_id, wanted, first) for account_id in account_ids]
    found: list[Transaction] = []
    looked = 0
    for made_on, number, wire in heapq.merge(*walks, key=_place, reverse=True):
        looked += 1
        if wire is not None:
            transaction = _decode(wire)
            looked += _CLOSE_LOOK if wanted.words else 0
            if _fits(transaction, wanted.words):
                found.append(transaction)
        if len(found) == limit:
            return Found(found, None)
        if looked >= LOOKED_THROUGH:
            return Found(found, Key(made_on, number))
    return Found(found, None)


def _walk(tx: Tx, account_id: int, wanted: Wanted, first: int) -> Iterator[tuple[str, int, str | None]]:
    """One account's rows: day, id and, if it may be one that is wanted, the text. Read in growing chunks, as they are needed."""
    condition, params = _condition(wanted)
    since = wanted.since.isoformat() if wanted.since else ""
    before = wanted.after or Key(wanted.until.isoformat() if wanted.until else "9999-12-31", _LAST)
    columns = f"SELECT made_on, id, CASE WHEN {condition} THEN wire END FROM banking_transactions WHERE account_id = ?"
    if wanted.status == "pending":
        # There are few, and an index of their own finds them.
        rows = tx.all(
            f"{columns} AND status = 'pending' ORDER BY amount_minor LIMIT ?", *params, account_id, _MAX_PENDING
        )
        yield from sorted((row for row in rows if since <= row[0] and row[:2] < before), key=_place, reverse=True)
        return
    size = first
    while True:
        rows = tx.all(
            f"{columns} AND made_on >= ? AND (made_on, id) < (?, ?) ORDER BY made_on DESC, id DESC LIMIT ?",
            *params, account_id, since, *before, size,
        )  # fmt: skip
        yield from rows
        if len(rows) < size:
            return
        before, size = Key(*rows[-1][:2]), min(4 * size, _CHUNK)


def _place(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[:2]


def _condition(wanted: Wanted) -> tuple[str, list[Any]]:
    conditions, params = ["1 = 1"], list[Any]()
    if wanted.status == "posted":
        conditions.append("status = 'posted'")
    for word in wanted.words:
        either = [f"LOWER(wire) LIKE ? ESCAPE '{ESCAPE}'", *("amount_minor = ?" for _ in word.amounts)]
        conditions.append(f"({' OR '.join(either)})")
        params += [word.pattern, *word.amounts]
    return " AND ".join(conditions), params


def _fits(transaction: Transaction, words: Sequence[Word]) -> bool:
    if not words:
        return True
    texts = [transaction.description]
    for part in (transaction.extra, transaction.description_parsed):
        texts += [value for value in msgspec.structs.astuple(part) if isinstance(value, str)]
    return fits(words, texts, to_minor(transaction.amount), transaction.id)


def transaction(tx: Tx, organization_id: str, transaction_id: str) -> Transaction:
    row = tx.one(
        "SELECT t.wire FROM banking_accounts a JOIN banking_transactions t ON t.account_id = a.id"
        " WHERE a.organization_id = ? AND t.id = ?",
        organization_id, int(numeric(transaction_id)),
    )  # fmt: skip
    if row is None:
        raise NotFound("Transaction not found.")
    return _decode(row[0])


# --- Connections


class ConnectionLine(NamedTuple):
    connection: ConnectionRow
    accounts: list[AccountRow]


def connection_lines(tx: Tx, organization_id: str) -> list[ConnectionLine]:
    """The connections with their accounts."""
    by_connection: dict[str, list[AccountRow]] = {}
    for account in accounts.of_organization(tx, organization_id):
        by_connection.setdefault(account.connection_id, []).append(account)
    rows = connections.listing(tx, (organization_id,))
    return [ConnectionLine(row, by_connection.get(row.id, [])) for row in rows]
