"""Reading transactions: lists, single ones, and the feed of changes. They are answered as they are stored, never taken apart.

`ingest.py` is what writes them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, NamedTuple, cast

import msgspec

from kontobahn.access.principal import Principal
from kontobahn.banking import accounts, connections
from kontobahn.banking.accounts import Account
from kontobahn.banking.model import Change, ChangesQuery, Transaction, TransactionsQuery
from kontobahn.db import Tx
from kontobahn.errors import BadRequest

# More in one answer would be hundreds of megabytes: asked for without a limit, it is refused rather than cut.
MOST_ROWS = 100_000
# As many as are read in less time than it takes to let another thread do it.
SHORT = 300


def scope(tx: Tx, principal: Principal, connection_id: str | None, account_id: str | None) -> list[Account]:
    """The accounts that `connection_id` and `account_id` mean together."""
    if account_id is not None:
        account = accounts.find(tx, principal, account_id)
        if connection_id is not None and connections.find(tx, principal, connection_id).id != account.connection_id:
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


def short_listing(tx: Tx, principal: Principal, query: TransactionsQuery) -> msgspec.Raw | None:
    """The list where it is short for certain, to be read inline; None if it may be long."""
    chosen = scope(tx, principal, query.connection_id, query.account_id)
    held = sum(account.posted + account.pending for account in chosen)
    # A limit helps where the order's own index finds the rows; another filter may have to pass over many.
    filtered = query.from_date or query.to_date if query.sort == "id" else query.from_id
    is_short = held <= SHORT or (query.limit is not None and query.limit <= SHORT and not filtered)
    return _joined(tx, chosen, query) if is_short else None


def listing(tx: Tx, principal: Principal, query: TransactionsQuery) -> msgspec.Raw:
    """The JSON array, joined from the stored texts."""
    return _joined(tx, scope(tx, principal, query.connection_id, query.account_id), query)


def _joined(tx: Tx, chosen: list[Account], query: TransactionsQuery) -> msgspec.Raw:
    most = query.limit or MOST_ROWS + 1
    by_account = [_of_account(tx, account.id, query, most) for account in chosen]
    if len(by_account) == 1:
        texts = [row[-1] for row in by_account[0]]
    else:
        in_order = heapq.merge(*by_account, key=itemgetter(0) if query.sort == "id" else itemgetter(0, 1))
        texts = [row[-1] for row in in_order][:most]
    if query.limit is None and len(texts) > MOST_ROWS:
        raise BadRequest(
            f"More than {MOST_ROWS} transactions: ask for fewer days, or walk with `sort=id`, `from_id` and `limit`.",
            field="limit",
        )
    return msgspec.Raw(f"[{','.join(texts)}]".encode())


def _of_account(tx: Tx, account_id: int, query: TransactionsQuery, most: int) -> list[tuple[Any, ...]]:
    where, params = ["account_id = ?"], list[Any]([account_id])
    for condition, value in (
        ("made_on >= ?", query.from_date and query.from_date.isoformat()),
        ("made_on <= ?", query.to_date and query.to_date.isoformat()),
        ("id > ?", query.from_id and int(query.from_id)),
    ):
        if value:
            where.append(condition)
            params.append(value)
    columns, order = ("id, wire", "id") if query.sort == "id" else ("made_on, id, wire", "made_on, id")
    return tx.all(
        f"SELECT {columns} FROM banking_transactions WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ?",
        *params,
        most,
    )


def get(tx: Tx, principal: Principal, account_id: str, transaction_id: str) -> Transaction:
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


class Feed(NamedTuple):
    changes: list[Change]
    cursor: int
    has_more: bool


# Choice 22: an id cursor cannot show a change; this feed does.
def changes(tx: Tx, principal: Principal, query: ChangesQuery) -> Feed:
    cursor = int(query.cursor or 0)
    organization_id, chosen, connection_id, account_id = _feed_scope(tx, principal, query)
    present = [_changed_of_account(tx, account.id, cursor, query.limit) for account in chosen]
    removed = _removed(tx, organization_id, cursor, query.limit, connection_id, account_id)
    in_order: Iterable[_Changed] = heapq.merge(*present, removed)
    found = list(in_order)[: query.limit + 1]
    has_more = len(found) > query.limit
    found = found[: query.limit]
    return Feed(
        # Made and gone since the cursor: there is nothing to tell, but the cursor moves over it.
        [_tell(row, cursor) for row in found if row.wire is not None or row.first <= cursor],
        found[-1].number if found else cursor,
        has_more,
    )


def _feed_scope(tx: Tx, principal: Principal, query: ChangesQuery) -> tuple[str, list[Account], str | None, int | None]:
    if query.account_id is not None:
        [account] = scope(tx, principal, query.connection_id, query.account_id)
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
        narrowed, params = " AND connection_id = ?", [connection_id]
    if account_id is not None:
        narrowed, params = " AND account_id = ?", [account_id]
    rows = tx.all(
        "SELECT change_number, first_change, id, account_id FROM banking_removed_transactions"
        f" WHERE organization_id = ? AND change_number > ?{narrowed} ORDER BY change_number LIMIT ?",
        organization_id, cursor, *params, limit + 1,
    )  # fmt: skip
    return [_Changed(number, first, id_, account, None) for number, first, id_, account in rows]


def _tell(row: _Changed, cursor: int) -> Change:
    gone = row.wire is None
    return Change(
        change="removed" if gone else "added" if row.first > cursor else "modified",
        id=str(row.id),
        account_id=str(row.account_id),
        transaction=None if row.wire is None else cast(Transaction, msgspec.Raw(row.wire.encode())),
    )
