"""The switch that lets assistants act for an organisation, and what one has to know before it asks: who it is, which books there are."""

from __future__ import annotations

from datetime import date
from typing import Annotated, NamedTuple

from msgspec import Meta

from kontobahn import credits
from kontobahn.access import audit, organizations
from kontobahn.access.audit import Actor
from kontobahn.access.principal import SCOPES, Principal, Role, Scope
from kontobahn.api.answers import Data
from kontobahn.api.call import Call
from kontobahn.api.declare import get, put
from kontobahn.api.wire import Answer, Body, OrganizationQuery, Timestamp, Uuid
from kontobahn.assistants import grants
from kontobahn.clock import optional_datetime
from kontobahn.db import Table, Tx
from kontobahn.errors import Forbidden
from kontobahn.ledger.connections import ClientId, list_clients, open_books
from kontobahn.ledger.connections import find as find_connection

SWITCHED_OFF = "Assistants are switched off for this organisation. An administrator switches them on in the dashboard, under Assistants."


class SettingsRow(NamedTuple):
    organization_id: str
    enabled: int
    changed_by: str
    changed_at: int


SETTINGS = Table("assistants_settings", SettingsRow, key=("organization_id",))


class NewAssistantSettings(Body):
    enabled: Annotated[bool, Meta(description="Whether assistants may act with the keys of the organisation.")]


class AssistantSettings(Answer):
    enabled: bool
    changed_at: Timestamp | None


class AssistantAccess(Answer):
    """The organisation and the rights of the key that asks."""

    organization_id: Uuid
    organization: str
    enabled: bool
    role: Role
    scopes: Annotated[list[Scope] | None, Meta(description="Null: whatever the role allows.")]
    credits: Annotated[int, Meta(description="Credits that are left.", examples=[4711])]


class AssistantBooks(Answer):
    """A client's books, as a question about them has to name them."""

    connection_id: Uuid
    client_id: Annotated[str, Meta(examples=["1001-1"])]
    name: str
    fiscal_years: Annotated[
        list[date] | None,
        Meta(description="The first day of each fiscal year, the latest first; null where several clients are listed."),
    ]


class BooksQuery(OrganizationQuery):
    connection_id: Annotated[Uuid, Meta(description="Only books of this connection.")] | None = None
    client_id: ClientId | None = None


@get("/v2/assistants/access", scope=SCOPES, errors=(403, 404))
async def get_assistant_access(call: Call, query: OrganizationQuery) -> Data[AssistantAccess]:
    """Read whose key this is, what it may do, and whether assistants are let in."""
    organization_id = call.principal.organization(query.organization_id)
    return Data(await call.read(_access, call.principal, organization_id))


def _access(tx: Tx, principal: Principal, organization_id: str) -> AssistantAccess:
    return AssistantAccess(
        organization_id=organization_id,
        organization=organizations.get(tx, organization_id).name,
        enabled=is_enabled(tx, organization_id),
        role=principal.role,
        scopes=None if principal.scopes is None else list(principal.scopes),
        credits=credits.balance(tx, principal.organization_id).available,
    )


@get("/v2/assistants/books", scope="ledger:read", errors=(403, 404))
async def list_assistant_books(call: Call, query: BooksQuery) -> Data[list[AssistantBooks]]:
    """List the books there are; if there is only one client, with its fiscal years."""
    organization_id = call.principal.organization(query.organization_id)
    connection_id = None
    if query.connection_id is not None:
        connection = await call.read_inline(find_connection, call.principal, query.connection_id)
        organization_id, connection_id = connection.organization_id, connection.id
    clients = [
        client
        for client in await list_clients(call.context, organization_id, connection_id)
        if query.client_id in (None, client.client_id)
        and call.principal.may_open(client.connection_id, client.client_id)
    ]
    years: list[date] | None = None
    if len(clients) == 1:
        access = await open_books(call.context, call.principal, clients[0].connection_id, clients[0].client_id)
        async with access.to("stammdaten") as books:
            years = sorted((year.start for year in await books.geschaeftsjahre()), reverse=True)
    return Data([AssistantBooks(client.connection_id, client.client_id, client.name, years) for client in clients])


# --- The switch


@get("/v2/assistants/settings", scope="admin", caller="key or session", errors=(403, 404))
async def get_assistant_settings(call: Call, query: OrganizationQuery) -> Data[AssistantSettings]:
    """Read whether assistants may act for the organisation."""
    return Data(await call.read(_settings, call.principal.organization(query.organization_id)))


@put(
    "/v2/assistants/settings",
    scope="admin", caller="key or session", role="admin", confirm=True, errors=(403, 404),
)  # fmt: skip
async def set_assistant_settings(
    call: Call, query: OrganizationQuery, body: NewAssistantSettings
) -> Data[AssistantSettings]:
    """Let assistants act for the organisation, or keep them out.

    Whoever runs the assistant reads what it asks for. A key may only switch it off.
    """
    organization_id = call.principal.organization(query.organization_id)
    if body.enabled and call.principal.session_id is None:
        raise Forbidden("A key may only switch assistants off. A person switches them on in the dashboard.")

    def unit(tx: Tx) -> Data[AssistantSettings]:
        switch(tx, organization_id, body.enabled, call.actor)
        return Data(_settings(tx, organization_id))

    return await call.commit(unit)


def _settings(tx: Tx, organization_id: str) -> AssistantSettings:
    row = SETTINGS.one(tx, "organization_id = ?", organization_id)
    return AssistantSettings(bool(row and row.enabled), optional_datetime(row.changed_at if row else None))


def switch(tx: Tx, organization_id: str, enabled: bool, actor: Actor) -> None:
    tx.lock("assistants", organization_id)
    if is_enabled(tx, organization_id) == enabled:
        return
    tx.run(
        "INSERT INTO assistants_settings (organization_id, enabled, changed_by, changed_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (organization_id) DO UPDATE SET enabled = excluded.enabled, changed_by = excluded.changed_by,"
        " changed_at = excluded.changed_at",
        organization_id, int(enabled), actor.name, tx.now,
    )  # fmt: skip
    if not enabled:
        grants.end_of_organization(tx, organization_id, actor)
    audit.record(tx, organization_id, actor, "assistants.enable" if enabled else "assistants.disable", organization_id)


def is_enabled(tx: Tx, organization_id: str) -> bool:
    return (
        tx.one("SELECT 1 FROM assistants_settings WHERE organization_id = ? AND enabled = 1", organization_id)
        is not None
    )


def check_enabled(tx: Tx, organization_id: str) -> None:
    if not is_enabled(tx, organization_id):
        raise Forbidden(SWITCHED_OFF)
