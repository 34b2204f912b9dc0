"""Reading transactions: lists, single ones, and what has changed. They are returned as they are stored, without being decoded.

`ingest.py` is the only writer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from datetime import date
from operator import itemgetter
from typing import Any, NamedTuple, cast

import msgspec

from kontobahn.access.principal import Principal, in_scope
from kontobahn.api.answers import Ready
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.transactions.wire import (
    MAX_ROWS,
    Change,
    ChangesAnswer,
    ChangesQuery,
    Transaction,
    TransactionsQuery,
)
from kontobahn.db import Rounds, Tx, ask_one, ask_texts, chunked, short_read
from kontobahn.errors import BadRequest
from kontobahn.sentences import said

# This many rows are read in less time than it takes to hand the work to another thread.
INLINE_ROWS = 300
# SQLite joins in the order in which the inner statement returns the rows; older versions know no other way of saying it.
_JOINED = "CAST(group_concat(wire, ',') AS BLOB)"
# Texts in one part of an answer. A part of less than a few hundred kilobytes uses memory that the process already has; for a larger
# one the system first has to find and clear some, which takes longer than the reading.
_PART_ROWS = 200
# After this many parts they are ten times as long: such blocks return to the system when they are freed, smaller ones may not.
_SMALL_PARTS = 50
_POSTED = "t.account_id = {0}.account_id AND t.id = {0}.id AND t.status = 'posted'"
# The values of a row in the columns of the order; empty for the beginning of a list.
_Place = tuple[Any, ...]


def is_posted(table: str) -> str:
    """The condition that a row with `account_id` and `id` is about a posted transaction, for a table of another room."""
    return f"EXISTS (SELECT 1 FROM banking_transactions t WHERE {_POSTED.format(table)})"


def join_posted(table: str) -> str:
    """Joins, as `t`, the posted transactions that rows with `account_id` and `id` are about."""
    return f"JOIN banking_transactions t ON {_POSTED.format(table)}"


def select_accounts(
    tx: Tx, principal: Principal, connection_id: str | None, account_id: str | None
) -> list[AccountRow]:
    """Returns the accounts that `connection_id` and `account_id` select together."""
    if account_id is not None:
        account = accounts.find(tx, principal, account_id)
        if connection_id is not None and not accounts.is_reached(
            tx, account, connections.find(tx, principal, connection_id).id
        ):
            raise BadRequest(
                "The query parameter `account_id` is not an account of `connection_id`.", field="account_id"
            )
        return [account]
    if connection_id is None:
        raise BadRequest(
            "One of the query parameters `connection_id` and `account_id` is required.", field="connection_id"
        )
    connection = connections.find(tx, principal, connection_id)
    return accounts.of_connection(tx, connection.organization_id, connection.id)


class Page(NamedTuple):
    """The answer, joined from the stored texts, and the id that the next page begins after."""

    answer: Ready
    continues_after: str | None


@short_read
def read_short(principal: Principal, query: TransactionsQuery, *, joins_texts: bool) -> Rounds[Page | None]:
    """Returns the list of an account, read with one statement.

    Returns None if the list may be long, or if there is none: `read_list` says why.
    """
    if query.account_id is None or query.connection_id is not None:
        return None
    is_bounded = query.limit is not None and query.limit <= INLINE_ROWS and not _is_filtered(query)
    few = "" if is_bounded else f" AND posted + pending <= {INLINE_ROWS}"
    account = f"(SELECT id FROM banking_accounts WHERE {in_scope(len(principal.scope))} AND id = ?{few})"
    _, listed, params = _selection(_AccountId(account, (*principal.scope, int(query.account_id))), query)
    parts = list[bytes]()
    if joins_texts and query.limit is None:
        row = yield from ask_one(f"SELECT {_JOINED} FROM (SELECT wire {listed}) AS listed", *params, MAX_ROWS)
        assert row is not None
        if row[0] is None:
            return None
        _add(parts, row[0], is_last=True)
        return Page(Ready(parts), None)
    limit = query.limit or MAX_ROWS
    texts = yield from ask_texts(f"SELECT wire {listed}", *params, limit + 1)
    if not texts:
        return None
    _add(parts, b",".join(texts[:limit]), is_last=True)
    is_continued = len(texts) > limit and query.sort == "id"
    return Page(Ready(parts), _decode(texts[limit - 1]).id if is_continued else None)


def read_list(tx: Tx, principal: Principal, query: TransactionsQuery, *, joins_texts: bool) -> Page:
    chosen = select_accounts(tx, principal, query.connection_id, query.account_id)
    return _read(tx, chosen, query, joins_texts=joins_texts)


def _read(tx: Tx, chosen: list[AccountRow], query: TransactionsQuery, *, joins_texts: bool) -> Page:
    if query.limit is None and sum(account.posted + account.pending for account in chosen) > MAX_ROWS:
        _refuse_too_many(tx, chosen, query)
    # PostgreSQL is asked once, not for each part: after a large import, before it has counted what is there, it sorts the whole
    # account for each question.
    is_simple = joins_texts and len(chosen) == 1 and not _is_filtered(query)
    return _joined(tx, chosen[0].id, query) if is_simple else _merged(tx, chosen, query)


def _refuse_too_many(tx: Tx, chosen: list[AccountRow], query: TransactionsQuery) -> None:
    """Counts in the index, and no further than has to be known: the texts would be hundreds of megabytes."""
    left = MAX_ROWS + 1
    for account in chosen:
        where, params = _conditions(_plain(account.id), query)
        row = tx.one(
            f"SELECT COUNT(*) FROM (SELECT made_on FROM banking_transactions WHERE {where} LIMIT ?) AS listed",
            *params, left,
        )  # fmt: skip
        assert row is not None
        left -= row[0]
        if not left:
            raise _too_many()


def _is_filtered(query: TransactionsQuery) -> bool:
    """Returns whether the order's index does not find the rows alone: a limit does not bound the work then, many may be skipped."""
    return bool(query.from_date or query.to_date if query.sort == "id" else query.from_id)


