"""The status of a connection: which report moves it where, as data; and its end, with everything that belongs to it."""

from __future__ import annotations

from typing import Any, Literal

from kontobahn.banking import accounts
from kontobahn.banking.connections import store
from kontobahn.banking.connections.store import CONNECTIONS, ConnectionRow, ConnectionStatus
from kontobahn.banking.provider import LOCKED, PERSON_NEEDED
from kontobahn.db import Tx

Trigger = Literal[
    "finished", "needs_person", "transient_error", "switched_off", "reconnect_started", "reconnect_abandoned", "consent_expired",
]  # fmt: skip

# Choice 25: the transitions of a connection, as data. What is not here keeps its status.
TRANSITIONS: dict[tuple[ConnectionStatus, Trigger], ConnectionStatus] = {
    ("active", "needs_person"): "inactive",
    ("active", "consent_expired"): "inactive",
    ("active", "switched_off"): "disabled",
    ("inactive", "switched_off"): "disabled",
    ("inactive", "reconnect_started"): "pending",
    ("active", "reconnect_started"): "active",
    ("disabled", "reconnect_started"): "disabled",
    ("pending", "reconnect_abandoned"): "inactive",
    ("pending", "needs_person"): "inactive",
    ("pending", "transient_error"): "inactive",
    ("pending", "switched_off"): "disabled",
    ("active", "finished"): "active",
    ("inactive", "finished"): "active",
    ("pending", "finished"): "active",
    ("disabled", "finished"): "active",
}
# Errors that only the person can resolve at the bank, and those that mean the bank or the access is switched off. Choice 25:
# all others are transient; they keep the status and set error_class.
_TRIGGERS: dict[str, Trigger] = {
    "InvalidCredentials": "needs_person",
    "InvalidInteractiveCredentials": "needs_person",
    "AispConsentExpired": "needs_person",
    "ProviderAccessNotGranted": "needs_person",
    "InteractiveTimeout": "needs_person",
    PERSON_NEEDED: "needs_person",
    LOCKED: "needs_person",
    "ProviderDisabled": "switched_off",
    "ProviderInactive": "switched_off",
    "ConnectionDisabled": "switched_off",
    "AispConsentRevoked": "switched_off",
}


def is_known(error_class: str) -> bool:
    """Whether an error says something about the access, instead of about this one attempt."""
    return error_class in _TRIGGERS


def move(tx: Tx, row: ConnectionRow, trigger: Trigger, **values: Any) -> ConnectionRow:
    return store.change(tx, row, status=TRANSITIONS.get((row.status, trigger), row.status), **values)


def fail(
    tx: Tx, row: ConnectionRow, error_class: str, error_message: str, *, trigger: Trigger | None = None
) -> ConnectionRow:
    """Records an error at the bank with what it means for the status, and emits the event if it says anything new.

    The row was read under its lock.
    """
    before = row
    row = move(
        tx, row, trigger or _TRIGGERS.get(error_class, "transient_error"),
        error_class=error_class[:100], error_message=error_message[:1000], refresh_type="", refresh_started_at=None,
    )  # fmt: skip
    known = (before.status, before.error_class, before.error_message)
    # Somebody who asked for a refresh gets an answer, even if it is the same error again.
    if before.refresh_type or known != (row.status, row.error_class, row.error_message):
        _emit_error(tx, row, before.refresh_type or "automatic")
    return row


def remove(
    tx: Tx, organization_id: str, connection_id: str, refresh_type: str = "manual", *, at_provider: bool = True
) -> ConnectionRow | None:
    """Removes the connection with its accounts and transactions; its payments stay. Returns None if it is gone already.

    Access at the provider is ended afterwards by a job, unless the provider has ended it already.
    """
    # Read under the lock: a flow may have been finished meanwhile, or the provider may use another reference by now.
    row = store.look_up_locked(tx, organization_id, connection_id)
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
    accounts.remove_of_connection(tx, row.organization_id, row.id)
    if at_provider:
        tx.run(
            "INSERT INTO banking_removals (provider, provider_ref, attempts, next_attempt_at) VALUES (?, ?, 0, ?)"
            " ON CONFLICT DO NOTHING",
            row.provider, row.provider_ref, tx.now,
        )  # fmt: skip
    _emit_destroyed(tx, row, refresh_type)
    return row


def _emit_error(tx: Tx, row: ConnectionRow, refresh_type: str) -> None:
    data = {"refresh_type": refresh_type, "error_class": row.error_class, "error_message": row.error_message}
    store.emit_event(tx, row, "connection_error", data)


def _emit_destroyed(tx: Tx, row: ConnectionRow, refresh_type: str) -> None:
    store.emit_event(tx, row, "connection_destroyed", {"refresh_type": refresh_type})
