"""What an API key may pay: by one payment, and on one day by all of them. Decided in the transaction that makes the payment."""

from __future__ import annotations

from kontobahn.access.principal import Principal
from kontobahn.clock import berlin_date, start_of_day
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Forbidden
from kontobahn.money import amount_text

CURRENCY = "EUR"


def check(tx: Tx, principal: Principal, amount_minor: int, currency_code: str) -> None:
    """Raises Forbidden, with the limit and what is left of it, if the caller's key may not make this payment.

    Holds the key's lock to the commit: two payments at once cannot exceed the limit together.
    """
    limits = principal.limits
    if limits.payment_minor is None and limits.daily_minor is None:
        return
    if currency_code != CURRENCY:
        raise BadRequest("The field `currency_code` must be EUR: this key has limits in euros.", field="currency_code")
    if limits.payment_minor is not None and amount_minor > limits.payment_minor:
        raise Forbidden(
            f"This key may pay at most {amount_text(limits.payment_minor)} EUR by one payment.",
            field="amount", limit="payment", limit_amount=amount_text(limits.payment_minor),
        )  # fmt: skip
    if limits.daily_minor is None:
        return
    tx.lock("key_payments", principal.first_key_id or "")
    left = max(0, limits.daily_minor - paid_today(tx, principal))
    if amount_minor > left:
        # Tomorrow, or when one of today's payments has failed, the same call may succeed.
        raise Forbidden(
            f"This key may pay at most {amount_text(limits.daily_minor)} EUR a day; {amount_text(left)} EUR are left today.",
            field="amount", limit="daily", limit_amount=amount_text(limits.daily_minor), left=amount_text(left),
        ).retryable()  # fmt: skip


def paid_today(tx: Tx, principal: Principal) -> int:
    """What was ordered with the key, and with those it replaced, on this day in Berlin, in cents, without what failed or was rejected."""
    row = tx.one(
        "SELECT COALESCE(SUM(amount_minor), 0) FROM banking_payments WHERE payer_organization_id = ? AND first_key_id = ?"
        " AND created_at >= ? AND status <> 'failed' AND status <> 'rejected'",
        principal.organization_id, principal.first_key_id, start_of_day(berlin_date(tx.now)),
    )  # fmt: skip
    return int(row[0]) if row else 0