def _joined(tx: Tx, account_id: int, query: TransactionsQuery) -> Page:
    """Joined by the database: ten thousand texts one by one would take twice as long."""
    parts = list[bytes]()
    left, after = query.limit or MAX_ROWS + 1, _Place()
    while True:
        asked = min(left, _rows_of_next(parts))
        order, listed, params = _selection(_plain(account_id), query, after)
        row = tx.one(
            f"SELECT {_JOINED}, COUNT(*), MAX(id) FROM (SELECT {order}, wire {listed}) AS listed", *params, asked
        )
        assert row is not None
        texts, count, greatest_id = row
        left -= count
        _add(parts, texts, is_last=count < asked or not left)
        if count < asked:
            return Page(Ready(parts), None)
        if query.sort == "id":
            after = (greatest_id,)
        elif left:
            last = tx.one(f"SELECT {order} {listed} OFFSET ?", *params, 1, asked - 1)
            assert last is not None
            after = last
        if not left:
            break
    if query.limit is None:
        raise _too_many()
    # By value date an id says nothing about what follows.
    is_continued = query.sort == "id" and _is_followed(tx, account_id, query, after)
    return Page(Ready(parts), str(after[0]) if is_continued else None)


def _is_followed(tx: Tx, account_id: int, query: TransactionsQuery, after: _Place) -> bool:
    _, listed, params = _selection(_plain(account_id), query, after)
    return tx.one(f"SELECT 1 {listed}", *params, 1) is not None


def _merged(tx: Tx, chosen: list[AccountRow], query: TransactionsQuery) -> Page:
    limit = query.limit or MAX_ROWS
    by_account = []
    for account in chosen:
        order, listed, params = _selection(_plain(account.id), query)
        by_account.append(tx.all(f"SELECT {order}, wire {listed}", *params, limit + 1))
    rows = list(heapq.merge(*by_account, key=itemgetter(0) if query.sort == "id" else itemgetter(0, 1)))
    has_more, rows = len(rows) > limit, rows[:limit]
    if query.limit is None and has_more:
        raise _too_many()
    continues_after = str(rows[-1][0]) if has_more and query.sort == "id" else None
    parts = list[bytes]()
    start = 0
    while start < len(rows) or not parts:
        some = rows[start : start + _rows_of_next(parts)]
        start += len(some)
        _add(parts, ",".join([row[-1] for row in some]).encode(), is_last=start >= len(rows))
    return Page(Ready(parts), continues_after)


