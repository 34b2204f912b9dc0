"""Bank connections over HTTP: what goes over the wire, and the calls."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.call import Call, Context
from kontobahn.api.declare import delete, get, post
from kontobahn.api.wire import Answer, Body, ListQuery, OrganizationQuery, Timestamp, Uuid
from kontobahn.banking.connections import connecting, flows, refresh, status, store
from kontobahn.banking.connections.connecting import Begun
from kontobahn.banking.connections.flows import FlowRow
from kontobahn.banking.connections.store import ConnectionRow, ConnectionStatus
from kontobahn.banking.fields import (
    ConnectionId,
    CustomerAddress,
    CustomerAgent,
    check_custom_fields,
    check_return_to,
    parse_ip_address,
)
from kontobahn.banking.interaction import Language
from kontobahn.banking.provider import Api, ConnectRequest, Holder, PersonHere
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import Conflict
from kontobahn.json_text import encode

Scope = Literal["accounts", "holder_info", "transactions"]


class ConnectQuery(OrganizationQuery):
    api: Annotated[Api, Meta(description="`partner`: regulated banks; `openbanking`: the others.")] = "partner"


class Connect(Body):
    """Starts a connect flow; everything is optional."""

    # Choice 23: the body of a connect flow.
    provider_code: (
        Annotated[str, Meta(min_length=1, max_length=100, description="The bank; otherwise the person chooses.")] | None
    ) = None
    email: (
        Annotated[
            str,
            Meta(
                min_length=3, max_length=254, description="The user whose bank access it is; by default the key's user."
            ),
        ]
        | None
    ) = None
    return_to: (
        Annotated[str, Meta(min_length=8, max_length=2000, description="Where the person goes afterwards.")] | None
    ) = None
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=3)] | None = None
    holder: Annotated[Holder, Meta(description="Whose access it is at the bank; `business` when left out.")] | None = (
        None
    )
    language: Annotated[Language, Meta(description="Of the pages; otherwise the browser's.")] | None = None
    customer_ip_address: CustomerAddress | None = None
    customer_user_agent: CustomerAgent | None = None
    custom_fields: dict[str, Any] | None = None


class Reconnect(Body):
    return_to: Annotated[str, Meta(min_length=8, max_length=2000)] | None = None
    language: Annotated[Language, Meta(description="Of the pages; otherwise the browser's.")] | None = None
    customer_ip_address: CustomerAddress | None = None
    customer_user_agent: CustomerAgent | None = None


class Refresh(Body):
    """Who waits for it, if somebody does: banks allow more then."""

    customer_ip_address: CustomerAddress | None = None
    customer_user_agent: CustomerAgent | None = None


class BankConnection(Answer):
    id: str
    provider_name: str
    provider_code: str
    country_code: str
    status: ConnectionStatus
    owner_user_id: Uuid | None
    automatic_refresh: bool
    next_refresh_possible_at: Timestamp
    created_at: Timestamp
    updated_at: Timestamp
    display_name: str | None
    logo_url: str
    # Choice 40: null if the provider tells none.
    consent_expires_at: Timestamp | None
    error_class: str | None
    error_message: str | None


class ConnectionAnswer(Answer):
    data: BankConnection


class ConnectionsAnswer(Answer):
    data: list[BankConnection]


class ConnectAnswer(Answer):
    """Not wrapped in `data`."""

    connect_url: str
    expires_at: Timestamp
    owner_user_id: Uuid | None
    pending_token: str


class Removed(Answer):
    connection_id: str
    removed: bool


class RemovedAnswer(Answer):
    data: Removed


@get("/v2/banking/connections", scope="banking:read", errors=(403, 404))
async def list_bank_connections(call: Call, query: ListQuery) -> ConnectionsAnswer:
    """List the bank connections, including unfinished ones."""
    rows = await call.read_inline(store.listing, call.principal.organizations(query.organization_id))
    return ConnectionsAnswer(data=[_bank_connection(row) for row in rows])


@get("/v2/banking/connections/{id}", scope="banking:read", errors=(403, 404))
async def get_bank_connection(call: Call, id: ConnectionId) -> ConnectionAnswer:
    """Read one bank connection.

    The pending token of a connect flow is accepted as an id: it means the placeholder at first, then the connection made from it.
    """
    return ConnectionAnswer(data=_bank_connection(await call.read_inline(store.find, call.principal, id)))


@post("/v2/banking/connect", scope="banking:write", errors=(403, 404, 409, 503))
async def start_connect(call: Call, query: ConnectQuery, body: Connect) -> ConnectAnswer:
    """Start a connect flow.

    Send the person to `connect_url` to choose the bank and sign in. Until that is done the connection is a placeholder with
    status `pending_connect`, removed after 15 minutes; then it becomes `active`, and `refresh_complete` lists its accounts. It
    belongs to the user with this `email`, by default to the user of the API key.
    """
    check_return_to(body.return_to)
    check_custom_fields(body.custom_fields)
    organization_id = call.principal.organization(query.organization_id)
    owner = await call.read_inline(flows.find_owner, call.principal, organization_id, body.email)
    token = flows.new_token()
    request = ConnectRequest(
        token, query.api, body.provider_code, tuple(body.scopes or ()), body.return_to, None, organization_id,
        body.holder or "business", body.language, parse_ip_address(body.customer_ip_address) or call.ip, body.customer_user_agent or "",
    )  # fmt: skip
    begun = await connecting.begin(call.context, request)
    flow = FlowRow(
        organization_id=organization_id,
        pending_token=token,
        provider=begun.provider,
        api=query.api,
        owner_user_id=owner,
        connection_id=None,
        return_to=body.return_to,
        custom_fields=None if body.custom_fields is None else encode(body.custom_fields).decode(),
        created_at=call.context.clock.now(),
        expires_at=begun.started.expires_at,
    )
    return await call.commit(_start, call.context, flow, begun)


def _start(tx: Tx, context: Context, flow: FlowRow, begun: Begun) -> ConnectAnswer:
    flow = flows.start(tx, flow, begun.request.provider_code or "", begun.started)
    begun.keep(tx, context.vault, flow)
    return _connect_answer(context, flow, begun)


@post("/v2/banking/connections/{id}/reconnect", scope="banking:write", errors=(403, 404, 409))
async def reconnect_bank_connection(call: Call, id: ConnectionId, body: Reconnect) -> ConnectAnswer:
    """Start a flow that renews a connection.

    The connection keeps its id, its accounts and its transactions.
    """
    check_return_to(body.return_to)
    row = await call.read_inline(store.find, call.principal, id)
    if row.status == "pending_connect":
        raise Conflict("The connection is not finished yet: go on with its connect flow.")
    token = flows.new_token()
    request = ConnectRequest(
        token, row.api, row.provider_code, (), body.return_to, row.provider_ref, row.organization_id,
        language=body.language, ip_address=parse_ip_address(body.customer_ip_address) or call.ip,
        user_agent=body.customer_user_agent or "",
    )  # fmt: skip
    begun = await connecting.begin_at(call.context, row.provider, request)
    flow = FlowRow(
        organization_id=row.organization_id,
        pending_token=token,
        provider=row.provider,
        api=row.api,
        owner_user_id=row.owner_user_id
        or await call.read_inline(flows.find_owner, call.principal, row.organization_id, None),
        connection_id=row.id,
        return_to=body.return_to,
        custom_fields=None,
        created_at=call.context.clock.now(),
        expires_at=begun.started.expires_at,
    )
    return await call.commit(_start_reconnect, call.context, flow, row.id, begun)


def _start_reconnect(tx: Tx, context: Context, flow: FlowRow, connection_id: str, begun: Begun) -> ConnectAnswer:
    flow = flows.start_reconnect(tx, flow, connection_id, begun.started)
    begun.keep(tx, context.vault, flow)
    return _connect_answer(context, flow, begun)


def _connect_answer(context: Context, flow: FlowRow, begun: Begun) -> ConnectAnswer:
    return ConnectAnswer(
        connect_url=begun.connect_url(context.settings.base_url),
        expires_at=to_datetime(flow.expires_at),
        owner_user_id=flow.owner_user_id,
        pending_token=flow.pending_token,
    )


# Choice 24: 202, because the bank answers later.
@post("/v2/banking/connections/{id}/refresh", scope="banking:write", statuses=(202,), errors=(403, 404, 409))
async def refresh_bank_connection(call: Call, id: ConnectionId, body: Refresh) -> ConnectionAnswer:
    """Ask the bank for new data now.

    `refresh_complete` reports new data, `connection_error` a failure. If there is nothing new, the connection only moves its
    `next_refresh_possible_at`, before which no refresh is possible. Name the person's address and browser only if somebody waits
    for it: most banks allow four readings a day without.
    """
    address = parse_ip_address(body.customer_ip_address)
    person = None if address is None else PersonHere(address, body.customer_user_agent or "")
    row = await call.read_inline(store.find, call.principal, id)
    return ConnectionAnswer(data=_bank_connection(await refresh.refresh(call.context, row, person)))


@delete("/v2/banking/connections/{id}", scope="banking:write", errors=(403, 404, 409))
async def delete_bank_connection(call: Call, id: ConnectionId) -> RemovedAnswer:
    """Remove a connection with its accounts and transactions, and end the access at the bank.

    Payments made through it stay.
    """
    answer = await call.commit(_remove, call.principal, call.actor, id)
    await refresh.end_accesses(call.context)
    return answer


def _remove(tx: Tx, principal: Principal, actor: Actor, connection_id: str) -> RemovedAnswer:
    found = store.find(tx, principal, connection_id)
    row = status.remove(tx, found.organization_id, found.id)
    if row is None:
        # Removed by somebody else, or a placeholder that has just become a connection.
        raise Conflict("The connection has just changed. Look again.")
    audit.record(tx, row.organization_id, actor, "bank_connection.delete", row.id, bank=row.provider_name)
    return RemovedAnswer(data=Removed(connection_id=row.id, removed=True))


def _bank_connection(row: ConnectionRow) -> BankConnection:
    return BankConnection(
        id=row.id,
        provider_name=row.provider_name,
        provider_code=row.provider_code,
        country_code=row.country_code,
        status=row.status,
        owner_user_id=row.owner_user_id,
        automatic_refresh=bool(row.automatic_refresh),
        next_refresh_possible_at=to_datetime(row.next_refresh_possible_at),
        created_at=to_datetime(row.created_at),
        updated_at=to_datetime(row.updated_at),
        display_name=row.display_name,
        logo_url=row.logo_url,
        consent_expires_at=None if row.consent_expires_at is None else to_datetime(row.consent_expires_at),
        error_class=row.error_class,
        error_message=row.error_message,
    )
