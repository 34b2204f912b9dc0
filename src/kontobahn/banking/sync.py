"""Keeping up with the banks: refreshes, and the jobs that ask after payments, deliveries and ends of access.

Each job claims its rows in a transaction, asks the provider outside of any, and writes what it heard through the same doors
as a webhook would.
"""

from __future__ import annotations

from kontobahn import log
from kontobahn.api.call import Context
from kontobahn.banking import connect, connections, inbound, orders, payments
from kontobahn.banking.connections import Connection
from kontobahn.banking.payments import PaymentRow
from kontobahn.banking.provider import Banking, BankProvider, PaymentReport, ProviderRefused, RefreshType
from kontobahn.clock import HOUR, MINUTE, to_datetime
from kontobahn.db import Tx
from kontobahn.errors import Conflict, SetupError, Unavailable
from kontobahn.jobs import Job

# Four unattended accesses in 24 hours are what banks must allow.
AUTOMATIC_EVERY = 6 * HOUR
REFRESH_TAKES = 10 * MINUTE
# A payer who is just now at the bank may finish a little after the address has run out.
UNFINISHED_GRACE = HOUR
# Before a creation without an answer is called off, the provider has this long to know of it.
CREATION_GRACE = 5 * MINUTE
REMOVAL_RETRY = (MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, 24 * HOUR)
AT_ONCE = 100


def provider_of(context: Context, name: str) -> BankProvider:
    banking = context.part(Banking)
    provider = banking.providers.get(name)
    if provider is None:
        raise SetupError(f"The banking provider “{name}” is not set up in this installation.")
    return provider


# --- Refreshing


async def refresh(context: Context, row: Connection) -> Connection:
    """A manual refresh: asked for now, told by a webhook when it is done."""
    claimed = await context.db.write(_claim_manual, row)
    await _ask_for_news(context, claimed, "manual")
    return claimed


def _claim_manual(tx: Tx, row: Connection) -> Connection:
    connections.lock(tx, row.organization_id, row.id)
    row = connections.get(tx, row.organization_id, row.id)
    if row.status != "active":
        raise Conflict(f"The connection is {row.status}: reconnect it first.")
    # Choice 24: before next_refresh_possible_at 409 with the time.
    if row.next_refresh_possible_at > tx.now:
        possible = to_datetime(row.next_refresh_possible_at)
        raise Conflict(f"The next refresh is possible at {possible.isoformat()}.", next_refresh_possible_at=possible)
    if row.refresh_started_at is not None and row.refresh_started_at > tx.now - REFRESH_TAKES:
        raise Conflict("A refresh is under way.")
    return connections.change(tx, row, refresh_type="manual", refresh_started_at=tx.now)


async def _ask_for_news(context: Context, row: Connection, kind: RefreshType) -> None:
    try:
        await provider_of(context, row.provider).refresh(row.provider_ref, kind)
    except ProviderRefused as error:
        if error.error_class == "ActionNotSupported":
            # Says nothing of the connection.
            await context.db.write(_not_asked, row)
            raise Conflict(f"{error}.") from None
        await context.db.write(connections.fail, row, error.error_class, str(error))
        if kind == "manual":
            raise Conflict(f"The bank refused: {error}.") from None
    except Unavailable:
        await context.db.write(_not_asked, row)
        raise


def _not_asked(tx: Tx, row: Connection) -> None:
    connections.change(tx, row, refresh_type="", refresh_started_at=None)


async def refresh_automatically(context: Context) -> None:
    for row in await context.db.write(_claim_automatic):
        try:
            await _ask_for_news(context, row, "automatic")
        except (Unavailable, Conflict, SetupError) as error:
            log.warning("automatic_refresh_failed", connection_id=row.id, detail=str(error))


def _claim_automatic(tx: Tx) -> list[Connection]:
    claimed = []
    for organization_id, connection_id in tx.all(
        "SELECT organization_id, id FROM banking_connections WHERE status = 'active' AND automatic_refresh = 1"
        " AND last_automatic_at <= ? AND (refresh_started_at IS NULL OR refresh_started_at <= ?)"
        " ORDER BY last_automatic_at LIMIT ?",
        tx.now - AUTOMATIC_EVERY, tx.now - REFRESH_TAKES, AT_ONCE,
    ):  # fmt: skip
        connections.lock(tx, organization_id, connection_id)
        row = connections.get(tx, organization_id, connection_id)
        claimed.append(
            connections.change(tx, row, refresh_type="automatic", refresh_started_at=tx.now, last_automatic_at=tx.now)
        )
    return claimed


def expire_consents(tx: Tx) -> int:
    """Where the consent has run out, the person must go to the bank again."""
    expired = tx.all(
        "SELECT organization_id, id FROM banking_connections WHERE status = 'active' AND consent_expires_at <= ?",
        tx.now,
    )
    for organization_id, connection_id in expired:
        connections.lock(tx, organization_id, connection_id)
        row = connections.get(tx, organization_id, connection_id)
        connections.fail(
            tx, row, "AispConsentExpired", "The consent given at the bank has expired.", trigger="consent_expired"
        )
    return len(expired)


