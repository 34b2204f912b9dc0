"""Payments above the organisation's limit: made to wait, released or refused by a second person, given up when nobody does.

A payment that waits is `initiated` and was not sent: it has no page, is in no file, and `store.claim_sending` gives it to nobody.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta

from kontobahn.access import audit, factors
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.answers import Data
from kontobahn.api.call import Call
from kontobahn.api.declare import get, put
from kontobahn.api.wire import Answer, Body, Query, Timestamp, Uuid
from kontobahn.banking.payments import store
from kontobahn.banking.payments.rules import FINAL
from kontobahn.banking.payments.store import PAYMENTS, POLL_AFTER, PaymentRow
from kontobahn.banking.payments.wire import Amount, Release
from kontobahn.banking.provider import PaymentReport
from kontobahn.clock import DAY, end_of_day, optional_datetime
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict, Forbidden
from kontobahn.formats.pain import sepa
from kontobahn.money import amount_text, to_minor, to_wire
from kontobahn.sentences import said

# A payment that nobody has released for this long is given up; one for a later day, at the end of that day.
WAITING_DAYS = 14
REFUSED, EXPIRED = "ReleaseRefused", "ReleaseExpired"
MAX_LISTED = 20


# --- The limit


class LimitQuery(Query):
    organization_id: Annotated[Uuid, Meta(description="Agency keys: of this organisation.")] | None = None


class NewPaymentLimit(Body, kw_only=True):
    # Null for none.
    amount: Amount | None
    currency_code: Literal["EUR"] = "EUR"


class PaymentLimit(Answer):
    amount: Annotated[Decimal | None, Meta(description="Null: payments need no release.", examples=[5000.00])]
    currency_code: str
    changed_at: Timestamp | None


@get("/v2/banking/payment-limit", scope=("banking:read", "payments"), caller="key or session", errors=(403, 404))
async def get_payment_limit(call: Call, query: LimitQuery) -> Data[PaymentLimit]:
    """Read the amount above which a payment needs a second person's release."""
    organization_id = call.principal.organization(query.organization_id)
    return Data(await call.read(_limit_view, organization_id))


@put(
    "/v2/banking/payment-limit",
    scope="admin", caller="key or session", role="admin", confirm=True, errors=(403, 404),
)  # fmt: skip
async def set_payment_limit(call: Call, query: LimitQuery, body: NewPaymentLimit) -> Data[PaymentLimit]:
    """Set the amount above which a payment needs a second person's release, or null for none.

    A key may set a limit and lower it. To raise or remove it needs a person with a second factor. Payments that wait go on waiting.
    """
    organization_id = call.principal.organization(query.organization_id)
    amount = None if body.amount is None else to_minor(body.amount)

    def unit(tx: Tx) -> Data[PaymentLimit]:
        set_limit(tx, organization_id, amount, call.actor, by=call.principal)
        return Data(_limit_view(tx, organization_id))

    return await call.commit(unit)


def _limit_view(tx: Tx, organization_id: str) -> PaymentLimit:
    row = tx.one(
        "SELECT limit_minor, changed_at FROM banking_payment_limits WHERE organization_id = ?", organization_id
    )
    amount, changed_at = row or (None, None)
    return PaymentLimit(None if amount is None else to_wire(amount), "EUR", optional_datetime(changed_at))


def limit_of(tx: Tx, organization_id: str) -> int | None:
    """Returns the limit in cents; None if there is none."""
    row = tx.one("SELECT limit_minor FROM banking_payment_limits WHERE organization_id = ?", organization_id)
    return None if row is None else int(row[0])


def set_limit(
    tx: Tx, organization_id: str, amount_minor: int | None, actor: Actor, *, by: Principal | None = None
) -> None:
    """Sets or removes the limit. Raises Forbidden if the caller may not make it less strict; `by` is None for an operator."""
    if amount_minor is not None:
        check_limit(amount_minor)
    tx.lock("banking_payment_limit", organization_id)
    old = limit_of(tx, organization_id)
    if by is not None and by.session_id is not None:
        check_has_factor(tx, by)
    elif by is not None and old is not None and (amount_minor is None or amount_minor > old):
        raise Forbidden("A key may only lower the limit. A person raises or removes it in the dashboard.")
    if amount_minor is None:
        tx.run("DELETE FROM banking_payment_limits WHERE organization_id = ?", organization_id)
    else:
        tx.run(
            "INSERT INTO banking_payment_limits (organization_id, limit_minor, changed_at) VALUES (?, ?, ?)"
            " ON CONFLICT (organization_id) DO UPDATE SET limit_minor = excluded.limit_minor, changed_at = excluded.changed_at",
            organization_id, amount_minor, tx.now,
        )  # fmt: skip
    audit.record(
        tx, organization_id, actor, "payment_limit.change", organization_id,
        old=None if old is None else amount_text(old), new=None if amount_minor is None else amount_text(amount_minor),
    )  # fmt: skip


