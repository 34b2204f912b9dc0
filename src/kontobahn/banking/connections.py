"""Bank connections: how they are kept, found, moved from status to status, and removed with all that belongs to them."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from kontobahn.access.principal import Principal
from kontobahn.access.scope import in_scope
from kontobahn.banking import accounts, announce, numbers
from kontobahn.banking.model import Api, BankConnection, ConnectionStatus
from kontobahn.banking.provider import BankConnectionFacts
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import Conflict, NotFound

Trigger = Literal["finished", "needs_person", "passes", "switched_off", "reconnect_started", "consent_expired"]

# Choice 25: the transitions of a connection, as data. What is not here keeps its status.
TRANSITIONS: dict[tuple[ConnectionStatus, Trigger], ConnectionStatus] = {
    ("active", "needs_person"): "inactive",
    ("active", "consent_expired"): "inactive",
    ("active", "switched_off"): "disabled",
    ("inactive", "switched_off"): "disabled",
    ("inactive", "reconnect_started"): "pending",
    ("active", "reconnect_started"): "active",
    ("disabled", "reconnect_started"): "disabled",
    ("pending", "needs_person"): "inactive",
    ("pending", "passes"): "inactive",
    ("pending", "switched_off"): "disabled",
    ("active", "finished"): "active",
    ("inactive", "finished"): "active",
    ("pending", "finished"): "active",
    ("disabled", "finished"): "active",
}
# Which errors only the person at the bank can mend, and which mean that the bank or the access is switched off. All others
# pass by themselves.
NEEDS_PERSON = frozenset({
    "InvalidCredentials", "InvalidInteractiveCredentials", "AispConsentExpired", "AispConsentRevoked",
    "ProviderAccessNotGranted", "InteractiveTimeout",
})  # fmt: skip
SWITCHED_OFF = frozenset({"ProviderDisabled", "ProviderInactive", "ConnectionDisabled"})


class Connection(NamedTuple):
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
    consent_expires_at: int
    error_class: str | None
    error_message: str | None
    refresh_type: str
    refresh_started_at: int | None
    last_automatic_at: int | None
    created_at: int
    updated_at: int


_COLUMNS = ", ".join(Connection._fields)


def wire(row: Connection) -> BankConnection:
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
        consent_expires_at=to_datetime(row.consent_expires_at),
        error_class=row.error_class,
        error_message=row.error_message,
    )


def listing(tx: Tx, organizations: tuple[str, ...]) -> list[Connection]:
    return [
        Connection(*row)
        for row in tx.all(
            f"SELECT {_COLUMNS} FROM banking_connections WHERE {in_scope(len(organizations))} ORDER BY created_at, id",
            *organizations,
        )
    ]


def find(tx: Tx, principal: Principal, connection_id: str) -> Connection:
    """By its id; also by the pending token of the flow that made it."""
    scope = in_scope(len(principal.scope))
    sql = f"SELECT {_COLUMNS} FROM banking_connections WHERE {scope} AND id = ?"
    row = tx.one(sql, *principal.scope, connection_id)
    if row is None:
        made = tx.one(
            f"SELECT connection_id FROM banking_connect_flows WHERE {scope} AND pending_token = ?",
            *principal.scope, connection_id,
        )  # fmt: skip
        row = tx.one(sql, *principal.scope, made[0]) if made and made[0] else None
    if row is None:
        raise principal.missing("Connection")
    return Connection(*row)


def get(tx: Tx, organization_id: str, connection_id: str) -> Connection:
    row = tx.one(
        f"SELECT {_COLUMNS} FROM banking_connections WHERE organization_id = ? AND id = ?",
        organization_id, connection_id,
    )  # fmt: skip
    if row is None:
        raise NotFound("Connection not found.")
    return Connection(*row)


def by_provider_ref(tx: Tx, provider: str, provider_ref: str) -> Connection | None:
    row = tx.one(
        f"SELECT {_COLUMNS} FROM banking_connections WHERE provider = ? AND provider_ref = ? AND provider_ref <> ''",
        provider, provider_ref,
    )  # fmt: skip
    return None if row is None else Connection(*row)


def insert(tx: Tx, row: Connection) -> None:
    tx.run(
        f"INSERT INTO banking_connections ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})",
        *row,
    )


def create(
    tx: Tx, organization_id: str, *, provider: str, api: Api, owner_user_id: str | None, facts: BankConnectionFacts
) -> Connection:
    """A real connection, as its provider tells it."""
    row = Connection(
        organization_id=organization_id,
        id=str(numbers.take(tx, organization_id, "connection")),
        provider=provider,
        provider_ref=facts.provider_ref,
        api=api,
        provider_code=facts.provider_code,
        provider_name=facts.provider_name,
        country_code=facts.country_code,
        logo_url=facts.logo_url,
        display_name=facts.display_name,
        templates=" ".join(facts.templates),
        status="active",
        owner_user_id=owner_user_id,
        automatic_refresh=int(facts.automatic_refresh),
        next_refresh_possible_at=facts.next_refresh_possible_at,
        consent_expires_at=facts.consent_expires_at,
        error_class=None,
        error_message=None,
        refresh_type="",
        refresh_started_at=None,
        last_automatic_at=tx.now,
        created_at=tx.now,
        updated_at=tx.now,
    )
    insert(tx, row)
    return row


def change(tx: Tx, row: Connection, **values: Any) -> Connection:
    """Write some columns; the row as it is now."""
    values["updated_at"] = tx.now
    assignments = ", ".join(f"{name} = ?" for name in values)
    tx.run(
        f"UPDATE banking_connections SET {assignments} WHERE organization_id = ? AND id = ?",
        *values.values(), row.organization_id, row.id,
    )  # fmt: skip
    return row._replace(**values)


def move(tx: Tx, row: Connection, trigger: Trigger, **values: Any) -> Connection:
    return change(tx, row, status=TRANSITIONS.get((row.status, trigger), row.status), **values)


def fail(
    tx: Tx, row: Connection, error_class: str, error_message: str, *, trigger: Trigger | None = None
) -> Connection:
    """Something went wrong at the bank: what that means for the connection, and the event that says so."""
    # Choice 25: an error that passes by itself keeps the status and sets error_class.
    if trigger is None:
        by_class = {**dict.fromkeys(NEEDS_PERSON, "needs_person"), **dict.fromkeys(SWITCHED_OFF, "switched_off")}
        trigger = by_class.get(error_class, "passes")  # type: ignore[assignment]
    assert trigger is not None
    before = row
    row = move(
        tx, row, trigger,
        error_class=error_class[:100], error_message=error_message[:1000], refresh_type="", refresh_started_at=None,
    )  # fmt: skip
    said = (before.status, before.error_class, before.error_message)
    # Told again without anybody having asked anew, it is no news.
    if before.refresh_type or said != (row.status, row.error_class, row.error_message):
        announce.connection_error(tx, row, before.refresh_type or "automatic")
    return row


def remove(tx: Tx, row: Connection, refresh_type: str = "manual", *, at_provider: bool = True) -> None:
    """The connection with its accounts and transactions; its payments stay.

    Its access at the provider is ended afterwards, by a job if need be; not where the provider itself has ended it.
    """
    lock(tx, row.organization_id, row.id)
    gone = tx.run("DELETE FROM banking_connections WHERE organization_id = ? AND id = ?", row.organization_id, row.id)
    if not gone:
        raise Conflict("The connection has just been removed.")
    if row.status == "pending_connect":
        # Whoever calls a flow off does not want what may still come of it.
        tx.run(
            "DELETE FROM banking_connect_flows WHERE organization_id = ? AND pending_token = ?",
            row.organization_id, row.id,
        )  # fmt: skip
        return
    accounts.remove_of_connection(tx, row.organization_id, row.id)
    if at_provider:
        tx.run(
            "INSERT INTO banking_removals (provider, provider_ref, attempts, next_attempt_at) VALUES (?, ?, 0, ?)"
            " ON CONFLICT DO NOTHING",
            row.provider, row.provider_ref, tx.now,
        )  # fmt: skip
    announce.connection_destroyed(tx, row, refresh_type)


def lock(tx: Tx, organization_id: str, connection_id: str) -> None:
    """Changes of one connection's data happen one after the other."""
    tx.lock("banking_connection", organization_id, connection_id)
