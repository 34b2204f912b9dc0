"""The banking area over HTTP: connections, accounts and transactions. Payments and events have modules of their own."""

from __future__ import annotations

from kontobahn.access import audit
from kontobahn.api.call import Call
from kontobahn.api.declare import delete, get, post
from kontobahn.api.wire import ListQuery, RawBody, check_date_range
from kontobahn.banking import accounts, connect, connections, inbound, sync, transactions
from kontobahn.banking.connect import Flow
from kontobahn.banking.connections import Connection
from kontobahn.banking.fields import check_custom_fields, check_return_to
from kontobahn.banking.model import (
    AccountAnswer,
    AccountsAnswer,
    AccountsQuery,
    ApiQuery,
    ChangesAnswer,
    ChangesQuery,
    Connect,
    ConnectAnswer,
    ConnectionAnswer,
    ConnectionId,
    ConnectionsAnswer,
    NumericId,
    Received,
    Reconnect,
    Removed,
    RemovedAnswer,
    TransactionAnswer,
    TransactionQuery,
    TransactionsAnswer,
    TransactionsQuery,
)  # fmt: skip
from kontobahn.banking.provider import (
    BadSignature,
    Banking,
    BankProvider,
    ConnectRequest,
    ConnectStart,
    ProviderRefused,
)
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict, NotFound, Unauthorized

_ERRORS = (403, 404)


# --- Connections


@get("/v2/banking/connections", errors=_ERRORS)
async def list_bank_connections(call: Call, query: ListQuery) -> ConnectionsAnswer:
    """List the bank connections, those not finished yet among them."""
    rows = await call.read_inline(connections.listing, call.principal.organizations(query.organization_id))
    return ConnectionsAnswer(data=[connections.wire(row) for row in rows])


@get("/v2/banking/connections/{id}", errors=_ERRORS)
async def get_bank_connection(call: Call, id: ConnectionId) -> ConnectionAnswer:
    """Read one bank connection.

    The pending token of a connect flow is taken for an id as well: first it is the placeholder, then the connection made from it.
    """
    return ConnectionAnswer(data=connections.wire(await call.read_inline(connections.find, call.principal, id)))


@post("/v2/banking/connect", errors=(403, 404, 409))
async def start_connect(call: Call, query: ApiQuery, body: Connect) -> ConnectAnswer:
    """Start a connect flow.

    Send the person to `connect_url` to choose the bank and sign in. Until that is done the connection is a placeholder with
    status `pending_connect`, removed after 15 minutes; then it becomes `active`, and `refresh_complete` tells its accounts.
    """
    check_return_to(body.return_to)
    check_custom_fields(body.custom_fields)
    banking = call.context.part(Banking)
    name = banking.connect_provider
    if not name:
        raise Conflict("No provider for bank connections is set up in this installation. Statements can be imported.")
    token = connect.new_token()
    request = ConnectRequest(token, query.api, body.provider_code, tuple(body.scopes or ()), body.return_to)
    start = await _start(sync.provider_of(call.context, name), request)
    owner = await call.read_inline(connect.owner_of, call.principal, body.email)
    flow = connect.make_flow(
        call.context.clock.now(), call.principal.organization_id, name, query.api, owner, start.expires_at, token, body
    )
    return await call.commit(_begin, flow, body, start)


def _begin(tx: Tx, flow: Flow, body: Connect, start: ConnectStart) -> ConnectAnswer:
    connect.begin(tx, flow, body)
    return _connect_answer(flow, start)


@post("/v2/banking/connections/{id}/reconnect", errors=(403, 404, 409))
async def reconnect_bank_connection(call: Call, id: ConnectionId, body: Reconnect) -> ConnectAnswer:
    """Start a flow that renews a connection.

    The connection keeps its id, its accounts and its transactions.
    """
    check_return_to(body.return_to)
    row = await call.read_inline(connections.find, call.principal, id)
    if row.status == "pending_connect":
        raise Conflict("The connection is not finished yet: go on with its connect flow.")
    token = connect.new_token()
    request = ConnectRequest(token, row.api, row.provider_code, (), body.return_to, row.provider_ref)
    start = await _start(sync.provider_of(call.context, row.provider), request)
    owner = await call.read_inline(connect.owner_of, call.principal, None)
    flow = connect.make_flow(
        call.context.clock.now(), row.organization_id, row.provider, row.api, row.owner_user_id or owner,
        start.expires_at, token, Connect(return_to=body.return_to), row.id,
    )  # fmt: skip
    return await call.commit(_begin_again, flow, row, start)


def _begin_again(tx: Tx, flow: Flow, row: Connection, start: ConnectStart) -> ConnectAnswer:
    connections.lock(tx, row.organization_id, row.id)
    connect.begin_again(tx, flow, connections.get(tx, row.organization_id, row.id))
    return _connect_answer(flow, start)


async def _start(provider: BankProvider, request: ConnectRequest) -> ConnectStart:
    try:
        return await provider.start_connect(request)
    except ProviderRefused as error:
        if error.error_class == "ProviderNotFound":
            raise BadRequest(f"The field `provider_code` names no bank: {error}.", field="provider_code") from None
        raise Conflict(f"{error}.") from None


