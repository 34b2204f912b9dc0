"""Transactions over HTTP: lists, single ones, and the feed of changes."""

from __future__ import annotations

from typing import cast

from kontobahn.api.answers import Data
from kontobahn.api.call import Call
from kontobahn.api.declare import get
from kontobahn.api.wire import check_date_range
from kontobahn.banking.transactions.store import read_changes, read_list, read_one, read_short
from kontobahn.banking.transactions.wire import (
    ChangesAnswer,
    ChangesQuery,
    Transaction,
    TransactionQuery,
    TransactionsQuery,
)
from kontobahn.banking.wire import NumericId


@get(
    "/v2/banking/transactions",
    scope="banking:read",
    cost=1,
    pages_by="from_id",
    walk_warning="A walk by from_id without sort=id misses transactions that the bank reports late. Send sort=id, or read"
    " /v2/banking/transactions/changes.",
    one_of=("account_id", "connection_id"),
    errors=(403, 404),
)
async def list_transactions(call: Call, query: TransactionsQuery) -> Data[list[Transaction]]:
    """List transactions of an account, or of all accounts of a connection.

    For a running sync read the feed of changes, `GET /v2/banking/transactions/changes`: it has what is new, whenever the bank reports
    it, and what changed later. A walk over this list goes by `sort=id`, with the last id you have seen as `from_id`: ids rise in the
    order in which transactions arrive here. Without `sort=id` it would miss what arrives late, and the header `Warning` says so.
    With a `limit`, `Link` is the address of the next page.
    """
    check_date_range(query.from_date, query.to_date)
    async with call.charge():
        joins_texts = call.context.db.joins_texts
        found = await call.read_inline(read_short, call.principal, query, joins_texts=joins_texts)
        if found is None:
            found = await call.read(read_list, call.principal, query, joins_texts=joins_texts)
    call.continues_after = found.continues_after
    return cast(Data[list[Transaction]], found.answer)


@get("/v2/banking/transactions/{id}", scope="banking:read", cost=1, errors=(403, 404))
async def get_transaction(call: Call, id: NumericId, query: TransactionQuery) -> Data[Transaction]:
    """Read one transaction."""
    async with call.charge():
        return Data(await call.read(read_one, call.principal, query.account_id, id))


@get("/v2/banking/transactions/changes", scope="banking:read", cost=1, pages_by="cursor", errors=(403, 404))
async def list_transaction_changes(call: Call, query: ChangesQuery) -> ChangesAnswer:
    """List what has been added, modified or removed since a cursor.

    Several changes of one transaction are reported as one, with the transaction as it is now.
    """
    async with call.charge():
        changes = await call.read(read_changes, call.principal, query)
    call.continues_after = changes.cursor if changes.has_more else None
    return changes
