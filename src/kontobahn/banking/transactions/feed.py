"""The feed of changes: what has been added, modified or removed since a cursor."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple, cast

import msgspec
from msgspec import Meta

from kontobahn.access.principal import Principal
from kontobahn.api.call import Call
from kontobahn.api.declare import get
from kontobahn.api.wire import Answer, ListQuery, form
from kontobahn.banking import accounts
from kontobahn.banking.accounts import AccountRow
from kontobahn.banking.connections import store as connections
from kontobahn.banking.fields import ConnectionId, NumericId
from kontobahn.banking.transactions.listing import select_accounts
from kontobahn.banking.transactions.wire import Transaction
from kontobahn.db import Tx
from kontobahn.errors import BadRequest


class ChangesQuery(ListQuery):
    cursor: Annotated[
        str,
        form("a cursor", r"^[0-9]{0,18}$", description="The `cursor` of the answer before; empty for the beginning."),
    ] = ""
    connection_id: Annotated[ConnectionId, Meta(description="Only accounts of this connection.")] | None = None
    account_id: Annotated[NumericId, Meta(description="Only this account.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000


class Change(Answer):
    """How a transaction has changed since the cursor; several changes are reported as one."""

    change: Literal["added", "modified", "removed"]
    id: str
    account_id: str
    # Null when it was removed.
    transaction: Transaction | None


class ChangesAnswer(Answer):
    data: list[Change]
    # For the next call; the same as before when nothing has changed.
    cursor: str
    has_more: bool


@get("/v2/banking/transactions/changes", scope="banking:read", cost=1, pages_by="cursor", errors=(403, 404))
async def list_transaction_changes(call: Call, query: ChangesQuery) -> ChangesAnswer:
    """List what has been added, modified or removed since a cursor.

    Several changes of one transaction are reported as one, with the transaction as it is now.
    """
    async with call.charge():
        changes = await call.read(read_changes, call.principal, query)
    call.continues_after = changes.cursor if changes.has_more else None
    return changes


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
        narrowed, params = " AND connection_id = ?", [connection_id]
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
