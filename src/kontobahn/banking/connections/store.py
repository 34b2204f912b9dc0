"""The rows of bank connections: found, created, changed, moved from status to status, and removed with all that belongs to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kontobahn.access.principal import Principal, in_scope
from kontobahn.banking import ids
from kontobahn.banking.connections.rules import TRANSITIONS, TRIGGERS, ConnectionStatus, Trigger
from kontobahn.banking.provider import FILES, Api, BankConnectionFacts, ConnectStart
from kontobahn.banking.wire import EVENTS
from kontobahn.db import Database, Rounds, Row, Table, Tx, short_read
from kontobahn.errors import Conflict, NotFound
from kontobahn.json_text import decode_kept, encode_kept
from kontobahn.sentences import said
from kontobahn.webhooks.outbox import emit

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
    not_read: str = "[]"

    @property
    def sentences_not_read(self) -> list[str]:
        """Says what could not be read at the last fetch of accounts that were never read."""
        return decode_kept(self.not_read, list[str])


CONNECTIONS = Table("banking_connections", ConnectionRow)


@short_read
def listing(organizations: tuple[str, ...]) -> Rounds[list[ConnectionRow]]:
    return CONNECTIONS.ask_all(f"{in_scope(len(organizations))} ORDER BY created_at, id", *organizations)


def needing_a_person(tx: Tx, organization_id: str, ends_before: int) -> list[ConnectionRow]:
    """Those that the bank no longer serves, or whose consent ends before this instant; an end of 0 or none is not known.

    One that is being renewed is not served before that is finished.
    """
    condition = (
        "organization_id = ? AND (status = 'inactive' OR status = 'pending' OR status = 'disabled'"
        " OR (status = 'active' AND consent_expires_at > 0 AND consent_expires_at < ?)) ORDER BY created_at, id"
    )
    return CONNECTIONS.all(tx, condition, organization_id, ends_before)


@short_read
def find(principal: Principal, connection_id: str) -> Rounds[ConnectionRow]:
    """Returns the connection with this id, or the one made by the connect flow with this pending token."""
    scope = in_scope(len(principal.scope))
    by_id, ids = "?", [connection_id]
    if connection_id.startswith(TOKEN_PREFIX):
        flow = f"SELECT NULLIF(connection_id, '') FROM banking_connect_flows WHERE {scope} AND pending_token = ?"
        by_id, ids = f"COALESCE(({flow}), ?)", [*principal.scope, connection_id, connection_id]
    row = yield from CONNECTIONS.ask_one(f"{scope} AND id = {by_id}", *principal.scope, *ids)
    if row is None:
        raise principal.missing("Connection")
    return row


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


def used_by_connection(table: str) -> str:
    """The condition that a connection at the provider (a parameter) uses the `ref` of a row, for a provider's own table."""
    return (
        "EXISTS (SELECT 1 FROM banking_connections c"
        f" WHERE c.organization_id = {table}.organization_id AND c.provider = ? AND c.provider_ref = {table}.ref)"
    )


def is_used_by_others(tx: Tx, provider: str, scope: tuple[str, ...]) -> bool:
    """Returns whether an organisation outside this scope has connections at this provider."""
    found = tx.one(
        f"SELECT 1 FROM banking_connections WHERE provider = ? AND NOT {in_scope(len(scope))} LIMIT 1", provider, *scope
    )
    return found is not None


def has_any_at(tx: Tx, organization_id: str, provider: str) -> bool:
    """Returns whether the organisation has a connection at this provider, an unfinished one included."""
    found = tx.one(
        "SELECT 1 FROM banking_connections WHERE organization_id = ? AND provider = ? LIMIT 1",
        organization_id,
        provider,
    )
    return found is not None


def ids_at(tx: Tx, organization_id: str, provider: str) -> frozenset[str]:
    """The ids of the organisation's connections at this provider."""
    rows = tx.all(
        "SELECT id FROM banking_connections WHERE organization_id = ? AND provider = ?", organization_id, provider
    )
    return frozenset(connection_id for (connection_id,) in rows)


