"""What of the sandbox bank belongs to whom."""

from __future__ import annotations

from kontobahn.access.principal import in_scope
from kontobahn.banking.payments.store import PAYMENTS, PaymentRow
from kontobahn.banking.payments.transitions import FINAL
from kontobahn.db import Tx

_FINAL = tuple(sorted(FINAL))


def open_payments(tx: Tx, organization_id: str, provider: str, limit: int) -> list[PaymentRow]:
    """Payments through this provider that are not final yet, the latest first."""
    return PAYMENTS.all(
        tx,
        f"organization_id = ? AND provider = ? AND provider_ref IS NOT NULL AND status NOT IN ({', '.join('?' * len(_FINAL))})"
        " ORDER BY created_at DESC, id DESC LIMIT ?",
        organization_id, provider, *_FINAL, limit,
    )  # fmt: skip


def is_used_by_others(tx: Tx, provider: str, scope: tuple[str, ...]) -> bool:
    """Whether an organisation that this person does not look after has connections at this provider."""
    found = tx.one(
        f"SELECT 1 FROM banking_connections WHERE provider = ? AND NOT {in_scope(len(scope))} LIMIT 1", provider, *scope
    )
    return found is not None
