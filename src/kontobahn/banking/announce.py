"""The five events with exactly the contract's fields, written in the transaction of the change they tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kontobahn.db import Tx
from kontobahn.money import amount_text, to_wire
from kontobahn.webhooks.outbox import emit

if TYPE_CHECKING:
    from kontobahn.banking.accounts import Account
    from kontobahn.banking.connections import Connection
    from kontobahn.banking.payments import PaymentRow


def refresh_complete(tx: Tx, row: Connection, refresh_type: str, accounts: list[Account]) -> None:
    data = {
        **_connection(row),
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


def connection_error(tx: Tx, row: Connection, refresh_type: str) -> None:
    data = {
        **_connection(row),
        "refresh_type": refresh_type,
        "error_class": row.error_class,
        "error_message": row.error_message,
    }
    _emit(tx, row, "connection_error", data)


def connection_destroyed(tx: Tx, row: Connection, refresh_type: str) -> None:
    _emit(tx, row, "connection_destroyed", {**_connection(row), "refresh_type": refresh_type})


def payment_changed(tx: Tx, row: PaymentRow) -> None:
    """`payment_progress` for an extra confirmation, `payment_update` for every other status."""
    data: dict[str, Any] = {"payment_id": str(row.id), "status": row.status}
    event = "payment_progress"
    if row.status != "initiated_info_required":
        event = "payment_update"
        data |= {
            "raw_provider_status": row.raw_provider_status,
            "template_identifier": row.template_identifier,
            "payment_attributes": {
                "amount": amount_text(row.amount_minor),
                "currency_code": row.currency_code,
                "description": row.description,
                "creditor_iban": row.creditor_iban,
                "creditor_name": row.creditor_name,
                "debtor_iban": row.debtor_iban,
                "end_to_end_id": row.end_to_end_id,
                "customer_ip_address": row.customer_ip_address,
            },
        }
    if row.custom_fields is not None:
        data["custom_fields"] = msgspec.Raw(row.custom_fields)
    emit(tx, row.organization_id, event, f"payment:{row.id}", data)


def _connection(row: Connection) -> dict[str, Any]:
    return {
        "connection_id": row.id,
        "provider_name": row.provider_name,
        "provider_code": row.provider_code,
        "country_code": row.country_code,
    }


def _emit(tx: Tx, row: Connection, event: str, data: dict[str, Any]) -> None:
    emit(tx, row.organization_id, event, f"connection:{row.id}", data)
