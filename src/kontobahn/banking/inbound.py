"""What providers send: checked over the raw body, stored, then applied, each delivery once.

Applying may have to ask the provider first; that happens outside any transaction, and the effect with the mark “applied” in one.
A delivery that cannot be applied yet is tried again by a job.
"""

from __future__ import annotations

from typing import NamedTuple

from kontobahn import log
from kontobahn.api.call import Context
from kontobahn.banking import connect, payments
from kontobahn.banking.provider import (
    Banking,
    BankProvider,
    ConnectionFailed,
    ConnectionFinished,
    ConnectionGone,
    PaymentReported,
    ProviderRefused,
    Report,
    Snapshot,
)  # fmt: skip
from kontobahn.clock import DAY, MINUTE, SECOND
from kontobahn.db import Tx
from kontobahn.errors import Unavailable

# How long one attempt may take before another process may take the delivery over.
ATTEMPT = MINUTE
RETRY_AFTER = (2 * SECOND, 5 * SECOND, 15 * SECOND, MINUTE, 5 * MINUTE, 30 * MINUTE, 120 * MINUTE)
KEPT = 30 * DAY


class NotYet(Exception):
    """About something that is not known here yet; it may be a moment later."""


class _Prepared(NamedTuple):
    report: Report
    snapshot: Snapshot | None


def store(tx: Tx, provider: str, delivery_id: str, body: bytes) -> bool:
    """False where it was delivered before."""
    # Choice 30: stored first, applied once.
    return bool(
        tx.run(
            "INSERT INTO banking_inbox (provider, delivery_id, body, state, attempts, next_attempt_at, received_at)"
            " VALUES (?, ?, ?, 'received', 0, ?, ?) ON CONFLICT DO NOTHING",
            provider, delivery_id, body, tx.now, tx.now,
        )
    )  # fmt: skip


def due(tx: Tx, most: int = 100) -> list[tuple[str, str]]:
    return [
        (provider, delivery_id)
        for provider, delivery_id in tx.all(
            "SELECT provider, delivery_id FROM banking_inbox WHERE state = 'received' AND next_attempt_at <= ?"
            " ORDER BY next_attempt_at, received_at LIMIT ?",
            tx.now, most,
        )
    ]  # fmt: skip


def purge(tx: Tx) -> int:
    return tx.run("DELETE FROM banking_inbox WHERE received_at <= ? AND state <> 'received'", tx.now - KEPT)


async def apply_delivery(context: Context, provider_name: str, delivery_id: str) -> bool:
    """Apply a stored delivery, unless somebody else does; what goes wrong is kept for the next attempt."""
    banking = context.part(Banking)
    provider = banking.providers.get(provider_name)
    claimed = await context.db.write(_claim, provider_name, delivery_id)
    if claimed is None or provider is None:
        return False
    body, attempts = claimed
    try:
        prepared = [await _prepare(provider, report) for report in provider.reports(body)]
        await context.db.write(_apply, provider_name, delivery_id, prepared)
        return True
    except ProviderRefused as error:
        # What it tells of is not there any more; asking again would not help.
        await context.db.write(_give_up, provider_name, delivery_id, str(error))
    except (NotYet, Unavailable) as error:
        await context.db.write(_postpone, provider_name, delivery_id, attempts, str(error))
    except Exception as error:
        log.exception("inbound_delivery_failed", error, provider=provider_name, delivery_id=delivery_id)
        await context.db.write(_postpone, provider_name, delivery_id, attempts, f"{type(error).__name__}: {error}")
    return False


async def _prepare(provider: BankProvider, report: Report) -> _Prepared:
    # The delivery only says that there is news; what they are is asked.
    snapshot = await provider.fetch(report.provider_ref) if isinstance(report, ConnectionFinished) else None
    return _Prepared(report, snapshot)


def _claim(tx: Tx, provider: str, delivery_id: str) -> tuple[bytes, int] | None:
    row = tx.one(
        "UPDATE banking_inbox SET attempts = attempts + 1, next_attempt_at = ?"
        " WHERE provider = ? AND delivery_id = ? AND state = 'received' AND next_attempt_at <= ? RETURNING body, attempts",
        tx.now + ATTEMPT, provider, delivery_id, tx.now,
    )  # fmt: skip
    return None if row is None else (bytes(row[0]), row[1])


def _apply(tx: Tx, provider: str, delivery_id: str, prepared: list[_Prepared]) -> None:
    is_first = tx.run(
        "UPDATE banking_inbox SET state = 'applied', applied_at = ?, last_error = NULL"
        " WHERE provider = ? AND delivery_id = ? AND state = 'received'",
        tx.now, provider, delivery_id,
    )  # fmt: skip
    if not is_first:
        return
    for report, snapshot in prepared:
        if not apply_report(tx, provider, report, snapshot):
            log.warning("inbound_report_of_unknown", provider=provider, delivery_id=delivery_id)


def apply_report(tx: Tx, provider: str, report: Report, snapshot: Snapshot | None) -> bool:
    """Do what a report says; False where nobody here knows what it is about."""
    match report:
        case ConnectionFinished():
            assert snapshot is not None
            return connect.finished(tx, provider, snapshot, report.pending_token) is not None
        case ConnectionFailed():
            return connect.failed(tx, provider, report)
        case ConnectionGone():
            return connect.gone(tx, provider, report.provider_ref)
        case PaymentReported():
            payment = payments.by_provider_ref(tx, provider, report.provider_ref)
            if payment is None:
                # The provider may be quicker than its own answer to the creation.
                raise NotYet(f"There is no payment {report.provider_ref} of {provider} here.")
            payments.apply(tx, payment.organization_id, payment.id, report.report, "webhook")
            return True


def _give_up(tx: Tx, provider: str, delivery_id: str, error: str) -> None:
    tx.run(
        "UPDATE banking_inbox SET state = 'failed', last_error = ? WHERE provider = ? AND delivery_id = ? AND state = 'received'",
        error[:500], provider, delivery_id,
    )  # fmt: skip


def _postpone(tx: Tx, provider: str, delivery_id: str, attempts: int, error: str) -> None:
    given_up = attempts > len(RETRY_AFTER)
    wait = RETRY_AFTER[min(attempts, len(RETRY_AFTER)) - 1]
    tx.run(
        "UPDATE banking_inbox SET state = ?, next_attempt_at = ?, last_error = ?"
        " WHERE provider = ? AND delivery_id = ? AND state = 'received'",
        "failed" if given_up else "received", tx.now + wait, error[:500], provider, delivery_id,
    )  # fmt: skip