def check_limit(amount_minor: int) -> None:
    try:
        sepa.check_amount("amount", amount_minor)
    except sepa.NotSepa as error:
        raise BadRequest(
            said("The field `{path}` {reason}.", path="amount", reason=error.reason), field="amount"
        ) from None


def check_has_factor(tx: Tx, principal: Principal) -> None:
    """Raises Forbidden for a person without a second factor: a password alone must not move large amounts."""
    if principal.user_id is None or not factors.of_user(tx, principal.organization_id, principal.user_id):
        raise Forbidden("This needs a second factor. Add one under your profile first.")


# --- Waiting


def held_back(tx: Tx, row: PaymentRow, day: date | None) -> PaymentRow:
    """Returns a new payment as it is to be written: waiting for a release if it is above the limit."""
    # Choice 48: a payment above the organisation's limit needs a second person's release.
    limit = limit_of(tx, row.organization_id)
    if limit is None or row.amount_minor <= limit:
        return row
    ends = max(tx.now + WAITING_DAYS * DAY, end_of_day(day) if day is not None else 0)
    return row._replace(release_state="waiting", release_limit_minor=limit, release_expires_at=ends, next_poll_at=ends)


def check_released(row: PaymentRow) -> None:
    if row.waits_for_release:
        raise Conflict(said("The payment {id} waits for another person's release.", id=row.id))


def waiting(tx: Tx, organization_id: str) -> list[PaymentRow]:
    """Returns payments that wait for a release, the oldest first."""
    return PAYMENTS.all(
        tx,
        "organization_id = ? AND release_state = 'waiting' AND status = 'initiated' ORDER BY id LIMIT ?",
        organization_id, MAX_LISTED,
    )  # fmt: skip


def shown(row: PaymentRow) -> Release | None:
    if row.release_state is None:
        return None
    state: Literal["waiting", "released", "refused", "expired", "withdrawn"] = row.release_state
    if state == "waiting" and row.status in FINAL:
        state = "refused" if row.error_class == REFUSED else "expired" if row.error_class == EXPIRED else "withdrawn"
    return Release(
        state, to_wire(row.release_limit_minor or 0),
        optional_datetime(row.release_expires_at if state == "waiting" else None), optional_datetime(row.released_at),
    )  # fmt: skip


# --- Decided


def may_decide(row: PaymentRow, principal: Principal) -> bool:
    """Returns whether this person may release or refuse a payment: somebody who may pay, and has not made it.

    Nobody releases by a key: whoever made the key would release their own payments with it.
    """
    is_person = principal.session_id is not None and principal.user_id is not None
    return is_person and principal.may("member") and row.maker_user_id != principal.user_id


def release(tx: Tx, principal: Principal, payment_id: str, actor: Actor) -> PaymentRow:
    """Releases a payment: from now on it may be sent. Raises Forbidden for its maker, Conflict if it no longer waits."""
    row = _locked(tx, principal, payment_id)
    row = PAYMENTS.update(
        tx, row, release_state="released", released_by=principal.user_id, released_at=tx.now,
        next_poll_at=tx.now + POLL_AFTER[0], updated_at=tx.now,
    )  # fmt: skip
    audit.record(
        tx, row.organization_id, actor, "payment.release", str(row.id),
        amount=amount_text(row.amount_minor), iban=row.creditor_iban, maker=row.maker_user_id,
    )  # fmt: skip
    return row


def refuse(tx: Tx, principal: Principal, payment_id: str, reason: str, actor: Actor) -> PaymentRow:
    """Refuses a payment, which fails and gives its credits back. Raises as `release` does."""
    row = _locked(tx, principal, payment_id)
    row = store.apply(tx, row.organization_id, row.id, PaymentReport("failed", None, REFUSED, reason), "release")
    audit.record(tx, row.organization_id, actor, "payment.refuse", str(row.id), reason=reason)
    return row


def _locked(tx: Tx, principal: Principal, payment_id: str) -> PaymentRow:
    """Returns a payment that the person may decide about, under its lock: of two who decide at once, one does."""
    found = store.find(tx, principal, payment_id)
    store.lock(tx, found.organization_id, found.id)
    row = store.get(tx, found.organization_id, found.id)
    if not may_decide(row, principal):
        raise Forbidden("Another person must release this payment: not whoever made it, also by a key.")
    check_has_factor(tx, principal)
    if not row.waits_for_release:
        raise Conflict("This payment no longer waits for a release.")
    if row.release_expires_at is not None and row.release_expires_at <= tx.now:
        raise Conflict("The time for the release of this payment is over. Make it once more.")
    return row


def expire(tx: Tx, row: PaymentRow) -> PaymentRow:
    # Decided again under the lock: somebody may have released it a moment ago.
    store.lock(tx, row.organization_id, row.id)
    row = store.get(tx, row.organization_id, row.id)
    if not row.waits_for_release or (row.release_expires_at or tx.now) > tx.now:
        return row
    over = PaymentReport("failed", None, EXPIRED, "Nobody released the payment in time.")
    return store.apply(tx, row.organization_id, row.id, over, "time")