def names_of_user(tx: Tx, organization_id: str, user_id: str) -> list[str]:
    """The names of the banks that a person connected."""
    rows = tx.all(
        "SELECT provider_name FROM banking_connections WHERE organization_id = ? AND owner_user_id = ?"
        " ORDER BY provider_name",
        organization_id, user_id,
    )  # fmt: skip
    return [name for (name,) in rows]


def create(
    tx: Tx,
    organization_id: str,
    *,
    provider: str,
    api: Api,
    owner_user_id: str | None,
    facts: BankConnectionFacts,
    number: str | None = None,
) -> ConnectionRow:
    """Writes an active connection, as its provider reports it; with its own number, if one was taken for it before."""
    row = ConnectionRow(
        organization_id=organization_id,
        id=number or str(ids.take(tx, organization_id, "connection")),
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


# At most this many sentences are kept about what could not be read: a bank with a habit has it in every row.
MAX_NOT_READ = 20


def kept_sentences(sentences: Iterable[str]) -> str:
    """The form in which sentences about what could not be read are kept, each once."""
    shown = list(dict.fromkeys(sentences))
    if len(shown) > MAX_NOT_READ:
        shown = [*shown[:MAX_NOT_READ], said("And {count} more.", count=len(shown) - MAX_NOT_READ)]
    return encode_kept(shown).decode()


def tell_not_read(tx: Tx, row: ConnectionRow, sentences: Iterable[str]) -> ConnectionRow:
    """Keeps what could not be read at the last fetch of accounts that were never read."""
    kept = kept_sentences(sentences)
    return row if kept == row.not_read else change(tx, row, not_read=kept)


def lock(tx: Tx, organization_id: str, connection_id: str) -> None:
    """Serialises changes to one connection's data."""
    tx.lock("banking_connection", organization_id, connection_id)


def check_active(row: ConnectionRow, purpose: str) -> None:
    """Raises Conflict if the connection cannot be used now."""
    if row.status != "active":
        raise Conflict(
            said("The bank connection is {status}: reconnect it before {purpose}.", status=row.status, purpose=purpose)
        )


def emit_event(tx: Tx, row: ConnectionRow, event: str, data: dict[str, Any]) -> None:
    """Emits an event about a connection, in the transaction of the change it reports."""
    connection = {
        "connection_id": row.id,
        "provider_name": row.provider_name,
        "provider_code": row.provider_code,
        "country_code": row.country_code,
    }
    emit(tx, row.organization_id, event, f"connection:{row.id}", EVENTS[event](**connection, **data))


# --- Moved, failed, removed


def move(tx: Tx, row: ConnectionRow, trigger: Trigger, **values: Any) -> ConnectionRow:
    return change(tx, row, status=TRANSITIONS.get((row.status, trigger), row.status), **values)


def fail(
    tx: Tx, row: ConnectionRow, error_class: str, error_message: str, *, trigger: Trigger | None = None
) -> ConnectionRow:
    """Records an error at the bank with what it means for the status, and emits the event if it says anything new.

    The row was read under its lock.
    """
    before = row
    row = move(
        tx, row, trigger or TRIGGERS.get(error_class, "transient_error"),
        error_class=error_class[:100], error_message=error_message[:1000], refresh_type="", refresh_started_at=None,
    )  # fmt: skip
    known = (before.status, before.error_class, before.error_message)
    # Somebody who asked for a refresh gets an answer, even if it is the same error again.
    if before.refresh_type or known != (row.status, row.error_class, row.error_message):
        _emit_error(tx, row, before.refresh_type or "automatic")
    return row


def remove(
    tx: Tx,
    organization_id: str,
    connection_id: str,
    refresh_type: str = "manual",
    *,
    at_provider: bool = True,
    at_once: bool = False,
) -> ConnectionRow | None:
    """Removes the connection with the accounts that no other one reaches; its payments stay. Returns None if it is already gone.

    Access at the provider is ended afterwards by a job, unless the provider has ended it already; so are the transactions of accounts
    that have many, which nobody sees from here on, unless they are to go `at_once`.
    """
    # Read under the lock: a flow may have been finished meanwhile, or the provider may use another reference by now.
    row = look_up_locked(tx, organization_id, connection_id)
    if row is None:
        return None
    tx.run(f"DELETE FROM {CONNECTIONS.name} WHERE organization_id = ? AND id = ?", row.organization_id, row.id)
    if row.status == "pending_connect":
        # The flow was called off: whatever it still leads to is ignored.
        tx.run(
            "DELETE FROM banking_connect_flows WHERE organization_id = ? AND pending_token = ?",
            row.organization_id, row.id,
        )  # fmt: skip
        return row
    _remove_accounts(tx, row.organization_id, row.id, LARGE if not at_once else _ANY)
    if at_provider:
        end_access(tx, row.provider, [row.provider_ref])
    _emit_destroyed(tx, row, refresh_type)
    return row


def end_access(tx: Tx, provider: str, provider_refs: Iterable[str]) -> None:
    """Has a job end these accesses at the provider."""
    tx.many(
        "INSERT INTO banking_removals (provider, provider_ref, attempts, next_attempt_at) VALUES (?, ?, 0, ?)"
        " ON CONFLICT DO NOTHING",
        [(provider, ref, tx.now) for ref in provider_refs],
    )


def _emit_error(tx: Tx, row: ConnectionRow, refresh_type: str) -> None:
    data = {"refresh_type": refresh_type, "error_class": row.error_class, "error_message": row.error_message}
    emit_event(tx, row, "connection_error", data)


def _emit_destroyed(tx: Tx, row: ConnectionRow, refresh_type: str) -> None:
    emit_event(tx, row, "connection_destroyed", {"refresh_type": refresh_type})


def _remove_accounts(tx: Tx, organization_id: str, connection_id: str, large: int) -> None:
    """Removes the accounts that no other connection reaches, with their transactions; the change feed reports these as removed.

    From an account that another one reaches only what this one alone has announced is removed. The transactions of an account that
    has more than `large` are left to `sweep_departures`.
    """
    reached = tx.all(
        "SELECT id, iban, posted + pending FROM banking_accounts WHERE organization_id = ? AND id IN"
        " (SELECT account_id FROM banking_account_sources WHERE organization_id = ? AND connection_id = ?) ORDER BY id",
        organization_id, organization_id, connection_id,
    )  # fmt: skip
    lock_accounts(tx, organization_id, [iban for _, iban, _ in reached])
    tx.run(
        "DELETE FROM banking_account_sources WHERE organization_id = ? AND connection_id = ?",
        organization_id, connection_id,
    )  # fmt: skip
    for account_id, _, count in reached:
        if lead(tx, organization_id, account_id) is None:
            if count > large:
                tx.run(
                    "INSERT INTO banking_departures (organization_id, account_id, connection_id) VALUES (?, ?, ?)",
                    organization_id, account_id, connection_id,
                )  # fmt: skip
            else:
                _remove_transactions(tx, organization_id, connection_id, account_id, "1 = 1")
            tx.run("DELETE FROM banking_statements WHERE account_id = ?", account_id)
            tx.run("DELETE FROM banking_statement_spans WHERE account_id = ?", account_id)
            _forget_merges(tx, organization_id, account_id)
            # An import that is under way finds its claim gone, and gives up.
            tx.run(
                "DELETE FROM banking_arrivals WHERE organization_id = ? AND account_id = ?", organization_id, account_id
            )
            tx.run("DELETE FROM banking_accounts WHERE organization_id = ? AND id = ?", organization_id, account_id)
        else:
            removed = _remove_transactions(
                tx, organization_id, connection_id, account_id, "status = 'pending' AND source = ?", connection_id
            )
            tx.run(
                "UPDATE banking_accounts SET pending = pending - ? WHERE organization_id = ? AND id = ?",
                removed, organization_id, account_id,
            )  # fmt: skip


def _forget_merges(tx: Tx, organization_id: str, account_id: int) -> None:
    """Removes what is left of accounts that have become part of this one; that they did stays on record."""
    of_account = (organization_id, account_id)
    tx.run("DELETE FROM banking_account_aliases WHERE organization_id = ? AND account_id = ?", *of_account)
    tx.run(
        "DELETE FROM banking_merged_transactions WHERE organization_id = ? AND merge_id IN"
        " (SELECT id FROM banking_account_merges WHERE organization_id = ? AND account_id = ?)",
        organization_id, *of_account,
    )  # fmt: skip
    tx.run("UPDATE banking_account_merges SET kept = NULL WHERE organization_id = ? AND account_id = ?", *of_account)


def _remove_transactions(
    tx: Tx, organization_id: str, connection_id: str, account_id: int, condition: str, *params: object
) -> int:
    selected = f"FROM banking_transactions WHERE account_id = ? AND {condition}"
    counted = tx.one(f"SELECT COUNT(*) {selected}", account_id, *params)
    count = int(counted[0]) if counted else 0
    if count:
        first = ids.take(tx, organization_id, "change", count)
        tx.run(
            "INSERT INTO banking_removed_transactions"
            " (organization_id, change_number, account_id, connection_id, id, first_change, removed_at)"
            f" SELECT ?, ? + ROW_NUMBER() OVER (ORDER BY id), account_id, ?, id, first_change, ? {selected}",
            organization_id, first - 1, connection_id, tx.now, account_id, *params,
        )  # fmt: skip
        tx.run(f"DELETE {selected}", account_id, *params)
    return count


# --- Transactions of accounts that are gone


# From this many on they are removed afterwards, in slices: others would wait for all of them.
LARGE = 5_000
ROWS_AT_ONCE = 5_000
_ANY = 1 << 62


def sweep_departures(db: Database) -> None:
    """Removes the transactions of accounts that are gone, so that the change feed reports them."""
    for organization_id, account_id, connection_id in db.read_now(_departures):
        while db.write_now(_remove_some, organization_id, account_id, connection_id):
            pass


def _departures(tx: Tx) -> list[Row]:
    return tx.all("SELECT organization_id, account_id, connection_id FROM banking_departures ORDER BY account_id")


def _remove_some(tx: Tx, organization_id: str, account_id: int, connection_id: str) -> bool:
    """Removes some. Returns whether there may be more."""
    # Two may sweep at once: whoever takes numbers waits for the other, and finds what is left.
    ids.take(tx, organization_id, "change", 0)
    last = tx.one(
        "SELECT id FROM banking_transactions WHERE account_id = ? ORDER BY id LIMIT 1 OFFSET ?",
        account_id, ROWS_AT_ONCE - 1,
    )  # fmt: skip
    some, params = ("1 = 1", ()) if last is None else ("id <= ?", (last[0],))
    _remove_transactions(tx, organization_id, connection_id, account_id, some, *params)
    if last is None:
        tx.run(
            "DELETE FROM banking_departures WHERE organization_id = ? AND account_id = ?", organization_id, account_id
        )
    return last is not None


# --- Accounts that several connections reach


def lock_accounts(tx: Tx, organization_id: str, ibans: Iterable[str | None]) -> None:
    """Serialises changes to the accounts with these IBANs, whatever connection they come by.

    After the lock of the connection, and before any number is taken: all take them in the same order.
    """
    for iban in sorted({iban for iban in ibans if iban}):
        tx.lock("banking_account", organization_id, iban)


def lead(tx: Tx, organization_id: str, account_id: int) -> str | None:
    """Chooses which of an account's connections it is paid from, and returns its id; None if the account has none left.

    One that works before one that does not, one to the bank itself before files, then the oldest.
    """
    row = tx.one(
        "SELECT c.id FROM banking_account_sources d JOIN banking_connections c"
        " ON c.organization_id = d.organization_id AND c.id = d.connection_id"
        " WHERE d.organization_id = ? AND d.account_id = ? ORDER BY CASE WHEN c.status = 'active' THEN 0 ELSE 1 END,"
        " CASE WHEN c.provider = ? THEN 1 ELSE 0 END, c.created_at, c.id LIMIT 1",
        organization_id, account_id, FILES,
    )  # fmt: skip
    if row is None:
        return None
    tx.run(
        "UPDATE banking_accounts SET connection_id = ? WHERE organization_id = ? AND id = ? AND connection_id <> ?",
        row[0], organization_id, account_id, row[0],
    )  # fmt: skip
    return str(row[0])
