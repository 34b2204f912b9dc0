"""The three events about a connection, with exactly the contract's fields, in the transaction of the change they report."""

from __future__ import annotations

from typing import Any

from kontobahn.banking.accounts import AccountRow
from kontobahn.banking.connections.store import ConnectionRow
from kontobahn.db import Tx
from kontobahn.money import to_wire
from kontobahn.webhooks.outbox import emit


def emit_refresh_complete(tx: Tx, row: ConnectionRow, refresh_type: str, accounts: list[AccountRow]) -> None:
    data = {
        "status": row.status,
        "refresh_type": refresh_type,
        "accounts": [
            {
                "id": str(account.id),
                "name": account.name,
                "holder_name": account.holder_name,
                "nature": account.nature,
                "balance": to_wire(account.balance_minor),
                "currency_code": account.currency_code,
                "iban": account.iban,
            }
            for account in accounts
        ],
    }
    _emit(tx, row, "refresh_complete", data)


def emit_connection_error(tx: Tx, row: ConnectionRow, refresh_type: str) -> None:
    data = {"refresh_type": refresh_type, "error_class": row.error_class, "error_message": row.error_message}
    _emit(tx, row, "connection_error", data)


def emit_connection_destroyed(tx: Tx, row: ConnectionRow, refresh_type: str) -> None:
    _emit(tx, row, "connection_destroyed", {"refresh_type": refresh_type})


def _emit(tx: Tx, row: ConnectionRow, event: str, data: dict[str, Any]) -> None:
    connection = {
        "connection_id": row.id,
        "provider_name": row.provider_name,
        "provider_code": row.provider_code,
        "country_code": row.country_code,
    }
    emit(tx, row.organization_id, event, f"connection:{row.id}", connection | data)
