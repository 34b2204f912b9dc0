"""The rows of bank connections: found, created, changed. What a status means is in `status.py`."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from kontobahn.access.principal import Principal, find_in_scope, in_scope
from kontobahn.banking import numbers
from kontobahn.banking.emitted import EVENTS
from kontobahn.banking.provider import Api, BankConnectionFacts, ConnectStart
from kontobahn.db import Table, Tx
from kontobahn.errors import Conflict, NotFound
from kontobahn.webhooks.outbox import emit

ConnectionStatus = Literal["active", "inactive", "disabled", "pending", "pending_connect"]
# A placeholder's id is the pending token of its connect flow.
TOKEN_PREFIX = "pending_"


# ISO 3166-1 leaves it to its users: the country of a bank that the person has yet to choose.
UNKNOWN_COUNTRY = "ZZ"


class ConnectionRow(NamedTuple):
    organization_id: str
    id: str
    provider: str
    provider_ref: str
    api: Api
    provider_code: str
    provider_name: str
    country_code: str
    logo_url: str
    display_name: str | None
    templates: str
    status: ConnectionStatus
    owner_user_id: str | None
    automatic_refresh: int
    next_refresh_possible_at: int
    consent_expires_at: int | None
    error_class: str | None
    error_message: str | None
    refresh_type: str
    refresh_started_at: int | None
    last_automatic_at: int | None
    fetched_at: int | None
    announced_days: int | None
    created_at: int
    updated_at: int


CONNECTIONS = Table("banking_connections", ConnectionRow)


def listing(tx: Tx, organizations: tuple[str, ...]) -> list[ConnectionRow]:
    return CONNECTIONS.all(tx, f"{in_scope(len(organizations))} ORDER BY created_at, id", *organizations)


def needing_a_person(tx: Tx, organization_id: str, ends_before: int) -> list[ConnectionRow]:
    """Those that the bank no longer serves, or whose consent ends before this instant; an end of 0 or none is not known."""
    condition = (
        "organization_id = ? AND (status = 'inactive' OR status = 'disabled'"
        " OR (status = 'active' AND consent_expires_at > 0 AND consent_expires_at < ?)) ORDER BY created_at, id"
    )
    return CONNECTIONS.all(tx, condition, organization_id, ends_before)


def find(tx: Tx, principal: Principal, connection_id: str) -> ConnectionRow:
    """Returns the connection with this id, or the one made by the connect flow with this pending token."""
    if connection_id.startswith(TOKEN_PREFIX):
        flow = tx.one(
            f"SELECT connection_id FROM banking_connect_flows WHERE {in_scope(len(principal.scope))} AND pending_token = ?",
            *principal.scope, connection_id,
        )  # fmt: skip
        connection_id = flow[0] if flow and flow[0] else connection_id
    return find_in_scope(tx, CONNECTIONS, principal, "Connection", connection_id)


def look_up(tx: Tx, organization_id: str, connection_id: str) -> ConnectionRow | None:
    return CONNECTIONS.one(tx, "organization_id = ? AND id = ?", organization_id, connection_id)


def look_up_locked(tx: Tx, organization_id: str, connection_id: str) -> ConnectionRow | None:
    """Returns the row as it is under its lock, for whoever changes or removes it by what it says."""
    lock(tx, organization_id, connection_id)
    return look_up(tx, organization_id, connection_id)


def get(tx: Tx, organization_id: str, connection_id: str) -> ConnectionRow:
    row = look_up(tx, organization_id, connection_id)
    if row is None:
        raise NotFound("Connection not found.")
    return row


def by_provider_ref(tx: Tx, provider: str, provider_ref: str) -> ConnectionRow | None:
    return CONNECTIONS.one(
        tx, "provider = ? AND provider_ref = ? AND provider_ref <> ''", provider, provider_ref
    )  # fmt: skip


def create(
    tx: Tx, organization_id: str, *, provider: str, api: Api, owner_user_id: str | None, facts: BankConnectionFacts
) -> ConnectionRow:
    """Writes an active connection, as its provider reports it."""
    row = ConnectionRow(
        organization_id=organization_id,
        id=str(numbers.take(tx, organization_id, "connection")),
        provider=provider,
        api=api,
        status="active",
        owner_user_id=owner_user_id,
        display_name=facts.display_name,
        **columns_of(facts),
        error_class=None,
        error_message=None,
        refresh_type="",
        refresh_started_at=None,
        last_automatic_at=tx.now,
        fetched_at=None,
        announced_days=None,
        created_at=tx.now,
        updated_at=tx.now,
    )
    CONNECTIONS.insert(tx, row)
    return row


def create_placeholder(
    tx: Tx, organization_id: str, pending_token: str, *, provider: str, api: Api, owner_user_id: str | None,
    provider_code: str, started: ConnectStart, expires_at: int,
) -> None:  # fmt: skip
    """Writes the connection that is shown while its person is at the bank."""
    row = ConnectionRow(
        organization_id=organization_id, id=pending_token, provider=provider, provider_ref="", api=api,
        provider_code=provider_code, provider_name=started.provider_name,
        country_code=started.country_code or UNKNOWN_COUNTRY, logo_url=started.logo_url, display_name=None, templates="",
        status="pending_connect", owner_user_id=owner_user_id, automatic_refresh=0, next_refresh_possible_at=tx.now,
        consent_expires_at=expires_at, error_class=None, error_message=None, refresh_type="", refresh_started_at=None,
        last_automatic_at=None, fetched_at=None, announced_days=None, created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    CONNECTIONS.insert(tx, row)


def columns_of(facts: BankConnectionFacts) -> dict[str, Any]:
    """The columns that follow what the provider reports. The display name is taken once, when the row is created."""
    return {
        "provider_ref": facts.provider_ref,
        "provider_code": facts.provider_code,
        "provider_name": facts.provider_name,
        "country_code": facts.country_code,
        "logo_url": facts.logo_url,
        "templates": " ".join(facts.templates),
        "automatic_refresh": int(facts.automatic_refresh),
        "next_refresh_possible_at": facts.next_refresh_possible_at,
        "consent_expires_at": facts.consent_expires_at,
    }


def change(tx: Tx, row: ConnectionRow, **values: Any) -> ConnectionRow:
    """Writes these columns, and returns the row as it is now."""
    return CONNECTIONS.update(tx, row, **values, updated_at=tx.now)


def lock(tx: Tx, organization_id: str, connection_id: str) -> None:
    """Serialises changes to one connection's data."""
    tx.lock("banking_connection", organization_id, connection_id)


def check_active(row: ConnectionRow, purpose: str) -> None:
    """Raises Conflict if the connection cannot be used now."""
    if row.status != "active":
        raise Conflict(f"The bank connection is {row.status}: reconnect it before {purpose}.")


def emit_event(tx: Tx, row: ConnectionRow, event: str, data: dict[str, Any]) -> None:
    """Emits an event about a connection, in the transaction of the change it reports."""
    connection = {
        "connection_id": row.id,
        "provider_name": row.provider_name,
        "provider_code": row.provider_code,
        "country_code": row.country_code,
    }
    emit(tx, row.organization_id, event, f"connection:{row.id}", EVENTS[event](**connection, **data))
