"""The two events about a payment, with exactly the contract's fields, in the transaction of the change they report."""

from __future__ import annotations

from typing import Any

import msgspec

from kontobahn.banking.payments.store import PaymentRow
from kontobahn.db import Tx
from kontobahn.money import amount_text
from kontobahn.webhooks.outbox import emit


def emit_payment_changed(tx: Tx, row: PaymentRow) -> None:
    """Emits `payment_progress` for an extra confirmation, `payment_update` for every other status."""
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
