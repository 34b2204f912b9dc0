"""Connect flows: a placeholder while the person is at the bank, the real connection when the bank says so.

A flow outlives its placeholder: the answer of a slow person after the clean-up still makes the connection.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

from kontobahn.access.principal import Principal
from kontobahn.banking import accounts, announce, connections
from kontobahn.banking.connections import Connection
from kontobahn.banking.ingest import Counts, Intake
from kontobahn.banking.model import Api, Connect
from kontobahn.banking.provider import ConnectionFailed, Snapshot, TransactionFacts
from kontobahn.clock import DAY, MINUTE
from kontobahn.db import Tx
from kontobahn.json_text import encode_text

# An unfinished connect flow's row is removed after 15 minutes.
UNFINISHED = 15 * MINUTE
# How long the answer of a flow is waited for.
FLOW_LIFE = 30 * DAY
TOKEN_PREFIX = "pending_"


class Flow(NamedTuple):
    organization_id: str
    pending_token: str
    provider: str
    api: Api
    owner_user_id: str | None
    connection_id: str | None
    return_to: str | None
    custom_fields: str | None
    created_at: int
    expires_at: int


_COLUMNS = ", ".join(Flow._fields)


def new_token() -> str:
    return TOKEN_PREFIX + secrets.token_urlsafe(24)


def owner_of(tx: Tx, principal: Principal, email: str | None) -> str | None:
    """Whose bank access it will be: the user of that address, else the person signed in, else whoever made the key."""
    organization_id = principal.organization_id
    if email is not None:
        row = tx.one(
            "SELECT id FROM users WHERE organization_id = ? AND email = ?", organization_id, email.strip().lower()
        )
        if row is not None:
            return str(row[0])
    if principal.user_id is not None:
        return principal.user_id
    row = tx.one(
        "SELECT u.id FROM api_keys k JOIN users u ON u.organization_id = k.organization_id AND u.id = k.created_by"
        " WHERE k.organization_id = ? AND k.id = ?",
        organization_id, principal.key_id,
    )  # fmt: skip
    return None if row is None else str(row[0])


def begin(tx: Tx, flow: Flow, body: Connect) -> None:
    """The flow with its placeholder."""
    _insert(tx, flow)
    connections.insert(
        tx,
        Connection(
            organization_id=flow.organization_id, id=flow.pending_token, provider=flow.provider, provider_ref="",
            api=flow.api, provider_code=body.provider_code or "", provider_name="", country_code="", logo_url="",
            display_name=None, templates="", status="pending_connect", owner_user_id=flow.owner_user_id,
            automatic_refresh=0, next_refresh_possible_at=tx.now, consent_expires_at=flow.expires_at, error_class=None,
            error_message=None, refresh_type="", refresh_started_at=None, last_automatic_at=None, created_at=tx.now,
            updated_at=tx.now,
        ),
    )  # fmt: skip


def begin_again(tx: Tx, flow: Flow, connection: Connection) -> None:
    """A reconnect: the connection keeps its id, and waits where it was inactive."""
    _insert(tx, flow)
    connections.move(tx, connection, "reconnect_started", refresh_type="manual", refresh_started_at=tx.now)


def make_flow(
    now: int, organization_id: str, provider: str, api: Api, owner_user_id: str | None, expires_at: int, token: str,
    body: Connect, connection_id: str | None = None,
) -> Flow:  # fmt: skip
    fields = None if body.custom_fields is None else encode_text(body.custom_fields)
    return Flow(
        organization_id, token, provider, api, owner_user_id, connection_id, body.return_to, fields, now, expires_at
    )


def _insert(tx: Tx, flow: Flow) -> None:
    tx.run(f"INSERT INTO banking_connect_flows ({_COLUMNS}) VALUES ({', '.join('?' * len(flow))})", *flow)


def find_flow(tx: Tx, provider: str, pending_token: str | None) -> Flow | None:
    if pending_token is None:
        return None
    row = tx.one(
        f"SELECT {_COLUMNS} FROM banking_connect_flows WHERE pending_token = ? AND provider = ?",
        pending_token,
        provider,
    )
    return None if row is None else Flow(*row)


def finished(tx: Tx, provider: str, snapshot: Snapshot, pending_token: str | None) -> Connection | None:
    """The bank has told all it knows of a connection: keep it. None where nobody here knows that connection."""
    facts = snapshot.connection
    flow = find_flow(tx, provider, pending_token)
    if flow is not None:
        connections.lock(tx, flow.organization_id, flow.pending_token)
        flow = find_flow(tx, provider, pending_token)
    row = connections.by_provider_ref(tx, provider, facts.provider_ref)
    if row is None and flow is not None and flow.connection_id is not None:
        # A reconnect that the provider knows under a new name.
        row = next(
            (known for known in connections.listing(tx, (flow.organization_id,)) if known.id == flow.connection_id),
            None,
        )
    if row is None:
        if flow is None:
            return None
        row = _replace_placeholder(tx, flow, snapshot)
        refresh_type = "manual"
    else:
        connections.lock(tx, row.organization_id, row.id)
        refresh_type = row.refresh_type or "automatic"
        if row.owner_user_id is None and flow is not None:
            row = connections.change(tx, row, owner_user_id=flow.owner_user_id)
        row = connections.move(
            tx, row, "finished",
            provider_ref=facts.provider_ref, provider_code=facts.provider_code, provider_name=facts.provider_name,
            country_code=facts.country_code, logo_url=facts.logo_url, templates=" ".join(facts.templates),
            consent_expires_at=facts.consent_expires_at, next_refresh_possible_at=facts.next_refresh_possible_at,
            automatic_refresh=int(facts.automatic_refresh), error_class=None, error_message=None, refresh_type="",
            refresh_started_at=None,
        )  # fmt: skip
    if flow is not None and flow.connection_id is None:
        tx.run(
            "UPDATE banking_connect_flows SET connection_id = ? WHERE organization_id = ? AND pending_token = ?",
            row.id, flow.organization_id, flow.pending_token,
        )  # fmt: skip
    take_snapshot(tx, row, snapshot)
    announce.refresh_complete(tx, row, refresh_type, accounts.of_connection(tx, row.organization_id, row.id))
    return row


def _replace_placeholder(tx: Tx, flow: Flow, snapshot: Snapshot) -> Connection:
    # Choice 23: also after the clean-up has removed it.
    tx.run(
        "DELETE FROM banking_connections WHERE organization_id = ? AND id = ?", flow.organization_id, flow.pending_token
    )
    owner = flow.owner_user_id
    if owner is not None and not tx.one(
        "SELECT 1 FROM users WHERE organization_id = ? AND id = ?", flow.organization_id, owner
    ):
        owner = None
    return connections.create(
        tx, flow.organization_id, provider=flow.provider, api=flow.api, owner_user_id=owner, facts=snapshot.connection
    )


def take_snapshot(tx: Tx, row: Connection, snapshot: Snapshot) -> Counts:
    told: dict[str, list[TransactionFacts]] = {}
    for facts in snapshot.transactions:
        told.setdefault(facts.account_ref, []).append(facts)
    added = modified = removed = 0
    for account_facts in snapshot.accounts:
        account = accounts.save(tx, row.organization_id, row.id, account_facts)
        intake = Intake(tx, account)
        intake.add(told.get(account_facts.provider_ref, []))
        intake.drop_missing_pending()
        counts = intake.finish()
        added, modified, removed = added + counts.added, modified + counts.modified, removed + counts.removed
    return Counts(added, modified, removed)


def failed(tx: Tx, provider: str, report: ConnectionFailed) -> bool:
    """A flow or a refresh went wrong. False where nobody here knows of it."""
    row = connections.by_provider_ref(tx, provider, report.provider_ref) if report.provider_ref else None
    flow = find_flow(tx, provider, report.pending_token)
    if row is None:
        if flow is None:
            return False
        wanted = flow.connection_id or flow.pending_token
        row = next((known for known in connections.listing(tx, (flow.organization_id,)) if known.id == wanted), None)
    if row is None:
        return True
    connections.lock(tx, row.organization_id, row.id)
    row = connections.get(tx, row.organization_id, row.id)
    if row.status == "pending_connect":
        # Nothing was connected; the person may try again until the clean-up.
        connections.change(tx, row, error_class=report.error_class[:100], error_message=report.error_message[:1000])
        return True
    if row.status == "active" and flow is not None:
        # A reconnect that came to nothing: the access is what it was.
        connections.change(tx, row, refresh_type="", refresh_started_at=None)
        return True
    connections.fail(tx, row, report.error_class, report.error_message)
    return True


def gone(tx: Tx, provider: str, provider_ref: str) -> bool:
    row = connections.by_provider_ref(tx, provider, provider_ref)
    if row is None:
        return False
    connections.remove(tx, row, "automatic", at_provider=False)
    return True


def remove_unfinished(tx: Tx) -> int:
    """The clean-up: placeholders whose flow was not finished in time, and flows that nobody will answer any more."""
    removed = tx.run(
        "DELETE FROM banking_connections WHERE status = 'pending_connect' AND created_at <= ?", tx.now - UNFINISHED
    )
    tx.run("DELETE FROM banking_connect_flows WHERE created_at <= ?", tx.now - FLOW_LIFE)
    return removed


def remove_of_user(tx: Tx, organization_id: str, user_id: str) -> list[Connection]:
    """A connection belongs to whoever signed in at the bank, and goes with that person."""
    rows = [row for row in connections.listing(tx, (organization_id,)) if row.owner_user_id == user_id]
    for row in rows:
        connections.remove(tx, row)
    tx.run(
        "DELETE FROM banking_connect_flows WHERE organization_id = ? AND owner_user_id = ?", organization_id, user_id
    )
    return rows