# --- Payments


async def ask_now(context: Context, row: PaymentRow) -> PaymentRow:
    """The payment as the bank has it now; Unavailable where the bank cannot be asked."""
    if row.status in payments.FINAL:
        return row
    provider = provider_of(context, row.provider)
    if row.provider_ref is None:
        return await _look_for(context, provider, row)
    try:
        report = await provider.payment_status(row.provider_ref)
    except ProviderRefused as error:
        report = PaymentReport(None, error.raw_status, error.error_class, str(error))
    row = await context.db.write(payments.apply, row.organization_id, row.id, report, payments.ASKED)
    if _never_finished(row, context.clock.now()):
        unfinished = PaymentReport("failed", None, "Unfinished", "The payer did not confirm the payment in time.")
        row = await context.db.write(payments.apply, row.organization_id, row.id, unfinished, "time")
    return row


async def _look_for(context: Context, provider: BankProvider, row: PaymentRow) -> PaymentRow:
    """Its creation had no answer. It is never created again; it is looked for."""
    order = await context.db.read(orders.as_order, row, context.settings.base_url)
    start = await provider.find_payment(order)
    if start is not None:
        return await context.db.write(payments.started, row, start, payments.ASKED)
    if row.created_at > context.clock.now() - CREATION_GRACE:
        return row
    never = PaymentReport("failed", None, "PaymentInitiationTimeout", "The payment never reached the bank.")
    return await context.db.write(payments.apply, row.organization_id, row.id, never, payments.ASKED)


def _never_finished(row: PaymentRow, now: int) -> bool:
    return row.status in payments.UNFINISHED and row.expires_at is not None and row.expires_at + UNFINISHED_GRACE <= now


async def ask_after_payments(context: Context) -> None:
    while claimed := await context.db.write(_claim_payments):
        for row in claimed:
            try:
                await ask_now(context, row)
            except (Unavailable, SetupError) as error:
                log.warning("payment_not_asked_after", payment_id=row.id, detail=str(error))


def _claim_payments(tx: Tx) -> list[PaymentRow]:
    rows = tx.all(
        f"SELECT {payments.COLUMNS} FROM banking_payments WHERE next_poll_at <= ? ORDER BY next_poll_at LIMIT ?",
        tx.now, AT_ONCE,
    )  # fmt: skip
    claimed = [PaymentRow(*row) for row in rows]
    for row in claimed:
        payments.poll_later(tx, row)
    return claimed


# --- Deliveries and ends of access


async def apply_waiting_deliveries(context: Context) -> None:
    for provider, delivery_id in await context.db.read(inbound.due):
        await inbound.apply_delivery(context, provider, delivery_id)


async def end_accesses(context: Context) -> None:
    """End at the provider what was removed here."""
    for provider_name, provider_ref in await context.db.write(_claim_removals):
        try:
            await provider_of(context, provider_name).remove(provider_ref)
        except (Unavailable, ProviderRefused, SetupError) as error:
            log.warning("access_not_ended", provider=provider_name, provider_ref=provider_ref, detail=str(error))
        else:
            await context.db.write(_removal_done, provider_name, provider_ref)


def _claim_removals(tx: Tx) -> list[tuple[str, str]]:
    claimed = []
    for provider, provider_ref, attempts in tx.all(
        "SELECT provider, provider_ref, attempts FROM banking_removals WHERE next_attempt_at <= ?"
        " ORDER BY next_attempt_at LIMIT ?",
        tx.now, AT_ONCE,
    ):  # fmt: skip
        wait = REMOVAL_RETRY[min(attempts, len(REMOVAL_RETRY) - 1)]
        tx.run(
            "UPDATE banking_removals SET attempts = attempts + 1, next_attempt_at = ?"
            " WHERE provider = ? AND provider_ref = ?",
            tx.now + wait, provider, provider_ref,
        )  # fmt: skip
        claimed.append((provider, provider_ref))
    return claimed


def _removal_done(tx: Tx, provider: str, provider_ref: str) -> None:
    tx.run("DELETE FROM banking_removals WHERE provider = ? AND provider_ref = ?", provider, provider_ref)


def banking_jobs(context: Context) -> list[Job]:
    async def tidy() -> None:
        await context.db.write(connect.remove_unfinished)
        await context.db.write(expire_consents)
        await context.db.write(inbound.purge)

    return [
        Job("apply bank deliveries", 2, lambda: apply_waiting_deliveries(context)),
        Job("ask after payments", 10, lambda: ask_after_payments(context)),
        Job("refresh bank connections", 60, lambda: refresh_automatically(context)),
        Job("end bank accesses", 30, lambda: end_accesses(context)),
        Job("tidy bank connections", 30, tidy),
    ]
