"""Bank connections over HTTP: listed, read, removed; and access ended at the provider for those that were removed."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from kontobahn import log
from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.answers import Data, from_row
from kontobahn.api.call import Call, Context
from kontobahn.api.declare import delete, get
from kontobahn.api.wire import Answer, ListQuery, Timestamp, Uuid
from kontobahn.banking.connections import store
from kontobahn.banking.connections.rules import ConnectionStatus
from kontobahn.banking.connections.store import ConnectionRow
from kontobahn.banking.provider import Banking, ProviderRefused
from kontobahn.banking.wire import ConnectionId
from kontobahn.clock import HOUR, MINUTE
from kontobahn.db import Tx
from kontobahn.errors import Conflict, SetupError, Unavailable


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
    # Choice 40: null if the provider reports none.
    consent_expires_at: Timestamp | None
    error_class: str | None
    error_message: str | None
    not_read: (
        Annotated[
            list[str],
            Meta(
                description="What could not be read at the last fetch of accounts that were never read; left out if nothing was."
            ),
        ]
        | UnsetType
    ) = UNSET


class Removed(Answer):
    connection_id: str
    removed: bool


@get("/v2/banking/connections", scope="banking:read", errors=(403, 404))
async def list_bank_connections(call: Call, query: ListQuery) -> Data[list[BankConnection]]:
    """List the bank connections, including unfinished ones."""
    rows = await call.read_inline(store.listing, call.principal.organizations(query.organization_id))
    return Data([bank_connection(row) for row in rows])


@get("/v2/banking/connections/{id}", scope="banking:read", errors=(403, 404))
async def get_bank_connection(call: Call, id: ConnectionId) -> Data[BankConnection]:
    """Read one bank connection.

    The pending token of a connect flow is accepted as an id: it means the placeholder at first, then the connection made from it.
    """
    return Data(bank_connection(await call.read_inline(store.find, call.principal, id)))


@delete("/v2/banking/connections/{id}", scope="banking:write", errors=(403, 404, 409))
async def delete_bank_connection(call: Call, id: ConnectionId) -> Data[Removed]:
    """Remove a connection with its accounts and transactions, and end the access at the bank.

    Payments made through it stay, and so do accounts that another connection reaches.
    """
    answer = await call.commit(_remove, call.principal, call.actor, id)
    await end_accesses(call.context)
    return answer


def _remove(tx: Tx, principal: Principal, actor: Actor, connection_id: str) -> Data[Removed]:
    found = store.find(tx, principal, connection_id)
    row = store.remove(tx, found.organization_id, found.id)
    if row is None:
        # Removed by somebody else, or a placeholder that has just become a connection.
        raise Conflict("The connection has just changed. Look again.")
    audit.record(tx, row.organization_id, actor, "bank_connection.delete", row.id, bank=row.provider_name)
    return Data(Removed(connection_id=row.id, removed=True))


def bank_connection(row: ConnectionRow) -> BankConnection:
    return from_row(BankConnection, row, not_read=row.sentences_not_read or UNSET)


# --- Access ended at the provider

REMOVAL_RETRY = (MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, 24 * HOUR)
REMOVALS_AT_ONCE = 100


async def end_accesses(context: Context) -> None:
    """Ends access at the provider for the connections that were removed here."""
    for provider_name, provider_ref in await context.db.write(_claim_removals):
        try:
            await context.part(Banking).provider(provider_name).remove(provider_ref)
        except (Unavailable, ProviderRefused, SetupError) as error:
            log.warning("access_not_ended", provider=provider_name, provider_ref=provider_ref, detail=str(error))
        else:
            await context.db.write(_removal_done, provider_name, provider_ref)


def _claim_removals(tx: Tx) -> list[tuple[str, str]]:
    claimed = []
    for provider, provider_ref, attempts in tx.all(
        "SELECT provider, provider_ref, attempts FROM banking_removals WHERE next_attempt_at <= ?"
        " ORDER BY next_attempt_at LIMIT ?",
        tx.now, REMOVALS_AT_ONCE,
    ):  # fmt: skip
        wait = REMOVAL_RETRY[min(attempts, len(REMOVAL_RETRY) - 1)]
        # In the UPDATE: the call that removes a connection and the job may both be here.
        is_ours = tx.run(
            "UPDATE banking_removals SET attempts = attempts + 1, next_attempt_at = ?"
            " WHERE provider = ? AND provider_ref = ? AND attempts = ?",
            tx.now + wait, provider, provider_ref, attempts,
        )  # fmt: skip
        if is_ours:
            claimed.append((provider, provider_ref))
    return claimed


def _removal_done(tx: Tx, provider: str, provider_ref: str) -> None:
    tx.run("DELETE FROM banking_removals WHERE provider = ? AND provider_ref = ?", provider, provider_ref)
