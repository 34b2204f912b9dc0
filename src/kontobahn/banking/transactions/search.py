"""Transactions as people look for them: the latest first, by keyset, with a bound on what a search looks through."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, Literal, NamedTuple

import msgspec

from kontobahn.banking.search import ESCAPE, LOOKED_THROUGH, Word, fits
from kontobahn.banking.transactions.wire import Transaction
from kontobahn.db import Tx
from kontobahn.errors import NotFound
from kontobahn.money import to_minor

# The number of rows that a row counts for whose text is read closely.
_CLOSE_LOOK = 5
_CHUNK = 1000
_MAX_PENDING = 1000
_LAST = 2**62
_decode = msgspec.json.Decoder(Transaction).decode


def find(tx: Tx, organization_id: str, transaction_id: str) -> Transaction:
    row = tx.one(
        "SELECT t.wire FROM banking_accounts a JOIN banking_transactions t ON t.account_id = a.id"
        " WHERE a.organization_id = ? AND t.id = ?",
        organization_id, int(transaction_id),
    )  # fmt: skip
    if row is None:
        raise NotFound("Transaction not found.")
    return _decode(row[0])


class Key(NamedTuple):
    """The place of a transaction in the list; ids are unique within an organisation."""

    made_on: str
    id: int


class TransactionSearch(NamedTuple):
    since: date | None = None
    until: date | None = None
    status: Literal["", "posted", "pending"] = ""
    words: Sequence[Word] = ()
    # The last one of the page before.
    after: Key | None = None


class FoundTransactions(NamedTuple):
    rows: list[Transaction]
    # The place where the search stopped, if it did not get to the end.
    stopped_at: Key | None


def search(tx: Tx, account_ids: Sequence[int], wanted: TransactionSearch, limit: int) -> FoundTransactions:
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
            return FoundTransactions(found, None)
        if looked >= LOOKED_THROUGH:
            return FoundTransactions(found, Key(made_on, number))
    return FoundTransactions(found, None)


def _walk(tx: Tx, account_id: int, wanted: TransactionSearch, first: int) -> Iterator[tuple[str, int, str | None]]:
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


def _condition(wanted: TransactionSearch) -> tuple[str, list[Any]]:
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
