"""The rows of connect flows: a placeholder while the person is at the bank, the real connection once the bank reports success.

A flow outlives its placeholder: a slow person who finishes after the clean-up still gets the connection.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

from kontobahn.access import users
from kontobahn.access.principal import Principal
from kontobahn.banking.connections import store
from kontobahn.banking.connections.store import CONNECTIONS, TOKEN_PREFIX, ConnectionRow
from kontobahn.banking.provider import Api, ConnectStart
from kontobahn.clock import DAY, MINUTE
from kontobahn.db import Table, Tx
from kontobahn.errors import BadRequest

PLACEHOLDER_LIFETIME = 15 * MINUTE
# The time that we wait for the outcome of a flow.
FLOW_LIFETIME = 30 * DAY


class FlowRow(NamedTuple):
    organization_id: str
    pending_token: str
    provider: str
    api: Api
    owner_user_id: str | None
    # Of a reconnect: the connection it renews. Of a connect: the connection it made.
    connection_id: str | None
    return_to: str | None
    custom_fields: str | None
    created_at: int
    expires_at: int


FLOWS = Table("banking_connect_flows", FlowRow, key=("organization_id", "pending_token"))


def new_token() -> str:
    return TOKEN_PREFIX + secrets.token_urlsafe(24)


def find_owner(tx: Tx, principal: Principal, organization_id: str, email: str | None) -> str | None:
    """Returns whose bank access it will be: the user with this address, or the caller's. Raises BadRequest if nobody has the address."""
    if email is not None:
        return _user_with_address(tx, principal, organization_id, email)
    # Choice 39: what a key connects belongs to its user; for an agency that is the agency's.
    known = users.listing(tx, principal.organization_id)
    if any(user.id == principal.user_id for user in known):
        return principal.user_id
    # A key that has no user, in an organisation of one person: there is nobody else it could be.
    return known[0].id if len(known) == 1 else None


def _user_with_address(tx: Tx, principal: Principal, organization_id: str, email: str) -> str:
    for candidate in (organization_id, principal.organization_id):
        for user in users.listing(tx, candidate):
            if user.email == users.normal_email(email):
                return user.id
    raise BadRequest("The field `email` is not the address of a user of the organisation.", field="email")


def start(tx: Tx, flow: FlowRow, provider_code: str, started: ConnectStart) -> FlowRow:
    """Writes a flow with its placeholder."""
    flow = _begun(tx, flow, started)
    store.create_placeholder(
        tx, flow.organization_id, flow.pending_token, provider=flow.provider, api=flow.api,
        owner_user_id=flow.owner_user_id, provider_code=provider_code, started=started, expires_at=flow.expires_at,
    )  # fmt: skip
    return flow


def start_reconnect(tx: Tx, flow: FlowRow, connection_id: str, started: ConnectStart) -> FlowRow:
    """Writes a flow that renews a connection; the connection keeps its id."""
    store.lock(tx, flow.organization_id, connection_id)
    row = store.get(tx, flow.organization_id, connection_id)
    store.move(tx, row, "reconnect_started", refresh_type="manual", refresh_started_at=tx.now)
    return _begun(tx, flow, started)


def _begun(tx: Tx, flow: FlowRow, started: ConnectStart) -> FlowRow:
    # The provider's page may live longer; what is finished on it after our time still counts.
    flow = flow._replace(created_at=tx.now, expires_at=min(started.expires_at, tx.now + PLACEHOLDER_LIFETIME))
    FLOWS.insert(tx, flow)
    return flow


def find(tx: Tx, provider: str, pending_token: str | None) -> FlowRow | None:
    if pending_token is None:
        return None
    return FLOWS.one(tx, "pending_token = ? AND provider = ?", pending_token, provider)


def by_token(tx: Tx, organization_id: str, pending_token: str) -> FlowRow | None:
    return FLOWS.one(tx, "organization_id = ? AND pending_token = ?", organization_id, pending_token)


def bank_name(tx: Tx, organization_id: str, pending_token: str) -> str:
    """Returns the name of the bank that a flow is about, as far as that is known."""
    flow = by_token(tx, organization_id, pending_token)
    row = store.look_up(tx, organization_id, (flow.connection_id if flow else None) or pending_token)
    return "" if row is None else row.provider_name


def set_provider(
    tx: Tx, organization_id: str, pending_token: str, provider: str, provider_code: str, started: ConnectStart
) -> None:
    """Writes which bank the person has chosen, into the flow and its placeholder."""
    store.lock(tx, organization_id, pending_token)
    flow = by_token(tx, organization_id, pending_token)
    if flow is not None:
        FLOWS.update(tx, flow, provider=provider)
    row = store.look_up(tx, organization_id, pending_token)
    if row is not None:
        store.change(
            tx, row, provider=provider, provider_code=provider_code, provider_name=started.provider_name,
            country_code=started.country_code or store.UNKNOWN_COUNTRY, logo_url=started.logo_url,
            error_class=None, error_message=None,
        )  # fmt: skip


# --- Cleaning up


def remove_unfinished(tx: Tx) -> int:
    """Removes placeholders whose flow was not finished in time, and flows whose outcome is no longer awaited.

    A connection whose reconnect was not finished is what it was before.
    """
    removed = tx.run(
        f"DELETE FROM {CONNECTIONS.name} WHERE status = 'pending_connect' AND created_at <= ?",
        tx.now - PLACEHOLDER_LIFETIME,
    )
    for organization_id, connection_id in tx.all(
        f"SELECT organization_id, id FROM {CONNECTIONS.name} WHERE status = 'pending' AND refresh_started_at <= ?",
        tx.now - PLACEHOLDER_LIFETIME,
    ):
        row = store.look_up_locked(tx, organization_id, connection_id)
        if row is not None and row.status == "pending" and _is_abandoned(row, tx.now):
            store.move(tx, row, "reconnect_abandoned", refresh_type="", refresh_started_at=None)
    tx.run(f"DELETE FROM {FLOWS.name} WHERE created_at <= ?", tx.now - FLOW_LIFETIME)
    return removed


def _is_abandoned(row: ConnectionRow, now: int) -> bool:
    return row.refresh_started_at is None or row.refresh_started_at <= now - PLACEHOLDER_LIFETIME


def remove_of_user(tx: Tx, user_id: str) -> list[ConnectionRow]:
    """Removes a user's connections and flows, including those of an agency's clients: a connection belongs to its person."""
    # The flows first: one that is being finished becomes a connection, which must be among those removed.
    for flow in FLOWS.all(tx, "owner_user_id = ? ORDER BY organization_id, pending_token", user_id):
        store.lock(tx, flow.organization_id, flow.pending_token)
    tx.run(f"DELETE FROM {FLOWS.name} WHERE owner_user_id = ?", user_id)
    owned = CONNECTIONS.all(tx, "owner_user_id = ? ORDER BY organization_id, id", user_id)
    removed = [store.remove(tx, row.organization_id, row.id) for row in owned]
    return [row for row in removed if row is not None]