def _connect_answer(flow: Flow, start: ConnectStart) -> ConnectAnswer:
    return ConnectAnswer(
        connect_url=start.connect_url,
        expires_at=to_datetime(start.expires_at),
        owner_user_id=flow.owner_user_id,
        pending_token=flow.pending_token,
    )


# Choice 24: 202, because the bank answers later.
@post("/v2/banking/connections/{id}/refresh", statuses=(202,), errors=(403, 404, 409))
async def refresh_bank_connection(call: Call, id: ConnectionId) -> ConnectionAnswer:
    """Ask the bank for news now.

    `refresh_complete` or `connection_error` tells when it is done. Not before `next_refresh_possible_at`.
    """
    row = await call.read_inline(connections.find, call.principal, id)
    return ConnectionAnswer(data=connections.wire(await sync.refresh(call.context, row)))


@delete("/v2/banking/connections/{id}", errors=_ERRORS)
async def delete_bank_connection(call: Call, id: ConnectionId) -> RemovedAnswer:
    """Remove a connection with its accounts and transactions, and end the access at the bank.

    Payments made through it stay.
    """
    answer = await call.commit(_remove, call, id)
    await sync.end_accesses(call.context)
    return answer


def _remove(tx: Tx, call: Call, connection_id: str) -> RemovedAnswer:
    row = connections.find(tx, call.principal, connection_id)
    connections.remove(tx, row)
    audit.record(tx, row.organization_id, call.actor, "bank_connection.delete", row.id, bank=row.provider_name)
    return RemovedAnswer(data=Removed(connection_id=row.id, removed=True))


# --- Accounts


@get("/v2/banking/accounts", errors=_ERRORS)
async def list_bank_accounts(call: Call, query: AccountsQuery) -> AccountsAnswer:
    """List bank accounts: all of the organisation, or those of one connection."""
    return AccountsAnswer(data=[accounts.wire(row) for row in await call.read_inline(_accounts, call, query)])


def _accounts(tx: Tx, call: Call, query: AccountsQuery) -> list[accounts.Account]:
    organizations = call.principal.organizations(query.organization_id)
    if query.connection_id is None:
        return accounts.listing(tx, organizations, query)
    connection = connections.find(tx, call.principal, query.connection_id)
    return accounts.listing(tx, (connection.organization_id,), query, connection.id)


# Choice 20: one account is read for free.
@get("/v2/banking/accounts/{id}", errors=_ERRORS)
async def get_bank_account(call: Call, id: NumericId) -> AccountAnswer:
    """Read one bank account."""
    return AccountAnswer(data=accounts.wire(await call.read_inline(accounts.find, call.principal, id)))


# --- Transactions


@get("/v2/banking/transactions", cost=1, errors=_ERRORS)
async def list_transactions(call: Call, query: TransactionsQuery) -> TransactionsAnswer:
    """List transactions of an account, or of all accounts of a connection.

    For a running sync use `sort=id`, and the last id you have seen as `from_id`: ids rise in the order in which transactions
    arrive here, so that a back-dated late arrival is never missed. What changes later is told by the feed of changes.
    """
    check_date_range(query.from_date, query.to_date)
    async with call.charge():
        data = await call.read_inline(transactions.short_listing, call.principal, query)
        if data is None:
            data = await call.read(transactions.listing, call.principal, query)
    return TransactionsAnswer(data=data)  # type: ignore[arg-type]


@get("/v2/banking/transactions/changes", cost=1, errors=_ERRORS)
async def list_transaction_changes(call: Call, query: ChangesQuery) -> ChangesAnswer:
    """List what has been added, modified or removed since a cursor.

    Several changes of one transaction are told as one, with the transaction as it is now.
    """
    async with call.charge():
        feed = await call.read(transactions.changes, call.principal, query)
    return ChangesAnswer(data=feed.changes, cursor=str(feed.cursor), has_more=feed.has_more)


@get("/v2/banking/transactions/{id}", cost=1, errors=_ERRORS)
async def get_transaction(call: Call, id: NumericId, query: TransactionQuery) -> TransactionAnswer:
    """Read one transaction."""
    async with call.charge():
        return TransactionAnswer(data=await call.read(transactions.get, call.principal, query.account_id, id))


# --- What providers send


@post("/v2/banking/webhooks/{provider}", caller="anybody", statuses=(200,), errors=(401, 404))
async def receive_webhook(call: Call, provider: str, body: RawBody) -> Received:
    """Take a delivery of a provider, signed over its raw body.

    It is stored before it is applied, and applied once; a repeat is answered as the first one was.
    """
    banking = call.context.part(Banking)
    sender = banking.providers.get(provider)
    if sender is None:
        raise NotFound("There is no such provider.")
    try:
        delivery_id = sender.read_webhook(body.headers, body.content)
    except BadSignature as error:
        raise Unauthorized("The signature of this delivery is not right.", operator=str(error)) from None
    await call.context.db.write(inbound.store, provider, delivery_id, body.content)
    await inbound.apply_delivery(call.context, provider, delivery_id)
    return Received(received=True)