def _rows_of_next(parts: list[bytes]) -> int:
    return _PART_ROWS if len(parts) < _SMALL_PARTS else 10 * _PART_ROWS


def _add(parts: list[bytes], texts: bytes | None, *, is_last: bool) -> None:
    """Adds transactions, joined by commas, to the parts of a Data[list[Transaction]]. They are copied only once."""
    begin = b'{"data":[' if not parts else b"," if texts else b""
    parts.append(b"%s%s%s" % (begin, texts or b"", b"]}" if is_last else b""))


def _too_many() -> BadRequest:
    return BadRequest(
        said(
            "More than {count} transactions: ask for fewer days, or walk with `sort=id`, `from_id` and `limit`.",
            count=MAX_ROWS,
        ),
        field="limit",
    )


class _AccountId(NamedTuple):
    """The id of an account in SQL."""

    sql: str
    params: Sequence[Any]


def _plain(account_id: int) -> _AccountId:
    return _AccountId("?", (account_id,))


def _selection(account: _AccountId, query: TransactionsQuery, after: _Place = ()) -> tuple[str, str, list[Any]]:
    """The columns of the order, what follows them in the statement, and its parameters but for the last, which is the limit."""
    order = "id" if query.sort == "id" else "made_on, id"
    where, params = _conditions(account, query, after)
    return order, f"FROM banking_transactions WHERE {where} ORDER BY {order} LIMIT ?", params


def _conditions(account: _AccountId, query: TransactionsQuery, after: _Place = ()) -> tuple[str, list[Any]]:
    where, params = [f"account_id = {account.sql}"], list[Any](account.params)
    if after:
        order = "id" if query.sort == "id" else "made_on, id"
        where.append(f"({order}) > ({', '.join('?' * len(after))})")
        params += after
    # The beginning of the list is left out if it goes on from another place: the database might look from there again.
    for condition, value in (
        (
            "made_on >= ?",
            None if after and query.sort == "made_on" else query.from_date and query.from_date.isoformat(),
        ),
        ("made_on <= ?", query.to_date and query.to_date.isoformat()),
        ("id > ?", None if after and query.sort == "id" else query.from_id and int(query.from_id)),
    ):
        if value:
            where.append(condition)
            params.append(value)
    return " AND ".join(where), params


_decode = msgspec.json.Decoder(Transaction).decode


def posted_between(
    tx: Tx, account_id: int, first: date, last: date, limit: int, *, latest_first: bool = False
) -> list[Transaction]:
    """The posted transactions of an account that is known to be the caller's, by value date, decoded."""
    order = "made_on DESC, id DESC" if latest_first else "made_on, id"
    rows = tx.all(
        "SELECT wire FROM banking_transactions WHERE account_id = ? AND made_on >= ? AND made_on <= ? AND status = 'posted'"
        f" ORDER BY {order} LIMIT ?",
        account_id, first.isoformat(), last.isoformat(), limit,
    )  # fmt: skip
    return [_decode(wire) for (wire,) in rows]


def find_posted(tx: Tx, account_id: int, transaction_id: int) -> Transaction | None:
    """A posted transaction of an account that is known to be the caller's, decoded; None if the bank has removed it."""
    row = tx.one(
        "SELECT wire FROM banking_transactions WHERE account_id = ? AND id = ? AND status = 'posted'",
        account_id, transaction_id,
    )  # fmt: skip
    return None if row is None else _decode(row[0])


def posted_among(tx: Tx, account_id: int, ids: Sequence[int]) -> set[int]:
    """Those of the transactions that the account still has, posted."""
    return {
        id
        for some, is_one in chunked(ids)
        for (id,) in tx.all(
            f"SELECT id FROM banking_transactions WHERE account_id = ? AND id {is_one} AND status = 'posted'",
            account_id,
            *some,
        )
    }


def account_with(tx: Tx, principal: Principal, transaction_id: str) -> AccountRow:
    """The account that has this transaction, posted or pending. Raises the principal's “not found” if none in its scope has."""
    row = tx.one(
        "SELECT a.id FROM banking_accounts a JOIN banking_transactions t ON t.account_id = a.id AND t.id = ?"
        f" WHERE a.{in_scope(len(principal.scope))}",
        int(transaction_id), *principal.scope,
    )  # fmt: skip
    if row is None:
        raise principal.missing("Transaction")
    return accounts.find(tx, principal, str(row[0]))


def read_one(tx: Tx, principal: Principal, account_id: str, transaction_id: str) -> Transaction:
    account = accounts.find(tx, principal, account_id)
    row = tx.one(
        "SELECT wire FROM banking_transactions WHERE account_id = ? AND id = ?", account.id, int(transaction_id)
    )
    if row is None:
        raise principal.missing("Transaction")
    return cast(Transaction, msgspec.Raw(row[0].encode()))


# --- Changes


class _Changed(NamedTuple):
    number: int
    first: int
    id: int
    account_id: int
    wire: str | None


# Choice 22: an id cursor cannot show a change; this feed does.
def read_changes(tx: Tx, principal: Principal, query: ChangesQuery) -> ChangesAnswer:
    cursor = int(query.cursor or 0)
    organization_id, chosen, connection_id, account_id = _scope(tx, principal, query)
    present = [_changed_of_account(tx, account.id, cursor, query.limit) for account in chosen]
    removed = _removed(tx, organization_id, cursor, query.limit, connection_id, account_id)
    in_order: Iterable[_Changed] = heapq.merge(*present, removed)
    found = list(in_order)[: query.limit + 1]
    has_more = len(found) > query.limit
    found = found[: query.limit]
    return ChangesAnswer(
        # Added and removed since the cursor: there is nothing to report, but the cursor moves past it.
        data=[_change(row, cursor) for row in found if row.wire is not None or row.first <= cursor],
        cursor=str(found[-1].number if found else cursor),
        has_more=has_more,
    )


def _scope(tx: Tx, principal: Principal, query: ChangesQuery) -> tuple[str, list[AccountRow], str | None, int | None]:
    if query.account_id is not None:
        [account] = select_accounts(tx, principal, query.connection_id, query.account_id)
        return account.organization_id, [account], None, account.id
    if query.connection_id is not None:
        connection = connections.find(tx, principal, query.connection_id)
        chosen = accounts.of_connection(tx, connection.organization_id, connection.id)
        return connection.organization_id, chosen, connection.id, None
    organizations = principal.organizations(query.organization_id)
    if len(organizations) > 1:
        # A cursor counts the changes of one organisation.
        raise BadRequest("The query parameter `organization_id` is required for this key.", field="organization_id")
    return organizations[0], accounts.of_organization(tx, organizations[0]), None, None


def _changed_of_account(tx: Tx, account_id: int, cursor: int, limit: int) -> list[_Changed]:
    return [
        _Changed(*row)
        for row in tx.all(
            "SELECT last_change, first_change, id, account_id, wire FROM banking_transactions"
            " WHERE account_id = ? AND last_change > ? ORDER BY last_change LIMIT ?",
            account_id, cursor, limit + 1,
        )
    ]  # fmt: skip


def _removed(
    tx: Tx, organization_id: str, cursor: int, limit: int, connection_id: str | None, account_id: int | None
) -> list[_Changed]:
    narrowed, params = "", list[Any]()
    if connection_id is not None:
        # Also those that other connections to the same accounts have removed.
        reached = accounts.of_connection(tx, organization_id, connection_id)
        marks = "".join(" OR account_id = ?" for _ in reached)
        narrowed, params = f" AND (connection_id = ?{marks})", [connection_id, *(account.id for account in reached)]
    if account_id is not None:
        narrowed, params = " AND account_id = ?", [account_id]
    rows = tx.all(
        "SELECT change_number, first_change, id, account_id FROM banking_removed_transactions"
        f" WHERE organization_id = ? AND change_number > ?{narrowed} ORDER BY change_number LIMIT ?",
        organization_id, cursor, *params, limit + 1,
    )  # fmt: skip
    return [_Changed(number, first, id_, account, None) for number, first, id_, account in rows]


def _change(row: _Changed, cursor: int) -> Change:
    return Change(
        change="removed" if row.wire is None else "added" if row.first > cursor else "modified",
        id=str(row.id),
        account_id=str(row.account_id),
        transaction=None if row.wire is None else cast(Transaction, msgspec.Raw(row.wire.encode())),
    )
